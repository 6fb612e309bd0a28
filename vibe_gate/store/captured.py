"""Captured sessions in the store, `captures/<name>/`: whether they are whole, and which nobody needs any more.

`captures` writes them. What a killed writer left behind the bytes that meta.json names, the next one removes.
"""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.escape import expression
from vibe_gate.domain.model import parse_object
from vibe_gate.domain.upkeep import Problem
from vibe_gate.store import names
from vibe_gate.store.bundle import reason
from vibe_gate.store.captures import EVENTS, MAX_AGE, META, read_meta
from vibe_gate.store.folder import TEMPORARY, Folder
from vibe_gate.store.log import MAX_DOCUMENT_BYTES, MAX_LINE_BYTES

RunPlace = tuple[str, str]
"""Run id and key."""

_NAME = expression(r"[A-Za-z0-9-]{1,32}_[0-9]{8}_[0-9]{6}_[A-Za-z0-9_-]{1,64}")
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
        finished = read_meta(folder).bytes
        if why := _wrong_events(folder, finished):
            yield Problem("corrupt", "sessions", place, why)
        elif folder.has(EVENTS) and folder.status(EVENTS).st_size > finished:
            yield Problem("untidy", "sessions", f"{place}/{EVENTS}", "its end was not finished; the next review does")
    except ValueError as error:
        yield Problem("corrupt", "sessions", place, f"{META}: {reason(error)}")
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


def unneeded(
    root: Path, before: datetime, now: datetime, staying: Iterable[RunPlace], going: Iterable[RunPlace]
) -> list[CapturedSession]:
    """The sessions below `root` that may be deleted: last added to before `before`, and not needed. OSError.

    `staying` and `going` are the runs that an agent had a part in. Needed is a session that a staying run names,
    that `.vibe-keep` keeps, or that no run names yet, while it may still be found in a change (`MAX_AGE`).
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
        if not session.is_named_in(needing) and (session.is_named_in(naming) or now - session.updated > MAX_AGE)
    ]


def _older(root: Path, before: datetime) -> list[CapturedSession]:
    found: list[CapturedSession] = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        captures = Folder.at(root).folder(STORE).folder(names.CAPTURES)
        for name in filter(_NAME.fullmatch, captures.folders()):
            with contextlib.suppress(OSError, ValueError):  # `verify` names it; its age is not known
                folder = captures.folder(name)
                meta = read_meta(folder)
                if meta.updated_at < before and not folder.has(names.KEEP):
                    found.append(CapturedSession(name, meta.session_id, meta.updated_at, captures.size(name)))
    return found


def _hints(store: Folder, place: RunPlace) -> list[str]:
    run_id, key = place
    try:
        data = store.below(f"{key}/{run_id}").read(names.SUMMARY, MAX_DOCUMENT_BYTES)
        authored = parse_object(data)["agent_authored"]
        return [hint for hint in authored["hints"] if isinstance(hint, str)]
    except (OSError, ValueError, KeyError, TypeError):
        return []
