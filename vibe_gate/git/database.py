"""The objects of a repository as libgit2 reads them, through pygit2: contents, sizes, the entries
of trees.

libgit2 sees a bare repository of our own, never the user's configuration, refs or index.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pygit2
from pygit2.enums import ConfigLevel, ObjectType

from vibe_gate.domain import paths
from vibe_gate.domain.change import LARGEST_READ, SUBMODULE_MODE, TREE_MODE, FileVersion
from vibe_gate.domain.escape import expression
from vibe_gate.errors import InfrastructureError, IntegrityError, RevisionError
from vibe_gate.git.git_object import Object, TreeEntry, damaged_object, missing_object, parse_tree

_USER_LEVELS = (ConfigLevel.PROGRAMDATA, ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL)
_KINDS = {
    b"blob": ObjectType.BLOB,
    b"tree": ObjectType.TREE,
    b"commit": ObjectType.COMMIT,
    b"tag": ObjectType.TAG,
}
_ID = expression(r"\b[0-9a-f]{40}\b")
_MALFORMED = "a tree of this repository is malformed: `git fsck` says more."
_LONGEST_SIZE = 15
"""Digits of an object's size in bytes."""

_CACHE_BYTES = 16 << 20
"""Objects that libgit2 keeps in memory: those of a few thousand commits, for who reads a long
history reads on, and seldom back.
"""

_PRIORITY = 1  # below that of the scratch folder's own objects
_LONGEST_HEADER = 64
"""Bytes of "commit ", a size and a NUL, and more."""

_HEADER_READ = 256
"""Compressed bytes that hold the header."""


class ObjectDatabase:
    """The objects of the bare repository in `folder` and those of other folders of objects."""

    def __init__(self, folder: Path, object_folders: Iterable[str]) -> None:
        for level in _USER_LEVELS:
            pygit2.settings.search_path[level] = ""
        pygit2.settings.cache_max_size(_CACHE_BYTES)
        pygit2.settings.owner_validation = (
            False  # the folder is ours, whoever a mounted disk says that it belongs to
        )
        self.repository = pygit2.Repository(os.fspath(folder))
        self.repository.write(ObjectType.TREE, b"")  # git knows the empty tree without having it
        self._odb = self.repository.odb
        for objects in object_folders:
            self.add_folder(objects)

    def add_folder(self, objects: str) -> None:
        """Read the objects of another folder, too, but not of those that it borrows from."""
        self._odb.add_backend(pygit2.OdbBackendPack(objects), _PRIORITY)
        self._odb.add_backend(LooseObjects(objects), _PRIORITY)

    def read(self, name: str) -> Object:
        """An object by its full id.

        InfrastructureError if it is missing or larger than LARGEST_READ, IntegrityError if what is
        stored under its id is something else.
        """
        stored_object = self.find(name)
        if stored_object is None:
            raise missing_object(name)
        return stored_object

    def find(self, name: str) -> Object | None:
        """The object with this full id; None if it is missing. Raises what `read` does."""
        with damage_as_error(name):
            try:
                kind, size = self._odb.read_header(name)
                if size <= LARGEST_READ:
                    return Object(name, kind.name.lower(), self._odb.read(name)[1])
            except KeyError:
                return None
        raise InfrastructureError(
            f"the {kind.name.lower()} {name} has {size:,} bytes; at most {LARGEST_READ:,} are read into memory."
        )

    def content(self, version: FileVersion) -> bytes:
        """The content of one side of a file; of a submodule the line that git's diffs show for
        it.
        """
        if version.mode == SUBMODULE_MODE:
            return b"Subproject commit %s\n" % version.blob.encode()
        return self.read(version.blob).data

    def size(self, name: str) -> int:
        """The size of an object in bytes. RevisionError if it is missing, IntegrityError if it is
        damaged.
        """
        with damage_as_error(name):
            return self._odb.read_header(name)[1]

    def entries(self, tree: str) -> dict[bytes, TreeEntry]:
        """The entries of a tree by name.

        InfrastructureError if it is missing, or no tree that git writes; IntegrityError if it is
        damaged.
        """
        rows = self._rows(tree)
        entries = dict(rows)
        # Of two entries with one name, one would hide from every reader.
        if len(entries) < len(rows) or any(b"/" in name for name in entries):
            raise InfrastructureError(_MALFORMED)
        return entries

    def _rows(self, tree: str) -> list[tuple[bytes, TreeEntry]]:
        """The entries of a tree as they are written. libgit2's own have other modes than git sees
        in them.
        """
        tree_object = self.read(tree)
        if tree_object.kind != "tree":
            raise InfrastructureError(_MALFORMED)
        try:
            return parse_tree(tree_object.data)
        except ValueError as error:
            raise InfrastructureError(_MALFORMED) from error

    def write_canonical_tree(self, tree: str) -> str:
        """Write the tree with the modes that git takes those of all its entries for; its id.

        Raises what `entries` does.
        """
        written: dict[str, str] = {}
        waiting = [tree]
        while waiting:  # no recursion: a hostile tree may nest deeper than Python's stack
            current = waiting[-1]
            rows = self._rows(current)
            inner_trees = [
                entry.id for _, entry in rows if entry.is_tree and entry.id not in written
            ]
            if inner_trees:
                waiting += inner_trees
                continue
            waiting.pop()
            lines = []
            for name, entry in rows:
                entry_id = written[entry.id] if entry.is_tree else entry.id
                lines.append(b"%o %s\0%s" % (entry.mode, name, bytes.fromhex(entry_id)))
            written[current] = str(self.repository.write(ObjectType.TREE, b"".join(lines)))
        return written[tree]

    def tree(self, name: str) -> pygit2.Tree:
        """The tree with this full id, for libgit2 to work with. Raises libgit2's errors."""
        return self.repository[name].peel(pygit2.Tree)

    def tree_with(self, tree: str, blobs: Mapping[str, str]) -> str:
        """Write the tree with other contents at these paths, where it has files; its id."""
        index = pygit2.Index()
        index.read_tree(self.tree(tree))
        for path, blob in blobs.items():
            index.add(pygit2.IndexEntry(path, pygit2.Oid(hex=blob), index[path].mode))
        return str(index.write_tree(self.repository))

    def write_tree_of(self, path: bytes, mode: int, blob: str) -> str:
        """Write a tree that holds one file alone; its id."""
        entry = blob
        for name in reversed(path.split(b"/")):
            entry = str(
                self.repository.write(
                    ObjectType.TREE, b"%o %s\0%s" % (mode, name, bytes.fromhex(entry))
                )
            )
            mode = TREE_MODE
        return entry

    def write_stand_in(self, blob: str) -> str:
        """Write a small binary blob for this one, and for no other; its id."""
        return str(self.repository.create_blob(b"\0" + bytes.fromhex(blob)))


class LooseObjects(pygit2.OdbBackend):
    """The loose objects of one folder.

    libgit2 1.9 never ends when it reads one that is cut short (its issue 7342), and writes outside
    of its memory when one is longer than it says (7177).
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder

    def read_cb(self, name: pygit2.Oid) -> tuple[int, bytes]:
        """Kind and content of an object.

        KeyError if the folder does not have it, IntegrityError if it is damaged. libgit2 compares
        it with its id.
        """
        with self._opened(name) as file:
            compressed = file.read()
        stream = zlib.decompressobj()
        kind, size, content = _begin(name, stream, compressed)
        missing_bytes = size - len(content)
        try:
            content += stream.decompress(stream.unconsumed_tail, missing_bytes + 1)
        except zlib.error as error:
            raise damaged_object(str(name)) from error
        if not stream.eof or len(content) != size:
            raise damaged_object(str(name))
        return kind, content

    def read_header_cb(self, name: pygit2.Oid) -> tuple[int, int]:
        """Kind and size of an object, as its first bytes say. Raises what `read_cb` does."""
        with self._opened(name) as file:
            kind, size, _ = _begin(name, zlib.decompressobj(), file.read(_HEADER_READ))
        return kind, size

    def read_prefix_cb(self, name: pygit2.Oid) -> tuple[int, bytes, pygit2.Oid]:
        """The same as `read_cb`, with the id: pygit2 asks for whole ids by this name, too."""
        return *self.read_cb(name), name

    def exists_cb(self, name: pygit2.Oid) -> bool:
        """Whether the folder has the object."""
        return os.path.exists(self._path(name))  # noqa: PTH110 (says no where nobody may look)

    def exists_prefix_cb(self, name: pygit2.Oid) -> pygit2.Oid:
        """The id of an object; a part of an id names none here."""
        if not self.exists_cb(name):
            raise KeyError(str(name))
        return name

    def refresh_cb(self) -> None:
        """Nothing is remembered."""

    def _path(self, name: pygit2.Oid) -> str:
        digits = str(name)
        return f"{self._folder}/{digits[:2]}/{digits[2:]}"

    def _opened(self, name: pygit2.Oid) -> BinaryIO:
        try:
            return open(self._path(name), "rb")
        except (FileNotFoundError, NotADirectoryError) as error:
            raise KeyError(str(name)) from error
        except OSError as error:
            raise InfrastructureError(
                f"the object {name} cannot be read: {error.strerror}."
            ) from error


def _begin(
    name: pygit2.Oid, stream: zlib._Decompress, compressed: bytes
) -> tuple[ObjectType, int, bytes]:
    """Kind and size that an object's header names, and the first bytes of its content."""
    try:
        header, separator, content = stream.decompress(compressed, _LONGEST_HEADER).partition(b"\0")
    except zlib.error as error:
        raise damaged_object(str(name)) from error
    kind, _, size = header.partition(b" ")
    is_size = size.isdigit() and len(size) <= _LONGEST_SIZE
    if not separator or kind not in _KINDS or not is_size or int(size) < len(content):
        raise damaged_object(str(name))
    return _KINDS[kind], int(size), content


@contextmanager
def damage_as_error(name: str = "") -> Iterator[None]:
    """Make an error of libgit2's one of ours, about the object `name`, or about the one that
    libgit2 names.

    RevisionError if an object is missing, IntegrityError if one is damaged.
    """
    try:
        yield
    except KeyError as error:
        id_match = _ID.search(str(error))
        if not name and id_match is None:  # what is there is of another kind than its tree says
            raise IntegrityError(
                "A tree of this change is not well formed; run `git fsck`."
            ) from error
        missing_id = name or (id_match[0] if id_match else "")
        raise RevisionError(f"Object {missing_id} is missing here; fetch it first.") from error
    except MemoryError as error:
        raise InfrastructureError(
            "There is not enough memory to read the files of this change."
        ) from error
    except pygit2.GitError as error:
        reason = " ".join(str(error).split())
        if name:
            raise damaged_object(name) from error
        raise IntegrityError(
            f"Objects of this change are damaged; run `git fsck` ({paths.quote(reason)})."
        ) from error
