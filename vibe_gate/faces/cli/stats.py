"""`vibe-gate stats`: what the stored runs come to."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping

from vibe_gate.domain.document import plain
from vibe_gate.errors import PASS
from vibe_gate.faces.cli.command import JSON, Command, argument
from vibe_gate.faces.cli.label import known_labels
from vibe_gate.faces.cli.output import emit, emit_result, is_terminal
from vibe_gate.faces.cli.runs import StoredRuns, figures_of, moment
from vibe_gate.faces.cli.screen import coloured
from vibe_gate.report.statistics import drawn, lines, statistics


def _run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    runs = StoredRuns(environ)
    bundles = runs.bundles
    with runs.repository() as repository:
        labels = () if repository is None else known_labels(repository, environ)
    known = {entry.place: entry for entry in bundles.runs()}
    wanted = known.values() if args.since is None else bundles.find(since=args.since)
    with figures_of(bundles) as figures:
        total = statistics(wanted, known, figures, labels, args.since)
    since = None if args.since is None else args.since.isoformat(timespec="seconds")
    if args.json or not is_terminal():
        return emit_result(args, {"since": since, **plain(total)}, lines(total))
    columns = shutil.get_terminal_size().columns
    emit(coloured(drawn(total, columns), columns, environ) + "\n")
    return PASS


STATS = Command(
    "Add up the stored runs: outcomes, cost, findings, what people say of them.",
    (
        argument("--since", type=moment, metavar="WHEN", help="30d, 12h, 2w, or an ISO date (UTC)"),
        JSON,
    ),
    _run,
    examples="""\
examples:
  vibe-gate stats                  every run that is stored here
  vibe-gate stats --since 7d       the runs of a week
""",
)
