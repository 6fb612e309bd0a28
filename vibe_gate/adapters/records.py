"""What git's hooks saw: `<common git dir>/vibe-gate/records.ndjson`, one line a record, only ever appended to.

The common git directory is shared by all worktrees of a repository. Damaged and
foreign lines are skipped: no hook may fail because of what another one wrote.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from vibe_gate.domain.record import Record
from vibe_gate.errors import StorageError

NAME = "records.ndjson"

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

    def link(self, target: Path) -> bool:
        """Make `target` a second name of the file; False where it is another file by now, or cannot have one."""
        try:
            target.unlink(missing_ok=True)
            target.hardlink_to(self.path)
        except OSError:
            return False
        return _identity(target) == self.before


def _identity(path: Path) -> tuple[int, int, int, int] | None:
    try:
        found = path.lstat()
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
            descriptor = os.open(self.path, flags, 0o644)
            try:
                _regular(descriptor)
                begin = _mended(descriptor) if _locked(descriptor) else b"\n"
                os.write(descriptor, begin + record.to_line())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StorageError(f"{self.path} could not be written: {error.strerror}.") from error

    def mark_passed(self, process: int, record: Record, index: IndexFile | None) -> None:
        """Leave `record` for the hooks that the same git process runs later, as sh reads it. Without it they look anew.

        Two lines: the process, by number and start, the tree, and "index" where the index file that it was read
        from is linked beside; the record without its closing brace.
        """
        part = self.path.with_name(f".passed.{process}")
        try:
            linked = " index" if index is not None and index.link(self.path.with_name("index")) else ""
            first = f"{life(process)} {record.tree}{linked}\n".encode()
            part.write_bytes(first + record.to_line().removesuffix(b"}\n") + b"\n")
            part.replace(self.path.with_name("passed"))
        except OSError:
            with suppress(OSError):  # where the folder is none, this fails as well
                part.unlink()

    def all(self) -> list[Record]:
        """Every record, oldest first."""
        return self._read(None)

    def about(self, name: str) -> list[Record]:
        """The records of late that mention an object id (a tree or a commit), oldest first."""
        return self._read(RECENT_BYTES, name.encode()) if name else []

    def _read(self, last: int | None, having: bytes = b"") -> list[Record]:
        try:
            with open(os.open(self.path, os.O_RDONLY | _CAREFULLY), "rb") as file:
                _regular(file.fileno())
                if last is not None:
                    file.seek(max(os.fstat(file.fileno()).st_size - last, 0))
                lines = file.read().split(b"\n")
        except OSError:
            return []
        found = (_parsed(line) for line in lines if having in line and len(line) <= MAX_LINE)
        return [record for record in found if record is not None]


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
