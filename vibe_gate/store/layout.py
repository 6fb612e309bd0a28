"""Which names a bundle may hold. Whatever has another name is not ours: not exported, not imported, and told."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from vibe_gate.store import names
from vibe_gate.store.folder import TEMPORARY, Folder

Part = Literal["document", "log", "text", "content", "attached", "mark"]
"""What a name stands for: JSON, NDJSON, plain bytes, a content under `files/`, bytes attached to a
remark, or an empty file whose being there is all that it says."""

_RUN_FILES: dict[str, Part] = {
    names.RUN: "document",
    names.EVENTS: "log",
    names.GRAPH: "document",
    names.SESSIONS: "document",
    names.PATCH: "text",
    names.SUMMARY: "document",
    names.RECEIPT: "document",
    names.ANNOTATIONS: "log",
    names.KEEP: "mark",
    names.LOCK: "mark",
}
_TURN_FILES: dict[str, Part] = {
    names.EVENTS: "log",
    names.HOOKS: "log",
    names.TURN_LOG: "text",
    names.TURN_PATCH: "text",
    names.SUMMARY: "document",
}
_CONTENT = re.compile(r"(?:nodes/[^/]+/turn-[0-9]{3,9}/)?files/(?:before|after)/([^/]+)")
_ATTACHED = re.compile(rf"{names.ATTACHED}/[0-9a-f]{{64}}")
_OBJECT = re.compile(r"[0-9a-f]{64}\.(?:txt|bin)(?:\.gz)?")
_TURN = re.compile(r"nodes/(?:[A-Za-z0-9][A-Za-z0-9._-]{0,127})/turn-[0-9]{3,9}")
_FOLDERS = re.compile(
    rf"{names.ATTACHED}|nodes|nodes/[A-Za-z0-9][A-Za-z0-9._-]{{0,127}}|{_TURN.pattern}|"
    rf"(?:{_TURN.pattern}/)?files(?:/before|/after)?"
)


def part_of(name: str) -> Part | None:
    """What the file `name`, relative to its run's folder, is; None: no bundle has a file of that name."""
    if "/" not in name:
        return _RUN_FILES.get(name)
    content = _CONTENT.fullmatch(name)
    if content is not None:
        return "content" if is_object(content[1]) and is_folder(name.rpartition("/")[0]) else None
    if _ATTACHED.fullmatch(name):
        return "attached"
    turn, _, base = name.rpartition("/")
    return _TURN_FILES.get(base) if _TURN.fullmatch(turn) else None


def is_folder(name: str) -> bool:
    """Whether a bundle may have a folder of that name, relative to the run's."""
    return _FOLDERS.fullmatch(name) is not None


def is_turn(name: str) -> bool:
    """Whether a bundle may have a turn in the folder of that name, relative to the run's."""
    return _TURN.fullmatch(name) is not None


def is_object(name: str) -> bool:
    """Whether a content can have that name."""
    return _OBJECT.fullmatch(name) is not None


def is_vouched(name: str) -> bool:
    """Whether a summary vouches for the file: the run's own, and all that lies directly in a turn's folder."""
    if "/" not in name:
        return name in names.VOUCHED
    return name.count("/") == 3 and name.startswith("nodes/")  # whatever it is called


@dataclass(frozen=True, slots=True)
class Entry:
    """One name below a bundle's folder. `folder` is open and holds it as `base`."""

    name: str
    folder: Folder
    base: str
    status: os.stat_result

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.status.st_mode)

    @property
    def is_temporary(self) -> bool:
        """Whether it never was final."""
        return self.base.startswith(TEMPORARY)


def walk(bundle: Folder, inside: str = "") -> Iterator[Entry]:
    """Everything below a run's folder but the folders that belong there; into others nobody looks. OSError.

    Sorted in each folder, so that two walks tell the same. Take each entry before the
    next one: its folder closes.
    """
    for base, status in bundle.entries():
        name = f"{inside}{base}"
        if stat.S_ISDIR(status.st_mode) and is_folder(name):
            yield from walk(bundle.folder(base), f"{name}/")
        else:
            yield Entry(name, bundle, base, status)
