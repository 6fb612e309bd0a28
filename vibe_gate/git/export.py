"""An export: a tree written out as plain files, for judges and checks to read.

Content is the blobs' own, without any conversion. A link is made only where it stays inside
the tree, whatever other links it passes; any other becomes a regular file that holds its
target. A submodule is an empty folder. Names that some system takes for `.git` are refused.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from vibe_gate.domain import paths
from vibe_gate.domain.change import EXECUTABLE_MODE, REGULAR_MODE, SUBMODULE_MODE, SYMLINK_MODE
from vibe_gate.errors import InfrastructureError, UsageError
from vibe_gate.git.objects import Objects, Tree, TreeEntry

_MAX_TARGET = 4095  # bytes; Linux takes no longer path
_MAX_LINKS = 40  # on one way, as Linux counts; more is a loop
_MAX_DEPTH = 500  # folders, as for a snapshot
_CHUNK = 1 << 20
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_IGNORED_BY_HFS = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])


class _Written(NamedTuple):
    """What stands at a path of the export: its mode and, for files and links, the id of its content."""

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
        """The tree recomputed from disk equals the tree that was exported: nothing more, nothing less."""
        try:
            return self._same()
        except OSError:
            return False  # something vanished, or was made unreadable

    def _same(self) -> bool:
        left = dict(self._written)
        visited = set()
        root = os.fsencode(self.root)
        for folder, folders, files, descriptor in os.fwalk(root, onerror=_raise, follow_symlinks=False):
            start = folder[len(root) + 1 :] + b"/" if folder != root else b""
            visited.add(start[:-1])
            for name in files + [name for name in folders if start + name not in self._folders]:
                expected = left.pop(start + name, None)
                if expected is None or _on_disk(name, descriptor) != expected:
                    return False
        return not left and visited == self._folders | {b""}


def _raise(error: OSError) -> None:
    raise error


def export(objects: Objects, tree: Tree, destination: Path, only: Collection[str] | None = None) -> Export:
    """Write the tree below `destination`, which must be empty or not there yet; its root is private (0700).

    `only` are the paths that are wanted, all without it; of these, names that no checkout may hold are left out.

    UsageError, with the path, for a tree that no checkout may hold. InfrastructureError when
    the disk refuses.
    """
    writer = _Writer(objects, tree, destination)
    try:
        destination.mkdir(mode=0o700, parents=True, exist_ok=True)
        destination.chmod(0o700)
        if any(destination.iterdir()):
            raise InfrastructureError(f"the folder {destination} is not empty: an export needs one of its own.")
        for path, entry in tree.walk(tree.id) if only is None else _selected(tree, only):
            writer.write(path, entry)
    except OSError as error:
        raise InfrastructureError(f"the tree cannot be written to {destination}: {error.strerror}.") from error
    return Export(destination, writer.written, writer.folders)


def _selected(tree: Tree, only: Collection[str]) -> Iterator[tuple[bytes, TreeEntry]]:
    for path in sorted(map(paths.encode, only)):
        entry = tree.entry(path)
        if entry is not None and not any(_is_dangerous(name) for name in path.split(b"/")):
            yield path, entry


class _Writer:
    def __init__(self, objects: Objects, tree: Tree, destination: Path) -> None:
        self.written: dict[bytes, _Written] = {}
        self.folders: set[bytes] = set()
        self._objects = objects
        self._tree = tree
        self._root = os.fsencode(destination)

    def write(self, path: bytes, entry: TreeEntry) -> None:
        """Write one file, link or submodule, with the folders above it."""
        folder, _, name = path.rpartition(b"/")
        self._make(folder)
        _refuse_dangerous(name, path)
        if entry.mode == SUBMODULE_MODE:
            self._make(path)
            return
        mode = entry.mode
        if mode == SYMLINK_MODE:
            target = self._target(entry)
            if target is not None and stays_inside(self._tree, self._objects, path, target):
                os.symlink(target, self._root + b"/" + path)  # noqa: PTH211 (bytes)
            else:
                mode = REGULAR_MODE
                self._file(path, entry, mode)
        else:
            mode = EXECUTABLE_MODE if mode & stat.S_IXUSR else REGULAR_MODE
            self._file(path, entry, mode)
        self.written[path] = _Written(mode, entry.id)

    def _make(self, folder: bytes) -> None:
        if not folder or folder in self.folders:
            return
        above, _, name = folder.rpartition(b"/")
        if folder.count(b"/") >= _MAX_DEPTH:
            raise UsageError(f"{_shown(folder[:200])}... is nested deeper than {_MAX_DEPTH} folders.")
        self._make(above)
        _refuse_dangerous(name, folder)
        os.mkdir(self._root + b"/" + folder, 0o700)  # noqa: PTH102 (bytes)
        self.folders.add(folder)

    def _target(self, entry: TreeEntry) -> bytes | None:
        found = io.BytesIO()
        return found.getvalue() if self._objects.copy(entry.id, found, limit=_MAX_TARGET) else None

    def _file(self, path: bytes, entry: TreeEntry, mode: int) -> None:
        descriptor = os.open(self._root + b"/" + path, _CREATE, mode & 0o777)
        with open(descriptor, "wb", buffering=0) as out:
            os.fchmod(descriptor, mode & 0o777)  # whatever the umask
            self._objects.copy(entry.id, out)


def stays_inside(tree: Tree, objects: Objects, path: bytes, target: bytes) -> bool:
    """Whether a link at `path` leads to somewhere in the tree, through whatever links it passes.

    What is not there counts as inside; a loop, or what no system would follow, as outside.
    """
    here = path.split(b"/")[:-1]
    waiting = target.split(b"/")[::-1]
    if not _is_relative(target):
        return False
    links = 0
    while waiting:
        name = waiting.pop()
        if name in (b"", b"."):
            continue
        if name == b"..":
            if not here:
                return False
            here.pop()
            continue
        entry = tree.entry(b"/".join([*here, name]))
        if entry is None or entry.mode != SYMLINK_MODE:
            here.append(name)
            continue
        links += 1
        further = objects.read(entry.id).data
        if links > _MAX_LINKS or not _is_relative(further):
            return False
        waiting += further.split(b"/")[::-1]
    return True


def _is_relative(target: bytes) -> bool:
    return 0 < len(target) <= _MAX_TARGET and not target.startswith(b"/") and b"\0" not in target


def _refuse_dangerous(name: bytes, path: bytes) -> None:
    """UsageError for a name that could leave the export, or make some system see a repository in it."""
    if _is_dangerous(name):
        raise UsageError(f"the tree holds {_shown(path)}, a name that no checkout may hold: it is not exported.")


def _is_dangerous(name: bytes) -> bool:
    return name in (b"", b".", b"..") or any(_is_dot_git(part) for part in name.split(b"\\"))


def _is_dot_git(name: bytes) -> bool:
    text = name.decode("utf-8", "surrogateescape")
    on_ntfs = text.partition(":")[0].rstrip(" .").lower()
    return on_ntfs in {".git", "git~1"} or text.translate(_IGNORED_BY_HFS).lower() == ".git"


def _on_disk(name: bytes, folder: int) -> _Written | None:
    about = os.lstat(name, dir_fd=folder)
    if stat.S_ISLNK(about.st_mode):
        target = os.readlink(name, dir_fd=folder)
        digest = hashlib.sha1(b"blob %d\0%s" % (len(target), target), usedforsecurity=False)
        return _Written(SYMLINK_MODE, digest.hexdigest())
    if not stat.S_ISREG(about.st_mode):
        return None
    digest = hashlib.sha1(b"blob %d\0" % about.st_size, usedforsecurity=False)
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with open(descriptor, "rb", buffering=0) as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return _Written(EXECUTABLE_MODE if about.st_mode & stat.S_IXUSR else REGULAR_MODE, digest.hexdigest())


def _shown(path: bytes) -> str:
    return paths.quote(paths.decode(path))
