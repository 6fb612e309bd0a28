"""The door to coding agents. `turns.hold` is the only way in which any agent, judges included, gets a turn.

    end = await hold(turn, record=..., wire=..., environ=..., redact=..., homes=..., timeout_s=...)

Importing this package is cheap; the SDK (a second) is loaded by the first session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vibe_gate.agent import sessions
from vibe_gate.agent.sdk import find_cli, load_without_mcp, program_versions, sdk_version

if TYPE_CHECKING:
    from vibe_gate.agent.task import Conversation, Image, Stop, Task, Turn, TurnProgress
    from vibe_gate.agent.turns import ModelGateway, TurnEnd, TurnRecord, hold

__all__ = [
    "Conversation", "Image", "ModelGateway", "Stop", "Task", "Turn", "TurnEnd", "TurnProgress", "TurnRecord",
    "find_cli", "hold", "load_without_mcp", "program_versions", "sdk_version", "sessions",
]  # fmt: skip


def __getattr__(name: str) -> Any:  # noqa: ANN401  what a module holds
    """Load turns only when one is held: an answer from the cache needs the SDK's version alone."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vibe_gate.agent import task, turns

    return getattr(turns, name, None) or getattr(task, name)
