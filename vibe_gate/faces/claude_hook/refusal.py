"""A refusal in the words that Claude Code understands, and as the session keeps it."""

from __future__ import annotations

import json


def decision(reason: str) -> bytes:
    """What PreToolUse prints to refuse a call."""
    output = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason}
    return json.dumps({"hookSpecificOutput": output}).encode()


def noted(event: bytes, reason: str) -> bytes:
    """The event with the reason."""
    return json.dumps({**json.loads(event), "refused": reason}).encode()
