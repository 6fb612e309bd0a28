"""`vibe-gate review`: turn argv into a ReviewRequest, print the Review on the terminal or as
JSON.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct

from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain import paths
from vibe_gate.domain.escape import safe
from vibe_gate.domain.model_wire import WireOptions
from vibe_gate.errors import PASS, StorageError, UsageError
from vibe_gate.faces import progress
from vibe_gate.faces.cli.command import Command, whole_number
from vibe_gate.faces.cli.lazy_arguments import EachArguments
from vibe_gate.faces.cli.output import IN_STORE, STDOUT, complain, emit, now, upload_run
from vibe_gate.faces.cli.request import (
    ChangeArguments,
    RubricArguments,
    advising_about,
    may_be_rubric,
    request_of,
    require_single_revision,
)
from vibe_gate.faces.cli.screen import explain_no_change, present_review
from vibe_gate.faces.cli.shared_options import (
    CLUSTER,
    SHARD,
    RunLimits,
    WorkerOptions,
    add_limits,
    add_wire,
    parse_limits,
    parse_wire,
    parse_workers,
)
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.report import sentences
from vibe_gate.run.review import review_around
from vibe_gate.run.review_result import Review

FORMATS = {
    "sarif": "SARIF 2.1.0, for code scanning and editors",
    "junit": "JUnit XML: one test case per criterion",
    "gitlab": "GitLab Code Quality report",
    "html": "one page with everything, as of `vibe-gate report` (default: below .vibe-artifacts/reports)",
    "markdown": "the whole report as GitHub Markdown",
}
"""What a review is written as, by option; `formats` has the writers."""

ReviewForm = Literal["screen", "json", "concise", "quiet"]
"""How a review is printed."""

_PLAIN_PASSES = ("PASS", "PASS (checks only)", "DONE", "NOTHING TO REVIEW")
"""Verdicts of which `--quiet` prints nothing."""


class ReviewArguments(Struct, frozen=True):
    """The arguments of `vibe-gate review`."""

    change: ChangeArguments
    """What is compared."""
    rubrics: RubricArguments
    """What it is held to."""
    workflow: str | None
    """The id of the workflow whose rubrics give the verdict; None: the rubrics of the gate."""
    limits: RunLimits
    """What it may cost."""
    wire: WireOptions
    """How the model is reached."""
    each: EachArguments | None
    """None: one review of the whole change."""
    form: ReviewForm
    """How it is printed."""
    files: dict[str, str]
    """By format, the FILE that it is written to: `STDOUT`, `IN_STORE` or a path."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    change_options = parser.add_argument_group("what to review (default: HEAD to the working tree)")
    change_options.add_argument(
        "revision",
        nargs="*",
        metavar="REV | A..B | A...B",
        help="from REV to the working tree, or a range as of git diff",
    )
    change_options.add_argument("--staged", action="store_true", help="the index against HEAD")
    change_options.add_argument(
        "--commit", metavar="REV", help="one commit against its first parent"
    )
    change_options.add_argument(
        "--base", metavar="REV", help="the trusted base revision; definitions are read there"
    )

    rubric_options = parser.add_argument_group("rubrics")
    rubric_options.add_argument(
        "--rubric",
        nargs="+",
        action="extend",
        default=[],
        metavar="ID",
        help="use only these rubrics",
    )
    rubric_options.add_argument(
        "--workflow", metavar="ID", help="run this workflow; its rubrics give the verdict"
    )
    rubric_options.add_argument(
        "--no-judge", action="store_true", help="run checks only; do not ask a model"
    )
    rubric_options.add_argument(
        "--force", action="store_true", help="ask again even if an earlier review has the answer"
    )
    rubric_options.add_argument(
        "--definitions", metavar="REV|worktree", help="read .vibe-gate/ at REV, or from disk"
    )

    _add_each(parser)
    limits = add_limits(parser)
    limits.add_argument(
        "--strict",
        action="store_true",
        help="changes nothing here: a review already returns 3 and 4, where a hook only warns",
    )
    add_wire(parser)
    _add_forms(parser)


def _add_each(parser: argparse.ArgumentParser) -> None:
    many = parser.add_argument_group("each commit by itself (docs/guides/histories.md)")
    many.add_argument(
        "--each",
        action="store_true",
        help="review each commit of A..B; goes on after an interruption",
    )
    many.add_argument(
        "--jobs",
        type=whole_number,
        metavar="N",
        help="reviews side by side (default: cores, at most 4)",
    )
    many.add_argument(
        "--no-merges",
        action="store_true",
        help="leave out merges (else: against their first parent)",
    )
    SHARD(many)
    CLUSTER(many)
    many.add_argument(
        "--store", action="store_true", help="count runs of the shared store; they are fetched"
    )
    many.add_argument(
        "--table",
        action="store_true",
        help="review nothing; print what is recorded of this range",
    )


def _add_forms(parser: argparse.ArgumentParser) -> None:
    forms = parser.add_argument_group("output (FILE may be - for stdout; formats can be combined)")
    screen = forms.add_mutually_exclusive_group()
    screen.add_argument(
        "--json", action="store_true", help="print the summary as one JSON document"
    )
    screen.add_argument(
        "--concise",
        action="store_true",
        help="a line for each finding, and one with the verdict",
    )
    screen.add_argument(
        "--quiet", action="store_true", help="print nothing on a pass without warnings"
    )
    for name, text in FORMATS.items():
        option = forms.add_argument(f"--{name}", metavar="FILE", help=text)
        if name == "html":
            option.nargs, option.const = "?", IN_STORE


def _parse(args: argparse.Namespace) -> ReviewArguments:
    files = {name: file for name in FORMATS if (file := getattr(args, name)) is not None}
    rubrics, revision = _parse_rubrics(args.rubric, require_single_revision(args.revision))
    if args.rubric and args.workflow is not None:
        raise UsageError("--rubric and --workflow select different rubrics; use one of them.")
    return ReviewArguments(
        change=ChangeArguments(revision, args.staged, args.commit, args.base, args.definitions),
        rubrics=RubricArguments(rubrics, not args.no_judge, args.force),
        workflow=args.workflow,
        limits=parse_limits(args),
        wire=parse_wire(args),
        each=_parse_each(args, files),
        form=_parse_form(args),
        files=files,
    )


def _parse_rubrics(words: list[str], revision: str | None) -> tuple[tuple[str, ...], str | None]:
    """The ids of rubrics, and the revision that may stand among them.

    `review --rubric quality HEAD~1`: argparse gives all words to --rubric, but HEAD~1 cannot be a
    rubric's id, so the last word is the revision.
    """
    ids = list(words)
    if revision is None and len(ids) > 1 and not may_be_rubric(ids[-1]):
        revision = ids.pop()
    for name in ids:
        if not may_be_rubric(name):
            raise UsageError(
                f"'{name}' is not a rubric id; use lower-case letters, digits, '.', '_', '-'."
            )
    return tuple(dict.fromkeys(ids)), revision


def _parse_form(args: argparse.Namespace) -> ReviewForm:
    if args.json:
        return "json"
    if args.concise:
        return "concise"
    if args.quiet:
        return "quiet"
    return "screen"


def _parse_each(args: argparse.Namespace, files: Mapping[str, str]) -> EachArguments | None:
    """None without `--each`.

    UsageError for an option of one review with it, or for one of many without.
    """
    of_one = {
        "--staged": args.staged,
        "--commit": args.commit is not None,
        "--workflow": args.workflow is not None,
        "--concise": args.concise,
        "--quiet": args.quiet,
    }
    of_one |= {f"--{name}": True for name in files}
    workers = parse_workers(args)
    of_many = {
        "--jobs": workers.jobs is not None,
        "--no-merges": args.no_merges,
        "--shard": workers.shard != WorkerOptions().shard,
        "--cluster": workers.cluster is not None,
        "--store": args.store,
        "--table": args.table,
    }
    if not args.each:
        for option, is_given in of_many.items():
            if is_given:
                raise UsageError(f"{option} belongs to --each.")
        return None
    for option, is_given in of_one.items():
        if is_given:
            raise UsageError(f"{option} is for one review, and --each makes many; use one of them.")
    if args.table and args.force:
        raise UsageError(
            "--force reviews every commit again, and --table reviews nothing; use one of them."
        )
    return EachArguments(workers, not args.no_merges, args.store, args.table)


def _run(arguments: ReviewArguments) -> int:
    request = request_of(
        arguments.change,
        arguments.rubrics,
        arguments.limits,
        arguments.wire,
        read_process_environment(),
    )
    if arguments.each is not None:
        from vibe_gate.faces.cli.each import review_each_commit  # one review needs no pool

        as_json = arguments.form == "json"
        return review_each_commit(arguments.each, request, as_json=as_json)
    files = arguments.files
    new_files: list[Path] = []
    failures: list[str] = []
    page = None
    if files:
        # Most reviews write none, and the import costs a tenth of one.
        from vibe_gate.faces.cli import formats

        new_files = formats.check_all(files, as_json=arguments.form == "json")
    finished, show = _review(arguments, request)
    if files:
        failures, page = formats.write_formats(files, finished)
    try:
        if STDOUT not in files.values():
            show()
    except StorageError as error:
        failures.append(str(error))
    if page is not None:
        complain(f"page: {paths.quote(str(page))}")
    if new_files and arguments.form != "quiet":
        formats.warn_of_next(new_files)
    upload_run(finished)
    return _exit_code(finished, failures)


def _review(
    arguments: ReviewArguments, request: ReviewRequest
) -> tuple[Review, Callable[[], None]]:
    """Review the change; the review, and what prints it."""
    is_quiet = arguments.form == "quiet"
    if arguments.workflow is not None:
        # Its rubric stages give the verdict about the change, its agents a patch.
        from vibe_gate.faces.cli import run, workflow_screen  # a review loads nothing of workflows

        workflow_run = run.run_as_review(request, arguments.workflow, quiet=is_quiet)
        if arguments.form == "screen":
            return workflow_run.review, partial(workflow_screen.present_workflow_run, workflow_run)
        return workflow_run.review, partial(_present, arguments.form, workflow_run.review, request)
    environment = read_process_environment()
    with progress.display_progress(environment, quiet=is_quiet) as display:
        walk = review_around(
            request,
            start=Path.cwd(),
            environment=environment,
            clock=now,
            progress=display.show,
            meter=display.meter,
        )
        with advising_about(request):
            finished = progress.run_walk(walk)
    return finished, partial(_present, arguments.form, finished, request)


def _exit_code(finished: Review, failures: list[str]) -> int:
    """The exit code, after sentences about what could not be written."""
    for sentence in failures[:-1]:
        complain(f"vibe-gate: {safe(sentence)}")
    if failures and finished.summary.exit_code == PASS:  # a pass that nobody can read is not a pass
        raise StorageError(failures[-1])
    if failures:
        complain(f"vibe-gate: {safe(failures[-1])}")
    return finished.summary.exit_code


def _present(form: ReviewForm, finished: Review, request: ReviewRequest) -> None:
    summary = finished.summary
    if form == "concise":
        lines = [explain_no_change(request.selection, summary.change)]
        if summary.run_id:
            lines = sentences.concise_lines(summary)
        emit("\n".join(lines) + "\n")
        return
    if form == "quiet" and sentences.verdict_words(summary) in _PLAIN_PASSES:
        return
    present_review(finished, request, as_json=form == "json")


REVIEW = Command(
    "Review a change against the repository's rubrics: checks first, then the judge.",
    (_add_arguments,),
    _parse,
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
