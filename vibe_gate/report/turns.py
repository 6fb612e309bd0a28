"""What the log of a turn says of its model and its tokens. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vibe_gate.domain.document import read_text_of
from vibe_gate.domain.turn import is_usage_total

SessionEvent = Mapping[str, Any]
"""An event of the turn's session."""

KINDS = ("input", "output", "cache_read", "cache_write")
"""Of tokens; those of the cache are among the input."""


def model_of(events: Iterable[SessionEvent]) -> str:
    """The first that is named; "" if none is."""
    for event in events:
        model = read_text_of(event, "model")
        if model:
            return model
    return ""


def turn_tokens(events: Iterable[SessionEvent]) -> dict[str, int]:
    """The turn's tokens by kind, as far as they are known.

    A turn that ended has a total, which counts each kind that it names; of the others its answers
    tell.
    """
    totals: list[SessionEvent] = []
    answers: list[SessionEvent] = []
    for event in events:
        if event.get("type") == "usage":
            usages = totals if is_usage_total(event) else answers
            usages.append(event)
    return sum_tokens(answers) | sum_tokens(totals)


def sum_tokens(usages: Sequence[SessionEvent]) -> dict[str, int]:
    """The sum of these by kind, without the kinds that none of them names."""
    sums: dict[str, int] = {}
    for usage in usages:
        counts = usage.get("tokens")
        if not isinstance(counts, dict):
            continue
        for kind in KINDS:
            if kind in counts:
                sums[kind] = sums.get(kind, 0) + _count(counts[kind])
    return {kind: sums[kind] for kind in KINDS if kind in sums}


def _count(value: object) -> int:
    return max(value, 0) if isinstance(value, int) else 0
