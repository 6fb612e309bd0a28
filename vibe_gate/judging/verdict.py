"""From answers to the verdict. Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import UNSET, Struct
from msgspec.structs import replace

from vibe_gate.checks import CheckResults
from vibe_gate.context.facts import Facts
from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.gate import POLICY, Waivers
from vibe_gate.domain.receipt import Waiver
from vibe_gate.domain.rubric import Criterion, Rubric, Sight
from vibe_gate.domain.verdict import CriterionResult, Finding, RubricResult, RunOutcome
from vibe_gate.gate.policy import PolicyImpact
from vibe_gate.judging.answers import Answers
from vibe_gate.judging.decide import OpenFail, decide_rubrics, open_fails
from vibe_gate.judging.findings import all_findings, fingerprinted, ordered, policy_approval, raised_by, told_apart
from vibe_gate.judging.rubric_tally import decide, exit_code, run_outcome
from vibe_gate.judging.vote_counting import result_of_votes, worst


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
    facts: Facts,
    checks: CheckResults,
    answers: Answers,
    impact: PolicyImpact,
    waivers: Waivers,
    *,
    intact: bool,
) -> RunVerdict:
    """The verdict: what checks and judges answered, without what `waivers` let pass."""
    rubrics = facts.rubrics
    results = [_criterion_results(rubric, facts, checks, answers) for rubric in rubrics]
    findings, raised_by_rubrics = _named_findings(rubrics, results, checks, impact)
    outcomes = decide_rubrics(rubrics, results, findings, raised_by_rubrics, waivers)
    approval = waivers.of_policy(impact.fingerprint)
    shown_findings = ordered(outcomes.findings)
    if approval is not None:
        shown_findings.append(policy_approval(approval.sentence))
    # Who approved a change of the gate is a finding of its own.
    waiver_notes = [
        f"{waiver.finding}: {waiver.sentence}"
        for waiver in outcomes.effective_waivers
        if not waiver.finding.startswith(POLICY)
    ]
    return RunVerdict(
        facts=facts,
        impact=impact,
        answers=answers,
        rubrics=tuple(_with_reused_score(result, answers) for result in outcomes.rubrics),
        findings=tuple(shown_findings),
        waivers=(*outcomes.effective_waivers, *filter(None, [approval])),
        intact=intact,
        needs_approval=approval is None and impact.needs_approval,
        expired=tuple(waivers.remarks(shown_findings, [file.path for file in facts.change.files])),
        notes=(*answers.notes, *checks.notes, *waiver_notes),
        repairs=checks.repairs,
    )


def fails_to_look_at(
    facts: Facts, checks: CheckResults, answers: Answers, impact: PolicyImpact, waivers: Waivers
) -> tuple[OpenFail, ...]:
    """The fails that get a second look, as far as the answers decide until now."""
    results = [_criterion_results(rubric, facts, checks, answers) for rubric in facts.rubrics]
    findings, _ = _named_findings(facts.rubrics, results, checks, impact)
    fails: list[OpenFail] = []
    for rubric, criterion_results in zip(facts.rubrics, results, strict=True):
        fails += open_fails(rubric, criterion_results, findings, waivers)
    return tuple(fails)


def _named_findings(
    rubrics: Sequence[Rubric],
    results: Sequence[Sequence[CriterionResult]],
    checks: CheckResults,
    impact: PolicyImpact,
) -> tuple[tuple[Finding, ...], list[Collection[str]]]:
    """All findings with their fingerprints, and for each the ids of the rubrics that it fails."""
    findings = all_findings(rubrics, results, checks, impact)
    rubric_ids = raised_by(rubrics, results, checks)
    by_rubrics: list[Collection[str]] = [rubric_ids.get(finding, ()) for finding in findings]
    return told_apart(rubrics, fingerprinted(findings), by_rubrics), by_rubrics


def _criterion_results(
    rubric: Rubric, facts: Facts, checks: CheckResults, answers: Answers
) -> tuple[CriterionResult, ...]:
    """What checks or judges answered to each criterion, in the rubric's order."""
    results = []
    for criterion in rubric.criterion:
        if criterion.kind == "check":
            results.append(checks.results[rubric.id, criterion.id])
            continue
        badge = facts.trust.get((rubric.id, criterion.id), UNSET)
        results.append(replace(_judge_result(rubric, criterion, facts, answers), trust=badge))
    return tuple(results)


def _with_reused_score(result: RubricResult, answers: Answers) -> RubricResult:
    """The score of the receipt whose pass was taken over, in which judges' answers are not named one by one."""
    if result.outcome != "pass" or result.id not in answers.reused:
        return result
    return replace(result, score=answers.reused[result.id])


def _judge_result(rubric: Rubric, criterion: Criterion, facts: Facts, answers: Answers) -> CriterionResult:
    if not any(criterion.concerns(file) for file in facts.change.files):
        return not_asked(criterion, "no changed file matches its paths", chosen=True)
    if criterion.needs and criterion.needs not in facts.known:
        return not_asked(criterion, UNKNOWN[criterion.needs], chosen=True)
    votes = answers.by_rubric.get(rubric.id)
    if votes is None:
        result = not_asked(criterion, answers.silence, chosen=answers.chosen)
        return replace(result, decided_by="cache") if rubric.id in answers.reused else result
    question_results = []
    for question_votes in votes:
        if criterion.needs and criterion.id not in question_votes.by_criterion:
            continue
        cast = question_votes.by_criterion.get(criterion.id, ())
        question_results.append(result_of_votes(criterion, cast, rubric.votes, question_votes.stopped))
    result = worst(question_results)
    if rubric.id in answers.asked or result.decided_by == "refuted":
        return result
    return replace(result, decided_by="cache")


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
    results = _criterion_results(rubric, facts, checks, Answers(chosen=True))
    return decide(rubric, results).outcome == "pass"
