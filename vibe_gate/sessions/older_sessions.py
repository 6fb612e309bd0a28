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
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"it is larger than {MAX_FILE_BYTES:,} bytes")
    document = parse_object(data)
    about, messages = document.get("metadata"), document.get("messages")
    if not isinstance(about, dict) or not isinstance(messages, list) or not messages:
        raise ValueError(
            'it is not {"metadata": {...}, "messages": [...]} with at least one message'
        )
    named = _text(about, "session_id")
    own = (
        named
        if is_uuid(named)
        else str(uuid.uuid5(uuid.NAMESPACE_OID, named or hashlib.sha256(data).hexdigest()))
    )
    cwd, began = (
        _text(about.get("environment"), "working_directory"),
        _time(about.get("start_time"), now),
    )
    texts = {"parent_session_id": _text(about, "parent_session_id"), "title": _text(about, "title")}
    place = {"session_id": own, "cwd": cwd if cwd.startswith("/") else ""}
    if any(not _is_unicode(text) for text in (*place.values(), *texts.values())):
        raise ValueError("its metadata is not Unicode text")
    meta = {**place, **texts, "created_at": began, "updated_at": began}
    entries: list[Entry] = []
    for number, message in enumerate(messages):
        entry: Entry = {
            "parentUuid": entries[-1]["uuid"] if entries else None,
            "isSidechain": False,
            "userType": "external",
            "cwd": cwd,
            "sessionId": own,
            "version": "0",
            "uuid": str(uuid.uuid5(uuid.UUID(own), str(number))),
            "timestamp": began.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        entries.append(entry | _said(message if isinstance(message, dict) else {}, number))
    return meta, entries


def _said(message: Mapping[str, Any], number: int) -> Entry:
    """What the entry of a message says. ValueError."""
    text = "\n".join(_text(block, "text") for block in message_blocks({"message": message}))
    block = {"type": "text", "text": text or "(empty)"}
    match message.get("role"):
        case "user":
            return {"type": "user", "message": {"role": "user", "content": [block]}}
        case "tool":
            result = {
                "type": "tool_result",
                "tool_use_id": _text(message, "tool_call_id"),
                "content": text,
            }
            return {"type": "user", "message": {"role": "user", "content": [result]}}
        case "system":  # told to no model again: an agent has a system prompt of its own
            return {"type": "system", "subtype": "informational", "content": text, "isMeta": True}
        case "assistant":
            calls = message.get("tool_calls")
            content = [_call(call) for call in calls] if isinstance(calls, list) else []
            content = [block, *content] if text or not content else content
            about = {
                "id": f"msg_{number}",
                "type": "message",
                "role": "assistant",
                "model": "unknown",
            }
            usage = {"input_tokens": 0, "output_tokens": 0}
            return {"type": "assistant", "message": {**about, "content": content, "usage": usage}}
    raise ValueError(
        f"its message {number + 1} has none of the roles user, assistant, tool, system"
    )


def _call(call: object) -> Entry:
    function = call.get("function") if isinstance(call, dict) else None
    given: object = function.get("arguments") if isinstance(function, dict) else None
    if isinstance(given, str):
        with contextlib.suppress(ValueError, RecursionError):
            given = json.loads(given)
    if _is_deeper(given, MAX_DEPTH):
        raise ValueError(f"arguments of a tool call are nested more than {MAX_DEPTH} deep")
    given = given if isinstance(given, dict) else {"arguments": given}
    return {
        "type": "tool_use",
        "id": _text(call, "id"),
        "name": _text(function, "name"),
        "input": given,
    }


def _is_deeper(value: object, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels < 0 or any(_is_deeper(each, levels - 1) for each in inner)


def _is_unicode(text: str) -> bool:
    """Whether it is text that files and programs take: no half of a surrogate pair, no NUL."""
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def _text(value: object, name: str) -> str:
    text = value.get(name) if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""


def _time(text: object, now: datetime) -> datetime:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return now
    if not FIRST_YEAR < at.year < LAST_YEAR:
        raise ValueError(f"its start_time is not between {FIRST_YEAR} and {LAST_YEAR}")
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
