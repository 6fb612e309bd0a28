"""A captured session's folder below `.vibe-artifacts/sessions`: which it is, and what its meta.json says."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from vibe_gate.errors import GateError
from vibe_gate.store.captures.opened import appending, reading
from vibe_gate.store.captures.status import status
from vibe_gate.store.log import dumps

MAX_WRITTEN_BYTES = 16 << 20
"""Of the list of one session: some two hundred thousand blobs."""

MAX_GAPS_BYTES = 64 << 10

MAX_WRITTEN = 200_000
"""Blobs that a meta.json lists, the newest: readers take no document of more than a million values."""

MAX_NAMES = 100
"""That a session's folder may have, one after the other, where it finds those before taken or damaged."""

AGENT = "claude"


class Shelf(Protocol):
    """A folder in which nothing is followed; `store` has one."""

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


def own_place(folder: Path, first: int, shelf: Shelf, now: datetime) -> tuple[Shelf, Told]:
    """The session's folder below the shelf, and what its meta.json says.

    Where that says something that we did not, or belongs to another session, it stays as
    it is, and the session goes on in a folder of another name. `first` is when the session began,
    in milliseconds since 1970. OSError.
    """
    before = _noted_name(folder)
    for name in filter(None, dict.fromkeys([before, *_names(folder, first)])):
        place = shelf.folder(name, create=True)
        try:
            told = _told(place, folder.name)
        except ValueError as error:
            if name == before:
                note_gap(folder, f"{name} is left as it is, and the session goes on in another folder: {error}", now)
            continue
        if name != before:
            _note_name(folder, name)
        return place, told
    raise OSError(errno.EEXIST, "every name for the session is taken", str(folder))


def _told(place: Shelf, session: str) -> Told:
    """What a folder says of the session; a new Told of one that says nothing yet. ValueError for any doubt. OSError."""
    size = _finished(place, -1)
    try:
        raw = place.read("meta.json")
    except FileNotFoundError:
        if size:
            raise ValueError("it has messages and no meta.json") from None
        return Told()
    try:
        document = json.loads(raw)
        said = document["told"]
        if (document["schema"], document["session_id"]) != (1, session):
            raise ValueError("it is another session's")
        known = {name: said[name] for name in vars(Told()) if name in said}  # a later version may say more
        told = Told(**known)
    except (KeyError, TypeError, RecursionError):
        raise ValueError("its meta.json is damaged") from None
    if (
        any(type(value) is not type(getattr(Told(), name)) for name, value in vars(told).items())
        or "bytes" not in known
    ):
        raise ValueError("its meta.json is damaged")
    if not 0 <= told.bytes <= size or _finished(place, told.bytes) != told.bytes:
        raise ValueError("its messages are not what its meta.json says")
    return told


def _finished(place: Shelf, size: int) -> int:
    """`size`, if a line of the messages ends there; -1 asks for the size of all of them."""
    with open(place.appending("messages.jsonl"), "rb") as file:
        if size < 0:
            return os.fstat(file.fileno()).st_size
        return size if size == 0 or os.pread(file.fileno(), 1, size - 1) == b"\n" else -1


def meta(folder: Path, told: Told, redact: Redact, now: datetime) -> bytes:
    """The bytes of meta.json. What a redactor cannot look at is left out of it."""
    capture = status(folder, told.transcript, told.ended, now)
    todos = [{name: _safe(redact, text) for name, text in todo.items()} for todo in told.todos]
    written = noted(folder)[-MAX_WRITTEN:]
    document = {
        "schema": 1,
        "agent": AGENT,
        "session_id": folder.name,
        "parent_session_id": None,
        "started_at": iso(told.started),
        "updated_at": iso(told.updated),
        "events": told.events,
        "tool_calls": told.tool_calls,
        "refused": told.refused,
        "damaged": told.damaged,
        "hookCaptureStatus": capture | {"missingEvents": [_safe(redact, name) for name in capture["missingEvents"]]},
        "todos": todos,
        "written": [{"blob": blob, "path": _safe(redact, path)} for blob, path in written],
        "told": vars(told) | {"todos": todos, "transcript": _safe(redact, told.transcript)},
    }
    return (dumps(document, 2) + "\n").encode()


def _safe(redact: Redact, text: str) -> str:
    """Without secrets; the names, ids and numbers around it are ours, and are never redacted."""
    try:
        return str(redact.value(text))
    except (OSError, GateError):
        raise
    except Exception as error:  # noqa: BLE001  as of events
        return f"[left out: {type(error).__name__}]"


def _noted_name(folder: Path) -> str:
    """The name that the session has; "" where it has none yet."""
    with contextlib.suppress(OSError), reading(folder / "name") as file:
        name = file.read(100).decode("ascii", "replace").strip()
        if name.startswith(f"{AGENT}_") and name.replace("_", "").replace("-", "").isalnum() and len(name) < 64:
            return name
    return ""


def _names(folder: Path, first: int) -> Iterator[str]:
    """`claude_{YYYYMMDD_HHMMSS}_{short-id}`, by the first event; then longer ones. None that is another session's.

    The beginnings of two ids may be the same, and so may the seconds: ids that begin with the time are common.
    """
    began = datetime.fromtimestamp(min(max(first, 0), 4102444800000) / 1000, UTC)
    name = f"{AGENT}_{began:%Y%m%d_%H%M%S}_{folder.name[:8].strip('-_') or 'unknown'}"
    others = {_noted_name(other) for other in folders_of(folder.parent) if other != folder}
    more = (hashlib.sha256(f"{number} {folder.name}".encode()).hexdigest()[:8] for number in range(MAX_NAMES))
    yield from (free for free in (name, *(f"{name}-{digits}" for digits in more)) if free not in others)


def _note_name(folder: Path, name: str) -> None:
    note = folder / "name"
    with contextlib.suppress(FileNotFoundError):
        note.unlink()  # another name, or what lies there says nothing, or is a link
    with appending(note) as file:
        file.write(name.encode())


def noted(folder: Path) -> list[tuple[str, str]]:
    """Blob and path of what the session wrote, the oldest first. OSError."""
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


def note_gap(folder: Path, why: str, now: datetime) -> None:
    """Leave a line that says what of a session is not kept, and why."""
    with contextlib.suppress(OSError), appending(folder.parent / "gaps") as file:
        if os.fstat(file.fileno()).st_size < MAX_GAPS_BYTES:
            text = f"{int(now.timestamp() * 1000)} session {folder.name}: {why[:250]}"
            file.write("".join(letter if " " <= letter <= "~" else "?" for letter in text).encode() + b"\n")


def folders_of(sessions: Path) -> list[Path]:
    """The folders of all sessions in the git folder."""
    try:
        with os.scandir(sessions) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def iso(ms: int) -> str:
    """ISO 8601 in UTC of milliseconds since 1970; the year 1970 for what is no time."""
    try:
        moment = datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        moment = datetime.fromtimestamp(0, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
