"""`vibe-gate guard`: what the hook script does, for who installs hooks in another way."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from vibe_gate.faces.claude_hook import guard

SUMMARY = "For machines: refuse, before a tool of Claude Code runs, what would go around the gate. Always exits 0."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Judge the PreToolUse event on stdin."""
    return guard.main()
