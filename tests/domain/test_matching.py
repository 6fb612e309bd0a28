"""Lines of two versions matched in order."""

from __future__ import annotations

import random

import pytest

from vibe_gate.domain.matching import carried, match_lines


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", []),
        ("", "ab", [-1, -1]),
        ("ab", "ab", [0, 1]),
        ("ab", "xaby", [-1, 0, 1, -1]),
        ("abc", "acb", [0, -1, 1]),  # what moved is new
        (
            "a}b}",
            "a}x}b}",
            [0, 1, -1, -1, 2, 3],
        ),  # the brace that came with x, not the one before it
        ("}}", "}}}", [0, 1, -1]),
        ("axb", "ayb", [0, -1, 2]),
    ],
)
def test_lines_are_matched_in_order(old, new, expected):
    assert match_lines(old, new) == expected


def test_matches_rise_and_are_equal_lines_however_the_text_was_changed():
    chance = random.Random(7)
    for _ in range(60):
        old = [chance.randrange(12) for _ in range(chance.randrange(60))]
        new = [line for line in old if chance.random() > 0.2]
        for _ in range(5):
            new.insert(chance.randrange(len(new) + 1), chance.randrange(12))
        pairs = [(at, to) for to, at in enumerate(match_lines(old, new)) if at >= 0]
        assert [at for at, _ in pairs] == sorted({at for at, _ in pairs})
        assert all(old[at] == new[to] for at, to in pairs)


BLOCK = ["def moved(one):", "    value = compute(one)", "    return value + 1"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (["a = call(one, 'two')"], ["a = call(", "    one,", '    "two",', ")"], [0, 0, 0, 0]),
        (["a = call(", "    one, two, three,", ")"], ["a = call(one, two, three)"], [0]),
        (["names = {", "    'one': 1,", "}"], ['names = {"one": 1}'], [0]),
        (["value = 'one two'"], ['value = "one two"'], [0]),
        (["value = 'one two'"], ["value = 'one two three'"], [-1]),
        ([*BLOCK, *"abcd"], [*"abcd", *BLOCK], [3, 4, 5, 6, 0, 1, 2]),
        (
            ["return some(value)", *"ab"],
            [*"ab", "return some(value)"],
            [1, 2, -1],
        ),  # it may have been typed again
    ],
)
def test_what_was_moved_or_reformatted_is_still_the_same(old, new, expected):
    assert carried(old, new) == expected
