"""What an agent said and did, by a bundle: its messages, its tool calls, and all events by time.

What is held of a line of a log is a head of it, and the way to read the line again (`load`). Calls
are put together from hook events by `tool_use_id` only: parallel calls of one tool end in any
order, so neither names nor times say which end belongs to which start.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from vibe_gate.domain import escape
from vibe_gate.domain.document import text_of
from vibe_gate.store import bundle_names
from vibe_gate.store.bundle_location import BundleLocation, Record, Reload, corrupt_bundle_error
from vibe_gate.store.turn_summary import HookMark, HookRef, ToolCall, correlate_hooks

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
    """One message. `summary` is its first 120 characters on one line, or the tool and its input;
    `ts` in milliseconds.

    `turn` is the folder of the message's turn in its run, "" if the bundle is a turn's own.
    """

    role: Role
    summary: str
    ts: int
    turn: str
    _line: Reload

    def load(self) -> dict[str, Any]:
        """The message as it was recorded, whole. StorageError, IntegrityError."""
        return self._line()


def messages_of(turn: BundleLocation) -> Iterator[Message]:
    """The messages of one turn. StorageError, IntegrityError."""
    for event, line in turn.records(bundle_names.EVENTS):
        if event.get("type") == "message":
            role: Role = next((known for known in ROLES if known == event.get("role")), "system")
            yield Message(
                role, escape.show_text(_summary(event)), _number(event, "ts"), turn.inside, line
            )


def _summary(event: Record) -> str:
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
    """On one line, cut."""
    return " ".join(text[: SUMMARY_CHARACTERS * 4].split())[:SUMMARY_CHARACTERS]


class CapturedCall(Struct, frozen=True):
    """One tool call. Times are milliseconds since 1970.

    `ok`: it ended well. `agent_id` names the subagent that made the call, "" for the
    main one; `parent_tool_use_id` the call that started that subagent, "" if not known.
    `hook_ref` counts lines of hooks.ndjson from 0; `turn` is the folder of the call's turn in its
    run.
    """

    name: str
    ok: bool
    state: CallEnding
    started_at: int
    ended_at: int | None
    duration_ms: int | None
    hook_ref: HookRef
    tool_use_id: str
    agent_id: str
    parent_tool_use_id: str
    turn: str
    _start: Reload | None
    _end: Reload | None

    def __repr__(self) -> str:
        return f"<CapturedCall {escape.safe(self.name)} {self.state}>"

    def input(self) -> Any:  # noqa: ANN401 - any JSON
        """The tool's input as its hook had it, None if no hook was captured. StorageError,
        IntegrityError.
        """
        line = self._start or self._end
        return line().get("tool_input") if line else None

    @property
    def cwd(self) -> str:
        """Where the agent was when it made the call, "" if no hook said it. StorageError,
        IntegrityError.
        """
        line = self._start or self._end
        return text_of(line(), "cwd") if line else ""

    def response(self) -> Any:  # noqa: ANN401 - any JSON
        """The tool's response, or its error as text; None without an end. StorageError,
        IntegrityError.
        """
        end = self._end() if self._end else {}
        return end.get("tool_response", end.get("error"))


class Tools(Struct, frozen=True):
    """The tool calls, in the order in which they started."""

    _all: tuple[CapturedCall, ...]

    def __repr__(self) -> str:
        return f"<Tools {escape.safe(', '.join(call.name for call in self._all)) or 'none called'}>"

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
    """A line of hooks.ndjson: its mark for the correlation, and what it says of subagents."""

    mark: HookMark
    line: Reload
    agent_id: str
    parent: str
    started_agent: str


def calls_of(turn: BundleLocation, missing: Collection[str] | None) -> list[CapturedCall]:
    """The calls of one turn. `missing` are the events that its summary misses, None while it has no
    summary.
    """
    hooks = list(_hooks(turn))
    calls, _ = correlate_hooks((hook.mark for hook in hooks), ())
    parents = {hook.started_agent: hook.mark.tool_use_id for hook in hooks if hook.started_agent}
    denied = _denied(turn) if missing is None else frozenset()
    found = []
    for call in calls:
        start, end = (
            None if seq is None else hooks[seq] for seq in (call.hook_ref.pre, call.hook_ref.post)
        )
        first = start or end
        assert first is not None, "a call has a start or an end"
        used = first.mark.tool_use_id
        is_denied = used in denied if missing is None else f"PostToolUse {used}" not in missing
        found.append(
            CapturedCall(
                **asdict(call),
                state=_state(call, is_denied, missing is not None),
                tool_use_id=used,
                agent_id=first.agent_id,
                parent_tool_use_id=first.parent or parents.get(first.agent_id, ""),
                turn=turn.inside,
                _start=start.line if start else None,
                _end=end.line if end else None,
            )
        )
    return found


def _state(call: ToolCall, is_denied: bool, is_over: bool) -> CallEnding:
    if call.hook_ref.pre is None:
        return "orphan-post"
    if call.hook_ref.post is not None:
        return "completed" if call.ok else "failed"
    if is_denied:
        return "denied"
    return "missing-post" if is_over else "in-progress"


def _denied(turn: BundleLocation) -> frozenset[str]:
    """Ids of calls that permissions refused, by the session's result; none before there is one."""
    denied: set[str] = set()
    for event, _ in turn.records(bundle_names.EVENTS):
        denials = event.get("permission_denials") if event.get("type") == "result" else None
        if isinstance(denials, list):
            denied.update(
                str(denial.get("tool_use_id")) for denial in denials if isinstance(denial, dict)
            )
    return frozenset(denied)


def _hooks(turn: BundleLocation) -> Iterator[_HookLine]:
    for number, (event, line) in enumerate(turn.records(bundle_names.HOOKS)):
        hook, used, tool = (text_of(event, name) for name in ("hook", "tool_use_id", "tool_name"))
        mark = HookMark(number, _number(event, "ts"), hook, used, tool)
        response = event.get("tool_response") if tool in _SUBAGENT_TOOLS else None
        started = text_of(response, "agentId") if isinstance(response, dict) else ""
        yield _HookLine(
            mark, line, text_of(event, "agent_id"), text_of(event, "parent_tool_use_id"), started
        )


class TimelineEvent(Struct, frozen=True):
    """One event. `ts` in milliseconds since 1970, `seq` its number in its log, `type` what it is.

    `source` says which log: "run" (node.status ...), "sdk" (message, usage, todo ...) or "hook"
    (PreToolUse ...).
    `turn` is the folder of its turn in the run, "" in a turn's own timeline. A message has a
    `role`, a hook the `agent_id` of the subagent that it happened in, an event of a run a
    `node_id`. `text` is the beginning of a message, on one line and as it was recorded.
    """

    source: Literal["run", "sdk", "hook"]
    seq: int
    ts: int
    type: str
    turn: str
    _line: Reload
    tool: str = ""
    tool_use_id: str = ""
    role: str = ""
    agent_id: str = ""
    node_id: str = ""
    text: str = ""

    def load(self) -> dict[str, Any]:
        """The whole event. StorageError, IntegrityError."""
        return self._line()


class Timeline(Struct, frozen=True):
    """The events of a run or a turn, by time. Every iteration reads the logs anew, and holds a head
    of each event.
    """

    _run: BundleLocation | None
    _turns: tuple[BundleLocation, ...]

    async def events(self) -> AsyncIterator[TimelineEvent]:
        """Every event by `ts`; at the same time run before SDK before hooks; each log in its own
        order.

        An event that is dated before one above it in its log comes right after that one.
        StorageError, IntegrityError.
        """
        heads: list[tuple[int, TimelineEvent]] = []
        for log in self._logs():
            latest = 0
            for event in log:
                latest = max(latest, event.ts)
                heads.append((latest, event))
        for _, event in sorted(heads, key=lambda head: head[0]):
            yield event

    def _logs(self) -> Iterator[Iterable[TimelineEvent]]:
        if self._run is not None:
            yield _of_run(self._run)
        for turn in self._turns:
            yield _of_turn(turn, "sdk")
        for turn in self._turns:
            yield _of_turn(turn, "hook")


def _of_run(bundle: BundleLocation) -> Iterator[TimelineEvent]:
    for event, line in bundle.records(bundle_names.EVENTS):
        try:
            ts = bundle_names.to_milliseconds(datetime.fromisoformat(text_of(event, "ts")))
        except (ValueError, TypeError) as error:
            why = f"the event {_number(event, 'seq')} has no time with a time zone"
            raise corrupt_bundle_error(bundle.path(bundle_names.EVENTS), why) from error
        node_id, data = text_of(event, "node_id"), event.get("data")
        turn = text_of(data, "turn") if isinstance(data, dict) else ""
        place = f"nodes/{node_id}/{turn}" if turn else ""
        yield TimelineEvent(
            "run", _number(event, "seq"), ts, text_of(event, "type"), place, line, node_id=node_id
        )


def _of_turn(turn: BundleLocation, source: Literal["sdk", "hook"]) -> Iterator[TimelineEvent]:
    name, kind, tool = (
        (bundle_names.EVENTS, "type", "tool")
        if source == "sdk"
        else (bundle_names.HOOKS, "hook", "tool_name")
    )
    for event, line in turn.records(name):
        seq, ts = event.get("seq"), event.get("ts")
        if not (isinstance(seq, int) and isinstance(ts, int)):
            raise corrupt_bundle_error(turn.path(name), "a line is not an event")
        texts = {other: text_of(event, other) for other in ("tool_use_id", "role", "agent_id")}
        texts["text"] = _summary(event) if event.get("type") == "message" else ""
        yield TimelineEvent(
            source, seq, ts, text_of(event, kind), turn.inside, line, text_of(event, tool), **texts
        )


def _number(event: Record, name: str) -> int:
    value = event.get(name)
    return value if isinstance(value, int) else 0
