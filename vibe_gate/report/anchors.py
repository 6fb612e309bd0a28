"""Lines of a change that a forge lets a comment stand at: those of its hunks, read from a stored patch. Pure.

The patch may be redacted and is not trusted: a hunk whose lines do not add up to what
its header says has no anchors, for nobody knows any more which line is which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from vibe_gate.domain import paths

DiffSide = Literal["LEFT", "RIGHT"]
"""A forge's words for the before and the after side."""

_HUNK = re.compile(rb"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@")


@dataclass(frozen=True, slots=True)
class Anchors:
    """Lines by file. Paths are asked for as shown (`paths.quote`)."""

    _places: dict[tuple[str, DiffSide], dict[int, int]] = field(default_factory=dict)
    """Line number -> number of its hunk."""
    _texts: dict[tuple[str, int], bytes] = field(default_factory=dict)
    """Lines that the change added, without their LF."""

    def holds(self, path: str, start: int, end: int, side: DiffSide = "RIGHT") -> bool:
        """Whether a comment may stand at lines `start`..`end`: all within one hunk."""
        places = self._places.get((paths.unquote(path), side), {})
        hunk = places.get(start)
        if hunk is None or end < start or end - start > len(places):
            return False
        return all(places.get(line) == hunk for line in range(start, end + 1))

    def touches(self, path: str, start: int, end: int) -> bool:
        """Whether any of the lines `start`..`end` of the after side was added by the change."""
        held = paths.unquote(path)
        if end - start > len(self._texts):
            return any(name == held and start <= line <= end for name, line in self._texts)
        return any((held, line) in self._texts for line in range(start, end + 1))

    def names(self, path: str) -> bool:
        """Whether the change has hunks of this file."""
        held = paths.unquote(path)
        return any((held, side) in self._places for side in ("LEFT", "RIGHT"))

    def added(self, path: str, line: int) -> bytes | None:
        """The text of an added line, without its LF; None for any other line."""
        return self._texts.get((paths.unquote(path), line))


def anchors(patch: bytes) -> Anchors:
    """The anchors of a patch as `git diff` writes it, with `a/` and `b/` before the paths."""
    found = Anchors()
    old = new = ""
    hunk = 0
    lines = iter(patch.split(b"\n"))
    line = next(lines, None)
    while line is not None:
        header = _HUNK.match(line)
        if line.startswith(b"diff --git "):
            old = new = ""
        elif line.startswith(b"--- "):
            old = _path(line[4:], b"a/")
        elif line.startswith(b"+++ "):
            new = _path(line[4:], b"b/")
        elif header is not None and (old or new):
            hunk += 1
            line = _read_hunk(found, (old, new), header, lines, hunk)
            continue
        line = next(lines, None)
    return found


def _read_hunk(
    found: Anchors, names: tuple[str, str], header: re.Match[bytes], lines: Iterator[bytes], number: int
) -> bytes | None:
    """Take the hunk's lines; returns the line after them."""
    start, removed, at, added = (int(group) if group is not None else 1 for group in header.groups())
    right: list[tuple[int, bytes | None]] = []
    left: list[int] = []
    line = next(lines, None)
    while line is not None and (line[:1] in (b" ", b"+", b"-", b"\\")):
        if line[:1] in (b" ", b"+"):
            right.append((at + len(right), line[1:] if line[:1] == b"+" else None))
        if line[:1] in (b" ", b"-"):
            left.append(start + len(left))
        line = next(lines, None)
    if len(right) == added and len(left) == removed:
        name = names[1] or names[0]  # of a renamed file both sides go by the new name, as with findings
        found._places.setdefault((name, "RIGHT"), {}).update((place, number) for place, _ in right)
        found._places.setdefault((name, "LEFT"), {}).update((place, number) for place in left)
        found._texts.update(((name, place), text) for place, text in right if text is not None)
    return line


def _path(raw: bytes, prefix: bytes) -> str:
    """The path as the program holds it; "" for /dev/null."""
    text = paths.unquote(paths.decode(raw.removesuffix(b"\t")))
    start = paths.decode(prefix)
    return text[len(start) :] if text.startswith(start) else ""
