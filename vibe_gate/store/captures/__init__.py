"""Captured sessions of coding agents: raw events are folded into what may be kept.

`capture` leaves raw events in the git folder that all worktrees share, private and not
redacted (it has no time for it): `<common dir>/vibe-gate/sessions/<session id>/`.

    events.ndjson         what capture appends to; renamed before it is read
    taken-<ms>.ndjson     being folded; deleted when that is done
    damaged-<ms>.ndjson   events that could not be folded, set aside for good; `gaps` says why
    tries                 which of them folding began with, and did not end
    calls                 digests of the ids of the tool calls whose events were captured
    written               ids of the blobs that the agent wrote, one a line with its path
    name                  the session's folder below `.vibe-artifacts/sessions`

The next run of vibe-gate folds it: the ids of written blobs stay there, the events go, redacted, to
`.vibe-artifacts/sessions/<name>/` as messages.jsonl and meta.json, and the raw events are deleted.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

from vibe_gate.domain.escape import show_text
from vibe_gate.domain.provenance import Written
from vibe_gate.domain.strict_json import require_few
from vibe_gate.errors import GateError
from vibe_gate.store.captures.blobs import blobs_of
from vibe_gate.store.captures.opened import appending, reading
from vibe_gate.store.captures.shelved import (
    AGENT,
    MAX_GAPS_BYTES,
    Redact,
    Shelf,
    Told,
    folders_of,
    iso,
    meta,
    note_gap,
    noted,
    own_place,
)
from vibe_gate.store.captures.status import call_of, note_calls
from vibe_gate.store.log import dumps

MAX_LINE_BYTES = 96 << 20
"""Of one event; capture keeps none that is larger."""

MAX_AGE = timedelta(days=30)
"""After that a session's blobs say nothing about a change any more."""

MAX_TRIES = 2
"""Of folding one spool, where the process that did it was killed: memory may be why, and would be again."""

MAX_TODOS = 1_000
MAX_TODO = 2_000
"""Letters of one; no list that anybody works through is longer."""


PATIENCE_S = 2.0
"""Another process that folds, or captures, is waited for; whoever holds a lock longer does not run."""

_UNREAD = "what captured sessions wrote cannot be read ({0}), so an agent may have made it"

Event: TypeAlias = tuple[int, Mapping[str, Any], bytes]
"""When it was (milliseconds since 1970), what it says, and its line of the spool."""


def fold(common_dir: Path, shelf: Shelf | None, redact: Redact, now: datetime) -> tuple[int, str]:
    """Fold every session with news; how many events that were, and why not all could be read, as a hint, or "".

    Never raises for what it finds there.

    `shelf` is `.vibe-artifacts/sessions`; None where nothing can be written, then
    the written blobs are noted and the raw events wait. Another process that folds
    at the same time is waited for, and after `PATIENCE_S` left to it.
    """
    sessions = common_dir / "vibe-gate" / "sessions"
    if not sessions.is_dir():
        return 0, ""
    count, why, until = 0, "", time.monotonic() + PATIENCE_S
    try:
        with _alone(sessions, until):
            for folder in folders_of(sessions):
                try:
                    count += _fold_session(folder, shelf, redact, now, until)
                except OSError as error:
                    why = f"session {show_text(folder.name[:8])}: {_reason(error)}"
    except OSError as error:
        why = f"all sessions: {_reason(error)}"
    return count, _UNREAD.format(why) if why else ""


def _reason(error: OSError) -> str:
    return "another process holds the lock" if isinstance(error, BlockingIOError) else str(error.strerror)


def note_written(common_dir: Path, now: datetime) -> str:
    """Note the blobs that sessions wrote since the last `fold`, for `written_blobs`; the events wait for the next.

    Why not all could be read, as a hint, or "".
    """
    return fold(common_dir, None, _Nothing(), now)[1]


class _Nothing:
    """What redacts where nothing is kept."""

    def value(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        raise AssertionError("without a shelf nothing is kept")


def written_blobs(common_dir: Path) -> dict[str, Written]:
    """Blob id -> which session wrote it, and where. Empty where nothing was captured."""
    found: dict[str, Written] = {}
    for folder in folders_of(common_dir / "vibe-gate" / "sessions"):
        with contextlib.suppress(OSError):
            for blob, path in noted(folder):
                found[blob] = Written(AGENT, folder.name, path)
    return found


def gaps(common_dir: Path) -> list[tuple[datetime, str]]:
    """When and why an event was not kept, as capture and guard noted it."""
    try:
        with reading(common_dir / "vibe-gate" / "sessions" / "gaps") as file:
            lines = file.read(2 * MAX_GAPS_BYTES).decode("ascii", "replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        ms, _, why = line.partition(" ")
        with contextlib.suppress(ValueError, OverflowError, OSError):  # a torn line
            found.append((datetime.fromtimestamp(int(ms) / 1000, UTC), why))
    return found


@contextlib.contextmanager
def _alone(sessions: Path, until: float) -> Iterator[None]:
    """Hold the lock of all folding; BlockingIOError where another process does."""
    descriptor = os.open(sessions / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _lock(descriptor, until)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, until: float) -> None:
    """Take the lock; BlockingIOError where the clock `time.monotonic` says `until` before it is to be had."""
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
        time.sleep(0.02)


def _fold_session(folder: Path, shelf: Shelf | None, redact: Redact, now: datetime, until: float) -> int:
    _take(folder, now, until)
    count = 0
    for taken in sorted(folder.glob("taken-*.ndjson")):
        try:
            count += _fold_spool(folder, taken, shelf, redact, now)
        except (OSError, GateError):
            raise  # the disk's fault or the shelf's: the spool waits
        except Exception as error:  # noqa: BLE001  hostile events may raise anything; they must stop no second review
            _set_aside(folder, taken, type(error).__name__, now)
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
    taken.rename(_damaged(folder, taken))
    with contextlib.suppress(OSError):
        (folder / "tries").unlink()
    note_gap(folder, f"events set aside as damaged: {why}", now)


def _damaged(folder: Path, taken: Path) -> Path:
    return folder / f"damaged-{taken.name.partition('-')[2]}"


def _take(folder: Path, now: datetime, until: float) -> None:
    """Rename the spool under its lock: who appends looks, under the same lock, whether it is still there."""
    spool = folder / "events.ndjson"
    ms = int(now.timestamp() * 1000)
    taken = folder / f"taken-{ms:015d}.ndjson"
    while os.path.lexists(taken):  # what waits there must not be replaced
        ms += 1
        taken = folder / f"taken-{ms:015d}.ndjson"
    try:
        file = reading(spool)
    except FileNotFoundError:
        return
    except OSError:
        if not stat.S_ISREG(spool.lstat().st_mode):
            spool.rename(taken)  # a pipe, a link or a folder: it is found to be damaged
        return
    with file:
        _lock(file.fileno(), until)
        spool.rename(taken)


def _events(taken: Path) -> Iterator[Event | None]:
    """Time and event of each line, and the line; None for a line that is none."""
    with reading(taken) as file:
        while line := file.readline(MAX_LINE_BYTES):
            try:
                document = json.loads(line)
                yield int(document["ts"]), dict(document["event"]), line
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                yield None


def _note_written(folder: Path, taken: Path) -> None:
    known = set(noted(folder))
    new: list[tuple[str, str]] = []
    for event in filter(None, _events(taken)):
        with contextlib.suppress(ValueError, TypeError, LookupError, RecursionError):  # one that nobody thought of
            new += blobs_of(event[1], event[0])
    fresh = [pair for pair in dict.fromkeys(new) if pair not in known]
    if fresh:
        with appending(folder / "written") as file:
            file.write(b"".join(f"{blob} {json.dumps(path)}\n".encode() for blob, path in fresh))


def _keep(folder: Path, taken: Path, shelf: Shelf, redact: Redact, now: datetime) -> int:
    """Append the events, redacted, to the session's messages; done once even where it is interrupted."""
    place, told = own_place(folder, _first(taken), shelf, now)
    identity = _identity(taken)
    if told.folded in {identity, taken.name}:  # the name alone: as earlier versions wrote it
        return 0
    if not told.folded:
        place.place("meta.json", meta(folder, told, redact, now))  # never messages without what says how far they hold
    calls: list[str] = []
    aside = _Aside(folder, taken)
    descriptor = place.appending("messages.jsonl")
    with open(descriptor, "ab") as file:
        file.truncate(told.bytes)
        count = 0
        for event in _events(taken):
            if event is None:
                told.damaged += 1
                continue
            line = _kept(told, event, redact, aside)
            calls += filter(None, [call_of(event[1])])
            file.write(line)
            told.bytes += len(line)
            count += 1
    if aside.why:
        note_gap(folder, f"events set aside as damaged ({aside.count}): {aside.why}", now)
    told.folded = identity
    note_calls(folder, calls)
    place.place("meta.json", meta(folder, told, redact, now))
    return count


def _identity(taken: Path) -> str:
    """A spool by its name and content: two that were taken in one millisecond are two."""
    made = hashlib.sha256()
    with reading(taken) as file:
        while part := file.read(1 << 20):
            made.update(part)
    return f"{taken.name} {made.hexdigest()}"


def _first(taken: Path) -> int:
    """When the first of its events was; 0 where there is none."""
    return next((event[0] for event in _events(taken) if event is not None), 0)


@dataclass
class _Aside:
    """Events of a spool that could not be kept, as they came. `why` of the last of them."""

    folder: Path
    taken: Path
    count: int = 0
    why: str = ""

    def add(self, line: bytes, error: Exception) -> None:
        """OSError."""
        place = _damaged(self.folder, self.taken)
        if not self.count:
            place.unlink(missing_ok=True)  # of folding that was interrupted
        with appending(place) as file:
            file.write(line)
        self.count += 1
        self.why = type(error).__name__  # its message may quote what is secret


def _kept(told: Told, event: Event, redact: Redact, aside: _Aside) -> bytes:
    """The event as a line of messages.jsonl: as text where it is nested too deeply, else what could be kept of it.

    One event must not stop every later review, nor cost the others of its session.
    """
    before = replace(told)
    ts, said, line = event
    try:
        return _message(told, ts, said, redact)
    except (OSError, GateError):
        raise
    except RecursionError:
        vars(told).update(vars(before))
        plain = {name: value for name, value in said.items() if not isinstance(value, (Mapping, list))}
        told.damaged += 1
        with contextlib.suppress(RecursionError, ValueError):
            return _message(told, ts, plain | {"damaged": line.decode("utf-8", "replace")}, redact)
        return _left_out(told, before, ts, "nested too deeply")
    except _TooLarge as error:
        told.damaged += 1
        return _left_out(told, before, ts, str(error))
    except Exception as error:  # noqa: BLE001  hostile events may raise anything
        aside.add(line, error)
        told.damaged += 1
        return _left_out(told, before, ts, f"it could not be kept ({type(error).__name__})")


class _TooLarge(ValueError):
    """A reader would refuse the event's line."""


def _left_out(told: Told, before: Told, ts: int, why: str) -> bytes:
    """The line of an event of which nothing can be kept. Its counts stay; the todos are those of before."""
    told.todos, told.transcript = before.todos, before.transcript
    return dumps({"ts": iso(ts), "type": "", "data": {"left_out": why}}).encode() + b"\n"


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
    line = dumps({"ts": iso(ts), "type": redact.value(kind), "data": redact.value(event)}).encode() + b"\n"
    try:
        require_few(line)
    except ValueError as error:
        raise _TooLarge(str(error)) from None
    if len(line) > MAX_LINE_BYTES:
        raise _TooLarge(f"it is longer than {MAX_LINE_BYTES:,} bytes")
    return line


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


def _is_over(folder: Path, now: datetime) -> bool:
    """Whether nothing was appended for so long that no change can be about it any more."""
    times = [entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(folder)]
    return not times or now.timestamp() - max(times) > MAX_AGE.total_seconds()
