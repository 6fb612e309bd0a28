"""What captured sessions wrote, read back: of `writes.jsonl`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.document import parse_object, read, read_text_of
from vibe_gate.store.captures import (
    CAPTURES_FOLDER,
    EVENTS,
    CaptureMeta,
    StoredEvent,
    agent_of,
    read_finished_lines,
    read_meta,
)
from vibe_gate.store.clone_state import CloneState
from vibe_gate.store.event_writes import SETTLING_S
from vibe_gate.store.folder import Folder
from vibe_gate.store.stored_writes import WRITES, LineDigests, StoredWrite, WriteReader

MAX_LINES_IN_MEMORY = 1_000_000
"""Of all states of files in the writes that stay in memory: some 50 MB."""


class CapturedWrites(Struct, frozen=True):
    """The writes of one captured session that one working tree keeps."""

    agent: str
    """A key of `AGENTS`."""
    session: str
    started_at: datetime
    writes: tuple[StoredWrite, ...]
    """Oldest first."""
    damaged: int = 0
    """Lines that say nothing."""
    cwd: str = ""
    """The folder in which the session began, in a working tree of the repository; "" if that is not
    known.
    """


def line_digests_of(state: CloneState) -> LineDigests:
    """Digests under the key of the clone; under one for the moment if nothing was kept yet."""
    return LineDigests(state.line_key.read() or os.urandom(32))


class _SessionPlace(NamedTuple):
    """Where a captured session stands."""

    root: Path
    name: str
    """Of its folder."""


class _ReadSession(Struct, frozen=True):
    """A session that was read."""

    without_writes: CapturedWrites
    paths: frozenset[str]
    """To which it wrote."""
    key_id: str
    """Of the digests under which its writes were read."""
    writes: tuple[StoredWrite, ...] | None
    """None: too many are in memory already; they are read again."""


class WritingSessions:
    """The captured sessions in the stores of these working trees, each read once for who asks for
    many files: what they wrote stays in memory up to `max_lines` of states, to which paths in any
    case.
    """

    def __init__(self, roots: Iterable[Path], max_lines: int = MAX_LINES_IN_MEMORY) -> None:
        self.roots = tuple(roots)
        self._sessions: dict[_SessionPlace, _ReadSession] = {}
        self._max_lines = max_lines
        self._lines_in_memory = 0

    def writes_to(
        self, is_wanted: Callable[[str], bool], digests: LineDigests
    ) -> tuple[CapturedWrites, ...]:
        """What every session wrote to paths that are wanted.

        Sessions that wrote none of them are there, too. What cannot be read is left out, or has no
        states.
        """
        sessions = []
        for place in self._places:
            with contextlib.suppress(OSError, ValueError):
                sessions.append(self._writes_of(place, is_wanted, digests))
        return tuple(sessions)

    @cached_property
    def _places(self) -> list[_SessionPlace]:
        places: list[_SessionPlace] = []
        for root in self.roots:
            with contextlib.suppress(OSError, ValueError):
                folder = Folder.at(root).below(CAPTURES_FOLDER)
                places += [_SessionPlace(root, name) for name in folder.folders()]
        return places

    def _writes_of(
        self, place: _SessionPlace, is_wanted: Callable[[str], bool], digests: LineDigests
    ) -> CapturedWrites:
        session = self._sessions.get(place)
        if session is None:
            session = self._keep(place, _read_session(place, digests.id))
        if not any(is_wanted(path) for path in session.paths):
            return session.without_writes
        if session.writes is None or session.key_id != digests.id:
            session = _read_session(place, digests.id)
        wanted_writes = [write for write in session.writes or () if is_wanted(write.path)]
        settled_writes = tuple(_without_later_settling(wanted_writes))
        return replace(session.without_writes, writes=settled_writes)

    def _keep(self, place: _SessionPlace, session: _ReadSession) -> _ReadSession:
        """Keep the session in memory, its writes if there is room; the session with them."""
        self._lines_in_memory += _count_lines(session.writes or ())
        kept_session = session
        if self._lines_in_memory > self._max_lines:
            kept_session = replace(session, writes=None)
        self._sessions[place] = kept_session
        return session


def _read_session(place: _SessionPlace, key_id: str) -> _ReadSession:
    """OSError, ValueError: it cannot be read."""
    folder = Folder.at(place.root).below(CAPTURES_FOLDER).folder(place.name)
    meta = read_meta(folder)
    reader = WriteReader(key_id)
    rows = [reader.write(line) for line in read_finished_lines(folder, WRITES, meta.writes_bytes)]
    writes = tuple(write for write in rows if write is not None)
    without_writes = CapturedWrites(
        agent_of(meta.session_id),
        meta.session_id,
        meta.started_at,
        (),
        damaged=rows.count(None),
        cwd=_began_in(folder, meta),
    )
    paths = frozenset(write.path for write in writes)
    return _ReadSession(without_writes, paths, key_id, writes)


def _count_lines(writes: Iterable[StoredWrite]) -> int:
    """The lines of the states of these writes."""
    count = 0
    for write in writes:
        for lines in (write.before, write.after, write.settled):
            count += len(lines or ())
    return count


def _began_in(place: Folder, meta: CaptureMeta) -> str:
    with contextlib.suppress(OSError, ValueError):
        for line in read_finished_lines(place, EVENTS, meta.bytes):
            return read_text_of(read(StoredEvent, parse_object(line)).data, "cwd")
    return ""


def _without_later_settling(writes: Sequence[StoredWrite]) -> list[StoredWrite]:
    """The writes; what lay on the disk soon after one is not what it left if the next one had been
    by then.
    """
    next_write_at: dict[str, datetime] = {}
    newest_first = []
    for write in reversed(writes):
        following_at = next_write_at.get(write.path)
        next_write_at[write.path] = write.at
        is_too_soon = (
            following_at is not None and (following_at - write.at).total_seconds() <= SETTLING_S
        )
        newest_first.append(replace(write, settled=None) if is_too_soon else write)
    return newest_first[::-1]
