"""`--vibe-report DIR`: a page of each run, and an index: tests by model and repetition, and a list of the runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec import convert
from msgspec.structs import replace

from vibe_gate.domain.attempt import TestedRun
from vibe_gate.domain.bundles import RunEntry
from vibe_gate.faces.pytest_plugin.attempts import Row
from vibe_gate.report.html import page
from vibe_gate.report.run_figures import RunFigures
from vibe_gate.report.site import Site, SiteRun, index_page
from vibe_gate.report.statistics import statistics
from vibe_gate.store import read_bundle


def write(folder: Path, bundles: Iterable[Path]) -> None:
    """Write a page of each run. StorageError, IntegrityError, OSError."""
    for bundle in bundles:
        text = asyncio.run(page(read_bundle(bundle)))
        (folder / _name(bundle)).write_text(text, encoding="utf-8")


def _name(bundle: Path) -> str:
    """The name of the run's page. Runs that two workers begin in one millisecond, in two repositories, share an id."""
    return f"{bundle.name}-{sha256(os.fsencode(bundle)).hexdigest()[:4]}.html"


def write_index(terminal: pytest.TerminalReporter, folder: Path, *, replayed: bool) -> None:
    """Write the index of this session, and say where it is."""
    attempts: dict[str, list[Row]] = {}
    for report in (one for some in terminal.stats.values() for one in some if hasattr(one, "vibe_attempts")):
        if len(report.vibe_attempts) > len(attempts.get(report.nodeid, ())):  # a test that was run again has more
            attempts[report.nodeid] = report.vibe_attempts
    rows = [row for some in attempts.values() for row in some]
    runs = sorted(_runs(rows, terminal.config.rootpath), key=lambda run: (run.entry.place, run.page), reverse=True)
    runs.sort(key=lambda run: run.entry.run_id, reverse=True)
    figures = {run.entry.place: run.figures for run in runs}
    total = statistics([run.entry for run in runs], {}, lambda entry: figures[entry.place])
    bare = tuple(convert(row["tested"], TestedRun) for row in rows if "entry" not in row)
    site = Site(tuple(runs), total, without_runs=bare, is_session=True, replayed=replayed and bool(total.usd))
    index = folder / "index.html"
    index.write_text(index_page(site), encoding="utf-8", errors="replace")
    terminal.write_line(f"report: {index}")


def _runs(rows: Iterable[Row], root: Path) -> Iterator[SiteRun]:
    """The runs, with what they cost when they were recorded, and by the agent that each is of."""
    for row in rows:
        if "entry" not in row:
            continue
        tested, run = convert(row["tested"], TestedRun), row["run"]
        entry, usd = convert(row["entry"], RunEntry), tested.usd
        basis = "unknown" if usd is None else "known"
        entry = replace(entry, author=entry.workflow, cost_usd=usd or 0.0, cost_basis=basis)
        paid = {run["model"]: usd} if usd and run["model"] else {}
        yield SiteRun(entry, RunFigures(usd_by_model=paid), "", _name(root / run["bundle"]), tested)
