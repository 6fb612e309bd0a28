"""`vibe-gate review`: turn argv into a ReviewRequest, print the Review on the terminal or as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.context import ReviewRequest
from vibe_gate.domain.escape import safe
from vibe_gate.errors import PASS, StorageError, UsageError
from vibe_gate.faces import progress
from vibe_gate.faces.cli.command import Command
from vibe_gate.faces.cli.output import IN_STORE, STDOUT, complain, emit, now
from vibe_gate.faces.cli.request import add_limits, add_wire, advising_about, request_of
from vibe_gate.faces.cli.screen import nothing, present
from vibe_gate.report import sentences
from vibe_gate.run.review import Review, review

FORMATS = {
    "sarif": "SARIF 2.1.0, for code scanning and editors",
    "junit": "JUnit XML: one test case per criterion",
    "gitlab": "GitLab Code Quality report",
    "html": "one page with everything, as of `vibe-gate report` (default: below .vibe-artifacts/reports)",
    "markdown": "the whole report as GitHub Markdown",
}
"""What a review is written as, by option; `formats` has the writers."""


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
    new, failed, kept = list[Path](), list[str](), None
    targets = {name: file for name in FORMATS if (file := getattr(args, name)) is not None}
    if targets:
        from vibe_gate.faces.cli import formats  # most reviews write none, and the import costs a tenth of one

        new = formats.check_all(targets, environ, as_json=args.json)
    if args.workflow is not None:
        done, show = _with_workflow(args, request, environ)
    else:
        with progress.shown(environ, quiet=args.quiet) as display:
            own = replace(request, alone=True)
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
    return _ended(done, failed)


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
""",
)
