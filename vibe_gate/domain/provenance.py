"""Who wrote a change, from hints, and what git's hooks recorded about it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct, convert, to_builtins

from vibe_gate.domain import known_agents
from vibe_gate.domain.agent_hint import (
    AddressHint,
    AgentHint,
    GeneratedHint,
    RunAgentHint,
    TrailerHint,
    VariableHint,
)
from vibe_gate.domain.escape import expression

MAX_HINT_TEXT = 80
"""Characters of an address or a trailer that a hint holds."""


class Commit(Struct, frozen=True):
    """A commit as far as people and agents sign it. `id` is "" of one that is about to be made."""

    id: str
    author: str
    author_email: str
    committer_email: str
    message: str


AGENT_VARIABLES = {sign.text: sign.agent for sign in known_agents.VARIABLES if not sign.value}
"""Variables that tell of an agent, whatever they hold."""

AGENT_COMMANDS = tuple(sign.text for sign in known_agents.VARIABLES if not sign.shared)
"""Those that only a command run by an agent has: the others stand in a person's terminal, too."""

AGENT_ADDRESSES = tuple(
    (expression(sign.text, re.I), sign.agent) for sign in known_agents.ADDRESSES
)

_AGENT_TRAILERS = tuple(sign.text for sign in known_agents.TRAILERS)
_TRAILER = expression(
    rf"^[^\S\n]*(co-authored-by|{'|'.join(_AGENT_TRAILERS)})[^\S\n]*:[^\S\n]*(\S.*)$",
    re.I | re.M,
)
_ADDRESS = expression(r"<\s*([^<>\s]+@[^<>\s]+)\s*>")
_GENERATED = expression(
    rf"Generated with \[?({'|'.join(sign.text for sign in known_agents.LINES)})", re.I
)


def agents_in(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that tell of an agent, and of which. `AGENT=goose` is named if Goose's own is
    not set.
    """
    agents = {name: agent for name, agent in AGENT_VARIABLES.items() if environ.get(name)}
    signs_by_value = [sign for sign in known_agents.VARIABLES if sign.value]
    for sign in signs_by_value:
        text = environ.get(sign.text, "").lower()
        value, _, _ = text.partition("@")
        if value == sign.value and sign.agent not in agents.values():
            agents[f"{sign.text}={value}"] = sign.agent
    return agents


def agent_hints(
    agents: Mapping[str, str], commits: Iterable[Commit], written: Iterable[AgentHint] = ()
) -> tuple[AgentHint, ...]:
    """Signs that an agent wrote the change.

    Args:
        agents: The variables of the environment that tell of an agent, as of `agents_in`; none of
        them for a change
            that is committed: who runs a review later did not write the commit.
        commits: Those of the change.
        written: Signs of captured sessions.
    """
    hints: list[AgentHint] = []
    for name, agent in agents.items():
        hints.append(VariableHint(name=name, agent=agent))
    for commit in commits:
        hints += _commit_hints(commit)
    hints += written
    return tuple(dict.fromkeys(hints))


_AGENTS = expression(
    rf"\b({'|'.join(sorted(map(re.escape, known_agents.NAMES), key=len, reverse=True))})\b"
)


_AGENT_ID = expression(r"[a-z0-9][a-z0-9._-]{0,63}")  # as definitions have it


def hints_of_run(agents: Iterable[str]) -> tuple[AgentHint, ...]:
    """Signs that agents of the run wrote its change: each by its id, as far as they are known."""
    return tuple(RunAgentHint(agent=agent) for agent in agents) or (RunAgentHint(),)


def agents_named(hints: Iterable[AgentHint]) -> tuple[str, ...]:
    """The agents that signs speak of, as far as they are known, each once; those of the run by
    their ids.
    """
    agent_names = set()
    for hint in hints:
        if isinstance(hint, RunAgentHint):
            if _AGENT_ID.fullmatch(hint.agent):
                agent_names.add(hint.agent)
        elif match := _AGENTS.search(hint.agent_words):
            agent_names.add("Claude Code" if match[1] == "Claude" else match[1])
    return tuple(sorted(agent_names))


def _commit_hints(commit: Commit) -> list[AgentHint]:
    hints: list[AgentHint] = []
    for role, email in _roles_of(commit):
        agent = _agent_of(email)
        if agent:
            address = email[:MAX_HINT_TEXT]
            hints.append(AddressHint(commit=commit.id, role=role, address=address, agent=agent))
    for match in _TRAILER.finditer(commit.message):
        hints += _trailer_hints(commit, match[1], match[2].strip())
    generated = _GENERATED.search(commit.message)
    if generated:
        hints.append(GeneratedHint(commit=commit.id, agent=generated[1]))
    return hints


def _trailer_hints(commit: Commit, name: str, value: str) -> list[AgentHint]:
    """What a trailer says of agents: by an address, or by its name alone."""
    address = _ADDRESS.search(value)
    agent = _agent_of(address[1]) if address else None
    if agent:
        return [TrailerHint(commit=commit.id, name=name, agent=agent)]
    if name.lower() in _AGENT_TRAILERS:
        return [TrailerHint(commit=commit.id, name=name, value=value[:MAX_HINT_TEXT])]
    return []


def _roles_of(commit: Commit) -> tuple[tuple[Literal["author", "committer"], str], ...]:
    return ("author", commit.author_email), ("committer", commit.committer_email)


def _agent_of(email: str) -> str | None:
    for pattern, agent in AGENT_ADDRESSES:
        if pattern.search(email):
            return agent
    return None


RecordKind = Literal["reviewed", "not-reviewed", "bypassed", "rewritten"]
"""`reviewed`: a hook held the tree against the gate, and it passed or failed. `not-reviewed`: a
hook ran but reached no verdict. `bypassed`: a commit appeared whose tree no hook let through.
`rewritten`: commit `old` became `commit`.
"""

RecordStage = Literal[
    "pre-commit",
    "pre-merge-commit",
    "commit-msg",
    "pre-push",
    "post-commit",
    "post-rewrite",
    "reference-transaction",
]

Operation = Literal["", "rebase", "cherry-pick", "revert", "merge", "am"]
"""What git was in the middle of. For some of its own commits git runs no pre-commit hook: with a
bypass, what it made by itself, as its content shows; "" is `--no-verify`, a hook that was switched
off, a conflict that somebody solved.
"""


class Record(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One row of `hook_records`."""

    ts: str
    """ISO 8601, UTC."""

    kind: RecordKind

    stage: RecordStage

    commit: str = ""
    """"" while there is none."""

    tree: str = ""
    """That of the commit, or of the index."""

    before: str = ""
    """The tree that it was compared with."""

    run: str = ""

    exit_code: int = 0
    """The CLI's for the verdict."""

    blocked: bool = False
    """The hook stopped git."""

    judged: bool = False
    """A model's answer took part."""

    hints: tuple[AgentHint, ...] = ()

    during: Operation = ""

    old: str = ""
    """The commit that was rewritten."""

    reason: str = ""
    """Why there is no verdict, or what a bypass claimed to be."""

    again: bool = False
    """commit-msg reviews whatever the message says: the gate wants a judge there, or a rubric sees
    the message.
    """

    def to_line(self) -> str:
        """The record as ASCII JSON; what is left at its default is left out."""
        return json.dumps(
            to_builtins(self), separators=(",", ":")
        )  # unlike msgspec's, it takes half a surrogate pair

    @classmethod
    def from_line(cls, line: str) -> Record:
        """The record in a line. ValueError if it is damaged, or of another version."""
        return convert(json.loads(line), cls)


class Mark(Struct, frozen=True):
    """What a git hook in sh left to be recorded: `command` made commit `new` of `old` at `ts` (ISO,
    UTC).

    `hints`: signs of an agent in the environment.
    """

    ts: str
    command: Literal["amend", "rebase", "cherry-pick"]
    old: str
    new: str
    hints: tuple[AgentHint, ...]

    @property
    def during(self) -> Operation:
        """As of a record; "" of an amended commit, which post-commit has recorded."""
        return "" if self.command == "amend" else self.command

    @classmethod
    def from_file(cls, name: str, time: float, text: str) -> Mark | None:
        """The mark in a file: its name, when it was written (seconds since 1970), the variables
        that it lists.

        None if it is something else.
        """
        match = _MARK.match(name)
        if match is None:
            return None
        ts = datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")
        hints = agent_hints(agents_in(dict.fromkeys(text.split(), "set")), ())
        return cls(ts, *match.groups(), hints)  # type: ignore[arg-type,call-arg]


_MARK = expression(r"(amend|rebase|cherry-pick)\.([0-9a-f]{40})\.([0-9a-f]{40})\Z")
