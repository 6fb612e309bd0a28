"""NDJSON logs: whole lines, appended by one write under a lock, numbered without gaps.

The lock is a flock on the log itself, so threads and processes may share a log;
whoever opens one with a torn last line cuts that line first, or the next record
would be lost with it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from vibe_gate.store.folder import Folder, let_go, write_all
from vibe_gate.store.names import LOCK
from vibe_gate.store.place import MAX_LINE_BYTES
from vibe_gate.store.plain_json import dumps, require_few

_TAIL = 1 << 16  # bytes read from the end at first; doubled until a whole line is in them


class Log:
    """One NDJSON file open for appending; every line carries `seq`, counted from `first`."""

    def __init__(self, folder: Folder, name: str, first: int) -> None:
        self._descriptor = folder.appending(name)
        self._lock = threading.Lock()
        self._next = first
        self._first = first
        self._size = 0

    def append(self, line: Callable[[int], dict[str, Any]]) -> int:
        """Append what `line` makes of its seq, and return the seq. OSError: nothing was appended."""
        with self._lock:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            try:
                self._catch_up()
                seq = self._next
                data = encode_line(line(seq))
                _require_readable(data)
                self._write(data)
                self._next, self._size = seq + 1, self._size + len(data)
                return seq
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """No more lines from here."""
        let_go(self._descriptor)

    def _write(self, data: bytes) -> None:
        try:
            write_all(self._descriptor, data)
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise

    def _catch_up(self) -> None:
        size = os.fstat(self._descriptor).st_size
        if size == self._size:
            return
        self._size, last = whole_lines(self._descriptor, size)
        if self._size < size:
            os.ftruncate(self._descriptor, self._size)
        self._next = _seq(last) + 1 if last else self._first


def _require_readable(data: bytes) -> None:
    """OSError for a line that readers would refuse."""
    try:
        require_few(data)
    except ValueError as error:
        raise OSError(errno.EFBIG, f"a line of the log is too large: {error}") from None
    if len(data) >= MAX_LINE_BYTES:
        raise OSError(errno.EFBIG, f"a line of the log is longer than {MAX_LINE_BYTES:,} bytes")


def _seq(line: bytes) -> int:
    try:
        return int(json.loads(line)["seq"])
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(errno.EINVAL, "the log's last line is not one of ours") from error


class Lock:
    """Says that a run's writer is alive: locked until `release`, or until the process dies of whatever."""

    def __init__(self, folder: Folder) -> None:
        self._descriptor = folder.locking(LOCK)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """The run is not being written any more."""
        let_go(self._descriptor)

    @staticmethod
    def is_held(folder: Folder) -> bool:
        """Whether a living process writes the run in `folder`."""
        try:
            descriptor = folder.reading(LOCK)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            let_go(descriptor)
        return False


def whole_lines(descriptor: int, size: int) -> tuple[int, bytes]:
    """How many bytes of the file are whole lines, and the last of these lines (b"" if there is none)."""
    window = _TAIL
    while True:
        start = max(0, size - window)
        tail = os.pread(descriptor, size - start, start)
        end = tail.rfind(b"\n") + 1
        before = tail.rfind(b"\n", 0, max(0, end - 1)) + 1
        if start == 0 or before > 0:
            return (start + end if end else 0), tail[before:end]
        window *= 2


def lines(folder: Folder, name: str) -> Iterator[bytes]:
    """The whole lines of a log; a torn last line is left out. Streams; OSError, ValueError for a line without end."""
    with open(folder.reading(name), "rb") as file:
        while line := file.readline(MAX_LINE_BYTES):
            if line.endswith(b"\n"):
                yield line
            elif len(line) == MAX_LINE_BYTES:
                raise ValueError(f"a line is longer than {MAX_LINE_BYTES:,} bytes")


def encode_line(value: dict[str, Any]) -> bytes:
    """One line of ASCII JSON: no control character, direction mark or lone surrogate stays raw in a log."""
    return dumps(value).encode() + b"\n"


def encode_document(value: dict[str, Any]) -> bytes:
    """Indented ASCII JSON with a final newline."""
    return dumps(value, 2).encode() + b"\n"
