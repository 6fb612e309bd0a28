"""What changed between the heads of two rounds, asked by the findings of either. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.verdict import Finding, FindingPlace
from vibe_gate.report.anchors import Anchors, read_anchors
from vibe_gate.report.reported_finding import ReportedFinding


class LinesSince(Protocol):
    """What a posting asks of the commits since an earlier head."""

    def brings(self, finding: Finding) -> bool:
        """Whether the finding stands on lines that are new or changed."""

    def replaces(self, finding: ReportedFinding) -> bool:
        """Whether any line of what was found at the earlier head is gone or changed."""


class _ReplacedLines(Struct, frozen=True):
    """What became of the lines of one file, by their numbers before."""

    removed: frozenset[int]
    inserted_after: frozenset[int]
    """Lines behind which something was put."""

    def replaces(self, first: int, last: int) -> bool:
        if any(line in self.removed for line in range(first, last + 1)):
            return True
        return any(line in self.inserted_after for line in range(first, last))


class LinesBetween(Struct, frozen=True):
    """The differences between two commits. Paths are as shown."""

    after: Anchors
    """The lines by their numbers after."""
    before: Mapping[str, _ReplacedLines | None]
    """Each changed file by its names before and after; None if its lines are not known."""

    def brings(self, finding: Finding) -> bool:
        """Whether the finding stands on lines that are new or changed, at any of its places."""
        return any(self._brings_place(place) for place in finding.places)

    def _brings_place(self, place: FindingPlace) -> bool:
        if not place.path:
            return bool(self.before)
        # Of a file as a whole, or without lines.
        if not place.line or not self.after.names(place.path):
            return place.path in self.before
        return self.after.touches(place.path, place.line, place.end_line)

    def replaces(self, finding: ReportedFinding) -> bool:
        """Whether any line of what was found before is gone or changed."""
        if not finding.path:
            return bool(self.before)
        return any(self._replaces(*place) for place in finding.places)

    def _replaces(self, path: str, first: int, last: int) -> bool:
        if path not in self.before:
            return False
        change = self.before[path]
        if not first or change is None:
            return True
        return change.replaces(first, last)


def lines_between(patch: bytes, files: Iterable[FileDiff]) -> LinesBetween:
    """The lines that differ between two commits, of their patch and its files."""
    before: dict[str, _ReplacedLines | None] = {}
    for file in files:
        change = _file_change(file)
        before |= {paths.quote(name): change for name in file.names}
    return LinesBetween(read_anchors(patch), before)


def _file_change(file: FileDiff) -> _ReplacedLines | None:
    """The change of the file's lines; None of a content that differs without a hunk: it is too
    large.
    """
    if not file.hunks:
        is_moved = file.after is not None and not file.brought_blob
        if not is_moved:
            return None
        return _ReplacedLines(frozenset(), frozenset())
    removed: set[int] = set()
    inserted_after: set[int] = set()
    for hunk in file.hunks:
        line = hunk.old_start
        if hunk.old_lines:
            line = hunk.old_start - 1
        for row in hunk.lines:
            if row.origin == "+":
                inserted_after.add(line)
                continue
            line += 1
            if row.origin == "-":
                removed.add(line)
    return _ReplacedLines(frozenset(removed), frozenset(inserted_after))
