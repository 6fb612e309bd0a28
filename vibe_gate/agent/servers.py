"""The MCP servers of one session: what they leave when they end, and what is said of one that did not start.

Claude Code tells of a server that ends only "Connection closed". So each is started by a shell that keeps how it ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from vibe_gate.agent.conclusion import one_line

START_S = 60.0
"""How long a server may take to start: twice what Claude Code allows by itself, for one that is first downloaded."""

SHOWN_AFTER_S = 1.0
"""A start that takes no longer is not worth a line."""

POLL_S = 0.05

_KEPT_BYTES = 4000
_KEPT_LINES = 3

_KEEP = f"""\
place=$1; shift; exec 3>&1
{{ "$@" 2>&1 1>&3 3>&-; echo "$?" >"$place.exit"; }} | tail -c {_KEPT_BYTES} >"$place.stderr" 3>&-"""
"""Run "$@" with stdin and stdout as they are; keep its exit code, and the end of its stderr when it has ended.

The CLI sees the end of stdout last, when both are written.
"""


class ServerStates(Struct, frozen=True):
    """Of the servers of a session, those that are still starting, and why others did not start, by name."""

    starting: tuple[str, ...] = ()
    failed: Mapping[str, str] = {}


def kept(servers: Mapping[str, Mapping[str, Any]], folder: Path) -> dict[str, dict[str, Any]]:
    """The servers, in the CLI's own form, so that each program's end is kept in `folder`."""
    return {name: _kept(name, dict(server), folder) for name, server in servers.items()}


def _kept(name: str, server: dict[str, Any], folder: Path) -> dict[str, Any]:
    if "command" not in server:
        return server
    own = [server["command"], *server.get("args", ())]
    return server | {"command": "/bin/sh", "args": ["-c", _KEEP, name, str(_place(folder, name)), *own]}


def states(named: Iterable[str], told: Iterable[Mapping[str, Any]], folder: Path) -> ServerStates:
    """What the CLI tells (`mcpServers` of its status) of the servers that are named."""
    by_name = {str(one.get("name")): one for one in told}
    status = {name: str(by_name.get(name, {}).get("status", "pending")) for name in named}
    return ServerStates(
        tuple(name for name, is_now in status.items() if is_now == "pending"),
        {
            name: _why(by_name[name], is_now, _place(folder, name))
            for name, is_now in status.items()
            if is_now not in ("pending", "connected")
        },
    )


def failure(failed: Mapping[str, str]) -> str:
    """One sentence about servers that did not start; with it the agent's turn ends."""
    each = "; ".join(f"{name} did not start: {why}" for name, why in failed.items())
    return f"The agent was not asked, because its MCP server {each}"


def _why(told: Mapping[str, Any], status: str, place: Path) -> str:
    """How its program ended and what it said last, else the CLI's own words."""
    code, said = _read(place, "exit").strip(), _last_lines(_read(place, "stderr"))
    if code:
        return f"exit code {code}, " + (f"stderr ends: {said}" if said else "nothing on stderr")
    if status == "needs-auth":
        return "it asks for a login, which an agent cannot give"
    return one_line(said or str(told.get("error") or status))


def _last_lines(text: str) -> str:
    """Whole lines only: what a limit leaves of a secret is not known as one any more."""
    whole = text.partition("\n")[2] if len(text.encode("utf-8", "replace")) >= _KEPT_BYTES else text
    lines = [line for line in map(one_line, whole.splitlines()) if line]
    return " | ".join(lines[-_KEPT_LINES:])


def _place(folder: Path, name: str) -> Path:
    return folder / f"mcp-{name}"


def _read(place: Path, kind: str) -> str:
    try:
        with open(f"{place}.{kind}", "rb") as file:
            return file.read(_KEPT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
