"""Sessions that are kept: read, forked and renamed by the SDK's own functions, on any SessionStore
of the SDK.

The SDK takes a second to load, and is loaded by the first of these. AgentError if it is not
installed.
"""

from __future__ import annotations

import os
import re
import string
from pathlib import Path
from typing import Any

from vibe_gate.agent.sdk import require_sdk
from vibe_gate.errors import AgentError, UsageError

_MAX_KEY = 200
"""Characters of a key without the hash behind it."""

_REPLACED = re.compile(r"[^a-zA-Z0-9]")

_DIGITS = string.digits + string.ascii_lowercase


def sdk_project_key(folder: Path) -> str:
    """The key of the sessions whose agent works in `folder`: what the CLI calls their folder.

    The SDK's own function composes characters first, and counts one where UTF-16 has two: under the
    key that it gives a path with either, the CLI finds no session, and keeps none.
    """
    data = os.path.realpath(folder).encode("utf-16-le", "surrogatepass")
    units = [int.from_bytes(data[start : start + 2], "little") for start in range(0, len(data), 2)]
    key = _REPLACED.sub("-", "".join(map(chr, units)))
    if len(key) <= _MAX_KEY:
        return key
    return f"{key[:_MAX_KEY]}-{_hash_units(units)}"


def _hash_units(units: list[int]) -> str:
    """The CLI's hash of a text, a 32-bit number with a sign, without that sign."""
    number = 0
    for unit in units:
        number = (number * 31 + unit) % (1 << 32)
    number = min(number, (1 << 32) - number)
    digits = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits or "0"


async def read_session_messages(store: Any, session_id: str) -> list[dict[str, Any]]:  # noqa: ANN401  a SessionStore
    """The conversation, oldest first: `type` (user, assistant), `uuid` and the API's `message`."""
    require_sdk()
    from claude_agent_sdk import get_session_messages_from_store

    messages = await get_session_messages_from_store(store, session_id)
    return [
        {"type": message.type, "uuid": message.uuid, "message": message.message}
        for message in messages
    ]


async def rename_stored_session(store: Any, session_id: str, title: str) -> None:  # noqa: ANN401  a SessionStore
    """Give the session another title. UsageError for an empty one."""
    require_sdk()
    from claude_agent_sdk import rename_session_via_store

    if not title.strip():
        raise UsageError("A title needs a letter.")
    await rename_session_via_store(store, session_id, title)


async def fork_stored_session(
    store: Any,  # noqa: ANN401
    session_id: str,
    up_to: str = "",
) -> tuple[str, dict[str, str]]:
    """Copy the session up to a message; the copy's id, and its uuid of each message. AgentError."""
    require_sdk()
    from claude_agent_sdk import fork_session_via_store

    try:
        copy = await fork_session_via_store(store, session_id, up_to_message_id=up_to or None)
    except (ValueError, FileNotFoundError) as error:
        raise AgentError(f"The session cannot be copied: {error}.") from error
    key = {"project_key": sdk_project_key(Path.cwd()), "session_id": copy.session_id}
    entries = await store.load(key) or []
    copied_ids: dict[str, str] = {}
    for entry in entries:
        origin = entry.get("forkedFrom")
        if isinstance(origin, dict):
            copied_ids[str(origin["messageUuid"])] = str(entry.get("uuid"))
    return copy.session_id, copied_ids
