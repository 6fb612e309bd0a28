"""Tool calls of a bundle, put together from hook events by `tool_use_id` only.

Parallel calls of one tool end in any order, so neither names nor times say which
end belongs to which start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from vibe_gate.domain.turn import HookCaptureStatus, HookMark, HookRef, ToolCall, correlate
from vibe_gate.store import names
from vibe_gate.store.place import Place, corrupt, json_object

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

    def load(self, place: Place, name: str) -> dict[str, Any]:
        """The line again, whole. StorageError; IntegrityError where it is another one now."""
        line = place.line_at(name, self.offset, self.size)
        if hash(line) != self.mark:
            raise corrupt(place.path(name), f"the line at byte {self.offset} changed since it was read")
        return place.parsed(name, line, json_object)


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
    _place: Place
    _lines: tuple[Line, Line]

    def input(self) -> Any:  # noqa: ANN401 - any JSON
        """The tool's input as its hook had it, None if no hook was captured. StorageError, IntegrityError."""
        line = self._lines[0] if self._lines[0].size else self._lines[1]
        return line.load(self._place, names.HOOKS).get("tool_input")

    def response(self) -> Any:  # noqa: ANN401 - any JSON
        """The tool's response, or its error as text; None without an end. StorageError, IntegrityError."""
        if not self._lines[1].size:
            return None
        end = self._lines[1].load(self._place, names.HOOKS)
        return end.get("tool_response", end.get("error"))


@dataclass(frozen=True, slots=True)
class _Hook:
    mark: HookMark
    line: Line
    agent_id: str
    parent: str
    started_agent: str


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


def calls_of(place: Place, missing: Iterable[str] | None) -> list[CapturedCall]:
    """The calls of one turn. `missing` are the events that its summary misses, None while it has no summary."""
    hooks = list(_hooks(place))
    found, _ = correlate([hook.mark for hook in hooks], frozenset())
    parents = {hook.started_agent: hook.mark.tool_use_id for hook in hooks if hook.started_agent}
    denied = denied_of(place) if missing is None else frozenset()
    unseen = None if missing is None else frozenset(missing)
    by_seq = {hook.mark.seq: hook for hook in hooks}
    return [_captured(call, by_seq, parents, lambda name: _without_end(name, denied, unseen), place) for call in found]


def capture_so_far(place: Place) -> HookCaptureStatus:
    """Of a turn without a summary: never complete, for what comes is not known."""
    _, status = correlate([hook.mark for hook in _hooks(place)], denied_of(place))
    warnings = (*status.warnings, "the turn is not finished")
    return status.model_copy(update={"complete": False, "warnings": warnings})


def denied_of(place: Place) -> frozenset[str]:
    """Ids of calls that permissions refused, as the session's result says; none before there is one."""
    denied: set[str] = set()
    for _, line in place.lines(names.EVENTS):
        if b'"permission_denials"' not in line:
            continue
        event = place.parsed(names.EVENTS, line, json_object)
        denials = event.get("permission_denials") if event.get("type") == "result" else None
        if isinstance(denials, list):
            denied.update(str(denial.get("tool_use_id")) for denial in denials if isinstance(denial, dict))
    return frozenset(denied)


def _without_end(tool_use_id: str, denied: frozenset[str], unseen: frozenset[str] | None) -> CallState:
    if tool_use_id in denied:
        return "denied"
    if unseen is None:
        return "in-progress"
    return "missing-post" if f"PostToolUse {tool_use_id}" in unseen else "denied"


def _captured(
    call: ToolCall,
    hooks: dict[int, _Hook],
    parents: dict[str, str],
    without_end: Callable[[str], CallState],
    place: Place,
) -> CapturedCall:
    start = hooks[call.hook_ref.pre] if call.hook_ref.pre is not None else None
    end = hooks[call.hook_ref.post] if call.hook_ref.post is not None else None
    one = start or end
    assert one is not None, "a call has a start or an end"
    state: CallState = "completed" if call.ok else "failed"
    if start is None:
        state = "orphan-post"
    elif end is None:
        state = without_end(one.mark.tool_use_id)
    return CapturedCall(
        name=call.name,
        ok=call.ok,
        state=state,
        started_at=call.started_at,
        ended_at=call.ended_at,
        duration_ms=call.duration_ms,
        hook_ref=call.hook_ref,
        tool_use_id=one.mark.tool_use_id,
        agent_id=one.agent_id,
        parent_tool_use_id=one.parent or parents.get(one.agent_id, ""),
        turn=place.inside,
        _place=place,
        _lines=(start.line if start else Line(), end.line if end else Line()),
    )


def _hooks(place: Place) -> Iterator[_Hook]:
    for number, (offset, line) in enumerate(place.lines(names.HOOKS)):
        event = place.parsed(names.HOOKS, line, json_object)
        ts = event.get("ts")
        mark = HookMark(
            number,
            ts if isinstance(ts, int) else 0,
            _text(event, "hook"),
            _text(event, "tool_use_id"),
            _text(event, "tool_name"),
        )
        yield _Hook(
            mark, Line.of(offset, line), _text(event, "agent_id"), _text(event, "parent_tool_use_id"), _started(event)
        )


def _started(event: dict[str, Any]) -> str:
    """The subagent that this call ran, which its response names."""
    response = event.get("tool_response")
    if _text(event, "tool_name") in _SUBAGENT_TOOLS and isinstance(response, dict):
        return _text(response, "agentId")
    return ""


def _text(event: dict[str, Any], name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""
