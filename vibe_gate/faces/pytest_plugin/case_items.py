"""The labelled cases of the project's rubrics as tests: what `vibe-gate test` runs, with
`--vibe-cases`.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from _pytest._code.code import TerminalRepr, TracebackStyle

from vibe_gate.context.listeners import unheard
from vibe_gate.domain.change import CASES
from vibe_gate.domain.escape import safe
from vibe_gate.errors import GateError, UsageError
from vibe_gate.faces import progress
from vibe_gate.faces.cli.output import now
from vibe_gate.faces.pytest_plugin.plugin_wire import (
    LEFT_OPEN,
    WITHOUT_CASSETTE,
    Inconclusive,
    TestWire,
    note_run,
    read_test_environment,
)
from vibe_gate.faces.pytest_plugin.vibe import find_project
from vibe_gate.gate.cases import Case
from vibe_gate.run.case_reviews import CaseSet, read_case_set


def collect_cases(session: pytest.Session) -> list[CaseItem]:
    """One for each case of the project. pytest.UsageError with every mistake in them."""
    reading = ExitStack()
    session.config.add_cleanup(reading.close)
    try:
        project = find_project(session.config.rootpath)
        cases = reading.enter_context(read_case_set(project, read_test_environment(), nested=True))
    except UsageError as error:
        raise pytest.UsageError(f"--vibe-cases: {error}") from None
    items = []
    for case in cases.cases:
        items.append(CaseItem.from_parent(session, name=case.folder, cases=cases, case=case))
    # pytest counts them by a report.
    report = pytest.CollectReport(CASES, "passed", None, list(items))
    session.ihook.pytest_collectreport(report=report)
    return items


class CaseItem(pytest.Item):
    """A case; `.vibe-gate/cases/NAME` is its name and its id."""

    def __init__(self, name: str, parent: pytest.Session, cases: CaseSet, case: Case) -> None:
        super().__init__(name, parent, nodeid=name)
        self.path: Path = cases.root / case.folder / "case.toml"
        self.vibe_case = case
        self._cases = cases

    def runtest(self) -> None:
        """Fail with what came out otherwise. Inconclusive: it cannot be decided, or has no
        cassette.
        """
        wire = TestWire(self, None, 1)
        with wire.limit(self._cases.max_cost_usd) as spending:
            walk = self._cases.run(
                self.vibe_case,
                wire.mode,
                clock=now,
                progress=unheard,
                max_cost_usd=spending.limit_usd,
            )
            result = progress.run_walk(walk)
            spending.usd = result.usd
        if result.summary and result.model_use:
            rubric, took = self.vibe_case.file.rubric, result.summary.duration_ms
            note_run(self, result.model_use, agent=rubric, outcome=result.status, duration_ms=took)
        if result.status == "failed":
            pytest.fail("\n".join(map(safe, result.reasons)), pytrace=False)
        if result.status != "ok":
            kind = WITHOUT_CASSETTE if result.status == "no cassette" else LEFT_OPEN
            raise Inconclusive(safe(result.text), kind)

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: TracebackStyle | None = None
    ) -> str | TerminalRepr:
        """The sentence of an error of vibe-gate; pytest's own report of anything else."""
        if isinstance(excinfo.value, GateError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where it is defined, and a headline."""
        return self.path, 0, f"case {self.vibe_case.name}"
