"""A run as spans: what a trace of OpenTelemetry holds, before it is encoded."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

Attributes = Mapping[str, str | int | float | bool]


class SpanEvent(Struct, frozen=True):
    """What was known at one moment of a span; `at` in milliseconds since 1970."""

    name: str
    at: int
    attributes: Attributes


class TraceSpan(Struct, frozen=True, kw_only=True):
    """One thing that took time. Ids are 16 hex digits, `parent` is "" of the run itself; times are
    ms since 1970.

    `error` says in a word how it failed, "" if it did not. `is_request`: it waited for an answer of
    another machine.
    `after`: ids of spans of the same trace that had to end first.
    """

    id: str
    parent: str
    name: str
    start: int
    end: int
    attributes: Attributes
    error: str = ""
    is_request: bool = False
    after: tuple[str, ...] = ()
    events: tuple[SpanEvent, ...] = ()


class Trace(Struct, frozen=True):
    """One run; `id` is 32 hex digits."""

    id: str
    spans: tuple[TraceSpan, ...]
