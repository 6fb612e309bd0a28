"""A directory held open by descriptor: names below it are single components, symlinks are never
followed.

A reviewed repository may have committed anything at all under `.vibe-artifacts`:
a link to a file of the user, a FIFO, a directory in the place of a file. Every step
down is therefore taken from an open directory, and only regular files are read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import threading
from collections.abc import Callable
from pathlib import Path

_READ_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO in the place of a file must not wait for a writer.
_READ_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND_FILE = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_FOLDER_MODE = 0o700
_FILE_MODE = 0o600

_SYNCED_AT_ONCE = 16

LOCK = ".lock"
"""Locked by the process that writes a run, as long as it lives: the lock dies with the process."""

TEMPORARY = ".tmp-"
"""How the names of unfinished files begin."""


class Folder:
    """One open directory. `path` is for messages and for people; nothing is opened through it."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self.path = path

    @classmethod
    def at(cls, path: Path) -> Folder:
        """The directory at a path that the user named (links on the way to it are the user's
        own).
        """
        return cls(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), path)

    def __del__(self) -> None:
        close_descriptor(self._descriptor)

    def folder(self, name: str, create: bool = False) -> Folder:
        """The directory `name` in this one; `create` makes it if it is missing."""
        try:
            return Folder(self._open(name, _READ_DIRECTORY), self.path / name)
        except FileNotFoundError:
            if not create:
                raise
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.mkdir(name, _FOLDER_MODE, dir_fd=self._descriptor)
        return self.folder(name)

    def below(self, place: str, create: bool = False) -> Folder:
        """The directory at `a/b/c` below this one ("": this one); `create` makes what is
        missing.
        """
        folder = self
        for name in filter(None, place.split("/")):
            folder = folder.folder(name, create)
        return folder

    def make(self, name: str) -> Folder:
        """A new directory; FileExistsError if anything has that name."""
        os.mkdir(name, _FOLDER_MODE, dir_fd=self._descriptor)
        return self.folder(name)

    def entries(self) -> list[os.DirEntry[str]]:
        """Everything in it, sorted by name. Ask an entry without following links."""
        with os.scandir(self._descriptor) as entries:
            return sorted(entries, key=lambda entry: entry.name)

    def folders(self) -> list[str]:
        """The names of real directories, sorted."""
        return [entry.name for entry in self.entries() if entry.is_dir(follow_symlinks=False)]

    def files(self) -> list[str]:
        """The names of regular files, sorted."""
        return [entry.name for entry in self.entries() if entry.is_file(follow_symlinks=False)]

    def has(self, name: str) -> bool:
        """Whether anything has that name, a dangling link too."""
        try:
            self.status(name)
        except FileNotFoundError:
            return False
        return True

    def status(self, name: str) -> os.stat_result:
        """What stat says of `name` itself, links not followed. OSError."""
        return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)

    def reading(self, name: str) -> int:
        """A descriptor of the regular file `name`, for reading; OSError if it is anything else."""
        return self._regular(name, self._open(name, _READ_FILE))

    def appending(self, name: str) -> int:
        """A descriptor of the regular file `name`, made if missing, for reading, appending and
        locking.
        """
        return self._regular(name, self._open(name, _APPEND_FILE))

    def read(self, name: str, limit: int = -1) -> bytes:
        """The whole regular file; of a larger one, one byte more than `limit`."""
        with open(self.reading(name), "rb") as file:
            return file.read(limit + 1 if limit >= 0 else -1)

    def write(self, name: str, data: bytes) -> None:
        """A new file under its final name at once; FileExistsError if anything has that name.

        Gone again if it cannot be written; a process that is killed leaves it torn.
        """
        descriptor = -1
        try:
            descriptor = self._open(name, _CREATE_FILE)
            try:
                write_all(descriptor, data)
            finally:
                os.close(descriptor)
        except BaseException as error:  # interrupted, too
            was_interrupted = not isinstance(error, (OSError, ValueError))
            if descriptor >= 0 or was_interrupted:  # else what has the name is another's
                self.remove(name)
            raise

    def place(self, name: str, data: bytes, barrier: Callable[[], None] | None = None) -> None:
        """The file `name` with these bytes, whole or not at all; what had that name is replaced.

        `barrier` brings the bytes, and whatever must be on the disk before the name is, to the
        disk; it is called while the name is temporary. With it the name is on the disk, too, when
        this returns.
        """
        temporary = temporary_name()
        try:
            self.write(temporary, data)
            if barrier is not None:
                barrier()
            self.move(temporary, self, name)
        except BaseException:  # interrupted, too
            self.remove(temporary)
            raise
        if barrier is not None:
            self.sync()

    def move(self, name: str, into: Folder, new_name: str) -> None:
        """Rename; a file that has the new name is replaced."""
        os.rename(name, new_name, src_dir_fd=self._descriptor, dst_dir_fd=into._descriptor)

    def remove(self, name: str) -> None:
        """Unlink the file `name` if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def remove_folder(self, name: str) -> None:
        """Delete the folder `name` and everything in it, links not followed. OSError."""
        shutil.rmtree(name, dir_fd=self._descriptor)

    def size(self, name: str) -> int:
        """The bytes of all regular files below the folder `name`; links are not followed.
        OSError.
        """
        total = 0
        for _, _, files, opened in os.fwalk(name, dir_fd=self._descriptor, onerror=_raise):
            for file in files:
                with contextlib.suppress(FileNotFoundError):
                    status = os.stat(file, dir_fd=opened, follow_symlinks=False)
                    total += status.st_size if stat.S_ISREG(status.st_mode) else 0
        return total

    def fileno(self) -> int:
        """The open directory's descriptor; it stays this object's."""
        return self._descriptor

    def sync(self, name: str = "") -> None:
        """The file `name`, or the names in this directory, are on the disk when this returns.
        OSError.
        """
        descriptor = self.reading(name) if name else os.dup(self._descriptor)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

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


def close_descriptor(descriptor: int) -> None:
    """Close a descriptor whose work is done; a late error of the disk is reported by fsync, not
    here.
    """
    with contextlib.suppress(OSError):
        os.close(descriptor)


def temporary_name() -> str:
    """A new name for an unfinished file."""
    return TEMPORARY + os.urandom(8).hex()


def write_all(descriptor: int, data: bytes) -> None:
    """All of `data`; a full disk shows only when the rest is written after a short write."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _raise(error: OSError) -> None:
    raise error


def make_durable(folder: Folder) -> None:
    """Everything below `folder` but its lock is on the disk when this returns, names included.
    OSError.

    A file system brings files that are synced side by side to the disk in one go; one by one each
    takes milliseconds.
    """
    entries = folder.entries()
    files = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    _sync_side_by_side(folder, [name for name in files if name != LOCK])
    for entry in entries:
        # One at a time: a bundle may have more folders than a process may open at once.
        if entry.is_dir(follow_symlinks=False):
            make_durable(folder.folder(entry.name))
    folder.sync()


def _sync_side_by_side(folder: Folder, names: list[str]) -> None:
    """Sync the files, some at once. By plain threads: a pool is a tenth of what a commit without a
    judge loads.
    """
    errors: list[OSError] = []

    def sync(share: list[str]) -> None:
        try:
            for name in share:
                folder.sync(name)
        except OSError as error:
            errors.append(error)

    share_count = min(len(names), _SYNCED_AT_ONCE)
    shares = [names[first::_SYNCED_AT_ONCE] for first in range(share_count)]
    threads = [threading.Thread(target=sync, args=(share,)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
