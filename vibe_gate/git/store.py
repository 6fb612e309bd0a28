"""Objects: the user's to read, a scratch folder of our own to write.

Reading goes through one `git cat-file --batch`, so that a snapshot needs no libgit2 and is
done sooner. For diffs, libgit2 reads the scratch folder with the user's objects as alternates
(`compiled`); for merges it opens both as a bare repository (`library`). New objects are
written here, because git and libgit2 would touch the times of the user's own copies of them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from vibe_gate import git as rooms
from vibe_gate.errors import InfrastructureError, IntegrityError
from vibe_gate.git.detect import Place

if TYPE_CHECKING:
    import pygit2

    from vibe_gate.git.compiled import Database

_CHUNK = 1 << 20
_NO_COMPRESSION = 0  # the folder lives for seconds; compressing would cost more than the disk
_HELD_IN_MEMORY = 16 << 20  # bytes of new objects; many small files cost more than all else in a snapshot


class Found(NamedTuple):
    """An object: its id, its kind ("commit", "tree", "blob", "tag"), its content."""

    id: str
    kind: str
    data: bytes


class Store:
    """The objects of one place, readable and, in scratch, writable."""

    def __init__(self, place: Place) -> None:
        environ = place.git.environ
        self.folder = _make_private(Path(environ.get("TMPDIR") or "/tmp"))  # noqa: S108 (made with a random name)
        self.objects = self.folder / "objects"
        self.objects.mkdir()
        self._alternates = [
            os.fspath(place.objects),
            *_alternates(environ.get("GIT_ALTERNATE_OBJECT_DIRECTORIES", "")),
        ]
        self.environ = {
            "GIT_OBJECT_DIRECTORY": os.fspath(self.objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(_quoted(path) for path in self._alternates),
        }
        self._git = place.git
        self._folders: set[str] = set()
        self._new: dict[str, tuple[str, bytes]] = {}
        self._new_bytes = 0
        self._reader: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    @property
    def database(self) -> Database:
        """The objects, all that were written included, as libgit2 reads them; loaded on first use."""
        self.flush()
        return self._compiled

    @cached_property
    def _compiled(self) -> Database:
        return rooms.compiled.Database(os.fspath(self.objects), self._alternates)

    @property
    def repository(self) -> pygit2.Repository:
        """The same as a repository, for what needs one."""
        self.flush()
        return self._library

    @cached_property
    def _library(self) -> pygit2.Repository:
        return rooms.library.open_objects(self.folder, self._alternates)

    def start(self) -> subprocess.Popen[bytes]:
        """Have git ready to be asked for objects; only the first read would wait for it otherwise."""
        if self._reader is None:
            self._reader = self._git.start("cat-file", "--batch", reads=True, environ=self.environ)
        return self._reader

    def close(self) -> None:
        """Delete the scratch folder; the store cannot be used any more."""
        self._stop()
        if "_library" in self.__dict__:
            self._library.free()
        _remove(self.folder)

    def read(self, name: str) -> tuple[str, bytes]:
        """Kind ("commit", "tree", "blob", "tag") and content of an object by its full id.

        InfrastructureError if it is missing, IntegrityError if what is stored under its id is something else.
        """
        if name in self._new:
            return self._new[name]
        with self._lock:
            kind, size, out = self._ask(name)
            data = out.read(size + 1)[:-1]
        return _whole(Found(name, kind, data))[1:]

    def find(self, revision: str) -> Found | None:
        """What a revision names, by git's own grammar; None where it names nothing. It holds no newline."""
        if revision in self._new:
            return Found(revision, *self._new[revision])
        with self._lock:
            fields, out = self._answer(revision)
            if len(fields) != 3:
                return None
            data = out.read(int(fields[2]) + 1)[:-1]
        return _whole(Found(fields[0].decode("ascii"), fields[1].decode("ascii"), data))

    def copy(self, name: str, target: IO[bytes], limit: int | None = None) -> bool:
        """Write an object's content to a file without holding it; nothing and False where it exceeds `limit` bytes."""
        self.flush()
        with self._lock:
            _, size, out = self._ask(name)
            wanted = limit is None or size <= limit
            try:
                for chunk in _chunks(out, size):
                    if wanted:
                        target.write(chunk)
            except OSError:
                self._stop()  # the rest of the content is still in the pipe
                raise
        return wanted

    def contains(self, name: str) -> bool:
        """Whether the object is there. It is read: meant for commits."""
        return self.find(name) is not None

    def write(self, kind: str, data: bytes) -> str:
        """Store content that is in memory; its id."""
        name = _id(kind, data)
        if name not in self._new:
            self._new[name] = kind, data
            self._new_bytes += len(data)
            if self._new_bytes > _HELD_IN_MEMORY:
                self.flush()
        return name

    def flush(self) -> None:
        """Bring what was written to disk, where git and libgit2 find it."""
        try:
            for name, (kind, data) in self._new.items():
                target = Path(f"{self._folder_of(name)}/{name[2:]}")
                if not target.exists():
                    target.write_bytes(zlib.compress(b"%s %d\0%s" % (kind.encode(), len(data), data), _NO_COMPRESSION))
        except OSError as error:
            raise _full(error) from error
        self._new.clear()
        self._new_bytes = 0

    def write_stream(self, descriptor: int, size: int) -> str | None:
        """Store a file as a blob without holding it; None if it does not have `size` bytes after all."""
        header = b"blob %d\0" % size
        digest = hashlib.sha1(header, usedforsecurity=False)
        packer = zlib.compressobj(_NO_COMPRESSION)
        spool = self.objects / "spool"
        left = size
        try:
            with spool.open("wb") as out:
                out.write(packer.compress(header))
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

    def _ask(self, name: str) -> tuple[str, int, IO[bytes]]:
        fields, answered = self._answer(name)
        if len(fields) != 3:
            raise InfrastructureError(f"the object {name} is missing or damaged in this repository: run `git fsck`.")
        return fields[1].decode("ascii"), int(fields[2]), answered

    def _answer(self, name: str) -> tuple[list[bytes], IO[bytes]]:
        """Git's line about a name: id, kind and size, the content after it; or less where there is no such object."""
        reader = self.start()
        asked, answered = reader.stdin, reader.stdout
        assert asked is not None
        assert answered is not None
        try:
            asked.write(name.encode("ascii") + b"\n")
            asked.flush()
        except BrokenPipeError:
            pass  # what it says before it ends is read below: nothing
        line = answered.readline()
        if not line:  # git ended: that says nothing about the object
            raise InfrastructureError(f"git could not be asked for the object {name}: run `git fsck`.")
        return _fields(line), answered

    def _stop(self) -> None:
        if self._reader is not None:
            self._reader.kill()
            self._reader.communicate()
            self._reader = None

    def _folder_of(self, name: str) -> str:
        folder = f"{self.objects}/{name[:2]}"
        if folder not in self._folders:
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103 (a hot path)
            self._folders.add(folder)
        return folder


def _id(kind: str, data: bytes) -> str:
    digest = hashlib.sha1(b"%s %d\0" % (kind.encode(), len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def _whole(found: Found) -> Found:
    """What was found, if its content is what its id says: git believes a file by its name. IntegrityError."""
    if _id(found.kind, found.data) != found.id:
        raise IntegrityError(f"The object {found.id} is damaged; run `git fsck`.")
    return found


def _fields(line: bytes) -> list[bytes]:
    """The words of a line of `git cat-file --batch`; none where it says that there is no such object."""
    return [] if line.endswith((b" missing\n", b" ambiguous\n")) else line.split()


def _chunks(source: IO[bytes], size: int) -> Iterator[bytes]:
    """`size` bytes in pieces; the newline that git adds is read and dropped."""
    while size > 0:
        chunk = source.read(min(size, _CHUNK))
        if not chunk:
            raise InfrastructureError("git stopped in the middle of an object: run `git fsck`.")
        size -= len(chunk)
        yield chunk
    source.read(1)


def _make_private(parent: Path) -> Path:
    """A new folder with a random name. `tempfile` does the same, after ten milliseconds of imports."""
    folder = parent.absolute() / f"vibe-gate-{os.urandom(12).hex()}"
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise InfrastructureError(f"no folder can be made in {parent}: {error.strerror}.") from error
    return folder


def _remove(folder: Path) -> None:
    """Delete a folder of ours; what another process took away meanwhile is no matter."""
    for top, folders, files in os.walk(folder, topdown=False):
        for name in files:
            Path(top, name).unlink(missing_ok=True)
        for name in folders:
            Path(top, name).rmdir()
    if folder.exists():
        folder.rmdir()


def _full(error: OSError) -> InfrastructureError:
    return InfrastructureError(f"a file could not be copied to the temporary folder: {error.strerror}.")


def _alternates(value: str) -> list[str]:
    """The folders of GIT_ALTERNATE_OBJECT_DIRECTORIES; the quoted form, for odd paths, is left out."""
    return [path for path in value.split(":") if path and not path.startswith('"')]


def _quoted(path: str) -> str:
    """A path as an entry of GIT_ALTERNATE_OBJECT_DIRECTORIES."""
    if not any(char in path for char in ':"\n') and not path.startswith("#"):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
