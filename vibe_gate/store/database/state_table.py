"""What the classes of this package have in common."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

from vibe_gate.errors import StorageError
from vibe_gate.store.database.state_file import StateFile

T = TypeVar("T")


class StateTable:
    """A table of the file, or two about one subject."""

    def __init__(self, file: StateFile) -> None:
        self._file = file

    def _change(self, action: Callable[[sqlite3.Connection], object]) -> str:
        """Carry out `action` in one transaction. "", or why it is not in the file."""
        if self._file.change(action):
            return ""
        return self._file.problem

    def _write(self, subject: str, sql: str, *values: str) -> None:
        """Execute a statement. StorageError, beginning with the `subject` that was not recorded."""
        if not self._file.change(lambda connection: connection.execute(sql, values)):
            raise StorageError(f"{subject} was not recorded: {self._file.problem}")


def parse_rows(parse: Callable[[str], T], rows: Iterable[tuple[str]]) -> Iterator[T]:
    """What rows of one text say; one that is damaged, or of another version, is skipped."""
    for (text,) in rows:
        with suppress(ValueError, TypeError, RecursionError):
            yield parse(text)
