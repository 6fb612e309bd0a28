"""Which runs and sessions began in this clone: only those are gone on with.

A store's folder can be unpacked, copied or edited, so nothing in it says where it came from. This table is in the git
directory, where none of that reaches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_gate.domain.begun_run import BegunRun

if TYPE_CHECKING:
    from sqlite3 import Connection

    from vibe_gate.store.state import StateFile

_TABLE = """CREATE TABLE IF NOT EXISTS begun
    (name TEXT PRIMARY KEY, worktree TEXT, request TEXT) WITHOUT ROWID"""

_THERE = "SELECT 1 FROM sqlite_master WHERE name = 'begun'"


class BegunHere:
    """The table; made with its first row. Names are run ids and, behind `session/`, ids of sessions."""

    def __init__(self, file: StateFile) -> None:
        self._file = file

    def note_run(self, run_id: str, worktree: str = "", request: str = "") -> None:
        """Note that the run began here. If that cannot be written, nobody can resume it."""
        self._note(run_id, worktree, request)

    def note_session(self, session: str) -> None:
        """Note that the session began, or was taken over, here."""
        self._note(f"session/{session}", "", "")

    def runs(self) -> dict[str, BegunRun]:
        """The runs that began here, by id."""
        rows = self._rows("SELECT name, worktree, request FROM begun WHERE name NOT LIKE 'session/%'")
        return {name: BegunRun(worktree, request) for name, worktree, request in rows}

    def has_session(self, session: str) -> bool:
        """Whether the session began here."""
        return bool(self._rows("SELECT 1 FROM begun WHERE name = ?", f"session/{session}"))

    def _rows(self, sql: str, *values: str) -> list[tuple[str, ...]]:
        return self._file.read(sql, *values) if self._file.read(_THERE) else []

    def _note(self, name: str, worktree: str, request: str) -> None:
        def insert(connection: Connection) -> None:
            connection.execute(_TABLE)
            connection.execute("INSERT OR REPLACE INTO begun VALUES (?, ?, ?)", (name, worktree, request))

        self._file.change(insert)
