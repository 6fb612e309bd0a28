"""What a session is given, what it tells while it goes on, and how it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from vibe_gate.domain.agent import READ_ONLY_TOOLS


class Image(Struct, frozen=True):
    """A picture that goes with the prompt; `media_type` is image/png, image/jpeg, image/gif or image/webp."""

    media_type: str
    data: bytes

    def __repr__(self) -> str:  # without the bytes
        return f"<Image {self.media_type}>"


class Conversation(Struct, frozen=True, kw_only=True):
    """A session that is kept and can go on: the SDK mirrors its transcript into `store` as it is written.

    `store` is a SessionStore of the SDK. `session_id`: of a new session. `resume`: the session that goes on, from its
    message `resume_at` if that is given.
    """

    store: Any
    session_id: str = ""
    resume: str = ""
    resume_at: str = ""


class Turn(Struct, frozen=True, kw_only=True):
    """What one agent is asked, at the node `node` of a run's graph.

    `schema` is the JSON schema of the answer (no `$schema` key of draft 2020-12: the CLI rejects that at start), None
    for free text. `cwd` is all that the tools can reach. `max_turns` counts requests to the model; `max_cost_usd` is
    the session's ceiling: of a working agent at the gateway, else it is what the CLI itself watches if no gateway does
    (it looks after each response, and throws a finished answer away).

    `working`: the agent may change `cwd` with its listed tools, and goes on after an answer that was cut at its token
    limit. `mcp_servers` are servers by name in the CLI's own form, with all of their tools unless `tools` names some:
    `mcp__NAME__TOOL`. `wall` is called with the agent's home and its program, and gives the beginning of a command
    line that runs the program behind a wall. `objection` says what is wrong with an answer that fits the schema, or "":
    the model is told so once, and answers once more. `patience_s`: how long an overloaded API is waited for.
    """

    prompt: str
    system_prompt: str
    cwd: Path
    model: str
    schema: Mapping[str, Any] | None = None
    node: str = ""
    tools: tuple[str, ...] = READ_ONLY_TOOLS
    disallowed_tools: tuple[str, ...] = ()
    mcp_servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    images: tuple[Image, ...] = ()
    max_turns: int = 20
    max_cost_usd: float | None = None
    working: bool = False
    conversation: Conversation | None = None
    wall: Callable[[Path, Path], Sequence[str]] | None = None
    objection: Callable[[Mapping[str, Any]], str] | None = None
    patience_s: float = math.inf

    def __repr__(self) -> str:  # without environments and servers, which may hold credentials
        return f"<{type(self).__name__} {self.node or self.model}>"


ProgressKind = Literal["tool.started", "tool.ended", "todo", "notification", "usage"]


class TurnProgress(Struct, frozen=True, kw_only=True):
    """What a watcher is told, in order.

    `tool.started` and `tool.ended` say `tool`, `tool_use_id` and `input`, the end `ok` and `result` too (of a call that
    was refused, why). `todo`: `text`, `status`. `notification`: `text`. `usage`: `tokens` of one answer of the model.
    """

    kind: ProgressKind
    ts: int
    tool: str = ""
    tool_use_id: str = ""
    input: Mapping[str, Any] = field(default_factory=dict)
    ok: bool | None = None
    result: Any = None
    text: str = ""
    status: str = ""
    tokens: Mapping[str, int] = field(default_factory=dict)


Watch = Callable[[TurnProgress], object]
"""Hears of a turn's progress before the agent goes on; what it raises stops the agent. It may be a coroutine."""


class Stop:
    """The way to stop one turn; `abort` may be called from any thread."""

    def __init__(self) -> None:
        self.reason = ""
        """Why it was stopped; "" until then."""
        self.error: Exception | None = None
        """What a watcher raised."""
        self._wanted = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def abort(self, reason: str, error: Exception | None = None) -> None:
        """Stop the agent within one tool call. The first reason counts."""
        if not self.reason:
            self.error = error
            self.reason = reason or "It was stopped."
        if self._loop is None:
            self._wanted.set()
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing is left to be stopped
            self._loop.call_soon_threadsafe(self._wanted.set)

    async def wanted(self) -> None:
        """Wait until `abort` is called."""
        self._loop = asyncio.get_running_loop()
        if not self.reason:
            await self._wanted.wait()


class Task(Turn, frozen=True, kw_only=True):
    """A turn with what its session needs.

    `base_url` is a `Gateway.url(...)`, or "" if `cloud` says how to reach the model: variables that reach the agent
    untouched (Bedrock, Vertex). Of `environ`, this program's environment, only the search path, locale and time zone
    reach it. `home` is an empty private directory that the caller deletes afterwards. `timeout_s` is wall clock.
    `redact` takes secrets out of what other programs said, before that is cut and put on one line.
    """

    home: Path
    base_url: str
    environ: Mapping[str, str]
    timeout_s: float = 300.0
    cloud: Mapping[str, str] = field(default_factory=dict)
    cli_path: Path | None = None
    clock: Callable[[], float] = time.time
    watch: Watch | None = None
    stop: Stop = field(default_factory=Stop)
    redact: Callable[[str], str] = str


class Recorder(Protocol):
    """Where a session writes what it sees, as it sees it; values are safe for JSON."""

    def event(self, data: dict[str, Any]) -> object:
        """One item of the conversation: {type: message | usage | todo | system | result | ..., ts, ...}."""

    def hook(self, data: dict[str, Any]) -> object:
        """One hook event, raw, with `seq` (from 0, its line), `ts` (ms) and `tool_use_id`."""
