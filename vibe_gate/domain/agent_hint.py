"""What hints at an agent as the author of a change: a code with its parameters.

Hints are kept in records of hooks and in summaries, and read again from there.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.escape import counted, show_text

SHOWN_ID = 12
"""Digits of a commit's id in a sentence."""

SHOWN_SESSION = 8
"""Characters of a session's id in a sentence."""


class Hint(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="code"):
    """One sign; its tag is the code."""

    commit: str = ""
    """The commit that it is about; "" of what is not committed."""

    recorded: bool = False
    """Whether a hook saw it when the commit was made: the commit itself does not show it."""

    @property
    def fact(self) -> str:
        """The sign, without the commit."""
        raise NotImplementedError

    @property
    def agent_words(self) -> str:
        """The words in which the agent's name stands, if it is known; "" without any."""
        return ""

    @property
    def subject(self) -> str:
        """The commit by its name."""
        if self.commit:
            return f"commit {self.commit[:SHOWN_ID]}"
        return "this commit"

    @property
    def sentence(self) -> str:
        """The sign in words, with what it is about."""
        if self.recorded:
            return f"{self.subject}: recorded: {self.fact}"
        return self.fact

    def at(self, commit: str) -> AgentHint:
        """The same as it reads later, of the commit that came of what it was about."""
        return replace(self, commit=commit, recorded=True)  # type: ignore[return-value]


class CommitHint(Hint, frozen=True, kw_only=True):
    """A sign that the commit itself shows, or what tools noted beside it."""

    @property
    def sentence(self) -> str:
        """The sign in words, with the commit."""
        return f"{self.subject}: {self.fact}"

    def at(self, commit: str) -> AgentHint:
        """The same of the commit."""
        return replace(self, commit=commit)  # type: ignore[return-value]


class VariableHint(Hint, frozen=True, kw_only=True, tag="variable"):
    """A variable of the environment that an agent sets."""

    name: str
    """The variable, with its value if that names the agent."""

    agent: str

    @property
    def fact(self) -> str:
        """The variable and its agent."""
        return f"{self.name} is set: {self.agent} runs this"

    @property
    def agent_words(self) -> str:
        """The agent."""
        return self.agent


class AddressHint(CommitHint, frozen=True, kw_only=True, tag="address"):
    """The address of the author or the committer is an agent's."""

    role: Literal["author", "committer"]

    address: str

    agent: str

    @property
    def fact(self) -> str:
        """Whose address it is."""
        return f"{self.role} {show_text(self.address)} is {self.agent}"

    @property
    def agent_words(self) -> str:
        """The agent."""
        return self.agent


class TrailerHint(CommitHint, frozen=True, kw_only=True, tag="trailer"):
    """A trailer of the commit's message."""

    name: str
    """As it stands there."""

    agent: str = ""
    """The agent whose address it holds; "" without one."""

    value: str = ""
    """What it holds if that is no known address."""

    @property
    def fact(self) -> str:
        """The trailer, and the agent or what it holds."""
        return f"trailer {self.name}: {self.agent_words}"

    @property
    def agent_words(self) -> str:
        """The agent, or what the trailer holds."""
        return self.agent or show_text(self.value)


class GeneratedHint(CommitHint, frozen=True, kw_only=True, tag="generated"):
    """A line of the message: "Generated with ..."."""

    agent: str

    @property
    def fact(self) -> str:
        """What the line names."""
        return f"message: generated with {self.agent}"

    @property
    def agent_words(self) -> str:
        """The agent."""
        return self.agent


class TraceHint(CommitHint, frozen=True, kw_only=True, tag="trace"):
    """Agent Trace records of a tool that name files of the change."""

    tool: str
    """"" of a tool without a name."""

    files: int
    """Changed files that an agent wrote, as they say."""

    all_files: int
    """Changed files."""

    @property
    def fact(self) -> str:
        """The tool, and of how many files it speaks."""
        tool = show_text(self.tool) or "an unnamed tool"
        count = _describe_count(self.files, self.all_files)
        return f"an Agent Trace record of {tool} says that an agent wrote {count}"

    @property
    def agent_words(self) -> str:
        """The tool."""
        return self.tool


class UnreadTraceHint(CommitHint, frozen=True, kw_only=True, tag="unread_trace"):
    """Agent Trace records that cannot be read."""

    records: int

    @property
    def fact(self) -> str:
        """How many there are."""
        unread = counted(self.records, "Agent Trace record")
        return f"{unread} cannot be read, so an agent may have made it"


class SessionHint(Hint, frozen=True, kw_only=True, tag="session"):
    """A captured session wrote files of the change."""

    agent: str
    """What people call the session's agent."""

    session: str
    """The id that the agent gives to the session."""

    files: int
    """Changed files that it wrote."""

    all_files: int
    """Changed files."""

    @property
    def fact(self) -> str:
        """The session, and how many files it wrote."""
        session = f"{self.agent} session {show_text(self.session[:SHOWN_SESSION])}"
        return f"{session} wrote {_describe_count(self.files, self.all_files)}"

    @property
    def agent_words(self) -> str:
        """The agent."""
        return self.agent


class UnreadSessionsHint(Hint, frozen=True, kw_only=True, tag="unread_sessions"):
    """Not all that captured sessions wrote could be read."""

    reason: str
    """Why, as a sentence."""

    @property
    def fact(self) -> str:
        """Why."""
        return self.reason


class RunAgentHint(Hint, frozen=True, kw_only=True, tag="run_agent"):
    """An agent of this run wrote the change."""

    agent: str = ""
    """Its id; "" if it is not known which."""

    @property
    def fact(self) -> str:
        """The agent."""
        if self.agent:
            return f"this run's agent {self.agent}"
        return "this run's agents"


def _describe_count(files: int, all_files: int) -> str:
    return f"{files} of {counted(all_files, 'file')}"


AgentHint: TypeAlias = (
    VariableHint
    | AddressHint
    | TrailerHint
    | GeneratedHint
    | TraceHint
    | UnreadTraceHint
    | SessionHint
    | UnreadSessionsHint
    | RunAgentHint
)
"""Any of them, as documents have them: `{"code": "run_agent", "agent": "fixer"}`."""
