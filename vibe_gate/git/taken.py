"""Commits that another one takes over, as git notes them in its folder: a pick's, a squashed branch's, a revert's."""

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

_STEP = expression(r"(?:p|pick|r|reword|e|edit|s|squash|f|fixup)(?: -[cC])? ([0-9a-f]{40})\b")
"""Of the steps of a rebase, those that take a commit over."""

_APPLIED = expression(r"([0-9a-f]{40}) ")
"""Of the list that `git rebase --apply` keeps: which commit the next one was made of."""

_PICKED = expression(r"^\(cherry picked from commit ([0-9a-f]{40})\)$", re.M)
_REVERTED = expression(r"^This reverts commit ([0-9a-f]{40})\b", re.M)


def taken_over(git_dir: Path, message: str = "") -> tuple[str, ...]:
    """Their ids; () of a commit that stands for itself.

    `message` is that of a commit that was just made: of a squash git has forgotten all else by then.
    """
    found: list[str] = _PLACES["SQUASH_MSG"].findall(message)
    for name, pattern in _PLACES.items():
        found += pattern.findall(_text(git_dir / name))
    return tuple(dict.fromkeys(found))[:MAX_TAKEN]


def replayed(git_dir: Path, during: str, message: str) -> tuple[str, ...]:
    """Ids of the commits that git may have made one just made from, in a rebase, pick or revert; `message` is its own.

    Anybody can write all of this: what they are, and the commit made of them, has to agree.
    """
    if during == "revert":
        return tuple(_REVERTED.findall(message))[:1]
    found = [*_PLACES["CHERRY_PICK_HEAD"].findall(_text(git_dir / "CHERRY_PICK_HEAD")), *_PICKED.findall(message)[-1:]]
    steps = (
        _STEP.match(_last(git_dir / "rebase-merge" / "done")),
        _APPLIED.match(_last(git_dir / "rebase-apply" / "rewritten")),
    )
    return tuple(dict.fromkeys([*found, *(step[1] for step in steps if step)]))


def _last(file: Path) -> str:
    return _text(file).rstrip("\n").rpartition("\n")[2]


def _text(file: Path) -> str:
    """What a file of git's says; "" of one that is not there, or too large."""
    return file.read_bytes().decode("latin-1") if file.is_file() and file.stat().st_size <= _MAX_BYTES else ""
