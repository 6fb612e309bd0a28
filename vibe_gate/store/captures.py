"""Captured sessions of a coding agent: raw hook events are folded into what may be kept.

The agent's hook leaves raw events, private and not redacted (it has no time for it), in
`<common git dir>/vibe-gate/captures/<session>/`, which all worktrees share:

    events.ndjson    what the hook appends to; renamed before it is read
    taken-<ms>-<id>  being folded; deleted when that is done

The next run of vibe-gate folds it: ids of the blobs that the agent wrote go to the shared state,
the events go, redacted, to `.vibe-artifacts/captures/<name>/` as events.jsonl and meta.json, and
the raw events are deleted. meta.json is written last and says up to which byte events.jsonl is
finished and which events were folded last, so that what a killed process left is done again. A
session's name says whose it is, and `agent_events` how its events are read.
"""

from __future__ import annotations

import contextlib
import errno
import json
import secrets
import time
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.document import Timestamp, iso, plain, read, require_few
from vibe_gate.domain.escape import show_text
from vibe_gate.errors import GateError
from vibe_gate.store import bundle_names
from vibe_gate.store.agent_events import AGENTS, CLAUDE, CapturedEvent
from vibe_gate.store.bundle_location import read_object
from vibe_gate.store.clone_state import CloneState
from vibe_gate.store.contents import TextRedactor
from vibe_gate.store.event_writes import open_file, read_writes, written_blobs_of
from vibe_gate.store.folder import LOCK, Folder
from vibe_gate.store.ndjson_log import MAX_LINE_BYTES, encode_line, hold_lock, read_lines
from vibe_gate.store.stored_writes import WRITES, LineDigests, WriteLog

SPOOLS = "captures"
"""Folder of the raw events in the state's folder."""

CAPTURES_FOLDER = f"{STORE}/{bundle_names.CAPTURES}"
"""Folder of the folded sessions in a working tree."""

SPOOL_EVENTS = "events.ndjson"
"""What hooks append to, in a session's folder of raw events."""

_TAKEN = "taken-"
"""How the name of a file of raw events begins that is being folded."""

META = "meta.json"
EVENTS = "events.jsonl"

MAX_AGE = timedelta(days=30)
"""After that a session's blobs say nothing about a change any more."""

MAX_GAPS_BYTES = 64 << 10

PATIENCE_S = 2.0
"""Another process that folds, or captures, is waited for; one that holds a lock longer does not
run.
"""

_UNREAD = "what captured sessions wrote cannot be read ({0}), so an agent may have made it"


class CaptureMeta(Struct, frozen=True, kw_only=True):
    """meta.json of a captured session."""

    schema: Literal[1] = 1
    agent: str = CLAUDE
    session_id: str
    """The session's name, as `agent_of` reads it."""
    started_at: Timestamp
    updated_at: Timestamp
    events: Annotated[int, Meta(ge=0)] = 0
    bytes: Annotated[int, Meta(ge=0)] = 0
    """How far events.jsonl is finished."""
    writes_bytes: Annotated[int, Meta(ge=0)] = 0
    """How far writes.jsonl is finished."""
    damaged: Annotated[int, Meta(ge=0)] = 0
    """Lines of raw events that are none."""
    ended: bool = False
    folded: str = ""
    """The file of raw events that was folded last."""

    def with_event(self, event: CapturedEvent | None, size: int, damaged: int) -> CaptureMeta:
        """The same and an event whose line has `size` bytes; None: a line of the spool that is no
        event.
        """
        counted: dict[str, object] = {"damaged": self.damaged + damaged}
        if event is not None:
            counted |= {
                "started_at": min(self.started_at, event.at),
                "updated_at": max(self.updated_at, event.at),
                "events": self.events + 1,
                "bytes": self.bytes + size,
                "ended": event.kind == "SessionEnd"
                or (self.ended and event.kind != "SessionStart"),
            }
        return replace(self, **counted)


class StoredEvent(Struct, frozen=True):
    """A line of events.jsonl."""

    ts: Timestamp
    data: dict[str, Any]


def read_meta(folder: Folder) -> CaptureMeta:
    """What meta.json of a captured session says. OSError, ValueError."""
    return read(CaptureMeta, read_object(folder, META))


def fold_captures(
    state: CloneState, captures_folder: Folder | None, redact: TextRedactor, now: datetime
) -> tuple[int, str]:
    """Fold every session with news; how many events that were, and why not all could be read, as a
    hint, or "".

    `captures_folder` is `.vibe-artifacts/captures`; None if nothing can be written: then the
    written blobs are noted and the raw events wait. Never raises for what it finds there. Another
    process that folds at the same time is waited for, and after `PATIENCE_S` left to it.
    """
    writer = None
    if captures_folder is not None:
        writer = _CaptureWriter(captures_folder, redact, now, state)
    return _fold_all(state, writer, now)


def note_written(state: CloneState, now: datetime) -> str:
    """Note the blobs that sessions wrote since the last `fold`; the events wait for the next.

    Why not all could be read, as a hint, or "".
    """
    _, hint = _fold_all(state, None, now)
    return hint


def agent_of(session: str) -> str:
    """The agent of a captured session, a key of `AGENTS`, by the session's name: `<agent>.<its
    id>`, or the id alone.

    The ids of Claude Code's sessions stand alone; a dot is in no id (`spool.SAFE`).
    """
    agent, dot, _ = session.partition(".")
    if dot and agent in AGENTS:
        return agent
    return CLAUDE


def own_id(session: str) -> str:
    """The id that the agent itself gives to the session."""
    return session.removeprefix(f"{agent_of(session)}.")


def agent_title(session: str) -> str:
    """What people call the session's agent."""
    return AGENTS[agent_of(session)].title


def session_title(session: str) -> str:
    """The session as people read of it: "Gemini CLI session 0f3c9a1e"."""
    return f"{agent_title(session)} session {show_text(own_id(session)[:8])}"


def find_session(captures_folder: Folder, session: str) -> tuple[Folder, CaptureMeta]:
    """The folder with all that was folded of the session. LookupError: there is none. OSError,
    ValueError.
    """
    for folder, meta in find_sessions(captures_folder, session):
        with contextlib.suppress(OSError):
            if not meta.bytes or folder.status(EVENTS).st_size >= meta.bytes:
                return folder, meta
    raise LookupError


def read_finished_lines(place: Folder, name: str, until: int) -> Iterator[bytes]:
    """The lines of a file up to that byte: what comes behind them is written at this moment, or
    again. OSError.
    """
    size = 0
    for line in read_lines(place, name):
        size += len(line)
        if size > until:
            return
        yield line


def find_sessions(captures_folder: Folder, session: str) -> Iterator[tuple[Folder, CaptureMeta]]:
    """The folders that have events of the session: one, or more if what was left in one was
    damaged. OSError.
    """
    for name in captures_folder.folders():
        if name.split("_", 3)[-1].startswith(_short_id(session)):
            with contextlib.suppress(OSError, ValueError):
                place = captures_folder.folder(name)
                meta = read_meta(place)
                if meta.session_id == session:
                    yield place, meta


def sessions_active_at(roots: Iterable[Path], moments: Collection[datetime]) -> list[str]:
    """The sessions in the stores of these working trees that went on at one of these moments."""
    sessions: dict[str, None] = {}
    for root in roots:
        with contextlib.suppress(OSError):
            captures_folder = Folder.at(root).below(CAPTURES_FOLDER)
            for name in captures_folder.folders():
                with contextlib.suppress(OSError, ValueError):
                    meta = read_meta(captures_folder.folder(name))
                    if any(meta.started_at <= moment <= meta.updated_at for moment in moments):
                        sessions[meta.session_id] = None
    return list(sessions)


def count_damaged(roots: Iterable[Path], session: str) -> int:
    """How many events of the session could not be kept in the stores of these working trees."""
    count = 0
    for root in roots:
        with contextlib.suppress(OSError, ValueError):
            for _, meta in find_sessions(Folder.at(root).below(CAPTURES_FOLDER), session):
                count += meta.damaged
    return count


def _short_id(session: str) -> str:
    return own_id(session)[:8].strip("-_") or "unknown"


class CaptureGap(Struct, frozen=True):
    """What a hook of an agent noted when it failed."""

    moment: datetime
    reason: str
    """A sentence for people."""
    is_of_guard: bool
    """Whether the guard could not judge the event: the capture kept it all the same."""


GUARD_MARK = "guard: "
"""How the line begins that the guard writes, as `faces/agent_hook/guard.py` has it."""


def read_capture_gaps(state: CloneState) -> list[CaptureGap]:
    """When and why an event was not kept or not judged, as the hooks noted it."""
    try:
        with open_file(Path(state.folder) / SPOOLS / "gaps") as file:
            lines = file.read(2 * MAX_GAPS_BYTES).decode("ascii", "replace").splitlines()
    except OSError:
        return []
    gaps: list[CaptureGap] = []
    for line in lines:
        ms, _, reason = line.partition(" ")
        with contextlib.suppress(ValueError, OverflowError, OSError):  # a torn line
            moment = datetime.fromtimestamp(int(ms) / 1000, UTC)
            gaps.append(CaptureGap(moment, reason, reason.startswith(GUARD_MARK)))
    return gaps


def _fold_all(state: CloneState, writer: _CaptureWriter | None, now: datetime) -> tuple[int, str]:
    """Fold the raw events of all sessions; how many, and the hint why not all could be read, or
    "".
    """
    path = Path(state.folder) / SPOOLS
    if not path.is_dir():
        return 0, ""
    count = 0
    reason = ""
    until = time.monotonic() + PATIENCE_S
    try:
        spools = Folder.at(path)
        with hold_lock(spools.appending(LOCK), until):
            for session in spools.folders():
                try:
                    count += _fold_session(
                        spools.folder(session), session, state, writer, now, until
                    )
                    age_s = now.timestamp() - spools.status(session).st_mtime
                    if age_s > MAX_AGE.total_seconds():
                        spools.remove_folder(session)
                except OSError as error:
                    reason = f"session {show_text(own_id(session)[:8])}: {_reason_of(error)}"
            state.captured_blobs.forget_all_but(spools.folders())
    except OSError as error:
        reason = f"all sessions: {_reason_of(error)}"
    return count, _UNREAD.format(reason) if reason else ""


def _fold_session(
    spool: Folder,
    session: str,
    state: CloneState,
    writer: _CaptureWriter | None,
    now: datetime,
    until: float,
) -> int:
    """Fold the raw events of one session; how many. OSError for what waits."""
    if spool.has(SPOOL_EVENTS):
        new_name = f"{_TAKEN}{bundle_names.to_milliseconds(now):015d}-{secrets.token_hex(4)}"
        # Who appends looks, under the same lock, whether the file is still there.
        with hold_lock(spool.reading(SPOOL_EVENTS), until):
            spool.move(SPOOL_EVENTS, spool, new_name)
    count = 0
    for name in spool.files():
        if not name.startswith(_TAKEN):
            continue
        _note_blobs(state, session, _read_events(spool, name, agent_of(session)))
        if writer is not None:
            count += writer.append_events(session, spool, name)
            spool.remove(name)
    return count


def _note_blobs(state: CloneState, session: str, events: Iterable[CapturedEvent | None]) -> None:
    """Note what the events wrote, and in which worktrees; twice is once. OSError if the state does
    not take it.
    """
    written_at: dict[str, int] = {}
    tops: set[str] = set()
    for event in events:
        if event is None:
            continue
        if event.worktree:
            tops.add(event.worktree)
        with contextlib.suppress(
            ValueError, TypeError, LookupError, RecursionError
        ):  # a hostile event
            written_at |= dict.fromkeys(written_blobs_of(event), int(event.at.timestamp() * 1000))
    state.worktree_tops.note(tops)
    problem = state.captured_blobs.note(session, written_at) if written_at else ""
    if problem:
        raise OSError(errno.EIO, problem)


def _reason_of(error: OSError) -> str:
    if isinstance(error, BlockingIOError):
        return "another process holds the lock"
    return str(error.strerror)


class _CaptureWriter(Struct, frozen=True):
    """Writes redacted events into the folders of captured sessions."""

    folder: Folder
    """`.vibe-artifacts/captures`."""
    redact: TextRedactor
    now: datetime
    state: CloneState

    def append_events(self, session: str, spool: Folder, spool_name: str) -> int:
        """Append the events of a file of the spool to the session's; once, even if it is
        interrupted.

        How many they are. OSError.
        """
        folder, meta = self._session_folder(session, spool, spool_name)
        if meta.folded == spool_name:
            return 0
        earlier_count = meta.events
        key = self.state.line_key.read_or_make()
        log = WriteLog(LineDigests(key) if key else None, self.redact.value)
        with (
            open(folder.appending(EVENTS), "ab") as events_file,
            open(folder.appending(WRITES), "ab") as writes_file,
        ):
            events_file.truncate(meta.bytes)
            writes_file.truncate(meta.writes_bytes)
            for event in _read_events(spool, spool_name, agent_of(session)):
                line, damaged, write_lines = b"", 1, b""
                if event is not None:
                    line, damaged = self._encode_event(event)
                    write_lines = _encode_writes(log, event)
                events_file.write(line)
                writes_file.write(write_lines)
                meta = meta.with_event(event, len(line), damaged)
                meta = replace(meta, writes_bytes=meta.writes_bytes + len(write_lines))
        _write_meta(folder, replace(meta, folded=spool_name))
        return meta.events - earlier_count

    def _session_folder(
        self, session: str, spool: Folder, spool_name: str
    ) -> tuple[Folder, CaptureMeta]:
        """The session's folder. If its files are not what was left there, it stays, and another one
        is begun.
        """
        with contextlib.suppress(LookupError):
            return find_session(self.folder, session)
        agent = agent_of(session)
        events = _read_events(spool, spool_name, agent)
        began_at = next((event.at for event in events if event is not None), self.now)
        name = f"{agent}_{began_at:%Y%m%d_%H%M%S}_{_short_id(session)}"
        if self.folder.has(name):  # another session's: ids that begin with the time are common
            name += f"-{secrets.token_hex(4)}"
        folder = self.folder.make(name)
        meta = CaptureMeta(
            agent=agent, session_id=session, started_at=began_at, updated_at=began_at
        )
        _write_meta(folder, meta)
        return folder, meta

    def _encode_event(self, event: CapturedEvent) -> tuple[bytes, int]:
        """The event as a line, and 0; if it cannot be kept, one that says why, and 1: it costs no
        other event.
        """
        try:
            data = self.redact.value(dict(event.data))
            line = encode_line(
                {"ts": iso(event.at), "type": self.redact.value(event.kind), "data": data}
            )
            if len(line) > MAX_LINE_BYTES:
                raise OverflowError
        except (OSError, GateError):
            raise
        except Exception as error:  # noqa: BLE001  hostile events may raise anything; a message may quote a secret
            reason = (
                "nested too deeply" if isinstance(error, RecursionError) else type(error).__name__
            )
            return encode_line({"ts": iso(event.at), "type": "", "data": {"left_out": reason}}), 1
        return line, 0


def _encode_writes(log: WriteLog, event: CapturedEvent) -> bytes:
    """The lines of writes.jsonl about the files that the event's call wrote."""
    with contextlib.suppress(ValueError, TypeError, LookupError, RecursionError):  # a hostile event
        return b"".join(log.line(write, event.at) for write in read_writes(event))
    return b""


def _write_meta(folder: Folder, meta: CaptureMeta) -> None:
    folder.place(META, encode_line(plain(meta)))


def _read_events(spool: Folder, spool_name: str, agent: str) -> Iterator[CapturedEvent | None]:
    """The events of a file of the spool; None for a line that is none, or has more values than a
    reader takes.
    """
    with open(spool.reading(spool_name), "rb") as file:
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
