"""`vibe-gate install git`: our hooks into a repository that has no framework for them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from vibe_gate.adapters.git import open_repository
from vibe_gate.errors import PASS
from vibe_gate.faces.cli.output import emit
from vibe_gate.faces.git_hook.install import install as put_hooks
from vibe_gate.faces.git_hook.install import uninstall as take_hooks
from vibe_gate.version import VERSION

SUMMARY = "git: hooks for a repository without a framework; hooks that are there run first."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def install(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Write the hooks."""
    with open_repository(Path.cwd(), environ) as repository:
        emit("\n".join(put_hooks(repository, VERSION)) + "\n")
    return PASS


def uninstall(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Take the hooks away; what was there before comes back."""
    with open_repository(Path.cwd(), environ) as repository:
        emit("\n".join(take_hooks(repository)) + "\n")
    return PASS
