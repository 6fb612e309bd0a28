"""Trees read as objects, never from disk, never through symlinks. Names are bytes, as git has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from vibe_gate.domain import paths
from vibe_gate.domain.change import SUBMODULE_MODE, SYMLINK_MODE, TREE_MODE
from vibe_gate.errors import InfrastructureError
from vibe_gate.git.objects import Objects

_ID_BYTES = 20


class Entry(NamedTuple):
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


def parse(raw: bytes) -> dict[bytes, Entry]:
    """A tree object's entries by name. InfrastructureError if the object is not one that git writes."""
    entries: dict[bytes, Entry] = {}
    at = 0
    try:
        while at < len(raw):
            space = raw.index(b" ", at)
            end = raw.index(0, space)
            name = raw[space + 1 : end]
            if name in entries or b"/" in name:  # one of them would hide from every reader
                raise ValueError
            entries[name] = Entry(int(raw[at:space], 8), raw[end + 1 : end + 1 + _ID_BYTES].hex())
            at = end + 1 + _ID_BYTES
    except ValueError as error:
        raise InfrastructureError("a tree of this repository is malformed: `git fsck` says more.") from error
    return entries


class Tree:
    """A tree read as blobs, never from disk, never through symlinks."""

    def __init__(self, objects: Objects, tree: str) -> None:
        self.id = tree
        self._objects = objects
        self._parsed: dict[str, dict[bytes, Entry]] = {}

    def read(self, path: str) -> bytes | None:
        """Content of the regular file at `path`; None where there is none (a folder, a link, nothing)."""
        entry = self.entry(paths.encode(path))
        if entry is None or not entry.is_regular:
            return None
        return self._objects.read(entry.id).data

    def links(self, prefix: str) -> list[str]:
        """Paths of what is neither file nor folder (symbolic links, submodules) at `prefix` or below, sorted."""
        folder = paths.encode(prefix.strip("/"))
        entry = self.entry(folder)
        if entry is None:
            return []
        if not entry.is_tree:
            return [] if entry.is_regular else [prefix.strip("/")]
        found = self.walk(entry.id, folder + b"/")
        return sorted(paths.decode(path) for path, below in found if not below.is_regular)

    def list(self, prefix: str) -> list[str]:
        """Paths of the regular files in the folder `prefix` and below ("" for all), sorted."""
        folder = paths.encode(prefix.strip("/"))
        entry = Entry(TREE_MODE, self.id) if not folder else self.entry(folder)
        if entry is None or not entry.is_tree:
            return []
        start = folder + b"/" if folder else b""
        return sorted(paths.decode(path) for path, found in self.walk(entry.id, start) if found.is_regular)

    def entry(self, path: bytes) -> Entry | None:
        """What the tree says at a path, whatever it is."""
        found = Entry(TREE_MODE, self.id)
        for name in path.split(b"/"):
            if not found.is_tree:
                return None
            step = self.entries(found.id).get(name)
            if step is None:
                return None
            found = step
        return found

    def entries(self, tree: str) -> dict[bytes, Entry]:
        """The entries of the tree or of one below it, by name."""
        if tree not in self._parsed:
            self._parsed[tree] = parse(self._objects.read(tree).data)
        return self._parsed[tree]

    def walk(self, tree: str, start: bytes = b"") -> Iterator[tuple[bytes, Entry]]:
        """Every entry below a tree that is no folder, in git's order; paths begin with `start`."""
        waiting = [iter([(start, Entry(TREE_MODE, tree))])]
        while waiting:  # no recursion: a hostile tree may nest deeper than Python's stack
            path, entry = next(waiting[-1], (b"", None))
            if entry is None:
                waiting.pop()
            elif entry.is_tree:
                below = parse(self._objects.read(entry.id).data).items()
                waiting.append(iter([(path + name + b"/" * found.is_tree, found) for name, found in below]))
            else:
                yield path, entry
