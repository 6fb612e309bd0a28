"""Captured sessions of a coding agent: raw hook events are folded into what may be kept.

The agent's hook leaves raw events, private and not redacted (it has no time for it), in
`<common git dir>/vibe-gate/captures/<session>/`, which all worktrees share:

    events.ndjson    what the hook appends to; renamed before it is read
    taken-<ms>-<id>  being folded; deleted when that is done

The next run of vibe-gate folds it: ids of the blobs that the agent wrote go to the shared state, the events go,
redacted, to `.vibe-artifacts/captures/<name>/` as events.jsonl and meta.json, and the raw events are deleted.
meta.json is written last and says up to which byte events.jsonl is finished and which events were folded last, so
that what a killed process left is done again. A session's name says whose it is, and `writes` how its events
are read.
"""

from __future__ import annotations

import contextlib
import errno
import json
import secrets
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.document import Timestamp, iso, plain, read, require_few
from vibe_gate.domain.escape import show_text
from vibe_gate.errors import GateError
from vibe_gate.store import names
from vibe_gate.store.bundle import read_object
from vibe_gate.store.contents import TextRedactor
from vibe_gate.store.folder import LOCK, Folder
from vibe_gate.store.kept_writes import WRITES, LineDigests, WriteLog
from vibe_gate.store.log import MAX_LINE_BYTES, encode_line, lines, locked
from vibe_gate.store.state import State
from vibe_gate.store.writes import AGENTS, CLAUDE, CapturedEvent, blobs_of, open_file, writes_of

SPOOLS = "captures"
"""Folder of the raw events in the state's folder."""

SHELF = f"{STORE}/{names.CAPTURES}"
"""Folder of the folded sessions in a working tree."""

META = "meta.json"
EVENTS = "events.jsonl"

MAX_AGE = timedelta(days=30)
"""After that a session's blobs say nothing about a change any more."""

MAX_GAPS_BYTES = 64 << 10

PATIENCE_S = 2.0
"""Another process that folds, or captures, is waited for; one that holds a lock longer does not run."""

_UNREAD = "what captured sessions wrote cannot be read ({0}), so an agent may have made it"


class CaptureMeta(Struct, frozen=True, kw_only=True):
    """meta.json of a captured session.

    `session_id` is the session's name, as `agent_of` reads it; `bytes` is how far events.jsonl is finished,
    `folded` the file of raw events that was folded last. `writes_bytes` is how far writes.jsonl is finished; it tells
    of the events from byte `writes_since` of events.jsonl on: of none if an earlier version folded all of them (None).
    """

    schema: Literal[1] = 1
    agent: str = CLAUDE
    session_id: str
    started_at: Timestamp
    updated_at: Timestamp
    events: Annotated[int, Meta(ge=0)] = 0
    bytes: Annotated[int, Meta(ge=0)] = 0
    writes_bytes: Annotated[int, Meta(ge=0)] = 0
    writes_since: Annotated[int, Meta(ge=0)] | None = None
    damaged: Annotated[int, Meta(ge=0)] = 0
    ended: bool = False
    folded: str = ""

    def with_event(self, event: CapturedEvent | None, size: int, damaged: int) -> CaptureMeta:
        """The same and an event whose line has `size` bytes; None: a line of the spool that is no event."""
        counted: dict[str, object] = {"damaged": self.damaged + damaged}
        if event is not None:
            counted |= {
                "started_at": min(self.started_at, event.at),
                "updated_at": max(self.updated_at, event.at),
                "events": self.events + 1,
                "bytes": self.bytes + size,
                "ended": event.kind == "SessionEnd" or (self.ended and event.kind != "SessionStart"),
            }
        return replace(self, **counted)


class KeptEvent(Struct, frozen=True):
    """A line of events.jsonl."""

    ts: Timestamp
    data: dict[str, Any]


def read_meta(folder: Folder) -> CaptureMeta:
    """What meta.json of a captured session says. OSError, ValueError."""
    return read(CaptureMeta, read_object(folder, META))


def fold(state: State, shelf: Folder | None, redact: TextRedactor, now: datetime) -> tuple[int, str]:
    """Fold every session with news; how many events that were, and why not all could be read, as a hint, or "".

    `shelf` is `.vibe-artifacts/captures`; None if nothing can be written: then the written blobs are noted and the
    raw events wait. Never raises for what it finds there. Another process that folds at the same time is waited
    for, and after `PATIENCE_S` left to it.
    """
    return _fold_all(state, None if shelf is None else _Shelf(shelf, redact, now, state), now)


def note_written(state: State, now: datetime) -> str:
    """Note the blobs that sessions wrote since the last `fold`; the events wait for the next.

    Why not all could be read, as a hint, or "".
    """
    return _fold_all(state, None, now)[1]


def agent_of(session: str) -> str:
    """The agent of a captured session, a key of `AGENTS`, by the session's name: `<agent>.<its id>`, or the id alone.

    The ids of Claude Code's sessions stand alone; a dot is in no id (`spool.SAFE`).
    """
    agent, dot, _ = session.partition(".")
    return agent if dot and agent in AGENTS else CLAUDE


def own_id(session: str) -> str:
    """The id that the agent itself gives to the session."""
    return session.removeprefix(f"{agent_of(session)}.")


def agent_title(session: str) -> str:
    """What people call the session's agent."""
    return AGENTS[agent_of(session)].title


def session_title(session: str) -> str:
    """The session as people read of it: "Gemini CLI session 0f3c9a1e"."""
    return f"{agent_title(session)} session {show_text(own_id(session)[:8])}"


def kept_session(shelf: Folder, session: str) -> tuple[Folder, CaptureMeta]:
    """The folder with all that was folded of the session. LookupError: there is none. OSError, ValueError."""
    for place, meta in kept_sessions(shelf, session):
        with contextlib.suppress(OSError):
            if not meta.bytes or place.status(EVENTS).st_size >= meta.bytes:
                return place, meta
    raise LookupError


def finished(place: Folder, name: str, until: int) -> Iterator[bytes]:
    """The lines of a file up to that byte: what comes behind them is written at this moment, or again. OSError."""
    size = 0
    for line in lines(place, name):
        size += len(line)
        if size > until:
            return
        yield line


def kept_sessions(shelf: Folder, session: str) -> Iterator[tuple[Folder, CaptureMeta]]:
    """The folders that have events of the session: one, or more if what was left in one was damaged. OSError."""
    for name in shelf.folders():
        if name.split("_", 3)[-1].startswith(_short_id(session)):
            with contextlib.suppress(OSError, ValueError):
                place = shelf.folder(name)
                meta = read_meta(place)
                if meta.session_id == session:
                    yield place, meta


def _short_id(session: str) -> str:
    return own_id(session)[:8].strip("-_") or "unknown"


def gaps(state: State) -> list[tuple[datetime, str]]:
    """When and why an event was not kept, as the hooks noted it."""
    try:
        with open_file(Path(state.folder) / SPOOLS / "gaps") as file:
            lines = file.read(2 * MAX_GAPS_BYTES).decode("ascii", "replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        ms, _, why = line.partition(" ")
        with contextlib.suppress(ValueError, OverflowError, OSError):  # a torn line
            found.append((datetime.fromtimestamp(int(ms) / 1000, UTC), why))
    return found


def _fold_all(state: State, shelf: _Shelf | None, now: datetime) -> tuple[int, str]:
    place = Path(state.folder) / SPOOLS
    if not place.is_dir():
        return 0, ""
    count, why, until = 0, "", time.monotonic() + PATIENCE_S
    try:
        spools = Folder.at(place)
        with locked(spools.appending(LOCK), until):
            for session in spools.folders():
                try:
                    count += _fold(spools.folder(session), session, state, shelf, now, until)
                    if now.timestamp() - spools.status(session).st_mtime > MAX_AGE.total_seconds():
                        spools.remove_folder(session)
                except OSError as error:
                    why = f"session {show_text(own_id(session)[:8])}: {_reason(error)}"
            state.captured_blobs.forget_all_but(spools.folders())
    except OSError as error:
        why = f"all sessions: {_reason(error)}"
    return count, _UNREAD.format(why) if why else ""


def _fold(spool: Folder, session: str, state: State, shelf: _Shelf | None, now: datetime, until: float) -> int:
    """Fold the raw events of one session; how many. OSError for what waits."""
    if spool.has("events.ndjson"):
        # Who appends looks, under the same lock, whether the file is still there.
        with locked(spool.reading("events.ndjson"), until):
            spool.move("events.ndjson", spool, f"taken-{names.milliseconds(now):015d}-{secrets.token_hex(4)}")
    count = 0
    for taken in spool.files():
        if taken.startswith("taken-"):
            _note_blobs(state, session, filter(None, _events(spool, taken, agent_of(session))))
            if shelf is not None:
                count += shelf.keep(session, spool, taken)
                spool.remove(taken)
    return count


def _note_blobs(state: State, session: str, events: Iterable[CapturedEvent]) -> None:
    """Note what the events wrote, and in which worktrees; twice is once. OSError if the state does not take it."""
    written_at: dict[str, int] = {}
    tops: set[str] = set()
    for event in events:
        tops |= {event.worktree} - {""}
        with contextlib.suppress(ValueError, TypeError, LookupError, RecursionError):  # one nobody thought of
            written_at |= dict.fromkeys(blobs_of(event), int(event.at.timestamp() * 1000))

    state.worktree_tops.note(tops)
    problem = state.captured_blobs.note(session, written_at) if written_at else ""
    if problem:
        raise OSError(errno.EIO, problem)


def _reason(error: OSError) -> str:
    return "another process holds the lock" if isinstance(error, BlockingIOError) else str(error.strerror)


class _Shelf(Struct, frozen=True):
    """Where the events of sessions are kept, redacted."""

    folder: Folder
    redact: TextRedactor
    now: datetime
    state: State

    def keep(self, session: str, spool: Folder, taken: str) -> int:
        """Append the events to the session's events.jsonl; once, even if it is interrupted. How many; OSError."""
        place, meta = self._place(session, spool, taken)
        if meta.folded == taken:
            return 0
        before = meta.events
        if meta.writes_since is None:
            meta = replace(meta, writes_since=meta.bytes)
        key = self.state.line_key.read_or_make()
        log = WriteLog(LineDigests(key) if key else None, self.redact.value)
        with open(place.appending(EVENTS), "ab") as file, open(place.appending(WRITES), "ab") as writes:
            file.truncate(meta.bytes)
            writes.truncate(meta.writes_bytes)
            for event in _events(spool, taken, agent_of(session)):
                line, damaged = self._line(event) if event else (b"", 1)
                file.write(line)
                meta = meta.with_event(event, len(line), damaged)
                written = _write_lines(log, event) if event else b""
                writes.write(written)
                meta = replace(meta, writes_bytes=meta.writes_bytes + len(written))
        _write(place, replace(meta, folded=taken))
        return meta.events - before

    def _place(self, session: str, spool: Folder, taken: str) -> tuple[Folder, CaptureMeta]:
        """The session's folder. If what is there is not what was left there, it stays, and another one is begun."""
        with contextlib.suppress(LookupError):
            return kept_session(self.folder, session)
        agent = agent_of(session)
        began = next((event.at for event in _events(spool, taken, agent) if event is not None), self.now)
        name = f"{agent}_{began:%Y%m%d_%H%M%S}_{_short_id(session)}"
        if self.folder.has(name):  # another session's: ids that begin with the time are common
            name += f"-{secrets.token_hex(4)}"
        place = self.folder.make(name)
        meta = CaptureMeta(agent=agent, session_id=session, started_at=began, updated_at=began)
        _write(place, meta)
        return place, meta

    def _line(self, event: CapturedEvent) -> tuple[bytes, int]:
        """The event as a line, and 0; if it cannot be kept, one that says why, and 1: it costs no other event."""
        try:
            data = self.redact.value(dict(event.data))
            line = encode_line({"ts": iso(event.at), "type": self.redact.value(event.kind), "data": data})
            if len(line) > MAX_LINE_BYTES:
                raise OverflowError
        except (OSError, GateError):
            raise
        except Exception as error:  # noqa: BLE001  hostile events may raise anything; a message may quote a secret
            why = "nested too deeply" if isinstance(error, RecursionError) else type(error).__name__
            line = encode_line({"ts": iso(event.at), "type": "", "data": {"left_out": why}})
            return line, 1
        return line, 0


def _write_lines(log: WriteLog, event: CapturedEvent) -> bytes:
    with contextlib.suppress(ValueError, TypeError, LookupError, RecursionError):  # one nobody thought of
        return b"".join(log.line(write, event.at) for write in writes_of(event))
    return b""


def _write(place: Folder, meta: CaptureMeta) -> None:
    place.place(META, encode_line(plain(meta)))


def _events(spool: Folder, taken: str, agent: str) -> Iterator[CapturedEvent | None]:
    """The events of a spool; None for a line that is none, or has more values than a reader takes."""
    with open(spool.reading(taken), "rb") as file:
        while line := file.readline(MAX_LINE_BYTES):
            try:
                require_few(line)
                document = json.loads(line)
                at = datetime.fromtimestamp(document["ts"] / 1000, UTC)
                worktree = document.get("worktree", "")
                if not isinstance(worktree, str) or "\0" in worktree:
                    worktree = ""
                yield CapturedEvent(at, dict(document["event"]), agent, worktree)
            except (ValueError, KeyError, TypeError, OverflowError, OSError, RecursionError):
                yield None
