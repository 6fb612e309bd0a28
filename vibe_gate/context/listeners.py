"""Who hears of a run while it is under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Progress(Protocol):
    """Hears what a walk is doing; `stage` is change, checks, judge or seal, or a node of a
    workflow.
    """

    def __call__(self, stage: str, text: str, /) -> object:
        """Tell people."""
        ...


def unheard(stage: str, text: str, /) -> None:
    """Progress that nobody is shown: of one of many, or where scripts and tests hear through
    watchers.
    """


Meter = Callable[[str, int, float], object]
"""Hears, in any thread, of each answer of a model that was paid for: the node's id, its tokens and
USD.
"""
