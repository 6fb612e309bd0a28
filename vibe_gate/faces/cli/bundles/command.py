"""`vibe-gate bundles SUBCOMMAND`: one module a subcommand, named in one plain dict."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Protocol

from vibe_gate.faces.cli.bundles import (
    cleaning,
    exporting,
    importing,
    keeping,
    listing,
    repairing,
    showing,
    usage,
    verifying,
)

SUMMARY = "Look at what was recorded, keep it, and clean it up."

EXAMPLES = """\
examples:
  vibe-gate bundles list --limit 20              the newest twenty runs
  vibe-gate bundles list --outcome fail --since 30d --path 'src/**'
  vibe-gate bundles show                         the newest run
  vibe-gate bundles show HEAD~1                  the run about that commit, or about the same change
  vibe-gate bundles clean --dry-run              what a cleaning would delete
  vibe-gate bundles verify                       everything that is wrong with the store, exit 5
  vibe-gate bundles repair                       heal it, or put it aside
  vibe-gate bundles export HEAD -o run.tar.zst   one file to send; `import` takes it in elsewhere
"""


class Subcommand(Protocol):
    """What a module of a subcommand offers."""

    SUMMARY: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the subcommand's arguments."""

    def run(self, args: argparse.Namespace, environ: Mapping[str, str]) -> int:
        """Do it; the exit code comes back. Raises GateError."""


SUBCOMMANDS: dict[str, Subcommand] = {
    "list": listing,
    "show": showing,
    "keep": keeping,
    "clean": cleaning,
    "du": usage,
    "verify": verifying,
    "repair": repairing,
    "export": exporting,
    "import": importing,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `bundles` takes."""
    actions = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", required=True)
    for name, module in SUBCOMMANDS.items():
        made = actions.add_parser(name, help=module.SUMMARY, description=module.SUMMARY, allow_abbrev=False)
        module.add_arguments(made)


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Do what the subcommand says."""
    return SUBCOMMANDS[args.subcommand].run(args, environ)
