"""What a command or an agent did in a run, as far as checks ask about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One tool call: its name and whether it succeeded."""

    name: str
    ok: bool


@dataclass(frozen=True, slots=True)
class Todo:
    """One item of the agent's own list."""

    text: str
    status: Literal["pending", "in_progress", "completed"]


@dataclass(frozen=True, slots=True)
class Execution:
    """An agent's run, seen from outside. `cost_usd` is None when it is not known."""

    tools: tuple[ToolUse, ...] = ()
    todos: tuple[Todo, ...] = ()
    cost_usd: float | None = None
    log: str = ""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended in an export of the head tree.

    `exit_code` is None when it was not finished: `failure` then says why
    (not found, timed out after N s). `output` is stdout and stderr together, its
    tail at most, undecodable bytes replaced. `lacks` says what of the wall around
    commands this system does not have; "" where it stands.
    """

    exit_code: int | None
    output: str
    failure: str = ""
    duration_ms: int = 0
    lacks: str = ""
