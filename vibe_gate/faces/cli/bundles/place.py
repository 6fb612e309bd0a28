"""Where the bundles are: the top of the repository around the current folder. Only `os` is imported."""

from __future__ import annotations

import os

STORE = ".vibe-artifacts"

REDIRECTIONS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR")
"""Variables by which git is told to look elsewhere."""


def top(start: str) -> str | None:
    """The nearest folder around `start` that holds `.git`; else the nearest with a store: bundles are portable."""
    return _nearest(start, ".git") or _nearest(start, STORE)


def columns() -> int | None:
    """The width of the terminal that stdout is; None where it is none, or does not say."""
    try:
        return os.get_terminal_size(1).columns or None
    except OSError:
        return None


def _nearest(folder: str, name: str) -> str | None:
    while True:
        if os.path.lexists(os.path.join(folder, name)):  # noqa: PTH118  pathlib would cost its import
            return folder
        parent = os.path.dirname(folder)  # noqa: PTH120
        if parent == folder:
            return None
        folder = parent
