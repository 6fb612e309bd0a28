"""The MCP servers of one session: what they leave when they end, and what is said of one that did
not start.

Claude Code tells of a server that ends only "Connection closed". So each is started by a shell that
keeps how it ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from vibe_gate.agent.session_end import one_line
from vibe_gate.errors import AgentError

START_S = 60.0
"""How long a server may take to start: twice what Claude Code allows by itself, for one that is
first downloaded.
"""

REPORTED_AFTER_S = 1.0
"""A start that takes no longer is not worth a line."""

ENDED_S = 2.0
"""How long a server may still be starting after its program ended: a process that it left can hold
its pipes open.
"""

POLL_S = 0.05

_KEPT_BYTES = 4000
_KEPT_LINES = 3

_KEEP = f"""\
place=$1; shift; exec 3>&1
{{ "$@" 2>&1 1>&3 3>&-; echo "$?" >"$place.exit"; }} | tail -c {_KEPT_BYTES} >"$place.stderr" 3>&-"""
"""Run "$@" with stdin and stdout as they are; keep its exit code, and the end of its stderr when it
has ended.

The CLI sees the end of stdout last, when both are written.
"""


class FailedServer(Struct, frozen=True):
    """A server that did not start."""

    name: str
    cause: str
    """How its program ended, in a few words."""
    message: str
    """What it or Claude Code said of that."""


class ServerStates(Struct, frozen=True):
    """Of the servers of a session, those that have not started."""

    starting: tuple[str, ...] = ()
    failed: tuple[FailedServer, ...] = ()


def watched_servers(
    servers: Mapping[str, Mapping[str, Any]], folder: Path
) -> dict[str, dict[str, Any]]:
    """The servers, in the CLI's own form, so started that `folder` keeps how each program ends."""
    return {name: _watched(name, dict(server), folder) for name, server in servers.items()}


def _watched(name: str, server: dict[str, Any], folder: Path) -> dict[str, Any]:
    if "command" not in server:
        return server
    argv = [server["command"], *server.get("args", ())]
    ending = str(_ending_file(folder, name))
    return server | {"command": "/bin/sh", "args": ["-c", _KEEP, name, ending, *argv]}


def server_states(
    names: Iterable[str],
    reported: Iterable[Mapping[str, Any]],
    folder: Path,
    redact: Callable[[str], str],
) -> ServerStates:
    """The states of the named servers, from what the CLI reports (`mcpServers` of its status) and
    `folder` keeps.
    """
    reports = {str(report.get("name")): report for report in reported}
    starting: list[str] = []
    failed: list[FailedServer] = []
    for name in names:
        report = reports.get(name, {})
        ending = _ending_file(folder, name)
        status = _status(report, ending)
        if status == "pending":
            starting.append(name)
        elif status != "connected":
            failed.append(_failed(name, report, status, ending, redact))
    return ServerStates(tuple(starting), tuple(failed))


def start_failure(failed: Sequence[FailedServer]) -> AgentError:
    """What is said of servers that did not start; with it the agent's turn ends."""
    names = ", ".join(f"{server.name} ({server.cause})" for server in failed)
    messages = "; ".join(f"{server.name}: {server.message}" for server in failed if server.message)
    return AgentError(
        f"The agent was not asked, because its MCP server {names} did not start.", messages
    )


def _status(report: Mapping[str, Any], ending: Path) -> str:
    """The state that the CLI reports; "failed" of a server whose program has ended."""
    status = str(report.get("status", "pending"))
    if status != "pending":
        return status
    try:
        ended_at = ending.with_name(f"{ending.name}.exit").stat().st_mtime
    except FileNotFoundError:
        return status
    if time.time() - ended_at > ENDED_S:
        return "failed"
    return status


def _failed(
    name: str, report: Mapping[str, Any], status: str, ending: Path, redact: Callable[[str], str]
) -> FailedServer:
    code = _read_ending(ending, "exit").strip()
    message = _last_lines(_read_ending(ending, "stderr"), redact)
    if code:
        return FailedServer(name, f"exit code {code}", message)
    if not message:
        message = one_line(redact(str(report.get("error") or "")))
    cause = "it asks for a login" if status == "needs-auth" else "no connection"
    return FailedServer(name, cause, message)


def _last_lines(text: str, redact: Callable[[str], str]) -> str:
    """Whole lines only, and redacted first: what is left of a secret that was cut or joined is not
    known as one.
    """
    is_cut = len(text.encode("utf-8", "replace")) >= _KEPT_BYTES
    if is_cut:
        text = text.partition("\n")[2]
    lines = [one_line(line) for line in redact(text).splitlines()]
    filled_lines = [line for line in lines if line]
    return " | ".join(filled_lines[-_KEPT_LINES:])


def _ending_file(folder: Path, name: str) -> Path:
    """Beginning of the names of the files that keep how a server's program ended."""
    return folder / f"mcp-{name}"


def _read_ending(ending: Path, kind: str) -> str:
    try:
        with open(f"{ending}.{kind}", "rb") as file:
            return file.read(_KEPT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
