"""Names and times of the store: run ids, timestamps, and which names may become folders."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta

STORE = ".vibe-artifacts"
OBJECTS = "objects"
QUARANTINE = "quarantine"
SHELF = "sessions"
"""Captured sessions of coding agents."""
OWN_FOLDERS = frozenset({OBJECTS, QUARANTINE, SHELF, "index", "trash"})
"""Names under `.vibe-artifacts` that are no key of a change."""

IGNORE = ".gitignore"
"""`*`: the store is never part of a commit or a snapshot."""

LOCK = ".lock"
"""Locked by the process that writes the run, as long as it lives: the lock dies with it."""

SUMMARY = "summary.json"
RUN = "run.json"
EVENTS = "events.ndjson"
HOOKS = "hooks.ndjson"
GRAPH = "graph.json"
SESSIONS = "sessions.json"
PATCH = "change.patch"
TURN_PATCH = "turn.patch"
TURN_LOG = "turn.log"
RECEIPT = "receipt.json"
KEEP = ".vibe-keep"
ANNOTATIONS = "annotations.ndjson"
ATTACHED = "annotations"

VOUCHED = (EVENTS, RUN, GRAPH, SESSIONS, PATCH, RECEIPT)
"""The run's own files whose digests its summary carries."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_RUN_ID = re.compile(r"[0-9]{8}T[0-9]{9}Z-[0-9a-f]{8}")


def run_id(now: datetime, seed: bytes, attempt: int) -> str:
    """`YYYYMMDDTHHMMSSmmmZ-` and eight digits that tell runs of one millisecond apart."""
    return f"{stamp(now)}-{hashlib.sha256(b'%d ' % attempt + seed).hexdigest()[:8]}"


def stamp(now: datetime) -> str:
    """`YYYYMMDDTHHMMSSmmmZ`, in UTC."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}Z"


def turn(number: int) -> str:
    """`turn-001` and so on."""
    return f"turn-{number:03d}"


def is_run_id(name: str) -> bool:
    """Whether a folder's name is a run's."""
    return _RUN_ID.fullmatch(name) is not None


def began(run_id: str) -> str:
    """When a run began, as its id says: ISO 8601 in UTC with milliseconds."""
    i = run_id
    return f"{i[:4]}-{i[4:6]}-{i[6:8]}T{i[9:11]}:{i[11:13]}:{i[13:15]}.{i[15:18]}Z"


def iso(now: datetime) -> str:
    """ISO 8601 in UTC with milliseconds and Z."""
    return now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(now: datetime) -> int:
    """Milliseconds since 1970."""
    return (now - _EPOCH) // timedelta(milliseconds=1)


def is_own(name: str) -> bool:
    """Whether a folder would be one of the store's own, if only on a disk that ignores case."""
    return name.casefold() in OWN_FOLDERS


def as_folder_name(name: str, what: str) -> str:
    """`name`, which becomes a folder; ValueError where it could leave its place or be mistaken."""
    if _FOLDER_NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} cannot be {what}: letters, digits, '.', '_' and '-' only, at most 128")
    return name
