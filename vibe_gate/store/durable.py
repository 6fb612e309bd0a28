"""The barrier before something is vouched for: what was written must not be missing after a power cut.

One call that brings a whole file system to the disk takes less time than one for each file
and folder of a bundle, unless others have left much to be written on it.
"""

from __future__ import annotations

import ctypes
import errno
import math
import os
from collections.abc import Iterator
from pathlib import Path

from vibe_gate.store.folder import Folder
from vibe_gate.store.names import LOCK

_ONE_BY_ONE = 200
"""Files that may be made durable one by one; with more, the file system goes to the disk whatever others wrote."""

_LITTLE_KB = 32_768
"""What a disk writes in the time that a bundle's files take one by one (docs/decisions/0007); kB, as Linux counts."""

_KNOWN = frozenset({0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0xCA451A4E, 0x01021994, 0x794C7630})
"""File systems whose `syncfs` is a barrier: ext, xfs, btrfs, f2fs, bcachefs, tmpfs, overlay. FUSE and 9p have none."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_STATFS_BYTES = 256  # struct statfs is 120 bytes on 64-bit Linux, its first field the type


def make_durable(folder: Folder, little_kb: int = _LITTLE_KB) -> None:
    """Everything below `folder` but its lock is on disk when this returns, names included. OSError."""
    if (_waiting_kb() <= little_kb or _has_many(folder)) and _synced(folder):
        return
    for inside in _folders(folder):
        for name in _files(inside):
            _begin(inside, name)
    for inside in _folders(folder):
        for name in _files(inside):
            _to_disk(inside, name)
        inside.sync()


def _folders(folder: Folder) -> Iterator[Folder]:
    """The folder and all below it. Only those on the way to one are open: a bundle may have more than a process may."""
    yield folder
    for name in folder.folders():
        yield from _folders(folder.folder(name))


def _files(folder: Folder) -> list[str]:
    return [name for name in folder.all_files() if name != LOCK]


def _has_many(folder: Folder) -> bool:
    count = 0
    for inside in _folders(folder):
        count += len(_files(inside))
        if count > _ONE_BY_ONE:
            return True
    return False


def _to_disk(folder: Folder, name: str) -> None:
    descriptor = folder.reading(name)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _begin(folder: Folder, name: str) -> None:
    """Let the disk begin with a file while others are looked for: then they share one commit of the journal."""
    if not hasattr(os, "posix_fadvise"):
        return
    descriptor = folder.reading(name)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _waiting_kb() -> float:
    """What the machine has not begun to write, as Linux tells; elsewhere more than any limit."""
    try:
        told = Path("/proc/meminfo").read_text()
        return int(told.partition("\nDirty:")[2].split(maxsplit=1)[0])
    except (OSError, ValueError, IndexError):
        return math.inf


def _synced(folder: Folder) -> bool:
    """Whether the folder's file system could be brought to the disk at once. OSError: it could not write something."""
    told = ctypes.create_string_buffer(_STATFS_BYTES)
    if not hasattr(_LIBC, "syncfs") or _LIBC.fstatfs(folder.fileno(), told) != 0:
        return False
    if ctypes.c_ulong.from_buffer(told).value & 0xFFFFFFFF not in _KNOWN:
        return False
    if _LIBC.syncfs(folder.fileno()) == 0:
        return True
    code = ctypes.get_errno()
    if code == errno.ENOSYS:
        return False
    raise OSError(code, os.strerror(code), str(folder.path))
