"""The conversation of a bundle: short heads of the messages, each whole only when it is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from vibe_gate.domain import escape
from vibe_gate.store import names
from vibe_gate.store.calls import Line
from vibe_gate.store.place import Place, json_object

Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")

SUMMARY_CHARACTERS = 120
"""Of a message's summary (the seed's figure), as read; what is not visible is written out and takes more."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `summary` is its first 120 characters on one line, or the tool and its input; `ts` in milliseconds.

    `turn` is the folder of the message's turn in its run, "" where the bundle is a turn's own.
    """

    role: Role
    summary: str
    ts: int
    turn: str
    _place: Place
    _line: Line

    def load(self) -> dict[str, Any]:
        """The message as it was recorded, whole. StorageError, IntegrityError."""
        return self._line.load(self._place, names.EVENTS)


class Messages(Sequence[Message]):
    """The messages in order, turn after turn. Iterating streams the logs and holds nothing.

    `len` and indexing read them once and then keep the heads, so keep the object
    (`messages = result.messages`) where you ask more than once.
    """

    __slots__ = ("_heads", "_places")

    def __init__(self, places: Callable[[], list[Place]]) -> None:
        self._places = places
        self._heads: list[Message] | None = None

    def __iter__(self) -> Iterator[Message]:
        """StorageError, IntegrityError (after the last message of a log that was altered)."""
        if self._heads is not None:
            yield from self._heads
            return
        for place in self._places():
            yield from _messages(place)

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._all()[index]

    def _all(self) -> list[Message]:
        if self._heads is None:
            self._heads = [head for place in self._places() for head in _messages(place)]
        return self._heads


def _messages(place: Place) -> Iterator[Message]:
    for offset, line in place.lines(names.EVENTS):
        if b'"message"' not in line:
            continue
        event = place.parsed(names.EVENTS, line, json_object)
        if event.get("type") != "message":
            continue
        role: Role = next((known for known in ROLES if known == event.get("role")), "system")
        ts = event.get("ts")
        ms = ts if isinstance(ts, int) else 0
        yield Message(role, _summary(event), ms, place.inside, place, Line.of(offset, line))


def _summary(event: dict[str, Any]) -> str:
    for name in ("content", "thinking", "result", "block"):
        said = event.get(name)
        match said:
            case str() if said:
                return _short(said)
            case [{"text": str(text)}, *_]:
                return _short(text)
            case _ if said:
                return _short(json.dumps(said))
    tool = event.get("tool")
    return _short(f"{tool} {json.dumps(event.get('input'))}") if isinstance(tool, str) else ""


def _short(text: str) -> str:
    """On one line, nothing invisible."""
    line = " ".join(text[: SUMMARY_CHARACTERS * 4].split())
    return escape.show_text(line[:SUMMARY_CHARACTERS])
