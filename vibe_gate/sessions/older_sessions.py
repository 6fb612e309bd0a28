"""The older form of a session, one JSON document `{"metadata": {...}, "messages": [...]}`, as the
SDK's entries.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vibe_gate.domain.document import FIRST_YEAR, LAST_YEAR, parse_object
from vibe_gate.sessions.session_meta import is_uuid
from vibe_gate.sessions.transcript_entries import Entry, message_blocks

MAX_FILE_BYTES = 256 << 20
MAX_DEPTH = 100
"""Of a tool call's arguments: whoever reads them calls itself for each."""


def read_older(path: Path, now: datetime) -> tuple[dict[str, Any], list[Entry]]:
    """Fields of SessionMeta, and an entry for each message. The same file gives the same ids.
    OSError, ValueError.
    """
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"it is larger than {MAX_FILE_BYTES:,} bytes")
    metadata, messages = _parse_parts(content)
    session_id = _read_session_id(metadata, content)
    cwd = _text(metadata.get("environment"), "working_directory")
    began_at = _parse_time(metadata.get("start_time"), now)
    texts = {
        "session_id": session_id,
        "cwd": cwd if cwd.startswith("/") else "",
        "parent_session_id": _text(metadata, "parent_session_id"),
        "title": _text(metadata, "title"),
    }
    if not all(_is_unicode(text) for text in texts.values()):
        raise ValueError("its metadata is not Unicode text")
    entries: list[Entry] = []
    parent_uuid: str | None = None
    for number, message in enumerate(messages):
        entry_uuid = str(uuid.uuid5(uuid.UUID(session_id), str(number)))
        head: Entry = {
            "parentUuid": parent_uuid,
            "isSidechain": False,
            "userType": "external",
            "cwd": cwd,
            "sessionId": session_id,
            "version": "0",
            "uuid": entry_uuid,
            "timestamp": began_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        entries.append(head | _convert_message(_object(message), number))
        parent_uuid = entry_uuid
    return {**texts, "created_at": began_at, "updated_at": began_at}, entries


def _parse_parts(content: bytes) -> tuple[dict[str, Any], list[object]]:
    """The metadata, and the messages. ValueError."""
    document = parse_object(content)
    metadata = document.get("metadata")
    messages = document.get("messages")
    if not isinstance(metadata, dict) or not isinstance(messages, list) or not messages:
        raise ValueError(
            'it is not {"metadata": {...}, "messages": [...]} with at least one message'
        )
    return metadata, messages


def _read_session_id(metadata: Mapping[str, Any], content: bytes) -> str:
    """The UUID that the file names, else one made of the name that it has, or of its bytes."""
    name = _text(metadata, "session_id")
    if is_uuid(name):
        return name
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name or hashlib.sha256(content).hexdigest()))


def _convert_message(message: Mapping[str, Any], number: int) -> Entry:
    """What the entry of a message says. ValueError."""
    text = "\n".join(_text(block, "text") for block in message_blocks({"message": message}))
    match message.get("role"):
        case "user":
            return _user_entry(_text_block(text))
        case "tool":
            result = {
                "type": "tool_result",
                "tool_use_id": _text(message, "tool_call_id"),
                "content": text,
            }
            return _user_entry(result)
        case "system":  # told to no model again: an agent has a system prompt of its own
            return {"type": "system", "subtype": "informational", "content": text, "isMeta": True}
        case "assistant":
            return _assistant_entry(message, text, number)
    raise ValueError(
        f"its message {number + 1} has none of the roles user, assistant, tool, system"
    )


def _text_block(text: str) -> Entry:
    return {"type": "text", "text": text or "(empty)"}


def _user_entry(block: Entry) -> Entry:
    return {"type": "user", "message": {"role": "user", "content": [block]}}


def _assistant_entry(message: Mapping[str, Any], text: str, number: int) -> Entry:
    calls = message.get("tool_calls")
    content: list[Entry] = []
    if isinstance(calls, list):
        content += map(_convert_call, calls)
    if text or not content:
        content = [_text_block(text), *content]
    reply = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "unknown",
        "content": content,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    return {"type": "assistant", "message": reply}


def _convert_call(call: object) -> Entry:
    function = _object(_object(call).get("function"))
    arguments: object = function.get("arguments")
    if isinstance(arguments, str):
        with contextlib.suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    if _is_deeper(arguments, MAX_DEPTH):
        raise ValueError(f"arguments of a tool call are nested more than {MAX_DEPTH} deep")
    return {
        "type": "tool_use",
        "id": _text(call, "id"),
        "name": _text(function, "name"),
        "input": arguments if isinstance(arguments, dict) else {"arguments": arguments},
    }


def _is_deeper(value: object, levels: int) -> bool:
    """Whether the value is nested in more levels."""
    if levels < 0:
        return True
    if isinstance(value, dict):
        return any(_is_deeper(item, levels - 1) for item in value.values())
    if isinstance(value, list):
        return any(_is_deeper(item, levels - 1) for item in value)
    return False


def _is_unicode(text: str) -> bool:
    """Whether it is text that files and programs take: no half of a surrogate pair, no NUL."""
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def _object(value: object) -> Mapping[str, Any]:
    """The value, if it is a JSON object; else an empty one."""
    return value if isinstance(value, dict) else {}


def _text(value: object, name: str) -> str:
    text = _object(value).get(name)
    return text if isinstance(text, str) else ""


def _parse_time(text: object, now: datetime) -> datetime:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return now
    if not FIRST_YEAR < at.year < LAST_YEAR:
        raise ValueError(f"its start_time is not between {FIRST_YEAR} and {LAST_YEAR}")
    if at.tzinfo is None:
        return at.replace(tzinfo=UTC)
    return at.astimezone(UTC)
