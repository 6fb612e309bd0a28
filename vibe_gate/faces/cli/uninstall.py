"""`vibe-gate uninstall [git|claude]`: take away what `install` put there, and nothing else."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from vibe_gate.domain.provenance import AGENT_COMMANDS
from vibe_gate.errors import UsageError
from vibe_gate.faces.cli import install

SUMMARY = "Take the gate away again from where `install` put it; everything else stays as it is."

EXAMPLES = """\
examples:
  vibe-gate uninstall git             git's hooks as they were before
  vibe-gate uninstall claude          our hooks out of .claude/settings.json
"""

add_arguments = install.add_arguments


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Uninstall where the arguments say. UsageError for an agent: a person decides about the gate."""
    if name := next((name for name in AGENT_COMMANDS if environ.get(name)), ""):
        raise UsageError(f"{name} is set: an agent may not remove the gate. Ask the user to run `vibe-gate uninstall`.")
    return install.target(args).uninstall(args, environ)
