"""What the scripts of `scripts.py` know of the index and of the last review: files whose names say it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_KNOWN = ("index", "proven", "idle", "passed")
"""Begin the names of what is known of the index; without it the hooks look anew."""

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


def forget(state: Path) -> None:
    """Take away what the hooks know of the index: what is staged now is another matter."""
    with suppress(OSError), _opened(state) as folder:
        for name in _names(folder):
            if name.partition(".")[0] in _KNOWN:
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)


def mark_passed(state: Path, process: int, tree: str, index: IndexFile | None) -> None:
    """Leave word for the hooks that the same git process runs later, as sh reads it. Without it they look anew.

    One line: the process, by number and start, the tree, and "index" where the index file that it was read
    from is linked beside.
    """
    part = f"passed.{process}"
    with suppress(OSError), _opened(state) as folder:
        linked = " index" if index is not None and index.link(f"index.{process}", folder) else ""
        new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CAREFULLY
        with open(os.open(part, new, 0o644, dir_fd=folder), "w", encoding="ascii") as file:
            file.write(f"{life(process)} {tree}{linked}\n")
        os.replace(part, "passed", src_dir_fd=folder, dst_dir_fd=folder)


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
