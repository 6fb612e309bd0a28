"""Who wrote a change, from hints, and what git's hooks recorded about it."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.escape import expression, show_text
from vibe_gate.domain.model import Model
from vibe_gate.domain.summary import AgentAuthored


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit as far as people and agents sign it. `id` is "" of one that is about to be made."""

    id: str
    author: str
    author_email: str
    committer_email: str
    message: str


AGENT_VARIABLES = {
    "CLAUDECODE": "Claude Code",
    "CLAUDE_CODE_ENTRYPOINT": "Claude Code",
    "CURSOR_AGENT": "Cursor",
    "CURSOR_TRACE_ID": "Cursor",
    "CODEX_SANDBOX": "Codex",
    "CODEX_THREAD_ID": "Codex",
    "GEMINI_CLI": "Gemini CLI",
    "OPENCODE": "opencode",
    "AIDER_MODEL": "Aider",
    "COPILOT_AGENT_SESSION_ID": "Copilot",
}
"""Variables that agents set for the commands they run, as their documentation names them."""

AGENT_COMMANDS = tuple(name for name in AGENT_VARIABLES if name not in ("CURSOR_TRACE_ID", "AIDER_MODEL"))
"""Those that only a command run by an agent has: the other two stand in a person's terminal, too."""

AGENTS = {"claude": "Claude Code"}
"""Agents whose sessions are captured, as people call them."""

AGENT_ADDRESSES = (
    (expression(r"noreply@anthropic\.com\Z", re.I), "Claude"),
    (expression(r"cursoragent@cursor\.com\Z", re.I), "Cursor"),
    (expression(r"(?:codex|noreply)@openai\.com\Z", re.I), "Codex"),
    (expression(r"(?:\d+\+)?(?:copilot|copilot-swe-agent\[bot\])@users\.noreply\.github\.com\Z", re.I), "Copilot"),
    (expression(r"(?:\d+\+)?(?:claude|devin-ai-integration|google-labs-jules|cursor)\[bot\]@", re.I), "a coding bot"),
    (expression(r"noreply@aider\.chat\Z|aider@aider\.chat\Z", re.I), "Aider"),
)

_TRAILER = expression(
    r"^[^\S\n]*(co-authored-by|assisted-by|generated-by|entire-checkpoint|claude-session|agent-session)"
    r"[^\S\n]*:[^\S\n]*(\S.*)$",
    re.I | re.M,
)
_ADDRESS = expression(r"<\s*([^<>\s]+@[^<>\s]+)\s*>")
_AGENT_TRAILERS = frozenset({"assisted-by", "generated-by", "entire-checkpoint", "claude-session", "agent-session"})
_GENERATED = expression(r"Generated with \[?(Claude Code|Codex|Cursor|opencode|Gemini CLI)", re.I)


@dataclass(frozen=True, slots=True)
class Written:
    """Who wrote a blob, and where: a captured session of a coding agent."""

    agent: str
    session: str
    path: str


def written_hints(files: Sequence[FileDiff], blobs: Mapping[str, Written]) -> tuple[str, ...]:
    """What captured sessions say about the files: a hint for each session whose blobs (by id) the change brings."""
    counts: dict[tuple[str, str], int] = {}
    for file in files:
        if file.after is None or (file.before is not None and file.before.blob == file.after.blob):
            continue  # only moved, or given another mode
        if by := blobs.get(file.after.blob):
            counts[by.agent, by.session] = counts.get((by.agent, by.session), 0) + 1
    of = f"of {len(files)} files" if len(files) != 1 else "of 1 file"
    return tuple(
        f"{AGENTS.get(agent, agent)} session {show_text(session[:8])} wrote {count} {of}"
        for (agent, session), count in counts.items()
    )


def provenance(
    environ: Mapping[str, str], commits: Iterable[Commit], uncommitted: bool, written: Iterable[str] = ()
) -> AgentAuthored:
    """Whether an agent wrote the change, by what its environment, commits and captured sessions say.

    `written` is what `written_hints` found.

    The environment speaks only of work that is not committed yet: who runs a review
    later says nothing about who wrote the commit.
    """
    hints: list[str] = []
    if uncommitted:
        hints += [f"{name} is set: {agent} runs this" for name, agent in AGENT_VARIABLES.items() if environ.get(name)]
    for commit in commits:
        name = f"commit {commit.id[:12]}" if commit.id else "this commit"
        hints += [f"{name}: {hint}" for hint in _commit_hints(commit)]
    hints += written
    return AgentAuthored(decision=bool(hints), hints=tuple(dict.fromkeys(hints)))


def _commit_hints(commit: Commit) -> list[str]:
    hints = [
        f"{role} {show_text(email)} is {agent}"
        for role, email in (("author", commit.author_email), ("committer", commit.committer_email))
        if (agent := _agent_of(email))
    ]
    for match in _TRAILER.finditer(commit.message):
        name, value = match[1].lower(), match[2].strip()
        address = _ADDRESS.search(value)
        agent = _agent_of(address[1]) if address else None
        if agent:
            hints.append(f"trailer {match[1]}: {agent}")
        elif name in _AGENT_TRAILERS:
            hints.append(f"trailer {match[1]}: {show_text(value)[:80]}")
    if generated := _GENERATED.search(commit.message):
        hints.append(f"message: generated with {generated[1]}")
    return hints


def _agent_of(email: str) -> str | None:
    return next((agent for pattern, agent in AGENT_ADDRESSES if pattern.search(email)), None)


RecordKind = Literal["reviewed", "not-reviewed", "bypassed", "rewritten", "unseen"]
"""`reviewed`: a hook held the tree against the gate, and it passed or failed. `not-reviewed`: a hook ran but
reached no verdict. `bypassed`: a commit appeared whose tree no hook let through. `rewritten`: commit `old` became
`commit`. `unseen`: of a commit that a push brings, or that was rewritten, and no hook saw being made, or of a merge
that differs in nothing from its first parent: only its hints count."""

RecordStage = Literal[
    "pre-commit", "pre-merge-commit", "commit-msg", "pre-push", "manual", "post-commit", "post-rewrite",
    "reference-transaction",
]  # fmt: skip

Operation = Literal["", "rebase", "cherry-pick", "revert", "merge", "am"]
"""What git was in the middle of. For some of its own commits git runs no pre-commit hook: with a bypass, what it made
by itself, as its content shows; "" is `--no-verify`, a hook that was switched off, a conflict that somebody solved."""


class Record(Model):
    """One line.

    `ts` is ISO, UTC. `commit` is "" while there is none (the index was reviewed);
    `tree` is that of the commit, or of the index. `run` is the run id in
    `.vibe-artifacts`, "" without one. `exit_code` is the CLI's code for the verdict
    and `blocked` whether the hook stopped git. `judged`: a model's answer took part.
    `hints` say why the change was held for an agent's. `old` is the commit that was
    rewritten. `reason` says why there is no verdict, or what a bypass claimed to be. `again`: the gate wants
    commit-msg to ask a judge whatever the message says.
    """

    schema_: Literal[1] = Field(default=1, alias="schema")
    ts: str
    kind: RecordKind
    stage: RecordStage
    commit: str = ""
    tree: str = ""
    run: str = ""
    exit_code: int = 0
    blocked: bool = False
    judged: bool = False
    hints: tuple[str, ...] = ()
    during: Operation = ""
    old: str = ""
    reason: str = ""
    again: bool = False

    def to_line(self) -> bytes:
        """The record as one line of JSON; what is left at its default is left out."""
        said = self.model_dump_json(by_alias=True, exclude_defaults=True, exclude={"schema_"})
        return b'{"schema":1,' + said.removeprefix("{").encode() + b"\n"


def let_through(records: Iterable[Record], tree: str) -> Record | None:
    """The newest record of a hook that saw this tree and let it pass, or None.

    `records` are oldest first. A tree that was stopped and committed all the same is
    not let through, whatever an earlier record says of it.
    """
    found = None
    for record in records:
        if record.tree == tree and record.kind in ("reviewed", "not-reviewed") and record.stage != "pre-push":
            found = None if record.blocked else record
    return found


MAX_HINTS = 20
"""Recorded hints that are told of one commit: one is enough to be strict."""


class Hints:
    """What hooks wrote down about who made a commit, or a tree that became one.

    A later review cannot see the environment in which a commit was made; the hooks
    did. What the review of a push recorded is left out: it speaks of a whole range.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._by_object: dict[str, list[str]] = {}
        self._before: dict[str, set[str]] = {}
        for record in records:
            if record.kind == "rewritten":
                self._before.setdefault(record.commit, set()).add(record.old)
            elif (record.stage != "pre-push" or record.kind == "unseen") and record.hints:
                for name in filter(None, {record.commit, record.tree}):
                    self._by_object.setdefault(name, []).extend(record.hints)

    def of(self, commit: str, tree: str, known: Container[str] = ()) -> tuple[str, ...]:
        """The hints about a commit ("": one that is about to be made), those it was rewritten from, and its tree.

        What is `known` already is left out.
        """
        names, waiting = {tree}, [commit]
        while waiting:
            name = waiting.pop()
            if name and name not in names:
                names.add(name)
                waiting += sorted(self._before.get(name, ()))
        # A hook that reviewed a range recorded what other commits say, too.
        own_names = tuple(f"commit {name[:12]}: " for name in names)
        own = f"commit {commit[:12]}" if commit else "this commit"
        found = [
            hint
            for name in sorted(names)
            for hint in self._by_object.get(name, ())
            if not hint.startswith("commit ") or hint.startswith(own_names)
        ]
        said = dict.fromkeys(_of_commit(own, hint) for hint in found if hint not in known)
        return tuple(hint for hint in said if hint not in known)[:MAX_HINTS]


def _of_commit(own: str, hint: str) -> str:
    """The hint as it reads later: of the commit by its name, as `provenance` words it, or as what a hook recorded."""
    if hint.startswith("commit "):
        return hint
    if hint.startswith("this commit: "):
        return f"{own}: {hint.removeprefix('this commit: ')}"
    return f"{own}: recorded: {hint}"
