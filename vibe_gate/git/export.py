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
            return self._same()
        except OSError:
            return False  # something vanished, or was made unreadable

    def changed(self) -> list[str]:
        """The paths of files and links that are not what was written any more or cannot be read;
        not new ones.
        """
        left = dict(self._written)
        with suppress(OSError):  # what was not compared by then stays in the list
            for path, name, descriptor in self._found(set()):
                if path in left and _on_disk(name, descriptor) == left[path]:
                    del left[path]
        return [paths.decode(path) for path in left]

    def content(self, path: str) -> bytes | None:
        """What stands at a path now; None for what is no plain file, is behind a link or is over
        `MAX_CONTENT`.
        """
        place = self.root.resolve() / path
        if place.resolve() != place:
            return None
        try:
            with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                held = (
                    file.read(MAX_CONTENT + 1)
                    if stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                    else None
                )
        except OSError:
            return None
        return held if held is None or len(held) <= MAX_CONTENT else None

    def _same(self) -> bool:
        left = dict(self._written)
        visited: set[bytes] = set()
        for path, name, descriptor in self._found(visited):
            expected = left.pop(path, None)
            if expected is None or _on_disk(name, descriptor) != expected:
                return False
        return not left and visited == self._folders | {b""}

    def _found(self, visited: set[bytes]) -> Iterator[tuple[bytes, bytes, int]]:
        """Path, name and folder of all that is on disk but the tree's own folders, which go to
        `visited`.
        """
        root = os.fsencode(self.root)
        for folder, folders, files, descriptor in os.fwalk(
            root, onerror=_raise, follow_symlinks=False
        ):
            start = folder[len(root) + 1 :] + b"/" if folder != root else b""
            visited.add(start[:-1])
            for name in files + [name for name in folders if start + name not in self._folders]:
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
    modes = _modes(tree, only)
    try:
        destination.mkdir(mode=0o700, parents=True, exist_ok=True)
        destination.chmod(0o700)
        if any(destination.iterdir()):
            raise InfrastructureError(
                f"the folder {destination} is not empty: an export needs one of its own."
            )
        _check_out(objects, tree, destination, modes)
        links = [path for path, written in modes.items() if written.mode == SYMLINK_MODE]
        files = _make_links(os.fsencode(destination.resolve()), links)
    except OSError as error:
        raise InfrastructureError(
            f"the tree cannot be written to {destination}: {error.strerror}."
        ) from error
    written = modes | {path: _Written(REGULAR_MODE, modes[path].id) for path in files}
    submodules = {path for path, entry in written.items() if entry.mode == SUBMODULE_MODE}
    kept = {path: entry for path, entry in written.items() if path not in submodules}
    return Export(destination, kept, submodules.union(*map(_parents, written)))


def _modes(tree: Tree, only: Collection[str] | None) -> dict[bytes, _Written]:
    """What will stand at each path."""
    wanted = (paths.encode(path) for path in only or ())
    entries = tree.walk(tree.id) if only is None else ((path, tree.entry(path)) for path in wanted)
    modes = {}
    for path, entry in entries:
        if entry is not None:
            executable = entry.is_regular and entry.mode & stat.S_IXUSR
            mode = (
                EXECUTABLE_MODE if executable else REGULAR_MODE if entry.is_regular else entry.mode
            )
            modes[path] = _Written(mode, entry.id)
    return modes


def _check_out(objects: Objects, tree: Tree, destination: Path, wanted: Collection[bytes]) -> None:
    attributes = objects.folder / "info" / "attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text(RAW_ATTRIBUTES)
    index = objects.folder / f"export-{next(_numbers)}"
    variables = {
        "GIT_INDEX_FILE": os.fspath(index),
        "GIT_WORK_TREE": os.fspath(destination.absolute()),
    }
    done = objects.bare.run(*_PLAIN, "read-tree", tree.id, variables=variables)
    if invalid := _INVALID.search(done.err):
        raise UsageError(
            f"the tree holds {paths.quote(invalid[1])}, a name that no checkout may hold: it is not exported."
        )
    if not done.code:
        names = b"".join(path + b"\0" for path in wanted)
        done = objects.bare.run(
            *_PLAIN, "checkout-index", "-z", "--stdin", stdin=names, variables=variables
        )
    if done.code:
        raise InfrastructureError(
            f"the tree cannot be written to {destination}: {paths.quote(done.err)}."
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
    real = {path: os.path.realpath(root + b"/" + path) for path in targets}
    outside = [path for path, place in real.items() if not (place + b"/").startswith(root + b"/")]
    for path in outside:
        file = root + b"/" + path
        os.unlink(file)  # noqa: PTH108
        with open(file, "xb") as opened:
            opened.write(targets[path])
    return [*(path for path in links if path not in targets), *outside]


def _parents(path: bytes) -> Iterator[bytes]:
    while path := path.rpartition(b"/")[0]:
        yield path


def _on_disk(name: bytes, folder: int) -> _Written | None:
    about = os.lstat(name, dir_fd=folder)
    if stat.S_ISLNK(about.st_mode):
        target = os.readlink(name, dir_fd=folder)
        digest = hashlib.sha1(b"blob %d\0%s" % (len(target), target), usedforsecurity=False)
        return _Written(SYMLINK_MODE, digest.hexdigest())
    if not stat.S_ISREG(about.st_mode):
        return None
    digest = hashlib.sha1(b"blob %d\0" % about.st_size, usedforsecurity=False)
    descriptor = os.open(
        name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
    )
    with open(descriptor, "rb", buffering=0) as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return _Written(
        EXECUTABLE_MODE if about.st_mode & stat.S_IXUSR else REGULAR_MODE, digest.hexdigest()
    )
