"""Captured sessions in the store, `captures/<name>/`: whether they are whole, and which nobody needs any more.

`captures` writes them: events.jsonl is appended to, meta.json says up to which byte it is finished. What a killed
writer left behind that byte, the next one removes.
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
from vibe_gate.domain.model import parse_object
from vibe_gate.store import names
from vibe_gate.store.folder import TEMPORARY, Folder
from vibe_gate.store.log import MAX_DOCUMENT_BYTES, MAX_LINE_BYTES

META = "meta.json"
EVENTS = "events.jsonl"

RunPlace = tuple[str, str]
"""Run id and key."""

UNBOUND_FOR = timedelta(days=30)
"""A session that no run names may still be found in a change, for as long as the shared state has its blobs."""

_NAME = re.compile(r"[A-Za-z0-9-]{1,32}_[0-9]{8}_[0-9]{6}_[A-Za-z0-9_-]{1,64}")
_SHORT = 8
"""Characters of a session's id that a hint names (`domain.provenance`)."""


@dataclass(frozen=True, slots=True)
class CapturedSession:
    """What meta.json says of a session; `name` is the folder's. `size` in bytes, of all of it."""

    name: str
    session_id: str
    updated: datetime
    size: int

    def is_named_in(self, hints: Iterable[str]) -> bool:
        """Whether one of a run's hints names the session."""
        return any(f"session {self.session_id[:_SHORT]} " in hint for hint in hints)


def problems_of(store: Folder) -> Iterator[Problem]:
    """What is wrong with the captured sessions of a store, whole sessions as their place. OSError."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        captures = store.folder(names.CAPTURES)
        for name, status in captures.entries():
            place = f"{names.CAPTURES}/{name}"
            if name.startswith(TEMPORARY):
                yield Problem("untidy", "temporary", place, "it is temporary, and nobody finished it")
            elif not (stat.S_ISDIR(status.st_mode) and _NAME.fullmatch(name)):
                yield Problem("corrupt", "entry", place, "it is not a captured session")
            else:
                with contextlib.suppress(FileNotFoundError):  # cleaned meanwhile
                    yield from _problems(captures.folder(name), place)


def _problems(folder: Folder, place: str) -> Iterator[Problem]:
    for name, status in folder.entries():
        if name.startswith(TEMPORARY):
            yield Problem("untidy", "temporary", f"{place}/{name}", "it is temporary, and nobody finished it")
        elif not stat.S_ISREG(status.st_mode):
            yield Problem("corrupt", "sessions", place, f"{name} is not a regular file")
            return
    try:
        if not folder.has(META):
            yield Problem("untidy", "sessions", place, f"it has no {META} yet: its writer was killed")
            return
        meta = _meta(folder)
        if why := _wrong_events(folder, meta["bytes"]):
            yield Problem("corrupt", "sessions", place, why)
        elif folder.has(EVENTS) and folder.status(EVENTS).st_size > meta["bytes"]:
            yield Problem("untidy", "sessions", f"{place}/{EVENTS}", "its end was not finished; the next review does")
    except ValueError as error:
        yield Problem("corrupt", "sessions", place, f"{META}: {error}")
    except OSError as error:
        yield Problem("corrupt", "unreadable", place, f"it cannot be read: {error.strerror}")


def _wrong_events(folder: Folder, left: int) -> str:
    """Why the finished part of events.jsonl is not right; "" if it is."""
    if not folder.has(EVENTS):
        return f"{EVENTS} is missing" if left else ""
    with open(folder.reading(EVENTS), "rb") as file:
        number = 0
        while left > 0:
            line = file.readline(min(left, MAX_LINE_BYTES))
            number += 1
            if not line.endswith(b"\n"):
                return f"{EVENTS} is shorter than {META} says, or its line {number} has no end there"
            try:
                parse_object(line)
            except ValueError as error:
                return f"{EVENTS}: line {number}: {error}"
            left -= len(line)
    return ""


def _meta(folder: Folder) -> dict[str, Any]:
    """What meta.json says. OSError, ValueError."""
    data = folder.read(META, MAX_DOCUMENT_BYTES)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"it is larger than {MAX_DOCUMENT_BYTES:,} bytes")
    meta = parse_object(data)
    if meta.get("schema") != 1:
        raise ValueError("it has another schema than 1")
    for name, kind in (("session_id", str), ("updated_at", str), ("bytes", int)):
        if type(meta.get(name)) is not kind:
            raise ValueError(f"it has no {name}")
    if datetime.fromisoformat(meta["updated_at"]).tzinfo is None:
        raise ValueError("updated_at has no time zone")
    return meta


def unneeded(
    root: Path, before: datetime, now: datetime, staying: Iterable[RunPlace], going: Iterable[RunPlace]
) -> list[CapturedSession]:
    """The sessions below `root` that may be deleted: last added to before `before`, and not needed. OSError.

    `staying` and `going` are the runs that an agent had a part in. Needed is a session that a staying run names,
    that `.vibe-keep` keeps, or that no run names yet, while it may still be found in a change.
    """
    old = _older(root, before)
    if not old:
        return []
    store = Folder.at(root).folder(STORE)
    needing = [hint for place in staying for hint in _hints(store, place)]
    naming = needing + [hint for place in going for hint in _hints(store, place)]
    return [
        session
        for session in sorted(old, key=lambda session: session.updated)
        if not session.is_named_in(needing) and (session.is_named_in(naming) or now - session.updated > UNBOUND_FOR)
    ]


def _older(root: Path, before: datetime) -> list[CapturedSession]:
    found: list[CapturedSession] = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        captures = Folder.at(root).folder(STORE).folder(names.CAPTURES)
        for name in filter(_NAME.fullmatch, captures.folders()):
            with contextlib.suppress(OSError, ValueError):  # `verify` names it; its age is not known
                folder = captures.folder(name)
                meta = _meta(folder)
                updated = datetime.fromisoformat(meta["updated_at"])
                if updated < before and not folder.has(names.KEEP):
                    size = sum(status.st_size for _, status in folder.entries())
                    found.append(CapturedSession(name, meta["session_id"], updated, size))
    return found


def _hints(store: Folder, place: RunPlace) -> list[str]:
    run_id, key = place
    try:
        data = store.below(f"{key}/{run_id}").read(names.SUMMARY, MAX_DOCUMENT_BYTES)
        authored = parse_object(data)["agent_authored"]
        return [hint for hint in authored["hints"] if isinstance(hint, str)]
    except (OSError, ValueError, KeyError, TypeError):
        return []
