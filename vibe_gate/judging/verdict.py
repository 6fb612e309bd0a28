"""From answers to the verdict. Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import UNSET, Struct
from msgspec.structs import replace

from vibe_gate.checks import CheckResults
from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.context import Facts
from vibe_gate.domain.gate import POLICY, Waivers
from vibe_gate.domain.receipt import Waiver
from vibe_gate.domain.rubric import Criterion, Rubric, Sight
from vibe_gate.domain.verdict import CriterionResult, Finding, RubricResult, RunOutcome
from vibe_gate.gate.policy import PolicyImpact
from vibe_gate.judging.answers import Answers
from vibe_gate.judging.decide import (
    OpenFail,
    apply_overrides,
    decide,
    exit_code,
    levelled,
    open_fails,
    refuted_noticed,
    result_of_votes,
    run_outcome,
    without_refuted,
    worst,
)
from vibe_gate.judging.findings import all_findings, fingerprinted, ordered, policy_approval, raised_by, told_apart


class RunVerdict(Struct, frozen=True):
    """What all answers come to, after what people have let pass, and the facts and answers that it rests on.

    `waivers` took effect; `expired` are sentences about those that did not, or that nothing needs. `notes` are
    sentences for people; `repairs` are what checks would write. `intact`: what was reviewed is still what is there.
    """

    facts: Facts
    impact: PolicyImpact
    answers: Answers
    rubrics: tuple[RubricResult, ...]
    findings: tuple[Finding, ...]
    waivers: tuple[Waiver, ...]
    intact: bool
    needs_approval: bool
    expired: tuple[str, ...]
    notes: tuple[str, ...]
    repairs: tuple[FileDiff, ...]

    @property
    def outcome(self) -> RunOutcome:
        """The run's; an error if what was reviewed is not there any more."""
        return run_outcome(self.rubrics) if self.intact else "error"

    @property
    def exit_code(self) -> int:
        """The process's."""
        return exit_code(self.outcome, needs_approval=self.needs_approval, intact=self.intact)

    def __repr__(self) -> str:
        return f"RunVerdict({self.outcome}, {self.rubrics}, {self.findings})"


def verdict_of(
    facts: Facts, checks: CheckResults, answers: Answers, impact: PolicyImpact, waivers: Waivers, *, intact: bool
) -> RunVerdict:
    """The verdict: what checks and judges answered, without what `waivers` let pass."""
    change, rubrics = facts.change, facts.rubrics
    results = tuple(_rubric_result(rubric, facts, checks, answers) for rubric in rubrics)
    named, by_rubrics = _named_findings(rubrics, results, checks, impact)
    waived = apply_overrides(rubrics, results, refuted_noticed(named), waivers)
    approved = tuple(filter(None, [waivers.of_policy(impact.fingerprint)]))
    shown = (
        *ordered(levelled(rubrics, waived.rubrics, waived.findings, by_rubrics)),
        *(policy_approval(waiver.sentence) for waiver in approved),
    )
    # Who approved a change of the gate is a finding of its own.
    passed = (f"{one.finding}: {one.sentence}" for one in waived.effective if not one.finding.startswith(POLICY))
    return RunVerdict(
        facts=facts,
        impact=impact,
        answers=answers,
        rubrics=waived.rubrics,
        findings=shown,
        waivers=(*waived.effective, *approved),
        intact=intact,
        needs_approval=not approved and impact.needs_approval,
        expired=tuple(waivers.remarks(shown, [file.path for file in change.files])),
        notes=(*answers.notes, *checks.notes, *passed),
        repairs=checks.repairs,
    )


def fails_to_look_at(
    facts: Facts, checks: CheckResults, answers: Answers, impact: PolicyImpact, waivers: Waivers
) -> tuple[OpenFail, ...]:
    """The fails that get a second look, as far as the answers decide until now."""
    results = tuple(_rubric_result(rubric, facts, checks, answers) for rubric in facts.rubrics)
    named, _ = _named_findings(facts.rubrics, results, checks, impact)
    pairs = zip(facts.rubrics, results, strict=True)
    return tuple(fail for rubric, result in pairs for fail in open_fails(rubric, result, named, waivers))


def _named_findings(
    rubrics: Sequence[Rubric], results: Sequence[RubricResult], checks: CheckResults, impact: PolicyImpact
) -> tuple[tuple[Finding, ...], list[Collection[str]]]:
    """All findings with their fingerprints, and for each the ids of the rubrics that it fails."""
    found, raised = all_findings(rubrics, results, checks, impact), raised_by(rubrics, results, checks)
    by_rubrics: list[Collection[str]] = [raised.get(finding, ()) for finding in found]
    return told_apart(rubrics, fingerprinted(found), by_rubrics), by_rubrics


def _rubric_result(rubric: Rubric, facts: Facts, checks: CheckResults, answers: Answers) -> RubricResult:
    results = [
        checks.results[rubric.id, criterion.id]
        if criterion.kind == "check"
        else replace(
            _judge_result(rubric, criterion, facts, answers),
            trust=facts.trust.get((rubric.id, criterion.id), UNSET),
        )
        for criterion in rubric.criterion
    ]
    decided = decide(rubric, results)
    if rubric.id in answers.reused and decided.outcome == "pass":
        return replace(decided, score=answers.reused[rubric.id])
    return decided


def _judge_result(rubric: Rubric, criterion: Criterion, facts: Facts, answers: Answers) -> CriterionResult:
    if not any(criterion.concerns(file) for file in facts.change.files):
        return not_asked(criterion, "no changed file matches its paths", chosen=True)
    if criterion.needs and criterion.needs not in facts.known:
        return not_asked(criterion, UNKNOWN[criterion.needs], chosen=True)
    votes = answers.by_rubric.get(rubric.id)
    if votes is None:
        result = not_asked(criterion, answers.silence, chosen=answers.chosen)
        return replace(result, decided_by="cache") if rubric.id in answers.reused else result
    asked = [one for one in votes if not criterion.needs or criterion.id in one.by_criterion]
    result = worst(
        [result_of_votes(criterion, one.by_criterion.get(criterion.id, ()), rubric.votes, one.stopped) for one in asked]
    )
    result = result if rubric.id in answers.asked else replace(result, decided_by="cache")
    return without_refuted(result)


UNKNOWN: Mapping[Sight, str] = {
    "message": "the author says nothing about the change",
    "prompt": "no captured session left a changed file as it is now, so what was asked for is not known",
    "guidance": "the trusted revision has no AGENTS.md or CLAUDE.md above the changed files",
    "issue": "no issue is known that this closes; the Action reads those of a pull request",
}
"""Why a criterion is not applicable that needs a claim of this kind."""


def not_asked(criterion: Criterion, why: str, *, chosen: bool) -> CriterionResult:
    """A judge criterion that nobody was asked about.

    `chosen`: it does not bear on this change or was left out on purpose; otherwise
    it could not be asked, and stays undecided.
    """
    return CriterionResult(
        id=criterion.id,
        kind="judge",
        must=criterion.must,
        weight=float(criterion.weight),
        outcome="not_applicable" if chosen else "abstain",
        decided_by="none",
        reason=why,
    )


def passes_by_checks(rubric: Rubric, facts: Facts, checks: CheckResults) -> bool:
    """Whether the rubric would pass by its checks alone: only then can its judges' answers be taken over unseen."""
    return _rubric_result(rubric, facts, checks, Answers(chosen=True)).outcome == "pass"
