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
    text = b"\n" + patch  # so that offsets in the patch are those of the line breaks before
    heads = list(_SECTION.finditer(text))
    for number, head in enumerate(heads, start=1):
        is_last = number == len(heads)
        end = len(patch) if is_last else heads[number].start()
        yield Section(_path_of_section(text, head, end), head.start(), end)


def _path_of_section(text: bytes, head: re.Match[bytes], end: int) -> str:
    """The path after the change; `head` is the section's first line, `end` where it ends."""
    head_end = text.find(b"\n@@ ", head.end(), end)
    if head_end < 0:
        head_end = end
    new_name = _RENAMED_TO.search(text, head.end(), head_end)
    if new_name:
        return _parse_path(new_name[1])
    return _second_name(head[1])


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
