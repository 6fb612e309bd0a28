"""Agents: `.vibe-gate/agents/ID.toml`, and `.claude/agents/ID.md` as far as it can be honoured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from textwrap import dedent
from typing import Any

from vibe_gate.domain import paths
from vibe_gate.domain.agent import HARMLESS_TOOLS, Agent
from vibe_gate.domain.escape import expression
from vibe_gate.domain.rubric import WRITE_SCHEMA
from vibe_gate.domain.tables import MISTAKES_SHOWN, did_you_mean, quoted
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

Found = list[Mistake]

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

_KEY = expression(r"([A-Za-z][A-Za-z0-9_-]*):(?:[ \t]+(.*))?\Z")
_NUMBER = expression(r"[0-9]{1,9}\Z")
_QUOTED = expression(r"""(?:("(?:[^"\\]|\\.)*")|'((?:[^']|'')*)')(?:[ \t]+#.*)?\Z""")
_BREAKS = expression(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters but the tab, and separators: what follows one could seem to be a key, or seem
not to be there.
"""
_COMMENT = expression(r"(?:^|[ \t])#.*")


def read_agent(source: Source, servers: Sequence[str], found: Found) -> Agent | None:
    """The agent of a TOML file; `servers` are the names of `[mcp.NAME]` in gate.toml."""
    agent = read_model(
        Agent,
        {key: value for key, value in source.tables.items() if key != "mcp"},
        (),
        source,
        found,
    )
    check_id(source, found)
    if "mcp" in source.tables:
        advice = 'move [mcp.NAME] to .vibe-gate/gate.toml, and write mcp_servers = ["NAME"] here'
        found.append(source.mistake(("mcp",), f"is a table of gate.toml\n{advice}"))
    if "schema" not in source.tables:
        found.append(source.mistake(("schema",), WRITE_SCHEMA))
    for location, name in source.values("mcp_servers", None):
        if is_identifier(name) and name not in servers:
            advice = (
                did_you_mean(name, servers) or f"write [mcp.{name}] there, or take the name out"
            )
            found.append(
                source.mistake(location, f"gate.toml has no MCP server {quoted(name)}\n{advice}")
            )
    if agent and agent.writes and agent.isolation == "none":
        why = next((tool for tool in agent.tools if tool not in HARMLESS_TOOLS), "an MCP server")
        what = f'"none" is for agents that only read, and this one has {quoted(why)}\ntake isolation out, for a clone'
        found.append(source.mistake(("isolation",), what))
    return agent


def read_claude_agent(path: str, raw: bytes, found: Found) -> Agent | None:
    """The agent of a Claude Code file: its front matter and, as the system prompt, its body."""
    text = read_text(path, raw)
    if isinstance(text, Mistake):
        found.append(text)
        return None
    lines = text.replace("\r\n", "\n").split("\n")
    end = next((at for at, line in enumerate(lines) if at and line.rstrip(" \t") == "---"), 0)
    if not end or lines[0].rstrip(" \t") != "---":
        what = "no front matter; begin the file with ---, name: ID, description: TEXT and --- on lines of their own"
        found.append(Mistake(paths.quote(path), 1, "", what))
        return None
    tables: dict[str, Any] = {"schema": 1, "system_prompt": "\n".join(lines[end + 1 :]).strip()}
    written = {"id": ("name", 1)}
    own = list(islice(_breaks(path, lines[1:end]), MISTAKES_SHOWN))
    for number, key, value in _entries(lines[1:end]):
        if len(own) >= MISTAKES_SHOWN:
            break
        name = HONOURED.get(key, key)
        written[name] = (key, number)
        if what := _problem(key, value, name in tables):
            advice = f"take it out, or define {AGENTS}{stem(path)}.toml instead" if key else ""
            own.append(Mistake(paths.quote(path), number, key, what, advice))
        elif key in HONOURED and (name, value) != ("model", "inherit"):
            tables[name] = _typed(name, value)
    source = Source(path, text, tables, digest_of(raw), written)
    agent = read_model(Agent, tables, (), source, own)
    check_id(source, own)
    found += sorted(own, key=lambda mistake: mistake.line)[:MISTAKES_SHOWN]
    return None if own else agent


def _breaks(path: str, lines: Sequence[str]) -> Iterator[Mistake]:
    """Lines of front matter that may look like more lines, or like less."""
    for number, line in enumerate(lines, 2):
        if match := _BREAKS.search(line):
            what = f"holds U+{ord(match[0]):04X}, which some programs show as the end of a line, or not at all"
            yield Mistake(paths.quote(path), number, "", what, "take it out")


def _entries(lines: Sequence[str]) -> Iterator[tuple[int, str, str | list[str] | None]]:
    """Each key of front matter, with its line and value (None: a form that is not read); "" if it
    is not a key.
    """
    at = 0
    while at < len(lines):
        number, line = at + 2, lines[at]
        at += 1
        if match := _KEY.match(line):
            first = at
            while at < len(lines) and (not lines[at].strip() or lines[at][0] in " \t-"):
                at += 1
            yield number, match[1], _value((match[2] or "").strip(), lines[first:at])
        elif line.strip() and not line.startswith("#"):
            yield number, "", None


def _value(head: str, inner: Sequence[str]) -> str | list[str] | None:
    """A value in the part of YAML that such files use: text, quoted or as a block, and lists of
    words.
    """
    if head[:1] in ("|", ">"):
        body = dedent("\n".join(inner)).strip("\n")
        return body if head[0] == "|" else " ".join(body.split())
    rest = [line.strip() for line in inner if line.strip()]
    if head.startswith("["):
        whole = " ".join([head, *rest])
        return (
            [_scalar(one) for one in whole[1:-1].split(",") if one.strip()]
            if whole.endswith("]")
            else None
        )
    if head or not rest:
        return _scalar(" ".join([head, *rest]))
    return (
        [_scalar(line[2:]) for line in rest]
        if all(line.startswith("- ") for line in rest)
        else None
    )


def _scalar(text: str) -> str:
    text = text.strip()
    if match := _QUOTED.match(text):
        with suppress(ValueError):
            return str(json.loads(match[1])) if match[1] else match[2].replace("''", "'")
    return _COMMENT.sub("", text).strip()


def _problem(key: str, value: str | list[str] | None, twice: bool) -> str:
    """What is wrong with a key of front matter; "" if nothing is."""
    if not key:
        return "not front matter: write key: value, and indent what belongs to it"
    if key not in HONOURED:
        return "" if key == "color" else "vibe-gate cannot honour this key of a Claude Code agent"
    if twice:
        return "is there twice"
    return "is not text or a list of words" if value is None else ""


def _typed(name: str, value: str | list[str] | None) -> object:
    """The value as an Agent has it: tools may be listed with commas, numbers are numbers."""
    if name in ("tools", "disallowed_tools") and isinstance(value, str):
        return [one.strip() for one in value.split(",") if one.strip()]
    if name == "max_turns" and isinstance(value, str) and _NUMBER.match(value):
        return int(value)
    return value
