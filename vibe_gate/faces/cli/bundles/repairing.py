"""`vibe-gate bundles repair [RUN...]`: heal what can be healed, put the rest aside, say what was done."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import Repaired
from vibe_gate.errors import INTEGRITY, PASS
from vibe_gate.faces.cli.bundles.naming import root_of
from vibe_gate.faces.cli.bundles.place import STORE
from vibe_gate.faces.cli.bundles.trusting import RUNS_HELP, provenance, views
from vibe_gate.faces.cli.bundles.verifying import as_json, counted, line
from vibe_gate.faces.cli.output import emit
from vibe_gate.report.text import safe
from vibe_gate.store import Bundles

SUMMARY = "Heal what can be healed and move the rest to quarantine; nothing is deleted."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `bundles repair` takes."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"{RUNS_HELP}; by default the whole store")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Repair, tell, and return 0, or 5 where something wrong is left."""
    root = root_of(environ)
    known, chosen = provenance(root, environ), views(root, args.runs, environ)
    done = Bundles(root, known).repair(chosen)
    exit_code = PASS if done.left.is_sound else INTEGRITY
    if args.json:
        mended = [{**as_json(mended.problem), "done": mended.done} for mended in done.mended]
        document = {"schema": 1, "exit_code": exit_code, "mended": mended, "quarantine": _place(done) or None,
                    }  # fmt: skip
        emit(json.dumps({**document, "left": counted(done.left)}, indent=2) + "\n")
    else:
        emit("".join(f"{safe(text)}\n" for text in _lines(done)))
    return exit_code


def _place(done: Repaired) -> str:
    return f"{STORE}/{done.quarantine}" if done.quarantine else ""


def _lines(done: Repaired) -> list[str]:
    lines = [f"✓ {paths.quote(mended.problem.place)}: {mended.problem.why}; {mended.done}" for mended in done.mended]
    lines += [
        f"{line(flaw)} (left as it is)" for flaw in done.left.problems if flaw.state not in {"incomplete", "running"}
    ]
    if not lines:
        return ["Nothing to repair."]
    if done.quarantine:
        lines.append(f"What was moved is in {_place(done)}.")
    return lines
