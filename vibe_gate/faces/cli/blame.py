"""`vibe-gate blame`: which session, turn and prompt wrote a line."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.escape import safe
from vibe_gate.errors import PASS, UsageError
from vibe_gate.faces.cli.command import JSON, Command, argument
from vibe_gate.faces.cli.output import (
    complain,
    emit,
    emit_result,
    now,
    open_repository_here,
    takes_colour,
)
from vibe_gate.faces.cli.screen import coloured
from vibe_gate.git import Repository
from vibe_gate.report import blame_rows, sentences
from vibe_gate.run.fact_finding import catch_up
from vibe_gate.run.line_origins import WORKING_TREE, line_origins
from vibe_gate.run.run_bundle import world_around
from vibe_gate.store import captures
from vibe_gate.store.captured_heads import has_captured_sessions
from vibe_gate.store.captured_writes import WritingSessions

_LINES = re.compile(r"(?s)(.+):([0-9]{1,9})(?:-([0-9]{1,9}))?\Z")


class BlameArguments(Struct, frozen=True):
    """The arguments of `vibe-gate blame`."""

    file: str
    """As it was typed, from the current folder."""
    lines: range
    """The numbers of lines; none: all."""
    revision: str
    """A commit, or `WORKING_TREE`."""
    as_json: bool


def _parse(args: argparse.Namespace) -> BlameArguments:
    file, lines = _file_and_lines(args.file)
    return BlameArguments(file, lines, args.rev, args.json)


def _run(arguments: BlameArguments) -> int:
    revision = arguments.revision
    with open_repository_here() as repository:
        path = _path(repository, arguments.file)
        with world_around(repository, now).state as state:
            unread = catch_up(repository, world_around(repository, now, state))
        roots = repository.capture_roots()
        origins = line_origins(repository, WritingSessions(roots), revision, path, arguments.lines)
        commits = {origin.commit for origin in origins if origin.commit and origin.by != "agent"}
        authors = {commit: repository.commit(commit).author for commit in commits}
    if unread:
        complain(f"note: {safe(unread)}")
    if not any(origin.source for origin in origins) and not has_captured_sessions(roots):
        complain(f"note: {sentences.UNCAPTURED}")
    if arguments.as_json:
        return emit_result(
            blame_rows.build_blame_document(path, revision, origins), (), as_json=True
        )
    text = blame_rows.render_blame_row(path, revision, origins, authors, captures.session_title)
    emit(coloured(text, 80) if takes_colour() else text.plain)
    return PASS


def _file_and_lines(text: str) -> tuple[str, range]:
    """The file, and the numbers of lines (none: all of it)."""
    match = None if os.path.lexists(text) else _LINES.match(text)
    if match is None:
        file, colon, lines = text.rpartition(":")
        if colon and not os.path.lexists(text) and os.path.lexists(file):
            raise UsageError(
                f"{paths.quote(lines)} is not a line; write {paths.quote(file)}:3 or :3-9."
            )
        return text, range(0)
    first = int(match[2])
    last = int(match[3] or first)
    if not 0 < first <= last:
        raise UsageError(
            f"{paths.quote(text)}: lines are counted from 1, the first before the last (FILE:3-9)."
        )
    if last - first > 1_000_000:
        raise UsageError(f"{paths.quote(text)} names more lines than a file has.")
    return match[1], range(first, last + 1)


def _path(repository: Repository, file: str) -> str:
    """The file's path in the repository; a link in its place is not followed."""
    place = Path(os.path.abspath(file))  # noqa: PTH100  resolve would follow the last link
    root = Path(os.path.realpath(repository.root))
    try:
        inside = (Path(os.path.realpath(place.parent)) / place.name).relative_to(root)
    except ValueError:
        raise UsageError(
            f"{paths.quote(file)} is not in this repository, whose top is {paths.quote(str(root))}."
        ) from None
    return inside.as_posix()


BLAME = Command(
    "Tell for each line of a file which commit brought it, and which agent, session, turn and prompt wrote it.",
    (
        argument(
            "file", metavar="FILE[:LINE|:A-B]", help="a file, and of which lines (default: all)"
        ),
        argument(
            "rev",
            nargs="?",
            default=WORKING_TREE,
            metavar="REV",
            help="as of this commit (default: as it is now)",
        ),
        JSON,
    ),
    _parse,
    _run,
    examples="""\
examples:
  vibe-gate blame src/load.py          every line, uncommitted ones too
  vibe-gate blame src/load.py:12       one line
  vibe-gate blame src/load.py:12-40 v1.2

Agents' lines are known from captured sessions (`vibe-gate install
claude|gemini|codex`).
""",
)
