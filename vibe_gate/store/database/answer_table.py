"""Answers of models that were paid for, by the digest of their question (hex)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from vibe_gate.store.database.state_table import StateTable

AnswerRow = tuple[str, float, str]
"""The key of a question, when it was answered (seconds since 1970), and the answer as JSON."""


class AnswerTable(StateTable):
    """The answers of this clone, the keys of those that the team's store does not have yet, and of
    those that must not leave the clone.
    """

    def get(self, key: str, oldest: float) -> str:
        """The answer kept under `key`, as JSON; "" if there is none that was given since
        `oldest`.
        """
        sql = "SELECT answer FROM answers WHERE key = ? AND created_at >= ?"
        rows = self._file.read(sql, key, oldest)
        if rows and isinstance(rows[0][0], str):
            return rows[0][0]
        return ""

    def writing_problem(self) -> str:
        """Why answers cannot be kept just now; "" if they can."""
        sql = "DELETE FROM answers WHERE key = ''"
        return self._change(lambda connection: connection.execute(sql))

    def put(self, rows: Iterable[AnswerRow]) -> str:
        """Keep answers in place of those with their keys. "", or why they could not be kept."""
        sql = "INSERT OR REPLACE INTO answers VALUES (?, ?, ?)"
        return self._change(lambda connection: connection.executemany(sql, rows))

    def replace_all(self, rows: Sequence[AnswerRow]) -> None:
        """Have these answers and no others."""

        def action(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM answers")
            connection.executemany("INSERT INTO answers VALUES (?, ?, ?)", rows)

        self._file.change(action)

    def newest_public(self, limit: int) -> list[AnswerRow]:
        """At most so many answers, newest first, without the private ones."""
        sql = (
            "SELECT key, created_at, answer FROM answers WHERE key NOT IN (SELECT key FROM private)"
            " ORDER BY created_at DESC, key LIMIT ?"
        )
        return self._file.read(sql, limit)

    def delete_old(self, oldest: float, limit: int) -> None:
        """Delete answers that were given before `oldest`, and all but the newest `limit`."""
        newest_keys = "SELECT key FROM answers ORDER BY created_at DESC LIMIT ?"

        def action(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM answers WHERE created_at < ?", (oldest,))
            connection.execute(f"DELETE FROM answers WHERE key NOT IN ({newest_keys})", (limit,))  # noqa: S608
            connection.execute("DELETE FROM private WHERE key NOT IN (SELECT key FROM answers)")

        self._file.change(action)

    def mark_private(self, key: str) -> str:
        """Note that the answer with this key must not leave the clone. "", or why it could not be
        noted.
        """
        sql = "INSERT OR IGNORE INTO private VALUES (?)"
        return self._change(lambda connection: connection.execute(sql, (key,)))

    def mark_unshared(self, key: str) -> None:
        """Note that the team's store does not have this answer."""
        sql = "INSERT OR IGNORE INTO unshared VALUES (?)"
        self._file.change(lambda connection: connection.execute(sql, (key,)))

    def unshared(self) -> list[AnswerRow]:
        """The answers that the team's store does not have, oldest first."""
        sql = "SELECT key, created_at, answer FROM answers JOIN unshared USING (key) ORDER BY created_at"
        return self._file.read(sql)

    def mark_shared(self, keys: Sequence[str]) -> None:
        """Note that the team's store has these answers now."""
        rows = [(key,) for key in keys]
        sql = "DELETE FROM unshared WHERE key = ?"
        if rows:
            self._file.change(lambda connection: connection.executemany(sql, rows))
