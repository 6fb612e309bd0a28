"""Quoted lines as places: what follows one another is one."""

from __future__ import annotations

import pytest

from vibe_gate.domain.verdict import CheckedEvidence, FindingPlace, merge_lines


def quoted(path: str, line: int, side: str = "after") -> CheckedEvidence:
    return CheckedEvidence(
        path=path, line=line, end_line=line, quote="x", side=side, standing="holds"
    )


@pytest.mark.parametrize(
    ("lines", "places"),
    [
        ([], []),
        ([("a", 3), ("a", 4), ("a", 5)], [("a", 3, 5)]),
        ([("a", 4), ("a", 3)], [("a", 3, 4)]),
        ([("a", 3), ("b", 4), ("a", 4)], [("a", 3, 4), ("b", 4, 4)]),
        ([("a", 3), ("a", 5)], [("a", 3, 3), ("a", 5, 5)]),
        ([("a", 3, "before"), ("a", 4)], [("a", 3, 3), ("a", 4, 4)]),
        ([("a", 3), ("a", 3)], [("a", 3, 3)]),
    ],
)
def test_lines_that_follow_one_another_are_one_place(lines, places):
    merged = merge_lines(quoted(*line) for line in lines)
    assert merged == [
        FindingPlace(path=path, line=first, end_line=last) for path, first, last in places
    ]
