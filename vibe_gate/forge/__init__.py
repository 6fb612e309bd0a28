"""The door to GitHub: what is on a pull request, and what vibe-gate posts there. The only importer
of github3.

    with open_forge(api_url, token, "owner/name", network=network) as forge:
        before = forge.sticky(7, MARKER)                     # our comment: by marker and by author
        forge.put_comment(7, body, marker=MARKER)            # updates it, or creates it once
        begun = forge.begin_check_run(head, "vibe-gate", title, summary)
        forge.check_run(head, "vibe-gate", run, begun=begun) # completes it; annotations in batches
        forge.review(7, head, comments)
        forge.approvals(7, head)                             # who approves, and why that does not count

Every refusal is a ForgeError. The forge waits for GitHub's limits; nothing is made twice
(docs/decisions/0009).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_gate.forge.payloads import (
    CheckAnnotation,
    CheckRun,
    Conclusion,
    DiffSide,
    LineComment,
    Reaction,
)
from vibe_gate.forge.shapes import Approval, CheckRecord, Comment, Pull, PullCommit

if TYPE_CHECKING:
    from vibe_gate.forge.forge import BegunCheckRun, Forge, PostedCheckRun, open_forge

__all__ = [
    "Approval",
    "BegunCheckRun",
    "CheckAnnotation",
    "CheckRecord",
    "CheckRun",
    "Comment",
    "Conclusion",
    "DiffSide",
    "Forge",
    "LineComment",
    "PostedCheckRun",
    "Pull",
    "PullCommit",
    "Reaction",
    "open_forge",
]


def __getattr__(name: str) -> object:
    """Load github3 only when something is posted: a report needs its values alone."""
    if name in ("BegunCheckRun", "Forge", "PostedCheckRun", "open_forge"):
        from vibe_gate.forge import forge

        return getattr(forge, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
