"""The arithmetic of verdicts, as tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import CheckedEvidence, CriterionResult, Outcome, RubricResult, Vote
from vibe_gate.judging.decide import check_vote, combine, decide, exit_code, judged, run_outcome, settle

OUTCOMES: tuple[Outcome, ...] = ("pass", "fail", "abstain", "not_applicable", "error")


def votes(*outcomes: Outcome) -> list[Vote]:
    return [Vote(outcome=outcome, said=None, reason=outcome) for outcome in outcomes]


@pytest.mark.parametrize(
    ("cast", "planned", "expected"),
    [
        ([], 1, None),
        (["pass"], 1, ("pass", "unanimous")),
        (["abstain"], 1, ("abstain", "unanimous")),
        (["pass"], 3, None),
        (["pass", "pass"], 3, ("pass", "unanimous")),
        (["pass", "fail"], 3, None),
        (["pass", "fail", "fail"], 3, ("fail", "majority")),
        (["fail", "pass"], 2, ("abstain", "majority")),
        (["pass", "fail", "abstain", "error"], 5, ("abstain", "majority")),
        (["not_applicable", "not_applicable"], 3, ("not_applicable", "unanimous")),
    ],
)
def test_votes_settle_as_soon_as_no_further_one_can_change_the_outcome(cast, planned, expected):
    assert settle(votes(*cast), planned) == expected


@pytest.mark.parametrize(
    ("cast", "planned", "expected"),
    [
        ([], 3, ("abstain", "none")),
        (["error"], 3, ("error", "majority")),
        (["pass", "error"], 3, ("error", "majority")),
        (["pass", "pass", "error"], 3, ("pass", "majority")),
    ],
)
def test_voting_that_was_stopped_never_passes_or_fails_without_a_majority(cast, planned, expected):
    assert settle(votes(*cast), planned, stopped=True) == expected


@given(st.lists(st.sampled_from(OUTCOMES), max_size=9), st.integers(1, 9))
def test_an_early_settlement_is_the_one_that_all_votes_would_have_given(cast, planned):
    early = settle(votes(*cast[:planned]), planned)
    if early is None or early[0] == "abstain":
        return
    for rest in OUTCOMES:
        full = votes(*cast[:planned], *[rest] * (planned - len(cast[:planned])))
        assert settle(full, planned)[0] == early[0]


@pytest.mark.parametrize(
    ("parts", "worst"),
    [
        (["pass", "pass"], "pass"),
        (["pass", "fail", "error"], "fail"),
        (["pass", "error", "abstain"], "error"),
        (["pass", "abstain", "not_applicable"], "abstain"),
        (["not_applicable"], "not_applicable"),
    ],
)
def test_the_parts_of_a_large_change_give_the_worst_of_their_answers(parts, worst):
    assert combine(votes(*parts)).outcome == worst


def test_what_the_change_makes_different_is_told_of_all_its_parts_once():
    parts = zip(votes("pass", "fail", "pass"), ("It reads.", "It writes.", "It reads."), strict=True)
    told = combine([part.model_copy(update={"changes": changes}) for part, changes in parts]).changes
    assert told == "It reads. It writes."


def fail(counterexample: str | None, *standings: str) -> Vote:
    evidence = tuple(
        CheckedEvidence(path="a", line=1, end_line=1, quote="x", standing=s, why="not there" if s == "void" else "")
        for s in standings
    )
    return Vote(outcome="fail", said="fail", reason="r", counterexample=counterexample, evidence=evidence)


@pytest.mark.parametrize(
    ("vote", "outcome"),
    [
        (fail("x -> y", "holds"), "fail"),
        (fail("x -> y", "void", "relocated"), "fail"),
        (fail("x -> y", "void"), "abstain"),
        (fail("x -> y"), "abstain"),
        (fail("", "holds"), "abstain"),
        (fail(None, "holds"), "abstain"),
    ],
)
def test_a_fail_needs_a_counterexample_and_standing_evidence(vote, outcome):
    weighed = check_vote(vote)
    assert (weighed.outcome, weighed.said) == (outcome, "fail")


def rubric(*criteria: tuple[bool, float], threshold: float = 0.7, coverage: float = 0.5) -> Rubric:
    listed = [
        {"id": f"c{i}", "kind": "judge", "question": "?", "must": must, "weight": weight}
        for i, (must, weight) in enumerate(criteria)
    ]
    return Rubric.model_validate(
        {"schema": 1, "id": "r", "pass_threshold": threshold, "min_coverage": coverage, "criterion": listed}
    )


def results(of: Rubric, *outcomes: Outcome) -> list[CriterionResult]:
    return [
        CriterionResult(id=c.id, kind="judge", must=c.must, weight=c.weight, outcome=outcome, decided_by="unanimous")
        for c, outcome in zip(of.criterion, outcomes, strict=True)
    ]


OPTIONAL, MUST = (False, 1), (True, 1)


@pytest.mark.parametrize(
    ("criteria", "outcomes", "expected", "score", "covered"),
    [
        ([OPTIONAL, OPTIONAL], ["pass", "pass"], "pass", 1.0, 1.0),
        ([OPTIONAL, OPTIONAL], ["pass", "fail"], "fail", 0.5, 1.0),
        ([MUST, (False, 9)], ["fail", "pass"], "fail", 0.9, 1.0),
        ([OPTIONAL, (False, 9)], ["fail", "pass"], "pass", 0.9, 1.0),
        ([MUST, OPTIONAL], ["abstain", "pass"], "inconclusive", 1.0, 0.5),
        ([MUST, OPTIONAL], ["error", "pass"], "error", 1.0, 0.5),
        ([MUST, MUST], ["error", "fail"], "fail", 0.0, 0.5),
        ([MUST, MUST], ["error", "abstain"], "error", 0.0, 0.0),
        ([OPTIONAL, OPTIONAL, OPTIONAL], ["pass", "abstain", "abstain"], "inconclusive", 1.0, 0.3333),
        ([OPTIONAL, OPTIONAL], ["pass", "error"], "pass", 1.0, 0.5),
        ([OPTIONAL], ["not_applicable"], "pass", 1.0, 1.0),
        ([OPTIONAL], ["abstain"], "inconclusive", 0.0, 0.0),
    ],
)
def test_a_rubric_comes_out_by_weight_threshold_and_coverage(criteria, outcomes, expected, score, covered):
    made = rubric(*criteria)
    result = decide(made, results(made, *outcomes))
    assert (result.outcome, result.score, result.coverage) == (expected, score, covered)


def test_without_minimum_coverage_undecided_criteria_alone_still_do_not_pass():
    made = rubric(OPTIONAL, coverage=0.0)
    assert decide(made, results(made, "abstain")).outcome == "inconclusive"


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([], "pass"),
        (["pass", "inconclusive"], "inconclusive"),
        (["inconclusive", "error"], "error"),
        (["pass", "error", "fail"], "fail"),
    ],
)
def test_a_run_takes_the_first_of_fail_error_inconclusive_pass(outcomes, expected):
    made = [RubricResult(id="r", digest="", outcome=o, score=0, coverage=0, criteria=()) for o in outcomes]
    assert run_outcome(made) == expected


@pytest.mark.parametrize(
    ("outcome", "policy_blocks", "intact", "code"),
    [
        ("pass", False, True, 0),
        ("fail", False, True, 1),
        ("inconclusive", False, True, 3),
        ("error", False, True, 3),
        ("pass", True, True, 4),
        ("fail", True, True, 1),
        ("pass", False, False, 5),
    ],
)
def test_the_exit_code_puts_integrity_first_and_a_fail_before_a_policy_change(outcome, policy_blocks, intact, code):
    assert exit_code(outcome, policy_blocks=policy_blocks, intact=intact) == code


def test_a_criterion_that_nobody_answered_abstains_and_says_why():
    criterion = Criterion(id="c", kind="judge", question="?")
    result = judged(criterion, [], 3, "the deadline was reached")
    assert (result.outcome, result.decided_by, result.reason) == ("abstain", "none", "the deadline was reached")
