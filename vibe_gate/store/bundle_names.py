"""Names and times of the store: run ids, which names a bundle may hold, and what each of them
is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal

from msgspec import Struct

from vibe_gate.store.folder import LOCK, TEMPORARY, Folder

CAPTURES = "captures"
"""Captured sessions of coding agents."""
CONVERSATIONS = "sessions"
"""Sessions of our own agents, which the room `sessions` reads and writes."""
REPORTS = "reports"
"""Pages that `vibe-gate report` made; they can be made again."""
QUARANTINE = "quarantine"
TRASH = "trash"
OWN_FOLDERS = frozenset({CAPTURES, CONVERSATIONS, REPORTS, QUARANTINE, TRASH, "objects", "index"})
"""Names under `.vibe-artifacts` that are no key of a change; the last two are reserved."""

IGNORE = ".gitignore"
"""`*`: the store is never part of a commit or a snapshot."""
CLEANED = ".cleaned"
"""When the store was last cleaned because it was due, ISO 8601."""

SUMMARY = "summary.json"
RUN = "run.json"
EVENTS = "events.ndjson"
HOOKS = "hooks.ndjson"
GRAPH = "graph.json"
SESSIONS = "sessions.json"
PATCH = "change.patch"
MADE_PATCH = "made.patch"
"""What the run's agents changed: plain whatever its size, since people apply it by its path."""
CHECKS_LOG = "checks.log"
SESSION_RECORD = "record.json"
FILES = "files"
"""The contents of a run and of its turns."""
COUNTEREXAMPLES = "counterexamples"
"""The tests that fails brought, and what their runs printed (`NAME.log`)."""
TURN_PATCH = "turn.patch"
CHAIN_PATCH = "chain.patch"
"""What a turn and those whose files it began with changed together."""
TURN_LOG = "turn.log"
RECEIPT = "receipt.json"
PACKED = ".gz"
"""Ends the name of a gzipped file: a larger content, or a larger patch. Seals and logs name a patch
without it.
"""
KEEP = ".vibe-keep"
ANNOTATIONS = "annotations.ndjson"
ATTACHED = "annotations"

VOUCHED = (EVENTS, RUN, GRAPH, SESSIONS, PATCH, MADE_PATCH, CHECKS_LOG, SESSION_RECORD, RECEIPT)
"""The run's own files whose digests its summary holds."""

Part = Literal["document", "log", "text", "content", "attached", "mark"]
"""What a file is: JSON, NDJSON, plain bytes, a content under `files/`, bytes attached to an
annotation, or an empty file that says something by being there.
"""

_RUN_FILES: dict[str, Part] = {
    RUN: "document",
    EVENTS: "log",
    GRAPH: "document",
    SESSIONS: "document",
    PATCH: "text",
    MADE_PATCH: "text",
    CHECKS_LOG: "text",
    SESSION_RECORD: "document",
    SUMMARY: "document",
    RECEIPT: "document",
    ANNOTATIONS: "log",
    KEEP: "mark",
    LOCK: "mark",
}
_TURN_FILES: dict[str, Part] = {
    EVENTS: "log",
    HOOKS: "log",
    TURN_LOG: "text",
    TURN_PATCH: "text",
    CHAIN_PATCH: "text",
    SUMMARY: "document",
}
_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TURN = re.compile(rf"nodes/{_FOLDER_NAME.pattern}/turn-[0-9]{{3,9}}")
# Of earlier versions: a turn has contents of its own.
_SIDES = rf"(?:{_TURN.pattern}/)?{FILES}/(?:before|after)"
_CONTENT = re.compile(rf"{_SIDES}/[0-9a-f]{{64}}\.(?:txt|bin)(?:\.gz)?")
_STEP_PATCH = re.compile(r"step-[0-9]{3,9}\.patch")
_TEST = re.compile(rf"{COUNTEREXAMPLES}/{_FOLDER_NAME.pattern}")
_ATTACHMENT = re.compile(rf"{ATTACHED}/[0-9a-f]{{64}}")
_FOLDERS = re.compile(
    rf"{ATTACHED}|{COUNTEREXAMPLES}|nodes|nodes/{_FOLDER_NAME.pattern}|{_TURN.pattern}|(?:{_TURN.pattern}/)?{FILES}(?:/before|/after)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def make_run_id(now: datetime, seed: bytes, attempt: int) -> str:
    """`YYYYMMDDTHHMMSSmmmZ-` and eight digits that distinguish runs of one millisecond."""
    return f"{format_stamp(now)}-{hashlib.sha256(b'%d ' % attempt + seed).hexdigest()[:8]}"


def format_stamp(now: datetime) -> str:
    """`YYYYMMDDTHHMMSSmmmZ`, in UTC."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}Z"


def parse_run_time(run_id: str) -> datetime | None:
    """When the run began, by its id; None if the id holds no date."""
    try:
        return datetime.strptime(run_id[:18], "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC)
    except ValueError:
        return None


def is_step_patch(name: str) -> bool:
    """Whether a file of a turn's folder is the patch of a ChainStep."""
    return _STEP_PATCH.fullmatch(name) is not None


def turn_folder_name(number: int) -> str:
    """`turn-001` and so on."""
    return f"turn-{number:03d}"


def to_milliseconds(now: datetime) -> int:
    """Milliseconds since 1970."""
    return (now - _EPOCH) // timedelta(milliseconds=1)


def require_folder_name(name: str, role: str) -> str:
    """`name`, which becomes a folder; ValueError if it could leave its place or be mistaken."""
    if _FOLDER_NAME.fullmatch(name) is None:
        raise ValueError(
            f"{name!r} cannot be {role}: letters, digits, '.', '_' and '-' only, at most 128"
        )
    return name


def is_key(name: str) -> bool:
    """Whether a folder of the store may hold runs: no own folder, not even on a disk that ignores
    case.
    """
    return _FOLDER_NAME.fullmatch(name) is not None and name.casefold() not in OWN_FOLDERS


def is_turn(name: str) -> bool:
    """Whether a bundle may have a turn in the folder `name`, relative to the run's."""
    return _TURN.fullmatch(name) is not None


def part_of(name: str) -> Part | None:
    """What the file `name`, relative to its run's folder, is; None: no bundle has a file of that
    name.
    """
    name = sealed_name(name)
    if "/" not in name:
        return _RUN_FILES.get(name)
    if _CONTENT.fullmatch(name):
        return "content"
    if _ATTACHMENT.fullmatch(name):
        return "attached"
    if _TEST.fullmatch(name):
        return "text"
    folder, _, base = name.rpartition("/")
    if _TURN.fullmatch(folder) is None:
        return None
    if is_step_patch(base):
        return "text"
    return _TURN_FILES.get(base)


def is_packed_patch(name: str) -> bool:
    """Whether the file `name`, relative to its run's folder, is a gzipped patch."""
    plain_name = name.removesuffix(PACKED)
    if plain_name == name:
        return False
    folder, _, base = plain_name.rpartition("/")
    if not folder:
        return base == PATCH
    is_of_turn = base in (TURN_PATCH, CHAIN_PATCH) or is_step_patch(base)
    return is_of_turn and is_turn(folder)


def sealed_name(name: str) -> str:
    """The name, relative to the run's folder, that a seal has for the file `name`."""
    return name.removesuffix(PACKED) if is_packed_patch(name) else name


class Entry(Struct, frozen=True):
    """One name below a bundle's folder."""

    name: str
    """Relative to the run's folder."""
    folder: Folder
    """The open folder that holds it."""
    base: str
    """Its name in that folder."""
    is_file: bool
    """Whether it is a regular file."""

    @property
    def is_temporary(self) -> bool:
        """Whether it is an unfinished file."""
        return self.base.startswith(TEMPORARY)

    @property
    def is_vouched(self) -> bool:
        """Whether it is a file whose digest the run's summary has."""
        folder = self.name.rpartition("/")[0]
        is_in_turn_or_tests = folder == COUNTEREXAMPLES or is_turn(folder)
        is_of_seal = self.sealed_name in VOUCHED or is_in_turn_or_tests
        return is_of_seal and self.is_file and not self.is_temporary

    @property
    def sealed_name(self) -> str:
        """The name that the run's seal has for it."""
        return sealed_name(self.name)

    @property
    def part(self) -> Part | None:
        """What the file is; None: no bundle has a file of that name."""
        return part_of(self.name)


def walk_bundle(bundle: Folder, inside: str = "") -> Iterator[Entry]:
    """Everything below a run's folder but the folders that belong there; strange folders are not
    entered. OSError.

    Sorted in each folder, so that two walks give the same. Use each entry before the next one: its
    folder closes.
    """
    for entry in bundle.entries():
        name = f"{inside}{entry.name}"
        if entry.is_dir(follow_symlinks=False) and _FOLDERS.fullmatch(name):
            yield from walk_bundle(bundle.folder(entry.name), f"{name}/")
        else:
            yield Entry(name, bundle, entry.name, entry.is_file(follow_symlinks=False))
