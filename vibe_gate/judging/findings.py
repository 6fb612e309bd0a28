"""What a review points at, and the fingerprints of that, which hold across rebases."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import UNSET

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
    Vote,
    short,
    whole_change_finding,
)
from vibe_gate.domain.waiver import Waiver
from vibe_gate.gate.policy import PolicyImpact
from vibe_gate.judging.vote_counting import rank_proof

Located = TypeVar("Located", RawFinding, Finding)

_LEVEL_ORDER: dict[Level, int] = {"failure": 0, "warning": 1, "notice": 2}


def collect_findings(
    rubrics: Sequence[Rubric],
    results: Sequence[Sequence[CriterionResult]],
    checks: CheckResults,
    impact: PolicyImpact,
) -> tuple[NamedFinding, ...]:
    """What checks and judges object to, and the changed files that steer agents; worst first, by
    place.

    Args:
        rubrics: Those of the run.
        results: Of each rubric's criteria, in its order.
        checks: What checks answered.
        impact: What the change does to the gate itself.
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
    return name_findings(order_findings(raw_findings), rubric_ids)


def findings_of(criterion: Criterion, result: CriterionResult) -> list[RawFinding]:
    """What a judge criterion that failed, or was refuted, points at: every piece of evidence that
    stands, or else the change.

    The question is part of the fingerprint, so that no other question's finding has it. The reason
    is not: a model words the same defect anew each time.
    """
    is_objection = result.outcome == "fail" or result.decided_by == "refuted"
    if criterion.kind != "judge" or not is_objection:
        return []
    question = " ".join((criterion.question or "").split())
    findings: dict[tuple[str, int, int], RawFinding] = {}
    for vote in sorted(result.votes, key=rank_proof):
        if vote.outcome != "fail":
            continue
        for evidence in vote.evidence:
            lines = evidence.path, evidence.line, evidence.end_line
            if evidence.standing == "void" or not evidence.path or lines in findings:
                continue
            findings[lines] = _judge_finding(criterion, vote, evidence, question)
    return list(findings.values()) or [whole_change_finding(result, question)]


def _judge_finding(
    criterion: Criterion, vote: Vote, evidence: CheckedEvidence, question: str
) -> RawFinding:
    """What a fail points at with one piece of its evidence."""
    is_executed = vote.proof is not UNSET and vote.proof.is_executed
    return RawFinding(
        path=evidence.path,
        line=evidence.line,
        end_line=evidence.end_line,
        level="failure" if criterion.must else "warning",
        criterion=criterion.id,
        message=short(vote.reason) or "The answer gives no reason.",
        evidence=(evidence,),
        distinction=question,
        second_look=vote.second_look,
        basis="executed" if is_executed else "inferred",
        proof=vote.proof,
    )


def name_findings(
    findings: Iterable[RawFinding], rubric_ids: Mapping[RawFinding, Collection[str]]
) -> tuple[NamedFinding, ...]:
    """The findings with fingerprints that hold across rebases.

    A fingerprint is made of criterion, path, the quoted text (its white space folded) and what
    tells the finding apart from others at that line, never of line numbers; equal ones are told
    apart by their order.

    Args:
        findings: All of the run's, in order.
        rubric_ids: By finding, the rubrics that fail a criterion with it.
    """
    counts: Counter[str] = Counter()
    named_findings = []
    for finding in findings:
        basis = _fingerprint_basis(finding)
        counts[basis] += 1
        numbered_basis = f"{basis}\0{counts[basis]}".encode("utf-8", "surrogatepass")
        fingerprint = hashlib.sha256(numbered_basis).hexdigest()[:FINGERPRINT_DIGITS]
        ids = tuple(sorted(rubric_ids.get(finding, ())))
        named_findings.append(NamedFinding(finding, fingerprint, ids))
    return tuple(named_findings)


def _fingerprint_basis(finding: RawFinding) -> str:
    quotes = " ".join(evidence.quote for evidence in finding.evidence)
    folded_quotes = " ".join(quotes.split())
    distinction = finding.distinction or finding.message
    return "\0".join((finding.criterion, finding.path, folded_quotes, distinction))


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
