"""Summaries to render: a plain one, and parts to vary it with."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from vibe_gate.domain.cause import Cause
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.summary import (
    ChangedFile,
    ChangeSummary,
    Cost,
    PolicyChange,
    Summary,
    Trusted,
    Unreviewed,
)
from vibe_gate.domain.verdict import CriterionResult, Finding, RubricResult
from vibe_gate.domain.waiver import Waiver
from vibe_gate.judging.rubric_tally import decide

HEAD = "abcdef0123456789abcdef0123456789abcdef01"


def changed(path: str = "src/a.py", added: int = 4, deleted: int = 1) -> ChangedFile:
    return ChangedFile(
        path=path, old_path=None, change_type="modified", added=added, deleted=deleted, binary=False
    )


def criterion(name: str = "no-secrets", outcome: Any = "pass", **fields: Any) -> CriterionResult:
    values = {"kind": "check", "must": True, "weight": 1, "decided_by": "check"} | fields
    return CriterionResult(id=name, outcome=outcome, **values)


def open_question(
    name: str, cause: Cause, outcome: Any = "abstain", **fields: Any
) -> CriterionResult:
    """A question to a judge that has no answer for this cause."""
    values = {
        "kind": "judge",
        "decided_by": "none",
        "reason": cause.reason,
        "cause": cause,
    } | fields
    return criterion(name, outcome, **values)


def rubric(*criteria: CriterionResult, outcome: Any = "pass", **fields: Any) -> RubricResult:
    values = {"id": "quality", "digest": "0" * 64, "score": 1.0, "coverage": 1.0} | fields
    return RubricResult(outcome=outcome, criteria=criteria, **values)


def weighed(*criteria: CriterionResult, waived_ids: Collection[str] = ()) -> RubricResult:
    """A rubric with the threshold 0.7, by the arithmetic that decides; what is waived does not
    count.
    """
    stated = tuple(Criterion(id=result.id, kind="check", check="no-secrets") for result in criteria)
    return decide(Rubric(schema=1, id="quality", criterion=stated), criteria, waived_ids)


JUDGED = ("errors-not-swallowed", "names-are-clear")
"""Criteria that a judge answers."""


def finding(message: str = "the handler hides the error", line: int = 41, **fields: Any) -> Finding:
    values = {"path": "src/a.py", "level": "failure", "criterion": "errors-not-swallowed"} | fields
    if values["criterion"] in JUDGED:
        values.setdefault("basis", "inferred")
    return Finding(line=line, end_line=line, message=message, **values)


def waiver(
    by: str, reason: str, *, expires: date | None = None, of: str = "x:*", local: bool = True
) -> Waiver:
    """An override (`local`), or what a rule of the repository or a person at the forge let pass."""
    return Waiver(finding=of, reason=reason, by=by, expires=expires, local=local)


def waived(finding: Finding, waiver: Waiver) -> Finding:
    """The finding as a notice of a run in which `waiver` lets it pass."""
    return replace(
        finding,
        level="notice",
        waiver=waiver.sentence,
        allowed_by=waiver,
    )


def summary(**fields: Any) -> Summary:
    files = fields.pop("files", (changed(),))
    change = ChangeSummary(
        before="1" * 40,
        after="2" * 40,
        base_commit="",
        head_commit="",
        patch_id="",
        range_patch_id="",
        files=files,
    )
    values = {
        "run_id": "20260102T030405.006Z-abc123",
        "key": HEAD,
        "workflow": "review",
        "outcome": "pass",
        "exit_code": 0,
        "bundle": f".vibe-artifacts/{HEAD}/20260102T030405.006Z-abc123",
        "trusted": Trusted(revision="5d401b9" + "0" * 33, bootstrap=False),
        "change": change,
        "rubrics": (rubric(criterion()),),
    } | fields
    return Summary(**values)


def failed(
    findings: int = 1, criteria: int = 1, first_findings: tuple[Finding, ...] = (), **fields: Any
) -> Summary:
    """A change that a must-criterion blocks, with as many findings and passed criteria as
    wanted.
    """
    bad = criterion(
        "errors-not-swallowed",
        "fail",
        reason="the new except clause at line 41 does nothing",
        kind="judge",
    )
    rows = [bad, *(criterion(f"check-{number}") for number in range(criteria))]
    values = {
        "outcome": "fail",
        "exit_code": 1,
        "rubrics": (rubric(*rows, outcome="fail", score=0.5),),
        "findings": (*first_findings, *(finding(line=number + 1) for number in range(findings))),
        "cost": Cost(usd=0.0123, basis="known", input_tokens=12_345, output_tokens=321),
    }
    return summary(**(values | fields))


def policy(path: str = ".vibe-gate/gate.toml", level: Any = "block") -> PolicyChange:
    return PolicyChange(path=path, change_type="modified", level=level, diff="")


def unseen(
    path: str = "src/big.py",
    reason: str = "the budget was reached",
    cause: Cause | UnsetType = UNSET,
) -> Unreviewed:
    return Unreviewed(path=path, line=1, end_line=400, reason=reason, cause=cause)
