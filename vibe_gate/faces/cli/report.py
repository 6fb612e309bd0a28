"""`vibe-gate report`: a run as one HTML page, or all runs as a site."""

from __future__ import annotations

import argparse
import webbrowser
from collections.abc import Mapping
from pathlib import Path

from vibe_gate.domain import paths
from vibe_gate.errors import PASS, StorageError, UsageError
from vibe_gate.faces.cli.command import Command, argument, whole_number
from vibe_gate.faces.cli.formats import check, put, warn_of_next
from vibe_gate.faces.cli.output import STDOUT, complain, emit
from vibe_gate.faces.cli.runs import RUN_ARGUMENT, STORE_OPTION, StoredRuns, moment
from vibe_gate.faces.cli.team import runs_of
from vibe_gate.faces.run_page import page_of, round_before


def _run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    if args.all:
        return _run_all(args, environ)
    given = [name for name in ("since", "path", "commits", "pages") if getattr(args, name) is not None]
    if given:
        raise UsageError(f"--{given[0]} is for a site of all runs; add --all.")
    if args.output == STDOUT and args.open:
        raise UsageError("--open shows a file; give -o one, or omit it.")
    if args.output not in (None, STDOUT):
        check("output", args.output)
    here = StoredRuns(environ)
    with runs_of(args, environ) as stored:
        runs, meant = stored.opened(args.run)
        with here.repository() as repository:
            result, kept = runs.read(meant), here.bundles.reports
            beside = None if args.output == STDOUT else Path(args.output).parent if args.output else kept
            earlier = round_before(result, runs.bundles.runs(), repository, beside)
            # What stays in the clone has the prompts; what leaves it, if somebody says so.
            prompts = args.output is None or args.prompts or None
            text = page_of(result, repository, prompts=prompts, earlier=earlier)
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
    return _tell(file, args)


def _run_all(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from vibe_gate.faces.cli.site import PAGES, write_site

    if args.run is not None:
        raise UsageError("--all is about all runs; omit RUN, or --all.")
    if args.output == STDOUT:
        raise UsageError("--all writes a folder; give -o one, or omit it.")
    args.pages = PAGES if args.pages is None else args.pages
    index, is_new = write_site(args, environ)
    warn_of_next([index] if is_new and args.output else [], environ)
    return _tell(index, args)


def _tell(file: Path, args: argparse.Namespace) -> int:
    emit(f"{paths.quote(str(file))}\n")
    if args.open and not webbrowser.open(file.absolute().as_uri()):
        complain("vibe-gate: no browser was found; open the file by hand.")
    return PASS


REPORT = Command(
    "Write a run as one HTML page (verdict, findings in the diff, votes, conversations, cost), or all runs as a site.",
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
        argument("--all", action="store_true", help="all runs: an index with figures, and pages, in the folder -o DIR"),
        argument("--since", type=moment, metavar="WHEN", help="with --all: 30d, 12h, 2w, or an ISO date (UTC)"),
        argument("--path", metavar="GLOB", help="with --all: runs whose change touches a path"),
        argument("--commits", metavar="RANGE", help="with --all: commits to verify (default: HEAD~200..HEAD)"),
        argument(
            "--pages", type=whole_number, metavar="N", help="with --all: write up to N missing pages (default: 100)"
        ),
        argument("--open", action="store_true", help="show the page in the browser"),
    ),
    _run,
    examples="""\
examples:
  vibe-gate report --open              the newest run
  vibe-gate report HEAD -o page.html   the review of the last commit
  vibe-gate report --all --open        all runs: figures, a list, pages
""",
)
