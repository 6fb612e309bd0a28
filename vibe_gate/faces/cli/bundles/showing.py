"""`vibe-gate bundles show [RUN]`: one run's verdict, after every digest was compared."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.change import Selection
from vibe_gate.domain.escape import counted
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import PASS, GateError, IntegrityError, StorageError
from vibe_gate.faces.cli.bundles.naming import Named, named, provenance, root_of
from vibe_gate.faces.cli.output import emit
from vibe_gate.faces.cli.review import present
from vibe_gate.report.text import safe
from vibe_gate.review import Review, ReviewRequest
from vibe_gate.store import Bundles, RunResult, read_bundle

SUMMARY = "Show one run: the newest, or RUN."

RUN_HELP = "a run id, an unambiguous beginning of one, or a revision; by default the newest run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `bundles show` takes."""
    parser.add_argument("run", nargs="?", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the run; IntegrityError (5) where it was altered."""
    root = root_of(environ)
    meant = named(root, args.run, environ)
    if meant.foreign:
        raise IntegrityError(f"The run {meant.entry.run_id} is foreign: {meant.foreign}. No outcome is shown from it.")
    view, summary = _read(root, meant.entry)
    state = view.state
    kept = Bundles(root, provenance(root, environ)).is_kept(meant.entry)
    if args.json:
        emit(json.dumps(_document(meant, state, kept, summary), indent=2) + "\n")
    elif summary is None:
        emit("".join(f"{line}\n" for line in _unsealed(meant, view, state, kept)))
    else:
        present(Review(summary, _notes(meant, kept)), ReviewRequest(Selection("worktree")), environ, as_json=False)
    return PASS


def _read(root: Path, entry: RunEntry) -> tuple[RunResult, Summary | None]:
    """The run, and the verdict if there is one. A run that is cleaned away at this moment is not corrupt."""
    try:
        view = read_bundle(root / entry.bundle)
        return view, view.summary if view.complete else None
    except GateError as error:
        if not (root / entry.bundle).exists():
            raise StorageError(f"The run {entry.run_id} was cleaned away just now.") from error
        raise


def _document(meant: Named, state: str, kept: bool, summary: Summary | None) -> dict[str, Any]:
    entry = meant.entry
    return {
        "schema": 1,
        "run_id": entry.run_id,
        "key": entry.key,
        "created_at": entry.created_at,
        "bundle": entry.bundle,
        "state": state,
        "matched": meant.matched,
        "others": meant.others,
        "kept": kept,
        "summary": None if summary is None else json.loads(summary.to_json()),
    }


def _notes(meant: Named, kept: bool) -> tuple[str, ...]:
    match = "matches" if meant.others == 1 else "match"
    others = f"; {counted(meant.others, 'other run')} {match}, too" if meant.others else ""
    notes = [f"Run {meant.entry.run_id} of {meant.entry.created_at}, found by: {meant.matched}{others}."]
    return (*notes, "Kept: cleaning leaves it alone.") if kept else tuple(notes)


def _unsealed(meant: Named, view: RunResult, state: str, kept: bool) -> list[str]:
    what = "is still running" if state == "running" else "is incomplete: it ended before its verdict"
    lines = [f"The run {meant.entry.run_id} {what}; there is no outcome to show."]
    for node in view.graph().nodes:
        lines.append(f"  {node.id:<24} {node.status}{f' ({node.reason})' if node.reason else ''}")
    lines += [f"bundle: {meant.entry.bundle}", *(f"note: {note}" for note in _notes(meant, kept))]
    return [safe(line) for line in lines]
