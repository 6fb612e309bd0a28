"""The verdict that a job posts where no review of its own decided all of it, as tables."""

from __future__ import annotations

import pytest
from summaries import criterion, open_question, rubric

from vibe_gate.domain.cause import AsksNoModel, BudgetReached, NoKey, PassedInRun
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.errors import FAIL, INCONCLUSIVE, INTEGRITY, PASS, POLICY_CHANGED
from vibe_gate.judging.posted_verdict import (
    complete_by_standing_pass,
    distrust_claim,
    judge_approvals_alone,
    keep_standing_outcome,
)

STATED = Rubric(
    schema=1,
    id="quality",
    criterion=(
        Criterion(id="checked", kind="check", check="no-secrets", must=True),
        Criterion(id="asked", kind="judge", question="?", must=True),
    ),
)
BEFORE = PassedInRun(run=4711)


@pytest.mark.parametrize(
    ("outcome", "code", "counts"),
    [
        ("pass", PASS, ("inconclusive", INCONCLUSIVE)),
        ("pass", POLICY_CHANGED, ("inconclusive", POLICY_CHANGED)),
        ("fail", PASS, ("inconclusive", INCONCLUSIVE)),
        ("fail", FAIL, ("fail", FAIL)),
        ("error", INCONCLUSIVE, ("error", INCONCLUSIVE)),
        ("inconclusive", POLICY_CHANGED, ("inconclusive", POLICY_CHANGED)),
        ("error", INTEGRITY, ("error", INTEGRITY)),
    ],
)
def test_a_claimed_pass_is_none_and_anything_worse_stays(outcome, code, counts):
    verdict = distrust_claim(outcome, code, ())
    assert (verdict.outcome, verdict.exit_code) == counts


@pytest.mark.parametrize(
    ("outcome", "needs_approval", "intact", "code"),
    [
        ("fail", False, True, FAIL),
        ("fail", True, True, FAIL),
        ("inconclusive", True, True, POLICY_CHANGED),
        ("pass", False, False, INTEGRITY),
    ],
)
def test_a_standing_outcome_stays_and_the_approval_is_that_of_now(
    outcome, needs_approval, intact, code
):
    verdict = keep_standing_outcome(outcome, (), needs_approval=needs_approval, intact=intact)
    assert (verdict.outcome, verdict.exit_code) == (outcome, code)


@pytest.mark.parametrize(
    ("needs_approval", "code"), [(True, POLICY_CHANGED), (False, INCONCLUSIVE)]
)
def test_approvals_alone_are_no_pass(needs_approval, code):
    verdict = judge_approvals_alone(needs_approval=needs_approval)
    assert (verdict.outcome, verdict.exit_code, verdict.rubrics) == ("inconclusive", code, ())


@pytest.mark.parametrize(
    ("checked", "cause", "waived", "outcome"),
    [
        ("pass", AsksNoModel(), (), "pass"),
        ("pass", NoKey(), (), "pass"),
        ("pass", BudgetReached(limit_usd=1), (), "inconclusive"),
        ("fail", AsksNoModel(), (), "fail"),
        ("fail", AsksNoModel(), ("checked",), "pass"),
        ("error", AsksNoModel(), (), "error"),
    ],
)
def test_a_standing_pass_gives_only_the_answers_that_a_look_lacks(checked, cause, waived, outcome):
    results = rubric(criterion("checked", checked), open_question("asked", cause))
    verdict = complete_by_standing_pass(
        [STATED], [results], {"quality": waived}, BEFORE, needs_approval=False
    )
    assert verdict.outcome == outcome
    looked_at = verdict.rubrics[0].criteria[1]
    is_answered = not isinstance(cause, BudgetReached)
    assert (looked_at.outcome, looked_at.cause) == (
        ("pass", BEFORE) if is_answered else ("abstain", cause)
    )


def test_a_gate_that_waits_for_approval_is_no_pass_by_a_standing_one():
    results = rubric(criterion("checked"), open_question("asked", NoKey()))
    verdict = complete_by_standing_pass([STATED], [results], {}, BEFORE, needs_approval=True)
    assert (verdict.outcome, verdict.exit_code) == ("pass", POLICY_CHANGED)
