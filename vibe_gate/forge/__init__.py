"""The door to GitHub: what stands on a pull request, and what we put there. The only importer of github3.

    with open_forge(api_url, token, "owner/name", environ=environ) as forge:
        before = forge.sticky(7, MARKER)                     # what is ours: by marker and by author
        forge.put_comment(7, body, marker=MARKER)            # updates it, or makes it once
        forge.check_run(head, "vibe-gate", run)              # annotations in batches
        forge.review(7, head, body, comments)
        forge.approvals(7, head)                             # by people who may write and did not author it

Every refusal is a ForgeError. Waiting for GitHub's limits and looking whether a
request that was cut off took effect happen in here (docs/decisions/0009).
"""

from __future__ import annotations

from vibe_gate.forge.forge import Forge, PostedCheckRun, open_forge
from vibe_gate.forge.shapes import Approval, Comment, Listed, Pull, ReviewComment

__all__ = ["Approval", "Comment", "Forge", "Listed", "PostedCheckRun", "Pull", "ReviewComment", "open_forge"]
