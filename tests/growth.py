"""How cost grows with size: a ratio within one test, for no bound in seconds is safe where others
use the machine.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from typing import Any

APART = 32
"""The large size to the small one: what is linear costs 32 times as much, what is quadratic 1,024
times.
"""

REFUSED = 180
"""The geometric middle of the two: cold caches and a shared core cost a factor of two or three, not
of five.
"""

FLOOR_S = 0.0002
"""Nothing counts as cheaper than that: it would be told from the clock and the call too badly."""

TRIES = 5

SMALL_TRIES = 3
"""Of the small size: noise there lets a test pass, and fails none."""


def repeated(unit: str) -> Callable[[int], str]:
    """The `make_input` of `assert_linear` for text that is one unit over and over."""
    return lambda size: unit * (size // len(unit))


def cost(act: Callable[[], object]) -> float:
    """Seconds of this thread's own time: what other processes and threads and the garbage collector
    do stays out.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        began = time.thread_time()
        act()
        return time.thread_time() - began
    finally:
        if collecting:
            gc.enable()


def assert_linear(
    act: Callable[[Any], object], make_input: Callable[[int], Any], size: int
) -> None:
    """That `act(make_input(size))` costs in proportion to the size, not to its square.

    Noise only ever adds: the least of several tries counts, and the large size is tried again
    before a test fails.
    """
    small, large = make_input(size // APART), make_input(size)
    least = max(FLOOR_S, min(cost(lambda: act(small)) for _ in range(SMALL_TRIES)))
    most = math.inf
    for _ in range(TRIES):
        most = min(most, cost(lambda: act(large)))
        if most < REFUSED * least:
            return
    raise AssertionError(
        f"{APART} times the size costs {most / least:.0f} times as much: {most:.3f} s of CPU"
    )
