"""What git's hooks saw: `<common git dir>/vibe-gate/records.ndjson`, one line a record, only ever appended to.

The common git directory is shared by all worktrees of a repository. Damaged and
foreign lines are skipped: no hook may fail because of what another one wrote.

Beside it lies what the scripts of `faces/git_hook/scripts.py` know: files whose names
say it, for sh makes new ones only. `linked.COMMIT.TREE` says which commit a reviewed tree
became; it is read as a record, and the next one that is written takes it in.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from vibe_gate.domain.record import Record, let_through
from vibe_gate.errors import StorageError

NAME = "records.ndjson"

LINKED = "linked"
"""Begins the name of a file that links a commit to its tree."""

_KNOWN = ("index", "proven", "idle", "passed")
"""Begin the names of what is known of the index; without it the hooks look anew."""

MAX_LINE = 64_000
"""A longer line is not ours: hints and reasons are sentences."""

RECENT_BYTES = 1_000_000
"""How far back a hook looks for a tree: some thousands of commits, in a few milliseconds."""


PATIENCE_S = 3.0
"""Writers hold the lock for microseconds; whoever waits that long waits for a process that does not run."""

_PAUSE_S = 0.01

_CAREFULLY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""No link is followed, and a pipe in the place of the file keeps nobody waiting."""


@dataclass(frozen=True, slots=True)
class IndexFile:
    """The index file of a commit, and how it was before it was read: device, number, time of writing, size."""

    path: Path
    before: tuple[int, int, int, int]

    @classmethod
    def of(cls, path: Path) -> IndexFile | None:
        """None where there is no such file of its own."""
        identity = _identity(path)
        return None if identity is None else cls(path, identity)

    def link(self, name: str, folder: int) -> bool:
        """Make `name` in the open `folder` a second name of the file; False where it is another one by now, or cannot
        have one."""
        try:
            os.link(self.path, name, dst_dir_fd=folder)
        except OSError:
            return False
        return _identity(name, folder) == self.before


def _identity(path: Path | str, folder: int | None = None) -> tuple[int, int, int, int] | None:
    try:
        found = os.stat(path, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    regular = stat.S_ISREG(found.st_mode)
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size) if regular else None


class Records:
    """The records of one repository."""

    def __init__(self, common_dir: Path) -> None:
        self.path = common_dir / "vibe-gate" / NAME

    def append(self, record: Record) -> None:
        """Add a record: one write of a whole line under a lock. StorageError.

        Where the lock is not to be had, it is written all the same, on a line of its own: whoever holds it must not
        keep what happened from being known, and each write goes to the end at once.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _CAREFULLY
            with _opened(self.path.parent) as folder:
                descriptor = os.open(NAME, flags, 0o644, dir_fd=folder)
            try:
                _regular(descriptor)
                _unnamed_elsewhere(descriptor)
                held = _locked(descriptor)
                begin = _mended(descriptor) if held else b"\n"
                # What is in no line yet stands before this one; two that take it in at once would write it twice.
                linked = self._linked() if held else {}
                os.write(descriptor, begin + b"".join([*(one.to_line() for one in linked.values()), record.to_line()]))
                self._take_away(linked)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StorageError(f"{self.path} could not be written: {error.strerror}.") from error

    def forget(self) -> None:
        """Take away what the hooks know of the index: what is staged now is another matter."""
        with suppress(OSError), _opened(self.path.parent) as folder:
            for name in _names(folder):
                if name.partition(".")[0] in _KNOWN:
                    with suppress(OSError):
                        os.unlink(name, dir_fd=folder)

    def mark_passed(self, process: int, tree: str, index: IndexFile | None) -> None:
        """Leave word for the hooks that the same git process runs later, as sh reads it. Without it they look anew.

        One line: the process, by number and start, the tree, and "index" where the index file that it was read
        from is linked beside.
        """
        part = f"passed.{process}"
        with suppress(OSError), _opened(self.path.parent) as folder:
            linked = " index" if index is not None and index.link(f"index.{process}", folder) else ""
            new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CAREFULLY
            with open(os.open(part, new, 0o644, dir_fd=folder), "w", encoding="ascii") as file:
                file.write(f"{life(process)} {tree}{linked}\n")
            os.replace(part, "passed", src_dir_fd=folder, dst_dir_fd=folder)

    def all(self) -> list[Record]:
        """Every record, oldest first."""
        return self._read(None)

    def about(self, name: str) -> list[Record]:
        """The records of late that mention an object id (a tree or a commit), oldest first."""
        return self._read(RECENT_BYTES, name.encode()) if name else []

    def _linked(self, having: str = "") -> dict[str, Record]:
        """What sh linked and no line says yet, by the names of the files."""
        found: dict[str, Record] = {}
        with suppress(OSError), _opened(self.path.parent) as folder:
            names = [name for name in _names(folder) if name.startswith(f"{LINKED}.") and having in name]
            for name in names:
                commit, _, tree = name.removeprefix(f"{LINKED}.").partition(".")
                if passed := let_through(self._lines(RECENT_BYTES, tree.encode()), tree):
                    found[name] = passed.model_copy(update={"commit": commit})
        return found

    def _take_away(self, names: Iterable[str]) -> None:
        with suppress(OSError), _opened(self.path.parent) as folder:
            for name in names:
                os.unlink(name, dir_fd=folder)

    def _read(self, last: int | None, having: bytes = b"") -> list[Record]:
        linked = self._linked(having.decode())  # first: what is taken in meanwhile is rather told twice than not at all
        return [*self._lines(last, having), *linked.values()]

    def _lines(self, last: int | None, having: bytes = b"") -> list[Record]:
        try:
            with _opened(self.path.parent) as folder:
                descriptor = os.open(NAME, os.O_RDONLY | _CAREFULLY, dir_fd=folder)
            with open(descriptor, "rb") as file:
                _regular(file.fileno())
                if last is not None:
                    file.seek(max(os.fstat(file.fileno()).st_size - last, 0))
                lines = file.read().split(b"\n")
        except OSError:
            return []
        found = (_parsed(line) for line in lines if having in line and len(line) <= MAX_LINE)
        return [record for record in found if record is not None]


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """The folder itself, wherever its name leads later; OSError where that is a link."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _CAREFULLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def life(process: int) -> str:
    """A process by its number and its start (field 22 of /proc/<number>/stat; 0 without it), as sh reads it.

    The number alone comes again: in a new process namespace at once.
    """
    start = "0"
    with suppress(OSError, IndexError):
        start = Path(f"/proc/{process}/stat").read_text("latin-1").rpartition(") ")[2].split()[19]
    return f"{process} {start}"


def _locked(descriptor: int) -> bool:
    """Take the lock, or give up: a process that was stopped while it held the lock may keep it for hours."""
    for _ in range(round(PATIENCE_S / _PAUSE_S)):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(_PAUSE_S)
    return False


def _regular(descriptor: int) -> None:
    """Refuse what is no ordinary file: OSError."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "it is no ordinary file")


def _unnamed_elsewhere(descriptor: int) -> None:
    """Refuse a file with another name, which may be anybody's that was linked here: OSError."""
    if os.fstat(descriptor).st_nlink != 1:
        raise OSError(errno.EMLINK, "it is a hard link of another file")


def _mended(descriptor: int) -> bytes:
    """A newline where the last line was torn, so that it does not take the next one with it."""
    size = os.fstat(descriptor).st_size
    return b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""


def _parsed(line: bytes) -> Record | None:
    if not line.strip():
        return None
    try:
        return Record.model_validate_json(line)
    except ValidationError:
        return None
