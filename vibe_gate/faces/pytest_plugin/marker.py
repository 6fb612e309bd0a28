"""The marker `vibe`, which repetition of a test is under way, and where a session keeps its
display. Imports pytest alone, as the package does.
"""

from __future__ import annotations

from typing import Protocol

import pytest


class EndsPhase(Protocol):
    """What shows agents at work."""

    def end_phase(self) -> None:
        """Leave the terminal to pytest."""
        ...


MARKER = (
    "vibe(timeout_s=None, max_usd=None, repeat=1, pass_rate=1.0): limits of a test's agents; how often it is carried "
    "out, and which share must pass."
)

DISPLAY: pytest.StashKey[EndsPhase] = pytest.StashKey()
"""Of a session: what it shows of agents while they work, once one did."""

REPETITION = pytest.StashKey[int]()
"""Of an item: which repetition of it is under way, from 1 on."""
