"""`vibe-gate init`: starter definitions into the working tree."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from vibe_gate.domain import paths
from vibe_gate.errors import PASS
from vibe_gate.faces.cli.output import complain, emit
from vibe_gate.gate.starters import STARTERS, plan_starters, write_starter
from vibe_gate.git import open_repository

SUMMARY = "Write starter definitions into .vibe-gate/: a gate and one rubric, every key explained. Never overwrites."

EXAMPLES = """\
examples:
  vibe-gate init --dry-run     print what would be written
  vibe-gate init               write it
"""

_NEXT = """\
Next:
  vibe-gate config check                            after each edit: every mistake at once
  vibe-gate review HEAD~1 --definitions worktree    try the gate before it is committed
  git add .vibe-gate && git commit                  from then on it is the one that binds"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `init` takes."""
    parser.add_argument("--dry-run", action="store_true", help="print the files instead of writing them")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Write the starters that are missing; say which definitions are there already."""
    with open_repository(Path.cwd(), environ) as repository:
        root = repository.root
    plan = plan_starters(root)
    if args.dry_run:
        for path in plan.missing:
            emit(f"# ---- {path}\n{STARTERS[path]}\n")
    for path in plan.present:
        emit(f"kept   {paths.quote(path)} (it is there already)\n")
    if args.dry_run:
        return PASS
    for path in plan.missing:
        write_starter(root, path)
        emit(f"wrote  {path}\n")
    if not plan.missing:
        complain("Nothing to write: this repository has definitions of its own. `vibe-gate config check` reads them.")
    else:
        complain(_NEXT)
    return PASS
