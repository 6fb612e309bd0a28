"""Trees, read as blobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vibe_gate.domain import paths
from vibe_gate.domain.change import SYMLINK_MODE, TREE_MODE
from vibe_gate.git.git_object import TreeEntry
from vibe_gate.git.object_store import Objects


class Tree:
    """A tree read as blobs, never from disk, never through symlinks."""

    def __init__(self, objects: Objects, tree: str) -> None:
        self.id = tree
        self._database = objects.database
        self._entries_by_tree: dict[str, dict[bytes, TreeEntry]] = {}

    def read(self, path: str) -> bytes | None:
        """Content of the regular file at `path`; None if there is none (a folder, a link,
        nothing).
        """
        entry = self.entry(paths.encode(path))
        if entry is None or not entry.is_regular:
            return None
        return self._database.read(entry.id).data

    def link_target(self, path: str) -> str | None:
        """Where the symbolic link at `path` leads, as it says; None if there is none."""
        entry = self.entry(paths.encode(path))
        if entry is None or entry.mode != SYMLINK_MODE:
            return None
        return paths.decode(self._database.read(entry.id).data)

    def links(self, prefix: str, *, without: str = "") -> list[str]:
        """Paths of symbolic links and submodules at `prefix` or below ("" for all), sorted.

        `without`: a folder below which nothing is looked for, nor read.
        """
        entries = self._entries_below(prefix, without)
        return sorted(paths.decode(path) for path, entry in entries if not entry.is_regular)

    def list(self, prefix: str, *, without: str = "") -> list[str]:
        """Paths of the regular files in the folder `prefix` and below ("" for all), sorted;
        `without` as in `links`.
        """
        folder = prefix.strip("/")
        entries = self._entries_below(prefix, without)
        file_paths = [paths.decode(path) for path, entry in entries if entry.is_regular]
        return sorted(path for path in file_paths if path != folder)

    def _entries_below(self, prefix: str, without: str) -> Iterator[tuple[bytes, TreeEntry]]:
        """The entries at `prefix` or below that are no folders."""
        path = paths.encode(prefix.strip("/"))
        if not path:
            return self.walk(self.id, b"", paths.encode(without))
        entry = self.entry(path)
        if entry is None:
            return iter(())
        if not entry.is_tree:
            return iter([(path, entry)])
        return self.walk(entry.id, path + b"/", paths.encode(without))

    def entry(self, path: bytes) -> TreeEntry | None:
        """What the tree says at a path, whatever it is."""
        entry = TreeEntry(TREE_MODE, self.id)
        for name in path.split(b"/"):
            if not entry.is_tree:
                return None
            inner_entry = self.entries(entry.id).get(name)
            if inner_entry is None:
                return None
            entry = inner_entry
        return entry

    def entries(self, tree: str) -> dict[bytes, TreeEntry]:
        """The entries of the tree or of one below it, by name."""
        if tree not in self._entries_by_tree:
            self._entries_by_tree[tree] = self._database.entries(tree)
        return self._entries_by_tree[tree]

    def walk(
        self, tree: str, start: bytes = b"", without: bytes = b""
    ) -> Iterator[tuple[bytes, TreeEntry]]:
        """Every entry below a tree that is no folder, in git's order; paths begin with `start`.

        The folder `without` is not read, and counts as empty.
        """
        left_out = without + b"/" if without else None
        waiting = [iter([(start, TreeEntry(TREE_MODE, tree))])]
        while waiting:  # no recursion: a hostile tree may nest deeper than Python's stack
            path, entry = next(waiting[-1], (b"", None))
            if entry is None:
                waiting.pop()
            elif path == left_out:
                continue
            elif entry.is_tree:
                rows = []
                for name, inner_entry in self._database.entries(entry.id).items():
                    slash = b"/" if inner_entry.is_tree else b""
                    rows.append((path + name + slash, inner_entry))
                waiting.append(iter(rows))
            else:
                yield path, entry

    def paths_that_differ(self, old_tree: str) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """What is no folder and differs: its paths in the old tree, and those in this one."""
        old_paths: list[bytes] = []
        new_paths: list[bytes] = []
        waiting = [(b"", old_tree, self.id)]
        while waiting:  # no recursion, as in `walk`
            start, old_id, new_id = waiting.pop()
            old_entries = self._database.entries(old_id) if old_id else {}
            new_entries = self._database.entries(new_id) if new_id else {}
            for name in old_entries.keys() | new_entries.keys():
                old_entry, new_entry = old_entries.get(name), new_entries.get(name)
                if old_entry == new_entry:
                    continue
                folder_ids = []
                for entry, differing_paths in ((old_entry, old_paths), (new_entry, new_paths)):
                    is_folder = entry is not None and entry.is_tree
                    folder_ids.append(entry.id if entry is not None and is_folder else "")
                    if entry is not None and not is_folder:
                        differing_paths.append(start + name)
                if any(folder_ids):
                    waiting.append((start + name + b"/", folder_ids[0], folder_ids[1]))
        return old_paths, new_paths
