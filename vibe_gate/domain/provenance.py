"""Who wrote a change: hints that an agent did, each of them said. A hint makes the gate stricter, never laxer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vibe_gate.domain.change import FileChange
from vibe_gate.domain.escape import show_text
from vibe_gate.domain.expressions import expression
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


def written_hints(files: Sequence[FileChange], blobs: Mapping[str, Written]) -> tuple[str, ...]:
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
