"""`vibe-gate review`: turn argv into a ReviewRequest, print the Review on the terminal or as JSON."""

from __future__ import annotations

import argparse
import math
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, cast

from vibe_gate.domain import in_ci
from vibe_gate.domain.change import Selection
from vibe_gate.domain.escape import safe
from vibe_gate.domain.provenance import agent_hints
from vibe_gate.errors import PASS, StorageError, UsageError
from vibe_gate.faces import progress
from vibe_gate.faces.cli.dispatch import Command
from vibe_gate.faces.cli.output import complain, emit, is_terminal, now, takes_colour
from vibe_gate.gate.source import is_identifier
from vibe_gate.report import words
from vibe_gate.review import Review, ReviewRequest, review

WIRES = ("live", "record", "replay")
Wire = Literal["live", "record", "replay"]

FORMATS = {
    "sarif": "SARIF 2.1.0, for code scanning and editors",
    "junit": "JUnit XML: one test case per criterion",
    "gitlab": "GitLab Code Quality report",
    "html": "one page with everything, as of `vibe-gate report`",
    "markdown": "the whole report as GitHub Markdown",
}
"""What a review is written as, by option; `formats` has the writers."""

STDOUT = "-"
"""The FILE of a format that is printed to stdout instead of the verdict screen."""

PIPE_WIDTH = 1000
"""Columns if stdout is not a terminal: a log has no width, so no reason (280 characters) is cut."""

NO_GATE = "`vibe-gate init` writes a .vibe-gate/ of your own."


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
        forms.add_argument(f"--{name}", metavar="FILE", help=text)


def add_limits(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The options that limit cost and time."""
    limits = parser.add_argument_group("limits")
    limits.add_argument("--max-cost-usd", type=_positive, metavar="X", help="spend at most X US dollars")
    limits.add_argument("--deadline", type=_positive, metavar="SECONDS", help="time limit of the whole run")
    return limits


def add_wire(parser: argparse.ArgumentParser) -> None:
    """The options that say how the model is reached."""
    wire = parser.add_argument_group("model requests")
    wire.add_argument("--wire", choices=WIRES, help="record to a cassette, or replay one offline (default: live)")
    wire.add_argument("--cassette", metavar="DIR", help="the folder of recorded requests and answers")


def _run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    request = request_of(args, environ)
    targets = {name: file for name in FORMATS if (file := getattr(args, name)) is not None}
    if targets:
        from vibe_gate.faces.cli import formats  # most reviews write none, and the import costs a tenth of one

        formats.check_all(targets, as_json=args.json)
    if args.workflow is not None:
        done, show = _with_workflow(args, request, environ)
    else:
        with progress.shown(environ, quiet=args.quiet) as (tell, _, _):
            walk = review(request._replace(alone=True), start=Path.cwd(), environ=environ, clock=now, progress=tell)
            done = progress.run(walk)
        show = partial(_present, args, done, request, environ)
    failed = formats.write(targets, done, environ) if targets else []
    try:
        if STDOUT not in targets.values():
            show()
    except StorageError as error:
        failed.append(str(error))
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
    is_plain_pass = done.summary.exit_code == PASS and "warning" not in words.verdict(done.summary)
    if args.concise:
        emit("\n".join(words.concise(done.summary) if done.summary.run_id else [nothing(request.selection)]) + "\n")
    elif not (args.quiet and is_plain_pass):
        present(done, request, environ, as_json=args.json)


def present(done: Review, request: ReviewRequest, environ: Mapping[str, str], *, as_json: bool) -> None:
    """Print a review: the JSON document, one sentence if there was nothing to review, or the verdict screen."""
    if as_json:
        print_document(done)
    elif done.summary.run_id == "":
        emit("\n".join([nothing(request.selection), *(f"note: {safe(note)}" for note in done.notes)]) + "\n")
    else:
        emit(screen(done, environ) + "\n")


def print_document(done: Review) -> None:
    """Print the summary as JSON, and the notes as sentences."""
    for note in done.notes:
        complain(f"note: {safe(note)}")
    emit(done.summary.to_json())


def request_of(args: argparse.Namespace, environ: Mapping[str, str]) -> ReviewRequest:
    """The request that the arguments mean. UsageError if they contradict each other."""
    rubrics, revision = _rubrics_and_revision(args.rubric, args.revision)
    wire, cassette = _wire(args, environ)
    return ReviewRequest(
        selection=_selection(revision, args.staged, args.commit),
        rubrics=tuple(dict.fromkeys(rubrics)),
        judge=not args.no_judge,
        base=args.base or _base_of_pull_request(environ),
        definitions=args.definitions,
        max_cost_usd=args.max_cost_usd,
        deadline_s=args.deadline,
        wire=wire,
        cassette=cassette,
        strict=args.strict,
        force=args.force,
    )


def selection(revision: str) -> Selection:
    """What `REV`, `A..B` or `A...B` selects; an empty side is HEAD, as in git. Whether it exists is not looked up."""
    dots = "..." if "..." in revision else ".."
    left, found, right = revision.partition(dots)
    if not found:
        return Selection("worktree", left=revision)
    if revision in ("..", "...") or ".." in right or left.endswith(".") or right.startswith("."):
        raise UsageError(f"'{revision}' is not a range. Use A..B, or A...B to start at the merge base.")
    return Selection("merge_base" if dots == "..." else "range", left=left or "HEAD", right=right or "HEAD")


def nothing(selected: Selection) -> str:
    """The sentence for a change without files."""
    left, right = safe(selected.left), safe(selected.right)
    return {
        "staged": "Nothing to review: the index is the same as HEAD.",
        "worktree": f"Nothing to review: the working tree is the same as {left}.",
        "range": f"Nothing to review: {left} and {right} have the same files.",
        "merge_base": f"Nothing to review: {right} has no changes since its merge base with {left}.",
        "commit": f"Nothing to review: commit {left} changes no files.",
    }[selected.kind]


def _base_of_pull_request(environ: Mapping[str, str]) -> str | None:
    """The base branch that GitHub Actions names in a pull request's job; definitions are read there."""
    base = environ.get("GITHUB_BASE_REF") if environ.get("GITHUB_ACTIONS") else None
    return f"origin/{base}" if base else None


def _selection(revision: str | None, staged: bool, commit: str | None) -> Selection:
    given = [name for name, there in ((revision, revision is not None), ("--staged", staged)) if there]
    given += ["--commit"] if commit is not None else []
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} select different changes; use one of them.")
    if revision == "" or commit == "":
        raise UsageError("the revision is empty; omit it to review HEAD to the working tree.")
    if commit is not None:
        if ".." in commit:
            raise UsageError(f"--commit takes one commit; for a range use `vibe-gate review {commit}`")
        return Selection("commit", left=commit)
    if staged:
        return Selection("staged")
    return selection(revision or "HEAD")


def _rubrics_and_revision(rubrics: Sequence[str], revisions: Sequence[str]) -> tuple[list[str], str | None]:
    if len(revisions) > 1:
        raise UsageError(f"more than one revision; for a range use {revisions[0]}..{revisions[1]}")
    # `review --rubric quality HEAD~1`: argparse gives all words to --rubric, but
    # HEAD~1 cannot be a rubric's id, so the last word is the revision.
    names = list(rubrics)
    revision = revisions[0] if revisions else None
    if revision is None and len(names) > 1 and not _may_be_rubric(names[-1]):
        revision = names.pop()
    for name in names:
        if not _may_be_rubric(name):
            raise UsageError(f"'{name}' is not a rubric id; use lower-case letters, digits, '.', '_', '-'.")
    return names, revision


def _may_be_rubric(name: str) -> bool:
    return is_identifier(name) and ".." not in name


def _wire(args: argparse.Namespace, environ: Mapping[str, str]) -> tuple[Wire | None, Path | None]:
    wire = args.wire or environ.get("VIBE_GATE_WIRE") or None
    cassette = args.cassette or environ.get("VIBE_GATE_CASSETTE") or None
    if wire is not None and wire not in WIRES:
        raise UsageError(f"VIBE_GATE_WIRE is '{wire}'; use {', '.join(WIRES)}.")
    if wire in ("record", "replay") and cassette is None:
        raise UsageError(f"--wire {wire} needs --cassette DIR (or VIBE_GATE_CASSETTE).")
    if args.cassette and wire in (None, "live"):
        raise UsageError("--cassette DIR needs --wire record or --wire replay.")
    return cast(Wire | None, wire), Path(cassette) if cassette else None


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above zero")
    return value


def screen(done: Review, environ: Mapping[str, str], then: str = "", why: str = "") -> str:
    """The verdict screen, for the terminal or the pipe that stdout is; `then` and `why` as of `terminal.render`."""
    from vibe_gate.report import terminal  # rich takes longer to load than a review that finds nothing to do

    notes = (*done.notes, *_advice(done, environ))
    columns = shutil.get_terminal_size().columns if is_terminal() else PIPE_WIDTH
    shown = terminal.render(done.summary, notes, columns, every=not is_terminal(), then=then, why=why)
    if not takes_colour(environ):
        return shown.plain
    from rich.console import Console

    console = Console(file=sys.stdout, width=columns, highlight=False, force_terminal=True)
    with console.capture() as captured:
        console.print(shown, soft_wrap=True, end="")
    return captured.get()


def _advice(done: Review, environ: Mapping[str, str]) -> list[str]:
    """What a person who has no gate of their own should know."""
    own = done.gate is None or done.gate.origin != "built-in"
    return [] if own or in_ci(environ) or agent_hints(environ, (), uncommitted=True) else [NO_GATE]


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
