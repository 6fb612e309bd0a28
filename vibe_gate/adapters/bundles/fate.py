"""Whether a run can still be recorded: one failure ends the recording, never the review.

A full disk or a read-only directory says nothing about the change. After the
first write that fails, every method of the run's recorders does nothing, `lost`
says why, and the verdict is computed and said without a bundle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from vibe_gate.domain import paths

T = TypeVar("T")


class Fate:
    """Shared by the recorders of one run; `lock` is held while any of them writes or closes.

    `lost` is None, or the sentence that says why nothing more is recorded.
    """

    def __init__(self, lost: str | None = None) -> None:
        self.lost = lost
        self.closed = False
        self.lock = threading.RLock()

    def attempt(self, write: Callable[[], T], otherwise: T) -> T:
        """What `write` returns; `otherwise` if it fails, and ever after. One thread at a time."""
        with self.lock:
            if self.closed or self.lost is not None:
                return otherwise
            try:
                return write()
            except OSError as error:
                self.lost = sentence(error)
                return otherwise


def sentence(error: OSError) -> str:
    """What happened and what to do, for a person."""
    where = f"{paths.quote(str(error.filename))}: " if error.filename else ""
    return (
        f"{where}{error.strerror or error}. "
        "Free space or make .vibe-artifacts writable, then review again to have a bundle."
    )
