"""`vibe-gate capture` and `guard`: what Claude Code's hooks call. Not for people."""

from __future__ import annotations

from vibe_gate.faces.claude_hook import capture, guard
from vibe_gate.faces.cli.command import Command

CAPTURE = Command(
    "For machines: Keep the hook event of Claude Code that comes on stdin. Says nothing, always exits 0.",
    (),
    lambda args, environ: capture.main(),
)

GUARD = Command(
    "For machines: Refuse, before a tool of Claude Code runs, what would go around the gate. Always exits 0.",
    (),
    lambda args, environ: guard.main(),
)
