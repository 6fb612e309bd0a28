"""`vibe-gate bundles du`: what the bundles take on the disk."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict

from vibe_gate.domain.bundles import StoreUsage
from vibe_gate.errors import PASS
from vibe_gate.faces.cli.bundles.naming import provenance, root_of
from vibe_gate.faces.cli.output import emit
from vibe_gate.report.text import safe
from vibe_gate.store import Bundles

SUMMARY = "Say what the bundles take on the disk, by key, the largest first."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `bundles du` takes."""
    parser.add_argument("--json", action="store_true", help="print one JSON document, in bytes")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the sizes."""
    root = root_of(environ)
    used = Bundles(root, provenance(root, environ)).usage()
    if args.json:
        emit(json.dumps({"schema": 1, **asdict(used)}, indent=2) + "\n")
    else:
        emit("".join(f"{safe(line)}\n" for line in _lines(used)))
    return PASS


def _lines(used: StoreUsage) -> list[str]:
    lines = [f"{'size':>14} {'runs':>6}  key"]
    lines += [f"{_mb(key.size)} {key.runs:>6}  {key.key}" for key in used.keys]
    lines += [f"{_mb(size)} {'':>6}  {name}/" for name, size in used.besides.items()]
    return [*lines, f"{_mb(used.total)} in all"]


def _mb(size: int) -> str:
    return f"{size / 1_000_000:>11,.3f} MB"
