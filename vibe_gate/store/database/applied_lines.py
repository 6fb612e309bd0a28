"""What our own agents wrote and `--apply` put into the working tree, as lines of writes.jsonl."""

from __future__ import annotations

from collections.abc import Sequence

from vibe_gate.store.database.state_table import StateTable

AppliedRow = tuple[str, str, bytes]
"""The agent's id, the SDK's id of its session, and the line."""


class AppliedLines(StateTable):
    """The lines, in the order in which they were written."""

    def append(self, rows: Sequence[AppliedRow]) -> None:
        """Add lines. If they cannot be written, `State.problem` says so."""
        sql = "INSERT INTO applied_writes VALUES (?, ?, ?)"
        if rows:
            self._file.change(lambda connection: connection.executemany(sql, rows))

    def all(self) -> list[AppliedRow]:
        """Every line, oldest first."""
        return self._file.read("SELECT agent, session, line FROM applied_writes ORDER BY rowid")
