"""What captured sessions wrote: blobs and when, where their worktrees were, and the key of the
digests of lines.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping

from vibe_gate.store.database.state_table import StateTable

_LAST_WRITES = """
SELECT session, blob, at FROM captured_blobs JOIN captured_times USING (session, blob)
ORDER BY captured_blobs.rowid"""

_NOTE_TIME = """
INSERT INTO captured_times VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET at = max(at, excluded.at)"""


class CapturedBlobs(StateTable):
    """Ids of the blobs that captured sessions wrote."""

    def note(self, session: str, written_at: Mapping[str, int]) -> str:
        """Note the blobs of a session, by id when they were written (ms since 1970); twice is once.

        "", or why they could not be noted.
        """
        blob_rows = [(session, blob) for blob in written_at]
        time_rows = [(session, blob, ms) for blob, ms in written_at.items()]

        def action(connection: sqlite3.Connection) -> None:
            connection.executemany("INSERT OR IGNORE INTO captured_blobs VALUES (?, ?)", blob_rows)
            connection.executemany(_NOTE_TIME, time_rows)

        return self._change(action)

    def sessions_by_blob(self) -> dict[str, str]:
        """Blob id -> the session that wrote it."""
        return dict(self._file.read("SELECT blob, session FROM captured_blobs ORDER BY rowid"))

    def last_writes(self) -> dict[str, dict[str, int]]:
        """Blob id -> by each session that wrote it, when it last did, in ms since 1970."""
        writes: dict[str, dict[str, int]] = {}
        for session, blob, ms in self._file.read(_LAST_WRITES):
            writes.setdefault(blob, {})[session] = ms
        return writes

    def forget_all_but(self, sessions: Iterable[str]) -> None:
        """Forget the blobs of sessions that are not among these."""
        session_rows = self._file.read("SELECT DISTINCT session FROM captured_blobs")
        noted_sessions = {session for (session,) in session_rows}
        rows = [(session,) for session in noted_sessions.difference(sessions)]

        def action(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM captured_blobs WHERE session = ?", rows)
            connection.executemany("DELETE FROM captured_times WHERE session = ?", rows)

        if rows:
            self._file.change(action)


class WorktreeTops(StateTable):
    """Where linked worktrees are or were: paths of captured writes lie below them when they are
    gone.
    """

    def note(self, tops: Iterable[str]) -> None:
        """Remember the tops of linked worktrees."""
        new_tops = sorted(set(tops) - self.all())
        if not new_tops:
            return
        rows = [(top,) for top in new_tops]
        sql = "INSERT OR IGNORE INTO worktree_tops VALUES (?)"
        self._file.change(lambda connection: connection.executemany(sql, rows))

    def all(self) -> frozenset[str]:
        """The tops of all linked worktrees that were ever noted."""
        return frozenset(top for (top,) in self._file.read("SELECT top FROM worktree_tops"))


class LineKey(StateTable):
    """The key of the digests of lines that captured sessions wrote, 32 bytes; it never leaves this
    file.
    """

    def read(self) -> bytes:
        """The key; b"" if there is none."""
        rows = self._file.read("SELECT key FROM line_key")
        if rows and isinstance(rows[0][0], bytes):
            return rows[0][0]
        return b""

    def read_or_make(self) -> bytes:
        """The key, made if there is none; b"" if it cannot be written."""
        sql = "INSERT OR IGNORE INTO line_key VALUES (1, ?)"
        new_key = os.urandom(32)
        is_written = self._file.change(lambda connection: connection.execute(sql, (new_key,)))
        if not is_written:
            return b""
        return self.read()  # another process may have been first
