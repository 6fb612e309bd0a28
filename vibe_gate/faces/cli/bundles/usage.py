"""`vibe-gate bundles du`: what the bundles take on the disk."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict

from vibe_gate.errors import PASS
from vibe_gate.faces.cli.bundles.naming import root_of
from vibe_gate.faces.cli.output import emit
from vibe_gate.report.text import safe
from vibe_gate.store.retention import MB, Usage, usage

SUMMARY = "Say what the bundles take on the disk, by key, the largest first."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `bundles du` takes."""
    parser.add_argument("--json", action="store_true", help="print one JSON document, in bytes")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the sizes."""
    used = usage(root_of(environ))
    if args.json:
        emit(json.dumps({"schema": 1, **asdict(used)}, indent=2) + "\n")
    else:
        emit("".join(f"{safe(line)}\n" for line in _lines(used)))
    return PASS


def _lines(used: Usage) -> list[str]:
    lines = [f"{'apparent':>14} {'alone':>14} {'runs':>6}  key"]
    for key in used.keys:
        lines.append(f"{_mb(key.apparent)} {_mb(key.alone)} {key.runs:>6}  {key.key}")
    for name, size in used.besides.items():
        lines.append(f"{_mb(size)} {'':>14} {'':>6}  {name}/")
    lines.append(f"{_mb(used.apparent)} apparent, of which {_mb(used.shared).strip()} are shared")
    return [*lines, f"{_mb(used.disk)} on the disk, all in all"]


def _mb(size: int) -> str:
    return f"{size / MB:>11,.3f} MB"
