"""`vibe-gate report`: a run as one HTML page, or all runs as a site."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.errors import PASS, StorageError, UsageError
from vibe_gate.faces.cli.command import Command, argument, whole_number
from vibe_gate.faces.cli.formats import check_option_file, warn_of_next, write_option_file
from vibe_gate.faces.cli.lazy_arguments import SiteArguments
from vibe_gate.faces.cli.output import STDOUT, complain, emit
from vibe_gate.faces.cli.runs import RUN_ARGUMENT, STORE_OPTION, StoredRuns, parse_since
from vibe_gate.faces.cli.team import runs_of
from vibe_gate.faces.run_page import page_of, round_before

PAGES = 100
"""Pages of runs that one call writes: each takes some ten milliseconds, and 200 KB."""


class PageArguments(Struct, frozen=True):
    """The arguments of `vibe-gate report` of one run."""

    reference: str | None
    """The run; None: the newest."""
    store: bool
    """Whether a run of the shared store is meant."""
    output: str | None
    """A file, `STDOUT`, or None: below .vibe-artifacts/reports."""
    prompts: bool
    """Whether a page that leaves the clone has what was asked in captured sessions."""
    open: bool
    """Show the page in the browser."""


def _parse(args: argparse.Namespace) -> PageArguments | SiteArguments:
    if not args.all:
        of_all = {"since": args.since, "path": args.path, "commits": args.commits}
        for name, value in (of_all | {"pages": args.pages}).items():
            if value is not None:
                raise UsageError(f"--{name} is for a site of all runs; add --all.")
        if args.output == STDOUT and args.open:
            raise UsageError("--open shows a file; give -o one, or omit it.")
        return PageArguments(args.run, args.store, args.output, args.prompts, args.open)
    if args.run is not None:
        raise UsageError("--all is about all runs; omit RUN, or --all.")
    if args.output == STDOUT:
        raise UsageError("--all writes a folder; give -o one, or omit it.")
    return SiteArguments(
        store=args.store,
        output=args.output,
        prompts=args.prompts,
        open=args.open,
        since=args.since,
        path=args.path,
        commits=args.commits,
        pages=PAGES if args.pages is None else args.pages,
    )


def _run(arguments: PageArguments | SiteArguments) -> int:
    if isinstance(arguments, SiteArguments):
        from vibe_gate.faces.cli.site import write_site  # one page needs no statistics

        index, is_new = write_site(arguments)
        warn_of_next([index] if is_new and arguments.output else [])
        return _tell(index, is_opened=arguments.open)
    return _write_page(arguments)


def _write_page(arguments: PageArguments) -> int:
    output = arguments.output
    if output not in (None, STDOUT):
        check_option_file("output", output)
    clone = StoredRuns()
    with runs_of(in_store=arguments.store) as stored:
        runs, named_run = stored.open_run(arguments.reference)
        with clone.repository() as repository:
            result = runs.read(named_run)
            folder = _folder_of(output, clone)
            earlier = round_before(result, runs.bundles.find(), repository, folder)
            # What stays in the clone has the prompts; what leaves it, if somebody says so.
            prompts = output is None or arguments.prompts or None
            text = page_of(result, repository, prompts=prompts, earlier=earlier)
    if output == STDOUT:
        emit(text)
        return PASS
    if output is None:
        try:
            file = clone.bundles.keep_report(f"{named_run.entry.run_id}.html", text.encode())
        except StorageError as error:
            raise StorageError(f"{error} Use -o FILE to write the page elsewhere.") from error
    else:
        file = Path(output)
        is_new = not file.exists()
        write_option_file("output", output, text)
        warn_of_next([file] if is_new else [])
    return _tell(file, is_opened=arguments.open)


def _folder_of(output: str | None, clone: StoredRuns) -> Path | None:
    """The folder that the page is written to; None for stdout."""
    if output is None:
        return clone.bundles.reports
    return None if output == STDOUT else Path(output).parent


def _tell(file: Path, *, is_opened: bool) -> int:
    emit(f"{paths.quote(str(file))}\n")
    if is_opened and not webbrowser.open(file.absolute().as_uri()):
        complain("vibe-gate: no browser was found; open the file by hand.")
    return PASS


REPORT = Command(
    "Write a run as one HTML page (verdict, findings in the diff, votes, conversations, cost), or all runs as a site.",
    (
        RUN_ARGUMENT,
        STORE_OPTION,
        argument(
            "-o",
            "--output",
            metavar="FILE",
            help="write FILE (default: below .vibe-artifacts/reports), - stdout",
        ),
        argument(
            "--prompts",
            action="store_true",
            help="with -o: also what was asked in captured sessions (default: as [share] prompts in gate.toml)",
        ),
        argument(
            "--all",
            action="store_true",
            help="all runs: an index with figures, and pages, in the folder -o DIR",
        ),
        argument(
            "--since",
            type=parse_since,
            metavar="WHEN",
            help="with --all: 30d, 12h, 2w, or an ISO date (UTC)",
        ),
        argument("--path", metavar="GLOB", help="with --all: runs whose change touches a path"),
        argument(
            "--commits",
            metavar="RANGE",
            help="with --all: commits to verify (default: HEAD~200..HEAD)",
        ),
        argument(
            "--pages",
            type=whole_number,
            metavar="N",
            help="with --all: write up to N missing pages (default: 100)",
        ),
        argument("--open", action="store_true", help="show the page in the browser"),
    ),
    _parse,
    _run,
    examples="""\
examples:
  vibe-gate report --open              the newest run
  vibe-gate report HEAD -o page.html   the review of the last commit
  vibe-gate report --all --open        all runs: figures, a list, pages
""",
)
