"""What a session is given, and what comes back from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

READ_ONLY_TOOLS = ("Read", "Grep", "Glob")
"""What a judge may use. All other tools are not even offered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one agent is asked, at the node `node` of a run's graph.

    `schema` is the JSON schema of the answer (no `$schema` key of draft 2020-12: the CLI rejects that at start). `cwd`
    is all that the tools can read. `max_turns` counts requests to the model; `max_cost_usd` is the ceiling that the CLI
    itself watches if no gateway does: it looks after each response, and throws a finished answer away.
    """

    prompt: str
    system_prompt: str
    schema: Mapping[str, Any]
    cwd: Path
    model: str
    node: str = ""
    tools: tuple[str, ...] = READ_ONLY_TOOLS
    max_turns: int = 20
    max_cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Turn):
    """A turn with what its session needs.

    `base_url` is a `Gateway.url(...)`, or "" if `cloud` says how to reach the model: variables that reach the agent
    untouched (Bedrock, Vertex). Of `environ`, this program's environment, only the search path, locale and time zone
    reach it. `home` is an empty private directory that the caller deletes afterwards. `timeout_s` is wall clock.
    """

    home: Path
    base_url: str
    environ: Mapping[str, str] = field(repr=False)
    timeout_s: float = 300.0
    cloud: Mapping[str, str] = field(default_factory=dict, repr=False)
    cli_path: Path | None = None
    clock: Callable[[], float] = time.time


class Recorder(Protocol):
    """Where a session writes what it sees, as it sees it; values are safe for JSON."""

    def event(self, data: dict[str, Any]) -> object:
        """One item of the conversation: {type: message | usage | todo | system | result | ..., ts, ...}."""

    def hook(self, data: dict[str, Any]) -> object:
        """One hook event, raw, with `seq` (from 0, its line), `ts` (ms) and `tool_use_id`."""
