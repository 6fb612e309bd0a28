"""What a review points at, and the fingerprints of that, which hold across rebases."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from vibe_gate.checks import CheckResults
from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import (
    FINGERPRINT_DIGITS,
    Basis,
    CriterionResult,
    Finding,
    Vote,
    short,
    whole_change,
)
from vibe_gate.gate.policy import PolicyImpact
from vibe_gate.judging.vote_counting import rank


def all_findings(
    rubrics: Sequence[Rubric], results: Sequence[Sequence[CriterionResult]], checks: CheckResults, impact: PolicyImpact
) -> list[Finding]:
    """What checks and judges object to, and the changed files that steer agents; worst first, by place."""
    findings = list(checks.findings)
    for rubric, result in zip(rubrics, results, strict=True):
        for criterion, outcome in zip(rubric.criterion, result, strict=True):
            findings += findings_of(criterion, outcome)
    findings += [policy_warning(item.file) for item in impact.files if item.level == "warn" and not item.adopted]
    return ordered(findings)


def raised_by(
    rubrics: Sequence[Rubric], results: Sequence[Sequence[CriterionResult]], checks: CheckResults
) -> dict[Finding, set[str]]:
    """By finding, the ids of the rubrics that fail a criterion with it. The gate's own policy raises the others."""
    made = {finding: set(names) for finding, names in checks.raised_by.items()}
    for rubric, result in zip(rubrics, results, strict=True):
        for criterion, outcome in zip(rubric.criterion, result, strict=True):
            for finding in findings_of(criterion, outcome):
                made.setdefault(finding, set()).add(rubric.id)
    return made


def findings_of(criterion: Criterion, result: CriterionResult) -> list[Finding]:
    """What a judge criterion that failed, or was refuted, points at: every piece of evidence that stands, or else the
    change.

    The question is part of the fingerprint, so that no other question's finding has it. The reason is not: a model
    words the same defect anew each time.
    """
    if criterion.kind != "judge" or not (result.outcome == "fail" or result.decided_by == "refuted"):
        return []
    question = " ".join((criterion.question or "").split())
    findings: dict[tuple[str, int, int], Finding] = {}
    for vote in sorted(result.votes, key=rank):
        if vote.outcome != "fail":
            continue
        for evidence in vote.evidence:
            place = evidence.path, evidence.line, evidence.end_line
            if evidence.standing == "void" or place in findings:
                continue
            findings[place] = Finding(
                path=evidence.path,
                line=evidence.line,
                end_line=evidence.end_line,
                level="failure" if criterion.must else "warning",
                criterion=criterion.id,
                message=vote.reason or "The answer gives no reason.",
                evidence=(evidence,),
                fingerprint=question,
                second_look=vote.second_look,
                basis=_basis(vote),
                proof=vote.proof,
            )
    if findings:
        return list(findings.values())
    about_change = whole_change(result)
    distinction = f"{question}\0{about_change.message}"
    return [replace(about_change, basis="inferred", fingerprint=distinction)]


def _basis(vote: Vote) -> Basis:
    return "executed" if vote.proof is not UNSET and vote.proof.is_executed else "inferred"


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, failures first, then by place."""
    order = {"failure": 0, "warning": 1, "notice": 2}
    return sorted(findings, key=lambda finding: (order[finding.level], finding.path, finding.line))


def fingerprinted(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings with fingerprints that hold across rebases.

    A fingerprint is made of criterion, path, the quoted text (its white space folded) and what tells the finding apart
    from others at that line, never of line numbers; equal ones are told apart by their order.
    """
    counts: Counter[str] = Counter()
    result = []
    for finding in findings:
        basis = _fingerprint_basis(finding)
        counts[basis] += 1
        numbered_basis = f"{basis}\0{counts[basis]}".encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(numbered_basis).hexdigest()[:FINGERPRINT_DIGITS]
        result.append(replace(finding, fingerprint=digest))
    return tuple(result)


def _fingerprint_basis(finding: Finding) -> str:
    quotes = " ".join(evidence.quote for evidence in finding.evidence)
    distinction = finding.fingerprint or finding.message
    return "\0".join((finding.criterion, finding.path, " ".join(quotes.split()), distinction))


def told_apart(
    rubrics: Sequence[Rubric], findings: Sequence[Finding], raised_by: Sequence[Collection[str]]
) -> tuple[Finding, ...]:
    """The findings of criteria whose id stands in several rubrics with the ids of their own; the others as they are.

    `raised_by`: for each finding the ids of its rubrics.
    """
    used = Counter(criterion.id for rubric in rubrics for criterion in rubric.criterion)
    pairs = zip(findings, raised_by, strict=True)
    return tuple(
        replace(one, rubrics=tuple(sorted(names))) if names and used[one.criterion] > 1 else one for one, names in pairs
    )


def policy_warning(file: FileDiff) -> Finding:
    """The finding for a file that steers agents, diffs or test runs."""
    message = "Can change what AI agents do, what diffs show, how tests run or who reviews; read this change yourself."
    return Finding(path=file.shown_path, line=0, end_line=0, level="warning", criterion="policy", message=message)


def policy_approval(sentence: str) -> Finding:
    """The finding that says who let blocking changes of the gate itself pass; they are still listed."""
    return Finding(path="", line=0, end_line=0, level="notice", criterion="policy", message=short(sentence))
