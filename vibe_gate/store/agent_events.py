"""What the hook events of each known agent say: which are prompts, commands and last words, and
which tool calls wrote files.

`AGENTS` is the one place that knows how an agent's events are spelled; what is special to one agent
is in `claude_events`, `gemini_events` or `codex_events`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from vibe_gate.store.claude_events import (
    BackgroundEnd,
    is_notification,
    read_claude_edit,
    read_claude_end,
    read_claude_multi_edit,
    read_claude_notebook,
    read_claude_write,
    read_notification,
)
from vibe_gate.store.codex_events import read_codex_patch
from vibe_gate.store.event_parts import CommandEnd, WrittenFile, object_in, text_in
from vibe_gate.store.gemini_events import read_gemini_end, read_gemini_write

CLAUDE = "claude"
"""The agent of a session whose name says no other."""


class CapturedEvent(Struct, frozen=True):
    """One event of the spool."""

    at: datetime
    data: Mapping[str, Any]
    """What the agent gave its hook."""
    agent: str = CLAUDE
    """A key of `AGENTS`."""
    worktree: str = ""
    """The top of the linked worktree in which the agent was; "" in the main one, or if that is not
    known.
    """

    @property
    def kind(self) -> str:
        """The agent's own name of the event."""
        return str(self.data.get("hook_event_name", ""))


class RunCommand(Struct, frozen=True):
    """What an event says of a command that an agent ran."""

    line: str
    tool_use_id: str
    exit_status: int | None
    """Of the whole line; None if the event does not tell it."""
    duration_ms: int | None
    goes_on: bool = False
    """Whether it was left to go on in the background."""


_WriteReader = Callable[[Mapping[str, Any], Mapping[str, Any]], tuple[WrittenFile, ...]]
"""Input and response of a tool -> the files that it wrote."""


def _read_no_end(data: Mapping[str, Any]) -> CommandEnd:
    return CommandEnd()


class AgentEvents(Struct, frozen=True):
    """How the events of one agent are read."""

    title: str
    """What people call the agent."""
    prompt: str
    """The kind of event that has what a person typed, as its member "prompt"."""
    started: str
    """The kind of event before a tool call."""
    ended: str
    """The kind of event after a tool call; it has the call's input and response."""
    writes: Mapping[str, _WriteReader] = field(default_factory=dict)
    """By tool, how the files that a call wrote are read."""
    failed: str = ""
    """The kind of event after a tool call that failed; "" if `ended` tells of those, too."""
    command_tool: str = ""
    """The tool that runs commands."""
    read_end: Callable[[Mapping[str, Any]], CommandEnd] = _read_no_end
    """How an event of that tool says that its command ended."""
    stopped: str = "Stop"
    """The kind of event at the end of a turn."""
    last_words: str = "last_assistant_message"
    """Its member that has what the agent said last."""


AGENTS: Mapping[str, AgentEvents] = {
    CLAUDE: AgentEvents(
        title="Claude Code",
        prompt="UserPromptSubmit",
        started="PreToolUse",
        ended="PostToolUse",
        writes={
            "Write": read_claude_write,
            "Edit": read_claude_edit,
            "MultiEdit": read_claude_multi_edit,
            "NotebookEdit": read_claude_notebook,
        },
        failed="PostToolUseFailure",
        command_tool="Bash",
        read_end=read_claude_end,
    ),
    "gemini": AgentEvents(
        title="Gemini CLI",
        prompt="BeforeAgent",
        started="BeforeTool",
        ended="AfterTool",
        writes={"write_file": read_gemini_write, "replace": read_gemini_write},
        command_tool="run_shell_command",
        read_end=read_gemini_end,
        stopped="AfterAgent",
        last_words="prompt_response",
    ),
    "codex": AgentEvents(
        title="Codex",
        prompt="UserPromptSubmit",
        started="PreToolUse",
        ended="PostToolUse",
        writes={"apply_patch": read_codex_patch},
        command_tool="Bash",  # its events have what a command printed, and not how it ended
    ),
}
"""The agents whose sessions are captured, by the name that `vibe-gate install` has for them."""


def read_prompt(event: CapturedEvent) -> str | None:
    """What a person typed, if the event says so."""
    if event.kind != AGENTS[event.agent].prompt:
        return None
    text = text_in(event.data, "prompt")
    if text is None or is_notification(text):
        return None
    return text


def read_command(event: CapturedEvent) -> RunCommand | None:
    """The command that the agent ran, if the event tells of its end, or that it goes on."""
    agent = AGENTS[event.agent]
    if not agent.command_tool or event.data.get("tool_name") != agent.command_tool:
        return None
    if not event.kind or event.kind not in (agent.ended, agent.failed):
        return None
    line = text_in(object_in(event.data, "tool_input"), "command")
    if line is None:
        return None
    end = agent.read_end(event.data)
    return RunCommand(
        line=line,
        tool_use_id=text_in(event.data, "tool_use_id") or "",
        exit_status=end.exit_status,
        duration_ms=_read_duration_ms(event.data),
        goes_on=end.goes_on,
    )


def _read_duration_ms(data: Mapping[str, Any]) -> int | None:
    duration_ms = data.get("duration_ms")
    if isinstance(duration_ms, int) and duration_ms >= 0:
        return duration_ms
    return None


def read_background_end(event: CapturedEvent) -> BackgroundEnd | None:
    """That a command in the background ended, if the event says so."""
    if event.agent != CLAUDE or event.kind != AGENTS[CLAUDE].prompt:
        return None
    return read_notification(text_in(event.data, "prompt") or "")


def read_last_words(event: CapturedEvent) -> str:
    """What the agent said last in a turn that ends; "" of another event."""
    agent = AGENTS[event.agent]
    if event.kind != agent.stopped:
        return ""
    return text_in(event.data, agent.last_words) or ""


def read_written_files(event: CapturedEvent) -> tuple[WrittenFile, ...]:
    """The files that the call wrote, as its event has them; () of another event."""
    agent = AGENTS[event.agent]
    tool = event.data.get("tool_name")
    tool_input = event.data.get("tool_input")
    if event.kind != agent.ended or not isinstance(tool, str) or not isinstance(tool_input, dict):
        return ()
    read_files = agent.writes.get(tool)
    if read_files is None:
        return ()
    return read_files(tool_input, object_in(event.data, "tool_response"))
