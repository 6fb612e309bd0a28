"""What one turn of an agent is asked, what it tells while it goes on, and how it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

from vibe_gate.domain.agent import READ_ONLY_TOOLS

if TYPE_CHECKING:
    from vibe_gate.agent.cli_process import Wall
    from vibe_gate.agent.protocols import TurnRecord
    from vibe_gate.domain.project_setup import ProjectSetup
    from vibe_gate.domain.turn import TurnChange

ProgressKind = Literal["tool.started", "tool.ended", "todo", "notification", "usage"]


class Image(Struct, frozen=True):
    """A picture that goes with the prompt."""

    media_type: str
    """image/png, image/jpeg, image/gif or image/webp."""
    data: bytes

    def __repr__(self) -> str:  # without the bytes
        return f"<Image {self.media_type}>"


class StoredSession(Struct, frozen=True, kw_only=True):
    """A session that can go on: the SDK mirrors its transcript into a store as it is written."""

    store: Any
    """A SessionStore of the SDK."""
    session_id: str = ""
    """Of a new session; "" of one that goes on."""
    resume: str = ""
    """The id of the session that goes on; "" of a new one."""
    resume_at: str = ""
    """The message from which it goes on; "" for its newest."""


class TurnProgress(Struct, frozen=True, kw_only=True):
    """One step of a turn, as a watcher is told of it."""

    kind: ProgressKind
    ts: int
    """Milliseconds since 1970."""
    tool: str = ""
    """Of a tool call: its name."""
    tool_use_id: str = ""
    """Of a tool call: its id, the same at its start and its end."""
    input: Mapping[str, Any] = field(default_factory=dict)
    """Of a tool call: what it was given."""
    ok: bool | None = None
    """Of a tool call that has ended: whether it succeeded."""
    result: Any = None
    """Of a tool call that has ended: its result, or why it was refused."""
    text: str = ""
    """Of a todo or a notification."""
    status: str = ""
    """Of a todo."""
    tokens: Mapping[str, int] = field(default_factory=dict)
    """Of usage: the tokens of one answer of the model."""


RunTests = Callable[[str], Awaitable[str]]
"""Runs a test file, named from the root of the working directory; what it printed."""

Watch = Callable[[TurnProgress], object]
"""Hears of each step before the agent goes on; what it raises stops the agent. It may be a
coroutine.
"""


class Stop:
    """The way to stop one turn; `abort` may be called from any thread."""

    def __init__(self) -> None:
        self.reason = ""
        """Why it was stopped; "" until then."""
        self.error: Exception | None = None
        """What a watcher raised."""
        self._requested = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def abort(self, reason: str, error: Exception | None = None) -> None:
        """Stop the agent within one tool call. The first reason counts."""
        if not self.reason:
            self.error = error
            self.reason = reason or "It was stopped."
        if self._loop is None:
            self._requested.set()
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing is left to be stopped
            self._loop.call_soon_threadsafe(self._requested.set)

    async def wait_for_abort(self) -> None:
        """Wait until `abort` is called."""
        self._loop = asyncio.get_running_loop()
        if not self.reason:
            await self._requested.wait()


class TurnRequest(Struct, frozen=True, kw_only=True):
    """What one agent is asked in one turn, complete: nothing is added on the way to its program."""

    node: str
    """The node of the run's graph that the turn and its cost are recorded at."""
    prompt: str
    system_prompt: str
    model: str
    folder: Path
    """The working directory, and all that the tools can reach."""
    hides_folder: bool = False
    """Whether the record does not tell where it is: there, paths in it begin with `./`, and a folder
    above is `…`.
    """
    homes: Path
    """A private folder in which the agent's home is made, and deleted after the turn."""
    schema: Mapping[str, Any] | None = None
    """The JSON schema of the answer, without `$schema`, which the CLI rejects; None for free
    text.
    """
    images: tuple[Image, ...] = ()
    tools: tuple[str, ...] = READ_ONLY_TOOLS
    disallowed_tools: tuple[str, ...] = ()
    """Tools and uses of them that are refused though listed: `Bash(git push *)`."""
    mcp_servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name, in the CLI's own form; all of a server's tools are listed, unless `tools` names
    some.
    """
    setup: ProjectSetup | None = None
    """The project's own Claude Code, of which nothing is loaded without this."""
    has_program_prompt: bool = False
    """Whether the system prompt comes after Claude Code's own."""
    command: str = ""
    """A slash command of the setup with its arguments, which comes after the prompt; "" for none."""
    run_tests: RunTests | None = None
    """What the tool TESTS_TOOL does, which this process serves; not together with MCP servers. None:
    there is no such tool.
    """
    working: bool = False
    """Whether the agent may change `folder`. It then goes on after an answer that was cut."""
    wall: Wall | None = None
    """What the agent's program is run behind."""
    session: StoredSession | None = None
    """None: the conversation is not kept."""
    max_turns: int = 20
    """Requests to the model."""
    max_cost_usd: float | None = None
    """The turn's own ceiling: of a working agent at the gateway, of a judge in the CLI if no
    gateway is in between.
    """
    timeout_s: float = 300.0
    """Wall clock of the whole turn."""
    patience_s: float = math.inf
    """How long an overloaded API is waited for."""
    objection: Callable[[Mapping[str, Any]], str] | None = None
    """What is wrong with an answer that fits the schema, or "". The model is told once, and answers
    once more.
    """
    watch: Watch | None = None
    stop: Stop = field(default_factory=Stop)
    change: Callable[[TurnRecord], TurnChange] | None = None
    """When the session has ended: what it changed, whose contents are kept in the turn's record.
    None: nothing.

    UsageError: files that the agent left cannot be read.
    """

    def __repr__(self) -> str:  # without servers, which may hold credentials
        return f"<TurnRequest {self.node or self.model}>"
