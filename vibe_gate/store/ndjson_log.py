"""JSON documents and NDJSON logs: whole lines, appended by one write under a lock, numbered without
gaps.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from vibe_gate.domain.document import require_few
from vibe_gate.store.folder import LOCK, Folder, close_descriptor, write_all

MAX_DOCUMENT_BYTES = 64 << 20
"""Of a summary: about a hundred times the largest that a review of 10,000 files leaves."""

MAX_LINE_BYTES = 128 << 20
"""Of a log: the CLI sends at most 16 MiB in one message, and JSON may write a byte as six."""

_TAIL = 1 << 16  # bytes read from the end at first; doubled until a whole line is in them


_ONE_LINE = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=repr)


def encode_line(value: dict[str, Any]) -> bytes:
    """A line of a log, or a whole document: ASCII JSON, no control character, direction mark or
    lone surrogate raw.

    What JSON does not know is written as its repr. Indented, a summary would take a third more.
    """
    try:
        text = _ONE_LINE.encode(value)
    except (ValueError, TypeError):
        # NaN and infinity are not JSON, and keys may be no text. Rare, so looked for only now.
        text = json.dumps(_finite(value), separators=(",", ":"), default=repr)
    return text.encode() + b"\n"


def _finite(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


class Log:
    """One NDJSON file open for appending; every line has a `seq`, counted from `first`.

    The lock is a flock on the log itself, so threads and processes may share a log;
    a torn last line is cut before the next one is appended, which would be lost with it.
    """

    def __init__(self, folder: Folder, name: str, first: int) -> None:
        self._descriptor = folder.appending(name)
        self._lock = threading.Lock()
        self._first_seq = first
        self._next_seq = first
        self._size = 0

    def append(self, *lines: Callable[[int], dict[str, Any]]) -> int:
        """Append what each of `lines` makes of its seq, by one write; the last seq. OSError:
        nothing was appended.
        """
        with self._lock:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            try:
                self._catch_up()
                numbered_lines = enumerate(lines, self._next_seq)
                encoded_lines = [encode_line(make_line(seq)) for seq, make_line in numbered_lines]
                for encoded_line in encoded_lines:
                    _require_readable_line(encoded_line)
                data = b"".join(encoded_lines)
                self._write(data)
                self._next_seq += len(encoded_lines)
                self._size += len(data)
                return self._next_seq - 1
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def cut_torn_line(self) -> None:
        """Take off a torn last line. OSError."""
        self.append()

    def close(self) -> None:
        """No more lines from here."""
        close_descriptor(self._descriptor)

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
        self._size, last = measure_whole_lines(self._descriptor, size)
        if self._size < size:
            os.ftruncate(self._descriptor, self._size)
        self._next_seq = _seq_of(last) + 1 if last else self._first_seq


def _require_readable_line(data: bytes) -> None:
    """OSError for a line that readers would refuse."""
    try:
        require_few(data)
    except ValueError as error:
        raise OSError(errno.EFBIG, f"a line of the log is too large: {error}") from None
    if len(data) >= MAX_LINE_BYTES:
        raise OSError(errno.EFBIG, f"a line of the log is longer than {MAX_LINE_BYTES:,} bytes")


def _seq_of(line: bytes) -> int:
    try:
        return int(json.loads(line)["seq"])
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(errno.EINVAL, "the log's last line has no seq") from error


def measure_whole_lines(descriptor: int, size: int) -> tuple[int, bytes]:
    """How many bytes of the file are whole lines, and the last of these lines (b"" if there is
    none).
    """
    window = _TAIL
    while True:
        start = max(0, size - window)
        tail = os.pread(descriptor, size - start, start)
        end = tail.rfind(b"\n") + 1
        before = tail.rfind(b"\n", 0, max(0, end - 1)) + 1
        if start == 0 or before > 0:
            return (start + end if end else 0), tail[before:end]
        window *= 2


def read_lines(
    folder: Folder, name: str, inspect: Callable[[bytes], object] = len
) -> Iterator[bytes]:
    """The whole lines of a log, streamed; a torn last line is left out. OSError; ValueError for an
    endless line.

    `inspect` is called with every line, a torn one too: a digest's `update`, say.
    """
    with open(folder.reading(name), "rb") as file:
        yield from split_lines(file, inspect)


def split_lines(file: BinaryIO, inspect: Callable[[bytes], object] = len) -> Iterator[bytes]:
    """The whole lines of an open file, as `read_lines` gives them. OSError, ValueError."""
    while line := file.readline(MAX_LINE_BYTES):
        inspect(line)
        if not line.endswith(b"\n"):
            if len(line) == MAX_LINE_BYTES:
                raise ValueError(f"a line is longer than {MAX_LINE_BYTES:,} bytes")
            return  # a writer may end it meanwhile
        yield line


@contextlib.contextmanager
def hold_lock(descriptor: int, until: float, kind: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold the lock of an open file or folder, then close it. OSError.

    BlockingIOError if it is not to be had until `time.monotonic` says so.
    """
    try:
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


class Lock:
    """Says that a run's writer lives: locked until `release`, or until the process dies."""

    def __init__(self, folder: Folder, name: str = LOCK) -> None:
        """BlockingIOError: another process has the lock. OSError."""
        self._descriptor = folder.appending(name)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            close_descriptor(self._descriptor)
            raise

    def release(self) -> None:
        """The run is not being written any more."""
        close_descriptor(self._descriptor)

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
            close_descriptor(descriptor)
        return False
