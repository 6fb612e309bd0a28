"""`vibe-gate install` and `uninstall`: the gate in git's hooks (`git`) or in Claude Code's settings (`claude`)."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from vibe_gate import __version__
from vibe_gate.domain import paths
from vibe_gate.domain.provenance import AGENT_COMMANDS
from vibe_gate.errors import PASS, UsageError
from vibe_gate.faces.cli import install_claude
from vibe_gate.faces.cli.dispatch import Command, group
from vibe_gate.faces.cli.output import emit
from vibe_gate.faces.git_hook import install as hooks
from vibe_gate.git import open_repository

GIT = "git's own hooks, for repositories without a hook framework; those that are there are kept and run first."


def _install(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    with open_repository(Path.cwd(), environ) as repository:
        emit("\n".join(hooks.install(repository, __version__)) + "\n")
    return PASS


def _uninstall(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """UsageError for an agent: a person decides about the gate."""
    if name := next((name for name in AGENT_COMMANDS if environ.get(name)), ""):
        raise UsageError(f"{name} is set: an agent may not remove the gate. Ask the user to run `vibe-gate uninstall`.")
    if args.subcommand == "claude":
        return install_claude.uninstall(args, environ)
    with open_repository(Path.cwd(), environ) as repository:
        lines = hooks.uninstall(repository)
        records = repository.common_dir / "vibe-gate"
    if records.is_dir() and any(records.iterdir()):
        kept = "Review records, overrides, paid answers and spending"
        lines.append(f"{kept} stay in {paths.quote(str(records))} (safe to delete).")
    emit("\n".join(lines) + "\n")
    return PASS


INSTALL = group(
    "Put the gate where work happens: into git's hooks, or into Claude Code's.",
    """\
examples:
  vibe-gate install git               hooks for commit, merge and push
  vibe-gate install claude            capture and guard in .claude/settings.json
  vibe-gate install claude --local    for you alone, in settings.local.json
""",
    {
        "git": Command(GIT, (), _install),
        "claude": Command(install_claude.SUMMARY, (install_claude.add_arguments,), install_claude.install),
    },
)

UNINSTALL = group(
    "Take the gate away again from where `install` put it; everything else stays as it is.",
    """\
examples:
  vibe-gate uninstall git             git's hooks as they were before
  vibe-gate uninstall claude          our hooks out of .claude/settings.json
""",
    {
        "git": Command(GIT, (), _uninstall),
        "claude": Command(install_claude.SUMMARY, (install_claude.add_arguments,), _uninstall),
    },
)
