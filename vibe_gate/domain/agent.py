"""Agents: what `agents/ID.toml` says of one, and what `vibe_gate.Agent(...)` takes (`schema =
1`).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from vibe_gate.domain import nearest
from vibe_gate.domain.document import digest_of_definition
from vibe_gate.domain.rubric import Identifier, ModelName, Schema
from vibe_gate.domain.tables import require_right

READ_ONLY_TOOLS = ("Read", "Grep", "Glob")
"""What an agent may use unless its definition names more, and all that a judge may use."""

TESTS_TOOL = "mcp__vibe-gate__run_tests"
"""The tool of ours that runs the project's tests; an agent that lists it has it if the gate says how
they are run.
"""

_TODO_TOOLS = ("TaskCreate", "TaskUpdate", "TaskList", "TaskGet")
"""What Claude Code has in place of TodoWrite now, which definitions may still name."""

HARMLESS_TOOLS = frozenset({*READ_ONLY_TOOLS, *_TODO_TOOLS})
"""Tools that change no file: an agent with only these needs no workspace of its own."""

EDITING_TOOLS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})
"""Tools that do nothing else but change files."""

KNOWN_TOOLS = (
    *READ_ONLY_TOOLS,
    "LS",
    "LSP",
    "NotebookRead",
    "Edit",
    "Write",
    "MultiEdit",
    "NotebookEdit",
    "Bash",
    "BashOutput",
    "KillShell",
    "PowerShell",
    "Monitor",
    *_TODO_TOOLS,
    "TaskOutput",
    "TaskStop",
    "TodoWrite",
    "WebFetch",
    "WebSearch",
    "Agent",
    "Task",
    "SendMessage",
    "Skill",
    "SlashCommand",
    "ToolSearch",
    "ListMcpResourcesTool",
    "ReadMcpResourceTool",
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "EnterWorktree",
    "ExitWorktree",
    "Workflow",
)
"""Of Claude Code, now and in earlier versions, which `.claude/agents` still name; besides,
`mcp__SERVER__TOOL`.
"""

PROTECTED = frozenset({".git", ".claude", ".vibe-gate", ".vibe-artifacts"})
"""At the top of a workspace: what decides how it is worked on and judged, and git's own files."""


def is_protected(path: str) -> bool:
    """Whether no agent may change the file: it is in one of these folders, or in git's of any
    folder.
    """
    parts = path.casefold().split("/")
    return parts[0] in PROTECTED or ".git" in parts


Isolation = Literal["none", "clone", "sandbox"]
"""`none`: an export, reading only; `clone`: a shared clone; `sandbox`: the clone, with a wall
around the process.
"""


Setup = Literal["none", "project"]
"""`none`: nothing of the repository's Claude Code; `project`: its instructions, commands, skills
and agents, as the trusted revision has them.
"""


def _require_known(name: str) -> None:
    """ValueError, with the nearest name: there is no such tool."""
    if name not in KNOWN_TOOLS and not name.startswith("mcp__"):
        near = nearest(name, KNOWN_TOOLS)
        raise ValueError("is not a tool" + (f"; did you mean {near}?" if near else ""))


ToolName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,127}(?!\n)$",
        extra={"check": _require_known, "means": "the name of a tool"},
    ),
]

ToolRule = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z][A-Za-z0-9_*-]{0,127}(\([^()]*\))?(?!\n)$",
        extra={"means": "a tool or a rule, as in Bash(git push *)"},
    ),
]
"""A tool, or a use of one: `Bash(git push *)`. Half of one would forbid nothing."""


HookName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z]{1,64}(\([^()]{0,500}\))?(?!\n)$",
        extra={
            "means": "an event of settings.json, or one with its matcher: Stop, PreToolUse(Edit)"
        },
    ),
]
"""Hooks of settings.json: all of an event, or those of one of its matchers."""

ServerName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}(?!\n)$",
        extra={"means": "the name of a server in .mcp.json"},
    ),
]


class Agent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agent. None takes the gate's own setting."""

    LATER: ClassVar[frozenset[str]] = frozenset({"setup", "setup_hooks", "setup_mcp_servers"})
    """Keys of later versions: an agent that does not use them keeps its digest."""

    schema: Schema = 1
    id: Annotated[Identifier, Meta(description="The file's name without `.toml`.")]
    description: Annotated[str, Meta(description="For people.")] = ""
    model: Annotated[
        ModelName | None, Meta(description="The model that it is (default: the gate's).")
    ] = None
    system_prompt: Annotated[str, Meta(description="What it is told before its prompt.")] = ""
    tools: Annotated[
        tuple[ToolName, ...], Meta(description="What it may use, inside its workspace.")
    ] = READ_ONLY_TOOLS
    disallowed_tools: Annotated[
        tuple[ToolRule, ...],
        Meta(description="What it may not, in Claude Code's form: `Bash(git push *)`."),
    ] = ()
    mcp_servers: Annotated[
        tuple[Identifier, ...], Meta(description="Servers of `[mcp.NAME]` in gate.toml.")
    ] = ()
    setup: Annotated[
        Setup,
        Meta(
            description="`project`: CLAUDE.md and `.claude/` commands, skills and agents of the "
            "trusted revision are loaded."
        ),
    ] = "none"
    setup_hooks: Annotated[
        tuple[HookName, ...],
        Meta(
            description="With `setup`: hooks of `.claude/settings.json` by event and matcher, "
            "`PostToolUse(Edit)`."
        ),
    ] = ()
    setup_mcp_servers: Annotated[
        tuple[ServerName, ...], Meta(description="With `setup`: servers of `.mcp.json`.")
    ] = ()
    max_turns: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(description="Requests in a turn (default: the budget's)."),
    ] = None
    max_cost_usd: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="US dollars for one turn (default: the run's)."),
    ] = None
    timeout_s: Annotated[
        Annotated[float, Meta(gt=0, le=86_400)] | None,
        Meta(description="Seconds of wall clock for one turn (default: the run's)."),
    ] = None
    isolation: Annotated[
        Isolation | None,
        Meta(description="Where it works (default: `clone` if it can write, else `none`)."),
    ] = None

    def __post_init__(self) -> None:
        """Check what code gave. ValueError names the key. Tools for todos stand for TodoWrite,
        which is never given.
        """
        require_right(self)
        tools: list[str] = []
        for name in self.tools:
            tools += _TODO_TOOLS if name == "TodoWrite" else (name,)
        force_setattr(self, "tools", tuple(dict.fromkeys(tools)))

    @property
    def setup_problem(self) -> tuple[str, str]:
        """A key that does not fit the setup, and what is wrong with it; two "" if all fit."""
        if self.setup == "none":
            for key in ("setup_hooks", "setup_mcp_servers"):
                if getattr(self, key):
                    return key, 'needs setup = "project"'
        if self.setup_hooks and "Bash" not in self.tools:
            return "setup_hooks", 'a hook runs a command: list "Bash" in tools, too'
        twice = set(self.mcp_servers) & set(self.setup_mcp_servers)
        if twice:
            return "setup_mcp_servers", f"mcp_servers names {min(twice)}, too"
        return "", ""

    @property
    def writes(self) -> bool:
        """Whether it can change files: it needs the run's workspace, alone."""
        servers = self.mcp_servers or self.setup_mcp_servers
        return bool(servers) or not HARMLESS_TOOLS.issuperset(self.tools)

    @property
    def edits(self) -> bool:
        """Whether it is there to change files."""
        return not EDITING_TOOLS.isdisjoint(self.tools)

    @property
    def level(self) -> Isolation:
        """The isolation it runs in."""
        return self.isolation or ("clone" if self.writes else "none")

    @property
    def digest(self) -> str:
        """sha-256 of what it demands."""
        return digest_of_definition(self)
