"""Processes that a test started, or had started, and that must have ended."""

from __future__ import annotations

import time
from pathlib import Path


def pid_in(folder: Path) -> int:
    """The number that a process writes into the file `pid` there, which it may still be about
    to.
    """
    deadline = time.monotonic() + 200
    while not (folder / "pid").exists() or not (folder / "pid").read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int((folder / "pid").read_text())


def process_ends(pid: int) -> bool:
    """Whether the process ends within minutes; one that nobody waited for yet has ended,
    too.
    """
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return True
        if stat.rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.02)
    return False
