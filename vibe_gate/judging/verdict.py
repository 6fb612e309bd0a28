"""From answers to the verdict. Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vibe_gate.checks import CheckResults
from vibe_gate.domain.change import Change
from vibe_gate.domain.gate import Waivers
from vibe_gate.domain.receipt import Waiver
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import CriterionResult, Finding, RubricResult, RunOutcome
from vibe_gate.gate.policy import PolicyImpact
from vibe_gate.judging.answers import JudgeResult
from vibe_gate.judging.decide import apply_overrides, decide, exit_code, judged, levelled, run_outcome, worst
from vibe_gate.judging.findings import all_findings, fingerprinted, ordered, policy_approval


class RunVerdict(NamedTuple):
    """What all answers come to, after what people have let pass (`waivers`: those that took effect)."""

    rubrics: tuple[RubricResult, ...]
    findings: tuple[Finding, ...]
    waivers: tuple[Waiver, ...]
    intact: bool
    needs_approval: bool

    @property
    def outcome(self) -> RunOutcome:
        """The run's; an error if what was reviewed is not there any more."""
        return run_outcome(self.rubrics) if self.intact else "error"

    @property
    def exit_code(self) -> int:
        """The process's."""
        return exit_code(self.outcome, policy_blocks=self.needs_approval, intact=self.intact)


def assemble_verdict(
    change: Change,
    rubrics: Sequence[Rubric],
    checks: CheckResults,
    answers: JudgeResult,
    waivers: Waivers,
    impact: PolicyImpact,
    *,
    intact: bool,
) -> RunVerdict:
    """The verdict; `intact`: what was reviewed is still what is there."""
    results = tuple(_rubric_result(rubric, change, checks, answers) for rubric in rubrics)
    findings = fingerprinted(all_findings(rubrics, results, checks, impact))
    waived = apply_overrides(rubrics, results, findings, waivers)
    shown = ordered(levelled(rubrics, waived.rubrics, waived.findings))
    approved = tuple(filter(None, [waivers.of_policy(impact.fingerprint)]))
    return RunVerdict(
        rubrics=waived.rubrics,
        findings=(*shown, *(policy_approval(waiver.sentence) for waiver in approved)),
        waivers=(*waived.effective, *approved),
        intact=intact,
        needs_approval=not approved and impact.needs_approval,
    )


def _rubric_result(rubric: Rubric, change: Change, checks: CheckResults, answers: JudgeResult) -> RubricResult:
    results = [
        checks.results[rubric.id, criterion.id]
        if criterion.kind == "check"
        else _judge_result(rubric, criterion, change, answers)
        for criterion in rubric.criterion
    ]
    decided = decide(rubric, results)
    if rubric.id in answers.reused and decided.outcome == "pass":
        return decided.model_copy(update={"score": answers.reused[rubric.id]})
    return decided


def _judge_result(rubric: Rubric, criterion: Criterion, change: Change, answers: JudgeResult) -> CriterionResult:
    if not any(criterion.concerns(file) for file in change.files):
        return not_asked(criterion, "no changed file matches its paths", chosen=True)
    votes = answers.votes.get(rubric.id)
    if votes is None:
        result = not_asked(criterion, answers.silence, chosen=answers.chosen)
        return result.model_copy(update={"decided_by": "cache"}) if rubric.id in answers.reused else result
    result = worst([judged(criterion, one.votes.get(criterion.id, ()), rubric.votes, one.stopped) for one in votes])
    return result if rubric.id in answers.asked else result.model_copy(update={"decided_by": "cache"})


def not_asked(criterion: Criterion, why: str, *, chosen: bool) -> CriterionResult:
    """A judge criterion that nobody was asked about.

    `chosen`: it does not bear on this change or was left out on purpose; otherwise
    it could not be asked, and stays undecided.
    """
    return CriterionResult(
        id=criterion.id,
        kind="judge",
        must=criterion.must,
        weight=criterion.weight,
        outcome="not_applicable" if chosen else "abstain",
        decided_by="none",
        reason=why,
    )


def passes_by_checks(rubric: Rubric, change: Change, checks: CheckResults) -> bool:
    """Whether the rubric would pass by its checks alone: only then can its judges' answers be taken over unseen."""
    return _rubric_result(rubric, change, checks, JudgeResult(chosen=True)).outcome == "pass"
