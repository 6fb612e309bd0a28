"""Agents: what `agents/ID.toml` says of one, and what `vibe_gate.Agent(...)` takes (`schema = 1`)."""

from __future__ import annotations

from typing import Annotated, Literal

from vibe_gate.domain import nearest
from vibe_gate.domain.model import CheckedModel, Field, checked_by, digest_of
from vibe_gate.domain.rubric import Identifier, ModelName, Schema

READ_ONLY_TOOLS = ("Read", "Grep", "Glob")
"""What an agent may use unless its definition names more, and all that a judge may use."""

_TODO_TOOLS = ("TaskCreate", "TaskUpdate", "TaskList", "TaskGet")
"""What Claude Code has in place of TodoWrite now, which definitions may still name."""

HARMLESS_TOOLS = frozenset({*READ_ONLY_TOOLS, *_TODO_TOOLS})
"""Tools that change no file: an agent with only these needs no workspace of its own."""

KNOWN_TOOLS = (
    *READ_ONLY_TOOLS, "LS", "LSP", "NotebookRead", "Edit", "Write", "MultiEdit", "NotebookEdit", "Bash", "BashOutput",
    "KillShell", "PowerShell", "Monitor", *_TODO_TOOLS, "TaskOutput", "TaskStop",
    "TodoWrite", "WebFetch", "WebSearch", "Agent", "Task", "SendMessage", "Skill", "SlashCommand", "ToolSearch",
    "ListMcpResourcesTool", "ReadMcpResourceTool", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "EnterWorktree",
    "ExitWorktree", "Workflow",
)  # fmt: skip
"""Of Claude Code, now and in earlier versions, which `.claude/agents` still name; besides, `mcp__SERVER__TOOL`."""

Isolation = Literal["none", "clone", "sandbox"]
"""`none`: an export, reading only; `clone`: a shared clone; `sandbox`: the clone, with a wall around the process."""


def _known(name: str) -> str:
    """The name of a tool. ValueError, with the nearest name: there is no such tool."""
    if name in KNOWN_TOOLS or name.startswith("mcp__"):
        return name
    near = nearest(name, KNOWN_TOOLS)
    raise ValueError("is not a tool" + (f"; did you mean {near}?" if near else ""))


ToolName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,127}$"), checked_by(_known)]


def _with_todo_tools(names: tuple[str, ...]) -> tuple[str, ...]:
    """The tools, those for todos in place of TodoWrite, which would never be given."""
    return tuple(dict.fromkeys(each for name in names for each in (_TODO_TOOLS if name == "TodoWrite" else (name,))))


ToolNames = Annotated[tuple[ToolName, ...], checked_by(_with_todo_tools)]

ToolRule = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_*-]{0,127}(\([^()]*\))?$")]
"""A tool, or a use of one: `Bash(git push *)`. Half of one would forbid nothing."""


class Agent(CheckedModel):
    """One agent. None takes the gate's own setting."""

    schema_: Schema = Field(default=1, alias="schema")
    id: Identifier = Field(description="The file's name without `.toml`.")
    description: str = Field(default="", description="For people.")
    model: ModelName | None = Field(default=None, description="The model that it is (default: the gate's).")
    system_prompt: str = Field(default="", description="What it is told before its prompt.")
    tools: ToolNames = Field(default=READ_ONLY_TOOLS, description="What it may use, inside its workspace.")
    disallowed_tools: tuple[ToolRule, ...] = Field(
        default=(), description="What it may not, in Claude Code's form: `Bash(git push *)`."
    )
    mcp_servers: tuple[Identifier, ...] = Field(default=(), description="Servers of `[mcp.NAME]` in gate.toml.")
    max_turns: int | None = Field(
        default=None, ge=1, le=1000, description="Requests in a turn (default: the budget's)."
    )
    max_cost_usd: float | None = Field(default=None, gt=0, description="US dollars for one turn (default: the run's).")
    timeout_s: float | None = Field(
        default=None, gt=0, le=86_400, description="Seconds of wall clock for one turn (default: the run's)."
    )
    isolation: Isolation | None = Field(
        default=None, description="Where it works (default: `clone` if it can write, else `none`)."
    )

    @property
    def writes(self) -> bool:
        """Whether it can change files: it needs the run's workspace, alone."""
        return bool(self.mcp_servers) or not HARMLESS_TOOLS.issuperset(self.tools)

    @property
    def level(self) -> Isolation:
        """The isolation it runs in."""
        return self.isolation or ("clone" if self.writes else "none")

    @property
    def digest(self) -> str:
        """sha-256 of what it demands."""
        return digest_of(self.model_dump())
