"""`vibe-gate bundles export RUN... -o FILE`: runs in one archive."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from vibe_gate.domain import paths
from vibe_gate.domain.escape import counted
from vibe_gate.errors import PASS
from vibe_gate.faces.cli.bundles.naming import named, root_of
from vibe_gate.faces.cli.bundles.place import STORE
from vibe_gate.faces.cli.bundles.trusting import RUNS_HELP, provenance, views
from vibe_gate.faces.cli.output import complain, emit
from vibe_gate.store import Bundles

SUMMARY = "Write runs into one compressed archive, each verified before."

DEFAULT = "bundles.tar.gz"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `bundles export` takes."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"{RUNS_HELP}; by default the newest")
    parser.add_argument("--all", action="store_true", help="every run that has ended")
    parser.add_argument(
        "-o", "--output", metavar="FILE", default=DEFAULT, help=f"the archive, a new file (default: {DEFAULT})"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Write it and say how large it is."""
    root = root_of(environ)
    bundles = Bundles(root, provenance(root, environ))
    if args.all:
        chosen = [run for run in bundles.runs() if run.state not in {"running", "foreign"}]
    else:
        chosen = views(root, args.runs, environ) or [named(root, None, environ).entry]
    done = bundles.export(chosen, Path(args.output))
    if args.json:
        emit(json.dumps({"schema": 1, "file": paths.quote(args.output), **asdict(done)}, indent=2) + "\n")
    else:
        held = counted(done.runs, "run")
        emit(f"{paths.quote(args.output)}: {held}, {done.size:,} bytes.\n")
    if _is_reviewed(Path(args.output), root):
        where = f"{paths.quote(args.output)} is in the working tree"
        complain(f"vibe-gate: {where}: unless git ignores it, it is reviewed.")
    return PASS


def _is_reviewed(target: Path, root: Path) -> bool:
    """Whether a review of uncommitted work may take the archive for a part of the change."""
    place, top = target.resolve(), root.resolve()
    return (top / ".git").exists() and place.is_relative_to(top) and not place.is_relative_to(top / STORE)
