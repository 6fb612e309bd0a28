"""The door to coding agents. `run_turn` is the only way in which any agent, judges included, gets a
turn.

    result = await run_turn(TurnRequest(...), record=..., gateway=..., environment=..., redact=...)

Importing this package is cheap; the SDK (a second) is loaded by the first session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vibe_gate.agent.agent_environment import agent_environment_from
from vibe_gate.agent.sdk import find_cli, program_versions, sdk_version
from vibe_gate.agent.sdk_sessions import (
    fork_stored_session,
    read_session_messages,
    rename_stored_session,
    sdk_project_key,
)

if TYPE_CHECKING:
    from vibe_gate.agent.protocols import TurnRecord
    from vibe_gate.agent.turn_request import (
        Image,
        Stop,
        StoredSession,
        TurnProgress,
        TurnRequest,
    )
    from vibe_gate.agent.turn_runner import run_turn

__all__ = [
    "Image",
    "Stop",
    "StoredSession",
    "TurnProgress",
    "TurnRecord",
    "TurnRequest",
    "agent_environment_from",
    "find_cli",
    "fork_stored_session",
    "program_versions",
    "read_session_messages",
    "rename_stored_session",
    "run_turn",
    "sdk_project_key",
    "sdk_version",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401  what a module holds
    """Load turns only when one is run: an answer from the cache needs the SDK's version alone."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vibe_gate.agent import protocols, turn_request, turn_runner

    module = next(
        module for module in (turn_runner, turn_request, protocols) if hasattr(module, name)
    )
    return getattr(module, name)
