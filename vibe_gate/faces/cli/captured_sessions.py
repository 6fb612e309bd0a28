"""Captured sessions for `vibe-gate sessions`: other programs' sessions, as their hooks left them,
listed and shown.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.blame import LineOrigin
from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.document import plain
from vibe_gate.domain.escape import counted, shorten_text
from vibe_gate.errors import GateError, StorageError, UsageError
from vibe_gate.faces.cli.output import now
from vibe_gate.faces.cli.runs import StoredRuns
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.git import Repository
from vibe_gate.run.line_origins import MAX_FILES, line_origins
from vibe_gate.run.worktree_stores import move_worktree_stores
from vibe_gate.secrets import Redactor
from vibe_gate.store import captures
from vibe_gate.store.captured_heads import (
    CapturedHead,
    delete_captured_session,
    list_captured_heads,
    match_captured_heads,
)
from vibe_gate.store.captured_turns import CapturedToolCall, CapturedTurn, captured_turns_of
from vibe_gate.store.captured_writes import WritingSessions
from vibe_gate.store.clone_state import CloneState, open_state
from vibe_gate.store.store import open_store

MAX_CALLS = 50
"""Tool calls of a turn that `sessions show` prints; `--json` has all of them."""

MAX_LINES = 50
"""Places of a turn's lines that it prints."""

MAX_PROMPT = 4_000
"""Characters of a prompt that it prints."""

SHOWN_CHARACTERS = 200
"""Of a tool call's input."""

_RESUMED = {"claude": "claude --resume {0}"}
"""How an agent's own program goes on with a session, where that is known."""


class CapturedLines(Struct, frozen=True):
    """Lines of a file of HEAD that a turn wrote."""

    turn: int
    path: str
    line: int
    """The first of them."""
    end_line: int
    """The last of them."""
    commit: str
    """The commit that brought them."""


class CapturedSessions:
    """The captured sessions of the repository around the current folder; of a store without one
    what lies there.
    """

    def __init__(self) -> None:
        self._runs = StoredRuns()

    def all(self) -> list[CapturedHead]:
        """Those of this working tree, with what hooks left until now. GateError."""
        with ExitStack() as stack:
            repository = stack.enter_context(self._runs.repository())
            if repository is None:
                return list_captured_heads(self._runs.root)
            state = stack.enter_context(open_state(repository.common_dir))
            self._fold(repository, state)
            return list_captured_heads(
                self._runs.root, state.run_index(self._runs.root / STORE / "captures")
            )

    def find(self, text: str) -> CapturedHead | None:
        """The session with this id, or whose id begins so, of any working tree. UsageError:
        several. GateError.
        """
        heads = self.all()
        for root in self.roots():
            if root != self._runs.root:
                heads += list_captured_heads(root)
        matches = match_captured_heads(heads, text)
        # Of a session that several trees have, the head of the first.
        heads_by_session = {head.session: head for head in reversed(matches)}
        sessions = list(heads_by_session.values())
        if len(sessions) > 1:
            number = counted(len(sessions), "captured session")
            names = ", ".join(head.id for head in sessions[:3])
            raise UsageError(f"'{text}' is ambiguous: {number} match ({names}).")
        return sessions[0] if sessions else None

    def turns(self, head: CapturedHead) -> tuple[CapturedTurn, ...]:
        """The session turn by turn, out of the stores of all working trees. GateError."""
        return captured_turns_of(self.roots(), head.session)

    def lines(self, head: CapturedHead, turns: Iterable[CapturedTurn]) -> list[CapturedLines]:
        """The lines of HEAD that the session wrote, in the files that it named. GateError."""
        roots = self.roots()
        with self._runs.repository() as repository:
            if repository is None or not repository.head():
                return []
            paths_of_files = _files_named(turns, roots)[:MAX_FILES]
            sessions = WritingSessions(roots)
            lines: list[CapturedLines] = []
            for path in paths_of_files:
                origins = _origins(repository, sessions, path)
                lines += _session_lines(path, origins, head.session)
            return lines

    def delete(self, head: CapturedHead) -> None:
        """Delete what is kept of the session's events, in all working trees. GateError."""
        try:
            delete_captured_session(self.roots(), head.session)
        except OSError as error:
            raise StorageError(f"{head.id} cannot be deleted: {error.strerror}.") from error

    def roots(self) -> list[Path]:
        """The tops of the working trees whose stores may have sessions, this one first.
        GateError.
        """
        with self._runs.repository() as repository:
            if repository is None:
                return [self._runs.root]
            return [*repository.capture_roots()]

    def _fold(self, repository: Repository, state: CloneState) -> None:
        move_worktree_stores(repository, state, now())
        redact = Redactor(read_process_environment().variables)
        store = open_store(self._runs.root, redact, now, repository.tracked_in_store)
        captures.fold_captures(state, store.captures(), redact, now())


def _files_named(turns: Iterable[CapturedTurn], roots: Iterable[Path]) -> list[str]:
    """The files of the repository that the turns' tool calls named, each once."""
    tops = {os.fspath(root) for root in roots}
    tops |= {os.fspath(root.resolve()) for root in roots}
    longest_first = sorted(tops, key=len, reverse=True)
    files: dict[str, None] = {}
    for turn in turns:
        for call in turn.calls:
            for name in call.paths:
                path = _path_below(name, longest_first)
                if path:
                    files[path] = None
    return list(files)


def _path_below(name: str, tops: Iterable[str]) -> str:
    """The path of a file from the first of these folders that it lies in; "" if it is in none."""
    for top in tops:
        if name.startswith(f"{top}/"):
            return name[len(top) + 1 :]
    return ""


def _origins(
    repository: Repository, sessions: WritingSessions, path: str
) -> tuple[LineOrigin, ...]:
    with suppress(GateError):  # the file is gone, or binary
        return line_origins(repository, sessions, "HEAD", path)
    return ()


def _session_lines(
    path: str, origins: Iterable[LineOrigin], session: str
) -> Iterator[CapturedLines]:
    """The session's lines, those of one turn and commit that follow each other as one."""
    own_origins = [origin for origin in origins if origin.session == session]
    numbered = enumerate(own_origins)
    for (turn, commit, _), group in groupby(numbered, key=_block_of):
        lines = [origin.line for _, origin in group]
        yield CapturedLines(turn, paths.quote(path), lines[0], lines[-1], commit)


def _block_of(numbered: tuple[int, LineOrigin]) -> tuple[int, str, int]:
    """Equal for lines of one turn and commit that follow each other."""
    number, origin = numbered
    return origin.turn, origin.commit, origin.line - number


def render_captured_head(head: CapturedHead) -> str:
    """A session in a list."""
    size = f"{head.title:<12}  {counted(head.turns, 'turn'):>8}  {counted(head.files, 'file'):>8}"
    return f"{head.updated_at:%Y-%m-%d %H:%M}  {head.id}  {size}  {head.asked}".rstrip()


def build_captured_document(
    head: CapturedHead,
    turns: Iterable[CapturedTurn],
    lines: Iterable[CapturedLines],
) -> dict[str, Any]:
    """A session as `--json` shows it."""
    lines_by_turn = _lines_by_turn(lines)
    turn_documents = []
    for turn in turns:
        turn_documents.append({**plain(turn), "lines": plain(lines_by_turn[turn.turn])})
    return {**plain(head), "turns": turn_documents}


def _lines_by_turn(lines: Iterable[CapturedLines]) -> dict[int, list[CapturedLines]]:
    lines_by_turn: dict[int, list[CapturedLines]] = defaultdict(list)
    for turn_lines in lines:
        lines_by_turn[turn_lines.turn].append(turn_lines)
    return lines_by_turn


def render_captured_turns(
    head: CapturedHead,
    turns: Iterable[CapturedTurn],
    lines: Iterable[CapturedLines],
) -> Iterator[str]:
    """A session for people, turn by turn, with the lines that are still there."""
    lines_by_turn = _lines_by_turn(lines)
    yield f"{head.id}  {head.asked}".rstrip()
    yield ""
    yield f"{'agent':<9} {head.title}, recorded by its hooks"
    started, updated = f"{head.started_at:%Y-%m-%d %H:%M}", f"{head.updated_at:%Y-%m-%d %H:%M}"
    state = "" if head.ended else ", not ended"
    yield f"{'session':<9} {head.own_id} · {started} to {updated}{state}"
    if head.damaged:
        yield f"{'damaged':<9} {counted(head.damaged, 'event')} could not be kept"
    for turn in turns:
        yield from _turn(turn)
        yield from _line_places(lines_by_turn[turn.turn])


def _turn(turn: CapturedTurn) -> Iterator[str]:
    name = f"turn {turn.turn}" if turn.turn else "before the first prompt"
    yield f"-- {name} · {turn.at:%Y-%m-%d %H:%M}"
    if turn.prompt:
        yield from f"you: {shorten_text(turn.prompt, MAX_PROMPT)}".splitlines()
    for call in turn.calls[:MAX_CALLS]:
        yield f"  {call.tool}{_failure(call)} {shorten_text(call.subject, SHOWN_CHARACTERS)}"
    if len(turn.calls) > MAX_CALLS:
        yield f"  and {counted(len(turn.calls) - MAX_CALLS, 'more call')}; --json has them."


def _failure(call: CapturedToolCall) -> str:
    if call.refused:
        return " refused"
    return " failed" if call.failed else ""


def _line_places(lines: Sequence[CapturedLines]) -> Iterator[str]:
    for place in lines[:MAX_LINES]:
        span = f"{place.path}:{place.line}"
        if place.end_line > place.line:
            span += f"-{place.end_line}"
        yield f"  at HEAD: {span}  {place.commit[:12]}"
    if len(lines) > MAX_LINES:
        yield f"  and {counted(len(lines) - MAX_LINES, 'more place')}; --json has them."


def refuse_captured(head: CapturedHead, verb: str) -> UsageError:
    """Why our own agents' commands do nothing with a captured session, and what does."""
    command = _RESUMED.get(head.agent, "").format(head.own_id)
    program = f"in {head.title} itself"
    if command:
        program += f": {command}"
    match verb:
        case "resume":
            remedy = f"Go on with it {program}"
        case "rename":
            remedy = "Its name is made of its agent, time and id"
        case _:
            remedy = f"Copy it {program}" + (" --fork-session" if command else "")
    return UsageError(
        f"{head.id} is a session of {head.title}, which vibe-gate only recorded. {remedy}"
    )
