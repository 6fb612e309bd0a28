"""Carrying out checks: the pure functions of `domain.checks`, given what they need from outside."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from vibe_gate.checks import run_check
from vibe_gate.checks.contract import CheckInput, CheckResult
from vibe_gate.domain.decide import short
from vibe_gate.domain.execution import CommandResult
from vibe_gate.domain.rubric import Criterion
from vibe_gate.domain.verdict import CriterionResult, Finding
from vibe_gate.gate.case import CHECKS_NODE as NODE
from vibe_gate.gate.case import Case

_NO_WALL = "Commands ran code of the change without a whole wall around it"


@dataclass(frozen=True, slots=True)
class Checked:
    """Results by (rubric id, criterion id), what they point at, the first `must` that failed, sentences for people."""

    results: dict[tuple[str, str], CriterionResult]
    findings: tuple[Finding, ...]
    blocking: str | None
    notes: tuple[str, ...] = ()


def run_checks(case: Case) -> Checked:
    """Every check of the case's rubrics; the same question in two rubrics is worked out once."""
    known: dict[str, CheckResult] = {}
    results: dict[tuple[str, str], CriterionResult] = {}
    blocking = None
    lacks: list[str] = []
    case.run.event("node.added", NODE, kind="checks")
    case.run.event("node.status", NODE, status="RUNNING")
    for rubric in case.rubrics:
        for criterion in rubric.checked:
            question = criterion.model_dump_json(exclude={"id", "weight"})
            if question not in known:
                known[question] = _run(case, criterion, lacks)
            answer = known[question]
            results[rubric.id, criterion.id] = _result(criterion, answer)
            if criterion.must and answer.outcome == "fail":
                blocking = blocking or criterion.id
    case.run.event("node.status", NODE, status="DONE")
    findings = tuple(finding for answer in known.values() for finding in answer.findings)
    # Each sentence once: several commands lack the same.
    notes = tuple(
        f"{_NO_WALL}: {lack}. docs/checks.md (Commands) says what that means." for lack in dict.fromkeys(lacks)
    )
    return Checked(results, findings, blocking, notes)


def _run(case: Case, criterion: Criterion, lacks: list[str]) -> CheckResult:
    def command(argv: tuple[str, ...], timeout_s: float) -> CommandResult:
        left = max(case.ends_at - time.monotonic(), 0.0)
        with tempfile.TemporaryDirectory(prefix="vibe-gate-check-") as folder:
            root = Path(folder) / "tree"
            case.repository.export(case.change.after, root)
            ended: CommandResult = import_module("vibe_gate.sandbox").run_command(
                argv, cwd=root, timeout_s=min(timeout_s, left), environ=case.environ,
                unix_sockets=criterion.options.get("unix_sockets") is True,
            )  # fmt: skip
        lacks.extend([ended.lacks] if ended.lacks else [])
        return ended

    return run_check(
        CheckInput(
            change=case.change,
            criterion=criterion,
            read=case.repository.read,
            run_command=command,
            policy=case.gate.file.policy.block,
            redact=case.redactor.text,
        )
    )


def _result(criterion: Criterion, answer: CheckResult) -> CriterionResult:
    return CriterionResult(
        id=criterion.id,
        kind="check",
        must=criterion.must,
        weight=criterion.weight,
        outcome=answer.outcome,
        decided_by="check",
        reason=short(answer.reason),
    )
