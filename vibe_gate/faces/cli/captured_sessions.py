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
from vibe_gate.domain.escape import counted
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
from vibe_gate.store.captured_turns import CapturedTurn, captured_turns_of
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
    """Lines of a file of HEAD that a turn wrote, both ends included, and the commit that brought
    them.
    """

    turn: int
    path: str
    line: int
    end_line: int
    commit: str


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
        every = self.all()
        for root in self.roots():
            every += list_captured_heads(root) if root != self._runs.root else []
        found = {head.session: head for head in reversed(match_captured_heads(every, text))}
        if len(found) > 1:
            names = ", ".join(head.id for head in list(found.values())[:3])
            raise UsageError(
                f"'{text}' is ambiguous: {counted(len(found), 'captured session')} match ({names})."
            )
        return next(iter(found.values()), None)

    def turns(self, head: CapturedHead) -> tuple[CapturedTurn, ...]:
        """The session turn by turn, out of the stores of all working trees. GateError."""
        return captured_turns_of(self.roots(), head.session)

    def lines(self, head: CapturedHead, turns: Iterable[CapturedTurn]) -> list[CapturedLines]:
        """The lines of HEAD that the session wrote, in the files that it named. GateError."""
        roots = self.roots()
        with self._runs.repository() as repository:
            if repository is None or not repository.head():
                return []
            named = (path for turn in turns for call in turn.calls for path in call.paths)
            files = dict.fromkeys(path for name in named if (path := _inside(name, roots)))
            return [
                lines
                for path in list(files)[:MAX_FILES]
                for lines in _runs(path, _origins(repository, roots, path), head.session)
            ]

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
            return [self._runs.root] if repository is None else [*repository.capture_roots()]

    def _fold(self, repository: Repository, state: CloneState) -> None:
        move_worktree_stores(repository, state, now())
        redact = Redactor(read_process_environment().variables)
        store = open_store(self._runs.root, redact, now, repository.tracked_in_store)
        captures.fold_captures(state, store.captures(), redact, now())


def _inside(name: str, roots: Iterable[Path]) -> str:
    """The path in the repository of a file that an agent named; "" if it is none."""
    tops = {os.fspath(top) for root in roots for top in (root, root.resolve())}
    return next(
        (
            name[len(top) + 1 :]
            for top in sorted(tops, key=len, reverse=True)
            if name.startswith(f"{top}/")
        ),
        "",
    )


def _origins(repository: Repository, roots: Iterable[Path], path: str) -> tuple[LineOrigin, ...]:
    with suppress(GateError):  # the file is gone, or binary
        return line_origins(repository, roots, "HEAD", path)
    return ()


def _runs(path: str, origins: Iterable[LineOrigin], session: str) -> Iterator[CapturedLines]:
    """The session's lines, those of one turn and commit that follow each other as one."""
    own = (origin for origin in origins if origin.session == session)
    for (turn, commit, _), some in groupby(enumerate(own), key=lambda each: _run_of(*each)):
        lines = [origin.line for _, origin in some]
        yield CapturedLines(turn, paths.quote(path), lines[0], lines[-1], commit)


def _run_of(number: int, origin: LineOrigin) -> tuple[int, str, int]:
    """Equal for lines of one turn and commit that follow each other."""
    return origin.turn, origin.commit, origin.line - number


def line(head: CapturedHead) -> str:
    """A session in a list."""
    size = f"{head.title:<12}  {counted(head.turns, 'turn'):>8}  {counted(head.files, 'file'):>8}"
    return f"{head.updated_at:%Y-%m-%d %H:%M}  {head.id}  {size}  {head.asked}".rstrip()


def document(
    head: CapturedHead,
    turns: Iterable[CapturedTurn],
    lines: Iterable[CapturedLines],
) -> dict[str, Any]:
    """A session as `--json` shows it."""
    by_turn = _by_turn(lines)
    return {
        **plain(head),
        "turns": [{**plain(turn), "lines": plain(by_turn[turn.turn])} for turn in turns],
    }


def _by_turn(lines: Iterable[CapturedLines]) -> dict[int, list[CapturedLines]]:
    found: dict[int, list[CapturedLines]] = defaultdict(list)
    for each in lines:
        found[each.turn].append(each)
    return found


def turn_by_turn(
    head: CapturedHead,
    turns: Iterable[CapturedTurn],
    lines: Iterable[CapturedLines],
) -> Iterator[str]:
    """A session for people, turn by turn, with the lines that are still there."""
    by_turn = _by_turn(lines)
    yield f"{head.id}  {head.asked}".rstrip()
    yield ""
    yield f"{'agent':<9} {head.title}, recorded by its hooks"
    began, last = f"{head.started_at:%Y-%m-%d %H:%M}", f"{head.updated_at:%Y-%m-%d %H:%M}"
    yield f"{'session':<9} {head.own_id} · {began} to {last}{'' if head.ended else ', not ended'}"
    if head.damaged:
        yield f"{'damaged':<9} {counted(head.damaged, 'event')} could not be kept"
    for turn in turns:
        yield from _turn(turn)
        yield from _lines(by_turn[turn.turn])


def _turn(turn: CapturedTurn) -> Iterator[str]:
    name = f"turn {turn.turn}" if turn.turn else "before the first prompt"
    yield f"-- {name} · {turn.at:%Y-%m-%d %H:%M}"
    if turn.prompt:
        yield from f"you: {_cut(turn.prompt, MAX_PROMPT)}".splitlines()
    for call in turn.calls[:MAX_CALLS]:
        failed = " refused" if call.refused else " failed" if call.failed else ""
        yield f"  {call.tool}{failed} {_cut(call.subject, SHOWN_CHARACTERS)}"
    if len(turn.calls) > MAX_CALLS:
        yield f"  and {counted(len(turn.calls) - MAX_CALLS, 'more call')}; --json has them."


def _lines(lines: Sequence[CapturedLines]) -> Iterator[str]:
    for each in lines[:MAX_LINES]:
        many = f"-{each.end_line}" if each.end_line > each.line else ""
        yield f"  at HEAD: {each.path}:{each.line}{many}  {each.commit[:12]}"
    if len(lines) > MAX_LINES:
        yield f"  and {counted(len(lines) - MAX_LINES, 'more place')}; --json has them."


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def refusal(head: CapturedHead, asked: str) -> UsageError:
    """Why our own agents' commands do nothing with a captured session, and what does."""
    command = _RESUMED.get(head.agent, "").format(head.own_id)
    own = f"in {head.title} itself" + (f": {command}" if command else "")
    match asked:
        case "resume":
            remedy = f"Go on with it {own}"
        case "rename":
            remedy = "Its name is made of its agent, time and id"
        case _:
            remedy = f"Copy it {own}" + (" --fork-session" if command else "")
    return UsageError(
        f"{head.id} is a session of {head.title}, which vibe-gate only recorded. {remedy}"
    )
