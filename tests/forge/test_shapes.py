"""Whatever GitHub's JSON holds in place of what it should: a value of ours, or a ForgeError."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from contract.description import Description
from contract.operations import Shapes
from contract.state import Comment, Pull, Review
from hypothesis import given, settings
from hypothesis import strategies as st

from vibe_gate.errors import ForgeError
from vibe_gate.forge import shapes

MADE = Shapes(Description(), "https://api.github.example", "octo/hello")
NOW = "2026-01-02T03:04:05Z"
REVIEW = Review(5, 7, "eve", "APPROVED", "a" * 40, "", NOW)
PARSED = {
    "pull": (shapes.pull_of, MADE.pull(Pull(7, "b" * 40, "a" * 40))),
    "comment": (lambda value: shapes.comment_of(value, "ada"), MADE.comment(Comment(5, 7, "eve", "hm", NOW, NOW))),
    "reviews": (lambda value: shapes.last_words([value]), MADE.review(REVIEW)),
}
ODD = st.sampled_from([None, True, 7, -1.5, "", "text", [], [None], {}, {"login": None}, {"id": "5"}])


def places(value: Any, where: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to everything inside."""
    found = [where]
    if isinstance(value, dict):
        for key, each in value.items():
            found += places(each, (*where, key))
    return found


def with_odd(value: Any, where: tuple[Any, ...], odd: Any) -> Any:
    if not where:
        return odd
    changed = copy.deepcopy(value)
    inner = changed
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = odd
    return changed


@settings(max_examples=400, deadline=None, derandomize=True)
@given(data=st.data(), kind=st.sampled_from(sorted(PARSED)), odd=ODD)
@pytest.mark.slow
def test_an_odd_value_anywhere_is_read_or_is_a_forge_error(data: st.DataObject, kind: str, odd: Any) -> None:
    parse, whole = PARSED[kind]
    where = data.draw(st.sampled_from(places(whole)))
    with contextlib.suppress(ForgeError):
        parse(with_odd(whole, where, odd))


def test_what_is_whole_is_read() -> None:
    assert shapes.pull_of(PARSED["pull"][1]).head_sha == "a" * 40
    assert PARSED["comment"][0](PARSED["comment"][1]).author == "eve"
    assert [each.login for each in PARSED["reviews"][0](PARSED["reviews"][1])] == ["eve"]
