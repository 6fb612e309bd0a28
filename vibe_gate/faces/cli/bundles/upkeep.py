"""`vibe-gate bundles verify|repair|keep|clean|export|import`: check stored runs, repair, protect, delete, move them."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.gate import Retention
from vibe_gate.domain.upkeep import Cleaned, Problem, Repaired, Verified
from vibe_gate.errors import INCONCLUSIVE, INTEGRITY, PASS, RevisionError
from vibe_gate.faces.cli.bundles.runs import RUN_HELP, bundles_of, entries, named, root_of
from vibe_gate.faces.cli.dispatch import Command
from vibe_gate.faces.cli.output import complain, emit
from vibe_gate.gate.loading import load_gate
from vibe_gate.gate.trust import trusted_revision
from vibe_gate.git import Repository, open_repository

ARCHIVE = "bundles.tar.gz"

MAX_DAYS = 1_000_000
"""Of `--older-than`: a date so far back still exists."""

MARKS = {"corrupt": "✗", "foreign": "✗", "untidy": "!", "incomplete": "·", "running": "·"}


def _add_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"{RUN_HELP} (default: all runs)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _verify(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Check and print; 0 or 5."""
    root = root_of(environ)
    checked = bundles_of(root, environ).verify(entries(root, args.runs, environ))
    exit_code = PASS if checked.is_sound else INTEGRITY
    if args.json:
        emit(json.dumps({"schema": 1, "exit_code": exit_code, **_checked(checked)}, indent=2) + "\n")
    else:
        _print([*map(_line, checked.problems), *_conclusion(checked)])
    return exit_code


def _checked(checked: Verified) -> dict[str, Any]:
    problems = [_as_json(problem) for problem in checked.problems]
    return {"runs": checked.runs, "contents": checked.contents, "flaws": problems}


def _as_json(problem: Problem) -> dict[str, str | None]:
    return {
        "state": problem.state,
        "what": problem.what,
        "place": paths.quote(problem.place),
        "run_id": problem.run.partition("/")[2] or None,
        "why": safe(problem.why),
    }


def _line(problem: Problem) -> str:
    return f"{MARKS[problem.state]} {problem.state:<11}{paths.quote(problem.place) or '.'}: {problem.why}"


def _conclusion(checked: Verified) -> list[str]:
    states = Counter[str](problem.state for problem in checked.problems)
    counts = ", ".join(f"{states[state]} {state}" for state in MARKS if states[state])
    whole = f"Checked {counted(checked.runs, 'run')}, {counted(checked.contents, 'file')}: "
    whole += f"{counts or 'all hashes match'}."
    if checked.is_sound and checked.runs:
        whole += " Signatures are checked by `vibe-gate verify`."
    if not any(states[state] for state in ("corrupt", "foreign", "untidy")):
        return [whole]
    return [whole, "`vibe-gate bundles repair` repairs what it can and moves the rest aside; it deletes nothing."]


def _repair(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Repair and print; 0, or 5 if a problem is left."""
    root = root_of(environ)
    done = bundles_of(root, environ).repair(entries(root, args.runs, environ))
    exit_code = PASS if done.left.is_sound else INTEGRITY
    if args.json:
        document = {
            "schema": 1,
            "exit_code": exit_code,
            "mended": [{**_as_json(mended.problem), "done": mended.done} for mended in done.mended],
            "quarantine": _quarantine(done) or None,
            "left": _checked(done.left),
        }
        emit(json.dumps(document, indent=2) + "\n")
    else:
        _print(_repaired(done))
    return exit_code


def _quarantine(done: Repaired) -> str:
    return f"{STORE}/{done.quarantine}" if done.quarantine else ""


def _repaired(done: Repaired) -> list[str]:
    lines = [f"✓ {paths.quote(one.problem.place)}: {one.problem.why}; {one.done}" for one in done.mended]
    left = [problem for problem in done.left.problems if problem.state not in {"incomplete", "running"}]
    lines += [f"{_line(problem)} (not repaired)" for problem in left]
    if done.quarantine:
        lines.append(f"Moved files are in {_quarantine(done)}.")
    return lines or ["Nothing to repair."]


def _print(lines: list[str]) -> None:
    emit("".join(f"{safe(line)}\n" for line in lines))


def _add_keep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--off", action="store_true", help="do not protect it any more")


def _keep(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Write or remove the run's `.vibe-keep`."""
    root = root_of(environ)
    meant = named(root, args.run, environ)
    bundles = bundles_of(root, environ)
    bundles.keep(meant.entry, off=args.off)
    emit(f"{meant.entry.run_id} is {'no longer kept' if args.off else 'kept'} (matched by {meant.matched}).\n")
    if args.off and bundles.is_kept(meant.entry):
        complain(f"note: a .vibe-keep beside it keeps every run of {meant.entry.key}.")
    return PASS


def _add_clean(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--older-than", type=_days, metavar="DAYS", help="instead of [retention] max_age_days")
    parser.add_argument("--dry-run", action="store_true", help="only print what would be deleted")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _clean(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Delete; 3 if something could not be deleted."""
    root = root_of(environ)
    rules = _retention(root, environ)
    if args.older_than is not None:
        rules = rules.model_copy(update={"max_age_days": args.older_than})
    done = bundles_of(root, environ).clean(rules, args.dry_run)
    if args.json:
        emit(json.dumps({"schema": 1, "dry_run": args.dry_run, **asdict(done)}, indent=2) + "\n")
    else:
        _print_cleaned(done, args.dry_run)
    return INCONCLUSIVE if done.errors else PASS


def _retention(root: Path, environ: Mapping[str, str]) -> Retention:
    """[retention] of the gate at the trusted revision, so that a change under review cannot empty the store."""
    if not (root / ".git").exists():
        return Retention()
    with open_repository(root, environ) as repository:
        revision = _trusted(repository)
        gate = None if revision is None else load_gate(repository.tree(revision), revision=revision, origin="trusted")
    return Retention() if gate is None else gate.file.retention


def _trusted(repository: Repository) -> str | None:
    try:
        return trusted_revision(repository, repository.resolve("HEAD"))
    except RevisionError:
        return None  # no commits yet


def _print_cleaned(done: Cleaned, dry_run: bool) -> None:
    verb, freed = ("would be deleted", "would be freed") if dry_run else ("deleted", "freed")
    text = "".join(f"{run_id} {verb}\n" for run_id in done.deleted)
    text += "".join(f"session {name} {verb}\n" for name in done.sessions)
    emit(f"{text}{counted(len(done.deleted), 'run')} {verb}, {done.freed_mb:,.3f} MB {freed}.\n")
    for error in done.errors:
        complain(f"vibe-gate: {safe(error)}")


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = math.nan
    if not 0 <= days < MAX_DAYS:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of days")
    return days


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"{RUN_HELP} (default: the newest)")
    parser.add_argument("--all", action="store_true", help="every run that has ended")
    parser.add_argument(
        "-o", "--output", metavar="FILE", default=ARCHIVE, help=f"the archive, a new file (default: {ARCHIVE})"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _export(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    root = root_of(environ)
    bundles = bundles_of(root, environ)
    if args.all:
        chosen = [run for run in bundles.runs() if run.state not in {"running", "foreign"}]
    else:
        chosen = entries(root, args.runs, environ) or [named(root, None, environ).entry]
    done = bundles.export(chosen, Path(args.output))
    target = paths.quote(args.output)
    if args.json:
        emit(json.dumps({"schema": 1, "file": target, **asdict(done)}, indent=2) + "\n")
    else:
        emit(f"{target}: {counted(done.runs, 'run')}, {done.size:,} bytes.\n")
    if _is_reviewed(Path(args.output), root):
        complain(f"vibe-gate: {target} is in the working tree: it will be reviewed unless git ignores it.")
    return PASS


def _is_reviewed(target: Path, root: Path) -> bool:
    """True if a review of uncommitted work would take the archive for a part of the change."""
    file, top = target.resolve(), root.resolve()
    return (top / ".git").exists() and file.is_relative_to(top) and not file.is_relative_to(top / STORE)


def _add_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="an archive that `bundles export` wrote")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _import(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    done = bundles_of(root_of(environ), environ).import_archive(Path(args.file))
    if args.json:
        document = {"imported": [_pair(place) for place in done.runs], "already": [_pair(p) for p in done.already]}
        emit(json.dumps({"schema": 1, **document}, indent=2) + "\n")
    else:
        pairs = [(_pair(place), "imported, about {key}") for place in done.runs]
        pairs += [(_pair(place), "already here, with the same content") for place in done.already]
        emit("".join(f"{pair['run_id']} {what.format(**pair)}\n" for pair, what in pairs))
    return PASS


def _pair(place: str) -> dict[str, str]:
    key, _, run_id = place.partition("/")
    return {"run_id": run_id, "key": key}


VERIFY = Command("Check stored runs; exit 5 if anything is wrong.", _add_runs, _verify)
REPAIR = Command("Repair stored runs; move what cannot be repaired to quarantine. Deletes nothing.", _add_runs, _repair)
KEEP = Command("Protect a run from cleaning.", _add_keep, _keep)
CLEAN = Command("Delete runs that are too old, or the oldest while the disk is too full.", _add_clean, _clean)
EXPORT = Command("Write runs to one compressed archive; each is verified first.", _add_export, _export)
IMPORT = Command("Import the runs of an archive: all, or none if anything is wrong (exit 5).", _add_import, _import)
