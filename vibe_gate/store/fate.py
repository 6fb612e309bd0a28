"""Whether a run can still be recorded: one failure ends the recording, never the review.

A full disk or a read-only directory says nothing about the change, nor does a text that
nobody thought of. After the first write that fails, by whatever, every method of the run's
recorders does nothing, `lost` says why, and the verdict is computed and said without a bundle.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from vibe_gate.domain import paths

T = TypeVar("T")

_ADVICE = dict.fromkeys((errno.EMFILE, errno.ENFILE), "Allow more open files (`ulimit -n`)")
"""What helps, by the kind of failure; of all others it is the disk that fails."""


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
            except Exception as error:  # noqa: BLE001  hostile texts may raise anything; a review must not fail by them
                self.lost = sentence(error)
                return otherwise


def sentence(error: Exception) -> str:
    """What happened and what to do, for a person."""
    if not isinstance(error, OSError):
        return _fault(error)
    where = f"{paths.quote(str(error.filename))}: " if error.filename else ""
    advice = _ADVICE.get(error.errno or 0, "Free space or make .vibe-artifacts writable")
    return f"{where}{error.strerror or error}. {advice}, then review again to have a bundle."


def _fault(error: Exception) -> str:
    """A mistake of ours. Not its message: that may quote what is just being redacted."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    at = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
    return f"recording ended by {type(error).__name__}{at}. This is a mistake in vibe-gate; please report this line."
