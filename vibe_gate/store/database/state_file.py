"""The file state.db: one connection, shared by threads; waited for, and put aside if it is damaged.

A file that is locked, read-only, on a full disk or written by another version is left as it is, and
`StateFile.problem` says that this process writes nothing there. A damaged file is renamed, a
warning in the log of `vibe_gate` says so, and a new one is begun. A commit is never blocked by it.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

from vibe_gate.domain.escape import safe
from vibe_gate.store.bundle_names import format_stamp
from vibe_gate.store.database.state_schema import has_every_column, make_missing_tables
from vibe_gate.store.ndjson_log import hold_lock

T = TypeVar("T")

FOLDER = "vibe-gate"
"""Of everything that vibe-gate keeps in the common git directory."""

NAME = "state.db"

PATIENCE_S = 3.0
"""Writers hold the lock for milliseconds; whoever waits that long waits for a process that does not
run.
"""

OPEN_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Of files beside the database, too: no link is followed, and a FIFO is not waited for."""

_SUFFIXES = ("", "-wal", "-shm")
"""Of the database, and of the files that SQLite keeps beside it."""


class StateFile:
    """One connection to the file. Reads that fail find nothing; writes that fail say so in
    `problem`.
    """

    def __init__(self, folder: str, patience_s: float = PATIENCE_S) -> None:
        """`patience_s`: how long a lock of another process is waited for."""
        self.folder = folder
        self._patience_s = patience_s
        self.path = os.path.join(folder, NAME)
        self.problem = ""
        """What is wrong with the file, as a sentence for people; "" as long as nothing is."""
        self._is_unwritable = False  # it could not be written once, and is not waited for again
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._opened_inode = (0, 0)  # of the file that the connection has open

    def read(self, sql: str, *values: object) -> list[Any]:
        """The rows of a query; [] if the file cannot be read, or is not there yet."""
        with self._lock:
            if self._connection is None and (self._is_unwritable or not os.path.lexists(self.path)):
                return []
            return (
                self._attempt(lambda connection: connection.execute(sql, values).fetchall()) or []
            )

    def change(self, action: Callable[[sqlite3.Connection], object]) -> bool:
        """Carry out `action` in one transaction; whether it is in the file now."""

        def transaction(connection: sqlite3.Connection) -> bool:
            connection.execute("BEGIN IMMEDIATE")
            action(connection)
            connection.execute("COMMIT")
            return True

        with self._lock:
            if self._is_unwritable:
                return False
            try:
                return self._attempt(transaction) or False
            except BaseException:
                self.close()  # rolls back
                raise

    def copied(self) -> bytes:
        """The bytes of the whole file; b"" if it cannot be read, or is not there yet."""
        with self._lock:
            if self._connection is None and not os.path.lexists(self.path):
                return b""
            return self._attempt(_serialize) or b""

    def begin_with(self, copy: bytes) -> None:
        """Make the file, of these bytes. OSError: there is one."""
        os.makedirs(self.folder, exist_ok=True)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN_FLAGS, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(copy)

    def close(self) -> None:
        """Close the connection, if there is one; what is not committed is gone."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __del__(self) -> None:
        self.close()  # a connection is part of a cycle, so that its descriptors would stay for a while

    def _attempt(self, action: Callable[[sqlite3.Connection], T]) -> T | None:
        """What `action` gives; None if the file cannot be used. After a damaged file a new one is
        tried.
        """
        try:
            try:
                return action(self._connected())
            except (sqlite3.Error, UnicodeDecodeError) as error:
                if not (damage := _damage(error)):
                    raise
                self._put_aside(damage)
                return action(self._connected())
        except (OSError, sqlite3.Error) as error:
            self._note_failure(error)
            return None

    def _connected(self) -> sqlite3.Connection:
        """The connection, opened if need be. OSError, sqlite3.Error."""
        if self._connection is not None and _inode(self.path) != self._opened_inode:
            self.close()  # another process has put the file aside
        if self._connection is None:
            os.makedirs(self.folder, exist_ok=True)
            _require_kind(self.folder, stat.S_ISDIR)
            # SQLite opens -wal by its name, so the file must not be renamed before that.
            with self._folder_locked(fcntl.LOCK_SH):
                self._opened_inode = _make_file(self.path)
                self._connection = sqlite3.connect(
                    self.path,
                    timeout=self._patience_s,
                    isolation_level=None,
                    check_same_thread=False,
                )
                try:
                    make_missing_tables(self._connection)
                    self._connection.execute("PRAGMA synchronous = NORMAL")
                except BaseException as error:
                    if not _damage(error):
                        self.close()
                    raise
        return self._connection

    def _folder_locked(self, kind: int) -> AbstractContextManager[None]:
        """The lock of the folder: shared by who opens the file, held alone by who renames it.
        OSError.
        """
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return hold_lock(descriptor, time.monotonic() + self._patience_s, kind)

    def _put_aside(self, damage: str) -> None:
        """Rename the damaged file, unless another process has done so, and say what that means.
        OSError.
        """
        new_name = f"{NAME}.damaged-{format_stamp(datetime.now(UTC))}"
        try:
            with self._folder_locked(fcntl.LOCK_EX):
                if _inode(self.path) != self._opened_inode:
                    return  # another process was faster, and what it has begun is not damaged
                for suffix in _SUFFIXES:
                    with suppress(FileNotFoundError):
                        os.rename(self.path + suffix, os.path.join(self.folder, new_name + suffix))
        except OSError as error:
            reason = f"{damage}; {error.strerror} when it was to be renamed: delete {self.path}* to begin a new one"
            raise OSError(0, reason) from error
        finally:
            self.close()  # not before: SQLite empties -wal, and deletes it, when a file that has its name is closed
        _warn(
            f"{self.path} was damaged ({damage}), so a new one was begun: overrides, labels, records of git's hooks, "
            "cached answers, the day's spending and what captured sessions wrote are lost, recorded runs are not. "
            f"The old one is now {new_name}: delete it when you need nothing from it."
        )

    def _note_failure(self, error: OSError | sqlite3.Error) -> None:
        """After a failure the file is only read. sqlite3.Error: the statement is wrong, not the
        file.
        """
        if self._connection is not None and self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
        is_refused_statement = isinstance(error, sqlite3.Error) and _is_refused_statement(error)
        if is_refused_statement and (
            self._connection is None or has_every_column(self._connection)
        ):
            raise error
        self._is_unwritable = True
        reason = str(getattr(error, "strerror", None) or error)
        advice = (
            f" It is damaged: delete {self.path}* to begin a new one."
            if is_refused_statement
            else ""
        )
        self.problem = (
            f"{self.path} cannot be used ({reason}); nothing of this run is kept there.{advice}"
        )


def _serialize(connection: sqlite3.Connection) -> bytes:
    """A database as a file that no journal belongs to."""
    with closing(sqlite3.connect(":memory:")) as copy:
        connection.backup(copy)
        return copy.serialize()


def _damage(error: BaseException) -> str:
    """What is wrong with a file that is not a database, or not a whole one; "" of any other
    error.
    """
    if isinstance(error, UnicodeDecodeError) or str(error).startswith("Could not decode to UTF-8"):
        return "a text in it is not UTF-8"  # of its schema, or of a row
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    if code & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return ""
    return str(error)


def _is_refused_statement(error: sqlite3.Error) -> bool:
    """Whether Python's module or SQLite refused the statement itself, before the file was read or
    written.
    """
    code = getattr(
        error, "sqlite_errorcode", sqlite3.SQLITE_ERROR
    )  # the module's own errors carry no code
    return code & 0xFF == sqlite3.SQLITE_ERROR


def _warn(sentence: str) -> None:
    """Log a warning; Python shows it on stderr unless the program has configured logging."""
    import logging  # 5 ms that every other start saves

    logging.getLogger("vibe_gate").warning("vibe-gate: %s", safe(sentence))


def _inode(path: str) -> tuple[int, int]:
    """Which file has this name; (0, 0) if none has. OSError."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return 0, 0
    return status.st_dev, status.st_ino


def _require_kind(path: str, is_kind: Callable[[int], bool]) -> None:
    """OSError if there is a link, or something else."""
    if not is_kind(os.lstat(path).st_mode):
        raise OSError(0, f"{path} is a link, or something else")


def _make_file(path: str) -> tuple[int, int]:
    """As `_inode`, of a regular file, made if it is missing. OSError."""
    if not os.path.lexists(path):
        # Never closed before the first connection is: closing any descriptor of it would drop
        # SQLite's locks.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o600))
    _require_kind(path, stat.S_ISREG)
    return _inode(path)
