"""What the agents of a session cost: a table at the end, by test and, if there were several, by
model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import StringIO
from itertools import chain
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


def read_test_runs(reports: Mapping[str, Sequence[Any]]) -> dict[str, list[Run]]:
    """The runs of each test, by its id; `reports` as of `TerminalReporter.stats`."""
    runs_by_test: dict[str, list[Run]] = {}
    for report in chain.from_iterable(reports.values()):
        if not isinstance(report, pytest.TestReport):
            continue
        runs = [json.loads(str(value)) for name, value in report.user_properties if name == "vibe"]
        # Each phase reports those of the phases before it, too.
        if len(runs) > len(runs_by_test.get(report.nodeid, ())):
            runs_by_test[report.nodeid] = runs
    return runs_by_test


def write_costs(
    terminal: pytest.TerminalReporter, tests: Mapping[str, list[Run]], *, replayed: bool
) -> None:
    """Write the tables below a headline."""
    headline = "cost of agents"
    if replayed:
        headline += " as recorded, nothing was paid"
    terminal.write_sep("=", headline)
    _print_table(terminal, _table_of_tests(tests))
    runs_by_model = _runs_by_model(tests)
    if len(runs_by_model) > 1:
        passed = {report.nodeid for report in terminal.stats.get("passed", ())}
        terminal.write_line("")
        _print_table(terminal, _table_of_models(runs_by_model, passed))


def _table_of_tests(tests: Mapping[str, list[Run]]) -> Table:
    """A row for each model of each test."""
    runs_by_row: dict[tuple[str, str], list[Run]] = {}
    all_runs: list[Run] = []
    for test, test_runs in tests.items():
        all_runs += test_runs
        for run in filter(_asked_model, test_runs):
            runs_by_row.setdefault((test, run["model"] or "?"), []).append(run)
    table = _empty_table("test", "model", "turns", "tokens", "USD")
    for (test, model), runs in runs_by_row.items():
        name = Text(safe(test))
        if any(run.get("over_budget") for run in runs):
            name.append(f" ({OVER})", "bold red")
        table.add_row(name, Text(safe(model)), *_sums(runs))
    table.add_row(f"{len(tests):,} in all", "", *_sums(all_runs), style="bold")
    return table


def _asked_model(run: Run) -> bool:
    """False of a judge whose rubric has checks alone."""
    return bool(run["model"] or not run.get("judges"))


def _runs_by_model(tests: Mapping[str, list[Run]]) -> dict[str, dict[str, list[Run]]]:
    """Runs by model and test, without those that no model answered."""
    runs_by_model: dict[str, dict[str, list[Run]]] = {}
    for test, runs in tests.items():
        for run in runs:
            if run["model"]:
                runs_by_test = runs_by_model.setdefault(run["model"], {})
                runs_by_test.setdefault(test, []).append(run)
    return runs_by_model


def _table_of_models(
    runs_by_model: Mapping[str, Mapping[str, list[Run]]], passed: set[str]
) -> Table:
    """The models beside each other; `runs_by_model` has the runs of each test."""
    table = _empty_table("model", "passed", "turns", "tokens", "USD", "USD a test")
    for model, tests in runs_by_model.items():
        runs = list(chain.from_iterable(tests.values()))
        costs = [run["usd"] for run in runs]
        usd_per_test = "?" if None in costs else f"{sum(costs) / len(tests):.4f}"
        passed_count = len(passed & tests.keys())
        table.add_row(
            Text(safe(model)),
            f"{passed_count} of {len(tests)}",
            *_sums(runs),
            usd_per_test,
        )
    return table


def _sums(runs: Sequence[Run]) -> tuple[str, str, str]:
    """Turns, tokens and USD as text."""
    turns = tokens = 0
    usd = 0.0
    ending = ""
    for run in runs:
        turns += run["turns"] or 0
        tokens += run["tokens"] or 0
        usd += run["usd"] or 0
        if run["usd"] is None:
            ending = " + ?"
    return f"{turns:,}", f"{tokens:,}", f"{usd:.4f}{ending}"


def _empty_table(first: str, second: str, *numbers: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in (first, second):
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _print_table(terminal: pytest.TerminalReporter, table: Table) -> None:
    """In colour where pytest uses any; else plain."""
    text = StringIO()
    is_coloured = terminal.hasmarkup
    console = Console(
        file=text,
        width=COLUMNS,
        force_terminal=is_coloured,
        color_system="standard" if is_coloured else None,
        _environ={},
    )
    console.print(table)
    for line in text.getvalue().splitlines():
        terminal.write_line(line.rstrip())
