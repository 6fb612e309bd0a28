"""An object of git, an entry of a tree, and the errors for one that cannot be read."""

from __future__ import annotations

from msgspec import Struct

from vibe_gate.domain.change import SUBMODULE_MODE, SYMLINK_MODE, TREE_MODE
from vibe_gate.errors import InfrastructureError, IntegrityError


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


def missing_object(name: str) -> InfrastructureError:
    """The error for an object that cannot be read."""
    return InfrastructureError(f"the object {name} is missing or damaged in this repository: run `git fsck`.")


def damaged_object(name: str) -> IntegrityError:
    """The error for an object that is not what its id says."""
    return IntegrityError(f"The object {name} is damaged; run `git fsck`.")
