"""From counted answers to the verdict. Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from vibe_gate.checks import CheckResults
from vibe_gate.context.facts import Facts
from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.escape import counted
from vibe_gate.domain.gate import POLICY, Waivers
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.verdict import Finding, RubricResult, RunOutcome
from vibe_gate.domain.waiver import Waiver
from vibe_gate.gate.policy import PolicyImpact
from vibe_gate.judging.answers import Answers
from vibe_gate.judging.counted_answers import CountedAnswers, criterion_results
from vibe_gate.judging.decide import decide_rubrics
from vibe_gate.judging.findings import order_findings, policy_approval
from vibe_gate.judging.rubric_tally import decide, exit_code, run_outcome


class RunVerdict(Struct, frozen=True):
    """What all answers come to, after what people have let pass, and the facts and answers that it
    rests on.
    """

    facts: Facts

    impact: PolicyImpact
    """What the change does to the gate itself."""

    answers: Answers

    rubrics: tuple[RubricResult, ...]

    findings: tuple[Finding, ...]

    waivers: tuple[Waiver, ...]
    """Those that took effect."""

    intact: bool
    """Whether what was reviewed is still what is there."""

    needs_approval: bool
    """Whether a person must approve a change of the gate."""

    expired: tuple[str, ...]
    """Sentences about waivers that took no effect, or that nothing needs."""

    notes: tuple[str, ...]
    """Sentences for people."""

    repairs: tuple[FileDiff, ...]
    """What checks would write."""

    @property
    def outcome(self) -> RunOutcome:
        """The run's; an error if what was reviewed is not there any more."""
        if self.intact:
            return run_outcome(self.rubrics)
        return "error"

    @property
    def exit_code(self) -> int:
        """The process's."""
        return exit_code(self.outcome, needs_approval=self.needs_approval, intact=self.intact)

    def __repr__(self) -> str:
        return f"RunVerdict({self.outcome}, {self.rubrics}, {self.findings})"


def verdict_of(
    answered: CountedAnswers, waivers: Waivers, changed_paths: Sequence[str]
) -> RunVerdict:
    """The verdict: what checks and judges answered, without what people let pass.

    Args:
        answered: The answers counted, with second looks.
        waivers: What people let pass.
        changed_paths: Where index or working tree, if it was reviewed, holds something else by now.
    """
    facts, checks, answers = answered.facts, answered.checks, answered.answers
    outcomes = decide_rubrics(
        facts.rubrics, answered.results, answered.findings, waivers, answers.reused
    )
    approval = waivers.of_policy(answered.impact.fingerprint)
    shown_findings = order_findings(outcomes.findings)
    if approval is not None:
        shown_findings.append(policy_approval(approval))
    return RunVerdict(
        facts=facts,
        impact=answered.impact,
        answers=answers,
        rubrics=outcomes.rubrics,
        findings=tuple(shown_findings),
        waivers=(*outcomes.effective_waivers, *filter(None, [approval])),
        intact=answers.intact and not changed_paths,
        needs_approval=approval is None and answered.impact.needs_approval,
        expired=tuple(waivers.remarks(shown_findings)),
        notes=(
            *answers.notes,
            *checks.notes,
            *_waiver_notes(outcomes.effective_waivers),
            *changed_note(changed_paths),
        ),
        repairs=checks.repairs,
    )


def _waiver_notes(waivers: Sequence[Waiver]) -> list[str]:
    """A sentence for each waiver that took effect. Who approved a change of the gate is a finding
    of its own.
    """
    notes = []
    for waiver in waivers:
        if not waiver.finding.startswith(POLICY):
            notes.append(f"{waiver.finding}: {waiver.sentence}")
    return notes


def changed_note(changed_paths: Sequence[str]) -> tuple[str, ...]:
    """A sentence that names the first of these paths; () if there are none."""
    if not changed_paths:
        return ()
    further_count = len(changed_paths) - 1
    other_files = f" and {counted(further_count, 'more file')}" if further_count else ""
    return (f"Changed during the review: {changed_paths[0]}{other_files}.",)


def passes_by_checks(rubric: Rubric, facts: Facts, checks: CheckResults) -> bool:
    """Whether the rubric would pass by its checks alone: only then can its judges' answers be taken
    over unseen.
    """
    results = criterion_results(rubric, facts, checks, Answers(chosen=True))
    return decide(rubric, results).outcome == "pass"
