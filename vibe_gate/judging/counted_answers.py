"""Answers counted: what checks and judges come to, criterion by criterion, and what they point at.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from vibe_gate.checks import CheckResults
from vibe_gate.context.facts import Facts
from vibe_gate.domain.cause import Cause, NoClaim, NoFile
from vibe_gate.domain.gate import Waivers
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import (
    CriterionResult,
    DecidedBy,
    NamedFinding,
    Outcome,
    RawFinding,
    TrustBadge,
    short,
)
from vibe_gate.gate.policy import PolicyImpact
from vibe_gate.judging.answers import Answers
from vibe_gate.judging.decide import OpenFail, find_rubric_open_fails
from vibe_gate.judging.findings import collect_findings, find_named, findings_of
from vibe_gate.judging.reviewer_address import addressed_findings, find_addressed
from vibe_gate.judging.vote_counting import pick_worst_result, result_of_votes


class CountedAnswers(Struct, frozen=True):
    """What checks and judges come to."""

    facts: Facts

    impact: PolicyImpact
    """What the change does to the gate itself."""

    checks: CheckResults

    answers: Answers

    results: tuple[tuple[CriterionResult, ...], ...]
    """Of each rubric's criteria, in the order of the facts' rubrics."""

    findings: tuple[NamedFinding, ...]
    """All that is objected to, worst first."""


def count_answers(
    facts: Facts, impact: PolicyImpact, checks: CheckResults, answers: Answers
) -> CountedAnswers:
    """Count the votes of each criterion, and name what checks and judges point at."""
    results = tuple(criterion_results(rubric, facts, checks, answers) for rubric in facts.rubrics)
    addressed = addressed_findings(find_addressed(facts.change.files), answers.addressed)
    findings = collect_findings(facts.rubrics, results, checks, impact, addressed)
    return CountedAnswers(facts, impact, checks, answers, results, findings)


def find_open_fails(counted: CountedAnswers, waivers: Waivers) -> tuple[OpenFail, ...]:
    """The fails that get a second look."""
    fails: list[OpenFail] = []
    for rubric, results in zip(counted.facts.rubrics, counted.results, strict=True):
        fails += find_rubric_open_fails(rubric, results, counted.findings, waivers)
    return tuple(fails)


def recount_fails(
    counted: CountedAnswers, fails: Sequence[OpenFail], answers: Answers
) -> CountedAnswers:
    """The same with second looks: only the criteria of these fails are counted again, and keep
    their findings.

    `answers`: those that were counted, the votes of these fails with the second looks at them.
    """
    looked_names = {(fail.rubric.id, fail.criterion.id) for fail in fails}
    all_results = []
    findings = list(counted.findings)
    for rubric, results in zip(counted.facts.rubrics, counted.results, strict=True):
        new_results = []
        for criterion, result in zip(rubric.criterion, results, strict=True):
            if (rubric.id, criterion.id) not in looked_names:
                new_results.append(result)
                continue
            new_result = _judge_result(rubric, criterion, counted.facts, answers)
            new_results.append(new_result)
            for raw in findings_of(criterion, new_result):
                _add_look_to_finding(raw, rubric.id, findings)
        all_results.append(tuple(new_results))
    return replace(counted, answers=answers, results=tuple(all_results), findings=tuple(findings))


def _add_look_to_finding(raw: RawFinding, rubric_id: str, findings: list[NamedFinding]) -> None:
    """Put the second look at `raw` to the one of these findings that is the same."""
    finding = find_named(raw, rubric_id, findings)
    if finding is not None and raw.second_look is not UNSET:
        findings[findings.index(finding)] = replace(finding, raw=raw)


def criterion_results(
    rubric: Rubric, facts: Facts, checks: CheckResults, answers: Answers
) -> tuple[CriterionResult, ...]:
    """What checks or judges answered to each criterion, in the rubric's order."""
    results = []
    for criterion in rubric.criterion:
        if criterion.kind == "check":
            results.append(checks.results[rubric.id, criterion.id])
        else:
            results.append(_judge_result(rubric, criterion, facts, answers))
    return tuple(results)


def _judge_result(
    rubric: Rubric, criterion: Criterion, facts: Facts, answers: Answers
) -> CriterionResult:
    """What the judge's votes on the criterion come to, with what is known of the judge."""
    trust = facts.trust.get((rubric.id, criterion.id), UNSET)
    if not any(criterion.concerns(file) for file in facts.change.files):
        return _not_asked(criterion, NoFile(), "not_applicable", trust=trust)
    if criterion.needs and criterion.needs not in facts.claim_kinds:
        return _not_asked(criterion, NoClaim(kind=criterion.needs), "not_applicable", trust=trust)
    votes = answers.by_rubric.get(rubric.id)
    if votes is None:
        outcome: Outcome = "not_applicable" if answers.chosen else "abstain"
        decided_by: DecidedBy = "cache" if rubric.id in answers.reused else "none"
        return _not_asked(criterion, answers.unasked, outcome, decided_by, trust=trust)
    is_cached = rubric.id not in answers.asked
    question_results = []
    for question_votes in votes:
        if criterion.needs and criterion.id not in question_votes.by_criterion:
            continue
        cast = question_votes.by_criterion.get(criterion.id, ())
        result = result_of_votes(
            criterion, cast, rubric.votes, question_votes.stopped, is_cached=is_cached, trust=trust
        )
        question_results.append(result)
    return pick_worst_result(question_results)


def _not_asked(
    criterion: Criterion,
    cause: Cause | None,
    outcome: Outcome,
    decided_by: DecidedBy = "none",
    *,
    trust: TrustBadge | UnsetType,
) -> CriterionResult:
    """A judge criterion about which no judge was asked.

    Args:
        criterion: As the rubric states it.
        cause: Why; None if nothing is to be said of it.
        outcome: "not_applicable" if it does not bear on this change or was left out on purpose;
            "abstain" if it could not be asked, and stays undecided.
        decided_by: "cache" if the pass of an earlier run was taken over.
        trust: What people said of the judge's earlier findings, if that is known.
    """
    return CriterionResult(
        id=criterion.id,
        kind="judge",
        must=criterion.must,
        weight=float(criterion.weight),
        outcome=outcome,
        decided_by=decided_by,
        reason=short(cause.reason) if cause else "",
        cause=cause or UNSET,
        trust=trust,
    )
