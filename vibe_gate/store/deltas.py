"""A message that comes in pieces: a secret must not pass the redactor because it was cut in two.

Events that carry a piece (`delta`) wait until their block is over; then the pieces are
redacted as one text and go on in their order, none lost, with everything that came
behind them. What a placeholder stands for may have been in several pieces: it goes
into the first of them, the others keep what is left, which may be nothing.

Two blocks are two texts: what begins in one and ends in the next is not seen as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MAX_HELD = 1 << 20
"""Characters of pieces in memory before the older half goes on; no secret is near that long."""
MAX_EVENTS = 20_000
"""The same for events, of which many may be nearly empty."""

_PLACES = ((), ("event",), ("data",), ("data", "event"))
"""Where in an event the stream's own event is: bare, in the SDK's StreamEvent, in an item made of one."""
_FIELDS = ("text", "thinking", "partial_json", "signature", "content", "output", "value", "stdout", "stderr", "chunk")
_BLOCK_ENDS = ("content_block_stop", "text-end", "reasoning-end", "tool-input-end")
_MESSAGE_ENDS = ("message_stop", "error", "finish", "abort")
_ALL_ENDS = "result"

Event = Mapping[str, Any]
Block = tuple[str, str, str]
"""Whose stream, which block, which field."""


@dataclass(slots=True)
class _Held:
    event: Event
    path: tuple[str, ...] = ()
    block: Block | None = None
    text: str = ""


class _Open:
    """The blocks that may go on, by session and conversation: thousands are opened, and closed one by one."""

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self._sessions: dict[str, dict[str, set[str]]] = {}
        for block in blocks:
            self.add(block)

    def __bool__(self) -> bool:
        return bool(self._sessions)

    def add(self, block: Block) -> None:
        whose, index, _ = block
        self._sessions.setdefault(_session(whose), {}).setdefault(whose, set()).add(index)

    def close(self, over: tuple[str, ...]) -> None:
        """Blocks are over: one, those of a conversation, or of a session, whose subagents end with it."""
        if len(over) == 1 and "\0" not in over[0]:
            for session in ("", over[0]) if over[0] else tuple(self._sessions):
                self._sessions.pop(session, None)
            return
        session = _session(over[0])
        conversations = self._sessions.get(session, {})
        indices = conversations.get(over[0], set())
        if len(over) == 1:
            indices.clear()
        else:
            indices.discard(over[1])
        if not indices:
            conversations.pop(over[0], None)
        if not conversations:
            self._sessions.pop(session, None)


class Deltas:
    """Holds events back for as long as a secret may go on in the next one. `redact` is for text."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._held: list[_Held] = []
        self._open = _Open()
        self._size = 0

    def feed(self, event: Event) -> list[Event]:
        """Take one event; the events that may go on now, in order."""
        held, over = _look(event)
        if held.block is None and not self._held:
            return [event]
        self._held.append(held)
        self._size += len(held.text)
        if held.block is not None:
            self._open.add(held.block)
        if over is not None:
            self._open.close(over)
        if not self._open:
            return self.rest()
        if self._size > MAX_HELD or len(self._held) > MAX_EVENTS:
            return self._older_half()
        return []

    def rest(self) -> list[Event]:
        """Everything that is still held: nothing more will come."""
        return self._let_go(len(self._held))

    def _let_go(self, number: int) -> list[Event]:
        going, self._held = self._held[:number], self._held[number:]
        self._open = _Open(held.block for held in self._held if held.block is not None)
        self._size = sum(len(held.text) for held in self._held)
        for pieces in _by_block(going).values():
            whole = _joined(pieces)
            safe = self._redact(whole)
            if safe != whole:
                for held, text in zip(pieces, _spread([held.text for held in pieces], safe), strict=True):
                    held.event = _with(held.event, held.path, text)
        return [held.event for held in going]

    def _older_half(self) -> list[Event]:
        """About half of what is held, cut where no secret goes across; all of it if there is no such place."""
        for eighths in (4, 5, 3, 6, 2):
            number = len(self._held) * eighths // 8
            if self._is_apart(number):
                return self._let_go(number)
        return self.rest()

    def _is_apart(self, number: int) -> bool:
        """Whether no secret goes across, in a block that is over neither."""
        older, newer = _by_block(self._held[:number]), _by_block(self._held[number:])
        both = ((_joined(pieces), _joined(newer[block])) for block, pieces in older.items() if block in newer)
        return all(self._redact(one) + self._redact(two) == self._redact(one + two) for one, two in both)


def _by_block(events: Iterable[_Held]) -> dict[Block, list[_Held]]:
    blocks: dict[Block, list[_Held]] = {}
    for held in events:
        if held.block is not None:
            blocks.setdefault(held.block, []).append(held)
    return blocks


def _joined(pieces: Iterable[_Held]) -> str:
    return "".join(held.text for held in pieces)


def _look(event: Event) -> tuple[_Held, tuple[str, ...] | None]:
    """What of the event is a piece, and how the blocks begin that are over with it (None: no block is)."""
    for place in _PLACES:
        inner = _at(event, place)
        if not isinstance(inner, Mapping):
            continue
        whose = _whose(event, inner)
        index, kind = _index(inner), inner.get("type")
        for path, text in _texts(inner):
            return _Held(event, (*place, *path), (whose, index, path[-1]), text), None
        if kind in _BLOCK_ENDS:
            return _Held(event), (whose, index)
        if kind in _MESSAGE_ENDS:
            return _Held(event), (whose,)
    return _Held(event), (_session(_whose(event, event)),) if event.get("type") == _ALL_ENDS else None


def _index(inner: Mapping[str, Any]) -> str:
    """What tells a block from the others of its conversation."""
    names = ["index", "messageId", "toolCallId", "item_id"]
    if str(inner.get("type", "")).endswith(("-delta", "-end")):
        names.append("id")  # elsewhere each event has one of its own
    return next((str(inner[name]) for name in names if name in inner), "")


def _session(whose: str) -> str:
    return next(filter(None, whose.split("\0")[::2]), "")


def _texts(inner: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    delta = inner.get("delta")
    if isinstance(delta, str):
        yield ("delta",), delta
    elif isinstance(delta, Mapping):
        yield from ((("delta", name), delta[name]) for name in _FIELDS if isinstance(delta.get(name), str))


def _whose(event: Event, inner: Mapping[str, Any]) -> str:
    """The conversation that a piece belongs to: subagents speak at the same time."""
    data = event.get("data")
    places = (event, data if isinstance(data, Mapping) else {}, inner)
    return "\0".join(str(place.get(name) or "") for place in places for name in ("session_id", "parent_tool_use_id"))


def _at(event: Any, path: tuple[str, ...]) -> Any:  # noqa: ANN401 - any JSON
    for name in path:
        event = event.get(name) if isinstance(event, Mapping) else None
    return event


def _with(event: Event, path: tuple[str, ...], text: str) -> Event:
    if not path:
        raise ValueError("a piece is inside of its event")
    name, rest = path[0], path[1:]
    return {**event, name: _with(event[name], rest, text) if rest else text}


def _spread(pieces: list[str], safe: str) -> list[str]:
    """`safe` in as many pieces, each as it was as far as it did not change."""
    whole = "".join(pieces)
    same = _agreeing(whole, safe)
    longest = min(len(whole), len(safe)) - same
    tail = _agreeing(whole[::-1][:longest], safe[::-1][:longest])
    change_ends = len(whole) - tail
    changed = safe[same : len(safe) - tail]
    spread: list[str] = []
    start = 0
    for piece in pieces:
        end = start + len(piece)
        text = whole[start : min(end, same)] if start < same else ""
        if changed and end > same:
            text, changed = text + changed, ""
        spread.append(text + whole[max(start, change_ends) : end])
        start = end
    return spread if not changed else [*spread[:-1], spread[-1] + changed]


def _agreeing(one: str, two: str) -> int:
    """The length of the beginning that both have."""
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
