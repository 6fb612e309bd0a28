"""`vibe-gate capture`, `guard` and `stop`: what the hooks of coding agents call. Not for people."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from vibe_gate.faces.agent_hook import capture, guard, stop
from vibe_gate.faces.cli.command import Command, argument

# No choices: with exit code 2 for an agent that this version does not know, the agent could not go
# on.
AGENT = argument(
    "agent", metavar="AGENT", nargs="?", default="", help="gemini or codex; default: Claude Code"
)


USER = argument(
    "--user",
    action="store_true",
    help="only in repositories that use vibe-gate, and whose own settings have no such hook",
)


class HookCall(Struct, frozen=True):
    """How an agent's settings start a hook."""

    agent: str
    """The agent's name; "" for Claude Code."""

    user: bool
    """Whether the hook steps aside where vibe-gate is not used, or acts by itself."""


class HookScript(Protocol):
    """The `main` of a script of `agent_hook`: reads the event on stdin, returns the exit code."""

    def __call__(self, agent: str, *, user: bool) -> int: ...  # noqa: D102


def _parse(args: argparse.Namespace) -> HookCall:
    return HookCall(agent=str(args.agent), user=bool(args.user))


def _start(script: HookScript) -> Callable[[HookCall], int]:
    return lambda call: script(call.agent, user=call.user)


CAPTURE = Command(
    "For machines: Keep the hook event of an agent that comes on stdin. Says nothing, always exits 0.",
    (AGENT, USER),
    _parse,
    _start(capture.main),
)

GUARD = Command(
    "For machines: Refuse, before a tool of an agent runs, what would go around the gate. Always exits 0.",
    (AGENT, USER),
    _parse,
    _start(guard.main),
)

STOP = Command(
    "For machines: Review what an agent's session wrote when its turn ends. Always exits 0.",
    (AGENT, USER),
    _parse,
    _start(stop.main),
)
