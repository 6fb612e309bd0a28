"""`vibe-gate action`: what the GitHub Action runs. Not for people."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from vibe_gate.faces.action.gate import run as run_job
from vibe_gate.faces.action.runner import Runner
from vibe_gate.faces.cli.output import emit_to_runner

SUMMARY = "Called by the GitHub Action: reviews what the event is about and says so at the pull request."

FORM = "vibe-gate action"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Nothing: all that it reads is in the environment (docs/cli.md)."""


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Carry the job out."""
    return run_job(Runner(environ, Path.cwd(), lambda: datetime.now(UTC), emit_to_runner))
