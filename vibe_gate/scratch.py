"""Private folders in the temporary directory: exported trees, agents' homes, objects of git.

Each holds a file that its process has locked. The kernel gives the lock back when the process ends,
however it ends: so a folder whose lock can be had was left by a process that was killed.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOCK = ".vibe-gate-lock"
_NAME = re.compile(r"vibe-gate-(?:(?:run|check|command|case)-)?[a-z0-9_]{8}\Z")
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@contextmanager
def private_folder(kind: str) -> Iterator[Path]:
    """A new folder for this process and its children; deleted at the end. `kind` is a part of its
    name.
    """
    claimed = -1
    try:
        with tempfile.TemporaryDirectory(
            prefix=f"vibe-gate-{kind}-", ignore_cleanup_errors=True
        ) as name:
            claimed = claim(Path(name))
            yield Path(name)
    finally:
        if claimed >= 0:
            os.close(claimed)


def claim(folder: Path) -> int:
    """Keep others from taking the folder for abandoned until the descriptor is closed.

    The file has its name only when it is locked. On a file system without locks it gets none: the
    folder stays. It names the folder's inode, which nothing that is unpacked or checked out there
    can know.
    """
    unnamed = folder / f"{_LOCK}.new"
    descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, _identity(folder.stat()))
        unnamed.rename(folder / _LOCK)
    return descriptor


def remove_abandoned() -> None:
    """Delete the folders of processes that were killed.

    Only folders of this user, closed to others, with a name of ours and a lock that names them; no
    link is followed. A folder that cannot be deleted stays.
    """
    parent = Path(tempfile.gettempdir())
    with suppress(OSError):
        for folder in parent.iterdir():
            with suppress(OSError):
                if _NAME.match(folder.name):
                    _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> None:
    """OSError: it is in use, or not one of ours."""
    inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _FLAGS)
    try:
        lock = os.open(_LOCK, os.O_RDONLY | _FLAGS, dir_fd=inside)
        try:
            folder_is, lock_is = os.fstat(inside), os.fstat(lock)
            if not _is_own(folder_is, stat.S_IFDIR | 0o700) or not _is_own(
                lock_is, stat.S_IFREG | 0o600
            ):
                return
            if os.read(lock, 100) != _identity(folder_is):
                return
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _empty(folder)
            os.unlink(_LOCK, dir_fd=inside)  # last: without it nobody would try again
            folder.rmdir()
        finally:
            os.close(lock)
    finally:
        os.close(inside)


def _identity(folder: os.stat_result) -> bytes:
    return b"%d:%d\n" % (folder.st_dev, folder.st_ino)


def _is_own(status: os.stat_result, mode: int) -> bool:
    return status.st_uid == os.geteuid() and status.st_mode == mode


def _empty(folder: Path) -> None:
    """Delete all but the lock; agents' tools leave folders without write permission."""
    for entry in list(folder.iterdir()):
        if entry.name == _LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            _open_folders(entry)
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _open_folders(folder: Path) -> None:
    """Let this user list and change a folder and those below it; no link is followed."""
    waiting = [os.fspath(folder)]
    while waiting:  # no recursion: folders may nest deeper than Python's stack
        path = waiting.pop()
        os.chmod(path, 0o700)  # noqa: PTH101
        with os.scandir(path) as entries:
            waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
