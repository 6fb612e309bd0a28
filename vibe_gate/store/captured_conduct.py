"""What the agent of a captured session did until now, for the checks of conduct."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from vibe_gate.domain.document import parse_object
from vibe_gate.domain.turn import TodoChanges, TurnTodo
from vibe_gate.store.agent_events import AGENTS, AgentEvents
from vibe_gate.store.captures import CAPTURES_FOLDER, EVENTS, agent_of, find_session
from vibe_gate.store.folder import Folder
from vibe_gate.store.ndjson_log import read_lines
from vibe_gate.store.turn_summary import HookMark, ToolCall, apply_todo_event, correlate_hooks


class CapturedSession(Struct, frozen=True):
    """What a captured session did until now."""

    calls: tuple[ToolCall, ...]
    todos: tuple[TurnTodo, ...]
    damaged: int
    """Events that are not known."""


def read_captured_session(root: Path, session: str) -> CapturedSession | None:
    """The captured session of that id in the working tree `root`; None if it is not there or cannot
    be read.
    """
    agent = AGENTS[agent_of(session)]
    marks: list[HookMark] = []
    todos: list[TurnTodo] = []
    changes = TodoChanges()
    try:
        place, meta = find_session(Folder.at(root).below(CAPTURES_FOLDER), session)
        for line in read_lines(place, EVENTS):
            data = parse_object(line).get("data")
            if not isinstance(data, dict):
                continue
            mark = _mark_event(len(marks), data, agent)
            marks.append(mark)
            if mark.hook != "PostToolUse":
                continue
            tool_input, response = data.get("tool_input"), data.get("tool_response")
            for change in changes.of(mark.tool_name, tool_input, response):
                todos = apply_todo_event(todos, change)
    except (OSError, ValueError, LookupError):
        return None
    calls, _ = correlate_hooks(marks, ())
    return CapturedSession(calls, tuple(todos), meta.damaged)


def _mark_event(seq: int, data: Mapping[str, object], agent: AgentEvents) -> HookMark:
    """The event by Claude Code's name for its kind; an agent that numbers no calls tells of each
    once.
    """
    kind = str(data.get("hook_event_name", ""))
    claude_kind = {agent.started: "PreToolUse", agent.ended: "PostToolUse"}.get(kind, kind)
    tool_use_id = str(data.get("tool_use_id", "")) or f"call {seq}"
    tool = str(data.get("tool_name", ""))
    return HookMark(seq, seq, claude_kind, tool_use_id, tool)
