"""The door to coding agents. `turns.hold` is the only way in which any agent, judges included, gets a turn.

    end = await hold(turn, record=..., wire=..., environ=..., homes=..., timeout_s=...)

Importing this package is cheap; the SDK (half a second) is loaded by the first session.
"""

from __future__ import annotations

from vibe_gate.agent.process import find_cli
from vibe_gate.agent.task import READ_ONLY_TOOLS, Recorder, Task, Turn
from vibe_gate.agent.turns import ModelAccess, TurnEnd, hold, session
from vibe_gate.domain.wire import Ending, Status

__all__ = [
    "READ_ONLY_TOOLS", "Ending", "ModelAccess", "Recorder", "Status", "Task", "Turn", "TurnEnd", "find_cli", "hold",
    "session",
]  # fmt: skip
