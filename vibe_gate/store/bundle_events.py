"""What an agent said and did, by a bundle: its messages, its tool calls, and all events by time.

What is held of a line of a log is a head of it, and the way to read the line again (`load`). Calls
are put together from hook events by `tool_use_id` only: parallel calls of one tool end in any
order, so neither names nor times say which end belongs to which start.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import asdict, replace

from vibe_gate.domain import escape
from vibe_gate.domain.document import read_text_of
from vibe_gate.store import bundle_names
from vibe_gate.store.bundle_location import (
    BundleLocation,
    Record,
    Reload,
    corrupt_bundle_error,
    parse_run_event,
    turn_locator,
)
from vibe_gate.store.turn_summary import (
    MAX_LISTED_LACKS,
    HookMark,
    HookRef,
    ToolCall,
    correlate_hooks,
    name_missing_event,
)

Source = Literal["run", "sdk", "hook"]
_SOURCES: tuple[Source, ...] = get_args(Source)
"""In the order in which events of one time come."""

Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")

SUMMARY_CHARACTERS = 120
"""Of a message's summary (the seed's figure), as read; what is not visible is written out and takes
more.
"""

CallEnding = Literal["completed", "failed", "denied", "missing-post", "orphan-post", "in-progress"]
"""How a call ended: with PostToolUse, with PostToolUseFailure, by refusal of its permission;
`missing-post` without an end, `orphan-post` without a start, `in-progress` without an end in a
bundle that is not finished.
"""

_SUBAGENT_TOOLS = frozenset({"Agent", "Task"})


class Message(Struct, frozen=True):
    """One message."""

    role: Role
    summary: str
    """Its first 120 characters on one line, or the tool and its input."""
    ts: int
    """Milliseconds since 1970."""
    turn: str
    """The folder of the message's turn in its run, "" if the bundle is a turn's own."""
    _reload: Reload

    def load(self) -> dict[str, Any]:
        """The message as it was recorded, whole. StorageError, IntegrityError."""
        return self._reload()


def messages_of(turn: BundleLocation) -> Iterator[Message]:
    """The messages of one turn. StorageError, IntegrityError."""
    for event, reload in turn.records(bundle_names.EVENTS):
        if event.get("type") == "message":
            summary = escape.show_text(_summarize(event))
            yield Message(_role_of(event), summary, _integer(event, "ts"), turn.inside, reload)


def _role_of(event: Record) -> Role:
    for role in ROLES:
        if event.get("role") == role:
            return role
    return "system"


def _summarize(event: Record) -> str:
    for name in ("content", "thinking", "result", "block"):
        content = event.get(name)
        match content:
            case str() if content:
                return _shorten(content)
            case [{"text": str(text)}, *_]:
                return _shorten(text)
            case _ if content:
                return _shorten(json.dumps(content))
    tool = event.get("tool")
    if not isinstance(tool, str):
        return ""
    return _shorten(f"{tool} {json.dumps(event.get('input'))}")


def _shorten(text: str) -> str:
    """On one line, cut."""
    return " ".join(text[: SUMMARY_CHARACTERS * 4].split())[:SUMMARY_CHARACTERS]


class CapturedCall(Struct, frozen=True):
    """One tool call. Times are milliseconds since 1970."""

    name: str
    ok: bool
    """Whether it ended well."""
    state: CallEnding
    started_at: int
    ended_at: int | None
    duration_ms: int | None
    hook_ref: HookRef
    tool_use_id: str
    agent_id: str
    """The subagent that made the call, "" for the main agent."""
    parent_tool_use_id: str
    """The call that started that subagent, "" if it is not known."""
    turn: str
    """The folder of the call's turn in its run."""
    _reload_start: Reload | None
    _reload_end: Reload | None

    def __repr__(self) -> str:
        return f"<CapturedCall {escape.safe(self.name)} {self.state}>"

    def input(self) -> Any:  # noqa: ANN401 - any JSON
        """The tool's input as its hook had it, None if no hook was captured. StorageError,
        IntegrityError.
        """
        return self._load_hook().get("tool_input")

    @property
    def cwd(self) -> str:
        """Where the agent was when it made the call, "" if no hook said it. StorageError,
        IntegrityError.
        """
        return read_text_of(self._load_hook(), "cwd")

    def _load_hook(self) -> Record:
        """The hook's event before the call, else the one after it; {} if none was captured."""
        reload = self._reload_start or self._reload_end
        return reload() if reload else {}

    def response(self) -> Any:  # noqa: ANN401 - any JSON
        """The tool's response, or its error as text; None without an end. StorageError,
        IntegrityError.
        """
        if self._reload_end is None:
            return None
        end = self._reload_end()
        return end.get("tool_response", end.get("error"))


class Tools(Struct, frozen=True):
    """The tool calls, in the order in which they started."""

    _all: tuple[CapturedCall, ...]

    def __repr__(self) -> str:
        names = escape.safe(", ".join(call.name for call in self._all))
        return f"<Tools {names or 'none called'}>"

    def all(self) -> list[CapturedCall]:
        """Every call."""
        return list(self._all)

    def used(self, name: str) -> int:
        """How often the tool was called, whatever became of it."""
        return sum(call.name == name for call in self._all)

    def find_first(self, name: str) -> CapturedCall | None:
        """The tool's first call."""
        return next((call for call in self._all if call.name == name), None)

    def failed(self) -> list[CapturedCall]:
        """Those that are over and did not succeed: failed, denied, or without an end."""
        return [call for call in self._all if not call.ok and call.state != "in-progress"]

    def succeeded(self) -> list[CapturedCall]:
        """Those that ended well."""
        return [call for call in self._all if call.ok]

    def in_progress(self) -> list[CapturedCall]:
        """Those without an end yet, in a bundle that is not finished."""
        return [call for call in self._all if call.state == "in-progress"]


class _HookLine(Struct, frozen=True):
    """A line of hooks.ndjson."""

    mark: HookMark
    """What the correlation needs of it."""
    reload: Reload
    agent_id: str
    """The subagent in which it happened, "" in the main agent."""
    parent_tool_use_id: str
    """The call that started that subagent, "" if the line does not say it."""
    started_agent_id: str
    """The subagent that the call started, "" if it started none."""


def calls_of(turn: BundleLocation, missing: Collection[str] | None) -> list[CapturedCall]:
    """The calls of one turn. `missing` are the events that its summary misses, None while it has no
    summary.
    """
    hooks = list(_read_hooks(turn))
    calls, _ = correlate_hooks((hook.mark for hook in hooks), ())
    starting_calls = {}
    for hook in hooks:
        if hook.started_agent_id:
            starting_calls[hook.started_agent_id] = hook.mark.tool_use_id
    endings = _CallEndings(turn, missing)
    captured_calls = []
    for call in calls:
        start = _hook_at(call.hook_ref.pre, hooks)
        end = _hook_at(call.hook_ref.post, hooks)
        first = start or end
        assert first is not None, "a call has a start or an end"
        tool_use_id = first.mark.tool_use_id
        parent = first.parent_tool_use_id or starting_calls.get(first.agent_id, "")
        captured_call = CapturedCall(
            **asdict(call),
            state=endings.of(call, tool_use_id),
            tool_use_id=tool_use_id,
            agent_id=first.agent_id,
            parent_tool_use_id=parent,
            turn=turn.inside,
            _reload_start=start.reload if start else None,
            _reload_end=end.reload if end else None,
        )
        captured_calls.append(captured_call)
    return captured_calls


def _hook_at(number: int | None, hooks: Sequence[_HookLine]) -> _HookLine | None:
    return None if number is None else hooks[number]


class _CallEndings:
    """How the calls of a turn ended; `missing` as of `calls_of`."""

    def __init__(self, turn: BundleLocation, missing: Collection[str] | None) -> None:
        self._is_finished = missing is not None
        self._missing_events = frozenset(missing or ())
        # A list of missing events that is full may have been cut, and says nothing of other calls.
        self._lists_all = missing is not None and len(missing) < MAX_LISTED_LACKS
        self._denied_calls: frozenset[str] = frozenset()
        if not self._lists_all:
            self._denied_calls = _read_denied_calls(turn)

    def of(self, call: ToolCall, tool_use_id: str) -> CallEnding:
        """By the call's own hooks, else by what the turn says of a call that has only a start."""
        ending = _recorded_ending(call)
        if ending is not None:
            return ending
        if self._lists_all:
            event = name_missing_event("PostToolUse", tool_use_id)
            return "missing-post" if event in self._missing_events else "denied"
        if tool_use_id in self._denied_calls:
            return "denied"
        return "missing-post" if self._is_finished else "in-progress"


def _recorded_ending(call: ToolCall) -> CallEnding | None:
    """How the call ended by its own hooks; None if they have its start alone."""
    if call.hook_ref.pre is None:
        return "orphan-post"
    if call.hook_ref.post is None:
        return None
    if call.ok:
        return "completed"
    return "failed"


def _read_denied_calls(turn: BundleLocation) -> frozenset[str]:
    """Ids of calls that permissions refused, by the session's result; none before there is one."""
    denied_calls: set[str] = set()
    for event, _ in turn.records(bundle_names.EVENTS):
        denials = event.get("permission_denials")
        if event.get("type") != "result" or not isinstance(denials, list):
            continue
        for denial in denials:
            if isinstance(denial, dict):
                denied_calls.add(str(denial.get("tool_use_id")))
    return frozenset(denied_calls)


def _read_hooks(turn: BundleLocation) -> Iterator[_HookLine]:
    for number, (event, reload) in enumerate(turn.records(bundle_names.HOOKS)):
        tool = read_text_of(event, "tool_name")
        mark = HookMark(
            seq=number,
            ts=_integer(event, "ts"),
            hook=read_text_of(event, "hook"),
            tool_use_id=read_text_of(event, "tool_use_id"),
            tool_name=tool,
        )
        started_agent_id = ""
        response = event.get("tool_response")
        if tool in _SUBAGENT_TOOLS and isinstance(response, dict):
            started_agent_id = read_text_of(response, "agentId")
        yield _HookLine(
            mark=mark,
            reload=reload,
            agent_id=read_text_of(event, "agent_id"),
            parent_tool_use_id=read_text_of(event, "parent_tool_use_id"),
            started_agent_id=started_agent_id,
        )


class TimelineEvent(Struct, frozen=True):
    """One event."""

    source: Source
    """Which log has it: the run's (node.status ...), the SDK's stream (message, usage, todo ...) or
    the hooks' (PreToolUse ...).
    """
    seq: int
    """Its number in its log."""
    ts: int
    """Milliseconds since 1970."""
    type: str
    """What kind of event it is."""
    turn: str
    """The folder of its turn in the run, "" in the timeline of a turn that was copied out of its
    run.
    """
    _reload: Reload
    tool: str = ""
    tool_use_id: str = ""
    role: str = ""
    """Of a message."""
    agent_id: str = ""
    """Of a hook: the subagent that it happened in."""
    node_id: str = ""
    """The node that it is about, "" of an event about the whole run."""
    stage: str = ""
    """The stage of that node, as the workflow calls it: "fix" of the node `fix-b`. "" of a review,
    and in the timeline of one turn.
    """
    text: str = ""
    """The beginning of a message, on one line and as it was recorded."""

    def load(self) -> dict[str, Any]:
        """The whole event. StorageError, IntegrityError."""
        return self._reload()


class Timeline(Struct, frozen=True):
    """The events of a run or a turn, by time. Every iteration reads the logs anew, a line at a
    time.
    """

    _bundle: BundleLocation
    _is_run: bool

    async def events(self) -> AsyncIterator[TimelineEvent]:
        """Every event by `ts`; at the same time run before SDK before hooks; each log in its own
        order.

        An event that is dated before one above it in its log comes right after that one, an event
        of a turn never before its run's `turn.started`. One line is held of each log that is being
        read: those of the run and of the turns that ran at this moment, whatever their size. So a
        log is compared with the seal when its last line was read.
        StorageError, IntegrityError.
        """
        if self._is_run:
            events = _RunTimeline(self._bundle).merge()
        else:
            events = _merge_turn(self._bundle)
        for event in events:
            yield event


class _OpenLog:
    """A log while it is read."""

    def __init__(self, events: Iterator[TimelineEvent], source: Source, number: int) -> None:
        """`number`: of its turn among those of the run."""
        self._events = events
        self._rank = _SOURCES.index(source)
        self._number = number
        self.latest = 0
        """The time of the latest event until now."""

    def read_next(self) -> _Waiting | None:
        """The next event, with what puts it in order; None at the end of the log."""
        event = next(self._events, None)
        if event is None:
            return None
        self.latest = max(self.latest, event.ts)
        return self.latest, self._rank, self._number, event, self


_Waiting: TypeAlias = tuple[int, int, int, TimelineEvent, _OpenLog]
"""No two have the same first three members: of each log one event waits."""


class _Queue:
    """The next event of each log that is being read."""

    def __init__(self, *logs: _OpenLog) -> None:
        self._waiting: list[_Waiting] = []
        self._now = 0
        """The time of the last event that was taken."""
        self._unread: _OpenLog | None = None
        """The log of that event, whose next one was not read yet."""
        for log in logs:
            self.add(log)

    def add(self, log: _OpenLog) -> None:
        """Begin with a log. None of its events comes before those that were taken."""
        log.latest = self._now
        self._read_next(log)

    def take(self) -> TimelineEvent | None:
        """The earliest event; None if there are no more."""
        if self._unread is not None:
            self._read_next(self._unread)
            self._unread = None
        if not self._waiting:
            return None
        self._now, _, _, event, self._unread = heapq.heappop(self._waiting)
        return event

    def _read_next(self, log: _OpenLog) -> None:
        event = log.read_next()
        if event is not None:
            heapq.heappush(self._waiting, event)


class _RunTimeline:
    """The timeline of a run: the logs of a turn are opened when the run says that it began."""

    def __init__(self, run: BundleLocation) -> None:
        self._run = run
        self._locate_turn = turn_locator(run)
        self._begun_turns: set[str] = set()
        self._stages: dict[str, str] = {}
        """By node its stage."""

    def merge(self) -> Iterator[TimelineEvent]:
        """The events. StorageError, IntegrityError."""
        queue = _Queue(_OpenLog(_read_run_events(self._run), "run", 0))
        while (event := queue.take()) is not None:
            if event.type == "node.added":
                self._note_stage(event)
            elif event.type == "turn.started" and event.turn not in self._begun_turns:
                self._begun_turns.add(event.turn)
                for log in self._logs_of(event):
                    queue.add(log)
            stage = self._stages.get(event.node_id, "")
            yield replace(event, stage=stage) if stage else event

    def _note_stage(self, added: TimelineEvent) -> None:
        data = added.load().get("data")
        if isinstance(data, dict):
            gate = read_text_of(data, "gate")
            stage = read_text_of(data, "stage") or self._stages.get(gate, "")
            self._stages[added.node_id] = stage

    def _logs_of(self, started: TimelineEvent) -> tuple[_OpenLog, _OpenLog]:
        turn = self._locate_turn(started.node_id, started.turn.rpartition("/")[2])
        return _logs_of_turn(turn, len(self._begun_turns))


def _merge_turn(turn: BundleLocation) -> Iterator[TimelineEvent]:
    """The timeline of one turn. StorageError, IntegrityError."""
    queue = _Queue(*_logs_of_turn(turn, 0))
    while (event := queue.take()) is not None:
        yield event


def _logs_of_turn(turn: BundleLocation, number: int) -> tuple[_OpenLog, _OpenLog]:
    events = _read_turn_events(turn, "sdk", bundle_names.EVENTS, "type", "tool")
    hooks = _read_turn_events(turn, "hook", bundle_names.HOOKS, "hook", "tool_name")
    return _OpenLog(events, "sdk", number), _OpenLog(hooks, "hook", number)


def _read_run_events(run: BundleLocation) -> Iterator[TimelineEvent]:
    for number, (record, reload) in enumerate(run.records(bundle_names.EVENTS), start=1):
        event = run.parsed(bundle_names.EVENTS, record, partial(parse_run_event, number=number))
        try:
            ts = bundle_names.to_milliseconds(datetime.fromisoformat(event.ts))
        except (ValueError, TypeError) as error:
            reason = f"the event {number} has no time with a time zone"
            raise corrupt_bundle_error(run.path(bundle_names.EVENTS), reason) from error
        node_id = event.node_id or ""
        turn = read_text_of(event.data, "turn")
        yield TimelineEvent(
            source="run",
            seq=number,
            ts=ts,
            type=event.type,
            turn=f"nodes/{node_id}/{turn}" if turn else "",
            _reload=reload,
            node_id=node_id,
        )


def _read_turn_events(
    turn: BundleLocation,
    source: Source,
    log_name: str,
    type_field: str,
    tool_field: str,
) -> Iterator[TimelineEvent]:
    node_id = turn.inside.split("/")[1] if turn.inside else ""
    for event, reload in turn.records(log_name):
        seq = event.get("seq")
        ts = event.get("ts")
        if not (isinstance(seq, int) and isinstance(ts, int)):
            raise corrupt_bundle_error(turn.path(log_name), "a line is not an event")
        yield TimelineEvent(
            source=source,
            seq=seq,
            ts=ts,
            type=read_text_of(event, type_field),
            turn=turn.inside,
            _reload=reload,
            tool=read_text_of(event, tool_field),
            tool_use_id=read_text_of(event, "tool_use_id"),
            role=read_text_of(event, "role"),
            agent_id=read_text_of(event, "agent_id"),
            node_id=node_id,
            text=_summarize(event) if event.get("type") == "message" else "",
        )


def _integer(event: Record, name: str) -> int:
    value = event.get(name)
    return value if isinstance(value, int) else 0
