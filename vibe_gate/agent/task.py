"""What a session is given, and what comes back from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

READ_ONLY_TOOLS = ("Read", "Grep", "Glob")
"""What a judge may use. All other tools are not even offered."""


@dataclass(frozen=True)
class Task:
    """One conversation to have.

    `schema` is the JSON schema of the answer (no `$schema` key of draft 2020-12: the
    CLI rejects that at start). `cwd` is all that the tools can read. `base_url` is a
    `Gateway.url(...)`, or "" where `cloud` says how to reach the model. `environ` is
    the environment of this program, of which only the search path, locale and time
    zone reach the agent. `cloud` holds variables that reach it untouched (Bedrock,
    Vertex). `home` is an empty private directory that the caller deletes afterwards.
    `timeout_s` is wall clock; `max_turns` counts requests to the model; `max_cost_usd`
    is the ceiling that the CLI itself watches where no gateway does (`base_url` ""): it
    looks after each response, and throws a finished answer away.
    """

    prompt: str
    system_prompt: str
    schema: Mapping[str, Any]
    cwd: Path
    model: str
    home: Path
    base_url: str
    environ: Mapping[str, str] = field(repr=False)
    tools: tuple[str, ...] = READ_ONLY_TOOLS
    max_turns: int = 20
    max_cost_usd: float | None = None
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
