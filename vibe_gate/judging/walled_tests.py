"""Running one test file behind the wall, with the command and in the environment that the gate names.

What a fail brings is put there before (`place_test_file`); what the project has lies there already.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from vibe_gate.context.facts import ProofEnvironment
from vibe_gate.context.world import RunContext
from vibe_gate.judging.counterexample import build_test_command, fill_in_file
from vibe_gate.sandbox import CommandLimits, CommandResult, command_environment_from, run_command

MAX_DISK_MB, MAX_PROCESSES = 512, 256
"""Of one run: more than a test of a unit needs, and little enough for any machine."""


class WalledTests:
    """Runs test files of exported trees."""

    def __init__(self, environment: ProofEnvironment, run: RunContext) -> None:
        self._rule = environment.rule
        self._folder = environment.folder
        self._gate_folder = environment.named
        self._run = run
        self._environment = command_environment_from(run.environment.variables)
        self._has_pytest: bool | None = None

    @property
    def command(self) -> tuple[str, ...]:
        """The command that runs one test, with `{file}` in it."""
        return self._command_of(self._python())

    @property
    def user_command(self) -> tuple[str, ...]:
        """The same as a user would type it in a checkout."""
        return self._command_of(
            f"{self._gate_folder}/bin/python" if self._gate_folder else "python"
        )

    async def run_file(self, path: str, root: Path) -> CommandResult:
        """Run the test file at this path below `root`, which the test may spoil."""
        if self._has_pytest is None:
            self._has_pytest = bool(self._rule.command) or await self._imports_pytest(root)
        return await self._run_walled(fill_in_file(self.command, path), root)

    async def _imports_pytest(self, root: Path) -> bool:
        result = await self._run_walled([self._python(), "-c", "import pytest"], root)
        return result.exit_code == 0

    async def _run_walled(self, argv: Sequence[str], root: Path) -> CommandResult:
        """Run the command behind the wall, with a tree's export as its working directory."""
        left_s = self._run.deadline.seconds_left()
        if not left_s:
            return CommandResult(None, "", "the deadline was reached")
        cancelled = threading.Event()
        try:
            return await asyncio.to_thread(
                run_command,
                argv,
                cwd=root,
                timeout_s=min(self._rule.timeout_s, left_s),
                environment=self._environment,
                limits=CommandLimits(self._rule.memory_mb, MAX_DISK_MB, MAX_PROCESSES),
                variables=self._variables(root),
                cancelled=cancelled.is_set,
            )
        finally:
            cancelled.set()  # the thread would go on

    def _variables(self, root: Path) -> dict[str, str]:
        """What a run in `root` sees: imports come from there, whatever is installed."""
        import_folders = [str(folder) for folder in (root, root / "src") if folder.is_dir()]
        variables = {
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONNOUSERSITE": "1",
            "PYTHONPATH": os.pathsep.join(import_folders),
        }
        if self._folder is None:
            return variables
        programs = [str(self._folder / "bin"), self._environment.variables.get("PATH", "")]
        variables["PATH"] = os.pathsep.join(filter(None, programs))
        variables["VIRTUAL_ENV"] = str(self._folder)
        return variables

    def _python(self) -> str:
        if self._folder:
            return str(self._folder / "bin" / "python")
        return "python"

    def _command_of(self, python: str) -> tuple[str, ...]:
        return build_test_command(self._rule, python, has_pytest=bool(self._has_pytest))


def place_test_file(root: Path, path: str, test: str) -> bool:
    """Write the test into the export, through no link and over nothing; whether that could be
    done.
    """
    test_file = root / path
    if test_file.parent.resolve() != test_file.parent:
        return False
    try:
        test_file.parent.mkdir(parents=True, exist_ok=True)
        with test_file.open("x", encoding="utf-8", errors="replace") as file:
            file.write(test)
    except OSError:
        return False
    return True
