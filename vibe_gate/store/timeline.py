"""A bundle's logs as one stream of events, by time: the SDK's stream, the hooks, and a run's own events.

A million events must pass in a few times what it takes to count their lines, in a
few megabytes. So lines become thin structs of the few names that say what happened
(msgspec, docs/decisions/0006), a block at a time; the next block is read and hashed
in a thread meanwhile; and logs are merged block by block instead of event by event.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import accumulate
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from vibe_gate.store import names
from vibe_gate.store.blocks import Blocks, Reader
from vibe_gate.store.place import Place, corrupt, json_object, turns_of

Source = Literal["run", "sdk", "hook"]


class TimelineEvent(msgspec.Struct, gc=False):
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
    turn: str = msgspec.field(default="", name="")  # ours; the recorders write no such name


class SdkEvent(TimelineEvent, gc=False):
    """From a turn's events.ndjson. `role` of a message."""

    source: ClassVar[Source] = "sdk"
    role: str = ""


class HookEvent(TimelineEvent, gc=False):
    """From a turn's hooks.ndjson. `agent_id` of the subagent it happened in."""

    source: ClassVar[Source] = "hook"
    type: str = msgspec.field(default="", name="hook")
    tool: str = msgspec.field(default="", name="tool_name")
    agent_id: str = ""


class RunEvent(TimelineEvent, gc=False):
    """From a run's events.ndjson. `turn` where it tells of one."""

    source: ClassVar[Source] = "run"
    node_id: str = ""


class _RunData(msgspec.Struct):
    turn: str = ""


class _RunLine(msgspec.Struct):
    """A line of a run's log, which has its own form of time."""

    seq: int
    ts: Annotated[datetime, msgspec.Meta(tz=True)]
    type: str
    node_id: str = ""
    data: _RunData = msgspec.field(default_factory=_RunData)


@dataclass(frozen=True, slots=True)
class _Reading:
    """The thread that reads ahead, and what is closed in the end."""

    reader: Reader
    held: contextlib.ExitStack


class Timeline:
    """The events of a run or a turn, by time. Every iteration reads the logs anew."""

    __slots__ = ("_is_run", "_place")

    def __init__(self, place: Place, is_run: bool) -> None:
        self._place = place
        self._is_run = is_run

    async def events(self) -> AsyncIterator[TimelineEvent]:
        """Every event by `ts`; at the same time run before SDK before hooks; each log in its own order.

        An event that is dated before one that stands above it in its log comes right after
        that one. StorageError, IntegrityError; that a sealed log was altered is known, and
        raised, at its end.
        """
        async for batch in self.batches():
            for event in batch:
                yield event

    async def batches(self) -> AsyncIterator[list[TimelineEvent]]:
        """The same, some hundreds at a time."""
        with contextlib.ExitStack() as held, Reader() as reader:
            logs = self._logs(_Reading(reader, held))
            while True:
                for log in logs:
                    while not log.events and not log.ended:
                        await log.fill()
                logs = [log for log in logs if log.events]
                if not logs:
                    return
                yield _earliest(logs)
                logs += [opened for log in logs for opened in log.opened()]

    def load(self, event: TimelineEvent) -> dict[str, Any]:
        """The whole of one of this timeline's events; its log is read up to it. StorageError, IntegrityError."""
        place, name = self._place, names.HOOKS if event.source == "hook" else names.EVENTS
        if event.turn and event.source != "run":
            place = turns_of(self._place)(*_names(event.turn))
        first = 1 if event.source == "run" else 0
        for number, (_, line) in enumerate(place.lines(name), start=first):
            if number == event.seq:
                return place.parsed(name, line, json_object)
        raise corrupt(place.path(name), f"it has no line {event.seq}")

    def _logs(self, reading: _Reading) -> list[_Log]:
        if self._is_run:
            return [_RunLog(self._place, reading)]
        return _logs_of_turn(self._place, reading)


def _logs_of_turn(place: Place, reading: _Reading, turn: str = "", earliest: int = 0) -> list[_Log]:
    logs = [_Log(place, names.EVENTS, SdkEvent, reading), _Log(place, names.HOOKS, HookEvent, reading)]
    for log in logs:
        log.turn, log.latest = turn, earliest
    return logs


def _names(turn: str) -> tuple[str, str]:
    """Node and turn of `nodes/<node id>/<turn>`; as they are, for a log may say anything."""
    parts = turn.split("/")
    return parts[1] if len(parts) > 1 else "", parts[-1]


def _earliest(logs: list[_Log]) -> list[TimelineEvent]:
    """Take the events that nothing can come before any more, merged; at least one log's are all taken.

    A log whose events are all taken may go on at the very time at which they end, so
    of the logs behind it only what is earlier is taken, and of those before it, all of that time.
    """
    until = min(log.times[-1] for log in logs)
    limit = next(index for index, log in enumerate(logs) if log.times[-1] == until)
    parts: list[_Part] = []
    for index, log in enumerate(logs):
        end = (bisect_right if index <= limit else bisect_left)(log.times, until)
        if end:
            parts.append(log.take(end))
    if len(parts) == 1:
        return parts[0].events
    events: list[TimelineEvent] = []
    times: list[int] = []
    for part in parts:
        events += part.events
        times += part.times
    events.sort(key=partial(next, iter(times)))  # by the time that each counts as, not by its own `ts`
    return events


@dataclass(frozen=True, slots=True)
class _Part:
    """Events of one log and the times they count as."""

    events: list[TimelineEvent]
    times: list[int]


class _Log:
    """One log being read: decoded events that were not taken yet, with the times they count as."""

    def __init__(self, place: Place, name: str, kind: type[TimelineEvent], reading: _Reading) -> None:
        self.events: list[TimelineEvent] = []
        self.times: list[int] = []
        self.ended = False
        self.turn = ""
        self.latest = 0
        self._place = place
        self._name = name
        self._kind = kind
        self._decode = msgspec.json.Decoder(kind).decode_lines
        self._reading = reading
        self._line = 0
        self._blocks = Blocks(place, name, reading.reader)
        reading.held.callback(self._blocks.close)

    def take(self, end: int) -> _Part:
        """The first `end` events, which are not held any more."""
        if end == len(self.events):
            part = _Part(self.events, self.times)
            self.events, self.times = [], []
            return part
        part = _Part(self.events[:end], self.times[:end])
        del self.events[:end], self.times[:end]
        return part

    def opened(self) -> list[_Log]:
        """Logs that are to be merged from here on."""
        return []

    async def fill(self) -> None:
        """Decode one slice more. IntegrityError, StorageError."""
        lines = await self._blocks.next()
        if lines is None:
            self.ended = True
        else:
            self._add(self._decoded(lines))

    def _add(self, events: list[TimelineEvent]) -> None:
        times = [event.ts for event in events]  # half of what map and attrgetter take
        if not times:
            return
        if times[0] < self.latest or times != sorted(times):
            times = list(accumulate(times, max, initial=self.latest))[1:]
        self.latest = times[-1]
        if self.turn:
            for event in events:
                event.turn = self.turn
        if self.events:
            events, times = self.events + events, self.times + times
        self.events, self.times = events, times

    def _decoded(self, lines: bytes | memoryview) -> list[TimelineEvent]:
        try:
            events = self._decode(lines)
        except (msgspec.MsgspecError, RecursionError):
            events = [self._slowly(line) for line in bytes(lines).splitlines()]
        self._line += len(events)
        return events

    def _slowly(self, line: bytes) -> TimelineEvent:
        """An event whose other names hold what we do not expect there (hooks are kept as they came)."""
        event = self._place.parsed(self._name, line, json_object)
        seq, ts = event.get("seq"), event.get("ts")
        if not isinstance(seq, int) or not isinstance(ts, int):
            raise corrupt(self._place.path(self._name), f"a line after {self._line} is no event")
        fields = {field.name: event.get(field.encode_name) for field in msgspec.structs.fields(self._kind)}
        made = self._kind(seq, ts)
        for name, value in fields.items():
            if isinstance(value, str):
                setattr(made, name, value)
        return made


class _RunLog(_Log):
    """A run's own log. Its turns' logs are opened when it says that they started, so that few are open at once."""

    def __init__(self, place: Place, reading: _Reading) -> None:
        super().__init__(place, names.EVENTS, RunEvent, reading)
        self._decode_lines = msgspec.json.Decoder(_RunLine).decode_lines
        self._waiting: list[TimelineEvent] = []
        self._places: Callable[[str, str], Place] | None = None
        self._started: TimelineEvent | None = None

    def opened(self) -> list[_Log]:
        """The logs of the turn that started last, once everything before it was taken."""
        started = self._started
        if started is None or self.events:
            return []
        self._started = None
        if self._places is None:
            self._places = turns_of(self._place)
        place = self._places(*_names(started.turn))
        return _logs_of_turn(place, self._reading, place.inside, self.latest)

    async def fill(self) -> None:
        """Events up to the next turn's start. IntegrityError, StorageError."""
        if not self._waiting:
            await super().fill()
        end = next((i for i, event in enumerate(self._waiting, 1) if event.type == "turn.started"), None)
        if end is not None:
            self._started = self._waiting[end - 1]
        taken, self._waiting = self._waiting[:end], self._waiting[end:] if end else []
        super()._add(taken)

    def _add(self, events: list[TimelineEvent]) -> None:
        self._waiting += events

    def _decoded(self, lines: bytes | memoryview) -> list[TimelineEvent]:
        try:
            found = self._decode_lines(lines)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise corrupt(self._place.path(self._name), f"a line after {self._line} is no event") from error
        self._line += len(found)
        return [_run_event(line) for line in found]


def _run_event(line: _RunLine) -> TimelineEvent:
    turn = f"nodes/{line.node_id}/{line.data.turn}" if line.data.turn else ""
    return RunEvent(line.seq, names.milliseconds(line.ts), line.type, turn=turn, node_id=line.node_id)
