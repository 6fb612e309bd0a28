"""The SDK's messages as the plain items that a bundle's events.ndjson keeps."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ResultMessage,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from vibe_gate.domain.wire import ANSWER_TOOL

Item = dict[str, Any]

_TODO_TOOLS = {"TaskCreate": "add", "TaskUpdate": "update"}


def items(message: object) -> Iterator[Item]:
    """The items of one message, without `ts`. A message of an unknown kind is kept raw."""
    match message:
        case AssistantMessage():
            for block in message.content:
                yield from _assistant(block, message)
        case UserMessage():
            content = message.content
            for block in [TextBlock(content)] if isinstance(content, str) else content:
                yield _user(block)
        case ResultMessage():
            yield {"type": "result", **raw(message)}
        case SystemMessage():
            yield {"type": "system", "subtype": message.subtype, "data": json_safe(message.data)}
        case _:
            yield {"type": "unknown", "kind": type(message).__name__, "data": raw(message)}


def _assistant(block: object, message: AssistantMessage) -> Iterator[Item]:
    about = {"model": message.model, "message_id": message.message_id}
    match block:
        case TextBlock():
            yield {"type": "message", "role": "assistant", "content": block.text, **about}
        case ThinkingBlock():
            yield {"type": "message", "role": "assistant", "content": "", "thinking": block.thinking, **about}
        case ToolUseBlock():
            call = {"tool": block.name, "tool_use_id": block.id, "input": json_safe(block.input)}
            yield {"type": "message", "role": "assistant", "content": "", **call, **about}
            yield from _todos(block)
        case _:
            yield {"type": "message", "role": "assistant", "content": "", "block": raw(block), **about}


def _user(block: object) -> Item:
    match block:
        case TextBlock():
            return {"type": "message", "role": "user", "content": block.text}
        case ToolResultBlock():
            result = {"tool_use_id": block.tool_use_id, "is_error": bool(block.is_error)}
            return {"type": "message", "role": "tool", "result": json_safe(block.content), **result}
        case _:
            return {"type": "message", "role": "user", "content": "", "block": raw(block)}


def _todos(block: ToolUseBlock) -> Iterator[Item]:
    """The agent's own list, in both of the forms in which the CLI offers it."""
    if block.name in _TODO_TOOLS:
        text = str(block.input.get("subject") or block.input.get("taskId") or "")
        status = str(block.input.get("status") or "pending")
        yield {"type": "todo", "action": _TODO_TOOLS[block.name], "text": text, "status": status}
    elif block.name == "TodoWrite":
        for todo in block.input.get("todos") or []:
            if isinstance(todo, dict):
                text, status = str(todo.get("content", "")), str(todo.get("status", "pending"))
                yield {"type": "todo", "action": "set", "text": text, "status": status}


def answer_ids(message: object) -> list[str]:
    """The ids of the answer tool's calls in this message."""
    if not isinstance(message, AssistantMessage):
        return []
    return [block.id for block in message.content if isinstance(block, ToolUseBlock) and block.name == ANSWER_TOOL]


def succeeded_ids(message: object) -> list[str]:
    """The ids of the tool calls that this message reports as succeeded."""
    if not isinstance(message, UserMessage) or isinstance(message.content, str):
        return []
    return [block.tool_use_id for block in message.content if isinstance(block, ToolResultBlock) and not block.is_error]


def raw(value: object) -> Item:
    """A dataclass as a dict that JSON takes."""
    plain = dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else {}
    safe: Item = json_safe(plain)
    return safe


def json_safe(value: Any) -> Any:  # noqa: ANN401 any JSON
    """The value as JSON would give it back; what JSON cannot say becomes its repr, lone surrogates `?`."""
    return json.loads(json.dumps(value, default=repr, ensure_ascii=False).encode("utf-8", "replace"))
