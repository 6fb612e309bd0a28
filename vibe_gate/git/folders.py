"""Folders of a hostile tree on disk, entered so that no symlink is ever followed."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_DIRECTORY
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # the last: a symlink stands where a folder was


def split(path: bytes) -> tuple[bytes, bytes]:
    """Folder and name; the folder of the root is b""."""
    folder, _, name = path.rpartition(b"/")
    return folder, name


def is_gone(error: OSError) -> bool:
    """Whether an error means that nothing is there (any more)."""
    return error.errno in _GONE


class Folders:
    """Opens folders below the root one name at a time, so that no symlink is ever followed."""

    def __init__(self, root: Path) -> None:
        self._root = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
        self._open = (b"", self._root)
        self._there: dict[bytes, bool] = {b"": True}

    def __enter__(self) -> Folders:
        return self

    def __exit__(self, *_: object) -> None:
        self._close_last()
        os.close(self._root)

    def open(self, folder: bytes) -> int:
        """A descriptor of the folder, good until the next call. FileNotFoundError and the like if there is none."""
        if self._open[0] == folder:
            return self._open[1]
        self._close_last()
        current = self._root
        for name in folder.split(b"/") if folder else ():
            try:
                deeper = os.open(name, _FOLDER, dir_fd=current)
            finally:
                if current != self._root:
                    os.close(current)
            current = deeper
        self._open = (folder, current)
        return current

    def exists(self, path: bytes) -> bool:
        """Whether anything is at the path; quick for many paths in folders that are not there."""
        folder, name = split(path)
        if not self._folder_exists(folder):
            return False
        try:
            os.lstat(name, dir_fd=self.open(folder))
        except OSError as error:
            return not is_gone(error)
        return True

    def _folder_exists(self, folder: bytes) -> bool:
        if folder not in self._there:
            parent, name = split(folder)
            self._there[folder] = self._folder_exists(parent) and self._is_folder(parent, name)
        return self._there[folder]

    def _is_folder(self, parent: bytes, name: bytes) -> bool:
        try:
            return stat.S_ISDIR(os.lstat(name, dir_fd=self.open(parent)).st_mode)
        except OSError:
            return False

    def _close_last(self) -> None:
        if self._open[1] != self._root:
            os.close(self._open[1])
        self._open = (b"", self._root)
