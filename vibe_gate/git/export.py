"""An export: a tree written out as plain files by `git checkout-index`, for judges and checks to
read.

Content is the blobs' own, without any conversion. A link is made only if it leads, through whatever
other links, to somewhere in the tree; any other is a regular file that holds its target. A
submodule is an empty folder. Git refuses names that some system takes for `.git`.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.change import EXECUTABLE_MODE, REGULAR_MODE, SUBMODULE_MODE, SYMLINK_MODE
from vibe_gate.domain.escape import expression
from vibe_gate.errors import InfrastructureError, UsageError
from vibe_gate.git.git_object import TreeEntry
from vibe_gate.git.object_store import Objects
from vibe_gate.git.trees import Tree

_MAX_TARGET = 4095  # bytes; Linux takes no longer path
_CHUNK = 1 << 20
MAX_CONTENT = 1 << 20
"""Bytes of a file that are read back from an export."""

_PLAIN = ("-c", "core.symlinks=false", "-c", "core.protectHFS=true", "-c", "core.protectNTFS=true")
"""Links are written as files with their target, and no name may be `.git` to any system."""

RAW_ATTRIBUTES = "* -text -ident !filter !working-tree-encoding\n"
"""No conversion: in info/attributes they win over those of the tree."""
_INVALID = expression(r"invalid path '(.*)'")
_numbers = count()


class _Written(Struct, frozen=True):
    """What stands at a path of the export: its mode and, for files and links, the id of its
    content.
    """

    mode: int
    id: str


class Export:
    """A tree on disk, and whether it still is that tree."""

    def __init__(self, root: Path, written: dict[bytes, _Written], folders: set[bytes]) -> None:
        self.root = root
        self._written = written
        self._folders = folders

    @property
    def files(self) -> Iterator[str]:
        """The paths of its files and links, from the root."""
        return map(paths.decode, self._written)

    def unchanged(self) -> bool:
        """The tree recomputed from disk equals the tree that was exported: nothing more, nothing
        less.
        """
        try:
            return self._is_tree_on_disk()
        except OSError:
            return False  # something vanished, or was made unreadable

    def changed(self) -> list[str]:
        """The paths of files and links that are not what was written any more or cannot be read;
        not new ones.
        """
        other_entries = dict(self._written)
        with suppress(OSError):  # what was not compared by then stays in the list
            for path, name, descriptor in self._scan(set()):
                if path in other_entries and _on_disk(name, descriptor) == other_entries[path]:
                    del other_entries[path]
        return [paths.decode(path) for path in other_entries]

    def content(self, path: str) -> bytes | None:
        """What stands at a path now; None for what is no plain file, is behind a link or is over
        `MAX_CONTENT`.
        """
        place = self.root.resolve() / path
        if place.resolve() != place:
            return None
        try:
            with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return None
                content = file.read(MAX_CONTENT + 1)
        except OSError:
            return None
        return content if len(content) <= MAX_CONTENT else None

    def _is_tree_on_disk(self) -> bool:
        missing_entries = dict(self._written)
        visited: set[bytes] = set()
        for path, name, descriptor in self._scan(visited):
            expected = missing_entries.pop(path, None)
            if expected is None or _on_disk(name, descriptor) != expected:
                return False
        return not missing_entries and visited == self._folders | {b""}

    def _scan(self, visited: set[bytes]) -> Iterator[tuple[bytes, bytes, int]]:
        """Path, name and folder of all that is on disk but the tree's own folders, which go to
        `visited`.
        """
        root = os.fsencode(self.root)
        for folder, folders, files, descriptor in os.fwalk(
            root, onerror=_raise, follow_symlinks=False
        ):
            path = folder[len(root) + 1 :]
            visited.add(path)
            start = path + b"/" if path else b""
            other_folders = [name for name in folders if start + name not in self._folders]
            for name in files + other_folders:
                yield start + name, name, descriptor


def _raise(error: OSError) -> None:
    raise error


def export(
    objects: Objects, tree: Tree, destination: Path, only: Collection[str] | None = None
) -> Export:
    """Write the tree, or `only` these of its paths, below `destination`, an empty folder or a new
    one (made 0700).

    UsageError, with the path, for a tree that no checkout may hold. InfrastructureError if the disk
    refuses.
    """
    entries = _entries_to_write(tree, only)
    try:
        destination.mkdir(mode=0o700, parents=True, exist_ok=True)
        destination.chmod(0o700)
        if any(destination.iterdir()):
            raise InfrastructureError(
                f"the folder {destination} is not empty: an export needs one of its own."
            )
        _check_out(objects, tree, destination, entries)
        links = [path for path, entry in entries.items() if entry.mode == SYMLINK_MODE]
        plain_links = _make_links(os.fsencode(destination.resolve()), links)
    except OSError as error:
        raise InfrastructureError(
            f"the tree cannot be written to {destination}: {error.strerror}."
        ) from error
    for path in plain_links:
        entries[path] = _Written(REGULAR_MODE, entries[path].id)
    return _export_of(destination, entries)


def _export_of(destination: Path, entries: dict[bytes, _Written]) -> Export:
    """What was written; a submodule is an empty folder."""
    folders: set[bytes] = set()
    files_and_links: dict[bytes, _Written] = {}
    for path, entry in entries.items():
        folders.update(_parents(path))
        if entry.mode == SUBMODULE_MODE:
            folders.add(path)
        else:
            files_and_links[path] = entry
    return Export(destination, files_and_links, folders)


def _entries_to_write(tree: Tree, only: Collection[str] | None) -> dict[bytes, _Written]:
    """What will stand at each path."""
    if only is None:
        return {path: _written_entry(entry) for path, entry in tree.walk(tree.id)}
    entries = {}
    for path in map(paths.encode, only):
        entry = tree.entry(path)
        if entry is not None:
            entries[path] = _written_entry(entry)
    return entries


def _written_entry(entry: TreeEntry) -> _Written:
    """The entry with one of git's own modes."""
    mode = entry.mode
    if entry.is_regular:
        mode = EXECUTABLE_MODE if entry.mode & stat.S_IXUSR else REGULAR_MODE
    return _Written(mode, entry.id)


def _check_out(
    objects: Objects, tree: Tree, destination: Path, file_paths: Collection[bytes]
) -> None:
    """Write these files of the tree. UsageError, InfrastructureError."""
    attributes = objects.folder / "info" / "attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text(RAW_ATTRIBUTES)
    index = objects.folder / f"export-{next(_numbers)}"
    variables = {
        "GIT_INDEX_FILE": os.fspath(index),
        "GIT_WORK_TREE": os.fspath(destination.absolute()),
    }
    answer = objects.bare.run(*_PLAIN, "read-tree", tree.id, variables=variables)
    invalid = _INVALID.search(answer.err)
    if invalid:
        raise UsageError(
            f"the tree holds {paths.quote(invalid[1])}, a name that no checkout may hold: "
            "it is not exported."
        )
    if not answer.code:
        names = b"".join(path + b"\0" for path in file_paths)
        checkout = ("checkout-index", "-z", "--stdin")
        answer = objects.bare.run(*_PLAIN, *checkout, stdin=names, variables=variables)
    if answer.code:
        raise InfrastructureError(
            f"the tree cannot be written to {destination}: {paths.quote(answer.err)}."
        )


def _make_links(root: bytes, links: list[bytes]) -> list[bytes]:
    """Turn the files of links into links; returns those that stay files because they lead
    outside.
    """
    targets = {}
    for path in links:
        file = root + b"/" + path
        with open(file, "rb") as opened:
            target = opened.read(_MAX_TARGET + 1)
        if target and len(target) <= _MAX_TARGET and b"\0" not in target and target[:1] != b"/":
            targets[path] = target
            os.unlink(file)  # noqa: PTH108 (bytes)
            os.symlink(target, file)  # noqa: PTH211
    # Where a link leads is known when all are made.
    outside = []
    for path in targets:
        destination = os.path.realpath(root + b"/" + path)
        if not (destination + b"/").startswith(root + b"/"):
            outside.append(path)
    for path in outside:
        file = root + b"/" + path
        os.unlink(file)  # noqa: PTH108
        with open(file, "xb") as opened:
            opened.write(targets[path])
    unlinked = [path for path in links if path not in targets]
    return [*unlinked, *outside]


def _parents(path: bytes) -> Iterator[bytes]:
    while path := path.rpartition(b"/")[0]:
        yield path


def _on_disk(name: bytes, folder: int) -> _Written | None:
    """What stands there; None for what is neither file nor link. OSError."""
    status = os.lstat(name, dir_fd=folder)
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(name, dir_fd=folder)
        digest = hashlib.sha1(b"blob %d\0%s" % (len(target), target), usedforsecurity=False)
        return _Written(SYMLINK_MODE, digest.hexdigest())
    if not stat.S_ISREG(status.st_mode):
        return None
    digest = hashlib.sha1(b"blob %d\0" % status.st_size, usedforsecurity=False)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=folder)
    with open(descriptor, "rb", buffering=0) as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    mode = EXECUTABLE_MODE if status.st_mode & stat.S_IXUSR else REGULAR_MODE
    return _Written(mode, digest.hexdigest())
