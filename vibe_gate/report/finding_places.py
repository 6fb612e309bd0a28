"""Where a finding stands: its places, the lines that it quotes at each, and those that decide it.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Struct

from vibe_gate.domain.change import Side
from vibe_gate.domain.verdict import CheckedEvidence, Finding, FindingPlace

MAX_NAMED_PLACES = 5
"""Further places that a sentence names; it counts the others."""

MAX_DECIDING_LINES = 5
"""Lines that decide a finding and are shown beside it; the page has all."""

REMARK_WORDS = {
    "answer": "not worth stopping for",
    "second look": "not worth stopping for, says a second look",
    "intended": "intended, by lines that were there before",
}
"""Why a finding is only a remark, in a few words."""


class QuotedPlace(Struct, frozen=True):
    """A place of a finding with the lines that it quotes there."""

    place: FindingPlace

    lines: tuple[CheckedEvidence, ...]

    @property
    def path(self) -> str:
        """As the place has it."""
        return self.place.path

    @property
    def is_removed(self) -> bool:
        """Whether all that is quoted there are lines that the change removed."""
        return {line.side for line in self.lines} == {"before"}

    @property
    def side(self) -> Side:
        """The side of the change whose lines are meant."""
        if self.is_removed:
            return "before"
        return "after"

    @property
    def lines_after(self) -> tuple[int, int]:
        """The first and last line in the file after the change, the first of all if it has none
        there.
        """
        if self.is_removed:
            return 1, 1
        first = max(self.place.line, 1)
        return first, max(first, self.place.end_line)


def quoted_places(finding: Finding) -> list[QuotedPlace]:
    """Its places, the first one first. A line that is quoted at none of them goes with the first."""
    lines_by_index: list[list[CheckedEvidence]] = [[] for _ in finding.places]
    for line in finding.evidence:
        lines_by_index[_index_of_place(line, finding.places)].append(line)
    return [
        QuotedPlace(place, tuple(lines))
        for place, lines in zip(finding.places, lines_by_index, strict=True)
    ]


def _index_of_place(line: CheckedEvidence, places: Sequence[FindingPlace]) -> int:
    for index, place in enumerate(places):
        is_inside = not place.line or place.line <= line.line <= place.end_line
        if line.path == place.path and is_inside:
            return index
    return 0


def is_removed(finding: Finding) -> bool:
    """Whether the finding is shown at lines that the change removed."""
    return quoted_places(finding)[0].is_removed


def deciding_lines(finding: Finding) -> list[CheckedEvidence]:
    """The quoted lines, changed or not, that decide it, without those that stand at its places."""
    lines = []
    for line in finding.also:
        if line.standing != "void" and line not in finding.evidence:
            lines.append(line)
    return lines


def remark_words(finding: Finding) -> str:
    """Why it is only a remark; "" if it is not, or if something else says why it does not block."""
    if finding.remark is UNSET or finding.level != "warning":
        return ""
    return REMARK_WORDS[finding.remark]
