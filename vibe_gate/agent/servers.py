"""The MCP servers of one session: what they leave when they end, and what is said of one that did not start.

Claude Code tells of a server that ends only "Connection closed". So each is started by a shell that keeps how it ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from vibe_gate.agent.conclusion import one_line
from vibe_gate.domain.verdict import DETAILS

START_S = 60.0
"""How long a server may take to start: twice what Claude Code allows by itself, for one that is first downloaded."""

SHOWN_AFTER_S = 1.0
"""A start that takes no longer is not worth a line."""

ENDED_S = 2.0
"""How long a server may still be starting after its program ended: a process that it left can hold its pipes open."""

POLL_S = 0.05

_KEPT_BYTES = 4000
_KEPT_LINES = 3

_KEEP = f"""\
place=$1; shift; exec 3>&1
{{ "$@" 2>&1 1>&3 3>&-; echo "$?" >"$place.exit"; }} | tail -c {_KEPT_BYTES} >"$place.stderr" 3>&-"""
"""Run "$@" with stdin and stdout as they are; keep its exit code, and the end of its stderr when it has ended.

The CLI sees the end of stdout last, when both are written.
"""


class FailedServer(Struct, frozen=True):
    """A server that did not start. `how` its program ended, in a few words, and what it or Claude Code `said`."""

    name: str
    how: str
    said: str


class ServerStates(Struct, frozen=True):
    """Of the servers of a session, the names of those that are still starting, and those that did not start."""

    starting: tuple[str, ...] = ()
    failed: tuple[FailedServer, ...] = ()


def kept(servers: Mapping[str, Mapping[str, Any]], folder: Path) -> dict[str, dict[str, Any]]:
    """The servers, in the CLI's own form, so that each program's end is kept in `folder`."""
    return {name: _kept(name, dict(server), folder) for name, server in servers.items()}


def _kept(name: str, server: dict[str, Any], folder: Path) -> dict[str, Any]:
    if "command" not in server:
        return server
    own = [server["command"], *server.get("args", ())]
    return server | {"command": "/bin/sh", "args": ["-c", _KEEP, name, str(_place(folder, name)), *own]}


def states(
    named: Iterable[str], told: Iterable[Mapping[str, Any]], folder: Path, redact: Callable[[str], str]
) -> ServerStates:
    """What the CLI tells (`mcpServers` of its status) of the servers that are named."""
    by_name = {str(one.get("name")): one for one in told}
    status = {name: _status(by_name.get(name, {}), _place(folder, name)) for name in named}
    return ServerStates(
        tuple(name for name, is_now in status.items() if is_now == "pending"),
        tuple(
            _failed(name, by_name.get(name, {}), is_now, _place(folder, name), redact)
            for name, is_now in status.items()
            if is_now not in ("pending", "connected")
        ),
    )


def failure(failed: Sequence[FailedServer]) -> str:
    """What is said of servers that did not start; with it the agent's turn ends."""
    named = ", ".join(f"{server.name} ({server.how})" for server in failed)
    said = "; ".join(f"{server.name}: {server.said}" for server in failed if server.said)
    return f"The agent was not asked, because its MCP server {named} did not start." + (DETAILS + said if said else "")


def _status(told: Mapping[str, Any], place: Path) -> str:
    status = str(told.get("status", "pending"))
    with suppress(FileNotFoundError):
        if status == "pending" and time.time() - place.with_name(f"{place.name}.exit").stat().st_mtime > ENDED_S:
            return "failed"
    return status


def _failed(name: str, told: Mapping[str, Any], status: str, place: Path, redact: Callable[[str], str]) -> FailedServer:
    code, said = _read(place, "exit").strip(), _last_lines(_read(place, "stderr"), redact)
    how = f"exit code {code}" if code else "it asks for a login" if status == "needs-auth" else "no connection"
    return FailedServer(name, how, said or ("" if code else one_line(redact(str(told.get("error") or "")))))


def _last_lines(text: str, redact: Callable[[str], str]) -> str:
    """Whole lines only, and redacted first: what is left of a secret that was cut or joined is not known as one."""
    whole = text.partition("\n")[2] if len(text.encode("utf-8", "replace")) >= _KEPT_BYTES else text
    lines = [line for line in map(one_line, redact(whole).splitlines()) if line]
    return " | ".join(lines[-_KEPT_LINES:])


def _place(folder: Path, name: str) -> Path:
    return folder / f"mcp-{name}"


def _read(place: Path, kind: str) -> str:
    try:
        with open(f"{place}.{kind}", "rb") as file:
            return file.read(_KEPT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
