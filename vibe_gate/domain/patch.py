"""Patches as git writes them: where the section of each file is, and its hunks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, cast

from vibe_gate.domain import paths
from vibe_gate.domain.change import Hunk, HunkLine, Origin
from vibe_gate.domain.escape import expression

_SECTION = expression(rb"^diff --git (.*)$", re.MULTILINE)
_RENAMED_TO = expression(rb"^rename to (.*)$", re.MULTILINE)
_HUNK = expression(rb"^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@.*$", re.MULTILINE)
_NO_NEWLINE = b"\\"  # "\ No newline at end of file"


class Section(NamedTuple):
    """The bytes `start` to `end` of a patch, about one file: its path after the change (before it, if deleted)."""

    path: str
    start: int
    end: int


def sections(patch: bytes) -> Iterator[Section]:
    """The sections in order. A type change has two, a deletion and an addition."""
    heads = list(_SECTION.finditer(patch))
    ends = [*(head.start() for head in heads[1:]), len(patch)]
    for head, end in zip(heads, ends, strict=False):
        hunks_begin = patch.find(b"\n@@ ", head.end(), end)
        renamed = _RENAMED_TO.search(patch, head.end(), end if hunks_begin < 0 else hunks_begin)
        # But for a rename, both names are the same behind "a/" and "b/".
        path = _path(renamed[1]) if renamed else _path(head[1][len(head[1]) // 2 + 1 :]).removeprefix("b/")
        yield Section(path, head.start(), end)


def by_path(patch: bytes) -> dict[str, bytes]:
    """The text about each file; both sections of a type change as one."""
    found: dict[str, bytes] = {}
    for path, start, end in sections(patch):
        found[path] = found.get(path, b"") + patch[start:end]
    return found


def hunks(section: bytes) -> tuple[Hunk, ...]:
    """The hunks of a section. A line without its line feed ends a file that has none there."""
    return tuple(_hunk(match, section) for match in _HUNK.finditer(section))


def _hunk(header: re.Match[bytes], section: bytes) -> Hunk:
    old_start, old, new_start, new = (1 if group is None else int(group) for group in header.groups())
    lines: list[HunkLine] = []
    at = header.end() + 1
    while (origin := section[at : at + 1]) in (b" ", b"+", b"-", _NO_NEWLINE):
        end = section.find(b"\n", at) + 1 or len(section)
        if origin != _NO_NEWLINE:
            lines.append(HunkLine(cast("Origin", origin.decode()), section[at + 1 : end]))
        elif lines:
            lines[-1] = HunkLine(lines[-1].origin, lines[-1].content.removesuffix(b"\n"))
        at = end
    return Hunk(old_start, old, new_start, new, tuple(lines))


def _path(written: bytes) -> str:
    return paths.unquote(paths.decode(written))
