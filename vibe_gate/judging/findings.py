"""What a review points at, and the fingerprints of that, which hold across rebases."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from vibe_gate.checks import CheckResults
from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import (
    FINGERPRINT_DIGITS,
    CheckedEvidence,
    CriterionResult,
    Finding,
    Level,
    NamedFinding,
    RawFinding,
    merge_lines,
    short,
    whole_change_finding,
)
from vibe_gate.domain.waiver import Waiver
from vibe_gate.gate.policy import PolicyImpact
from vibe_gate.judging.defects import (
    DefectGroup,
    group_defects,
    judge_defect,
    standing_lines,
)

Located = TypeVar("Located", RawFinding, Finding)

_LEVEL_ORDER: dict[Level, int] = {"failure": 0, "warning": 1, "notice": 2}


def collect_findings(
    rubrics: Sequence[Rubric],
    results: Sequence[Sequence[CriterionResult]],
    checks: CheckResults,
    impact: PolicyImpact,
    addressed: Sequence[RawFinding] = (),
) -> tuple[NamedFinding, ...]:
    """What checks and judges object to, the changed files that steer agents, and what speaks to the
    reviewer; worst first, by place.

    Args:
        rubrics: Those of the run.
        results: Of each rubric's criteria, in its order.
        checks: What checks answered.
        impact: What the change does to the gate itself.
        addressed: What speaks to the reviewer.
    """
    raw_findings = list(checks.findings)
    rubric_ids = {finding: set(ids) for finding, ids in checks.raised_by.items()}
    for rubric, criterion_results in zip(rubrics, results, strict=True):
        for criterion, result in zip(rubric.criterion, criterion_results, strict=True):
            for finding in findings_of(criterion, result):
                raw_findings.append(finding)
                rubric_ids.setdefault(finding, set()).add(rubric.id)
    for item in impact.files:
        if item.level == "warn" and not item.adopted:
            raw_findings.append(policy_warning(item.file))
    raw_findings += addressed
    return name_findings(order_findings(raw_findings), rubric_ids)


def findings_of(criterion: Criterion, result: CriterionResult) -> list[RawFinding]:
    """What the votes on a judge criterion point at: if it failed, or second looks took its fails
    back, every defect, or else the change; of any other the remarks.
    """
    is_objection = result.outcome == "fail" or result.decided_by == "refuted"
    if criterion.kind != "judge":
        return []
    groups = group_defects(result.votes, only_remarks=not is_objection)
    findings = [make_judge_finding(criterion, group) for group in groups]
    if is_objection:
        findings += _findings_without_line(criterion, result)
    if is_objection and not findings:
        return [whole_change_finding(result, _fold_question(criterion))]
    return findings


def make_judge_finding(criterion: Criterion, group: DefectGroup) -> RawFinding:
    """The finding of one defect, in the words of one vote, with the lines that any vote quotes.

    The question is part of the fingerprint, so that no other question's finding has it. The reason
    is not: a model words the same defect anew each time.
    """
    defect = group.first
    first_place, *other_places = merge_lines(group.evidence)
    is_executed = defect.proof is not UNSET and defect.proof.is_executed
    return RawFinding(
        path=first_place.path,
        line=first_place.line,
        end_line=first_place.end_line,
        level="failure" if criterion.must and group.remark is UNSET else "warning",
        criterion=criterion.id,
        message=short(defect.reason) or "The answer gives no reason.",
        other_places=tuple(other_places),
        counterexample=defect.counterexample,
        evidence=group.evidence,
        also=group.also,
        remark=group.remark,
        distinction=_fold_question(criterion),
        second_look=group.second_look,
        basis="executed" if is_executed else "inferred",
        proof=defect.proof,
    )


def _findings_without_line(criterion: Criterion, result: CriterionResult) -> list[RawFinding]:
    """What the first vote objects to that quotes no line of the change for it, such as an agent's
    words.
    """
    question = _fold_question(criterion)
    for vote in result.votes:
        if vote.outcome != "fail":
            continue
        findings = []
        for defect in vote.defects:
            if standing_lines(defect) or judge_defect(defect) != "counts":
                continue
            message = short(defect.reason) or "The answer gives no reason."
            finding = replace(
                whole_change_finding(result, question),
                message=message,
                distinction=f"{question}\0{message}",
                counterexample=defect.counterexample,
            )
            findings.append(finding)
        if findings:
            return findings
    return []


def _fold_question(criterion: Criterion) -> str:
    return " ".join((criterion.question or "").split())


def name_findings(
    findings: Iterable[RawFinding], rubric_ids: Mapping[RawFinding, Collection[str]]
) -> tuple[NamedFinding, ...]:
    """The findings with fingerprints that hold across rebases.

    A fingerprint is made of criterion, the quoted lines with their paths (sorted, white space
    folded) and what tells the finding apart from others at these lines, never of line numbers. So a further
    line makes another one: a person who lets a finding pass has seen all its places. Several
    defects that one question finds at the same lines are told apart by their words as well: none of
    them has the name that it would have alone, so whoever accepts one accepts no other. What is
    equal even so is told apart by its order.

    Args:
        findings: All of the run's, in order.
        rubric_ids: By finding, the rubrics that fail a criterion with it.
    """
    all_findings = list(findings)
    sharers = Counter(map(_fingerprint_basis, all_findings))
    counts: Counter[str] = Counter()
    named_findings = []
    for finding in all_findings:
        basis = _fingerprint_basis(finding)
        if sharers[basis] > 1 and finding.basis is not UNSET:
            basis = f"{basis}\0{finding.message}"
        counts[basis] += 1
        numbered_basis = f"{basis}\0{counts[basis]}".encode("utf-8", "surrogatepass")
        fingerprint = hashlib.sha256(numbered_basis).hexdigest()[:FINGERPRINT_DIGITS]
        ids = tuple(sorted(rubric_ids.get(finding, ())))
        named_findings.append(NamedFinding(finding, fingerprint, ids))
    return tuple(named_findings)


def find_named(
    raw: RawFinding, rubric_id: str, findings: Iterable[NamedFinding]
) -> NamedFinding | None:
    """The finding of the same defect, before or after a second look at it, with which a criterion of
    the rubric fails.
    """
    for finding in findings:
        if finding.is_of(rubric_id, raw.criterion) and _identity(finding.raw) == _identity(raw):
            return finding
    return None


def _identity(raw: RawFinding) -> tuple[str, str, str, tuple[CheckedEvidence, ...]]:
    """What no second look changes."""
    return raw.criterion, raw.message, raw.distinction, raw.evidence


def _fingerprint_basis(finding: RawFinding) -> str:
    quotes = sorted((line.path, " ".join(line.quote.split())) for line in finding.evidence)
    first_path = quotes[0][0] if quotes else finding.path
    rows = []
    for path, folded_quote in quotes:
        rows.append(folded_quote if path == first_path else f"{path}\0{folded_quote}")
    distinction = finding.distinction or finding.message
    return "\0".join((finding.criterion, first_path, "\n".join(rows), distinction))


def order_findings(findings: Iterable[Located]) -> list[Located]:
    """The findings, failures first, then by place."""
    return sorted(findings, key=_finding_order)


def _finding_order(finding: RawFinding | Finding) -> tuple[int, str, int]:
    return _LEVEL_ORDER[finding.level], finding.path, finding.line


def policy_warning(file: FileDiff) -> RawFinding:
    """The finding for a file that steers agents, diffs or test runs."""
    message = (
        "Can change what AI agents do, what diffs show, how tests run or who reviews; "
        "read this change yourself."
    )
    return RawFinding(
        path=file.shown_path,
        line=0,
        end_line=0,
        level="warning",
        criterion="policy",
        message=message,
    )


def policy_approval(waiver: Waiver) -> Finding:
    """The finding that says who let blocking changes of the gate itself pass; they are still
    listed.
    """
    sentence = short(waiver.sentence)
    return Finding(
        path="",
        line=0,
        end_line=0,
        level="notice",
        criterion="policy",
        message=sentence,
        waiver=sentence if waiver.kind == "overridden" else UNSET,
        allowed_by=waiver,
    )
