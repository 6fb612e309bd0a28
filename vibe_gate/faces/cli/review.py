"""`vibe-gate review`: turn argv into a ReviewRequest, print the Review on the terminal or as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain import paths
from vibe_gate.domain.escape import safe
from vibe_gate.errors import PASS, StorageError, UsageError
from vibe_gate.faces import progress
from vibe_gate.faces.cli.command import Command, whole_number
from vibe_gate.faces.cli.output import IN_STORE, STDOUT, complain, emit, now, share
from vibe_gate.faces.cli.request import CLUSTER, SHARD, add_limits, add_wire, advising_about, request_of
from vibe_gate.faces.cli.screen import nothing, present
from vibe_gate.report import sentences
from vibe_gate.run.review import Review, review
from vibe_gate.run.shard import WHOLE

FORMATS = {
    "sarif": "SARIF 2.1.0, for code scanning and editors",
    "junit": "JUnit XML: one test case per criterion",
    "gitlab": "GitLab Code Quality report",
    "html": "one page with everything, as of `vibe-gate report` (default: below .vibe-artifacts/reports)",
    "markdown": "the whole report as GitHub Markdown",
}
"""What a review is written as, by option; `formats` has the writers."""

OF_MANY = ("jobs", "no-merges", "shard", "cluster", "store", "table")
OF_ONE = ("staged", "commit", "workflow", "concise", "quiet")
"""Options that go with `--each` alone, and those that do not go with it, besides formats."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what to review (default: HEAD to the working tree)")
    what.add_argument(
        "revision",
        nargs="*",
        metavar="REV | A..B | A...B",
        help="from REV to the working tree, or a range as of git diff",
    )
    what.add_argument("--staged", action="store_true", help="the index against HEAD")
    what.add_argument("--commit", metavar="REV", help="one commit against its first parent")
    what.add_argument("--base", metavar="REV", help="the trusted base revision; definitions are read there")

    how = parser.add_argument_group("rubrics")
    how.add_argument("--rubric", nargs="+", action="extend", default=[], metavar="ID", help="use only these rubrics")
    how.add_argument("--workflow", metavar="ID", help="run this workflow; its rubrics give the verdict")
    how.add_argument("--no-judge", action="store_true", help="run checks only; do not ask a model")
    how.add_argument("--force", action="store_true", help="ask again even if an earlier review has the answer")
    how.add_argument("--definitions", metavar="REV|worktree", help="read .vibe-gate/ at REV, or from disk")

    many = parser.add_argument_group("each commit by itself (docs/guides/histories.md)")
    many.add_argument("--each", action="store_true", help="review each commit of A..B; goes on after an interruption")
    many.add_argument("--jobs", type=whole_number, metavar="N", help="reviews side by side (default: cores, at most 4)")
    many.add_argument("--no-merges", action="store_true", help="leave out merges (else: against their first parent)")
    SHARD(many)
    CLUSTER(many)
    many.add_argument("--store", action="store_true", help="count runs of the shared store; they are fetched")
    many.add_argument("--table", action="store_true", help="review nothing; print what is recorded of this range")

    limits = add_limits(parser)
    limits.add_argument("--strict", action="store_true", help="in hooks: block instead of warning")
    add_wire(parser)

    forms = parser.add_argument_group("output (FILE may be - for stdout; formats can be combined)")
    screen = forms.add_mutually_exclusive_group()
    screen.add_argument("--json", action="store_true", help="print the summary as one JSON document")
    screen.add_argument("--concise", action="store_true", help="a line for each finding, and one with the verdict")
    screen.add_argument("--quiet", action="store_true", help="print nothing on a pass without warnings")
    for name, text in FORMATS.items():
        option = forms.add_argument(f"--{name}", metavar="FILE", help=text)
        if name == "html":
            option.nargs, option.const = "?", IN_STORE


def _run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    request = request_of(args, environ)
    _check_number(args)
    if args.each:
        from vibe_gate.faces.cli.each import each  # one review needs no pool

        return each(args, request, environ)
    new, failed, kept = list[Path](), list[str](), None
    targets = {name: file for name in FORMATS if (file := getattr(args, name)) is not None}
    if targets:
        from vibe_gate.faces.cli import formats  # most reviews write none, and the import costs a tenth of one

        new = formats.check_all(targets, environ, as_json=args.json)
    if args.workflow is not None:
        done, show = _with_workflow(args, request, environ)
    else:
        with progress.shown(environ, quiet=args.quiet) as display:
            own = replace(request, alone=True, meter=display.meter)
            walk = review(own, start=Path.cwd(), environ=environ, clock=now, progress=display.show)
            with advising_about(request, environ):
                done = progress.run(walk)
        show = partial(_present, args, done, request, environ)
    if targets:
        failed, kept = formats.write(targets, done, environ)
    try:
        if STDOUT not in targets.values():
            show()
    except StorageError as error:
        failed.append(str(error))
    if kept is not None:
        complain(f"page: {paths.quote(str(kept))}")
    if new and not args.quiet:
        formats.warn_of_next(new, environ)
    share(done)
    return _ended(done, failed)


def _check_number(args: argparse.Namespace) -> None:
    """UsageError for an option of one review with `--each`, or for one of many without."""
    given = {name for name, value in vars(args).items() if value not in (None, False, [], WHOLE)}
    of_one = next((name for name in (*OF_ONE, *FORMATS) if name in given), None)
    of_many = next((name for name in OF_MANY if name.replace("-", "_") in given), None)
    if args.each and of_one:
        raise UsageError(f"--{of_one} is for one review, and --each makes many; use one of them.")
    if args.table and args.force:
        raise UsageError("--force reviews every commit again, and --table reviews nothing; use one of them.")
    if not args.each and of_many:
        raise UsageError(f"--{of_many} belongs to --each.")


def _with_workflow(
    args: argparse.Namespace, request: ReviewRequest, environ: Mapping[str, str]
) -> tuple[Review, Callable[[], None]]:
    """Review with a workflow: its rubric stages give the verdict about the change, its agents a patch.

    Returns the review, and what prints it.
    """
    from vibe_gate.faces.cli import run  # a review loads nothing of workflows

    if args.rubric:
        raise UsageError("--rubric and --workflow select different rubrics; use one of them.")
    done = run.reviewed(request, args.workflow, environ, quiet=args.quiet)
    if args.concise or args.quiet or args.json:
        return done.review, partial(_present, args, done.review, request, environ)
    return done.review, partial(run.present, done, environ)


def _ended(done: Review, failed: list[str]) -> int:
    """The exit code, after sentences about what could not be written."""
    for sentence in failed[:-1]:
        complain(f"vibe-gate: {safe(sentence)}")
    if failed and done.summary.exit_code == PASS:  # a pass that nobody can read is not a pass
        raise StorageError(failed[-1])
    if failed:
        complain(f"vibe-gate: {safe(failed[-1])}")
    return done.summary.exit_code


def _present(args: argparse.Namespace, done: Review, request: ReviewRequest, environ: Mapping[str, str]) -> None:
    is_plain_pass = sentences.verdict(done.summary) in ("PASS", "PASS (checks only)", "DONE", "NOTHING TO REVIEW")
    if args.concise:
        emit("\n".join(sentences.concise(done.summary) if done.summary.run_id else [nothing(request.selection)]) + "\n")
    elif not (args.quiet and is_plain_pass):
        present(done, request, environ, as_json=args.json)


REVIEW = Command(
    "Review a change against the repository's rubrics: checks first, then the judge.",
    (_add_arguments,),
    _run,
    "vibe-gate review [REV | A..B | A...B | --staged | --commit REV] [options]",
    """\
examples:
  vibe-gate review                  uncommitted work, untracked files included
  vibe-gate review HEAD~1           from HEAD~1 to the working tree
  vibe-gate review main...feature   what feature changed since it left main
  vibe-gate review --staged --no-judge
                                    checks only, on what you are about to commit
  vibe-gate review v1.0..main --each --jobs 4
                                    every commit since v1.0 by itself
""",
)
