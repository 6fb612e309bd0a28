"""`vibe-gate capture`, `guard` and `stop`: what the hooks of coding agents call. Not for people."""

from __future__ import annotations

import argparse

from vibe_gate.faces.agent_hook import capture, guard, stop
from vibe_gate.faces.cli.command import Command, argument

# No choices: with exit code 2 for an agent that this version does not know, the agent could not go
# on.
AGENT = argument(
    "agent", metavar="AGENT", nargs="?", default="", help="gemini or codex; default: Claude Code"
)


def _parse(args: argparse.Namespace) -> str:
    """The name of the agent; "" for Claude Code."""
    return str(args.agent)


CAPTURE = Command(
    "For machines: Keep the hook event of an agent that comes on stdin. Says nothing, always exits 0.",
    (AGENT,),
    _parse,
    capture.main,
)

GUARD = Command(
    "For machines: Refuse, before a tool of an agent runs, what would go around the gate. Always exits 0.",
    (AGENT,),
    _parse,
    guard.main,
)

STOP = Command(
    "For machines: Review what an agent's session wrote when its turn ends. Always exits 0.",
    (AGENT,),
    _parse,
    stop.main,
)
