"""`--vibe-report DIR`: a page of each run, and an index: tests by model and repetition, and a list
of the runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain
from pathlib import Path

import pytest
from msgspec import convert
from msgspec.structs import replace

from vibe_gate.domain.attempt import TestedRun
from vibe_gate.domain.bundles import Provenance, RunEntry
from vibe_gate.faces.cli.output import now
from vibe_gate.faces.pytest_plugin.attempts import Row
from vibe_gate.faces.run_page import page_of
from vibe_gate.report.run_figures import RunFigures
from vibe_gate.report.site import Site, SiteRun, render_index_page
from vibe_gate.report.statistics import compute_statistics
from vibe_gate.store.pages_folder import PagesFolder, open_pages
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.worktree_bundles import Bundles

FOLDER = pytest.StashKey["PagesFolder"]()
"""Of the configuration: the folder for the pages, held open."""


def open_folder(path: Path, root: Path) -> PagesFolder:
    """The folder for the pages, made if it is missing. UsageError: it has files of others.
    StorageError, OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    return open_pages(Bundles(root, Provenance(now())), path)


def write_run_pages(folder: PagesFolder, bundles: Iterable[Path]) -> None:
    """Write a page of each run. One whose models were shown what stays in its clone is without its
    conversations.

    StorageError, IntegrityError.
    """
    for bundle in bundles:
        folder.put(_page_name(bundle), page_of(read_bundle(bundle), None, prompts=False))


def _page_name(bundle: Path) -> str:
    """The name of the run's page. Runs that two workers begin in one millisecond, in two
    repositories, share an id.
    """
    return f"{bundle.name}-{sha256(os.fsencode(bundle)).hexdigest()[:4]}.html"


def write_index(terminal: pytest.TerminalReporter, folder: PagesFolder, *, replayed: bool) -> None:
    """Write the index of this session, and say where it is."""
    rows = _reported_rows(terminal)
    runs = list(_site_runs(rows, terminal.config.rootpath, folder))
    runs.sort(key=lambda run: (run.entry.place, run.page), reverse=True)
    runs.sort(key=lambda run: run.entry.run_id, reverse=True)
    figures = {run.entry.place: run.figures for run in runs}
    total = compute_statistics([run.entry for run in runs], {}, lambda entry: figures[entry.place])
    rows_without_runs = [row for row in rows if "entry" not in row]
    site = Site(
        tuple(runs),
        total,
        without_runs=tuple(convert(row["tested"], TestedRun) for row in rows_without_runs),
        is_session=True,
        replayed=replayed and bool(total.usd),
    )
    folder.put_index(render_index_page(site))
    terminal.write_line(f"report: {folder.index}")


def _reported_rows(terminal: pytest.TerminalReporter) -> list[Row]:
    """The attempts of all tests; a test that was run again has reports with fewer of them, too."""
    rows_by_test: dict[str, list[Row]] = {}
    for report in chain.from_iterable(terminal.stats.values()):
        rows = getattr(report, "vibe_attempts", None)
        if rows is not None and len(rows) > len(rows_by_test.get(report.nodeid, ())):
            rows_by_test[report.nodeid] = rows
    return list(chain.from_iterable(rows_by_test.values()))


def _site_runs(rows: Iterable[Row], root: Path, folder: PagesFolder) -> Iterator[SiteRun]:
    """The runs, with what they cost when they were recorded, and by the agent that each is of."""
    for row in rows:
        if "entry" not in row:
            continue
        tested = convert(row["tested"], TestedRun)
        usd = tested.usd
        entry = convert(row["entry"], RunEntry)
        entry = replace(
            entry,
            author=entry.workflow,
            cost_usd=usd or 0.0,
            cost_basis="unknown" if usd is None else "known",
        )
        usd_by_model = {}
        model = row["run"]["model"]
        if usd and model:
            usd_by_model[model] = usd
        page = f"{folder.runs.name}/{_page_name(root / row['run']['bundle'])}"
        yield SiteRun(entry, RunFigures(usd_by_model=usd_by_model), "", page, tested)
