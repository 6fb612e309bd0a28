"""What an agent said and did, by a bundle: heads of its messages, and its tool calls.

Calls are put together from hook events by `tool_use_id` only: parallel calls of one tool
end in any order, so neither names nor times say which end belongs to which start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from vibe_gate.domain import escape
from vibe_gate.domain.turn import HookCaptureStatus, HookMark, HookRef, ToolCall, correlate
from vibe_gate.store import names
from vibe_gate.store.bundle import BundleLocation, corrupt, json_object

Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")

SUMMARY_CHARACTERS = 120
"""Of a message's summary (the seed's figure), as read; what is not visible is written out and takes more."""

CallState = Literal["completed", "failed", "denied", "missing-post", "orphan-post", "in-progress"]
"""How a call ended: with PostToolUse, with PostToolUseFailure, by refusal of its permission; `missing-post` without an
end, `orphan-post` without a start, `in-progress` without an end in a bundle that is not finished."""

_SUBAGENT_TOOLS = frozenset({"Agent", "Task"})


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a log: where it is, and a mark of its bytes, by which a change is noticed. No line has size 0."""

    offset: int = 0
    size: int = 0
    mark: int = 0

    @classmethod
    def of(cls, offset: int, line: bytes) -> Line:
        """The line that was read at `offset`."""
        return cls(offset, len(line), hash(line))

    def load(self, bundle: BundleLocation, name: str) -> dict[str, Any]:
        """The line again, whole. StorageError; IntegrityError if it is another one now."""
        line = bundle.line_at(name, self.offset, self.size)
        if hash(line) != self.mark:
            raise corrupt(bundle.path(name), f"the line at byte {self.offset} changed since it was read")
        return bundle.parsed(name, line, json_object)


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `summary` is its first 120 characters on one line, or the tool and its input; `ts` in milliseconds.

    `turn` is the folder of the message's turn in its run, "" if the bundle is a turn's own.
    """

    role: Role
    summary: str
    ts: int
    turn: str
    _bundle: BundleLocation
    _line: Line

    def load(self) -> dict[str, Any]:
        """The message as it was recorded, whole. StorageError, IntegrityError."""
        return self._line.load(self._bundle, names.EVENTS)


class Messages(Sequence[Message]):
    """The messages in order, turn after turn. Iterating streams the logs and holds nothing.

    `len` and indexing read them once and then keep the heads, so keep the object
    (`messages = result.messages`) if you ask more than once.
    """

    __slots__ = ("_bundles", "_heads")

    def __init__(self, bundles: Callable[[], list[BundleLocation]]) -> None:
        self._bundles = bundles
        self._heads: list[Message] | None = None

    def __iter__(self) -> Iterator[Message]:
        """StorageError, IntegrityError (after the last message of a log that was altered)."""
        if self._heads is not None:
            yield from self._heads
            return
        for bundle in self._bundles():
            yield from _messages(bundle)

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
            self._heads = [head for bundle in self._bundles() for head in _messages(bundle)]
        return self._heads


def _messages(bundle: BundleLocation) -> Iterator[Message]:
    for offset, line in bundle.lines(names.EVENTS):
        if b'"message"' not in line:
            continue
        event = bundle.parsed(names.EVENTS, line, json_object)
        if event.get("type") != "message":
            continue
        role: Role = next((known for known in ROLES if known == event.get("role")), "system")
        ts = event.get("ts")
        ms = ts if isinstance(ts, int) else 0
        yield Message(role, _summary(event), ms, bundle.inside, bundle, Line.of(offset, line))


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


@dataclass(frozen=True, slots=True)
class CapturedCall:
    """One tool call. Times are milliseconds since 1970.

    `ok`: it ended well. `agent_id` names the subagent that made the call, "" for the
    main one; `parent_tool_use_id` the call that started that subagent, "" if not known.
    `hook_ref` counts lines of hooks.ndjson from 0; `turn` is the folder of the call's turn in its run.
    """

    name: str
    ok: bool
    state: CallState
    started_at: int
    ended_at: int | None
    duration_ms: int | None
    hook_ref: HookRef
    tool_use_id: str
    agent_id: str
    parent_tool_use_id: str
    turn: str
    _bundle: BundleLocation
    _start: Line
    _end: Line

    def input(self) -> Any:  # noqa: ANN401 - any JSON
        """The tool's input as its hook had it, None if no hook was captured. StorageError, IntegrityError."""
        line = self._start if self._start.size else self._end
        return line.load(self._bundle, names.HOOKS).get("tool_input")

    def response(self) -> Any:  # noqa: ANN401 - any JSON
        """The tool's response, or its error as text; None without an end. StorageError, IntegrityError."""
        if not self._end.size:
            return None
        end = self._end.load(self._bundle, names.HOOKS)
        return end.get("tool_response", end.get("error"))


class Tools:
    """The tool calls, in the order in which they started. Every call of a method reads the hooks' log anew."""

    __slots__ = ("_load",)

    def __init__(self, load: Callable[[], list[CapturedCall]]) -> None:
        self._load = load

    def all(self) -> list[CapturedCall]:
        """Every call. StorageError, IntegrityError."""
        return self._load()

    def used(self, name: str) -> int:
        """How often the tool was called, whatever became of it."""
        return sum(call.name == name for call in self._load())

    def find_first(self, name: str) -> CapturedCall | None:
        """The tool's first call."""
        return next((call for call in self._load() if call.name == name), None)

    def failed(self) -> list[CapturedCall]:
        """Those that are over and did not succeed: failed, denied, or without an end."""
        return [call for call in self._load() if not call.ok and call.state != "in-progress"]

    def succeeded(self) -> list[CapturedCall]:
        """Those that ended well."""
        return [call for call in self._load() if call.ok]

    def in_progress(self) -> list[CapturedCall]:
        """Those without an end yet, in a bundle that is not finished."""
        return [call for call in self._load() if call.state == "in-progress"]


@dataclass(frozen=True, slots=True)
class _Hook:
    """A line of hooks.ndjson: its mark for the correlation, and what it says of subagents."""

    mark: HookMark
    line: Line
    agent_id: str
    parent: str
    started_agent: str


def calls_of(bundle: BundleLocation, missing: Iterable[str] | None) -> list[CapturedCall]:
    """The calls of one turn. `missing` are the events that its summary misses, None while it has no summary."""
    hooks = list(_hooks(bundle))
    found, _ = correlate([hook.mark for hook in hooks], frozenset())
    parents = {hook.started_agent: hook.mark.tool_use_id for hook in hooks if hook.started_agent}
    denied = _denied(bundle) if missing is None else frozenset()
    unseen = None if missing is None else frozenset(missing)
    by_seq = {hook.mark.seq: hook for hook in hooks}

    def state(call: ToolCall, tool_use_id: str) -> CallState:
        if call.hook_ref.pre is None:
            return "orphan-post"
        if call.hook_ref.post is not None:
            return "completed" if call.ok else "failed"
        if tool_use_id in denied:
            return "denied"
        if unseen is None:
            return "in-progress"
        return "missing-post" if f"PostToolUse {tool_use_id}" in unseen else "denied"

    return [_captured(call, by_seq, parents, state, bundle) for call in found]


def capture_so_far(bundle: BundleLocation) -> HookCaptureStatus:
    """Of a turn without a summary: never complete, for what comes is not known."""
    _, status = correlate([hook.mark for hook in _hooks(bundle)], _denied(bundle))
    warnings = (*status.warnings, "the turn is not finished")
    return status.model_copy(update={"complete": False, "warnings": warnings})


def _denied(bundle: BundleLocation) -> frozenset[str]:
    """Ids of calls that permissions refused, by the session's result; none before there is one."""
    denied: set[str] = set()
    for _, line in bundle.lines(names.EVENTS):
        if b'"permission_denials"' not in line:
            continue
        event = bundle.parsed(names.EVENTS, line, json_object)
        denials = event.get("permission_denials") if event.get("type") == "result" else None
        if isinstance(denials, list):
            denied.update(str(denial.get("tool_use_id")) for denial in denials if isinstance(denial, dict))
    return frozenset(denied)


def _captured(
    call: ToolCall,
    hooks: dict[int, _Hook],
    parents: dict[str, str],
    state: Callable[[ToolCall, str], CallState],
    bundle: BundleLocation,
) -> CapturedCall:
    start = hooks[call.hook_ref.pre] if call.hook_ref.pre is not None else None
    end = hooks[call.hook_ref.post] if call.hook_ref.post is not None else None
    first = start or end
    assert first is not None, "a call has a start or an end"
    return CapturedCall(
        name=call.name,
        ok=call.ok,
        state=state(call, first.mark.tool_use_id),
        started_at=call.started_at,
        ended_at=call.ended_at,
        duration_ms=call.duration_ms,
        hook_ref=call.hook_ref,
        tool_use_id=first.mark.tool_use_id,
        agent_id=first.agent_id,
        parent_tool_use_id=first.parent or parents.get(first.agent_id, ""),
        turn=bundle.inside,
        _bundle=bundle,
        _start=start.line if start else Line(),
        _end=end.line if end else Line(),
    )


def _hooks(bundle: BundleLocation) -> Iterator[_Hook]:
    for number, (offset, line) in enumerate(bundle.lines(names.HOOKS)):
        event = bundle.parsed(names.HOOKS, line, json_object)
        ts = event.get("ts")
        ms = ts if isinstance(ts, int) else 0
        hook, tool_use_id, tool = (_text(event, name) for name in ("hook", "tool_use_id", "tool_name"))
        mark = HookMark(number, ms, hook, tool_use_id, tool)
        parent = _text(event, "parent_tool_use_id")
        yield _Hook(mark, Line.of(offset, line), _text(event, "agent_id"), parent, _started(event))


def _started(event: dict[str, Any]) -> str:
    """The subagent that this call ran, which its response names."""
    response = event.get("tool_response")
    if _text(event, "tool_name") in _SUBAGENT_TOOLS and isinstance(response, dict):
        return _text(response, "agentId")
    return ""


def _text(event: dict[str, Any], name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""
