"""Sessions that are kept: read, forked and renamed by the SDK's own functions, on any SessionStore
of the SDK.

The SDK takes a second to load, and is loaded by the first of these. AgentError if it is not
installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vibe_gate.agent.sdk import require_sdk
from vibe_gate.errors import AgentError, UsageError


def sdk_project_key(folder: Path) -> str:
    """The SDK's key of the sessions whose agent works in `folder`."""
    require_sdk()
    from claude_agent_sdk import project_key_for_directory

    return project_key_for_directory(folder)


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
    from claude_agent_sdk import fork_session_via_store, project_key_for_directory

    try:
        copy = await fork_session_via_store(store, session_id, up_to_message_id=up_to or None)
    except (ValueError, FileNotFoundError) as error:
        raise AgentError(f"The session cannot be copied: {error}.") from error
    entries = (
        await store.load(
            {"project_key": project_key_for_directory(), "session_id": copy.session_id}
        )
        or []
    )
    copied_ids: dict[str, str] = {}
    for entry in entries:
        origin = entry.get("forkedFrom")
        if isinstance(origin, dict):
            copied_ids[str(origin["messageUuid"])] = str(entry.get("uuid"))
    return copy.session_id, copied_ids
