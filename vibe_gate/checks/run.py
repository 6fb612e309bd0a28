"""Carrying out checks: the pure functions of `domain.checks`, given what they need from outside."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vibe_gate.checks import run_check
from vibe_gate.checks.contract import CheckInput, CheckResult
from vibe_gate.domain.change import Change
from vibe_gate.domain.context import CHECKS_NODE as NODE
from vibe_gate.domain.context import RunContext
from vibe_gate.domain.decide import short
from vibe_gate.domain.execution import CommandResult
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import CriterionResult, Finding
from vibe_gate.git import Repository

_NO_WALL = "Commands ran code of the change without a whole wall around it"


@dataclass(frozen=True, slots=True)
class CheckResults:
    """Results by (rubric id, criterion id), what they point at, and sentences for people."""

    results: dict[tuple[str, str], CriterionResult]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()


def run_checks(
    rubrics: Sequence[Rubric], change: Change, policy: tuple[str, ...], repository: Repository, run: RunContext
) -> CheckResults:
    """Every check of the rubrics; the same question in two rubrics is worked out once.

    `policy` holds the globs of the gate's block list.
    """
    known: dict[str, CheckResult] = {}
    results: dict[tuple[str, str], CriterionResult] = {}
    lacks: list[str] = []
    run.record.event("node.added", NODE, kind="checks")
    run.record.event("node.status", NODE, status="RUNNING")
    for rubric in rubrics:
        for criterion in rubric.checked:
            question = criterion.model_dump_json(exclude={"id", "weight"})
            if question not in known:
                command = partial(_command, criterion, change, repository, run, lacks.append)
                known[question] = run_check(
                    CheckInput(
                        change=change,
                        criterion=criterion,
                        read=repository.read,
                        run_command=command,
                        policy=policy,
                        redact=run.redactor.text,
                    )
                )
            results[rubric.id, criterion.id] = _result(criterion, known[question])
    run.record.event("node.status", NODE, status="DONE")
    findings = tuple(finding for answer in known.values() for finding in answer.findings)
    # Each sentence once: several commands lack the same.
    notes = tuple(
        f"{_NO_WALL}: {lack}. docs/checks.md (Commands) says what that means." for lack in dict.fromkeys(lacks)
    )
    return CheckResults(results, findings, notes)


def _command(
    criterion: Criterion,
    change: Change,
    repository: Repository,
    run: RunContext,
    lacks: Callable[[str], None],
    argv: tuple[str, ...],
    timeout_s: float,
) -> CommandResult:
    """Run a command in a fresh export of the after tree, behind the wall; `lacks` hears what of it is missing here."""
    from vibe_gate.sandbox import run_command  # most gates have no command

    with tempfile.TemporaryDirectory(prefix="vibe-gate-check-") as folder:
        root = Path(folder) / "tree"
        repository.export(change.after, root)
        ended = run_command(
            argv,
            cwd=root,
            timeout_s=min(timeout_s, run.deadline.left()),
            environ=run.environ,
            unix_sockets=criterion.options.get("unix_sockets") is True,
        )
    if ended.lacks:
        lacks(ended.lacks)
    return ended


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
