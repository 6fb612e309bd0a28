"""`vibe-gate trace`: Agent Trace records of commits, as JSON lines."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from vibe_gate.domain.escape import counted
from vibe_gate.errors import PASS
from vibe_gate.faces.cli.command import Command, argument
from vibe_gate.faces.cli.formats import check_option_file, warn_of_next, write_option_file
from vibe_gate.faces.cli.output import STDOUT, complain, emit, now, open_repository_here
from vibe_gate.faces.cli.request import parse_selection
from vibe_gate.git import Repository
from vibe_gate.report.sentences import UNCAPTURED
from vibe_gate.run.each import commits_in_range, describe_reversed_range
from vibe_gate.run.trace import fold_captured_sessions, make_trace_records
from vibe_gate.store.captured_heads import has_captured_sessions


class TraceArguments(Struct, frozen=True):
    """The arguments of `vibe-gate trace`."""

    revision: str
    """A commit, or a range."""
    output: str
    """A file, or `STDOUT`."""


def _parse(args: argparse.Namespace) -> TraceArguments:
    return TraceArguments(args.revision, args.output)


def _run(arguments: TraceArguments) -> int:
    output = arguments.output
    if output != STDOUT:
        check_option_file("output", output)
    with open_repository_here() as repository:
        commits = _commits(repository, arguments.revision)
        roots = fold_captured_sessions(repository, now)
        records = [*make_trace_records(repository, roots, commits)]
    text = "".join(record.to_line().decode() for record in records)
    if output == STDOUT:
        emit(text)
    else:
        is_new = not Path(output).exists()
        write_option_file("output", output, text)
        warn_of_next([Path(output)] if is_new else [])
    if len(records) < len(commits):
        without = f"{len(commits) - len(records):,} of {counted(len(commits), 'commit')}"
        complain(f"No record of {without}. {_explain_no_record(roots)}")
    return PASS


def _explain_no_record(roots: Iterable[Path]) -> str:
    """Why a commit has no record. `roots`: working trees that may keep sessions."""
    if has_captured_sessions(roots):
        return "No captured session is known to have written a line there."
    return UNCAPTURED


def _commits(repository: Repository, revision: str) -> list[str]:
    """The commit, or the commits of the range, oldest first. UsageError, RevisionError."""
    if ".." not in revision:
        return [repository.resolve(revision)]
    span = parse_selection(revision)
    commits = commits_in_range(repository, span)
    if not commits and (hint := describe_reversed_range(repository, span)):
        complain(hint)
    return commits


TRACE = Command(
    "Write an Agent Trace record (agent-trace.dev, 0.1) of each commit in which a captured session wrote lines. "
    "It holds no prompt.",
    (
        argument(
            "revision",
            nargs="?",
            default="HEAD",
            metavar="REV|A..B",
            help="a commit or a range (default: HEAD)",
        ),
        argument(
            "-o",
            "--output",
            default=STDOUT,
            metavar="FILE",
            help="write FILE (default: -, which is stdout)",
        ),
    ),
    _parse,
    _run,
    examples="""\
examples:
  vibe-gate trace                             the last commit
  vibe-gate trace main..HEAD -o traces.jsonl  one record a line

`vibe-gate install git --trace` keeps them in refs/notes/agent-trace.
""",
)
