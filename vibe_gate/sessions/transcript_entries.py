"""One line of messages.jsonl: an entry of the SDK's transcript, redacted, with the workspace's
folder by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vibe_gate.domain.document import parse_object
from vibe_gate.domain.escape import expression
from vibe_gate.sessions.session_meta import is_uuid

Entry = dict[str, Any]
Redact = Callable[[Any], Any]
"""Takes and gives JSON values."""

IDS = ("uuid", "parentUuid", "logicalParentUuid", "sessionId", "leafUuid")
"""How entries name each other. They stay as they are: an environment may hold a UUID as a
secret.
"""

_WRITTEN = expression(r"\{\{(\\*)workspace\}\}")


class WorkspacePath:
    """The workspace's folder as `{{workspace}}`, and back. A `{{workspace}}` that an agent wrote
    gets a backslash.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        names = sorted({self._folder, str(folder.resolve())}, key=len, reverse=True)
        self._out = re.compile(
            "|".join(rf"{re.escape(name)}(?![\w-])" for name in names) + rf"|{_WRITTEN.pattern}"
        )

    def encode(self, entry: Entry, redact: Redact) -> bytes:
        """The entry's line."""
        named = _mapped(entry, lambda text: self._out.sub(_named, text))
        safe = redact(named) | {name: entry[name] for name in IDS if is_uuid(entry.get(name))}
        for block, kept in zip(message_blocks(named), message_blocks(safe), strict=False):
            if (
                block != kept and block.get("type") == "thinking"
            ):  # the API refuses what its signature is not about
                text = kept.get("thinking", "")
                kept.clear()
                kept.update(type="text", text=text)
        return json.dumps(safe, separators=(",", ":")).encode() + b"\n"

    def decode(self, line: bytes) -> Entry:
        """The entry of a line, with this folder for the one that it had. ValueError with the
        reason.
        """
        entry: Entry = _mapped(parse_object(line), lambda text: _WRITTEN.sub(self._found, text))
        return entry

    def _found(self, match: re.Match[str]) -> str:
        return f"{{{{{match[1][1:]}workspace}}}}" if match[1] else self._folder


def _named(match: re.Match[str]) -> str:
    return "{{workspace}}" if match[1] is None else f"{{{{{match[1]}\\workspace}}}}"


def _mapped(value: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401  any JSON
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): _mapped(item, change) for name, item in value.items()}
    return [_mapped(item, change) for item in value] if isinstance(value, list) else value


def message_blocks(entry: Entry) -> list[Entry]:
    """The content blocks of a message."""
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return (
        [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    )


def read_prompt_text(entry: Entry) -> str:
    """The text of a user's prompt; "" for any other entry."""
    if entry.get("type") != "user" or entry.get("isMeta") or entry.get("isSidechain"):
        return ""
    return next(
        (str(block.get("text")) for block in message_blocks(entry) if block.get("type") == "text"),
        "",
    )


def is_message(entry: Entry) -> bool:
    """Whether the conversation can go on after it."""
    return (
        entry.get("type") in ("user", "assistant")
        and not entry.get("isSidechain")
        and is_uuid(entry.get("uuid"))
    )
