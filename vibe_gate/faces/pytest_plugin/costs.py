"""What the agents of a session cost: a table at the end, by test and, if there were several, by
model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
"""What a test's `user_properties` say of one run (`Vibe`), as JSON: it comes from a worker and goes
into JUnit XML.
"""


def ran(reports: Mapping[str, Sequence[Any]]) -> dict[str, list[Run]]:
    """The runs of each test, by its id; `reports` as of `TerminalReporter.stats`."""
    runs_by_test: dict[str, list[Run]] = {}
    for report in (
        candidate
        for reports_of_outcome in reports.values()
        for candidate in reports_of_outcome
        if isinstance(candidate, pytest.TestReport)
    ):
        runs = [json.loads(str(value)) for name, value in report.user_properties if name == "vibe"]
        if len(runs) > len(
            runs_by_test.get(report.nodeid, ())
        ):  # each phase reports those of the phases before it, too
            runs_by_test[report.nodeid] = runs
    return runs_by_test


def write(
    terminal: pytest.TerminalReporter, tests: Mapping[str, list[Run]], *, replayed: bool
) -> None:
    """Write the tables below a headline."""
    by_test: dict[tuple[str, str], list[Run]] = {}
    by_model: dict[str, dict[str, list[Run]]] = {}
    for test, runs in tests.items():
        for run in runs:
            by_test.setdefault((test, run["model"] or "?"), []).append(run)
            if run["model"]:
                by_model.setdefault(run["model"], {}).setdefault(test, []).append(run)
    terminal.write_sep(
        "=", "cost of agents" + (" as recorded, nothing was paid" if replayed else "")
    )
    table = _table("test", "model", "turns", "tokens", "USD")
    for (test, model), runs in by_test.items():
        over = f" ({OVER})" if any(run.get("over_budget") for run in runs) else ""
        table.add_row(Text(safe(test)) + Text(over, "bold red"), Text(safe(model)), *_sums(runs))
    every = [run for runs in tests.values() for run in runs]
    table.add_row(f"{len(tests):,} in all", "", *_sums(every), style="bold")
    _print(terminal, table)
    if len(by_model) > 1:
        terminal.write_line("")
        _print(
            terminal,
            _models(by_model, {report.nodeid for report in terminal.stats.get("passed", ())}),
        )


def _models(by_model: Mapping[str, Mapping[str, list[Run]]], passed: set[str]) -> Table:
    """The models beside each other; `by_model` has the runs of each test."""
    table = _table("model", "passed", "turns", "tokens", "USD", "USD a test")
    for model, tests in by_model.items():
        runs = [run for runs_of_test in tests.values() for run in runs_of_test]
        usd = [run["usd"] for run in runs]
        usd_per_test = "?" if None in usd else f"{sum(usd) / len(tests):.4f}"
        table.add_row(
            Text(safe(model)),
            f"{len(passed & tests.keys())} of {len(tests)}",
            *_sums(runs),
            usd_per_test,
        )
    return table


def _sums(runs: Sequence[Run]) -> tuple[str, str, str]:
    """Turns, tokens and USD as text."""
    turns, tokens, usd = (
        sum(run[name] or 0 for run in runs) for name in ("turns", "tokens", "usd")
    )
    unknown = any(run["usd"] is None for run in runs)
    return f"{turns:,}", f"{tokens:,}", f"{usd:.4f}{' + ?' if unknown else ''}"


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
        file=text,
        width=COLUMNS,
        force_terminal=coloured,
        color_system="standard" if coloured else None,
        _environ={},
    )
    console.print(table)
    for line in text.getvalue().splitlines():
        terminal.write_line(line.rstrip())
