"""The lines of a change around the places of findings, as short hunks of its patch. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.change import Hunk, HunkLine, Side
from vibe_gate.domain.patch import by_path, hunks

CONTEXT_LINES = 3
"""Lines of the patch before and after a place: as many as git shows."""

MAX_EXCERPT_LINES = 20
"""Lines of one excerpt: more push the next finding off the screen, and the forge has the diff."""


class ExcerptPlace(Struct, frozen=True):
    """Lines of one side of a changed file."""

    path: str
    """As shown (`paths.quote`)."""

    first_line: int

    last_line: int

    side: Side


class Excerpt(Struct, frozen=True):
    """A part of a hunk."""

    text: str
    """As git writes it, with its `@@` line; bytes that are not UTF-8 are surrogate escapes."""

    hidden_lines: int
    """Lines of the patch from the end of the excerpt to the end of its place."""


class _IndexedHunk(Struct, frozen=True):
    """A hunk, and where in it the lines of each side are."""

    hunk: Hunk

    lines: Sequence[HunkLine]

    indexes: Mapping[Side, Sequence[int]]
    """By side: the indexes in `lines` of the lines of this side, which follow one another there."""

    def first_line(self, side: Side) -> int:
        """The number of the side's first line."""
        if side == "before":
            return self.hunk.old_start
        return self.hunk.new_start


def sections_by_path(patch: str) -> dict[str, bytes]:
    """The part of the patch about each file, by its path as shown (`paths.quote`)."""
    raw = patch.encode("utf-8", "surrogateescape")
    return {paths.quote(path): section for path, section in by_path(raw).items()}


def read_excerpts(
    sections: Mapping[str, bytes], places: Collection[ExcerptPlace]
) -> dict[ExcerptPlace, Excerpt]:
    """The excerpt of each place that the patch has, without those that it does not have.

    `sections`: as `sections_by_path` returns them.
    """
    places_by_path: dict[str, list[ExcerptPlace]] = {}
    for place in places:
        if place.first_line and place.path in sections:
            places_by_path.setdefault(place.path, []).append(place)
    excerpts: dict[ExcerptPlace, Excerpt] = {}
    for path, file_places in places_by_path.items():
        indexed_hunks = list(_index_hunks(sections[path]))
        for place in file_places:
            excerpt = _excerpt_at(place, indexed_hunks)
            if excerpt is not None:
                excerpts[place] = excerpt
    return excerpts


def _index_hunks(section: bytes) -> Iterator[_IndexedHunk]:
    """The hunks whose line numbers are right: redaction may have made one line of several."""
    for hunk in hunks(section):
        lines = hunk.lines
        before = [index for index, line in enumerate(lines) if line.origin != "+"]
        after = [index for index, line in enumerate(lines) if line.origin != "-"]
        if len(before) == hunk.old_lines and len(after) == hunk.new_lines:
            yield _IndexedHunk(hunk, lines, {"before": before, "after": after})


def _excerpt_at(place: ExcerptPlace, indexed_hunks: Sequence[_IndexedHunk]) -> Excerpt | None:
    """The excerpt from the first hunk that has lines of the place."""
    for indexed in indexed_hunks:
        indexes = indexed.indexes[place.side]
        side_start = indexed.first_line(place.side)
        first_line = max(place.first_line, side_start)
        last_line = min(max(place.last_line, place.first_line), side_start + len(indexes) - 1)
        if first_line <= last_line:
            first_index = indexes[first_line - side_start]
            last_index = indexes[last_line - side_start]
            return _cut_excerpt(indexed, first_index, last_index)
    return None


def _cut_excerpt(indexed: _IndexedHunk, first_index: int, last_index: int) -> Excerpt:
    """The lines with these indexes and their context, `MAX_EXCERPT_LINES` at most."""
    start = max(0, first_index - CONTEXT_LINES)
    start, end = _with_replacements(indexed.lines, start, last_index + 1 + CONTEXT_LINES)
    end = min(end, start + MAX_EXCERPT_LINES)
    before = _header_range(indexed, "before", start, end)
    after = _header_range(indexed, "after", start, end)
    rows = [f"@@ -{before} +{after} @@\n"]
    for line in indexed.lines[start:end]:
        content = line.content.removesuffix(b"\n").decode("utf-8", "surrogateescape")
        rows.append(f"{line.origin}{content}\n")
    return Excerpt("".join(rows), max(0, last_index + 1 - end))


def _with_replacements(lines: Sequence[HunkLine], start: int, end: int) -> tuple[int, int]:
    """The bounds `start` and `end`, wider if that shows removed lines with what replaces them, and
    still fits an excerpt.
    """
    first = start
    while first > max(0, end - MAX_EXCERPT_LINES) and lines[first - 1].origin != " ":
        first -= 1
    if lines[start].origin == "+" and any(line.origin == "-" for line in lines[first:start]):
        start = first
    last = end
    while last < min(len(lines), start + MAX_EXCERPT_LINES) and lines[last].origin != " ":
        last += 1
    if last > end and lines[end - 1].origin == "-":
        end = last
    return start, end


def _header_range(indexed: _IndexedHunk, side: Side, start: int, end: int) -> str:
    """One side's lines from the index `start` to `end`, as the `@@` line has them."""
    indexes = indexed.indexes[side]
    skipped_lines = bisect_left(indexes, start)
    lines = bisect_left(indexes, end) - skipped_lines
    first_line = indexed.first_line(side) + skipped_lines
    if not lines and skipped_lines:
        first_line -= 1  # git names the line before
    return f"{first_line},{lines}"
