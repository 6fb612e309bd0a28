"""`vibe-gate capture`: what the hook script does, for who installs hooks in another way."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from vibe_gate.faces.claude_hook import capture

SUMMARY = "For machines: keep the hook event of Claude Code that comes on stdin. Says nothing, always exits 0."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Keep the event."""
    return capture.main()
