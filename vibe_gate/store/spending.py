"""What the repository's runs have spent, day by day: `<common dir>/vibe-gate/spent/<date>.ndjson`.

One line a run, appended whole. Days are UTC. Two runs that begin together may both
count on the same remainder; what they spend is counted all the same.
"""

from __future__ import annotations

import errno
import json
import os
import stat
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
            with open(_opened(self._path(now), os.O_RDONLY), "rb") as file:
                lines = file.read(MAX_BYTES).splitlines()
        except OSError:
            return 0.0
        return sum(_usd(line) for line in lines)

    def add(self, usd: float, run_id: str, now: datetime) -> str:
        """Count what a run has spent. "", or why that could not be: it costs no verdict."""
        line = json.dumps({"ts": now.isoformat(), "run_id": run_id, "usd": usd}) + "\n"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with open(_opened(self._path(now), os.O_RDWR | os.O_APPEND | os.O_CREAT), "ab", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                # A line that was torn, by a full disk say, must not take this one with it.
                torn = size and os.pread(file.fileno(), 1, size - 1) != b"\n"
                file.write(b"\n" * bool(torn) + line.encode())
        except OSError as error:
            return f"{error.strerror}: {self._folder}"
        return ""

    def _path(self, now: datetime) -> Path:
        return self._folder / f"{now:%Y-%m-%d}.ndjson"


def _opened(path: Path, flags: int) -> int:
    """A descriptor of the regular file; nothing else in its place is followed or waited for. OSError."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor


def _usd(line: bytes) -> float:
    try:
        value = json.loads(line)["usd"]
        return float(value) if isinstance(value, int | float) and value > 0 else 0.0
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return 0.0
