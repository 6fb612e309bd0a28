"""What several processes share: one SQLite file, `<common git dir>/vibe-gate/state.db`. The only importer of sqlite3.

    run_index      what lists say of runs; rebuilt from the bundles when it is not there or not right
    run_extracts   what figures about many runs take of each; made with the first, and rebuilt, too
    hook_records   what git's hooks saw
    overrides      what people let pass in this clone
    labels         what people say of findings, right or wrong; made with the first one
    answers        what a model answered
    spending       USD by day
    captured_blobs, captured_times   what captured sessions wrote, and when; the second is made with its first row
    worktree_tops                    where linked worktrees are or were; made with its first row
    applied_writes   what our own agents wrote, by `--apply`; made with the first
    line_key       the key of the digests of lines that captured sessions wrote; made with the first
    begun          which runs and sessions began in this clone (begun.py); made with the first

A file that is locked, read-only, on a full disk or written by another version is left as it is, and `State.problem`
says that this process writes nothing there. Only records and overrides that are not written raise. A damaged file is
renamed, a warning in the log of `vibe_gate` says so, and a new one is begun. A commit is never blocked by it.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import math
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from vibe_gate.domain.document import decode, to_json
from vibe_gate.domain.escape import safe
from vibe_gate.domain.gate import Override
from vibe_gate.domain.label import ON_FORGE, Label, newest
from vibe_gate.domain.provenance import Mark, Record
from vibe_gate.errors import StorageError
from vibe_gate.store.begun import BegunHere
from vibe_gate.store.folder import Folder
from vibe_gate.store.log import Lock, locked
from vibe_gate.store.names import stamp

if TYPE_CHECKING:
    from vibe_gate.store.shared import SharedStore

T = TypeVar("T")

FOLDER = "vibe-gate"
"""Of everything that vibe-gate keeps in the common git directory."""

NAME = "state.db"

MARKS = "unrecorded"
"""Folder of what sh left to be recorded: files `COMMAND.OLD.NEW`, which list the variables of agents that were set."""

CLAIMS = "asking"
"""Folder of the questions that are being asked just now, a locked file each."""

PATIENCE_S = 3.0
"""Writers hold the lock for milliseconds; whoever waits that long waits for a process that does not run."""

MAX_ANSWER_AGE_S = 90 * 86_400
"""An older answer is asked for again: models change behind their names."""

MAX_ANSWERS = 5_000
"""Answers beyond this go, oldest first; at a few KB each, some tens of MB at most."""

MAX_PACKED = 2_000
"""Answers that travel: many rounds of a pull request, and of replays before it; some MB."""

_SCHEMA = 3
"""In the file's header; 0 of an empty file."""

_TABLES = """
CREATE TABLE run_keys (store TEXT, key TEXT, ctime INTEGER, data TEXT, PRIMARY KEY (store, key)) WITHOUT ROWID;
CREATE TABLE hook_records (id INTEGER PRIMARY KEY, commit_id TEXT, tree TEXT, old TEXT, line TEXT);
CREATE INDEX hook_records_commit ON hook_records (commit_id);
CREATE INDEX hook_records_tree ON hook_records (tree);
CREATE INDEX hook_records_old ON hook_records (old);
CREATE TABLE overrides (id INTEGER PRIMARY KEY, line TEXT);
CREATE TABLE answers (key TEXT PRIMARY KEY, created_at REAL, answer TEXT) WITHOUT ROWID;
CREATE TABLE spending (day TEXT, run_id TEXT, usd REAL, PRIMARY KEY (day, run_id)) WITHOUT ROWID;
CREATE TABLE captured_blobs (session TEXT, blob TEXT, UNIQUE (session, blob));
"""

_CAREFUL = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PARTS = ("", "-wal", "-shm")
"""The database, and the files that SQLite keeps beside it."""


def open_state(common_dir: str | os.PathLike[str]) -> State:
    """The shared state of the repository with this common git directory. Nothing is opened before it is asked."""
    return State(os.fspath(common_dir))


class State:
    """The tables. Threads may share it; close it, or use it as a context manager."""

    def __init__(self, common_dir: str) -> None:
        self.file = StateFile(os.path.join(common_dir, FOLDER))
        self.hook_records = HookRecords(self.file)
        self.overrides = Overrides(self.file)
        self.labels = Labels(self.file)
        self.answers = AnswerCache(self.file)
        self.spending = DaySpending(self.file)
        self.begun = BegunHere(self.file)
        self.shared: SharedStore | None = None

    def share(self, shared: SharedStore) -> None:
        """Share answers through the shared store from here on."""
        self.shared = self.answers.shared = shared

    @property
    def folder(self) -> str:
        """`<common git dir>/vibe-gate`."""
        return self.file.folder

    @property
    def problem(self) -> str:
        """What is wrong with the file, as a sentence for people; "" as long as nothing is."""
        return self.file.problem

    def run_index(self, store: str | os.PathLike[str]) -> RunIndex:
        """The index of the runs below `store`, the absolute path of a `.vibe-artifacts`."""
        return RunIndex(self.file, os.fsdecode(store).encode("utf-8", "backslashreplace").decode())

    def line_key(self, *, make: bool = False) -> bytes:
        """The key of the digests of lines that captured sessions wrote; b"" if there is none. `make` it then."""
        if make and not self.file.change(_make_line_key):
            return b""
        there = self.file.read("SELECT 1 FROM sqlite_master WHERE name = 'line_key'")
        rows = self.file.read("SELECT key FROM line_key") if there else []
        return rows[0][0] if rows and isinstance(rows[0][0], bytes) else b""

    def copied(self) -> bytes:
        """The whole file as it is now, for a copy of the repository; b"" if there is none, or it cannot be read."""
        return self.file.copied()

    def begin_with(self, copy: bytes) -> None:
        """Take the file of another repository, which `copied` gave; there is none here yet. OSError."""
        self.file.begin_with(copy)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class StateFile:
    """One connection to the file. Reads that fail find nothing; writes that fail say so in `problem`."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.path = os.path.join(folder, NAME)
        self.problem = ""
        self._unwritten = False  # it could not be written once, and is not waited for again
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._inode = (0, 0)  # of the file that the connection has open

    def read(self, sql: str, *values: object) -> list[Any]:
        """The rows of a query; [] if the file cannot be read, or is not there yet."""
        with self._lock:
            if self._connection is None and (self._unwritten or not os.path.lexists(self.path)):
                return []
            return self._attempt(lambda connection: connection.execute(sql, values).fetchall()) or []

    def change(self, action: Callable[[sqlite3.Connection], object]) -> bool:
        """Carry out `action` in one transaction; whether it is in the file now."""

        def transaction(connection: sqlite3.Connection) -> bool:
            connection.execute("BEGIN IMMEDIATE")
            action(connection)
            connection.execute("COMMIT")
            return True

        with self._lock:
            if self._unwritten:
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
            return self._attempt(_whole) or b""

    def begin_with(self, copy: bytes) -> None:
        """Make the file, of these bytes. OSError: there is one."""
        os.makedirs(self.folder, exist_ok=True)
        with os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CAREFUL, 0o600), "wb") as file:
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
        """What `action` gives; None if the file cannot be used. After a damaged file a new one is tried."""
        try:
            try:
                return action(self._connected())
            except (sqlite3.Error, UnicodeDecodeError) as error:
                if not (damage := _damage(error)):
                    raise
                self._put_aside(damage)
                return action(self._connected())
        except (OSError, sqlite3.Error) as error:
            self._note(error)
            return None

    def _connected(self) -> sqlite3.Connection:
        """The connection, opened if need be. OSError, sqlite3.Error."""
        if self._connection is not None and _inode(self.path) != self._inode:
            self.close()  # another process has put the file aside
        if self._connection is None:
            os.makedirs(self.folder, exist_ok=True)
            _require(self.folder, stat.S_ISDIR)
            # SQLite opens -wal by its name, so the file must not be renamed before that.
            with self._locked(fcntl.LOCK_SH):
                self._inode = _own_file(self.path)
                self._connection = sqlite3.connect(
                    self.path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False
                )
                try:
                    _prepare(self._connection)
                except BaseException as error:
                    if not _damage(error):
                        self.close()
                    raise
        return self._connection

    def _locked(self, kind: int) -> AbstractContextManager[None]:
        """The lock of the folder: shared by who opens the file, held alone by who renames it. OSError."""
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return locked(folder, time.monotonic() + PATIENCE_S, kind)

    def _put_aside(self, damage: str) -> None:
        """Rename the damaged file, unless another process has done so, and say what that means. OSError."""
        aside = f"{NAME}.damaged-{stamp(datetime.now(UTC))}"
        try:
            with self._locked(fcntl.LOCK_EX):
                if _inode(self.path) != self._inode:
                    return  # another process was faster, and what it has begun is not damaged
                for part in _PARTS:
                    with suppress(FileNotFoundError):
                        os.rename(self.path + part, os.path.join(self.folder, aside + part))
        except OSError as error:
            why = f"{damage}; {error.strerror} when it was to be renamed: delete {self.path}* to begin a new one"
            raise OSError(0, why) from error
        finally:
            self.close()  # not before: SQLite empties -wal, and deletes it, when a file that has its name is closed
        _warn(
            f"{self.path} was damaged ({damage}), so a new one was begun: overrides, labels, records of git's hooks, "
            "cached answers, the day's spending and what captured sessions wrote are lost, recorded runs are not. "
            f"The old one is now {aside}: delete it when you need nothing from it."
        )

    def _note(self, error: OSError | sqlite3.Error) -> None:
        """After a failure the file is only read. sqlite3.Error: the statement is wrong, not the file."""
        if self._connection is not None and self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
        is_refused_statement = isinstance(error, sqlite3.Error) and _is_refused_statement(error)
        if is_refused_statement and (self._connection is None or _has_its_tables(self._connection)):
            raise error
        self._unwritten = True
        reason = str(getattr(error, "strerror", None) or error)
        advice = f" It is damaged: delete {self.path}* to begin a new one." if is_refused_statement else ""
        self.problem = f"{self.path} cannot be used ({reason}); nothing of this run is kept there.{advice}"


def _make_line_key(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS line_key (id INTEGER PRIMARY KEY CHECK (id = 1), key BLOB)")
    connection.execute("INSERT OR IGNORE INTO line_key VALUES (1, ?)", (os.urandom(32),))


def _whole(connection: sqlite3.Connection) -> bytes:
    """A database as a file that no journal belongs to."""
    with closing(sqlite3.connect(":memory:")) as copy:
        connection.backup(copy)
        return copy.serialize()


def _damage(error: BaseException) -> str:
    """What is wrong with a file that is not a database, or not a whole one; "" of any other error."""
    if isinstance(error, UnicodeDecodeError) or str(error).startswith("Could not decode to UTF-8"):
        return "a text in it is not UTF-8"  # of its schema, or of a row
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return str(error) if code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) else ""


def _is_refused_statement(error: sqlite3.Error) -> bool:
    """Whether Python's module or SQLite refused the statement itself, before the file was read or written."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)  # the module's own errors carry no code
    return code & 0xFF == sqlite3.SQLITE_ERROR


def _has_its_tables(connection: sqlite3.Connection) -> bool:
    """Whether every table of `_TABLES` is in the file, in the form in which it was created."""
    try:
        rows = connection.execute("SELECT sql FROM sqlite_master").fetchall()
    except sqlite3.Error:
        return False
    present_statements = {sql for (sql,) in rows}
    wanted_statements = {statement.strip() for statement in _TABLES.split(";") if statement.strip()}
    return wanted_statements <= present_statements


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


def _require(place: str, is_kind: Callable[[int], bool]) -> None:
    """OSError if there is a link, or something else."""
    if not is_kind(os.lstat(place).st_mode):
        raise OSError(0, f"{place} is a link, or something else")


def _own_file(path: str) -> tuple[int, int]:
    """As `_inode`, of a regular file, made if it is missing. OSError."""
    if not os.path.lexists(path):
        # Never closed before the first connection is: closing any descriptor of it would drop SQLite's locks.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | _CAREFUL, 0o600))
    _require(path, stat.S_ISREG)
    return _inode(path)


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the tables if they are missing. OSError, sqlite3.Error."""
    if _version(connection) != _SCHEMA:
        _make(connection)
    connection.execute("PRAGMA synchronous = NORMAL")


def _version(connection: sqlite3.Connection) -> int:
    ((version,),) = connection.execute("PRAGMA user_version")
    return int(version)


def _make(connection: sqlite3.Connection) -> None:
    """Create the tables in an empty file, unless another process just does. OSError, sqlite3.Error."""
    connection.execute("PRAGMA journal_mode = WAL")  # stays as it was where the file system shares no memory
    connection.execute("BEGIN IMMEDIATE")
    version = _version(connection)
    if version not in (0, _SCHEMA):
        raise OSError(0, "another version of vibe-gate wrote it: upgrade this one, or move the file away")
    if version == 0:
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_SCHEMA}")
    connection.execute("COMMIT")


class _Table:
    """Methods of one subject of the file."""

    def __init__(self, file: StateFile) -> None:
        self._file = file

    def _add(self, what: str, into: str, *values: str) -> None:
        """Insert a row. StorageError, beginning with `what` it is."""
        self._write(what, f"INSERT INTO {into}", *values)

    def _write(self, what: str, sql: str, *values: str) -> None:
        if not self._file.change(lambda db: db.execute(sql, values)):
            raise StorageError(f"{what} was not recorded: {self._file.problem}")


class RunIndex(_Table):
    """Rows about the runs of one store, for whoever looks at the store itself."""

    def __init__(self, file: StateFile, store: str) -> None:
        super().__init__(file)
        self._store = store

    def folders(self) -> dict[str, tuple[int, str]]:
        """Folder of a key -> its ctime in ns when it was looked into, and what its runs are."""
        rows = self._file.read("SELECT key, ctime, data FROM run_keys WHERE store = ?", self._store)
        return {row[0]: (row[1], row[2]) for row in rows if [*map(type, row)] == [str, int, str]}  # else damaged

    def update(self, keys: Mapping[str, tuple[int, str]], gone: Iterable[str]) -> None:
        """Put the folders that were looked into, and forget those that are gone, in one transaction."""
        store = self._store

        def action(connection: sqlite3.Connection) -> None:
            delete = "DELETE FROM run_keys WHERE store = ? AND key = ?"
            connection.executemany(delete, ((store, key) for key in gone))
            insert = "INSERT OR REPLACE INTO run_keys VALUES (?, ?, ?, ?)"
            connection.executemany(insert, ((store, key, *about) for key, about in keys.items()))

        self._file.change(action)

    _EXTRACTS = """CREATE TABLE IF NOT EXISTS run_extracts
        (store TEXT, place TEXT, form INTEGER, ctime INTEGER, data TEXT, PRIMARY KEY (store, place)) WITHOUT ROWID"""

    def extracts(self, form: int) -> dict[str, tuple[int, str]]:
        """Place of a run -> its folder's ctime in ns when this was made of its summary, and the text, in that form."""
        sql = "SELECT place, ctime, data FROM run_extracts WHERE store = ? AND form = ?"
        there = self._file.read("SELECT 1 FROM sqlite_master WHERE name = 'run_extracts'")
        rows = self._file.read(sql, self._store, form) if there else []
        return {row[0]: (row[1], row[2]) for row in rows if [*map(type, row)] == [str, int, str]}  # else damaged

    def put_extracts(self, form: int, made: Mapping[str, tuple[int, str]], gone: Iterable[str]) -> None:
        """Put texts by place, and forget those of runs that are gone, in one transaction."""
        store = self._store

        def action(connection: sqlite3.Connection) -> None:
            connection.execute(self._EXTRACTS)
            delete = "DELETE FROM run_extracts WHERE store = ? AND place = ?"
            connection.executemany(delete, ((store, place) for place in gone))
            insert = "INSERT OR REPLACE INTO run_extracts VALUES (?, ?, ?, ?, ?)"
            connection.executemany(insert, ((store, place, form, *about) for place, about in made.items()))

        self._file.change(action)


class HookRecords(_Table):
    """What git's hooks saw, oldest first. Damaged records are skipped."""

    def append(self, record: Record) -> None:
        """Add a record. StorageError."""
        row = (record.commit, record.tree, record.old, record.to_line())
        self._add(f"The {record.stage} hook", "hook_records (commit_id, tree, old, line) VALUES (?, ?, ?, ?)", *row)

    def all(self) -> list[Record]:
        """Every record."""
        return self._select("SELECT line FROM hook_records ORDER BY id")

    def marks(self) -> list[Mark]:
        """What sh left to be recorded, oldest first."""
        folder = os.path.join(self._file.folder, MARKS)
        try:
            names = [] if os.path.islink(folder) else os.listdir(folder)
        except OSError:
            return []
        marks = [mark for name in names if (mark := _mark(os.path.join(folder, name)))]
        return sorted(marks, key=lambda mark: (mark.ts, mark.command, mark.old, mark.new))

    def unmark(self, marks: Iterable[Mark]) -> None:
        """Delete the marks of what is recorded now."""
        for mark in marks:
            with suppress(OSError):
                os.unlink(os.path.join(self._file.folder, MARKS, f"{mark.command}.{mark.old}.{mark.new}"))

    def about(self, name: str) -> list[Record]:
        """The records that name this tree or commit id."""
        if not name:
            return []
        sql = "SELECT line FROM hook_records WHERE commit_id = ? OR tree = ? OR old = ? ORDER BY id"
        return self._select(sql, name, name, name)

    def _select(self, sql: str, *values: str) -> list[Record]:
        return list(_parsed(Record.from_line, self._file.read(sql, *values)))


def _mark(path: str) -> Mark | None:
    with suppress(OSError), open(os.open(path, os.O_RDONLY | _CAREFUL), encoding="ascii", errors="replace") as file:
        return Mark.from_file(os.path.basename(path), os.fstat(file.fileno()).st_mtime, file.read(1_000))
    return None


def _parsed(read: Callable[[str], T], rows: Iterable[tuple[str]]) -> Iterator[T]:
    """What the lines say; one that is damaged, or of another version, is skipped."""
    for (line,) in rows:
        with suppress(ValueError, TypeError, RecursionError):
            yield read(line)


class Overrides(_Table):
    """What people let pass in this clone. It does not travel, and CI has none."""

    def append(self, override: Override) -> None:
        """Add an override. StorageError."""
        self._add("The override", "overrides (line) VALUES (?)", to_json(override))

    def remove(self, finding: str) -> None:
        """Take back every override of a finding. StorageError."""
        self._write("The override", "DELETE FROM overrides WHERE json_extract(line, '$.finding') = ?", finding)

    def all(self) -> tuple[Override, ...]:
        """Every override, oldest first; damaged ones are skipped: nothing passes by them."""
        rows = self._file.read("SELECT line FROM overrides ORDER BY id")
        return tuple(_parsed(lambda line: decode(Override, line), rows))


class Labels(_Table):
    """What people say of findings. Files of older versions have no such table until there is a label."""

    _TABLE = "CREATE TABLE IF NOT EXISTS labels (id INTEGER PRIMARY KEY, line TEXT)"

    def append(self, *labels: Label) -> None:
        """Add labels in one transaction. StorageError."""
        self._replace((), labels)

    def remove(self, finding: str) -> None:
        """Take back every label of a finding. StorageError."""
        self._replace(("DELETE FROM labels WHERE json_extract(line, '$.finding') = ?", finding), ())

    def put_from_forge(self, labels: Sequence[Label]) -> None:
        """Have these labels of the forge, and no earlier ones: what was taken back there is gone. StorageError."""
        if not labels and not self.from_forge():
            return
        delete = "DELETE FROM labels WHERE json_extract(line, '$.source') IN (SELECT value FROM json_each(?))"
        self._replace((delete, json.dumps(ON_FORGE)), labels)

    def from_forge(self) -> tuple[Label, ...]:
        """As `all`, of those that stand on the forge."""
        return newest(one for one in self._each() if one.source in ON_FORGE)

    def _replace(self, delete: Sequence[str], labels: Iterable[Label]) -> None:
        def action(db: sqlite3.Connection) -> None:
            db.execute(self._TABLE)
            if delete:
                db.execute(delete[0], delete[1:])
            db.executemany("INSERT INTO labels (line) VALUES (?)", ((to_json(label),) for label in labels))

        if not self._file.change(action):
            raise StorageError(f"The label was not recorded: {self._file.problem}")

    def all(self) -> tuple[Label, ...]:
        """The newest label of each finding and rubric, oldest first; damaged ones are skipped."""
        return newest(self._each())

    def _each(self) -> Iterator[Label]:
        there = self._file.read("SELECT 1 FROM sqlite_master WHERE name = 'labels'")
        rows = self._file.read("SELECT line FROM labels ORDER BY id") if there else []
        return _parsed(lambda line: decode(Label, line), rows)


class AnswerCache(_Table):
    """Answers of models that were paid for, by the digest of their question (hex).

    Whoever can write the git directory can write answers, which is why a verdict that must bind is decided in CI.
    """

    _UNSHARED = "CREATE TABLE IF NOT EXISTS unshared (key TEXT PRIMARY KEY)"
    """Keys of answers that could not be shared; there is no such table until there is one."""

    def __init__(self, file: StateFile) -> None:
        super().__init__(file)
        self._claims: dict[str, Lock] = {}
        self.shared: SharedStore | None = None
        self._recalled: dict[str, dict[str, Any]] = {}

    def fetch(self, keys: Iterable[str], now: datetime) -> None:
        """Keep here what the shared store, if there is one, knows and this clone does not."""
        if self.shared is None:
            return
        found = self.shared.answers([key for key in dict.fromkeys(keys) if self.get(key, now) is None])
        rows = [(one.key, one.created_at, json.dumps(one.answer)) for one in found.values()]
        if rows:
            self._file.change(lambda db: db.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", rows))

    def recall(self, answers: Mapping[str, dict[str, Any]]) -> None:
        """Give these, too, where none is kept, as long as this is open. Nothing of them is written: a bundle says them,
        which somebody else may have made."""
        self._recalled |= answers

    def get(self, key: str, now: datetime) -> dict[str, Any] | None:
        """The answer kept under `key`; None if there is none, or it is too old."""
        oldest = now.timestamp() - MAX_ANSWER_AGE_S
        rows = self._file.read("SELECT answer FROM answers WHERE key = ? AND created_at >= ?", key, oldest)
        try:
            answer = json.loads(rows[0][0]) if rows else self._recalled.get(key)
        except (ValueError, TypeError, RecursionError):
            return None
        return answer if isinstance(answer, dict) else None

    def put(self, key: str, answer: Mapping[str, Any], now: datetime, *, private: bool = False) -> str:
        """Keep an answer, and share it if there is a shared store, unless it is `private`. "", or why it could not be
        kept."""
        if key in self._recalled:
            return ""
        row = (key, now.timestamp(), json.dumps(answer))
        kept = self._file.change(lambda db: db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", row))
        if self.shared is not None and not private and not self.shared.put(key, answer, now.timestamp()):
            self._note_unshared(key)
        return "" if kept else self._file.problem

    def _note_unshared(self, key: str) -> None:
        def action(db: sqlite3.Connection) -> None:
            db.execute(self._UNSHARED)
            db.execute("INSERT OR IGNORE INTO unshared VALUES (?)", (key,))

        self._file.change(action)

    def push(self, shared: SharedStore) -> tuple[int, int]:
        """Share the answers that could not be shared when they were given; how many were, and how many are left."""
        there = self._file.read("SELECT 1 FROM sqlite_master WHERE name = 'unshared'")
        sql = "SELECT key, created_at, answer FROM answers JOIN unshared USING (key) ORDER BY created_at"
        rows = self._file.read(sql) if there else []
        done = [(key,) for key, at, answer in rows if shared.put(key, json.loads(answer), at)]
        if done:
            self._file.change(lambda db: db.executemany("DELETE FROM unshared WHERE key = ?", done))
        return len(done), len(rows) - len(done)

    def pack(self, secret: str) -> bytes:
        """The newest answers for another machine, behind a code that nobody makes without `secret`; b"" if none."""
        sql = "SELECT key, created_at, answer FROM answers ORDER BY created_at DESC, key LIMIT ?"
        rows = self._file.read(sql, MAX_PACKED)
        body = json.dumps(rows).encode()
        return _code(body, secret) + body if rows else b""

    def unpack(self, packed: bytes, secret: str) -> bool:
        """Begin anew with packed answers; False, and with none, if their code is not of `secret`."""
        size = len(_code(b"", secret))
        genuine = hmac.compare_digest(packed[:size], _code(packed[size:], secret))
        rows = json.loads(packed[size:]) if genuine else []

        def action(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM answers")
            db.executemany("INSERT INTO answers VALUES (?, ?, ?)", rows)

        self._file.change(action)
        return genuine

    def claim(self, keys: Iterable[str], seconds: float = 0.0, private: Collection[str] = ()) -> bool:
        """Be the only one who asks these questions until `release`; False if another run asks one just now.

        A claim is a locked file, so it ends with the process; in a shared store it ends after `seconds` at the latest.
        Nothing of `private` keys goes there. Does not wait. True also if no claim can be made: then a question may be
        paid for twice.
        """
        wanted = sorted(set(keys))
        try:
            folder = Folder.at(Path(self._file.folder).parent).folder(FOLDER, create=True).folder(CLAIMS, create=True)
            for key in wanted:
                self._claims[key] = Lock(folder, key)
        except BlockingIOError:
            self.release(wanted[: wanted.index(key)])
            return False
        except OSError:
            pass
        if self.shared is None or self.shared.claim([key for key in wanted if key not in private], seconds):
            return True
        self.release(wanted)
        return False

    def release(self, keys: Iterable[str]) -> None:
        """Give up this run's claims."""
        keys = list(keys)
        if self.shared is not None:
            self.shared.release(keys)
        for key in keys:
            if lock := self._claims.pop(key, None):
                with suppress(OSError):
                    os.unlink(os.path.join(self._file.folder, CLAIMS, key))
                lock.release()

    def prune(self, now: datetime) -> None:
        """Remove answers that are too old or too many."""
        newest = "SELECT key FROM answers ORDER BY created_at DESC LIMIT ?"

        def action(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM answers WHERE created_at < ?", (now.timestamp() - MAX_ANSWER_AGE_S,))
            db.execute(f"DELETE FROM answers WHERE key NOT IN ({newest})", (MAX_ANSWERS,))  # noqa: S608

        self._file.change(action)


class DaySpending(_Table):
    """What the runs of this repository spend, its worktrees together: USD by day (UTC)."""

    def add(self, usd: float, run_id: str, now: datetime) -> str:
        """Count what an answer of a run has cost; a correction may be negative. "", or why it is not counted."""
        if not usd or not math.isfinite(usd):
            return ""
        sql = "INSERT INTO spending VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET usd = usd + excluded.usd"
        counted = self._file.change(lambda db: db.execute(sql, (_day(now), run_id, usd)))
        return "" if counted else self._file.problem

    def spent(self, now: datetime) -> float:
        """USD of all runs on the day of `now`."""
        ((usd,),) = self._file.read("SELECT sum(usd) FROM spending WHERE day = ?", _day(now)) or [(None,)]
        return max(usd, 0.0) if isinstance(usd, float) else 0.0

    def of_run(self, run_id: str) -> float:
        """USD of one run until now."""
        ((usd,),) = self._file.read("SELECT sum(usd) FROM spending WHERE run_id = ?", run_id) or [(None,)]
        return max(usd, 0.0) if isinstance(usd, float) else 0.0


def _code(body: bytes, secret: str) -> bytes:
    return hmac.digest(f"vibe-gate answers 1\0{secret}".encode(), body, "sha256").hex().encode()


def _day(now: datetime) -> str:
    return now.isoformat()[:10]
