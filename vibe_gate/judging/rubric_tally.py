"""Criteria to the outcome of a rubric, rubrics to that of a run, and the exit code: each decided
once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from msgspec import UNSET, Struct
from msgspec.structs import replace

from vibe_gate import errors
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import CriterionResult, RubricResult, RunOutcome
from vibe_gate.judging.defects import judge_defect
from vibe_gate.judging.vote_counting import is_proven

WORST_FIRST: tuple[RunOutcome, ...] = ("fail", "error", "inconclusive", "pass")


Effect = Literal[
    "stops", "lowers", "advises", "raises", "doubts", "leaves open", "breaks", "undecided", "none"
]
"""What one criterion does to its rubric; `EFFECT_MEANINGS` has them in words."""

EFFECT_MEANINGS: dict[Effect, str] = {
    "stops": "the rubric fails, whatever its score",
    "breaks": "the rubric is an error, unless it fails",
    "leaves open": "the rubric is inconclusive, unless it fails or is an error",
    "raises": "its weight counts as passed",
    "lowers": "its weight counts as failed",
    "doubts": "the rubric passes only if it would with this weight counted as failed; else it is inconclusive",
    "advises": "nothing: the finding is a warning, and says if it would have blocked",
    "undecided": "nothing, but a rubric in which nothing else is decided is inconclusive",
    "none": "nothing",
}

_WEIGHING: tuple[Effect, ...] = ("raises", "lowers", "stops")
_FAILING: tuple[Effect, ...] = ("lowers", "stops", "advises")


def effect_of(criterion: Criterion, result: CriterionResult, *, is_waived: bool = False) -> Effect:
    """What the criterion's result does to its rubric: the first rule that holds.

    Args:
        criterion: As the rubric states it.
        result: What checks or votes came to.
        is_waived: People let every finding of it pass.
    """
    if is_waived or result.outcome == "not_applicable":
        return "none"
    if result.unanswered:  # a missing answer never passes
        return _effect_of_gap(result)
    if result.outcome == "pass":
        if criterion.needs:  # claims pass nothing
            return "none"
        return "raises"
    if result.outcome == "fail" and criterion.proof == "required" and not is_proven(result):
        return "none"
    if result.is_advice:
        return "advises" if result.outcome == "fail" else "none"
    if result.outcome == "fail":
        return "stops" if result.must else "lowers"
    if result.must:
        return _effect_of_gap(result)
    if _has_voided_fail(criterion, result):
        return "doubts"
    return "undecided"


def _effect_of_gap(result: CriterionResult) -> Effect:
    """What a result does to its rubric that had to be an answer and is none."""
    if result.outcome == "error":
        return "breaks"
    return "leaves open"


def _has_voided_fail(criterion: Criterion, result: CriterionResult) -> bool:
    """Whether the criterion is undecided because a test passed that a fail had brought.

    Code under review can make any test pass. If only a proven fail of the criterion counts, a vote
    matters whose fail quoted a line that obliges the code.
    """
    if result.outcome != "abstain":
        return False
    for vote in result.votes:
        for defect in vote.defects:
            if judge_defect(defect) != "voided" or defect.proof is UNSET:
                continue
            has_obligation = any(line.standing != "void" for line in defect.proof.obligation)
            if criterion.proof != "required" or has_obligation:
                return True
    return False


class RubricTally(Struct, frozen=True):
    """The criteria of one rubric with what each does to it, in the rubric's order."""

    threshold: float
    """The least share of weight that passes, 0 to 1."""

    criteria: tuple[CriterionResult, ...]

    effects: tuple[Effect, ...]
    """One for each criterion."""

    def weight(self, *effects: Effect) -> float:
        """The summed weight of the criteria with one of these effects."""
        return sum(result.weight for result in self._results_with(effects))

    def ids(self, *effects: Effect) -> set[str]:
        """The ids of the criteria with one of these effects."""
        return {result.id for result in self._results_with(effects)}

    def _results_with(self, effects: Collection[Effect]) -> list[CriterionResult]:
        results = []
        for result, effect in zip(self.criteria, self.effects, strict=True):
            if effect in effects:
                results.append(result)
        return results

    def has(self, *effects: Effect) -> bool:
        """Whether a criterion has one of these effects."""
        return any(effect in effects for effect in self.effects)

    def score(self, *counted_as_failed: Effect) -> float:
        """Passed weight by decided weight, 0 to 1; with these effects counted as failed, too."""
        decided_weight = self.weight(*_WEIGHING, *counted_as_failed)
        if decided_weight:
            return self.weight("raises") / decided_weight
        is_applicable = any(effect not in ("none", "advises") for effect in self.effects)
        return 0.0 if is_applicable else 1.0

    @property
    def coverage(self) -> float:
        """Decided weight by applicable weight, 0 to 1; it is reported and decides nothing."""
        applicable_effects = [effect for effect in EFFECT_MEANINGS if effect != "none"]
        applicable_weight = self.weight(*applicable_effects)
        if not applicable_weight:
            return 1.0
        return self.weight(*_WEIGHING, "advises") / applicable_weight

    @property
    def outcome(self) -> RunOutcome:
        """The rubric's."""
        is_decided = self.has(*_WEIGHING)
        if self.has("stops") or (is_decided and self.score() < self.threshold):
            return "fail"
        if self.has("breaks"):
            return "error"
        if self.has("leaves open"):
            return "inconclusive"
        if not is_decided and self.has("doubts", "undecided"):
            return "inconclusive"
        if self.has("doubts") and self.score("doubts") < self.threshold:
            return "inconclusive"
        return "pass"

    @property
    def blocking_ids(self) -> set[str]:
        """The failed criteria that make the rubric fail."""
        if self.has(*_WEIGHING) and self.score() < self.threshold:
            return self.ids("stops", "lowers")
        return self.ids("stops")

    @property
    def would_block_ids(self) -> set[str]:
        """The failed criteria that make the rubric fail if advice blocked as any other fail
        does.
        """
        if self.has(*_FAILING) and self.score("advises") < self.threshold:
            return self.ids(*_FAILING)
        must_ids = {result.id for result in self.criteria if result.must}
        return self.ids("stops") | (self.ids("advises") & must_ids)


def tally_rubric(
    rubric: Rubric, results: Sequence[CriterionResult], waived_ids: Collection[str] = ()
) -> RubricTally:
    """What each result does to the rubric. `waived_ids`: failed criteria that people let pass."""
    criteria = {criterion.id: criterion for criterion in rubric.criterion}
    effects = tuple(
        effect_of(criteria[result.id], result, is_waived=result.id in waived_ids)
        for result in results
    )
    return RubricTally(rubric.pass_threshold, tuple(results), effects)


def decide(
    rubric: Rubric, results: Sequence[CriterionResult], waived_ids: Collection[str] = ()
) -> RubricResult:
    """The rubric's outcome from the results of its criteria. `waived_ids`: failed ones that people
    let pass.
    """
    return summarize_tally(rubric, tally_rubric(rubric, results, waived_ids))


def summarize_tally(
    rubric: Rubric,
    tally: RubricTally,
    reused_score: float | None = None,
) -> RubricResult:
    """The tally as bundles keep it.

    A fail that only advises says in `would_block` what it would have done.

    Args:
        rubric: The one that was tallied.
        tally: What each of its criteria does to it.
        reused_score: Of the receipt whose pass was taken over, in which judges' answers are not
            named one by one.
    """
    would_block_ids = tally.would_block_ids
    criteria = []
    for result, effect in zip(tally.criteria, tally.effects, strict=True):
        if effect == "advises":
            result = replace(result, would_block=result.id in would_block_ids)
        criteria.append(result)
    score = tally.score()
    if reused_score is not None and tally.outcome == "pass":
        score = reused_score
    return RubricResult(
        id=rubric.id,
        digest=rubric.digest,
        outcome=tally.outcome,
        score=round(score, 4),
        coverage=round(tally.coverage, 4),
        criteria=tuple(criteria),
        pass_threshold=rubric.pass_threshold,
    )


def run_outcome(rubrics: Sequence[RubricResult]) -> RunOutcome:
    """The worst that any rubric has; without rubrics, pass."""
    return worst_outcome(rubric.outcome for rubric in rubrics)


def worst_outcome(outcomes: Iterable[str]) -> RunOutcome:
    """The first of fail, error, inconclusive, pass among these; without any, pass. Others, as of
    skipped stages, do not count.
    """
    present_outcomes = set(outcomes)
    for outcome in WORST_FIRST:
        if outcome in present_outcomes:
            return outcome
    return "pass"


def workflow_outcome(
    outcomes: Iterable[str], *, lacks_verdict: bool, problem: RunOutcome | None, intact: bool
) -> RunOutcome:
    """The outcome of a workflow's run.

    Args:
        outcomes: Those of its gates and stages that count.
        lacks_verdict: Whether something that must be judged was not judged as it is now.
        problem: What something that went wrong outside of every stage comes to.
        intact: Whether what was reviewed is still what is there.
    """
    if not intact:
        return "error"
    if problem is not None:
        return problem
    if lacks_verdict:
        return worst_outcome([*outcomes, "inconclusive"])
    return worst_outcome(outcomes)


def exit_code(outcome: RunOutcome, *, needs_approval: bool, intact: bool) -> int:
    """The process's exit code.

    A broken snapshot outweighs everything; a fail outweighs a policy change, or an
    agent could turn a blocking fail into a warning by touching a policy file.
    """
    if not intact:
        return errors.INTEGRITY
    if outcome == "fail":
        return errors.FAIL
    if needs_approval:
        return errors.POLICY_CHANGED
    if outcome == "pass":
        return errors.PASS
    return errors.INCONCLUSIVE
