"""What a hook says and does if vibe-gate itself failed.

The standard library alone: a package may be what is missing.
"""

from __future__ import annotations

import re
from pathlib import Path

STOPPABLE = ("pre-commit", "pre-merge-commit", "commit-msg", "pre-push")
"""The hooks by which git can be stopped."""

_BLOCKS = re.compile(r"""(?m)^\s*(on\.)?inconclusive\s*=\s*["']block["']""")

MAX_GATE = 1_000_000
"""Bytes of a gate.toml that are searched."""


def loud(sentence: str) -> str:
    """The sentence between two rules of exclamation marks."""
    rule = "!" * min(len(sentence) + 12, 100)
    return f"{rule}\nvibe-gate: {sentence}\n{rule}"


def goes_through(stage: str) -> str:
    """What a hook says that lets git go on without a review."""
    if stage == "reference-transaction":
        return "NOT CHECKED whether a hook let the commit through."
    if stage not in STOPPABLE:
        return "NOT RECORDED whether a hook let the commit through; `vibe-gate verify` says what is known of it."
    action = {"pre-push": "push", "pre-merge-commit": "merge"}.get(stage, "commit")
    return f"NOT REVIEWED. The {action} goes through; CI will block it."


def is_stopped(stage: str) -> str:
    """What a hook says that stops git for want of a review."""
    action = {"pre-push": "push", "pre-merge-commit": "merge"}.get(stage, "commit")
    return (
        f'NOT REVIEWED. The {action} is stopped, because gate.toml has [on] inconclusive = "block".'
    )


def files_want_block(start: Path) -> bool:
    """Whether the gate.toml that lies in the working tree has `[on] inconclusive = "block"`.

    Searched as text: this is asked if the gate in force could not be read.
    """
    for folder in (start, *start.parents):
        try:
            with (folder / ".vibe-gate" / "gate.toml").open("rb") as file:
                return _BLOCKS.search(file.read(MAX_GATE).decode("utf-8", "replace")) is not None
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return False
