"""The SDK's messages as the plain items that a bundle's events.ndjson keeps."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from vibe_gate.agent.session_end import counted_tokens
from vibe_gate.domain.turn import TodoChanges
from vibe_gate.domain.verdict import ANSWER_TOOL

Item = dict[str, Any]


class Transcript:
    """One session's messages as they come: what a later one needs of earlier ones is kept here."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, object]] = {}
        """By id: the tool's name and its input."""
        self._todos = TodoChanges()
        self._answers: dict[str | None, Item] = {}
        """By subagent: the answer that is coming, and its usage."""

    @property
    def used_tools(self) -> bool:
        """Whether the model called any tool but the one to answer with, allowed or not."""
        return any(name != ANSWER_TOOL for name, _ in self._calls.values())

    def items(self, message: object) -> Iterator[Item]:
        """The items of one message, without `ts`. A message of an unknown kind is kept raw."""
        match message:
            case AssistantMessage():
                yield from self._answer_items(message)
            case UserMessage():
                yield from self._user_items(message)
            case SystemMessage():
                yield {
                    "type": "system",
                    "subtype": message.subtype,
                    "data": json_safe(message.data),
                }
            case _:
                yield {"type": "unknown", "kind": type(message).__name__, "data": raw(message)}

    def _answer_items(self, message: AssistantMessage) -> Iterator[Item]:
        source = {"model": message.model, "message_id": message.message_id, **_uuid(message)}
        for block in message.content:
            item = {"type": "message", "role": "assistant", "content": ""}
            yield {**item, **self._answer_item(block), **source}

    def _user_items(self, message: UserMessage) -> Iterator[Item]:
        content = message.content
        blocks = [TextBlock(content)] if isinstance(content, str) else content
        for block in blocks:
            item = {"type": "message", "role": "user", "content": ""}
            yield {**item, **self._user_item(block), **_uuid(message)}
            if isinstance(block, ToolResultBlock) and not block.is_error:
                tool, tool_input = self._calls.get(block.tool_use_id, ("", {}))
                yield from self._todos.of(tool, tool_input, message.tool_use_result)

    def usage(self, message: StreamEvent) -> Item | None:
        """What one answer of the model used, when it has come to its end."""
        event = message.event
        if event.get("type") == "message_start":
            start = event.get("message") or {}
            answer = {
                "model": start.get("model"),
                "message_id": start.get("id"),
                "usage": start.get("usage") or {},
            }
            self._answers[message.parent_tool_use_id] = answer
        elif event.get("type") == "message_delta":
            answer = self._answers.pop(message.parent_tool_use_id, {"usage": {}})
            usage = answer.pop("usage")
            for name, value in (event.get("usage") or {}).items():
                if value is not None:
                    usage[name] = value
            return {"type": "usage", "tokens": _tokens(usage), **answer}
        return None

    def _answer_item(self, block: object) -> Item:
        match block:
            case TextBlock():
                return {"content": block.text}
            case ThinkingBlock():
                return {"thinking": block.thinking}
            case ToolUseBlock():
                tool_input = json_safe(block.input)
                self._calls[block.id] = block.name, tool_input
                return {"tool": block.name, "tool_use_id": block.id, "input": tool_input}
            case _:
                return {"block": raw(block)}

    def _user_item(self, block: object) -> Item:
        match block:
            case TextBlock():
                return {"content": block.text}
            case ToolResultBlock():
                tool, _ = self._calls.get(block.tool_use_id, ("", {}))
                call = {"tool_use_id": block.tool_use_id, "is_error": bool(block.is_error)}
                return {"role": "tool", "tool": tool, "result": json_safe(block.content), **call}
            case _:
                return {"block": raw(block)}


def _uuid(message: AssistantMessage | UserMessage) -> Item:
    return {"uuid": message.uuid} if message.uuid else {}


def _tokens(usage: Item) -> dict[str, int]:
    """Input includes what was read from the cache and written to it."""
    uncached = counted_tokens(usage.get("input_tokens"))
    read = counted_tokens(usage.get("cache_read_input_tokens"))
    written = counted_tokens(usage.get("cache_creation_input_tokens"))
    tokens = {
        "input": uncached + read + written,
        "output": counted_tokens(usage.get("output_tokens")),
        "cache_read": read,
        "cache_write": written,
    }
    lifetimes = usage.get("cache_creation")
    if isinstance(lifetimes, dict) and lifetimes.get("ephemeral_1h_input_tokens"):
        tokens["cache_write_1h"] = counted_tokens(lifetimes["ephemeral_1h_input_tokens"])
    return tokens


def answer_ids(message: object) -> list[str]:
    """The ids of the answer tool's calls in this message."""
    if not isinstance(message, AssistantMessage):
        return []
    return [
        block.id
        for block in message.content
        if isinstance(block, ToolUseBlock) and block.name == ANSWER_TOOL
    ]


def results(message: object) -> list[ToolResultBlock]:
    """How tool calls ended that this message tells of."""
    if not isinstance(message, UserMessage) or isinstance(message.content, str):
        return []
    return [block for block in message.content if isinstance(block, ToolResultBlock)]


def raw(value: object) -> Item:
    """A dataclass as a dict that JSON takes."""
    fields: Item = {}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = json_safe(dataclasses.asdict(value))
    return fields


def json_safe(value: Any) -> Any:  # noqa: ANN401 any JSON
    """The value as JSON gives it back; what JSON lacks becomes its repr, lone surrogates `?`."""
    text = json.dumps(value, default=repr, ensure_ascii=False)
    return json.loads(text.encode("utf-8", "replace"))
