"""Agents: `.vibe-gate/agents/ID.toml`, and `.claude/agents/ID.md` as far as it can be honoured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.agent import HARMLESS_TOOLS, Agent
from vibe_gate.domain.escape import expression
from vibe_gate.domain.rubric import WRITE_SCHEMA
from vibe_gate.domain.tables import MISTAKES_SHOWN, advise_nearest, quoted
from vibe_gate.gate.front_matter import front_matter_end, front_matter_entries
from vibe_gate.gate.source import (
    Mistake,
    Source,
    check_id,
    digest_of,
    is_identifier,
    read_model,
    read_text,
    stem,
)

AGENTS = ".vibe-gate/agents/"
CLAUDE_AGENTS = ".claude/agents/"


HONOURED = {
    "name": "id",
    "description": "description",
    "tools": "tools",
    "disallowedTools": "disallowed_tools",
    "maxTurns": "max_turns",
    "model": "model",
}
"""Keys of a Claude Code agent's front matter, and what an Agent calls them. `color` only decides
what people see.
"""

_NUMBER = expression(r"[0-9]{1,9}\Z")
_BREAKS = expression(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters but the tab, and separators: what follows one could seem to be a key, or seem
not to be there.
"""


def read_agent(source: Source, servers: Sequence[str], mistakes: list[Mistake]) -> Agent | None:
    """The agent of a TOML file; `servers` are the names of `[mcp.NAME]` in gate.toml."""
    tables = {key: value for key, value in source.tables.items() if key != "mcp"}
    agent = read_model(Agent, tables, (), source, mistakes)
    check_id(source, mistakes)
    if "mcp" in source.tables:
        advice = 'move [mcp.NAME] to .vibe-gate/gate.toml, and write mcp_servers = ["NAME"] here'
        mistakes.append(source.mistake(("mcp",), f"is a table of gate.toml\n{advice}"))
    if "schema" not in source.tables:
        mistakes.append(source.mistake(("schema",), WRITE_SCHEMA))
    for location, name in source.values("mcp_servers", None):
        if is_identifier(name) and name not in servers:
            write_advice = f"write [mcp.{name}] there, or take the name out"
            advice = advise_nearest(name, servers) or write_advice
            problem = f"gate.toml has no MCP server {quoted(name)}\n{advice}"
            mistakes.append(source.mistake(location, problem))
    if agent and agent.writes and agent.isolation == "none":
        mistakes.append(_isolation_mistake(source, agent))
    if agent:
        key, problem = agent.setup_problem
        if problem:
            mistakes.append(source.mistake((key,), problem))
    return agent


def _isolation_mistake(source: Source, agent: Agent) -> Mistake:
    """The mistake of an agent that can write and has no isolation."""
    writing_tools = [tool for tool in agent.tools if tool not in HARMLESS_TOOLS]
    writer = writing_tools[0] if writing_tools else "an MCP server"
    problem = f'"none" is for agents that only read, and this one has {quoted(writer)}'
    return source.mistake(("isolation",), f"{problem}\ntake isolation out, for a clone")


def read_claude_agent(path: str, raw: bytes, mistakes: list[Mistake]) -> Agent | None:
    """The agent of a Claude Code file: its front matter and, as the system prompt, its body."""
    text = read_text(path, raw)
    if isinstance(text, Mistake):
        mistakes.append(text)
        return None
    lines = text.replace("\r\n", "\n").split("\n")
    end = front_matter_end(lines)
    if not end:
        message = (
            "no front matter; begin the file with ---, name: ID, description: TEXT and --- on "
            "lines of their own"
        )
        mistakes.append(Mistake(paths.quote(path), 1, "", message))
        return None
    front_matter = _read_front_matter(path, lines[1:end])
    body = "\n".join(lines[end + 1 :]).strip()
    tables = {"schema": 1, "system_prompt": body, **front_matter.fields}
    file_mistakes = front_matter.mistakes
    source = Source(path, text, tables, digest_of(raw), front_matter.written)
    agent = read_model(Agent, tables, (), source, file_mistakes)
    check_id(source, file_mistakes)
    mistakes += sorted(file_mistakes, key=lambda mistake: mistake.line)[:MISTAKES_SHOWN]
    if file_mistakes:
        return None
    return agent


class _FrontMatter(Struct, frozen=True):
    """What the front matter of a Claude Code agent says."""

    fields: dict[str, Any]
    """By the names that an Agent has."""

    written: dict[str, tuple[str, int]]
    """By the same names the keys as they are written, each with its line."""

    mistakes: list[Mistake]


def _read_front_matter(path: str, lines: Sequence[str]) -> _FrontMatter:
    """The front matter between its lines of `---`, up to MISTAKES_SHOWN mistakes."""
    fields: dict[str, Any] = {}
    written = {"id": ("name", 1)}
    mistakes = list(islice(_find_breaks(path, lines), MISTAKES_SHOWN))
    for number, key, value in front_matter_entries(lines):
        if len(mistakes) >= MISTAKES_SHOWN:
            break
        name = HONOURED.get(key, key)
        written[name] = (key, number)
        problem = _entry_problem(key, value, name in fields)
        if problem:
            advice = ""
            if key:
                advice = f"take it out, or define {AGENTS}{stem(path)}.toml instead"
            mistakes.append(Mistake(paths.quote(path), number, key, problem, advice))
        elif key in HONOURED and (name, value) != ("model", "inherit"):
            fields[name] = _agent_value(name, value)
    return _FrontMatter(fields, written, mistakes)


def _find_breaks(path: str, lines: Sequence[str]) -> Iterator[Mistake]:
    """Lines of front matter that may look like more lines, or like less."""
    for number, line in enumerate(lines, 2):
        match = _BREAKS.search(line)
        if match:
            message = (
                f"holds U+{ord(match[0]):04X}, which some programs show as the end of a line, or "
                "not at all"
            )
            yield Mistake(paths.quote(path), number, "", message, "take it out")


def _entry_problem(key: str, value: str | list[str] | None, is_twice: bool) -> str:
    """What is wrong with a key of front matter; "" if nothing is."""
    if not key:
        return "not front matter: write key: value, and indent what belongs to it"
    if key not in HONOURED:
        if key == "color":
            return ""
        return "vibe-gate cannot honour this key of a Claude Code agent"
    if is_twice:
        return "is there twice"
    return "is not text or a list of words" if value is None else ""


def _agent_value(name: str, value: str | list[str] | None) -> object:
    """The value as an Agent has it: tools may be listed with commas, numbers are numbers."""
    if name in ("tools", "disallowed_tools") and isinstance(value, str):
        return [tool.strip() for tool in value.split(",") if tool.strip()]
    if name == "max_turns" and isinstance(value, str) and _NUMBER.match(value):
        return int(value)
    return value
