"""`--vibe-report DIR`: a page of each run, and an index of them by test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

import pytest

from vibe_gate.faces.pytest_plugin.costs import ran
from vibe_gate.report.html import IndexRow, index_page, page
from vibe_gate.store import read_bundle


def write(folder: Path, bundles: Iterable[Path]) -> None:
    """Write a page of each run. StorageError, IntegrityError, OSError."""
    for bundle in bundles:
        text = asyncio.run(page(read_bundle(bundle)))
        (folder / _name(bundle)).write_text(text, encoding="utf-8")


def _name(bundle: Path) -> str:
    """The name of the run's page. Runs that two workers begin in one millisecond, in two repositories, share an id."""
    return f"{bundle.name}-{sha256(os.fsencode(bundle)).hexdigest()[:4]}.html"


def write_index(terminal: pytest.TerminalReporter, folder: Path) -> None:
    """Write the page that lists the runs of this session, and say where it is."""
    outcomes = {
        report.nodeid: outcome
        for outcome in ("passed", "skipped", "failed", "error")
        for report in terminal.stats.get(outcome, ())
    }
    rows = [
        IndexRow(
            test=test,
            result=outcomes.get(test, ""),
            run=Path(run["bundle"]).name,
            page=_name(terminal.config.rootpath / run["bundle"]),
            **{name: run[name] for name in ("outcome", "model", "turns", "tokens", "usd")},
        )
        for test, runs in ran(terminal.stats).items()
        for run in runs
        if run["bundle"]
    ]
    index = folder / "index.html"
    index.write_text(index_page(rows), encoding="utf-8")
    terminal.write_line(f"report: {index}")
