"""A model's answer is read whatever its form; what cannot be read is said in a sentence that names
what to change.
"""

from __future__ import annotations

from typing import Any

import pytest
from answers import HANDLER, answer_to, answers, fails, fails_with, finding, passes

from vibe_gate.judging.reading import MAX_READ_DEFECTS, MAX_WORD, read_answers, write_objection

ASKED = ("a", "b")
FAILS = fails(criterion="a")


def without(answer: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key != name}


@pytest.mark.parametrize(
    "answer",
    [
        passes("a", "b"),
        answers(answer_to("b", "not_applicable"), FAILS),
        answers(answer_to("[a]", "PASS."), answer_to('"b"', "Not Applicable")),
        answers(answer_to("a", "abstain"), answer_to("b", "abstain", missing="more")),
        {
            "answers": [
                {"criterion": "a", "outcome": "pass"},
                {"criterion": "b", "outcome": "pass", "extra": 1},
            ]
        },
        answers(
            FAILS | {"evidence": [{"path": "a.py", "quote": "x\ny", "line": None}]},
            answer_to("b", missing=None),
        ),
    ],
)
def test_form_alone_sends_nothing_back(answer):
    assert write_objection(ASKED, answer) == ""
    assert read_answers(ASKED, answer).answers.keys() == {"a", "b"}


@pytest.mark.parametrize(
    ("answer", "mistake", "readable"),
    [
        (passes("a"), "b has no answer", {"a"}),
        (passes("a", "b", "b"), "b has 2 answers", {"a"}),
        (passes("a", "b", "c"), '"c" is not asked; the criteria are a, b', set()),
        (
            answers(answer_to("a", "maybe"), answer_to("b")),
            'a has the outcome "maybe"; the outcomes are pass, ',
            {"b"},
        ),
        (
            answers(without(FAILS, "counterexample"), answer_to("b")),
            "a fails without a counterexample: add ",
            {"a", "b"},
        ),
        (
            answers(FAILS | {"evidence": []}, answer_to("b")),
            "a fails without evidence: add path and quote ",
            {"a", "b"},
        ),
        ({"changes": "x"}, "object missing required field `answers`", set()),
    ],
)
def test_what_does_not_fit_is_named_and_the_other_answers_are_read(answer, mistake, readable):
    """An unknown criterion leaves none: what it was meant for is not known. None of these passes by
    it.
    """
    sentence = write_objection(ASKED, answer)
    assert sentence.startswith("The answer does not fit: ")
    assert mistake in sentence
    reading = read_answers(ASKED, answer)
    assert reading.answers.keys() == readable
    assert bool(reading.unfit) == (not readable)


@pytest.mark.parametrize(
    "fields",
    [
        {"findings": [finding()]},
        {"findings": [finding(evidence=[])]},
        {"findings": [finding(counterexample="")]},
        {"counterexample": "a missing file -> None", "evidence": [HANDLER]},
    ],
)
def test_a_defect_beside_a_pass_goes_back_and_leaves_no_answer(fields):
    answer = answers(answer_to("a", **fields), answer_to("b"))
    assert 'a has findings and the outcome "pass"' in write_objection(ASKED, answer)
    assert read_answers(ASKED, answer).answers.keys() == {"b"}


@pytest.mark.parametrize(
    "fields",
    [{"evidence": [HANDLER]}, {"counterexample": "none"}, {"findings": [{"reason": "None."}]}],
)
def test_what_names_no_defect_may_stand_beside_a_pass(fields):
    assert write_objection(ASKED, answers(answer_to("a", **fields), answer_to("b"))) == ""


def test_no_finding_of_a_fail_is_left_out_in_silence():
    findings = [finding(reason=f"Defect {number}.") for number in range(MAX_READ_DEFECTS + 1)]
    longest = answers(fails_with(*findings[:-1], criterion="a"), answer_to("b"))
    assert len(read_answers(ASKED, longest).answers["a"].findings) == MAX_READ_DEFECTS
    assert write_objection(ASKED, longest) == ""
    too_long = answers(fails_with(*findings, criterion="a"), answer_to("b"))
    assert "a has 21 findings; at most 20 are read" in write_objection(ASKED, too_long)
    assert read_answers(ASKED, too_long).answers.keys() == {"b"}


def test_a_long_word_of_the_model_is_not_repeated():
    assert "a text of 61 characters" in write_objection(
        ASKED, answers(answer_to("a", "x" * (MAX_WORD + 1)), answer_to("b"))
    )
