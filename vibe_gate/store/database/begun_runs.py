"""Which runs and sessions began in this clone: only those are gone on with.

A store's folder can be unpacked, copied or edited, so nothing in it says where it came from. This
table is in the git directory, where none of that reaches.
"""

from __future__ import annotations

from collections.abc import Collection

from vibe_gate.domain.begun_run import BegunRun
from vibe_gate.store.database.state_table import StateTable

_SESSION = "session/"


class BegunRuns(StateTable):
    """The table. Names are run ids and, behind `session/`, ids of sessions."""

    def note_run(self, run_id: str, worktree: str = "", request: str = "") -> None:
        """Note that the run began here. If that cannot be written, nobody can resume it."""
        self._put(run_id, worktree, request)

    def note_session(self, session: str) -> None:
        """Note that the session began, or was taken over, here."""
        self._put(_SESSION + session, "", "")

    def forget_runs(self, run_ids: Collection[str]) -> None:
        """Delete what is noted of runs that were deleted."""
        rows = [(run_id,) for run_id in run_ids]
        sql = "DELETE FROM begun WHERE name = ?"
        if rows:
            self._file.change(lambda connection: connection.executemany(sql, rows))

    def runs(self) -> dict[str, BegunRun]:
        """The runs that began here, by id."""
        rows = self._file.read(
            "SELECT name, worktree, request FROM begun WHERE name NOT LIKE 'session/%'"
        )
        return {name: BegunRun(worktree, request) for name, worktree, request in rows}

    def has_session(self, session: str) -> bool:
        """Whether the session began here."""
        return bool(self._file.read("SELECT 1 FROM begun WHERE name = ?", _SESSION + session))

    def _put(self, *row: str) -> None:
        sql = "INSERT OR REPLACE INTO begun VALUES (?, ?, ?)"
        self._file.change(lambda connection: connection.execute(sql, row))
