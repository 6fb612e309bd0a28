"""Which tool calls may run: listed tools, inside the directory."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from vibe_gate.domain.verdict import ANSWER_TOOL

SKILL_TOOL = "Skill"
SUBAGENT_TOOLS = frozenset({"Agent", "Task"})
"""The second is its earlier name."""

READING_TOOLS = frozenset({"Read", "Grep", "Glob", "LS"})
_MCP = "mcp__"
_PATH_KEYS = ("file_path", "path", "notebook_path")
_PATTERN_KEYS = {"Glob": ("pattern",), "Grep": ("glob",)}
_WILDCARD = re.compile(r"[*?\[{]")


def refusal_of_call(
    name: str,
    tool_input: Mapping[str, Any],
    tools: tuple[str, ...],
    cwd: Path,
    protected: frozenset[str] = frozenset(),
    readable: tuple[Path, ...] = (),
) -> str | None:
    """Why this call must not run, or None if it may.

    Paths are followed through symlinks, as the tool would; a call whose input is not understood is
    refused. `protected` are names at the root of `cwd` that no call may reach, `readable` other
    folders that calls may read. What a command of
    Bash or an MCP server does cannot be told from its input: a listed one runs, and only the
    isolation of its process holds it.
    """
    if name == ANSWER_TOOL:
        return None
    if not _listed(name, tools):
        return f"The tool {name} is not available in this session."
    if name.startswith(_MCP):
        return None
    root = Path(os.path.realpath(cwd))
    for path in _paths(name, tool_input):
        target = _target(path, root)
        if name in READING_TOOLS and any(_target(path, folder, root) for folder in readable):
            continue
        if target is None:
            return "Only files below the working directory can be reached."
        parts = [part.casefold() for part in target.relative_to(root).parts]
        if protected and (".git" in parts or not protected.isdisjoint(parts[:1])):
            return f"Files below {', '.join(sorted(protected))} cannot be reached."
    return None


def built_in(tools: tuple[str, ...]) -> list[str]:
    """The tools of the agent's program itself; the others come with their server."""
    return [tool for tool in tools if not tool.startswith(_MCP)]


def _listed(name: str, tools: tuple[str, ...]) -> bool:
    """Whether the tool is listed; `mcp__SERVER` lists every tool of that server."""
    server = _MCP + name.removeprefix(_MCP).partition("__")[0]
    return name in tools or (name.startswith(_MCP) and server in tools)


def _paths(name: str, tool_input: Mapping[str, Any]) -> list[object]:
    """Every path that the call reaches for, with patterns up to their first wildcard."""
    paths: list[object] = [tool_input[key] for key in _PATH_KEYS if tool_input.get(key) is not None]
    base = tool_input.get("path") or "."
    for key in _PATTERN_KEYS.get(name, ()):
        pattern = tool_input.get(key)
        if pattern is None:
            continue
        if not isinstance(pattern, str) or not isinstance(base, str):
            paths.append(None)
        else:
            paths.append(str(PurePosixPath(base) / _literal_part(pattern)))
    return paths


def _literal_part(pattern: str) -> str:
    """The folder that a pattern starts from; "/" if ".." could climb out behind a wildcard."""
    if ".." in PurePosixPath(pattern).parts and _WILDCARD.search(pattern):
        return "/"
    start = _WILDCARD.split(pattern, maxsplit=1)[0]
    if start == pattern:
        return pattern
    folder = start.rpartition("/")[0]
    if folder:
        return folder
    if start.startswith("/"):
        return "/"
    return "."


def _target(path: object, root: Path, cwd: Path | None = None) -> Path | None:
    """The file that the tool would reach, None outside of `root` and of what is no path. `cwd`: if
    it is another than `root`.
    """
    if not isinstance(path, str) or "\0" in path:
        return None
    if path.startswith("~"):
        return None  # the tool would expand it
    target = Path(os.path.realpath((cwd or root) / path))
    if not target.is_relative_to(os.path.realpath(root)):
        return None
    return target
