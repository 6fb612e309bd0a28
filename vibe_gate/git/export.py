"""An export: a tree written out as plain files by `git checkout-index`, for judges and checks to
read.

Content is the blobs' own, without any conversion. A link is made only if it leads, through whatever
other links, to somewhere in the tree; any other is a regular file that holds its target. A
submodule is an empty folder. Git refuses names that some system takes for `.git`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
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
from vibe_gate.version import __version__

_MAX_TARGET = 4095  # bytes; Linux takes no longer path
_CHUNK = 1 << 20
_RECORD_BYTES = 1 << 10  # a tree's id and a version are less
MAX_CONTENT = 1 << 20
"""Bytes of a file that are read back from an export."""

_PLAIN = ("-c", "core.symlinks=false", "-c", "core.protectHFS=true", "-c", "core.protectNTFS=true")
"""Links are written as files with their target, and no name may be `.git` to any system."""

RAW_ATTRIBUTES = "* -text -ident !filter !working-tree-encoding\n"
"""No conversion: in info/attributes they win over those of the tree."""
_TREE_ID = expression(r"[0-9a-f]{40}")
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

    def __init__(
        self,
        root: Path,
        written: dict[bytes, _Written],
        folders: set[bytes],
        tree: str = "",
        record: Path | None = None,
    ) -> None:
        self.root = root
        self._written = written
        self._folders = folders
        self._tree = tree
        self._record = record

    @property
    def files(self) -> Iterator[str]:
        """The paths of its files and links, from the root."""
        return map(paths.decode, self._written)

    def unchanged(self) -> bool:
        """The tree recomputed from disk equals the tree that was exported: nothing more, nothing
        less. Where there is a record, it says so.
        """
        try:
            is_unchanged = self._is_tree_on_disk()
        except OSError:
            return False  # something vanished, or was made unreadable
        if is_unchanged and self._record is not None:
            # Without a record all bytes are compared the next time; a link in its place is not
            # followed.
            with suppress(OSError), self._record.open("x", encoding="ascii") as file:
                file.write(f"{self._tree} {__version__}\n")
        return is_unchanged

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
    objects: Objects,
    tree: Tree,
    destination: Path,
    only: Collection[str] | None = None,
    *,
    replace: bool = False,
    record: Path | None = None,
) -> Export:
    """Write the tree, or `only` these of its paths, below `destination`, an empty folder or a new
    one (made 0700).

    `replace`: what is there already and differs is replaced. `record`: the file that says which
    tree was last found there, by its bytes; without, or if anything was touched since, all bytes
    are compared now. UsageError, with the path, for a tree that no checkout may hold.
    InfrastructureError if the disk refuses.
    """
    entries = _entries_to_write(tree, only)
    folders = _folders_of(entries)
    missing_paths: Collection[bytes] = entries
    try:
        if replace and destination.is_symlink():
            destination.unlink()
        recorded_tree = _take_record(record, destination) if record else ""
        destination.mkdir(mode=0o700, parents=True, exist_ok=True)
        destination.chmod(0o700)
        if recorded_tree:
            missing_paths = _remove_changed(destination, tree, recorded_tree, folders)
        elif replace:
            missing_paths = _remove_differences(destination, entries, folders)
        elif any(destination.iterdir()):
            raise InfrastructureError(
                f"the folder {destination} is not empty: an export needs one of its own."
            )
        if missing_paths:
            _check_out(objects, tree, destination, missing_paths)
        links = [path for path, entry in entries.items() if entry.mode == SYMLINK_MODE]
        plain_links = _make_links(os.fsencode(destination.resolve()), links)
    except OSError as error:
        raise InfrastructureError(
            f"the tree cannot be written to {destination}: {error.strerror}."
        ) from error
    for path in plain_links:
        entries[path] = _Written(REGULAR_MODE, entries[path].id)
    files_and_links = {}
    for path, entry in entries.items():
        if entry.mode != SUBMODULE_MODE:
            files_and_links[path] = entry
    return Export(destination, files_and_links, folders, tree.id, record)


def _take_record(record: Path, destination: Path) -> str:
    """The tree that stands in the folder by the record, which is gone then; "" if it is not known,
    or if anything there was touched since.
    """
    # Whatever else stands there, a pipe say, is no record, and is not waited for.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(os.open(record, flags), "rb") as file:
            recorded_tree, version = file.read(_RECORD_BYTES).decode("ascii").split()
            recorded_ns = os.fstat(file.fileno()).st_ctime_ns
        is_untouched = _newest_change_ns(destination) < recorded_ns
    except (OSError, ValueError):
        return ""
    finally:
        record.unlink(missing_ok=True)
    if not is_untouched or version != __version__ or not _TREE_ID.fullmatch(recorded_tree):
        return ""
    return recorded_tree


def _newest_change_ns(root: Path) -> int:
    """When the last of all files, links and folders was changed, in nanoseconds; no program can set
    this time back.
    """
    newest_ns = 0
    for _, folder_names, file_names, descriptor in os.fwalk(root, onerror=_raise):
        newest_ns = max(newest_ns, os.fstat(descriptor).st_ctime_ns)
        for name in [*folder_names, *file_names]:
            newest_ns = max(newest_ns, os.lstat(name, dir_fd=descriptor).st_ctime_ns)
    return newest_ns


def _remove_changed(
    root: Path, tree: Tree, old_tree: str, folders: Collection[bytes]
) -> Collection[bytes]:
    """Delete what the old tree, which stands there, has otherwise than the new one; the paths that
    are missing then. OSError.
    """
    old_paths, new_paths = tree.paths_that_differ(old_tree)
    top = os.fsencode(root) + b"/"
    for path in old_paths:
        if stat.S_ISDIR(os.lstat(top + path).st_mode):
            os.rmdir(top + path)  # noqa: PTH106 (bytes; a submodule)
        else:
            os.unlink(top + path)  # noqa: PTH108
        folder = path.rpartition(b"/")[0]
        while folder and folder not in folders and not os.listdir(top + folder):  # noqa: PTH208
            os.rmdir(top + folder)  # noqa: PTH106
            folder = folder.rpartition(b"/")[0]
    return new_paths


def _folders_of(entries: Mapping[bytes, _Written]) -> set[bytes]:
    """The folders that these lie in; a submodule is an empty one."""
    folders = {path for path, entry in entries.items() if entry.mode == SUBMODULE_MODE}
    for path in entries:
        folder = path.rpartition(b"/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition(b"/")[0]
    return folders


def _remove_differences(
    root: Path, entries: Mapping[bytes, _Written], folders: Collection[bytes]
) -> set[bytes]:
    """Delete what is on disk and is neither one of these entries nor of the folders; the paths that
    are missing then. No link is followed. OSError.
    """
    missing_paths = set(entries)
    top = os.fsencode(root)
    for folder, folder_names, file_names, descriptor in os.fwalk(
        top, onerror=_raise, follow_symlinks=False
    ):
        start = folder[len(top) + 1 :] + b"/" if folder != top else b""
        names = [*folder_names, *file_names]
        folder_names.clear()  # links to folders are among them, and what is deleted here
        for name in names:
            path = start + name
            is_folder = stat.S_ISDIR(os.lstat(name, dir_fd=descriptor).st_mode)
            if is_folder and path in folders:
                folder_names.append(name)
                missing_paths.discard(path)  # of a submodule
            elif is_folder:
                shutil.rmtree(name, dir_fd=descriptor)
            elif _is_entry(entries.get(path), _on_disk(name, descriptor)):
                missing_paths.discard(path)
            else:
                os.unlink(name, dir_fd=descriptor)
    return missing_paths


def _is_entry(entry: _Written | None, disk_entry: _Written | None) -> bool:
    """Whether that was written for the entry. A link that leads outside is a plain file."""
    if entry is None or disk_entry is None or disk_entry.id != entry.id:
        return False
    is_plain_link = entry.mode == SYMLINK_MODE and disk_entry.mode == REGULAR_MODE
    return disk_entry.mode == entry.mode or is_plain_link


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
        target = _read_target(file)
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


def _read_target(file: bytes) -> bytes:
    """The target that a link, or the file in its place, holds, as far as a path may be long."""
    if os.path.islink(file):  # noqa: PTH114
        return os.readlink(file)  # noqa: PTH115
    with open(file, "rb") as opened:
        return opened.read(_MAX_TARGET + 1)


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
    piece_size = min(status.st_size + 1, _CHUNK)
    try:
        while piece := os.read(descriptor, piece_size):
            digest.update(piece)
    finally:
        os.close(descriptor)
    mode = EXECUTABLE_MODE if status.st_mode & stat.S_IXUSR else REGULAR_MODE
    return _Written(mode, digest.hexdigest())
