"""From a PreToolUse event to a refusal, in the words that Claude Code understands."""

from __future__ import annotations

import json

from vibe_gate.faces.claude_hook.guard import EDITING
from vibe_gate.faces.claude_hook.rules import refused_command, refused_edit


def refusal(event: bytes) -> str | None:
    """Why the tool may not run, if it may not. ValueError where the event or its command cannot be understood."""
    call = json.loads(event)
    tool, asked, cwd = call.get("tool_name"), call.get("tool_input"), call.get("cwd") or "/"
    if tool == "Bash":
        return refused_command(asked["command"], cwd)
    if tool in EDITING:
        return refused_edit(asked[EDITING[tool]], cwd)
    return None


def decision(reason: str) -> str:
    """What PreToolUse prints to refuse a call."""
    output = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason}
    return json.dumps({"hookSpecificOutput": output})


def noted(event: bytes, reason: str) -> bytes:
    """The event as the session keeps it: refused calls have no event of their own afterwards."""
    return json.dumps({**json.loads(event), "refused": reason}).encode()
