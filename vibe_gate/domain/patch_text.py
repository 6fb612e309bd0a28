"""Patches that git wrote, as text: split into files and hunks, and made visible for people."""

from __future__ import annotations

import re
from typing import cast

from vibe_gate.domain.change import Hunk, Line, Origin

_ESCAPED = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r",
            b'"': b'"', b"\\": b"\\"}  # fmt: skip
_SECTION = re.compile(rb"^diff --git ", re.MULTILINE)
_RENAMED_TO = re.compile(rb"^rename to (.*)$", re.MULTILINE)
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*$", re.MULTILINE)
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)


def split_patch(patch: bytes) -> dict[bytes, bytes]:
    """The sections of a patch that git wrote, by path after the change (before it, of a deleted file).

    A type change has two sections, a deletion and an addition; they stay together.
    """
    starts = [match.start() for match in _SECTION.finditer(patch)]
    sections: dict[bytes, bytes] = {}
    for start, end in zip(starts, [*starts[1:], len(patch)], strict=False):
        section = patch[start:end]
        path = _path_of(section)
        sections[path] = sections.get(path, b"") + section
    return sections


def _path_of(section: bytes) -> bytes:
    header = section.partition(b"\n@@ ")[0]
    if renamed := _RENAMED_TO.search(header):
        return unquoted(renamed[1])
    names = header.partition(b"\n")[0].removeprefix(b"diff --git ")
    return unquoted(names[len(names) // 2 + 1 :])[2:]  # both names are the same but for "a/" and "b/"


def unquoted(name: bytes) -> bytes:
    """A path that git wrote, in quotes or not, as the bytes that it is."""
    if not name.startswith(b'"'):
        return name
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1]) or bytes([int(match[1], 8)]), name[1:-1])


def hunks(section: bytes) -> tuple[Hunk, ...]:
    """The hunks of one section of a patch."""
    return tuple(_hunk(match, section) for match in _HUNK.finditer(section))


def _hunk(header: re.Match[bytes], section: bytes) -> Hunk:
    old_start, old, new_start, new = (1 if group is None else int(group) for group in header.groups())
    lines: list[Line] = []
    left_old, left_new, at = old, new, header.end() + 1
    while left_old or left_new or section[at : at + 1] == b"\\":
        end = section.find(b"\n", at) + 1 or len(section)
        origin, content = section[at : at + 1], section[at + 1 : end]
        at = end
        if origin == b"\\":  # "\\ No newline at end of file"
            lines[-1] = Line(lines[-1].origin, lines[-1].content[:-1])
            continue
        left_old -= origin != b"+"
        left_new -= origin != b"-"
        lines.append(Line(cast("Origin", origin.decode("ascii")), content))
    return Hunk(old_start, old, new_start, new, tuple(lines))


def visible(text: bytes) -> str:
    """A patch as text that is safe on a terminal: what cannot be seen is escaped."""
    lines = text.decode("utf-8", "surrogateescape").split("\n")
    return "\n".join(line if line.isprintable() else "".join(map(_visible_char, line)) for line in lines)


def _visible_char(char: str) -> str:
    if char.isprintable() or char == "\t":
        return char
    if "\udc80" <= char <= "\udcff":  # a byte that is not UTF-8
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode("ascii")
