"""When a run must end, also for work that does not look at the clock itself: a hostile tree, a slow
expression.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from msgspec import Struct

from vibe_gate.domain import cause
from vibe_gate.errors import InfrastructureError

GRACE_S = 10.0
"""Seconds beyond the deadline for what ends by itself: a judge's partial verdict, a command's
processes, the seal.
"""


class DeadlineReached(InfrastructureError):
    """The run's deadline passed while something was under way that could not be asked to stop."""


class Deadline(Struct, frozen=True):
    """When a run must end."""

    began: float
    """On the clock `time.monotonic`."""
    seconds: float
    """How long it may take."""

    def seconds_left(self) -> float:
        """Seconds until then; 0 if it has passed."""
        return max(self.seconds - self.elapsed(), 0.0)

    @property
    def cause(self) -> cause.TimeUsedUp:
        """Why something was not done after it."""
        return cause.TimeUsedUp(seconds=self.seconds)

    @property
    def reached(self) -> str:
        """What is said if it has passed."""
        return self.cause.sentence

    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.began

    @contextmanager
    def interrupting(self, grace_s: float | None = None) -> Iterator[None]:
        """Raise DeadlineReached in this block if it is not done `grace_s` (None: GRACE_S) after the
        deadline.

        The block must not await: the signal would then interrupt whatever the event loop does at
        that moment. Needs the main thread and interval timers; elsewhere only the limits hold that
        each step has of its own. A timer that was running (a test runner's time limit) goes on
        afterwards.
        """
        if (
            not hasattr(signal, "setitimer")
            or threading.current_thread() is not threading.main_thread()
        ):
            yield
            return
        grace_s = GRACE_S if grace_s is None else grace_s
        began = time.monotonic()
        other, interval = signal.setitimer(signal.ITIMER_REAL, 0)
        before = signal.signal(signal.SIGALRM, _interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, max(self.seconds_left() + grace_s, 0.001))
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            if other:
                signal.setitimer(
                    signal.ITIMER_REAL, max(other - (time.monotonic() - began), 0.001), interval
                )


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise DeadlineReached(
        "The deadline was reached before anything could be judged: the change is too large to read in time, or a "
        "rubric's expression too slow on it. Nothing was reviewed; raise --deadline, or review it in parts."
    )
