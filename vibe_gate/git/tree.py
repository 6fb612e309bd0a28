"""Trees: read as blobs, and built from another tree by a few edits.

Raw tree objects are parsed here because libgit2's builder takes names as text, and because
an edit of 50 files among 100,000 should read and write only the folders it touches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from vibe_gate.domain import paths
from vibe_gate.errors import InfrastructureError, UsageError
from vibe_gate.git.modes import EMPTY_TREE, SUBMODULE_MODE, SYMLINK_MODE, TREE_MODE
from vibe_gate.git.store import Store

_ID_BYTES = 20
_MAX_DEPTH = 500  # folders; Python's stack bears 1,000 calls, and git's paths end at 4,096 bytes


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


def build(entries: Mapping[bytes, Entry]) -> bytes:
    """The tree object of these entries, in git's order (a folder sorts as if it ended with "/")."""
    ordered = sorted(entries.items(), key=lambda item: item[0] + b"/" if item[1].is_tree else item[0])
    return b"".join(b"%o %s\0%s" % (entry.mode, name, bytes.fromhex(entry.id)) for name, entry in ordered)


class Tree:
    """A tree read as blobs, never from disk, never through symlinks."""

    def __init__(self, store: Store, tree: str) -> None:
        self.id = tree
        self._store = store
        self._parsed: dict[str, dict[bytes, Entry]] = {}

    def read(self, path: str) -> bytes | None:
        """Content of the regular file at `path`; None where there is none (a folder, a link, nothing)."""
        entry = self.entry(paths.encode(path))
        if entry is None or not entry.is_regular:
            return None
        return self._store.read(entry.id)[1]

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
            self._parsed[tree] = parse(self._store.read(tree)[1])
        return self._parsed[tree]

    def walk(self, tree: str, start: bytes = b"") -> Iterator[tuple[bytes, Entry]]:
        """Every entry below a tree that is no folder, in git's order; paths begin with `start`."""
        waiting = [iter([(start, Entry(TREE_MODE, tree))])]
        while waiting:  # no recursion: a hostile tree may nest deeper than Python's stack
            path, entry = next(waiting[-1], (b"", None))
            if entry is None:
                waiting.pop()
            elif entry.is_tree:
                below = parse(self._store.read(entry.id)[1]).items()
                waiting.append(iter([(path + name + b"/" * found.is_tree, found) for name, found in below]))
            else:
                yield path, entry


class _Node:
    """One name on the way to an edit. `edited`: the edit is here, and `entry` is what it says."""

    __slots__ = ("children", "edited", "entry")

    def __init__(self) -> None:
        self.children: dict[bytes, _Node] = {}
        self.edited = False
        self.entry: Entry | None = None


def overlay(store: Store, base: Tree, edits: Mapping[bytes, Entry | None], without: bytes = b"") -> str:
    """The id of `base` with `edits` applied: an entry per path, None where the path is gone.

    `without` names an entry of the root that the result never has. An edited folder that
    ends up empty disappears, as in git.
    """
    root = _Node()
    for path, entry in edits.items():
        node = root
        names = path.split(b"/")
        if len(names) > _MAX_DEPTH:
            raise UsageError(f"{paths.quote(paths.decode(path))} is nested deeper than {_MAX_DEPTH} folders.")
        for name in names:
            node = node.children.setdefault(name, _Node())
        node.edited, node.entry = True, entry
    entries = dict(base.entries(base.id))
    if without in entries:
        root.children[without] = _Node()
        del entries[without]
    else:
        root.children.pop(without, None)
    if not root.children:
        return base.id
    return _rebuilt(store, base, entries, root) or EMPTY_TREE


def _rebuilt(store: Store, base: Tree, entries: dict[bytes, Entry], node: _Node) -> str | None:
    for name, child in node.children.items():
        existing = entries.get(name)
        if child.entry is not None:
            entries[name] = child.entry  # a file stands there now, so nothing can be below it
            continue
        if child.edited and existing is not None and not existing.is_tree:
            del entries[name]
            existing = None
        if not child.children or (existing is not None and not existing.is_tree):
            continue
        below = dict(base.entries(existing.id)) if existing is not None else {}
        result = _rebuilt(store, base, below, child)
        if result is not None:
            entries[name] = Entry(TREE_MODE, result)
        else:
            entries.pop(name, None)
    return store.write("tree", build(entries)) if entries else None
