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


class _RememberedSession(Struct, frozen=True):
    """What is remembered of a session that was read."""

    paths: frozenset[str]
    """To which it wrote."""
    without_writes: CapturedWrites


class WritingSessions:
    """The captured sessions in the stores of these working trees.

    To which paths each of them wrote is remembered: who asks for many files reads a session again
    only for its own.
    """

    def __init__(self, roots: Iterable[Path]) -> None:
        self.roots = tuple(roots)
        self._remembered: dict[_SessionPlace, _RememberedSession] = {}

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
        remembered = self._remembered.get(place)
        if remembered is not None and not any(is_wanted(path) for path in remembered.paths):
            return remembered.without_writes
        folder = Folder.at(place.root).below(CAPTURES_FOLDER).folder(place.name)
        meta = read_meta(folder)
        reader = WriteReader(digests.id)
        rows = [
            reader.write(line) for line in read_finished_lines(folder, WRITES, meta.writes_bytes)
        ]
        writes = [write for write in rows if write is not None]
        session = CapturedWrites(
            agent_of(meta.session_id),
            meta.session_id,
            meta.started_at,
            (),
            damaged=rows.count(None),
            cwd=_began_in(folder, meta),
        )
        self._remembered[place] = _RememberedSession(
            frozenset(write.path for write in writes), session
        )
        wanted_writes = [write for write in writes if is_wanted(write.path)]
        return replace(session, writes=tuple(_without_later_settling(wanted_writes)))


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
