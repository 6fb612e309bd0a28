"""`vibe-gate install [git|claude]`: the gate at the places where work happens."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Protocol

from vibe_gate.errors import UsageError
from vibe_gate.faces.cli import install_claude, install_git

SUMMARY = "Put the gate where work happens: into git's hooks, or into Claude Code's."

EXAMPLES = """\
examples:
  vibe-gate install git               hooks for commit, merge and push
  vibe-gate install claude            capture and guard in .claude/settings.json
  vibe-gate install claude --local    for you alone, in settings.local.json
"""


class Target(Protocol):
    """What a module of a target offers. The arguments are the same for both."""

    SUMMARY: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the target's arguments."""

    def install(self, args: argparse.Namespace, environ: Mapping[str, str]) -> int:
        """Put the gate there; the exit code comes back. Raises GateError."""

    def uninstall(self, args: argparse.Namespace, environ: Mapping[str, str]) -> int:
        """Take it away again, and nothing else. Raises GateError."""


TARGETS: dict[str, Target] = {"git": install_git, "claude": install_claude}
"""Where the gate can be installed: name -> module."""

DEFAULT = "git"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `install` and `uninstall` take."""
    targets = parser.add_subparsers(dest="target", metavar="TARGET", required=False)
    for name, module in TARGETS.items():
        made = targets.add_parser(name, help=module.SUMMARY, description=module.SUMMARY, allow_abbrev=False)
        module.add_arguments(made)


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Install where the arguments say."""
    return target(args).install(args, environ)


def target(args: argparse.Namespace) -> Target:
    """The module of the target, `git` where none is named. UsageError."""
    name = args.target or DEFAULT
    if name not in TARGETS:
        raise UsageError(f"name one of: {', '.join(TARGETS)}.")
    return TARGETS[name]
