"""Captured sessions of a coding agent: raw hook events are folded into what may be kept.

The Claude hook leaves raw events, private and not redacted (it has no time for it), in
`<common git dir>/vibe-gate/captures/<session id>/`, which all worktrees share:

    events.ndjson           what the hook appends to; renamed before it is read
    taken-<ms>-<id>.<n>     being folded for the n-th time; deleted when that is done
    damaged-<ms>-<id>       events that could not be folded, set aside; `gaps` says why

The next run of vibe-gate folds it: ids of the blobs that the agent wrote go to the shared state, the events go,
redacted, to `.vibe-artifacts/captures/<name>/` as events.jsonl and meta.json, and the raw events are deleted.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from vibe_gate.domain.escape import expression, show_text
from vibe_gate.domain.model import require_few
from vibe_gate.domain.provenance import Written
from vibe_gate.errors import GateError
from vibe_gate.store.folder import Folder
from vibe_gate.store.log import dumps
from vibe_gate.store.state import State, StateFile
from vibe_gate.store.written import blobs_of

if TYPE_CHECKING:
    import sqlite3

AGENT = "claude"

SPOOLS = "captures"
"""Folder of the raw events in the state's folder."""

MAX_LINE_BYTES = 96 << 20
"""Of one event; the hook keeps none that is larger."""

MAX_AGE = timedelta(days=30)
"""After that a session's blobs say nothing about a change any more."""

MAX_TRIES = 2
"""Of folding one spool, if the process that did it was killed: memory may be why, and would be again."""

MAX_TODOS = 1_000
MAX_TODO = 2_000
"""Letters of one; no list that anybody works through is longer."""

MAX_GAPS_BYTES = 64 << 10
MAX_TRANSCRIPT_BYTES = 256 << 20
MAX_WRITTEN = 200_000
"""Blobs that a meta.json lists, the newest: readers take no document of more than a million values."""

MAX_MISSING = 100
"""Missing calls that are named; their number tells of the others."""

SETTLING_S = 2.0
"""The event of a call that was done no longer ago may still be on its way."""

PATIENCE_S = 2.0
"""Another process that folds, or captures, is waited for; one that holds a lock longer does not run."""

_UNREAD = "what captured sessions wrote cannot be read ({0}), so an agent may have made it"
_ENDS = ("PostToolUse", "PostToolUseFailure")
_CALL = expression(r"[A-Za-z0-9_-]{1,100}")


class Redact(Protocol):
    """Takes secrets out of JSON."""

    def value(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """The same, with placeholders for secrets."""


@dataclass(frozen=True, slots=True)
class CapturedEvent:
    """One event of the spool: when it was (ms since 1970), and what Claude Code said."""

    ts: int
    data: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """Claude Code's name of the event."""
        return str(self.data.get("hook_event_name", ""))

    @property
    def call(self) -> str | None:
        """The id of the tool call that ended."""
        number = self.data.get("tool_use_id")
        return number if self.kind in _ENDS and isinstance(number, str) and _CALL.fullmatch(number) else None


@dataclass
class CaptureProgress:
    """How far the capture of a session in one store is: its folder there, counts, and what folding goes on from.

    `started` and `updated` in ms since 1970; `bytes` is how far events.jsonl is finished, `folded` the last spool.
    """

    folder: str = ""
    started: int = 0
    updated: int = 0
    events: int = 0
    tool_calls: int = 0
    refused: int = 0
    damaged: int = 0
    bytes: int = 0
    folded: str = ""
    ended: bool = False
    transcript: str = ""
    todos: list[dict[str, str]] = field(default_factory=list)

    def add(self, event: CapturedEvent, size: int) -> None:
        """Count an event whose line has `size` bytes."""
        self.started = min(self.started or event.ts, event.ts)
        self.updated = max(self.updated, event.ts)
        self.events += 1
        self.tool_calls += event.kind in _ENDS
        self.refused += "refused" in event.data
        self.ended = event.kind == "SessionEnd" or (self.ended and event.kind != "SessionStart")
        self.bytes += size


class CapturedWork:
    """What the shared state knows of captured sessions: progress, digests of calls, and blobs with their paths."""

    def __init__(self, file: StateFile) -> None:
        self._file = file

    def progress(self, session: str, store: str) -> CaptureProgress:
        """How far a session is in a store; a new CaptureProgress if nothing is known."""
        rows = self._file.read("SELECT progress FROM captures WHERE session = ? AND store = ?", session, store)
        try:
            return CaptureProgress(**json.loads(rows[0][0])) if rows else CaptureProgress()
        except (ValueError, TypeError):
            return CaptureProgress()

    def keep(self, session: str, store: str, progress: CaptureProgress) -> None:
        """Remember the progress. OSError if the state does not take it."""
        row = (session, store, json.dumps(asdict(progress)))
        self._change(lambda db: db.execute("INSERT OR REPLACE INTO captures VALUES (?, ?, ?)", row))

    def note(self, session: str, events: Iterable[CapturedEvent]) -> None:
        """Note the calls and blobs of events; twice is once. OSError if the state does not take it."""
        calls, blobs = [], []
        for event in events:
            if event.call:
                calls.append((session, _digest(event.call)))
            with contextlib.suppress(ValueError, TypeError, LookupError, RecursionError):  # one nobody thought of
                pairs = list(blobs_of(event.data, event.ts))
                blobs += [(session, blob, path.encode("utf-8", "replace").decode()) for blob, path in pairs]
        insert = "INSERT OR IGNORE INTO captured_blobs (session, blob, path) VALUES (?, ?, ?)"
        if calls or blobs:

            def action(db: sqlite3.Connection) -> None:
                db.executemany("INSERT OR IGNORE INTO captured_calls VALUES (?, ?)", calls)
                db.executemany(insert, blobs)

            self._change(action)

    def missing(self, session: str, calls: Iterable[str]) -> list[str]:
        """Those of the calls whose events were not seen, sorted."""
        rows = self._file.read("SELECT call FROM captured_calls WHERE session = ?", session)
        seen = {call for (call,) in rows}
        return sorted(call for call in calls if _digest(call) not in seen)

    def blobs(self, session: str | None = None) -> list[tuple[str, str, str]]:
        """(session, blob, path) of what a session (None: every one) wrote; the oldest first."""
        sql = "SELECT session, blob, path FROM captured_blobs WHERE ?1 IS NULL OR session = ?1 ORDER BY id"
        return self._file.read(sql, session)

    def keep_only(self, sessions: Collection[str]) -> None:
        """Remove everything about other sessions."""
        rows = self._file.read("SELECT session FROM captures UNION SELECT session FROM captured_blobs")
        gone = [row for row in rows if row[0] not in sessions]

        def action(db: sqlite3.Connection) -> None:
            for table in ("captures", "captured_calls", "captured_blobs"):
                db.executemany(f"DELETE FROM {table} WHERE session = ?", gone)  # noqa: S608

        if gone:
            self._file.change(action)

    def _change(self, action: Callable[[sqlite3.Connection], object]) -> None:
        if not self._file.change(action):
            raise OSError(errno.EIO, self._file.problem)


def fold(state: State, shelf: Folder | None, redact: Redact, now: datetime) -> tuple[int, str]:
    """Fold every session with news; how many events that were, and why not all could be read, as a hint, or "".

    `shelf` is `.vibe-artifacts/captures`; None if nothing can be written: then the written blobs are noted and the
    raw events wait. Never raises for what it finds there. Another process that folds at the same time is waited
    for, and after `PATIENCE_S` left to it.
    """
    spools = Path(state.folder) / SPOOLS
    if not spools.is_dir():
        return 0, ""
    work = CapturedWork(state.file)
    count, why, until = 0, "", time.monotonic() + PATIENCE_S
    try:
        with _alone(spools, until):
            folders = _folders(spools)
            for folder in folders:
                try:
                    count += _Session(folder, work, shelf, redact, now).fold(until)
                except OSError as error:
                    why = f"session {show_text(folder.name[:8])}: {_reason(error)}"
            work.keep_only({folder.name for folder in folders if folder.is_dir()})
    except OSError as error:
        why = f"all sessions: {_reason(error)}"
    return count, _UNREAD.format(why) if why else ""


def note_written(state: State, now: datetime) -> str:
    """Note the blobs that sessions wrote since the last `fold`; the events wait for the next.

    Why not all could be read, as a hint, or "".
    """
    return fold(state, None, _Nothing(), now)[1]


def written_blobs(state: State) -> dict[str, Written]:
    """Blob id -> which session wrote it, and where. Empty if nothing was captured."""
    return {blob: Written(AGENT, session, path) for session, blob, path in CapturedWork(state.file).blobs()}


def gaps(state: State) -> list[tuple[datetime, str]]:
    """When and why an event was not kept, as the hooks and folding noted it."""
    try:
        with _reading(Path(state.folder) / SPOOLS / "gaps") as file:
            lines = file.read(2 * MAX_GAPS_BYTES).decode("ascii", "replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        ms, _, why = line.partition(" ")
        with contextlib.suppress(ValueError, OverflowError, OSError):  # a torn line
            found.append((datetime.fromtimestamp(int(ms) / 1000, UTC), why))
    return found


class _Nothing:
    """Redacts where nothing is kept."""

    def value(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        raise AssertionError("without a shelf nothing is kept")


def _reason(error: OSError) -> str:
    return "another process holds the lock" if isinstance(error, BlockingIOError) else str(error.strerror)


@contextlib.contextmanager
def _alone(spools: Path, until: float) -> Iterator[None]:
    """Hold the lock of all folding; BlockingIOError if another process does."""
    descriptor = os.open(spools / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _lock(descriptor, until)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, until: float) -> None:
    """Take the lock; BlockingIOError if the clock `time.monotonic` says `until` before it is to be had."""
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
        time.sleep(0.02)


def _folders(spools: Path) -> list[Path]:
    with os.scandir(spools) as entries:
        return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))


def _reading(path: Path) -> BinaryIO:
    """The regular file, for reading; a link is not followed. OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return open(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


class _Session:
    """The folding of one session's spools, one after the other."""

    def __init__(self, folder: Path, work: CapturedWork, shelf: Folder | None, redact: Redact, now: datetime) -> None:
        self.folder = folder
        self.name = folder.name
        self.work = work
        self.shelf = shelf
        self.redact = redact
        self.now = now

    def fold(self, until: float) -> int:
        """Fold what is there; how many events. OSError for what waits."""
        self._take(until)
        count = 0
        for taken in sorted(self.folder.glob("taken-*")):
            try:
                count += self._fold(taken)
            except (OSError, GateError):
                raise  # the disk's fault or the shelf's: the spool waits
            except Exception as error:  # noqa: BLE001  hostile events may raise anything; they stop no second review
                self._set_aside(taken, type(error).__name__)
        if self._is_over():
            shutil.rmtree(self.folder, ignore_errors=True)
        return count

    def _take(self, until: float) -> None:
        """Rename the spool under its lock: who appends looks, under the same lock, whether it is still there."""
        spool = self.folder / "events.ndjson"
        taken = self.folder / f"taken-{int(self.now.timestamp() * 1000):015d}-{secrets.token_hex(4)}.0"
        try:
            file = _reading(spool)
        except FileNotFoundError:
            return
        except OSError:
            if not stat.S_ISREG(spool.lstat().st_mode):
                spool.rename(taken)  # a pipe, a link or a folder: it is found to be damaged
            return
        with file:
            _lock(file.fileno(), until)
            spool.rename(taken)

    def _fold(self, taken: Path) -> int:
        tries = int(taken.suffix[1:]) if taken.suffix[1:].isdecimal() else MAX_TRIES
        if not stat.S_ISREG(taken.lstat().st_mode) or tries >= MAX_TRIES:
            self._set_aside(taken, f"not a regular file, or folding it was killed {MAX_TRIES} times")
            return 0
        trying = taken.rename(taken.with_suffix(f".{tries + 1}"))  # the number stays if this process is killed
        try:
            self.work.note(self.name, filter(None, _events(trying)))
            count = -1 if self.shelf is None else self._keep(trying, self.shelf)
        except (OSError, GateError):
            trying.rename(taken)
            raise
        if count < 0:
            trying.rename(taken)
            return 0
        trying.unlink()
        return count

    def _set_aside(self, taken: Path, why: str) -> None:
        """No review reads it any more; a line in `gaps` says so once."""
        for path in self.folder.glob(f"{taken.stem}.*"):
            path.rename(self.folder / f"damaged-{taken.stem.partition('-')[2]}")
        self._note_gap(f"events set aside as damaged: {why}")

    def _is_over(self) -> bool:
        """Whether nothing was appended for so long that no change can be about it any more."""
        times = [entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(self.folder)]
        times.append(self.folder.stat().st_mtime)
        return self.now.timestamp() - max(times) > MAX_AGE.total_seconds()

    def _note_gap(self, why: str) -> None:
        """Leave a line that says what of the session is not kept, and why."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        text = f"{int(self.now.timestamp() * 1000)} session {self.name}: {why[:250]}"
        line = "".join(letter if " " <= letter <= "~" else "?" for letter in text).encode() + b"\n"
        with contextlib.suppress(OSError), open(os.open(self.folder.parent / "gaps", flags, 0o600), "ab") as file:
            if os.fstat(file.fileno()).st_size < MAX_GAPS_BYTES:
                file.write(line)

    def _keep(self, taken: Path, shelf: Folder) -> int:
        """Append the events, redacted, to the session's events.jsonl; done once even if it is interrupted."""
        store = os.fspath(shelf.path)
        progress = self.work.progress(self.name, store)
        if progress.folded == taken.stem:
            return 0
        place, progress = self._place(shelf, progress, taken)
        self.work.keep(self.name, store, progress)
        before = progress.events
        with open(place.appending("events.jsonl"), "ab") as file:
            file.truncate(progress.bytes)
            for event in _events(taken):
                if event is None:
                    progress.damaged += 1
                else:
                    file.write(self._line(progress, event))
        progress.folded = taken.stem
        place.place("meta.json", self._meta(progress))
        self.work.keep(self.name, store, progress)
        return progress.events - before

    def _place(self, shelf: Folder, progress: CaptureProgress, taken: Path) -> tuple[Folder, CaptureProgress]:
        """The session's folder. If what is there is not what was left there, it stays, and another one is begun."""
        if progress.folder:
            with contextlib.suppress(OSError):
                place = shelf.folder(progress.folder)
                if place.status("events.jsonl").st_size >= progress.bytes:
                    return place, progress
            if shelf.has(progress.folder):
                self._note_gap(f"{progress.folder} is left as it is, and the session goes on in another folder")
        first = next((event.ts for event in _events(taken) if event is not None), 0)
        began = datetime.fromtimestamp(min(max(first, 0), 4102444800000) / 1000, UTC)
        name = f"{AGENT}_{began:%Y%m%d_%H%M%S}_{self.name[:8].strip('-_') or 'unknown'}"
        while True:
            try:
                return shelf.make(name), CaptureProgress(folder=name)
            except FileExistsError:  # another session's: ids that begin with the time are common
                name = f"{name.partition('-')[0]}-{secrets.token_hex(4)}"

    def _line(self, progress: CaptureProgress, event: CapturedEvent) -> bytes:
        """The event as a line, counted; if it cannot be kept, one that says why: it costs no other event."""
        try:
            line = _encoded(event, event.kind, self.redact)
            progress.todos = _todos(progress.todos, event)
            progress.transcript = str(event.data.get("transcript_path") or progress.transcript)
        except (OSError, GateError):
            raise
        except Exception as error:  # noqa: BLE001  hostile events may raise anything; a message may quote a secret
            why = "nested too deeply" if isinstance(error, RecursionError) else type(error).__name__
            why = str(error) if isinstance(error, _TooLarge) else why
            line = dumps({"ts": _iso(event.ts), "type": "", "data": {"left_out": why}}).encode() + b"\n"
            progress.damaged += 1
        progress.add(event, len(line))
        return line

    def _meta(self, progress: CaptureProgress) -> bytes:
        """The bytes of meta.json. What a redactor cannot look at is left out of it."""
        capture = self._status(progress)
        written = self.work.blobs(self.name)[-MAX_WRITTEN:]
        document = {
            "schema": 1,
            "agent": AGENT,
            "session_id": self.name,
            "parent_session_id": None,
            "started_at": _iso(progress.started),
            "updated_at": _iso(progress.updated),
            "events": progress.events,
            "bytes": progress.bytes,
            "tool_calls": progress.tool_calls,
            "refused": progress.refused,
            "damaged": progress.damaged,
            "hookCaptureStatus": capture | {"missingEvents": [self._safe(name) for name in capture["missingEvents"]]},
            "todos": [{name: self._safe(text) for name, text in todo.items()} for todo in progress.todos],
            "written": [{"blob": blob, "path": self._safe(path)} for _, blob, path in written],
        }
        return (dumps(document, 2) + "\n").encode()

    def _safe(self, text: str) -> str:
        """Without secrets; the names, ids and numbers around it are ours, and are never redacted."""
        try:
            return str(self.redact.value(text))
        except (OSError, GateError):
            raise
        except Exception as error:  # noqa: BLE001  as of events
            return f"[left out: {type(error).__name__}]"

    def _status(self, progress: CaptureProgress) -> dict[str, Any]:
        """`hookCaptureStatus`: whether all that the session did was captured.

        The agent's own transcript names the calls that were done. Hooks in the background end with the program
        that started them: if it is killed, its last events are lost.
        """
        warnings = [] if progress.ended else ["the session has not ended yet, or was killed"]
        done = _done(progress.transcript, self.now)
        missing = self.work.missing(self.name, done or ())
        if done is None:
            warnings.append("the agent's transcript cannot be read: nothing tells which events are missing")
        if aside := sum(1 for _ in self.folder.glob("damaged-*")):
            warnings.append(f"events that could not be read were set aside ({aside} times)")
        if len(missing) > MAX_MISSING:
            warnings.append(f"{len(missing)} calls have no event")
        return {
            "complete": done is not None and progress.ended and not (missing or aside or progress.damaged),
            "missingEvents": [f"PostToolUse {number}" for number in missing[:MAX_MISSING]],
            "warnings": warnings,
        }


class _TooLarge(ValueError):
    """A reader would refuse the event's line."""


def _events(taken: Path) -> Iterator[CapturedEvent | None]:
    """The events of a spool; None for a line that is none."""
    with _reading(taken) as file:
        while line := file.readline(MAX_LINE_BYTES):
            try:
                document = json.loads(line)
                yield CapturedEvent(int(document["ts"]), dict(document["event"]))
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                yield None


def _encoded(event: CapturedEvent, kind: str, redact: Redact) -> bytes:
    document = {"ts": _iso(event.ts), "type": redact.value(kind), "data": redact.value(event.data)}
    line = dumps(document).encode() + b"\n"
    try:
        require_few(line)
    except ValueError as error:
        raise _TooLarge(str(error)) from None
    if len(line) > MAX_LINE_BYTES:
        raise _TooLarge(f"it is longer than {MAX_LINE_BYTES:,} bytes")
    return line


def _todos(todos: list[dict[str, str]], event: CapturedEvent) -> list[dict[str, str]]:
    """The agent's list after an event, of either kind of todo tool."""
    tool, asked, answer = (event.data.get(name) for name in ("tool_name", "tool_input", "tool_response"))
    if event.kind != "PostToolUse" or not isinstance(asked, dict):
        return todos
    if tool == "TodoWrite" and isinstance(asked.get("todos"), list):
        new = [todo for todo in asked["todos"][:MAX_TODOS] if isinstance(todo, dict)]
        return [_todo(n, todo.get("content", ""), todo.get("status", "")) for n, todo in enumerate(new, 1)]
    if tool == "TaskCreate" and len(todos) < MAX_TODOS:
        task = answer.get("task") if isinstance(answer, dict) else None
        number = task.get("id") if isinstance(task, dict) else len(todos) + 1
        return [*todos, _todo(number, asked.get("subject", ""), "pending")]
    if tool == "TaskUpdate" and "status" in asked:
        changed = _todo(asked.get("taskId", asked.get("id", "")), "", asked["status"])
        return [todo | {"status": changed["status"]} if todo["id"] == changed["id"] else todo for todo in todos]
    return todos


def _todo(number: object, text: object, status: object) -> dict[str, str]:
    """All of it is as long as who sent the event likes."""
    return {"id": str(number)[:MAX_TODO], "text": str(text)[:MAX_TODO], "status": str(status)[:MAX_TODO]}


def _digest(call: str) -> str:
    """An id says whatever its sender likes, a secret too, and stays after the redacted events are gone."""
    return hashlib.sha256(call.encode()).hexdigest()[:32]


def _done(transcript: str, now: datetime) -> set[str] | None:
    """Calls that the transcript says were done without an error; None if it cannot be read."""
    if not transcript.endswith(".jsonl"):
        return None
    found: set[str] = set()
    try:
        with _reading(Path(transcript)) as file:
            if os.fstat(file.fileno()).st_size > MAX_TRANSCRIPT_BYTES:
                return None
            for line in file:
                if b'"tool_result"' in line:
                    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
                        found |= _results(json.loads(line), now)
    except (OSError, ValueError):
        return None
    return found


def _results(document: Any, now: datetime) -> set[str]:  # noqa: ANN401 - JSON
    """The calls of one line of the transcript."""
    told = datetime.fromisoformat(document["timestamp"].replace("Z", "+00:00"))
    if (now - told).total_seconds() < SETTLING_S:
        return set()
    blocks = [block for block in document["message"]["content"] if block["type"] == "tool_result"]
    done = [block["tool_use_id"] for block in blocks if block.get("is_error") is not True]
    return {call for call in done if _CALL.fullmatch(call)}


def _iso(ms: int) -> str:
    """ISO 8601 in UTC of milliseconds since 1970; the year 1970 for what is no time."""
    try:
        moment = datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        moment = datetime.fromtimestamp(0, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
