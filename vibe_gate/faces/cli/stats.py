"""`vibe-gate stats`: what the stored runs come to."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from vibe_gate.domain.document import plain
from vibe_gate.domain.label import Label
from vibe_gate.errors import PASS
from vibe_gate.faces.cli.command import JSON, Command, argument
from vibe_gate.faces.cli.label import known_labels
from vibe_gate.faces.cli.output import emit, emit_result, is_terminal
from vibe_gate.faces.cli.runs import StoredRuns, figures_of, parse_since
from vibe_gate.faces.cli.screen import coloured
from vibe_gate.report.run_list import NO_MATCHES, NO_RUNS
from vibe_gate.report.statistics import compute_statistics, draw_statistics, render_statistics


class StatsArguments(Struct, frozen=True):
    """The arguments of `vibe-gate stats`."""

    since: datetime | None
    """Only runs since then; None: all."""
    as_json: bool


def _parse(args: argparse.Namespace) -> StatsArguments:
    return StatsArguments(args.since, args.json)


def _run(arguments: StatsArguments) -> int:
    since = arguments.since
    runs = StoredRuns()
    bundles = runs.bundles
    labels: Sequence[Label] = ()
    with runs.repository() as repository:
        if repository is not None:
            labels = known_labels(repository)
    all_runs = bundles.find()
    entries = all_runs
    if since is not None:
        entries = bundles.find(since=since)
    runs_by_place = {entry.place: entry for entry in all_runs}
    with figures_of(bundles) as figures:
        total = compute_statistics(entries, runs_by_place, figures, labels, since)
    if not entries and not total.criteria and not arguments.as_json:
        emit(f"{NO_RUNS if since is None else NO_MATCHES}\n")
        return PASS
    if arguments.as_json or not is_terminal():
        document = {"since": None, **plain(total)}
        if since is not None:
            document["since"] = since.isoformat(timespec="seconds")
        return emit_result(document, render_statistics(total), as_json=arguments.as_json)
    columns = shutil.get_terminal_size().columns
    emit(coloured(draw_statistics(total, columns), columns) + "\n")
    return PASS


STATS = Command(
    "Add up the stored runs: outcomes, cost, findings, what people say of them.",
    (
        argument(
            "--since", type=parse_since, metavar="WHEN", help="30d, 12h, 2w, or an ISO date (UTC)"
        ),
        JSON,
    ),
    _parse,
    _run,
    examples="""\
examples:
  vibe-gate stats                  every run that is stored here
  vibe-gate stats --since 7d       the runs of a week
""",
)
