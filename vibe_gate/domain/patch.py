"""Patches as git writes them: where the section of each file is, and its hunks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.change import Hunk
from vibe_gate.domain.escape import expression

# Each begins with bytes that a search can jump to: of a patch of megabytes hardly anything else is
# looked at.
_SECTION = expression(rb"\ndiff --git (.*)")
_RENAMED_TO = expression(rb"\nrename to (.*)")
_HUNK = expression(
    rb"@@ -(?<=\n@@ -)(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@.*\n?(?P<body>(?:[ +\-\\].*+(?:\n|\Z))*+)"
)


class Section(Struct, frozen=True):
    """The bytes `start` to `end` of a patch, about one file: its path after the change (before it,
    if deleted).
    """

    path: str
    start: int
    end: int


def sections(patch: bytes) -> Iterator[Section]:
    """The sections in order. A type change has two, a deletion and an addition."""
    patch = b"\n" + patch
    heads = list(_SECTION.finditer(patch))
    ends = [*(head.start() for head in heads[1:]), len(patch) - 1]
    for head, end in zip(heads, ends, strict=False):
        hunks_begin = patch.find(b"\n@@ ", head.end(), end)
        head_end = end if hunks_begin < 0 else hunks_begin
        new_name = _RENAMED_TO.search(patch, head.end(), head_end)
        path = _parse_path(new_name[1]) if new_name else _second_name(head[1])
        yield Section(path, head.start(), end)


def _second_name(names: bytes) -> str:
    """The path in "a/PATH b/PATH", which is the same in both but for a rename."""
    second_half = names[len(names) // 2 + 1 :]
    return _parse_path(second_half).removeprefix("b/")


def by_path(patch: bytes) -> dict[str, bytes]:
    """The text about each file; both sections of a type change as one."""
    patch_by_path: dict[str, bytes] = {}
    for part in sections(patch):
        patch_by_path[part.path] = patch_by_path.get(part.path, b"") + patch[part.start : part.end]
    return patch_by_path


def hunks(section: bytes) -> tuple[Hunk, ...]:
    """The hunks of a section."""
    return tuple(_hunk(match) for match in _HUNK.finditer(section))


def _hunk(match: re.Match[bytes]) -> Hunk:
    old_start, old_length, new_start, new_length, body = match.groups(b"1")
    return Hunk(int(old_start), int(old_length), int(new_start), int(new_length), body)


def _parse_path(written: bytes) -> str:
    return paths.unquote(paths.decode(written))
