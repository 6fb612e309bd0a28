"""What lists of criteria say of a criterion: whether its fail blocks, and how many findings and
remarks it has. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from vibe_gate.domain.escape import counted, end_sentence
from vibe_gate.domain.verdict import CriterionResult, Finding, RubricResult
from vibe_gate.report import sentences

UNBLOCKING_FAIL = "fails, does not block"
"""The outcome of a criterion whose fail only warns."""


def is_blocking(criterion: CriterionResult, rubric: RubricResult) -> bool:
    """Whether the criterion failed and the rubric fails for it: alone, or by its score."""
    if criterion.outcome != "fail" or criterion.is_advice or rubric.outcome != "fail":
        return False
    if criterion.must or rubric.pass_threshold is None:
        return True
    return rubric.score < rubric.pass_threshold


def open_findings_of(
    rubric_id: str, criterion: CriterionResult, findings: Sequence[Finding]
) -> list[Finding]:
    """The findings of a judge's criterion that are neither accepted nor refuted, its remarks last."""
    if criterion.kind != "judge":
        return []
    open_findings = []
    for finding in findings:
        if finding.level != "notice" and finding.is_of(rubric_id, criterion.id):
            open_findings.append(finding)
    return sorted(open_findings, key=_is_remark)


def _is_remark(finding: Finding) -> bool:
    return finding.remark is not UNSET


def count_words(findings: Sequence[Finding]) -> str:
    """How many findings, and how many remarks: "2 findings, 1 remark"; "" without any."""
    remark_count = sum(map(_is_remark, findings))
    finding_count = len(findings) - remark_count
    counts = []
    if finding_count:
        counts.append(counted(finding_count, "finding"))
    if remark_count:
        counts.append(counted(remark_count, "remark"))
    return ", ".join(counts)


def outcome_with_remarks(criterion: CriterionResult, findings: Sequence[Finding]) -> str:
    """What is said behind a pass that leaves remarks, "1 remark"; "" of anything else.

    `findings`: those of `open_findings_of`.
    """
    if criterion.outcome != "pass":
        return ""
    return count_words(findings)


def first_reason(rubric_id: str, criterion: CriterionResult, findings: Sequence[Finding]) -> str:
    """Why the criterion of the rubric came out so; of several defects the first, and how many
    more. `findings`: those of the run.
    """
    open_findings = open_findings_of(rubric_id, criterion, findings)
    reason = sentences.criterion_reason(rubric_id, criterion, findings)
    # A check may find the same in several files.
    messages = list(dict.fromkeys(finding.message for finding in open_findings))
    if len(messages) < 2 or criterion.outcome not in ("fail", "pass"):
        return reason
    if _is_withdrawn(criterion.reason, findings):
        reason = messages[0]
    return f"{end_sentence(reason)} And {len(messages) - 1} more."


def _is_withdrawn(reason: str, findings: Sequence[Finding]) -> bool:
    """Whether the reason is that of a defect which a second look refuted."""
    return any(finding.level == "notice" and finding.message == reason for finding in findings)
