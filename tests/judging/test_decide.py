"""The arithmetic of verdicts, as tables."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from fail_votes import fail_vote
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from vibe_gate.domain.cause import BudgetReached, TimeUsedUp
from vibe_gate.domain.document import read
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import (
    CheckedEvidence,
    CriterionResult,
    Level,
    NamedFinding,
    Outcome,
    RawFinding,
    RubricResult,
    RunOutcome,
    TrustBadge,
    Vote,
)
from vibe_gate.judging.decide import levels_of
from vibe_gate.judging.rubric_tally import decide, exit_code, run_outcome, tally_rubric
from vibe_gate.judging.vote_counting import (
    check_vote,
    combine_parts,
    pick_worst_result,
    result_of_votes,
    settle_votes,
)

BUDGET = BudgetReached(limit_usd=1)
DEADLINE = TimeUsedUp(seconds=60)
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
    assert settle_votes(votes(*cast), planned) == expected


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
    assert settle_votes(votes(*cast), planned, stopped=True) == expected


@given(st.lists(st.sampled_from(OUTCOMES), max_size=9), st.integers(1, 9))
def test_an_early_settlement_is_the_one_that_all_votes_would_have_given(cast, planned):
    early = settle_votes(votes(*cast[:planned]), planned)
    if early is None or early[0] == "abstain":
        return
    for outcome in OUTCOMES:
        full = votes(*cast[:planned], *[outcome] * (planned - len(cast[:planned])))
        assert settle_votes(full, planned)[0] == early[0]


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
    assert combine_parts(votes(*parts)).outcome == worst


def test_what_the_change_makes_different_is_told_of_all_its_parts_once():
    parts = zip(
        votes("pass", "fail", "pass"), ("It reads.", "It writes.", "It reads."), strict=True
    )
    changes = combine_parts([replace(part, changes=changes) for part, changes in parts]).changes
    assert changes == "It reads. It writes."


def test_of_the_parts_the_deciding_ones_give_reason_and_evidence():
    def part(outcome: Outcome, line: int, changes: str = "") -> Vote:
        return fail_vote(f"at {line}", at(line), outcome=outcome, said=outcome, changes=changes)

    combined = combine_parts(
        [part("pass", 1, "It reads."), part("fail", 2), part("fail", 3), part("abstain", 4)]
    )
    assert (combined.outcome, combined.said, combined.reason) == ("fail", "fail", "at 2")
    assert [defect.reason for defect in combined.defects] == ["at 2", "at 3", "at 1", "at 4"]
    assert (combined.changes, combined.outranked) == ("It reads.", "abstain")


def at(line: int, standing: str = "holds", flaw: str = "") -> CheckedEvidence:
    return CheckedEvidence(
        path="a", line=line, end_line=line, quote="x", standing=standing, why=flaw
    )


def fail(
    counterexample: str | None,
    *whys: str,
    said_outcome: Outcome | None = "fail",
    outcome: Outcome = "fail",
) -> Vote:
    """With evidence for each of `whys`: why it is void, or that it stands."""
    evidence = tuple(
        at(1, entry) if entry in ("holds", "relocated") else at(1, "void", entry) for entry in whys
    )
    return fail_vote(
        "r", *evidence, counterexample=counterexample or "", said=said_outcome, outcome=outcome
    )


@pytest.mark.parametrize(
    ("vote", "outcome", "reason"),
    [
        (fail("x -> y", "holds"), "fail", "r"),
        (fail("x -> y", "relocated"), "fail", "r"),
        (fail("x -> y", "not there", "relocated"), "fail", "r"),
        (fail("x -> y", "not there"), "abstain", 'answered "fail", but not there: r'),
        (
            fail("x -> y", "not there", "empty", "not there"),
            "abstain",
            'answered "fail", but empty; not there: r',
        ),
        (fail("x -> y"), "abstain", 'answered "fail", but no evidence was given: r'),
        (fail("", "holds"), "abstain", 'answered "fail", but no counterexample was given: r'),
        (fail(" ", "not there"), "abstain", 'answered "fail", but no counterexample was given: r'),
        (fail(None, "holds"), "abstain", 'answered "fail", but no counterexample was given: r'),
        # Whatever else was said, or is decided already, stays.
        (fail(None, said_outcome="pass", outcome="pass"), "pass", "r"),
        (fail(None, said_outcome=None, outcome="error"), "error", "r"),
        (fail(None, said_outcome=None, outcome="fail"), "fail", "r"),
        (fail(None, outcome="error"), "error", "r"),
    ],
)
def test_a_fail_needs_a_counterexample_and_standing_evidence(vote, outcome, reason):
    weighed = check_vote(vote)
    assert (weighed.outcome, weighed.said, weighed.reason) == (outcome, vote.said, reason)
    assert weighed.evidence == vote.evidence


def rubric(*criteria: tuple[bool, float], threshold: float = 0.7) -> Rubric:
    listed = [
        {"id": f"c{i}", "kind": "judge", "question": "?", "must": must, "weight": weight}
        for i, (must, weight) in enumerate(criteria)
    ]
    return read(Rubric, {"schema": 1, "id": "r", "pass_threshold": threshold, "criterion": listed})


def results(of: Rubric, *outcomes: Outcome | None) -> list[CriterionResult]:
    """Results of one answer each; None: no answer, as after a refusal."""
    return [
        CriterionResult(
            id=c.id,
            kind="judge",
            must=c.must,
            weight=c.weight,
            outcome=outcome or "abstain",
            decided_by="unanimous",
            votes=(
                Vote(
                    outcome=outcome or "abstain",
                    said=None if outcome == "error" else outcome,
                    reason="r",
                ),
            ),
        )
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
        ([OPTIONAL, OPTIONAL, OPTIONAL], ["pass", "abstain", "abstain"], "pass", 1.0, 0.3333),
        ([OPTIONAL, OPTIONAL], ["pass", "error"], "error", 1.0, 0.5),
        ([OPTIONAL], ["not_applicable"], "pass", 1.0, 1.0),
        ([OPTIONAL], ["abstain"], "inconclusive", 0.0, 0.0),
        # On the line is enough, just below is not: threshold 0.7. Coverage is told and decides
        # nothing.
        ([(False, 7), (False, 3)], ["pass", "fail"], "pass", 0.7, 1.0),
        ([(False, 6.9), (False, 3.1)], ["pass", "fail"], "fail", 0.69, 1.0),
        ([(False, 4.9), (False, 5.1)], ["pass", "abstain"], "pass", 1.0, 0.49),
        ([(False, 2), (False, 1)], ["pass", "fail"], "fail", 0.6667, 1.0),
        # What is not applicable does not count, not even of a must.
        ([MUST, OPTIONAL], ["not_applicable", "pass"], "pass", 1.0, 1.0),
        ([MUST, (False, 9)], ["pass", "not_applicable"], "pass", 1.0, 1.0),
        ([MUST], ["not_applicable"], "pass", 1.0, 1.0),
        # A must that failed outweighs all; a judge may leave open what is optional if something is
        # decided.
        ([MUST, OPTIONAL, (False, 9)], ["fail", "error", "pass"], "fail", 0.9, 0.9091),
        ([OPTIONAL, (False, 9)], ["abstain", "pass"], "pass", 1.0, 0.9),
        ([OPTIONAL, OPTIONAL, OPTIONAL], ["fail", "abstain", "abstain"], "fail", 0.0, 0.3333),
        # Without an answer nothing passes, however little the question weighs.
        ([OPTIONAL, (False, 9)], [None, "pass"], "inconclusive", 1.0, 0.9),
        ([OPTIONAL, (False, 9)], ["error", "pass"], "error", 1.0, 0.9),
        ([OPTIONAL, MUST], [None, "fail"], "fail", 0.0, 0.5),
    ],
)
def test_a_rubric_comes_out_by_weight_and_threshold(criteria, outcomes, expected, score, covered):
    weighed_rubric = rubric(*criteria)
    result = decide(weighed_rubric, results(weighed_rubric, *outcomes))
    assert (result.outcome, result.score, result.coverage) == (expected, score, covered)
    assert (result.id, result.digest, list(result.criteria)) == (
        "r",
        weighed_rubric.digest,
        results(weighed_rubric, *outcomes),
    )


ADVISES = TrustBadge(state="uncalibrated", sentence="uncalibrated", blocks=False)


def advised(of: Rubric, outcomes: Sequence[Outcome | None], *names: str) -> list[CriterionResult]:
    """The results of criteria of which those with these names only advise."""
    return [
        replace(result, trust=ADVISES) if result.id in names else result
        for result in results(of, *outcomes)
    ]


@pytest.mark.parametrize(
    ("criteria", "outcomes", "advising", "expected", "would"),
    [
        ([MUST, OPTIONAL], ["fail", "pass"], ["c0"], "pass", ["c0"]),
        ([MUST, (True, 9)], ["fail", "fail"], ["c0"], "fail", ["c0"]),
        ([MUST, MUST], ["fail", "fail"], ["c0", "c1"], "pass", ["c0", "c1"]),
        # Through the score: what only advises takes nothing from it, and its pass counts as before.
        ([OPTIONAL, OPTIONAL], ["fail", "pass"], ["c0"], "pass", ["c0"]),
        ([OPTIONAL, (False, 9)], ["fail", "pass"], ["c0"], "pass", []),
        ([OPTIONAL, OPTIONAL, (False, 3)], ["fail", "fail", "pass"], ["c0"], "pass", ["c0"]),
        ([(False, 9), OPTIONAL], ["pass", "fail"], ["c0"], "pass", []),
        ([(False, 9), OPTIONAL], ["fail", "fail"], ["c0"], "fail", ["c0"]),
        # It could not tell: advice, too. But a question that no model answered stays open.
        ([MUST, OPTIONAL], ["abstain", "pass"], ["c0"], "pass", []),
        ([MUST], ["abstain"], ["c0"], "pass", []),
        ([MUST, OPTIONAL], [None, "pass"], ["c0"], "inconclusive", []),
        ([MUST, OPTIONAL], ["error", "pass"], ["c0"], "error", []),
    ],
)
def test_a_fail_that_only_advises_does_not_block_and_says_what_it_would_have_done(
    criteria, outcomes, advising, expected, would
):
    weighed_rubric = rubric(*criteria)
    result = decide(weighed_rubric, advised(weighed_rubric, outcomes, *advising))
    assert result.outcome == expected
    assert [criterion.id for criterion in result.criteria if criterion.would_block is True] == would
    assert all(
        criterion.would_block is UNSET
        for criterion in result.criteria
        if criterion.outcome != "fail" or not criterion.is_advice
    )
    findings = [
        located_finding(criterion.id, "failure")
        for criterion in result.criteria
        if criterion.outcome == "fail" and criterion.is_advice
    ]
    tally = tally_rubric(weighed_rubric, advised(weighed_rubric, outcomes, *advising))
    assert {*levels_of([tally], [weighed_rubric], findings)} <= {"warning"}


def located_finding(criterion: str, level: Level) -> NamedFinding:
    """A finding of the change as a whole."""
    raw = RawFinding(path="", line=0, end_line=0, level=level, criterion=criterion, message="")
    return NamedFinding(raw, "0" * 16, (rubric((True, 1)).id,))


WORSE_LAST: tuple[RunOutcome, ...] = ("pass", "inconclusive", "error", "fail")


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 9), st.sampled_from(OUTCOMES), st.booleans()), min_size=1,
             max_size=5),
)  # fmt: skip
def test_advice_keeps_no_rubric_from_passing_and_better_answers_never_harm(criteria):
    weighed_rubric = rubric(*((must, weight) for must, weight, _, _ in criteria))
    outcomes = [outcome for _, _, outcome, _ in criteria]
    names = [f"c{index}" for index, (_, _, _, advises) in enumerate(criteria) if advises]
    came_out = decide(weighed_rubric, advised(weighed_rubric, outcomes, *names)).outcome
    if decide(weighed_rubric, results(weighed_rubric, *outcomes)).outcome == "pass":
        assert came_out == "pass"
    for index, outcome in enumerate(outcomes):
        if outcome == "fail":
            better = [*outcomes[:index], "pass", *outcomes[index + 1 :]]
            assert WORSE_LAST.index(
                decide(weighed_rubric, advised(weighed_rubric, better, *names)).outcome
            ) <= WORSE_LAST.index(came_out)


@pytest.mark.parametrize(
    ("outcomes", "expected", "score", "covered"),
    [
        (["pass", "fail"], "fail", 0.0, 1.0),
        (["pass", "abstain"], "inconclusive", 0.0, 0.0),
        (["fail", "pass"], "fail", 0.1667, 1.0),
        (["abstain", "pass"], "pass", 1.0, 0.1667),
        (["pass", "not_applicable"], "pass", 1.0, 1.0),
    ],
)
def test_a_claim_outweighs_nothing_that_fails_without_it(outcomes, expected, score, covered):
    plain = rubric((False, 5), OPTIONAL, threshold=0.8)
    claimed_rubric = replace(
        plain,
        sees=("issue",),
        criterion=(replace(plain.criterion[0], needs="issue"), plain.criterion[1]),
    )
    result = decide(claimed_rubric, results(claimed_rubric, *outcomes))
    assert (result.outcome, result.score, result.coverage) == (expected, score, covered)
    assert list(result.criteria) == results(claimed_rubric, *outcomes)


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
    rubric_results = [
        RubricResult(id="r", digest="", outcome=o, score=0, coverage=0, criteria=())
        for o in outcomes
    ]
    assert run_outcome(rubric_results) == expected


@pytest.mark.parametrize(
    ("outcome", "needs_approval", "intact", "code"),
    [
        ("pass", False, True, 0),
        ("fail", False, True, 1),
        ("inconclusive", False, True, 3),
        ("error", False, True, 3),
        ("pass", True, True, 4),
        ("fail", True, True, 1),
        ("inconclusive", True, True, 4),
        ("error", True, True, 4),
        ("pass", False, False, 5),
        ("fail", True, False, 5),
    ],
)
def test_the_exit_code_puts_integrity_first_and_a_fail_before_a_policy_change(
    outcome, needs_approval, intact, code
):
    assert exit_code(outcome, needs_approval=needs_approval, intact=intact) == code


@pytest.mark.parametrize(
    ("cast", "cause", "outcome", "decided_by", "reason"),
    [
        ([], DEADLINE, "abstain", "none", DEADLINE.reason),
        ([], None, "abstain", "none", "the votes do not agree"),
        (["pass", "fail", "fail"], DEADLINE, "fail", "majority", "fail"),
        (["pass", "pass"], None, "pass", "unanimous", "pass"),
        (["pass", "fail"], None, "abstain", "majority", "the votes do not agree"),
        (["pass", "error"], BUDGET, "error", "majority", "error"),
        (["pass", "fail"], BUDGET, "abstain", "majority", BUDGET.reason),
    ],
)
def test_a_criterion_gives_the_reason_of_its_outcome(cast, cause, outcome, decided_by, reason):
    criterion = Criterion(id="c", kind="judge", question="?", must=True, weight=3)
    assert result_of_votes(criterion, votes(*cast), 3, cause) == CriterionResult(
        id="c", kind="judge", must=True, weight=3, outcome=outcome, decided_by=decided_by, votes=tuple(votes(*cast)),
        reason=reason, cause=cause if cause and cause.reason == reason else UNSET,
    )  # fmt: skip


def test_without_a_reason_the_votes_do_not_agree():
    criterion = Criterion(id="c", kind="judge", question="?")
    assert result_of_votes(criterion, [], 1).reason == "the votes do not agree"
    agreed = [replace(vote, reason=reason) for vote in votes("pass") for reason in ("", "so it is")]
    assert result_of_votes(criterion, agreed, 2).reason == "so it is"
    assert result_of_votes(criterion, agreed[:1], 1, DEADLINE).reason == "", "they do agree"


def test_asked_with_and_without_the_message_the_worse_answer_counts_and_all_votes_are_kept():
    def result(*outcomes: Outcome) -> CriterionResult:
        return result_of_votes(
            Criterion(id="c", kind="judge", question="?"), votes(*outcomes), len(outcomes)
        )

    chosen = pick_worst_result([result("pass"), result("fail", "fail"), result("abstain")])
    assert (chosen.outcome, chosen.reason) == ("fail", "fail")
    assert [vote.outcome for vote in chosen.votes] == ["fail", "fail", "pass", "abstain"]


@pytest.mark.parametrize(
    ("criteria", "outcomes", "levels"),
    [
        (
            [MUST, OPTIONAL],
            ["fail", "fail"],
            ["failure", "failure"],
        ),  # score 0: all that failed blocks
        ([MUST, (False, 1), (False, 9)], ["fail", "fail", "pass"], ["failure", "warning", None]),
        ([(False, 1), (False, 9)], ["fail", "pass"], ["warning", None]),
        ([(False, 5), (False, 5)], ["fail", "pass"], ["failure", None]),
        ([(False, 1), (False, 1)], ["abstain", "fail"], [None, "failure"]),
        (
            [MUST, (False, 3), (False, 7)],
            ["fail", "fail", "pass"],
            ["failure", "failure", None],
        ),  # 7 of 11
        (
            [(True, 1), (False, 2), (False, 7)],
            ["fail", "fail", "pass"],
            ["failure", "warning", None],
        ),  # 7 of 10
        ([MUST, (False, 1)], ["error", "fail"], ["warning", "failure"]),
        ([MUST, (False, 1), (False, 9)], ["error", "fail", "pass"], ["warning", "warning", None]),
    ],
)
def test_a_finding_blocks_where_its_criterion_makes_the_rubric_fail(criteria, outcomes, levels):
    """None: the criterion has no finding. What a judge raised and the votes do not hold up is a
    warning.
    """
    weighed_rubric = rubric(*criteria)

    numbers = [number for number, level in enumerate(levels) if level]
    tally = tally_rubric(weighed_rubric, results(weighed_rubric, *outcomes))
    for begun in ("failure", "warning", "notice"):
        findings = [located_finding(f"c{number}", begun) for number in numbers]
        expected = ["notice" if begun == "notice" else levels[number] for number in numbers]
        assert levels_of([tally], [weighed_rubric], findings) == expected
