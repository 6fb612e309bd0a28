"""An alarm for work that does not look at the clock itself: a hostile tree, a hostile line under an expression.

It needs the main thread and a platform with interval timers; elsewhere it does nothing,
and only the limits that each step has of its own hold.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from vibe_gate.errors import InfrastructureError


class DeadlineReached(InfrastructureError):
    """The run's deadline passed while something was under way that could not be asked to stop."""


class Alarm:
    """Rings once, in the main thread, by raising DeadlineReached there. Seconds."""

    def __init__(self) -> None:
        self._armed = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()

    def ring_in(self, seconds: float) -> None:
        """Ring after so many seconds instead of when it would have rung; 0 silences it."""
        if self._armed:
            signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001) if seconds else 0)


@contextmanager
def alarm() -> Iterator[Alarm]:
    """An alarm that is silent when the block ends, with the handler that was there before put back."""
    clock = Alarm()
    if not clock._armed:
        yield clock
        return
    before = signal.signal(signal.SIGALRM, _ring)
    try:
        yield clock
    finally:
        clock.ring_in(0)
        signal.signal(signal.SIGALRM, before)


def _ring(number: int, frame: FrameType | None) -> None:
    raise DeadlineReached(
        "The deadline was reached before anything could be judged: the change is too large to read in time, or a "
        "rubric's expression too slow on it. Nothing was reviewed; raise --deadline, or review it in parts."
    )
