"""A bundle's logs as one stream of events, by time: the SDK's stream, the hooks, and a run's own events."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import AsyncIterator, Generator, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal

from vibe_gate.store import names
from vibe_gate.store.bundle import BundleLocation, corrupt, json_object, turns_of

Source = Literal["run", "sdk", "hook"]

_PAUSE = 256  # events after which other tasks of the loop have their turn


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """One event. `ts` in milliseconds since 1970, `seq` its number in its log, `type` what it is.

    `source` says which log: "sdk" (message, usage, todo ...), "hook" (PreToolUse ...) or
    "run" (node.status ...). `turn` is the folder of its turn in the run, "" in a turn's
    own timeline. The rest of the event is read with `Timeline.load`.
    """

    source: ClassVar[Source]
    seq: int
    ts: int
    type: str = ""
    tool: str = ""
    tool_use_id: str = ""
    turn: str = ""


@dataclass(frozen=True, slots=True)
class SdkEvent(TimelineEvent):
    """From a turn's events.ndjson. `role` of a message."""

    source: ClassVar[Source] = "sdk"
    role: str = ""


@dataclass(frozen=True, slots=True)
class HookEvent(TimelineEvent):
    """From a turn's hooks.ndjson. `agent_id` of the subagent it happened in."""

    source: ClassVar[Source] = "hook"
    agent_id: str = ""


@dataclass(frozen=True, slots=True)
class RunEvent(TimelineEvent):
    """From a run's events.ndjson. `turn` if it is about one."""

    source: ClassVar[Source] = "run"
    node_id: str = ""


class Timeline:
    """The events of a run or a turn, by time. Every iteration reads the logs anew."""

    __slots__ = ("_bundle", "_is_run")

    def __init__(self, bundle: BundleLocation, is_run: bool) -> None:
        self._bundle = bundle
        self._is_run = is_run

    async def events(self) -> AsyncIterator[TimelineEvent]:
        """Every event by `ts`; at the same time run before SDK before hooks; each log in its own order.

        An event that is dated before one above it in its log comes right after
        that one. StorageError, IntegrityError; that a sealed log was altered is known, and
        raised, at its end.
        """
        with contextlib.closing(self._merged()) as merged:
            for number, event in enumerate(merged):
                yield event
                if number % _PAUSE == 0:
                    await asyncio.sleep(0)

    def load(self, event: TimelineEvent) -> dict[str, Any]:
        """The whole of one of this timeline's events; its log is read up to it. StorageError, IntegrityError."""
        bundle, name = self._bundle, names.HOOKS if event.source == "hook" else names.EVENTS
        if event.turn and event.source != "run":
            bundle = turns_of(self._bundle)(*_names(event.turn))
        first = 1 if event.source == "run" else 0
        for number, (_, line) in enumerate(bundle.lines(name), start=first):
            if number == event.seq:
                return bundle.parsed(name, line, json_object)
        raise corrupt(bundle.path(name), f"it has no line {event.seq}")

    def _merged(self) -> Generator[TimelineEvent]:
        """A turn's logs are opened when the run's log says that it started, so that few are open at once."""
        heads: list[tuple[int, int, TimelineEvent, Iterator[TimelineEvent]]] = []
        numbers = itertools.count()  # of two events of one time, that of the log that was opened first
        latest = 0

        def advance(log: Iterator[TimelineEvent], number: int) -> None:
            for event in log:
                heapq.heappush(heads, (max(event.ts, latest), number, event, log))
                return

        turn = turns_of(self._bundle) if self._is_run else None
        for log in [_of_run(self._bundle)] if self._is_run else _of_turn(self._bundle, ""):
            advance(log, next(numbers))
        while heads:
            latest, number, event, log = heapq.heappop(heads)
            yield event
            if turn is not None and event.source == "run" and event.type == "turn.started":
                started = turn(*_names(event.turn))
                for opened in _of_turn(started, started.inside):
                    advance(opened, next(numbers))
            advance(log, number)


def _names(turn: str) -> tuple[str, str]:
    """Node and turn of `nodes/<node id>/<turn>`; as they are, for a log may say anything."""
    parts = turn.split("/")
    return parts[1] if len(parts) > 1 else "", parts[-1]


def _of_run(bundle: BundleLocation) -> Iterator[TimelineEvent]:
    for event in bundle.events():
        try:
            ts = names.milliseconds(datetime.fromisoformat(event.ts))
        except (ValueError, TypeError) as error:
            raise corrupt(bundle.path(names.EVENTS), f"line {event.seq} has no time with a time zone") from error
        turn = event.data.get("turn")
        place = f"nodes/{event.node_id}/{turn}" if isinstance(turn, str) and turn else ""
        yield RunEvent(event.seq, ts, event.type, turn=place, node_id=event.node_id or "")


def _of_turn(bundle: BundleLocation, turn: str) -> list[Iterator[TimelineEvent]]:
    return [_sdk_events(bundle, turn), _hook_events(bundle, turn)]


def _sdk_events(bundle: BundleLocation, turn: str) -> Iterator[TimelineEvent]:
    for record in _records(bundle, names.EVENTS):
        type, tool, used, role = (_text(record, name) for name in ("type", "tool", "tool_use_id", "role"))
        yield SdkEvent(record["seq"], record["ts"], type, tool, used, turn, role)


def _hook_events(bundle: BundleLocation, turn: str) -> Iterator[TimelineEvent]:
    for record in _records(bundle, names.HOOKS):
        hook, tool, used, agent = (_text(record, name) for name in ("hook", "tool_name", "tool_use_id", "agent_id"))
        yield HookEvent(record["seq"], record["ts"], hook, tool, used, turn, agent)


def _records(bundle: BundleLocation, name: str) -> Iterator[dict[str, Any]]:
    """The lines of a turn's log, each with a number and a time; all else in it is as it came."""
    for number, (_, line) in enumerate(bundle.lines(name)):
        record = bundle.parsed(name, line, json_object)
        if not isinstance(record.get("seq"), int) or not isinstance(record.get("ts"), int):
            raise corrupt(bundle.path(name), f"line {number} is not an event")
        yield record


def _text(record: dict[str, Any], name: str) -> str:
    """The text of that name; "" for what is not one: hooks are kept as they came."""
    value = record.get(name)
    return value if isinstance(value, str) else ""
