"""What git's hooks saw, and the files in which a hook that is a shell script leaves what is to be
recorded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from vibe_gate.domain.provenance import Mark, Record
from vibe_gate.store.database.state_file import OPEN_FLAGS
from vibe_gate.store.database.state_table import StateTable, parse_rows

MARKS = "unrecorded"
"""Folder of what sh left to be recorded: files `COMMAND.OLD.NEW`, which list the variables of
agents that were set.
"""

_MAX_MARK_BYTES = 1_000


class HookRecords(StateTable):
    """What git's hooks saw, oldest first. Damaged records are skipped."""

    def append(self, record: Record) -> None:
        """Add a record. StorageError."""
        sql = "INSERT INTO hook_records (commit_id, tree, old, line) VALUES (?, ?, ?, ?)"
        subject = f"The {record.stage} hook"
        self._write(subject, sql, record.commit, record.tree, record.old, record.to_line())

    def all(self) -> list[Record]:
        """Every record."""
        return self._select("SELECT line FROM hook_records ORDER BY id")

    def find_records(self, name: str) -> list[Record]:
        """The records that name this tree or commit id."""
        if not name:
            return []
        sql = "SELECT line FROM hook_records WHERE commit_id = ? OR tree = ? OR old = ? ORDER BY id"
        return self._select(sql, name, name, name)

    def _select(self, sql: str, *values: str) -> list[Record]:
        return list(parse_rows(Record.from_line, self._file.read(sql, *values)))

    def marks(self) -> list[Mark]:
        """What sh left to be recorded, oldest first."""
        folder = os.path.join(self._file.folder, MARKS)
        try:
            names = [] if os.path.islink(folder) else os.listdir(folder)
        except OSError:
            return []
        marks = [mark for name in names if (mark := _read_mark(os.path.join(folder, name)))]
        return sorted(marks, key=lambda mark: (mark.ts, mark.command, mark.old, mark.new))

    def unmark(self, marks: Iterable[Mark]) -> None:
        """Delete the marks of what is recorded now."""
        folder = os.path.join(self._file.folder, MARKS)
        for mark in marks:
            with suppress(OSError):
                os.unlink(os.path.join(folder, f"{mark.command}.{mark.old}.{mark.new}"))


def _read_mark(path: str) -> Mark | None:
    """The mark in a file; None if the file cannot be read, or says nothing."""
    try:
        with open(
            os.open(path, os.O_RDONLY | OPEN_FLAGS), encoding="ascii", errors="replace"
        ) as file:
            written_at = os.fstat(file.fileno()).st_mtime
            return Mark.from_file(os.path.basename(path), written_at, file.read(_MAX_MARK_BYTES))
    except OSError:
        return None
