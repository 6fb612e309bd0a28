"""Commits that the one about to be made takes over, as git notes them in its folder: a pick's, a squashed branch's."""

from __future__ import annotations

import re
from pathlib import Path

from vibe_gate.domain.expressions import expression

MAX_TAKEN = 100
"""Squashed commits that are looked at, the newest first."""

_MAX_BYTES = 1_000_000

_PLACES = {
    "CHERRY_PICK_HEAD": expression(r"\A([0-9a-f]{40})\s*\Z"),
    "SQUASH_MSG": expression(r"^commit ([0-9a-f]{40})$", re.M),
}


def taken_over(git_dir: Path, message: str = "") -> tuple[str, ...]:
    """Their ids; () of a commit that stands for itself.

    `message` is that of a commit that was just made: of a squash git has forgotten all else by then.
    """
    found: list[str] = _PLACES["SQUASH_MSG"].findall(message)
    for name, pattern in _PLACES.items():
        file = git_dir / name
        if file.is_file() and file.stat().st_size <= _MAX_BYTES:
            found += pattern.findall(file.read_bytes().decode("latin-1"))
    return tuple(dict.fromkeys(found))[:MAX_TAKEN]
