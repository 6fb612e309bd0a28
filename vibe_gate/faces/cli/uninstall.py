"""`vibe-gate uninstall [git|claude]`: take away what `install` put there, and nothing else."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from vibe_gate.faces.cli import install

SUMMARY = "Take the gate away again from where `install` put it; everything else stays as it is."

EXAMPLES = """\
examples:
  vibe-gate uninstall git             git's hooks as they were before
  vibe-gate uninstall claude          our hooks out of .claude/settings.json
"""

add_arguments = install.add_arguments


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Uninstall where the arguments say."""
    return install.target(args).uninstall(args, environ)
