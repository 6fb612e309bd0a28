"""The printed table of docs/explanation/judging.md predicts what a rubric comes to, for every row and outcome."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from msgspec.structs import replace

from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import CriterionResult, Vote
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
"""Word -> what a rubric comes to whose one other criterion, of the same weight, passes: half is too little."""

ALONE = BESIDE_A_PASS | {"undecided": "inconclusive"}
"""The same of a rubric that has no other criterion."""


def printed_rows() -> dict[str, dict[str, str]]:
    """Situation -> outcome -> word, as the page prints them."""
    match = re.search(r"<!-- reference: criterion effects -->\n(.*?)<!-- /reference -->", PAGE.read_text(), re.DOTALL)
    assert match
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in match[1].splitlines()]
    outcomes = lines[0][1:]
    return {cells[0]: dict(zip(outcomes, cells[1:], strict=True)) for cells in lines[2:]}


def reference() -> ModuleType:
    """The module that prints the table; it has an example of each situation."""
    spec = importlib.util.spec_from_file_location("reference_of_docs", ROOT / "docs/site/reference.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CELLS = [(situation, outcome) for situation, words in printed_rows().items() for outcome in words]
EXAMPLES = reference().criterion_situations()
OTHER = Criterion(id="other", kind="judge", question="?")
OTHER_RESULT = CriterionResult(
    id="other", kind="judge", must=False, weight=1, outcome="pass", decided_by="unanimous",
    votes=(Vote(outcome="pass", said="pass", reason=""),),
)  # fmt: skip


@pytest.mark.parametrize(("situation", "outcome"), CELLS)
def test_the_printed_word_says_what_the_rubric_comes_to(situation: str, outcome: str) -> None:
    word = printed_rows()[situation][outcome]
    if word == "-":
        return
    criterion, example, is_waived = EXAMPLES[situation]
    result = replace(example, outcome=outcome)
    waived_ids = ["c"] if is_waived else []
    sees = (criterion.needs,) if criterion.needs else ()
    alone = Rubric(schema=1, id="r", sees=sees, criterion=(criterion,))
    beside = replace(alone, criterion=(criterion, OTHER))
    assert decide(alone, [result], waived_ids).outcome == ALONE[word]
    assert decide(beside, [result, OTHER_RESULT], waived_ids).outcome == BESIDE_A_PASS[word]


def test_every_row_of_the_page_has_an_example_and_every_word_a_meaning() -> None:
    rows = printed_rows()
    assert rows.keys() == EXAMPLES.keys()
    assert {word for words in rows.values() for word in words.values()} - {"-"} == BESIDE_A_PASS.keys()
