"""A directory held open by descriptor: names below it are single components, symlinks are never followed.

A reviewed repository may have committed anything at all under `.vibe-artifacts`:
a link to a file of the user, a FIFO, a directory where a file belongs. Every step
down is therefore taken from an open directory, and only regular files are read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

_READ_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO that lies in a file's place must not wait for a writer.
_READ_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND_FILE = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_FOLDER_MODE = 0o700
_FILE_MODE = 0o600

CANNOT_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES})
"""Why a hard link may be refused where a copy still works: file systems without links, or with a limit."""

NO_FILE = frozenset({errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.EINVAL})
"""What reading says where no regular file is: nothing, a link, a folder, a socket, a pipe. It says so tomorrow, too."""

TEMPORARY = ".tmp-"
"""How names begin that never were final."""


class Folder:
    """One open directory. `path` is for messages and for people; nothing is opened through it."""

    def __init__(self, descriptor: int, place: str) -> None:
        self._descriptor = descriptor
        self._place = place

    @property
    def path(self) -> Path:
        """Made when it is asked for: a store opens a folder for every content."""
        return Path(self._place)

    @classmethod
    def at(cls, path: Path) -> Folder:
        """The directory at a path that the user named (links on the way to it are the user's own)."""
        return cls(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), str(path))

    def __del__(self) -> None:
        let_go(self._descriptor)

    def folder(self, name: str, create: bool = False) -> Folder:
        """The directory `name` in this one; `create` makes it where it is missing."""
        try:
            return Folder(self._open(name, _READ_DIRECTORY), f"{self._place}/{name}")
        except FileNotFoundError:
            if not create:
                raise
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.mkdir(name, _FOLDER_MODE, dir_fd=self._descriptor)
        return self.folder(name)

    def below(self, place: str, create: bool = False) -> Folder:
        """The directory at `a/b/c` below this one ("": this one); `create` makes what is missing."""
        folder = self
        for name in filter(None, place.split("/")):
            folder = folder.folder(name, create)
        return folder

    def make(self, name: str) -> Folder:
        """A new directory; FileExistsError if anything has that name."""
        os.mkdir(name, _FOLDER_MODE, dir_fd=self._descriptor)
        return self.folder(name)

    def folders(self) -> list[str]:
        """The names of real directories, sorted."""
        with os.scandir(self._descriptor) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))

    def files(self) -> list[str]:
        """The names of regular files, sorted; those that are not final left out."""
        return [name for name in self.all_files() if not name.startswith(TEMPORARY)]

    def all_files(self) -> list[str]:
        """The names of regular files, sorted, those that are not final among them."""
        with os.scandir(self._descriptor) as entries:
            return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))

    def entries(self) -> list[tuple[str, os.stat_result]]:
        """Everything in it, sorted by name, links not followed; what vanishes meanwhile is left out."""
        found = []
        with os.scandir(self._descriptor) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
        return sorted(found)

    def has(self, name: str) -> bool:
        """Whether anything has that name, a dangling link too."""
        try:
            self.status(name)
        except FileNotFoundError:
            return False
        return True

    def status(self, name: str) -> os.stat_result:
        """What stat tells of `name` itself, links not followed. OSError."""
        return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)

    def reading(self, name: str) -> int:
        """A descriptor of the regular file `name`, for reading; OSError if it is anything else."""
        return self._regular(name, self._open(name, _READ_FILE))

    def appending(self, name: str) -> int:
        """A descriptor of the regular file `name`, made if missing, for reading and appending.

        OSError, too, if the file has a second name: no log of ours has one, and whatever it names would change.
        """
        descriptor = self.locking(name)
        if os.fstat(descriptor).st_nlink == 1:
            return descriptor
        os.close(descriptor)
        raise OSError(errno.EMLINK, "it has a second name, and what that names would change too", str(self.path / name))

    def locking(self, name: str) -> int:
        """A descriptor of the regular file `name`, made if missing, to lock and not to write."""
        return self._regular(name, self._open(name, _APPEND_FILE))

    def read(self, name: str, limit: int = -1) -> bytes:
        """The whole regular file, of a larger one one byte more than `limit`."""
        with open(self.reading(name), "rb") as file:
            return file.read(limit + 1 if limit >= 0 else -1)

    def write(self, name: str, data: bytes) -> None:
        """A new file under its final name at once; FileExistsError if anything has that name."""
        descriptor = self._open(name, _CREATE_FILE)
        try:
            write_all(descriptor, data)
        finally:
            os.close(descriptor)

    def place(self, name: str, data: bytes, durable: bool = False, barrier: Callable[[], None] | None = None) -> None:
        """The file `name` with these bytes, whole or not at all; what had that name is replaced.

        `durable`: on disk before this returns, the name included. `barrier` brings the bytes there,
        and whatever else must be there before the name is; it is called while the name is temporary.
        """
        temporary = temporary_name()
        descriptor = self._open(temporary, _CREATE_FILE)
        try:
            try:
                write_all(descriptor, data)
                if durable and barrier is None:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if barrier is not None:
                barrier()
            self.move(temporary, self, name)
        except BaseException:  # interrupted, too
            self.remove(temporary)
            raise
        if durable:
            self.sync()

    def link(self, name: str, into: Folder, new_name: str) -> None:
        """A hard link `into/new_name` to the file `name`; FileExistsError if anything has that name."""
        os.link(
            name, new_name, src_dir_fd=self._descriptor, dst_dir_fd=into._descriptor, follow_symlinks=False
        )  # fmt: skip

    def move(self, name: str, into: Folder, new_name: str) -> None:
        """Rename; a file that has the new name is replaced."""
        os.rename(name, new_name, src_dir_fd=self._descriptor, dst_dir_fd=into._descriptor)

    def remove(self, name: str) -> None:
        """Unlink the file `name` if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def touch(self) -> None:
        """Give the directory a new ctime, if it lets us."""
        with contextlib.suppress(OSError):
            os.utime(self._descriptor)

    def discard(self, name: str) -> None:
        """Delete the folder `name` and all that is in it, links not followed; what cannot be deleted stays."""
        shutil.rmtree(name, ignore_errors=True, dir_fd=self._descriptor)

    def fileno(self) -> int:
        """The open directory's descriptor; it stays this object's."""
        return self._descriptor

    def sync(self) -> None:
        """Names in this directory are on disk when this returns."""
        os.fsync(self._descriptor)

    def _open(self, name: str, flags: int) -> int:
        if "/" in name or name in {"", ".", ".."}:
            raise ValueError(f"{name!r} is not a single name")
        try:
            return os.open(name, flags, _FILE_MODE, dir_fd=self._descriptor)
        except OSError as error:
            # The name alone says too little in a message.
            raise OSError(error.errno, error.strerror, str(self.path / name)) from error

    def _regular(self, name: str, descriptor: int) -> int:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(self.path / name))


def let_go(descriptor: int) -> None:
    """Close a descriptor whose work is done; a disk's late complaint is heard at fsync, not here."""
    with contextlib.suppress(OSError):
        os.close(descriptor)


def temporary_name() -> str:
    """A name that is nobody's and never final."""
    return TEMPORARY + secrets.token_hex(8)


def write_all(descriptor: int, data: bytes) -> None:
    """All of `data`; a full disk shows only when the rest is written after a short write."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
