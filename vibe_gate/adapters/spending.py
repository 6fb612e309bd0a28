"""What the repository's runs have spent, day by day: `<common dir>/vibe-gate/spent/<date>.ndjson`.

One line a run, appended whole. Days are UTC. Two runs that begin together may both
count on the same remainder; what they spend is counted all the same.
"""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path

MAX_BYTES = 10_000_000
"""A day's file beyond this (a hundred thousand runs) is not read further."""


class DayLedger:
    """The spending of one repository, its worktrees together. USD."""

    def __init__(self, common_dir: Path) -> None:
        self._folder = common_dir / "vibe-gate" / "spent"

    def spent(self, now: datetime) -> float:
        """USD of all runs on the day of `now`; lines that do not parse count nothing."""
        try:
            with self._path(now).open("rb") as file:
                lines = file.read(MAX_BYTES).splitlines()
        except OSError:
            return 0.0
        return sum(_usd(line) for line in lines)

    def add(self, usd: float, run_id: str, now: datetime) -> None:
        """Count what a run has spent. Nothing is raised: a ledger that cannot be written costs no verdict."""
        line = json.dumps({"ts": now.isoformat(), "run_id": run_id, "usd": usd}) + "\n"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path(now), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError:
            return
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def _path(self, now: datetime) -> Path:
        return self._folder / f"{now:%Y-%m-%d}.ndjson"


def _usd(line: bytes) -> float:
    try:
        value = json.loads(line)["usd"]
    except (ValueError, KeyError, TypeError):
        return 0.0
    return float(value) if isinstance(value, int | float) and value > 0 else 0.0
