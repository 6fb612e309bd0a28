"""Lines of a change at which a forge takes comments, read from its patch. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.patch import hunks, sections

if TYPE_CHECKING:
    from vibe_gate.forge import DiffSide


class Anchors(Struct, frozen=True):
    """Lines of a change. Paths are asked for as shown (`paths.quote`); the fields have them as git
    does.
    """

    places: Mapping[tuple[str, DiffSide], Mapping[int, int]] = {}
    """By path and side, line number -> number of its hunk."""
    added: Set[tuple[str, int]] = frozenset()
    """Paths and lines that the change added."""

    def holds(self, path: str, start: int, end: int, side: DiffSide = "RIGHT") -> bool:
        """Whether a comment may stand at lines `start`..`end`: all within one hunk."""
        places = self.places.get((paths.unquote(path), side), {})
        hunk = places.get(start)
        if hunk is None or end < start or end - start > len(places):
            return False
        return all(places.get(line) == hunk for line in range(start, end + 1))

    def touches(self, path: str, start: int, end: int) -> bool:
        """Whether any of the lines `start`..`end` of the after side was added by the change."""
        unquoted_path = paths.unquote(path)
        lines = [line for added_path, line in self.added if added_path == unquoted_path]
        return any(start <= line <= end for line in lines)

    def names(self, path: str) -> bool:
        """Whether the change has hunks of this file."""
        unquoted_path = paths.unquote(path)
        return (unquoted_path, "LEFT") in self.places or (unquoted_path, "RIGHT") in self.places


def read_anchors(patch: bytes) -> Anchors:
    """The anchors of a patch as git writes it. A hunk that does not add up has none: redaction made
    a line of several.

    Both sides of a renamed file go by its new name, as findings do.
    """
    places: dict[tuple[str, DiffSide], dict[int, int]] = {}
    added: set[tuple[str, int]] = set()
    for section in sections(patch):
        path = section.path
        for number, hunk in enumerate(hunks(patch[section.start : section.end])):
            before = [line for line in hunk.lines if line.origin != "+"]
            after = [line for line in hunk.lines if line.origin != "-"]
            if len(before) != hunk.old_lines or len(after) != hunk.new_lines:
                continue
            old_lines = range(hunk.old_start, hunk.old_start + hunk.old_lines)
            new_lines = range(hunk.new_start, hunk.new_start + hunk.new_lines)
            left_places = places.setdefault((path, "LEFT"), {})
            left_places |= dict.fromkeys(old_lines, number)
            right_places = places.setdefault((path, "RIGHT"), {})
            right_places |= dict.fromkeys(new_lines, number)
            for line_number, line in zip(new_lines, after, strict=True):
                if line.origin == "+":
                    added.add((path, line_number))
    return Anchors(places, added)
