"""When a turn waited for a model's API that was overloaded or did not answer, by what its log says.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Period = tuple[int, int]
"""From and to, in milliseconds since 1970."""


def find_waits(events: Iterable[tuple[int, Mapping[str, Any]]]) -> list[Period]:
    """In order; none overlap. `events`: a turn's, each with its time."""
    periods = []
    for ts, event in events:
        for start, end in _waits_of(ts, event):
            if 0 <= start <= end:
                periods.append((start, end))
    return merge_periods(periods)


def merge_periods(periods: Iterable[Period], gap: int = 1) -> list[Period]:
    """Those that overlap, or are less than `gap` apart, as one; none is empty."""
    merged: list[Period] = []
    for start, end in sorted(periods):
        if end <= start:
            continue
        if merged and start - merged[-1][1] < gap:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _waits_of(ts: int, event: Mapping[str, Any]) -> Iterator[Period]:
    """The gateway's waits, which the turn's total has, or one of the agent's program, which says it
    before.
    """
    match event:
        case {"type": "usage", "waits": [*periods]}:
            for period in periods:
                match period:
                    case [int(start), int(end)]:
                        yield start, end
        case {"type": "system", "subtype": "api_retry", "data": {"retry_delay_ms": int(delay)}}:
            yield ts, ts + delay
