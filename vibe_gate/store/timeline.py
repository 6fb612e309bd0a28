"""A bundle's logs as one stream of events, by time: the SDK's stream, the hooks, and a run's own events.

A million events must pass in a few times what it takes to count their lines, in a
few megabytes. So lines become thin structs of the few names that say what happened
(msgspec, docs/decisions/0006), a block at a time, and logs are merged block by block.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Callable, Generator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import accumulate
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from vibe_gate.store import names
from vibe_gate.store.bundle import BundleLocation, corrupt, json_object, turns_of, unreadable
from vibe_gate.store.folder import let_go
from vibe_gate.store.log import MAX_LINE_BYTES

Source = Literal["run", "sdk", "hook"]

_SLICE = 1 << 18
"""Bytes read and decoded at once: they are still in the processor's cache when they are decoded."""


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
    """From a run's events.ndjson. `turn` if it is about one."""

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
        async for batch in self.batches():
            for event in batch:
                yield event

    async def batches(self) -> AsyncIterator[list[TimelineEvent]]:
        """The same, some hundreds at a time."""
        with contextlib.ExitStack() as held:
            logs = self._logs(held)
            while True:
                for log in logs:
                    while not log.events and not log.ended:
                        log.fill()
                logs = [log for log in logs if log.events]
                if not logs:
                    return
                yield _earliest(logs)
                await asyncio.sleep(0)  # others have their turn, too
                logs += [opened for log in logs for opened in log.opened()]

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

    def _logs(self, held: contextlib.ExitStack) -> list[_Log]:
        return [_RunLog(self._bundle, held)] if self._is_run else _logs_of_turn(self._bundle, held)


def _logs_of_turn(bundle: BundleLocation, held: contextlib.ExitStack, turn: str = "", earliest: int = 0) -> list[_Log]:
    logs = [_Log(bundle, names.EVENTS, SdkEvent, held), _Log(bundle, names.HOOKS, HookEvent, held)]
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

    def __init__(
        self, bundle: BundleLocation, name: str, kind: type[TimelineEvent], held: contextlib.ExitStack
    ) -> None:
        self.events: list[TimelineEvent] = []
        self.times: list[int] = []
        self.ended = False
        self.turn = ""
        self.latest = 0
        self._bundle = bundle
        self._name = name
        self._kind = kind
        self._held = held
        self._decode = msgspec.json.Decoder(kind).decode_lines
        self._line = 0
        self._slices = _slices(bundle, name)
        held.callback(self._slices.close)

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

    def fill(self) -> None:
        """Decode one slice more. IntegrityError, StorageError."""
        lines = next(self._slices, None)
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
        """An event whose other names hold what is not expected there (hooks are kept as they came)."""
        event = self._bundle.parsed(self._name, line, json_object)
        seq, ts = event.get("seq"), event.get("ts")
        if not isinstance(seq, int) or not isinstance(ts, int):
            raise corrupt(self._bundle.path(self._name), f"a line after {self._line} is not an event")
        made = self._kind(seq, ts)
        for field in msgspec.structs.fields(self._kind):
            value = event.get(field.encode_name)
            if isinstance(value, str):
                setattr(made, field.name, value)
        return made


class _RunLog(_Log):
    """A run's own log. Its turns' logs are opened when it says that they started, so that few are open at once."""

    def __init__(self, bundle: BundleLocation, held: contextlib.ExitStack) -> None:
        super().__init__(bundle, names.EVENTS, RunEvent, held)
        self._decode_lines = msgspec.json.Decoder(_RunLine).decode_lines
        self._waiting: list[TimelineEvent] = []
        self._turn: Callable[[str, str], BundleLocation] | None = None
        self._started: TimelineEvent | None = None

    def opened(self) -> list[_Log]:
        """The logs of the turn that started last, once everything before it was taken."""
        started = self._started
        if started is None or self.events:
            return []
        self._started = None
        if self._turn is None:
            self._turn = turns_of(self._bundle)
        turn = self._turn(*_names(started.turn))
        return _logs_of_turn(turn, self._held, turn.inside, self.latest)

    def fill(self) -> None:
        """Events up to the next turn's start. IntegrityError, StorageError."""
        if not self._waiting:
            super().fill()
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
            raise corrupt(self._bundle.path(self._name), f"a line after {self._line} is not an event") from error
        self._line += len(found)
        return [_run_event(line) for line in found]


def _run_event(line: _RunLine) -> TimelineEvent:
    turn = f"nodes/{line.node_id}/{line.data.turn}" if line.data.turn else ""
    return RunEvent(line.seq, names.milliseconds(line.ts), line.type, turn=turn, node_id=line.node_id)


def _slices(bundle: BundleLocation, name: str) -> Generator[bytes | memoryview, None, None]:
    """A log as pieces of whole lines, each used before the next is asked for; compared with its seal at the end.

    A torn last line is left out. StorageError; IntegrityError: a line is too long, or the log was altered.
    """
    descriptor = bundle.open(name)
    if descriptor is None:
        return
    seen = hashlib.sha256() if bundle.digests is not None else None
    buffer = bytearray(_SLICE)
    rest: list[bytes] = []
    try:
        while size := os.readv(descriptor, [buffer]):
            piece = memoryview(buffer)[:size]
            if seen is not None:
                seen.update(piece)
            end = buffer.rfind(b"\n", 0, size) + 1
            if not end:
                rest.append(bytes(piece))
                if sum(map(len, rest)) > MAX_LINE_BYTES:
                    raise corrupt(bundle.path(name), f"a line is longer than {MAX_LINE_BYTES:,} bytes")
                continue
            start = 0
            if rest:
                start = buffer.find(b"\n", 0, size) + 1
                yield b"".join([*rest, piece[:start]])
            rest = [bytes(piece[end:])] if end < size else []
            if start < end:
                yield piece[start:end]
    except OSError as error:
        raise unreadable(bundle.path(name), error) from error
    finally:
        let_go(descriptor)
    if seen is not None:
        bundle.compare(name, seen.hexdigest())
