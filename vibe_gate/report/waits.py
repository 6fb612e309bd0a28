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
    return merge_periods(
        (start, end) for ts, event in events for start, end in _told(ts, event) if 0 <= start <= end
    )


def merge_periods(intervals: Iterable[Period], apart: int = 1) -> list[Period]:
    """Those that overlap, or are less than so much apart, as one; none is empty."""
    made: list[Period] = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if made and start - made[-1][1] < apart:
            made[-1] = (made[-1][0], max(made[-1][1], end))
        else:
            made.append((start, end))
    return made


def _told(ts: int, event: Mapping[str, Any]) -> Iterator[Period]:
    """The gateway's waits, which the turn's total has, or one of the agent's program, which says it
    before.
    """
    match event:
        case {"type": "usage", "waits": [*told]}:
            for wait in told:
                match wait:
                    case [int(start), int(end)]:
                        yield start, end
        case {"type": "system", "subtype": "api_retry", "data": {"retry_delay_ms": int(delay)}}:
            yield ts, ts + delay
