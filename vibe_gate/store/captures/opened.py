"""Files below the git folder, opened so that nothing in their place is followed and nothing keeps anybody waiting."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_CAREFULLY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def reading(path: Path) -> BinaryIO:
    """The regular file, for reading. OSError, also where something else lies in its place."""
    return _opened(path, os.O_RDONLY, "rb")


def appending(path: Path) -> BinaryIO:
    """The regular file, for appending; made, private, where it is missing. OSError as in `reading`."""
    return _opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, "ab")


def _opened(path: Path, flags: int, mode: str) -> BinaryIO:
    descriptor = os.open(path, flags | _CAREFULLY, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return open(descriptor, mode)  # type: ignore[return-value]
