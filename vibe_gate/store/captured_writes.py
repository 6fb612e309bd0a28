"""What captured sessions wrote, read back: of `writes.jsonl`, or of the events that an earlier version kept alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.document import parse_object, read, text_of
from vibe_gate.store.captures import EVENTS, SHELF, CaptureMeta, KeptEvent, agent_of, finished, read_meta
from vibe_gate.store.folder import Folder
from vibe_gate.store.kept_writes import WRITES, KeptWrite, LineDigests, WriteLog, WriteReader
from vibe_gate.store.state import State
from vibe_gate.store.writes import AGENTS, SETTLING_S, CapturedEvent, writes_of


class CapturedWrites(Struct, frozen=True):
    """The writes of one captured session that one working tree keeps, oldest first.

    `agent` is a key of `AGENTS`. `damaged`: lines that say nothing. `cwd`: the folder in which the session began, in
    a working tree of the repository; "" if that is not known.
    """

    agent: str
    session: str
    started_at: datetime
    writes: tuple[KeptWrite, ...]
    damaged: int = 0
    cwd: str = ""


def digests_of(state: State) -> LineDigests:
    """Digests under the key of the clone; under one for the moment if nothing was kept yet."""
    return LineDigests(state.line_key.read() or os.urandom(32))


def writes_in(
    roots: Iterable[Path], digests: LineDigests, is_wanted: Callable[[str], bool]
) -> tuple[CapturedWrites, ...]:
    """What every captured session in the stores of these working trees wrote to paths that are wanted.

    Sessions that wrote none of them are there, too. What cannot be read is left out, or has no states.
    """
    found = []
    for root in roots:
        with contextlib.suppress(OSError, ValueError):
            shelf = Folder.at(root).below(SHELF)
            for name in shelf.folders():
                with contextlib.suppress(OSError, ValueError):
                    place = shelf.folder(name)
                    found.append(_of_session(place, read_meta(place), digests, is_wanted))
    return tuple(found)


def _of_session(
    place: Folder, meta: CaptureMeta, digests: LineDigests, is_wanted: Callable[[str], bool]
) -> CapturedWrites:
    agent = agent_of(meta.session_id)
    read = [*_of_events(place, meta, digests, is_wanted, agent), *_of_log(place, meta, digests)]
    writes = [write for write in read if write is not None and is_wanted(write.path)]
    damaged = sum(write is None for write in read)
    began_in = _began_in(place, meta)
    return CapturedWrites(agent, meta.session_id, meta.started_at, tuple(_settled(writes)), damaged, began_in)


def _began_in(place: Folder, meta: CaptureMeta) -> str:
    with contextlib.suppress(OSError, ValueError):
        for line in finished(place, EVENTS, meta.bytes):
            return text_of(read(KeptEvent, parse_object(line)).data, "cwd")
    return ""


def _of_log(place: Folder, meta: CaptureMeta, digests: LineDigests) -> Iterator[KeptWrite | None]:
    if meta.writes_since is None:
        return
    reader = WriteReader(digests.id)
    yield from map(reader.write, finished(place, WRITES, meta.writes_bytes))


def _of_events(
    place: Folder, meta: CaptureMeta, digests: LineDigests, is_wanted: Callable[[str], bool], agent: str
) -> Iterator[KeptWrite | None]:
    """Of the events that a version without writes.jsonl folded. Their texts are redacted: a line that had a secret is
    not found again."""
    until = meta.bytes if meta.writes_since is None else meta.writes_since
    log, reader = WriteLog(digests, lambda value: value), WriteReader(digests.id)
    for line in finished(place, EVENTS, until) if until else ():
        if AGENTS[agent].ended.encode() in line:
            with contextlib.suppress(ValueError, TypeError, LookupError):
                event = read(KeptEvent, parse_object(line))
                for write in writes_of(CapturedEvent(event.ts, event.data, agent)):
                    if is_wanted(write.path):
                        yield reader.write(log.line(write, event.ts))


def _settled(writes: Sequence[KeptWrite]) -> Iterator[KeptWrite]:
    """The writes; what lay on the disk soon after one is not what it left if the next one had been by then."""
    following: dict[str, datetime] = {}
    found = []
    for write in reversed(writes):
        after = following.get(write.path)
        following[write.path] = write.at
        too_soon = after is not None and (after - write.at).total_seconds() <= SETTLING_S
        found.append(replace(write, settled=None) if too_soon else write)
    return reversed(found)
