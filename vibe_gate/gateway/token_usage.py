"""Tokens, read from a response as it passes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from vibe_gate.domain.wire import MAX_TOKENS
from vibe_gate.gateway.upstream import Oversized

CHARACTERS_PER_TOKEN = 3.0
"""A cautious guess for text and code, if the API did not get to say."""


MAX_EVENT_BYTES = 8 << 20
"""Of one event of a stream."""


class Usage(Struct, frozen=True):
    """Tokens by the kinds that are priced; `input` is what was neither read from nor written to the
    cache.
    """

    input: int = 0
    output: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0

    @property
    def all_input(self) -> int:
        """Every token that the model read."""
        return self.input + self.cache_write + self.cache_write_1h + self.cache_read


class Meter:
    """Reads the usage, the stop reason and the events of one response out of its bytes.

    `complete` says that the answer came to its end. An answer that was cut counts with the input
    the API announced and with the output that passed. The events are kept if `keeps_events`.
    """

    def __init__(self, *, keeps_events: bool = False) -> None:
        self.stop_reason = ""
        self.complete = False
        self.failed = False
        """Whether the API itself said that it cannot go on."""
        self.events: list[dict[str, Any]] = []
        self._keeps_events = keeps_events
        self._counts: dict[str, Any] = {}
        self._passed = 0
        self._tail = b""

    def feed(self, chunk: bytes) -> list[dict[str, Any]]:
        """Read more bytes of a stream of server-sent events; the events that they end. Raises
        Oversized.
        """
        *blocks, self._tail = (self._tail + chunk).replace(b"\r\n", b"\n").split(b"\n\n")
        if len(self._tail) > MAX_EVENT_BYTES:
            raise Oversized(f"sent an event of more than {MAX_EVENT_BYTES:,} bytes")
        events = list(_events(blocks))
        for event in events:
            self._event(event)
        return events

    def read_body(self, body: Mapping[str, Any]) -> None:
        """A response that came in one piece."""
        self._message(body)
        self.stop_reason = str(body.get("stop_reason") or "")
        self.complete = True

    @property
    def started(self) -> bool:
        """Whether the API said what it read."""
        return bool(self._counts)

    def usage(self) -> Usage:
        """What was used until now."""
        output = _count(self._counts, "output_tokens")
        if not self.complete:
            output = max(output, int(self._passed / CHARACTERS_PER_TOKEN))
        written = _count(self._counts, "cache_creation_input_tokens")
        split = self._counts.get("cache_creation")
        hour = _count(split, "ephemeral_1h_input_tokens") if isinstance(split, dict) else 0
        hour = min(hour, written)
        return Usage(
            input=_count(self._counts, "input_tokens"),
            output=output,
            cache_write=written - hour,
            cache_write_1h=hour,
            cache_read=_count(self._counts, "cache_read_input_tokens"),
        )

    def _event(self, data: dict[str, Any]) -> None:
        if self._keeps_events:
            self.events.append(data)
        kind = data.get("type")
        if kind == "message_start" and isinstance(data.get("message"), dict):
            self._message(data["message"])
        elif kind == "content_block_delta" and isinstance(data.get("delta"), dict):
            self._passed += sum(
                len(text) for text in data["delta"].values() if isinstance(text, str)
            )
        elif kind == "message_delta":
            self._merge(data.get("usage"))
            delta = data.get("delta")
            self.stop_reason = str(
                (delta.get("stop_reason") if isinstance(delta, dict) else "") or ""
            )
        elif kind == "error":
            self.failed = True
        elif kind == "message_stop":
            self.complete = True

    def _message(self, message: Mapping[str, Any]) -> None:
        self._merge(message.get("usage"))

    def _merge(self, counts: object) -> None:
        """Later counts are totals: they replace earlier ones, unless they are null."""
        if isinstance(counts, dict):
            self._counts |= {name: value for name, value in counts.items() if value is not None}


def _events(blocks: list[bytes]) -> Iterator[dict[str, Any]]:
    for block in blocks:
        lines = [line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:")]
        try:
            data = json.loads(b"\n".join(lines)) if lines else None
        except (ValueError, RecursionError):
            continue  # garbage passes through to the agent, which has its own opinion of it
        if isinstance(data, dict):
            yield data


def _count(counts: Mapping[str, Any], name: str) -> int:
    value = counts.get(name)
    if isinstance(value, int) and value > 0:
        return min(value, MAX_TOKENS)
    return 0
