"""Captured sessions of coding agents, `sessions/<name>/`: whether they are whole, and which nobody needs any more.

`store/captures` writes them: messages.jsonl is appended to, meta.json says how far it
is right. What a killed writer left behind that point, the next one takes away itself.
"""

from __future__ import annotations

import contextlib
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from vibe_gate.domain.bundles import STORE, Problem
from vibe_gate.domain.strict_json import parse_object
from vibe_gate.store import names
from vibe_gate.store.folder import TEMPORARY, Folder
from vibe_gate.store.log import MAX_DOCUMENT_BYTES, MAX_LINE_BYTES

META = "meta.json"
MESSAGES = "messages.jsonl"

Place = tuple[str, str]
"""Run id and key."""

UNBOUND_FOR = timedelta(days=30)
"""A session that no run tells of may still be found in a change, for as long as git's folder has its blobs."""

_NAME = re.compile(r"[A-Za-z0-9-]{1,32}_[0-9]{8}_[0-9]{6}_[A-Za-z0-9_-]{1,64}")
_SHORT = 8
"""Characters of a session's id that a hint names (`domain.provenance`)."""


@dataclass(frozen=True, slots=True)
class Session:
    """What meta.json says; `name` is the folder's. `size` in bytes, of all of it."""

    name: str
    session_id: str
    parent: str
    updated: datetime
    size: int

    def is_in(self, hints: Iterable[str]) -> bool:
        """Whether one of a run's hints names the session."""
        return any(f"session {self.session_id[:_SHORT]} " in hint for hint in hints)


def flaws_of(store: Folder) -> Iterator[Problem]:
    """What is wrong with the sessions of a store, whole sessions as their place. OSError."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        shelf = store.folder(names.CAPTURES)
        for name, status in shelf.entries():
            place = f"{names.CAPTURES}/{name}"
            if name.startswith(TEMPORARY):
                yield Problem("untidy", "temporary", place, "it is temporary, and nobody finished it")
            elif not (stat.S_ISDIR(status.st_mode) and _NAME.fullmatch(name)):
                yield Problem("corrupt", "entry", place, "it is no session")
            else:
                with contextlib.suppress(FileNotFoundError):  # cleaned meanwhile
                    yield from _flaws(shelf.folder(name), place)


def _flaws(folder: Folder, place: str) -> Iterator[Problem]:
    for name, status in folder.entries():
        if name.startswith(TEMPORARY):
            yield Problem("untidy", "temporary", f"{place}/{name}", "it is temporary, and nobody finished it")
        elif not stat.S_ISREG(status.st_mode):
            yield Problem("corrupt", "sessions", place, f"{name} is no regular file")
            return
    try:
        meta = _meta(folder) if folder.has(META) else None
        if meta is None:
            yield Problem("untidy", "sessions", place, f"it has no {META} yet: its writer was killed")
        elif why := _wrong(meta) or _wrong_messages(folder, meta):
            yield Problem("corrupt", "sessions", place, why)
        elif folder.has(MESSAGES) and folder.status(MESSAGES).st_size > _valid(meta):
            yield Problem("untidy", "sessions", f"{place}/{MESSAGES}", "its end was not finished; the next review does")
    except ValueError as error:
        yield Problem("corrupt", "sessions", place, f"{META}: {error}")
    except OSError as error:
        yield Problem("corrupt", "unreadable", place, f"it cannot be read: {error.strerror}")


def _wrong(meta: dict[str, Any]) -> str:
    if meta.get("schema") != 1:
        return f"{META} has another schema than 1"
    for name in ("session_id", "started_at", "updated_at"):
        if not isinstance(meta.get(name), str):
            return f"{META} has no {name}"
    return "" if _time(meta["updated_at"]) else f"{META}: updated_at is no time"


def _wrong_messages(folder: Folder, meta: dict[str, Any]) -> str:
    """Why the part of messages.jsonl for which meta.json stands is not right; "" where it is."""
    left = _valid(meta)
    if not folder.has(MESSAGES):
        return f"{MESSAGES} is missing" if left else ""
    with open(folder.reading(MESSAGES), "rb") as file:
        number = 0
        while left > 0:
            line = file.readline(min(left, MAX_LINE_BYTES))
            number += 1
            if not line.endswith(b"\n"):
                return f"{MESSAGES} is shorter than {META} says, or its line {number} has no end there"
            try:
                parse_object(line)
            except ValueError as error:
                return f"{MESSAGES}: line {number}: {error}"
            left -= len(line)
    return ""


def _valid(meta: dict[str, Any]) -> int:
    """Bytes of messages.jsonl that were finished."""
    told = meta.get("told")
    size = told.get("bytes") if isinstance(told, dict) else None
    return size if isinstance(size, int) and size >= 0 else 0


def _meta(folder: Folder) -> dict[str, Any]:
    with open(folder.reading(META), "rb") as file:
        data = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"it is larger than {MAX_DOCUMENT_BYTES:,} bytes")
    return parse_object(data)


def spent(
    root: Path, before: datetime, now: datetime, staying: Iterable[Place], going: Iterable[Place]
) -> list[Session]:
    """The sessions below `root` that may go: last added to before `before`, and needed by nobody. OSError.

    `staying` and `going` are the runs that an agent had a part in. Needed is what a
    staying run tells of, what a needed session was forked from, what `.vibe-keep`
    keeps, and what no run tells of yet, while it may still be found in a change.
    """
    old, needed = _aged(root, before)
    if not old:
        return []
    store = Folder.at(root).folder(STORE)
    told = [hint for place in staying for hint in _hints(store, place)]
    bound = told + [hint for place in going for hint in _hints(store, place)]
    gone = []
    for session in sorted(old, key=lambda session: session.updated, reverse=True):  # forks before what they are of
        waits = not session.is_in(bound) and now - session.updated <= UNBOUND_FOR
        if session.is_in(told) or waits or session.session_id in needed:
            needed.add(session.parent)
        else:
            gone.append(session)
    return gone[::-1]


def _aged(root: Path, before: datetime) -> tuple[list[Session], set[str]]:
    """The sessions of that age, and the ids of those that the others were forked from."""
    old: list[Session] = []
    needed: set[str] = set()
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        shelf = Folder.at(root).folder(STORE).folder(names.CAPTURES)
        for name in filter(_NAME.fullmatch, shelf.folders()):
            with contextlib.suppress(OSError, ValueError):  # `verify` tells of it; its age is not known
                folder = shelf.folder(name)
                session = _session(name, folder)
                if session is None:
                    continue
                if session.updated >= before or folder.has(names.KEEP):
                    needed.add(session.parent)
                else:
                    old.append(session)
    return old, needed


def _session(name: str, folder: Folder) -> Session | None:
    meta = _meta(folder)
    updated = None if _wrong(meta) else _time(meta["updated_at"])
    if updated is None:
        return None
    size = sum(status.st_size for _, status in folder.entries())
    return Session(name, meta["session_id"], str(meta.get("parent_session_id") or ""), updated, size)


def _hints(store: Folder, place: Place) -> list[str]:
    run_id, key = place
    try:
        data = store.below(f"{key}/{run_id}").read(names.SUMMARY, MAX_DOCUMENT_BYTES)
        authored = parse_object(data)["agent_authored"]
        return [hint for hint in authored["hints"] if isinstance(hint, str)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _time(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None
