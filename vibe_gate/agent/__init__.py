"""The door to coding agents. `turns.hold` is the only way in which any agent, judges included, gets a turn.

    end = await hold(turn, record=..., wire=..., environ=..., homes=..., timeout_s=...)

Importing this package is cheap; the SDK (half a second) is loaded by the first session.
"""

from __future__ import annotations

from vibe_gate.agent import sessions
from vibe_gate.agent.process import find_cli, sdk_version
from vibe_gate.agent.sdk import load_without_mcp
from vibe_gate.agent.task import Conversation, Image, Stop, Task, Turn, TurnProgress
from vibe_gate.agent.turns import ModelAccess, TurnEnd, TurnRecord, hold, session

__all__ = [
    "Conversation", "Image", "ModelAccess", "Stop", "Task", "Turn", "TurnEnd", "TurnProgress", "TurnRecord",
    "find_cli", "hold", "load_without_mcp", "sdk_version", "session", "sessions",
]  # fmt: skip
