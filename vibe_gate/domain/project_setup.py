"""What of a repository's own Claude Code is loaded for an agent with `setup = "project"`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from vibe_gate.domain import nearest
from vibe_gate.domain.escape import expression

_COMMAND = expression(r"/([A-Za-z0-9][A-Za-z0-9_.:-]*)(?=\s|\Z)")


class SetupFile(Struct, frozen=True):
    """A file as Claude Code finds it."""

    place: str
    """Below the agent's home: `config/...`, which is its own, or `project/...`, which is the
    project's.
    """
    content: bytes
    is_executable: bool = False


class ProjectSetup(Struct, frozen=True, kw_only=True):
    """Everything that is loaded, and nothing else is."""

    digests: Mapping[str, str] = field(default_factory=dict)
    """sha-256 of what was read, by path; `PATH#NAME` of a hook and of an MCP server."""
    files: tuple[SetupFile, ...] = ()
    commands: tuple[str, ...] = ()
    """Names that a prompt may begin with, behind "/"."""
    hooks: Mapping[str, Any] = field(default_factory=dict)
    """By event, in the form of settings.json."""
    mcp_servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name, in the form of .mcp.json."""
    left_out: tuple[str, ...] = ()
    """What of these files is not loaded, a few words each."""

    @property
    def programs(self) -> tuple[str, ...]:
        """Which parts run programs outside of the agent's tool calls, as people name them."""
        hooks = [f"the hook {event}" for event in self.hooks]
        servers = []
        for name, server in self.mcp_servers.items():
            if "url" not in server or "command" in server:
                servers.append(f"the MCP server {name}")
        return (*hooks, *servers)

    @property
    def digest(self) -> str:
        """sha-256 of all digests."""
        text = json.dumps(dict(self.digests), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def nearest_command(self, name: str) -> str:
        """The command whose name is most like this one; "" if none is."""
        return nearest(name, self.commands)


def command_name(prompt: str) -> str:
    """The name of the command that the prompt begins with, "" if it begins with none; a path
    (`/usr/bin`) is none.
    """
    match = _COMMAND.match(prompt)
    return match[1] if match else ""
