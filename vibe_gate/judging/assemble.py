"""What all answers come to: rubric results, findings, policy changes, and what people have let pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vibe_gate.checks.run import Checked
from vibe_gate.domain import escape
from vibe_gate.domain.decide import decide, judged, run_outcome
from vibe_gate.domain.receipt import Waiver
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import Cost, PolicyChange, Unreviewed
from vibe_gate.domain.verdict import CriterionResult, Finding, RubricResult, RunOutcome
from vibe_gate.domain.waiver import Waivers, apply_overrides, spares
from vibe_gate.gate import policy, trust
from vibe_gate.gate.case import Case
from vibe_gate.judging import summarize
from vibe_gate.judging.heard import Heard


@dataclass(frozen=True, slots=True)
class Weighed:
    """What all answers come to, after what people have let pass (`waivers`: those that took effect)."""

    rubrics: tuple[RubricResult, ...]
    findings: tuple[Finding, ...]
    policy_changes: tuple[PolicyChange, ...]
    waivers: tuple[Waiver, ...]
    intact: bool
    needs_approval: bool

    @property
    def outcome(self) -> RunOutcome:
        """The run's; an error where what was reviewed is not there any more."""
        return run_outcome(self.rubrics) if self.intact else "error"


def weigh(case: Case, checked: Checked, heard: Heard, waivers: Waivers, *, intact: bool) -> Weighed:
    """The verdict; `intact`: what was reviewed is still what is there."""
    rubrics = tuple(_rubric_result(case, rubric, checked, heard) for rubric in case.rubrics)
    waived = apply_overrides(case.rubrics, rubrics, summarize.fingerprinted(_findings(case, checked, rubrics)), waivers)
    changes = _policy_changes(case)
    approved = tuple(filter(None, [waivers.of_policy(policy.fingerprint(_policy_files(case)))]))
    blocking = any(change.level == "block" for change in changes)
    return Weighed(
        rubrics=waived.rubrics,
        findings=(*waived.findings, *(policy.approval(waiver.sentence) for waiver in approved)),
        policy_changes=changes,
        waivers=(*waived.effective, *approved),
        intact=intact,
        needs_approval=not approved and (blocking or trust.is_first_gate(case)),
    )


def blocking_check(checked: Checked, waivers: Waivers) -> str | None:
    """The first `must` check that fails and that nobody lets pass: then no judge has to be asked."""
    findings = summarize.fingerprinted(_ordered(checked.findings))
    failed = [result.id for result in checked.results.values() if result.must and result.outcome == "fail"]
    return next((name for name in failed if not spares(name, findings, waivers)), None)


def _rubric_result(case: Case, rubric: Rubric, checked: Checked, heard: Heard) -> RubricResult:
    results: list[CriterionResult] = []
    for criterion in rubric.criterion:
        said = heard.judged.get(rubric.id)
        if criterion.kind == "check":
            results.append(checked.results[rubric.id, criterion.id])
        elif not any(criterion.concerns(file) for file in case.change.files):
            results.append(summarize.not_asked(criterion, "no changed file matches its paths", chosen=True))
        elif said is None:
            result = summarize.not_asked(criterion, heard.silence, chosen=heard.chosen)
            known = rubric.id in heard.vouched
            results.append(result.model_copy(update={"decided_by": "cache"}) if known else result)
        else:
            result = judged(criterion, said.votes.get(criterion.id, ()), rubric.votes, said.stopped)
            results.append(result.model_copy(update={"decided_by": "cache"}) if rubric.id in heard.cached else result)
    decided = decide(rubric, results)
    if rubric.id in heard.vouched and decided.outcome == "pass":
        return decided.model_copy(update={"score": heard.vouched[rubric.id]})
    return decided


def passes_alone(case: Case, rubric: Rubric, checked: Checked) -> bool:
    """Whether the rubric would pass by its checks alone: only then can its judges' answers be taken over unseen."""
    return _rubric_result(case, rubric, checked, Heard({}, Cost(), chosen=True)).outcome == "pass"


def _findings(case: Case, checked: Checked, rubrics: tuple[RubricResult, ...]) -> list[Finding]:
    found = list(checked.findings)
    for rubric, result in zip(case.rubrics, rubrics, strict=True):
        for criterion, outcome in zip(rubric.criterion, result.criteria, strict=True):
            found += summarize.findings_of(criterion, outcome)
    found += [policy.warning(file) for file, level in _policy_files(case) if level == "warn"]
    return _ordered(found)


def _ordered(found: Iterable[Finding]) -> list[Finding]:
    order = {"failure": 0, "warning": 1, "notice": 2}
    return sorted(found, key=lambda finding: (order[finding.level], finding.path, finding.line))


def unreviewed(case: Case, heard: Heard) -> tuple[Unreviewed, ...]:
    """Everything that no judge was shown, with the reason: silence about it would look like approval."""
    if heard.silence:
        return summarize.unasked(case.change.files, heard.silence)
    questions = [criterion for rubric in case.rubrics for criterion in rubric.judged]
    nobodys = [file for file in case.change.files if not any(criterion.concerns(file) for criterion in questions)]
    unanswered = [item for said in heard.judged.values() for item in said.unreviewed]
    return (*dict.fromkeys(unanswered), *summarize.unasked(nobodys, "no judge criterion concerns this path"))


def _policy_files(case: Case) -> policy.PolicyFiles:
    return policy.policy_files(case.change, case.gate)


def _policy_changes(case: Case) -> tuple[PolicyChange, ...]:
    return tuple(
        PolicyChange(
            path=file.shown_path,
            change_type=file.change_type,
            level=level,
            diff=escape.show_block(case.repository.file_patch(file)),
        )
        for file, level in _policy_files(case)
    )
