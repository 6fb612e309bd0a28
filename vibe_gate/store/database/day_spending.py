"""What the runs of this repository spend, its worktrees together: USD by day (UTC)."""

from __future__ import annotations

import math
from datetime import datetime

from vibe_gate.store.database.state_table import StateTable


class DaySpending(StateTable):
    """USD by day and run."""

    def add(self, usd: float, run_id: str, now: datetime) -> str:
        """Count what an answer of a run has cost; a correction may be negative. "", or why it is
        not counted.
        """
        if not usd or not math.isfinite(usd):
            return ""
        sql = "INSERT INTO spending VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET usd = usd + excluded.usd"
        row = (_day(now), run_id, usd)
        return self._change(lambda connection: connection.execute(sql, row))

    def spent(self, now: datetime) -> float:
        """USD of all runs on the day of `now`."""
        return self._sum("SELECT sum(usd) FROM spending WHERE day = ?", _day(now))

    def of_run(self, run_id: str) -> float:
        """USD of one run until now."""
        return self._sum("SELECT sum(usd) FROM spending WHERE run_id = ?", run_id)

    def _sum(self, sql: str, value: str) -> float:
        for (usd,) in self._file.read(sql, value):
            if isinstance(usd, float):  # NULL without rows
                return max(usd, 0.0)
        return 0.0


def _day(now: datetime) -> str:
    return now.isoformat()[:10]
