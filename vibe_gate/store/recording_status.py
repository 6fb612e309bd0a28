"""Recording never fails a review: the first failure ends it, and a sentence says why."""

from __future__ import annotations

import errno
import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from vibe_gate.domain import paths
from vibe_gate.errors import GateError, StorageError

T = TypeVar("T")
P = ParamSpec("P")


class RecordingStatus:
    """Whether a run can still be recorded: one failure ends the recording, never the review.

    A full disk or a read-only directory says nothing about the change, nor does a text that nobody
    thought of. Shared by the recorders of one run.
    """

    def __init__(self, lost: str | None = None) -> None:
        self.lost = lost
        """The sentence that says why nothing more is recorded; None while it is."""
        self.closed = False
        self.lock = threading.RLock()
        """Held while any of the recorders writes or closes."""


class Recording(Protocol):
    """What a run's recorder and a turn's have in common; `_parts` is None for one that was never
    open, or is closed.
    """

    _status: RecordingStatus
    _parts: Any


R = TypeVar("R", bound=Recording)


def never_fails(
    write: Callable[Concatenate[R, Any, P], T],
) -> Callable[Concatenate[R, P], T | None]:
    """Hand the recorder's open files to its method; None if that fails, and ever after. One thread
    at a time.

    GateError: what interrupts the review, its deadline for one.
    """

    @functools.wraps(write)
    def attempt(self: R, /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        status = self._status
        with status.lock:
            if status.closed or status.lost is not None or self._parts is None:
                return None
            try:
                return write(self, self._parts, *args, **kwargs)
            # Hostile texts may raise anything; a review must not fail by them.
            except Exception as error:
                if isinstance(error, GateError) and not isinstance(error, StorageError):
                    raise  # the run's deadline interrupts whatever is being done
                status.lost = explain_recording_failure(error)
                return None

    return attempt


def explain_recording_failure(error: Exception) -> str:
    """What happened and what to do, for a person."""
    if isinstance(error, StorageError):
        return str(error)
    if not isinstance(error, OSError):
        return _describe_bug(error)
    place = f"{paths.quote(str(error.filename))}: " if error.filename else ""
    advice = "Free space or make .vibe-artifacts writable"
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        advice = "Allow more open files (`ulimit -n`)"
    return f"{place}{error.strerror or error}. {advice}, then run this again to have a bundle."


def _describe_bug(error: Exception) -> str:
    """A bug in vibe-gate. Not its message: that may quote what is just being redacted."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    place = ""
    if traceback is not None:
        file = Path(traceback.tb_frame.f_code.co_filename).name
        place = f" at {file}:{traceback.tb_lineno}"
    return (
        f"recording ended by {type(error).__name__}{place}. "
        "This is a bug in vibe-gate; please report this line."
    )
