"""`vibe-gate report`: a run as one HTML page."""

from __future__ import annotations

import argparse
import webbrowser
from collections.abc import Mapping
from pathlib import Path

from vibe_gate.domain import paths
from vibe_gate.errors import PASS, StorageError, UsageError
from vibe_gate.faces.authors import page_of
from vibe_gate.faces.cli.command import Command, argument
from vibe_gate.faces.cli.formats import check, put, warn_of_next
from vibe_gate.faces.cli.output import STDOUT, complain, emit
from vibe_gate.faces.cli.runs import RUN_ARGUMENT, STORE_OPTION, StoredRuns
from vibe_gate.faces.cli.team import runs_of


def _run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    if args.output == STDOUT and args.open:
        raise UsageError("--open shows a file; give -o one, or omit it.")
    if args.output not in (None, STDOUT):
        check("output", args.output)
    here = StoredRuns(environ)
    with runs_of(args, environ) as stored:
        runs, meant = stored.opened(args.run)
        with here.repository() as repository:
            # What stays in the clone has the prompts; what leaves it, if somebody says so.
            text = page_of(runs.read(meant), repository, prompts=args.output is None or args.prompts or None)
    if args.output == STDOUT:
        emit(text)
        return PASS
    if args.output is None:
        try:
            file = here.bundles.keep_report(f"{meant.entry.run_id}.html", text.encode())
        except StorageError as error:
            raise StorageError(f"{error} Use -o FILE to write the page elsewhere.") from error
    else:
        file = Path(args.output)
        is_new = not file.exists()
        put("output", args.output, text)
        warn_of_next([file] if is_new else [], environ)
    emit(f"{paths.quote(str(file))}\n")
    if args.open and not webbrowser.open(file.absolute().as_uri()):
        complain("vibe-gate: no browser was found; open the file by hand.")
    return PASS


REPORT = Command(
    "Write a run as one HTML page: verdict, findings in the diff, votes, conversations, cost.",
    (
        RUN_ARGUMENT,
        STORE_OPTION,
        argument(
            "-o", "--output", metavar="FILE", help="write FILE (default: below .vibe-artifacts/reports), - stdout"
        ),
        argument(
            "--prompts",
            action="store_true",
            help="with -o: also what was asked in captured sessions (default: as [share] prompts in gate.toml)",
        ),
        argument("--open", action="store_true", help="show the page in the browser"),
    ),
    _run,
    examples="""\
examples:
  vibe-gate report --open              the newest run
  vibe-gate report HEAD -o page.html   the review of the last commit
""",
)
