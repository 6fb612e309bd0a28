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

_PLACEHOLDER = expression(r"\{\{(\\*)workspace\}\}")


class WorkspacePath:
    """The workspace's folder as `{{workspace}}`, and back. A `{{workspace}}` that an agent wrote
    gets a backslash.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        names = sorted({self._folder, str(folder.resolve())}, key=len, reverse=True)
        patterns = [rf"{re.escape(name)}(?![\w-])" for name in names]
        self._replaced = re.compile("|".join([*patterns, _PLACEHOLDER.pattern]))

    def encode(self, entry: Entry, redact: Redact) -> bytes:
        """The entry's line."""
        portable = _change_texts(entry, lambda text: self._replaced.sub(_hide_folder, text))
        ids = {name: entry[name] for name in IDS if is_uuid(entry.get(name))}
        safe = redact(portable) | ids
        blocks = zip(message_blocks(portable), message_blocks(safe), strict=False)
        for block, safe_block in blocks:
            # Thinking that was changed becomes text: the API refuses what its signature is not
            # about.
            if block != safe_block and block.get("type") == "thinking":
                text = safe_block.get("thinking", "")
                safe_block.clear()
                safe_block.update(type="text", text=text)
        return json.dumps(safe, separators=(",", ":")).encode() + b"\n"

    def decode(self, line: bytes) -> Entry:
        """The entry of a line, with this folder for the one that it had. ValueError with the
        reason.
        """
        entry: Entry = _change_texts(
            parse_object(line), lambda text: _PLACEHOLDER.sub(self._insert_folder, text)
        )
        return entry

    def _insert_folder(self, match: re.Match[str]) -> str:
        backslashes = match[1]
        if not backslashes:
            return self._folder
        return f"{{{{{backslashes[1:]}workspace}}}}"


def _hide_folder(match: re.Match[str]) -> str:
    backslashes = match[1]
    if backslashes is None:
        return "{{workspace}}"
    return f"{{{{{backslashes}\\workspace}}}}"


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401  any JSON
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): _change_texts(item, change) for name, item in value.items()}
    if isinstance(value, list):
        return [_change_texts(item, change) for item in value]
    return value


def message_blocks(entry: Entry) -> list[Entry]:
    """The content blocks of a message."""
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, dict)]


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
