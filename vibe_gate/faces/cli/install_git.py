"""`vibe-gate install git`: the gate into git's own hooks."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from vibe_gate import __version__
from vibe_gate.domain import paths
from vibe_gate.errors import PASS
from vibe_gate.faces.cli.output import emit
from vibe_gate.faces.git_hook import install as hooks
from vibe_gate.git import open_repository

SUMMARY = "git's own hooks, for repositories without a hook framework; those that are there are kept and run first."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`install git` takes no arguments: where hooks are is git's to say."""


def install(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Write the hooks; again is the same."""
    with open_repository(Path.cwd(), environ) as repository:
        emit("\n".join(hooks.install(repository, __version__)) + "\n")
    return PASS


def _left(folder: Path) -> list[str]:
    """What no uninstalling takes away: `verify` goes on reading it."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return []
    where = paths.quote(str(folder))
    return [f"Review records kept in {where} for `vibe-gate verify` (safe to delete)"]


def uninstall(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Take the hooks away; what was there before is back."""
    with open_repository(Path.cwd(), environ) as repository:
        emit("\n".join([*hooks.uninstall(repository), *_left(repository.common_dir / "vibe-gate")]) + "\n")
    return PASS
