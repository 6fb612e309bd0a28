"""`vibe-gate bundles clean`: delete what is old, or what a full disk cannot hold."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from vibe_gate.domain.bundles import Cleaned
from vibe_gate.domain.escape import counted
from vibe_gate.domain.gate import Retention
from vibe_gate.errors import INCONCLUSIVE, PASS, RevisionError
from vibe_gate.faces.cli.bundles.naming import provenance, root_of
from vibe_gate.faces.cli.output import complain, emit
from vibe_gate.gate.loading import load_gate
from vibe_gate.git import Repository, open_repository
from vibe_gate.report.text import safe
from vibe_gate.store import Bundles

SUMMARY = "Delete runs that are too old, or the oldest while the disk is too full."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `bundles clean` takes."""
    parser.add_argument("--older-than", type=_days, metavar="DAYS", help="instead of [retention] max_age_days")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Clean; 3 where something could not be deleted."""
    root = root_of(environ)
    rules = retention_of(root, environ)
    if args.older_than is not None:
        rules = rules.model_copy(update={"max_age_days": args.older_than})
    done = Bundles(root, provenance(root, environ)).clean(rules, args.dry_run)
    if args.json:
        emit(json.dumps({"schema": 1, "dry_run": args.dry_run, **asdict(done)}, indent=2) + "\n")
    else:
        _print(done, args.dry_run)
    return INCONCLUSIVE if done.errors else PASS


def retention_of(root: Path, environ: Mapping[str, str]) -> Retention:
    """[retention] of the gate at the trusted revision: a change under review must not empty the store."""
    if not (root / ".git").exists():
        return Retention()
    with open_repository(root, environ) as repository:
        revision = _trusted(repository)
        gate = None if revision is None else load_gate(repository.tree(revision), revision=revision, origin="trusted")
    return Retention() if gate is None else gate.file.retention


def _trusted(repository: Repository) -> str | None:
    named = repository.config("vibe-gate.trust")
    if named:
        return repository.resolve(named)
    try:
        return repository.upstream_base() or repository.resolve("HEAD")
    except RevisionError:
        return None  # nothing is committed yet


def _print(done: Cleaned, dry_run: bool) -> None:
    verb = "would be deleted" if dry_run else "deleted"
    text = "".join(f"{run_id} {verb}\n" for run_id in done.deleted)
    text += "".join(f"session {name} {verb}\n" for name in done.sessions)
    freed = "would be freed" if dry_run else "freed"
    emit(f"{text}{counted(len(done.deleted), 'run')} {verb}, {done.freed_mb:,.3f} MB {freed}.\n")
    for error in done.errors:
        complain(f"vibe-gate: {safe(error)}")


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = math.nan
    if not 0 <= days < _FOR_EVER:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of days")
    return days


_FOR_EVER = 1_000_000
