"""Objects: the user's to read, a scratch folder of our own to write.

libgit2 opens a bare repository of our own in a temporary folder, with the user's objects
as alternates. So it never sees the user's configuration, attributes, refs, index or grafts,
and whatever it writes goes to the folder, which is deleted with the store. New objects are
written here rather than by libgit2, which would touch the times of the user's own copies.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zlib
from pathlib import Path

import pygit2
from pygit2.enums import ConfigLevel

from vibe_gate.adapters.git.detect import Place
from vibe_gate.errors import InfrastructureError

_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tlooseCompression = 0\n"
_KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_USER_LEVELS = (ConfigLevel.PROGRAMDATA, ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL)
_CHUNK = 1 << 20
_NO_COMPRESSION = 0  # the folder lives for seconds; compressing would cost more than the disk


class Store:
    """The objects of one place, readable and, in scratch, writable."""

    def __init__(self, place: Place) -> None:
        environ = place.git.environ
        try:
            self.folder = Path(tempfile.mkdtemp(prefix="vibe-gate-", dir=environ.get("TMPDIR") or None))
        except OSError as error:
            raise InfrastructureError(f"no temporary folder could be made: {error.strerror}.") from error
        self.objects = self.folder / "objects"
        for folder in (self.objects / "info", self.objects / "pack", self.folder / "refs"):
            folder.mkdir(parents=True)
        (self.folder / "HEAD").write_text("ref: refs/heads/none\n")
        (self.folder / "config").write_text(_CONFIG)
        for level in _USER_LEVELS:
            pygit2.settings.search_path[level] = ""  # diff.noprefix and the like must not bend a patch
        self.repository = pygit2.Repository(str(self.folder))
        alternates = [os.fspath(place.objects), *_alternates(environ.get("GIT_ALTERNATE_OBJECT_DIRECTORIES", ""))]
        for path in alternates:
            self.repository.odb.add_disk_alternate(path)
        self.environ = {
            "GIT_OBJECT_DIRECTORY": os.fspath(self.objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(_quoted(path) for path in alternates),
        }
        self._folders: set[str] = set()
        self.write("tree", b"")  # the empty tree, which git knows without having it

    def close(self) -> None:
        """Delete the scratch folder; the store cannot be used any more."""
        self.repository.free()
        shutil.rmtree(self.folder, ignore_errors=True)

    def read(self, name: str) -> tuple[str, bytes]:
        """Kind ("commit", "tree", "blob", "tag") and content of an object; InfrastructureError if it is missing."""
        try:
            kind, data = self.repository.read(name)
        except (KeyError, ValueError, pygit2.GitError) as error:
            raise InfrastructureError(
                f"the object {name} is missing or damaged in this repository: `git fsck` says more."
            ) from error
        return _KINDS[int(kind)], data

    def contains(self, name: str) -> bool:
        """Whether the object is there."""
        return name in self.repository.odb

    def size(self, name: str) -> int:
        """Bytes of an object's content."""
        return int(self.repository.odb.read_header(name)[1])

    def write(self, kind: str, data: bytes) -> str:
        """Store content that is in memory; its id."""
        whole = b"%s %d\0%s" % (kind.encode(), len(data), data)
        name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        target = f"{self._folder_of(name)}/{name[2:]}"
        if not os.path.exists(target):  # noqa: PTH110 (a hot path)
            try:
                with open(target, "xb") as out:
                    out.write(zlib.compress(whole, _NO_COMPRESSION))
            except OSError as error:
                raise _full(error) from error
        return name

    def write_stream(self, descriptor: int, size: int) -> str | None:
        """Store a file as a blob without holding it; None if it does not have `size` bytes after all."""
        digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        packer = zlib.compressobj(_NO_COMPRESSION)
        spool = self.objects / "spool"
        left = size
        try:
            with spool.open("wb") as out:
                out.write(packer.compress(b"blob %d\0" % size))
                while chunk := os.read(descriptor, _CHUNK):
                    left -= len(chunk)
                    digest.update(chunk)
                    out.write(packer.compress(chunk))
                out.write(packer.flush())
        except OSError as error:
            raise _full(error) from error
        if left:
            return None
        name = digest.hexdigest()
        spool.rename(f"{self._folder_of(name)}/{name[2:]}")
        return name

    def _folder_of(self, name: str) -> str:
        folder = f"{self.objects}/{name[:2]}"
        if folder not in self._folders:
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103 (a hot path)
            self._folders.add(folder)
        return folder


def _full(error: OSError) -> InfrastructureError:
    return InfrastructureError(f"a file could not be copied to the temporary folder: {error.strerror}.")


def _alternates(value: str) -> list[str]:
    """The folders of GIT_ALTERNATE_OBJECT_DIRECTORIES; git's quoted form is left to git alone."""
    return [path for path in value.split(":") if path and not path.startswith('"')]


def _quoted(path: str) -> str:
    """A path as an entry of GIT_ALTERNATE_OBJECT_DIRECTORIES."""
    if not any(char in path for char in ':"\n') and not path.startswith("#"):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
