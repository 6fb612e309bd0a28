"""Captured sessions of coding agents: raw events are folded into what may be kept.

`capture` leaves raw events in the git folder that all worktrees share, private and not
redacted (it has no time for it): `<common dir>/vibe-gate/sessions/<session id>/`.

    events.ndjson         what capture appends to; renamed before it is read
    taken-<ms>.ndjson     being folded; deleted when that is done
    damaged-<ms>.ndjson   what could not be folded, set aside for good; `gaps` says why
    tries                 which of them folding began with, and did not end
    calls                 ids of the tool calls whose events were captured
    written               ids of the blobs that the agent wrote, one a line with its path
    name                  the session's folder below `.vibe-artifacts/sessions`

The next run of vibe-gate folds it: the ids of written blobs stay there, the events go, redacted, to
`.vibe-artifacts/sessions/<name>/` as messages.jsonl and meta.json, and the raw events are deleted.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from vibe_gate.adapters.sessions.blobs import blobs_of
from vibe_gate.adapters.sessions.opened import appending, reading
from vibe_gate.adapters.sessions.status import call_of, note_calls, status
from vibe_gate.domain.provenance import Written
from vibe_gate.errors import GateError

MAX_LINE_BYTES = 96 << 20
"""Of one event; capture keeps none that is larger."""

MAX_AGE = timedelta(days=30)
"""After that a session's blobs say nothing about a change any more."""

MAX_WRITTEN_BYTES = 16 << 20
"""Of the list of one session: some two hundred thousand blobs."""

MAX_TRIES = 2
"""Of folding one spool, where the process that did it was killed: memory may be why, and would be again."""

MAX_GAPS_BYTES = 64 << 10

MAX_TODOS = 1_000
MAX_TODO = 2_000
"""Letters of one; no list that anybody works through is longer."""

AGENT = "claude"


class Shelf(Protocol):
    """A folder in which nothing is followed; `adapters.bundles` has one."""

    def folder(self, name: str, create: bool = False) -> Any:  # noqa: ANN401 - a Shelf again
        """The folder of that name."""

    def appending(self, name: str) -> int:
        """A descriptor for reading and appending."""

    def read(self, name: str) -> bytes:
        """The whole file."""

    def place(self, name: str, data: bytes) -> None:
        """The file, whole or not at all."""


class Redact(Protocol):
    """What takes secrets out of JSON."""

    def value(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """The same, with placeholders for secrets."""


@dataclass
class Told:
    """What meta.json says of a session. Milliseconds since 1970; `bytes` is how far messages.jsonl is valid."""

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


def fold(common_dir: Path, shelf: Shelf | None, redact: Redact, now: datetime) -> int:
    """Fold every session with news; how many events that were. Never raises for what it finds there.

    `shelf` is `.vibe-artifacts/sessions`; None where nothing can be written, then
    the written blobs are noted and the raw events wait. Another process that folds
    at the same time is left to it.
    """
    sessions = common_dir / "vibe-gate" / "sessions"
    if not sessions.is_dir():
        return 0
    count = 0
    with contextlib.suppress(OSError), _alone(sessions):
        for folder in _folders(sessions):
            with contextlib.suppress(OSError):
                count += _fold_session(folder, shelf, redact, now)
    return count


def note_written(common_dir: Path, now: datetime) -> None:
    """Note the blobs that sessions wrote since the last `fold`, for `written_blobs`; the events wait for the next."""
    fold(common_dir, None, _Nothing(), now)


class _Nothing:
    """What redacts where nothing is kept."""

    def value(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        raise AssertionError("without a shelf nothing is kept")


def written_blobs(common_dir: Path) -> dict[str, Written]:
    """Blob id -> which session wrote it, and where. Empty where nothing was captured."""
    found: dict[str, Written] = {}
    for folder in _folders(common_dir / "vibe-gate" / "sessions"):
        with contextlib.suppress(OSError):
            for blob, path in _noted(folder):
                found[blob] = Written(AGENT, folder.name, path)
    return found


def gaps(common_dir: Path) -> list[str]:
    """When and why an event was not kept, as capture and guard noted it."""
    try:
        with reading(common_dir / "vibe-gate" / "sessions" / "gaps") as file:
            return file.read(2 * MAX_GAPS_BYTES).decode("ascii", "replace").splitlines()
    except OSError:
        return []


def _folders(sessions: Path) -> list[Path]:
    try:
        with os.scandir(sessions) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


@contextlib.contextmanager
def _alone(sessions: Path) -> Iterator[None]:
    """Hold the lock of all folding; BlockingIOError where another process does."""
    descriptor = os.open(sessions / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _fold_session(folder: Path, shelf: Shelf | None, redact: Redact, now: datetime) -> int:
    _take(folder, now)
    count = 0
    for taken in sorted(folder.glob("taken-*.ndjson")):
        try:
            count += _fold_spool(folder, taken, shelf, redact, now)
        except (OSError, GateError):
            raise  # the disk's fault or the shelf's: the spool waits
        except Exception as error:  # noqa: BLE001  hostile events may raise anything; they must stop no second review
            _set_aside(folder, taken, f"{type(error).__name__}: {error}", now)
    if _is_over(folder, now):
        shutil.rmtree(folder, ignore_errors=True)
    return count


def _fold_spool(folder: Path, taken: Path, shelf: Shelf | None, redact: Redact, now: datetime) -> int:
    if not stat.S_ISREG(taken.lstat().st_mode):
        _set_aside(folder, taken, "not a regular file", now)
        return 0
    if _tries(folder, taken) >= MAX_TRIES:
        _set_aside(folder, taken, f"folding it was killed {MAX_TRIES} times", now)
        return 0
    with _trying(folder, taken):
        _note_written(folder, taken)
        if shelf is None:
            return 0
        count = _keep(folder, taken, shelf, redact, now)
        taken.unlink()
        return count


def _tries(folder: Path, taken: Path) -> int:
    try:
        with reading(folder / "tries") as file:
            return file.read(4096).split().count(taken.name.encode())
    except OSError:
        return 0


@contextlib.contextmanager
def _trying(folder: Path, taken: Path) -> Iterator[None]:
    """Leave a note of what is being folded; it stays only where this process is killed."""
    notes = folder / "tries"
    with contextlib.suppress(OSError), appending(notes) as file:
        file.write(taken.name.encode() + b"\n")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            notes.unlink()


def _set_aside(folder: Path, taken: Path, why: str, now: datetime) -> None:
    """Nobody reads it any more; a line in `gaps` says so once."""
    taken.rename(folder / f"damaged-{taken.name.partition('-')[2]}")
    with contextlib.suppress(OSError):
        (folder / "tries").unlink()
    with contextlib.suppress(OSError), appending(folder.parent / "gaps") as file:
        if os.fstat(file.fileno()).st_size < MAX_GAPS_BYTES:
            text = f"{int(now.timestamp() * 1000)} session {folder.name}: events set aside as damaged: {why[:200]}"
            file.write("".join(letter if " " <= letter <= "~" else "?" for letter in text).encode() + b"\n")


def _take(folder: Path, now: datetime) -> None:
    """Rename the spool under its lock: who appends looks, under the same lock, whether it is still there."""
    spool = folder / "events.ndjson"
    taken = folder / f"taken-{int(now.timestamp() * 1000):015d}.ndjson"
    try:
        file = reading(spool)
    except FileNotFoundError:
        return
    except OSError:
        if not stat.S_ISREG(spool.lstat().st_mode):
            spool.rename(taken)  # a pipe, a link or a folder: it is found to be damaged
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        spool.rename(taken)


def _events(taken: Path) -> Iterator[tuple[int, Mapping[str, Any], bytes] | None]:
    """Time and event of each line, and the line; None for a line that is none."""
    with reading(taken) as file:
        while line := file.readline(MAX_LINE_BYTES):
            try:
                document = json.loads(line)
                yield int(document["ts"]), dict(document["event"]), line
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                yield None


def _note_written(folder: Path, taken: Path) -> None:
    known = set(_noted(folder))
    new = [(blob, path) for event in _events(taken) if event is not None for blob, path in blobs_of(event[1], event[0])]
    fresh = [pair for pair in dict.fromkeys(new) if pair not in known]
    if fresh:
        with appending(folder / "written") as file:
            file.write(b"".join(f"{blob} {json.dumps(path)}\n".encode() for blob, path in fresh))


def _noted(folder: Path) -> list[tuple[str, str]]:
    try:
        with reading(folder / "written") as file:
            lines = file.read(MAX_WRITTEN_BYTES).decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        blob, _, path = line.partition(" ")
        with contextlib.suppress(ValueError, RecursionError):  # a torn line
            found.append((blob, str(json.loads(path))))
    return found


def _keep(folder: Path, taken: Path, shelf: Shelf, redact: Redact, now: datetime) -> int:
    """Append the events, redacted, to the session's messages; done once even where it is interrupted."""
    name = _name(folder, taken)
    place = shelf.folder(name, create=True)
    told = _told(place)
    if told.folded == taken.name:
        return 0
    calls: list[str] = []
    descriptor = place.appending("messages.jsonl")
    with open(descriptor, "ab") as file:
        file.truncate(told.bytes)
        count = 0
        for event in _events(taken):
            if event is None:
                told.damaged += 1
                continue
            line = _kept(told, *event, redact)
            calls += filter(None, [call_of(event[1])])
            file.write(line)
            told.bytes += len(line)
            count += 1
    told.folded = taken.name
    note_calls(folder, calls)
    place.place("meta.json", _meta(folder, told, redact, now))
    return count


def _kept(told: Told, ts: int, event: Mapping[str, Any], line: bytes, redact: Redact) -> bytes:
    """The event as a line of messages.jsonl; as text where it is nested too deeply to be looked at."""
    before = replace(told)
    try:
        return _message(told, ts, event, redact)
    except RecursionError:
        # One event must not stop every later review: what it says is kept, in a form that nobody has to follow.
        vars(told).update(vars(before))
        told.damaged += 1
        plain = {name: value for name, value in event.items() if not isinstance(value, (Mapping, list))}
        return _message(told, ts, plain | {"damaged": line.decode("utf-8", "replace")}, redact)


def _message(told: Told, ts: int, event: Mapping[str, Any], redact: Redact) -> bytes:
    kind = str(event.get("hook_event_name", ""))
    told.started = min(told.started or ts, ts)
    told.updated = max(told.updated, ts)
    told.events += 1
    told.tool_calls += kind in ("PostToolUse", "PostToolUseFailure")
    told.refused += "refused" in event
    told.todos = _todos(told.todos, event)
    told.ended = kind == "SessionEnd" or (told.ended and kind != "SessionStart")
    told.transcript = str(event.get("transcript_path") or told.transcript)
    message = {"ts": _iso(ts), "type": kind, "data": redact.value(event)}
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _todos(todos: list[dict[str, str]], event: Mapping[str, Any]) -> list[dict[str, str]]:
    """The agent's list after an event, of either kind of todo tool."""
    asked, answer = event.get("tool_input"), event.get("tool_response")
    if event.get("hook_event_name") != "PostToolUse" or not isinstance(asked, dict):
        return todos
    if event.get("tool_name") == "TodoWrite" and isinstance(asked.get("todos"), list):
        return [
            _todo(number, todo.get("content", ""), todo.get("status", ""))
            for number, todo in enumerate(asked["todos"][:MAX_TODOS], 1)
            if isinstance(todo, dict)
        ]
    if event.get("tool_name") == "TaskCreate" and len(todos) < MAX_TODOS:
        task = answer.get("task") if isinstance(answer, dict) else None
        number = str(task.get("id")) if isinstance(task, dict) else str(len(todos) + 1)
        return [*todos, _todo(number, asked.get("subject", ""), "pending")]
    if event.get("tool_name") == "TaskUpdate" and "status" in asked:
        number = str(asked.get("taskId", asked.get("id", "")))
        now = str(asked["status"])[:MAX_TODO]
        return [todo | {"status": now} if todo["id"] == number[:MAX_TODO] else todo for todo in todos]
    return todos


def _todo(number: object, text: object, status: object) -> dict[str, str]:
    """All of it is as long as who sent the event likes."""
    return {"id": str(number)[:MAX_TODO], "text": str(text)[:MAX_TODO], "status": str(status)[:MAX_TODO]}


def _told(place: Shelf) -> Told:
    try:
        told = Told(**json.loads(place.read("meta.json"))["told"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return Told()
    return told if all(type(value) is type(getattr(Told(), name)) for name, value in vars(told).items()) else Told()


def _meta(folder: Path, told: Told, redact: Redact, now: datetime) -> bytes:
    document = {
        "schema": 1,
        "agent": AGENT,
        "session_id": folder.name,
        "parent_session_id": None,
        "started_at": _iso(told.started),
        "updated_at": _iso(told.updated),
        "events": told.events,
        "tool_calls": told.tool_calls,
        "refused": told.refused,
        "damaged": told.damaged,
        "hookCaptureStatus": status(folder, told.transcript, told.ended, now),
        "todos": redact.value(told.todos),
        "written": [{"blob": blob, "path": path} for blob, path in redact.value(_noted(folder))],
        "told": redact.value(vars(told)),
    }
    return (json.dumps(document, ensure_ascii=False, indent=2) + "\n").encode("utf-8", "backslashreplace")


def _name(folder: Path, taken: Path) -> str:
    """`claude_{YYYYMMDD_HHMMSS}_{short-id}`, by the first event; the same for all that follow."""
    note = folder / "name"
    with contextlib.suppress(OSError), reading(note) as file:
        name = file.read(100).decode("ascii", "replace").strip()
        if name.startswith(f"{AGENT}_") and name.replace("_", "").replace("-", "").isalnum() and len(name) < 64:
            return name
    first = next((event[0] for event in _events(taken) if event is not None), 0)
    began = datetime.fromtimestamp(min(max(first, 0), 4102444800000) / 1000, UTC)
    name = f"{AGENT}_{began:%Y%m%d_%H%M%S}_{folder.name[:8].strip('-_') or 'unknown'}"
    with contextlib.suppress(FileNotFoundError):
        note.unlink()  # what lies there says nothing, or is a link
    with appending(note) as file:
        file.write(name.encode())
    return name


def _is_over(folder: Path, now: datetime) -> bool:
    """Whether nothing was appended for so long that no change can be about it any more."""
    times = [entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(folder)]
    return not times or now.timestamp() - max(times) > MAX_AGE.total_seconds()


def _iso(ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        moment = datetime.fromtimestamp(0, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
