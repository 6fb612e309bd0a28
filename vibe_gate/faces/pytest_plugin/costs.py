"""What the agents of a session cost: a table at the end, by test and, if there were several, by model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from vibe_gate.domain.escape import safe

COLUMNS = 80

OVER = "over budget"

Run = dict[str, Any]
"""What a test's `user_properties` say of one run (`Vibe`), as JSON: it comes from a worker and goes into JUnit XML."""


@dataclass(slots=True)
class Total:
    """Of some runs: answers of models, tokens, USD of those whose cost is known, how many have none that is."""

    turns: int = 0
    tokens: int = 0
    usd: float = 0.0
    unknown: int = 0
    over: bool = False
    tests: dict[str, bool] = field(default_factory=dict)
    """Ids, and whether the test passed."""

    def add(self, run: Run, test: str, *, passed: bool) -> None:
        """Count one run."""
        self.turns += run["turns"]
        self.tokens += run["tokens"] or 0
        self.usd += run["usd"] or 0.0
        self.unknown += run["usd"] is None
        self.over |= bool(run.get("over_budget"))
        self.tests[test] = passed

    @property
    def shown(self) -> tuple[str, str, str]:
        """Turns, tokens and USD as text."""
        return f"{self.turns:,}", f"{self.tokens:,}", f"{self.usd:.4f}{' + ?' if self.unknown else ''}"


def ran(reports: Mapping[str, Sequence[Any]]) -> dict[str, list[Run]]:
    """The runs of each test, by its id; `reports` as of `TerminalReporter.stats`."""
    found: dict[str, list[Run]] = {}
    for report in (one for some in reports.values() for one in some if isinstance(one, pytest.TestReport)):
        runs = [json.loads(str(value)) for name, value in report.user_properties if name == "vibe"]
        if len(runs) > len(found.get(report.nodeid, ())):  # each phase reports those of the phases before it, too
            found[report.nodeid] = runs
    return found


def write(terminal: pytest.TerminalReporter, tests: Mapping[str, list[Run]], *, replayed: bool) -> None:
    """Write the tables below a headline."""
    passed = {report.nodeid for report in terminal.stats.get("passed", ())}
    totals: dict[tuple[str, str], Total] = {}
    models: dict[str, Total] = {}
    whole = Total()
    for test, runs in tests.items():
        for run in runs:
            counted = [totals.setdefault((test, run["model"] or "?"), Total()), whole]
            if run["model"]:
                counted.append(models.setdefault(run["model"], Total()))
            for total in counted:
                total.add(run, test, passed=test in passed)
    terminal.write_sep("=", "cost of agents" + (" as recorded, nothing was paid" if replayed else ""))
    _print(terminal, _by_test(totals, whole))
    if len(models) > 1:
        terminal.write_line("")
        _print(terminal, _by_model(models))


def _by_test(totals: Mapping[tuple[str, str], Total], whole: Total) -> Table:
    table = _table("test", "model", "turns", "tokens", "USD")
    for (test, model), total in totals.items():
        name = Text(safe(test)) + Text(f" ({OVER})" if total.over else "", "bold red")
        table.add_row(name, Text(safe(model)), *total.shown)
    table.add_row(f"{len(whole.tests):,} in all", "", *whole.shown, style="bold")
    return table


def _by_model(models: Mapping[str, Total]) -> Table:
    table = _table("model", "passed", "turns", "tokens", "USD", "USD a test")
    for model, total in models.items():
        share = f"{sum(total.tests.values())} of {len(total.tests)}"
        each = "?" if total.unknown else f"{total.usd / len(total.tests):.4f}"
        table.add_row(Text(safe(model)), share, *total.shown, each)
    return table


def _table(first: str, second: str, *numbers: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in (first, second):
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _print(terminal: pytest.TerminalReporter, table: Table) -> None:
    """In colour where pytest uses any; else plain."""
    text, coloured = StringIO(), terminal.hasmarkup
    console = Console(
        file=text, width=COLUMNS, force_terminal=coloured, color_system="standard" if coloured else None, _environ={}
    )
    console.print(table)
    for line in text.getvalue().splitlines():
        terminal.write_line(line.rstrip())
