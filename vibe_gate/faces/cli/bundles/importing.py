"""`vibe-gate bundles import FILE`: the runs of an archive, verified before any of them is seen."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from vibe_gate.errors import PASS
from vibe_gate.faces.cli.bundles.naming import root_of
from vibe_gate.faces.cli.bundles.trusting import provenance
from vibe_gate.faces.cli.output import emit
from vibe_gate.store import Bundles

SUMMARY = "Take in the runs of an archive: all of them, or none where anything is wrong (exit 5)."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `bundles import` takes."""
    parser.add_argument("file", metavar="FILE", help="what `bundles export` wrote, here or elsewhere")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Import, and say what is new."""
    root = root_of(environ)
    done = Bundles(root, provenance(root, environ)).import_archive(Path(args.file))
    if args.json:
        document = {"imported": [_pair(place) for place in done.runs], "already": [_pair(p) for p in done.already]}
        emit(json.dumps({"schema": 1, **document}, indent=2) + "\n")
    else:
        lines = [f"{place.partition('/')[2]} imported, about {place.partition('/')[0]}" for place in done.runs]
        lines += [f"{place.partition('/')[2]} is here already, with the same content" for place in done.already]
        emit("".join(f"{line}\n" for line in lines))
    return PASS


def _pair(place: str) -> dict[str, str]:
    key, _, run_id = place.partition("/")
    return {"run_id": run_id, "key": key}
