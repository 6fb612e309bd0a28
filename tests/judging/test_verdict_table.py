"""The printed table of docs/explanation/judging.md predicts what a rubric comes to, for every row
and outcome.
"""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
from msgspec.structs import replace
from verdict_table import (
    MUST,
    OPTIONAL,
    OUTCOMES,
    SITUATIONS,
    VOIDED,
    WAIVED,
    can_occur,
    example_of,
)

from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import CriterionResult, Outcome, Vote
from vibe_gate.judging.rubric_tally import decide

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/judging.md"

BESIDE_A_PASS = {
    "stops": "fail",
    "lowers": "fail",
    "breaks": "error",
    "leaves open": "inconclusive",
    "doubts": "inconclusive",
    "raises": "pass",
    "advises": "pass",
    "undecided": "pass",
    "none": "pass",
}
"""Word -> what a rubric comes to whose one other criterion, of the same weight, passes: half is too
little.
"""

ALONE = BESIDE_A_PASS | {"undecided": "inconclusive"}
"""The same of a rubric that has no other criterion."""


def printed_rows() -> dict[str, dict[str, str]]:
    """Situation -> outcome -> word, as the page prints them."""
    match = re.search(
        r"<!-- reference: criterion effects -->\n(.*?)<!-- /reference -->",
        PAGE.read_text(),
        re.DOTALL,
    )
    assert match
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in match[1].splitlines()
    ]
    outcomes = lines[0][1:]
    return {cells[0]: dict(zip(outcomes, cells[1:], strict=True)) for cells in lines[2:]}


BASES = (MUST, OPTIONAL)
BESIDES = tuple(situation for situation in SITUATIONS if situation not in BASES)
CASES = [
    ({base, *besides}, outcome)
    for base in BASES
    for count in range(len(BESIDES) + 1)
    for besides in combinations(BESIDES, count)
    for outcome in OUTCOMES
]
"""Every combination of situations with every outcome."""

OTHER = Criterion(id="other", kind="judge", question="?")
OTHER_RESULT = CriterionResult(
    id="other", kind="judge", must=False, weight=1, outcome="pass", decided_by="unanimous",
    votes=(Vote(outcome="pass", said="pass", reason=""),),
)  # fmt: skip


def predicted_word(situations: set[str], outcome: str) -> str:
    """What a reader of the page takes: the first row that holds and has a word for the outcome."""
    for situation, words in printed_rows().items():
        is_for_must = situation == VOIDED and MUST in situations
        if situation in situations and not is_for_must and words[outcome] != "-":
            return words[outcome]
    raise AssertionError("no row has a word")


def test_the_page_predicts_what_every_criterion_does_to_its_rubric() -> None:
    wrong = []
    for situations, outcome in CASES:
        if WAIVED in situations and not can_occur(WAIVED, outcome):
            continue
        effect = example_of(situations, outcome).effect
        if effect != predicted_word(situations, outcome):
            wrong.append((sorted(situations), outcome, effect))
    assert wrong == []


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_printed_word_says_what_the_rubric_comes_to(
    situation: str, outcome: Outcome, base: str
) -> None:
    situations = {situation} if situation in BASES else {situation, base}
    if not can_occur(situation, outcome):
        return
    example = example_of(situations, outcome)
    word = predicted_word(situations, outcome)
    waived_ids = ["c"] if example.is_waived else []
    sees = (example.criterion.needs,) if example.criterion.needs else ()
    alone = Rubric(schema=1, id="r", sees=sees, criterion=(example.criterion,))
    beside = replace(alone, criterion=(example.criterion, OTHER))
    assert decide(alone, [example.result], waived_ids).outcome == ALONE[word]
    assert decide(beside, [example.result, OTHER_RESULT], waived_ids).outcome == BESIDE_A_PASS[word]


def test_every_row_of_the_page_is_a_situation_and_every_word_has_a_meaning() -> None:
    rows = printed_rows()
    assert tuple(rows) == SITUATIONS
    assert {word for words in rows.values() for word in words.values()} - {
        "-"
    } == BESIDE_A_PASS.keys()
