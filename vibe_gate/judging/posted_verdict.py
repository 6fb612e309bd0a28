"""The verdict that a job posts where no review of its own decided all of it.

A recheck of a pull request asks no model, a workflow's agents are not run for an approval, and what a
job that the change controls says is a claim.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.cause import AsksNoModel, CannotAsk, Coded, PassedInRun
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.verdict import CriterionResult, RubricResult, RunOutcome
from vibe_gate.errors import PASS, POLICY_CHANGED
from vibe_gate.judging.rubric_tally import decide, exit_code, run_outcome

RECHECK_CAUSES: tuple[type[Coded], ...] = (AsksNoModel, CannotAsk)
"""Why a recheck has no answer to a question that the standing verdict answered."""


class PostedVerdict(Struct, frozen=True):
    """A verdict as a job posts it."""

    outcome: RunOutcome

    exit_code: int

    rubrics: tuple[RubricResult, ...]


def keep_standing_outcome(
    outcome: RunOutcome, rubrics: tuple[RubricResult, ...], *, needs_approval: bool, intact: bool
) -> PostedVerdict:
    """The outcome that an earlier job gave; whether the gate's change needs approval is as it is
    now.

    Args:
        outcome: The earlier job's.
        rubrics: As far as they are known without a model.
        needs_approval: Whether a change of the gate waits for a person.
        intact: Whether the earlier job reviewed what is there.
    """
    return PostedVerdict(
        outcome, exit_code(outcome, needs_approval=needs_approval, intact=intact), rubrics
    )


def complete_by_standing_pass(
    definitions: Sequence[Rubric],
    rubrics: Sequence[RubricResult],
    waived_ids: Mapping[str, Collection[str]],
    cause: PassedInRun,
    *,
    needs_approval: bool,
) -> PostedVerdict:
    """The rubrics with the answers that a recheck lacks as passes, as an earlier pass had them, or let
    them pass.

    Checks and waivers are those of now, so the outcome can be another one.

    Args:
        definitions: The rubrics of the gate.
        rubrics: What the recheck came to.
        waived_ids: By rubric id, the failed criteria that people let pass.
        cause: Names the job that passed.
        needs_approval: Whether a change of the gate waits for a person.
    """
    definitions_by_id = {rubric.id: rubric for rubric in definitions}
    completed = []
    for rubric in rubrics:
        criteria = [_passed_before(criterion, cause) for criterion in rubric.criteria]
        completed.append(
            decide(definitions_by_id[rubric.id], criteria, waived_ids.get(rubric.id, ()))
        )
    outcome = run_outcome(completed)
    code = exit_code(outcome, needs_approval=needs_approval, intact=True)
    return PostedVerdict(outcome, code, tuple(completed))


def _passed_before(result: CriterionResult, cause: PassedInRun) -> CriterionResult:
    if not isinstance(result.cause, RECHECK_CAUSES):
        return result
    return replace(result, outcome="pass", decided_by="cache", reason=cause.sentence, cause=cause)


def judge_approvals_alone(*, needs_approval: bool) -> PostedVerdict:
    """Nothing but whether the gate's change is approved: a workflow's agents would have to be asked
    for the rest.
    """
    return PostedVerdict(
        "inconclusive", exit_code("inconclusive", needs_approval=needs_approval, intact=True), ()
    )


def distrust_claim(
    outcome: RunOutcome, code: int, rubrics: tuple[RubricResult, ...]
) -> PostedVerdict:
    """What counts of a verdict that a job claims which the change controls: anything but a pass.

    If the gate itself changed, a person must approve that all the same.

    Args:
        outcome: As claimed.
        code: The claimed exit code.
        rubrics: As claimed.
    """
    if outcome != "pass" and code != PASS:
        return PostedVerdict(outcome, code, rubrics)
    needs_approval = code == POLICY_CHANGED
    distrusted = exit_code("inconclusive", needs_approval=needs_approval, intact=True)
    return PostedVerdict("inconclusive", distrusted, rubrics)
