"""Carrying out a rubric's checks: the pure functions of `domain.checks`, given what they need from outside."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vibe_gate.adapters import sandbox
from vibe_gate.adapters.git import Repository
from vibe_gate.domain.change import Change
from vibe_gate.domain.checks import run_check
from vibe_gate.domain.checks.contract import CheckInput, CheckResult, CommandResult
from vibe_gate.domain.rubric import Criterion


@dataclass(frozen=True, slots=True)
class Checker:
    """Runs criteria of kind "check" on one change; the same question is worked out once."""

    repository: Repository
    change: Change
    policy: tuple[str, ...]
    environ: Mapping[str, str]
    seconds_left: float
    known: dict[str, CheckResult] = field(default_factory=dict)

    def run(self, criterion: Criterion) -> CheckResult:
        """The criterion's answer. Commands run in a fresh export of the after tree."""
        question = criterion.model_dump_json(exclude={"id", "weight"})
        if question not in self.known:
            self.known[question] = run_check(
                CheckInput(
                    change=self.change,
                    criterion=criterion,
                    read=self.repository.read,
                    run_command=self._command,
                    policy=self.policy,
                )
            )
        return self.known[question]

    def _command(self, argv: tuple[str, ...], timeout_s: float) -> CommandResult:
        with tempfile.TemporaryDirectory(prefix="vibe-gate-check-") as folder:
            root = Path(folder) / "tree"
            self.repository.export(self.change.after, root)
            limit = min(timeout_s, self.seconds_left)
            return sandbox.run_command(argv, cwd=root, timeout_s=limit, environ=self.environ)
