"""An object of git, the entries of a tree, and the errors for one that cannot be read."""

from __future__ import annotations

import stat

from msgspec import Struct

from vibe_gate.domain.change import (
    EXECUTABLE_MODE,
    REGULAR_MODE,
    SUBMODULE_MODE,
    SYMLINK_MODE,
    TREE_MODE,
)
from vibe_gate.errors import InfrastructureError, IntegrityError

_ID_BYTES = 20


class Object(Struct, frozen=True):
    """An object of git: its full id, its kind ("commit", "tree", "blob", "tag"), its content."""

    id: str
    kind: str
    data: bytes


class TreeEntry(Struct, frozen=True):
    """What a tree says under one name."""

    mode: int
    id: str

    @property
    def is_tree(self) -> bool:
        """A folder."""
        return self.mode == TREE_MODE

    @property
    def is_regular(self) -> bool:
        """A file with content of its own: no link, no folder, no submodule."""
        return self.mode not in (TREE_MODE, SYMLINK_MODE, SUBMODULE_MODE)


def parse_tree(data: bytes) -> list[tuple[bytes, TreeEntry]]:
    """The names and entries of a tree's content, in its order. ValueError if it is cut short or has
    no such form.
    """
    entries = []
    position = 0
    while position < len(data):
        mode_end = data.index(b" ", position)
        name_end = data.index(b"\0", mode_end)
        entry_end = name_end + 1 + _ID_BYTES
        mode = data[position:mode_end]
        if not mode.isdigit() or entry_end > len(data):
            raise ValueError("no tree")
        entry = TreeEntry(canonical_mode(int(mode, 8)), data[name_end + 1 : entry_end].hex())
        entries.append((data[mode_end + 1 : name_end], entry))
        position = entry_end
    return entries


def canonical_mode(mode: int) -> int:
    """What git takes a mode of a tree for (its `canon_mode`): old programs wrote others, and
    attackers may.
    """
    if stat.S_ISREG(mode):
        if mode & stat.S_IXUSR:
            return EXECUTABLE_MODE
        return REGULAR_MODE
    if stat.S_ISLNK(mode):
        return SYMLINK_MODE
    if stat.S_ISDIR(mode):
        return TREE_MODE
    return SUBMODULE_MODE


def missing_object(name: str) -> InfrastructureError:
    """The error for an object that cannot be read."""
    return InfrastructureError(
        f"the object {name} is missing or damaged in this repository: run `git fsck`."
    )


def damaged_object(name: str) -> IntegrityError:
    """The error for an object that is not what its id says."""
    return IntegrityError(f"The object {name} is damaged; run `git fsck`.")
