"""`vibe-gate bundles`: the table of subcommands, and those that only look: list, show, du."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from vibe_gate.domain.bundles import OUTCOMES, STATES, RunEntry, Wanted
from vibe_gate.domain.change import Selection
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.upkeep import StoreUsage
from vibe_gate.errors import PASS, GateError, IntegrityError, StorageError
from vibe_gate.faces.cli.bundles import upkeep
from vibe_gate.faces.cli.bundles.quick import columns
from vibe_gate.faces.cli.bundles.runs import RUN_HELP, Named, bundles_of, named, root_of
from vibe_gate.faces.cli.dispatch import Command, group
from vibe_gate.faces.cli.output import emit
from vibe_gate.faces.cli.review import present
from vibe_gate.report.listing import NO_MATCHES, NO_RUNS, documents, lines
from vibe_gate.review import Review, ReviewRequest
from vibe_gate.store import RunResult, read_bundle

_AGO = re.compile(r"([0-9]{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_FILTERS = ("outcome", "rubric", "author", "path", "since")
_DIGITS = 9


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--outcome",
        choices=(*OUTCOMES, *STATES),
        metavar="WORD",
        help=f"only runs with this outcome or state: {', '.join((*OUTCOMES, *STATES))}",
    )
    parser.add_argument("--rubric", metavar="ID", help="only runs that used this rubric")
    parser.add_argument("--author", choices=("agent", "human"), help="only changes written by one")
    parser.add_argument("--path", metavar="GLOB", help="only runs in which a changed path matches")
    parser.add_argument("--since", type=_since, metavar="WHEN", help="30d, 12h, 2w, or an ISO date (UTC)")
    parser.add_argument("--limit", type=_limit, metavar="N", help="at most the newest N")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _list(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    root = root_of(environ)
    wanted = Wanted(**{name: getattr(args, name) for name in _FILTERS if getattr(args, name) is not None})  # type: ignore[typeddict-item]
    runs = bundles_of(root, environ).find(args.limit, **wanted)
    if args.json:
        emit(documents(runs))
    else:
        emit(lines(runs, columns()) or (NO_MATCHES if wanted else NO_RUNS))
    return PASS


def _since(text: str) -> datetime:
    ago = _AGO.fullmatch(text)
    try:
        if ago:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        then = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"'{text}' is neither an age (30d, 12h, 2w) nor an ISO date") from None
    return then if then.tzinfo else then.replace(tzinfo=UTC)


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text) > 0):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above zero")
    return int(text)


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP} (default: the newest)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _show(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the run. IntegrityError (5) if it was altered."""
    root = root_of(environ)
    meant = named(root, args.run, environ)
    if meant.foreign:
        raise IntegrityError(f"Run {meant.entry.run_id} is foreign: {meant.foreign}. Its outcome is not shown.")
    result, summary = _read(root, meant.entry)
    kept = bundles_of(root, environ).is_kept(meant.entry)
    if args.json:
        emit(json.dumps(_document(meant, result.state, kept, summary), indent=2) + "\n")
    elif summary is None:
        emit("".join(f"{line}\n" for line in _unsealed(meant, result, kept)))
    else:
        present(Review(summary, _notes(meant, kept)), ReviewRequest(Selection("worktree")), environ, as_json=False)
    return PASS


def _read(root: Path, entry: RunEntry) -> tuple[RunResult, Summary | None]:
    """The run and, if it has one, the summary. A run that is being deleted right now is not a corrupt one."""
    try:
        result = read_bundle(root / entry.bundle)
        return result, result.summary if result.complete else None
    except GateError as error:
        if not (root / entry.bundle).exists():
            raise StorageError(f"Run {entry.run_id} was just deleted by a cleaning.") from error
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
    others = f"; {counted(meant.others, 'other run')} {'matches' if meant.others == 1 else 'match'} too"
    note = f"Run {meant.entry.run_id} of {meant.entry.created_at}, matched by {meant.matched}"
    return (f"{note}{others if meant.others else ''}.", *(["Kept: cleaning does not delete it."] if kept else []))


def _unsealed(meant: Named, result: RunResult, kept: bool) -> list[str]:
    what = "is still running" if result.state == "running" else "is incomplete: it ended before its verdict"
    text = [f"Run {meant.entry.run_id} {what}; it has no outcome."]
    for node in result.graph().nodes:
        text.append(f"  {node.id:<24} {node.status}{f' ({node.reason})' if node.reason else ''}")
    text += [f"bundle: {meant.entry.bundle}", *(f"note: {note}" for note in _notes(meant, kept))]
    return [safe(line) for line in text]


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document, in bytes")


def _du(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    used = bundles_of(root_of(environ), environ).usage()
    if args.json:
        emit(json.dumps({"schema": 1, **asdict(used)}, indent=2) + "\n")
    else:
        emit("".join(f"{safe(line)}\n" for line in _sizes(used)))
    return PASS


def _sizes(used: StoreUsage) -> list[str]:
    text = [f"{'size':>14} {'runs':>6}  key"]
    text += [f"{_mb(key.size)} {key.runs:>6}  {key.key}" for key in used.keys]
    text += [f"{_mb(size)} {'':>6}  {name}/" for name, size in used.besides.items()]
    return [*text, f"{_mb(used.total)} in total"]


def _mb(size: int) -> str:
    return f"{size / 1_000_000:>11,.3f} MB"


SUBCOMMANDS = {
    "list": Command("List runs, newest first.", _add_list, _list),
    "show": Command("Show one run: the newest, or RUN.", _add_show, _show),
    "keep": upkeep.KEEP,
    "clean": upkeep.CLEAN,
    "du": Command("Show the disk usage of bundles by key, largest first.", _add_json, _du),
    "verify": upkeep.VERIFY,
    "repair": upkeep.REPAIR,
    "export": upkeep.EXPORT,
    "import": upkeep.IMPORT,
}

BUNDLES = group(
    "Look at stored runs, keep them, check and repair them, move them and clean them up.",
    """\
examples:
  vibe-gate bundles list --limit 20    the newest twenty runs
  vibe-gate bundles list --outcome fail --since 30d --path 'src/**'
  vibe-gate bundles show               the newest run
  vibe-gate bundles show HEAD~1        the run of that commit or its change
  vibe-gate bundles clean --dry-run    what a cleaning would delete
  vibe-gate bundles verify             check stored runs; exit 5 on a problem
  vibe-gate bundles repair             repair stored runs
  vibe-gate bundles export HEAD -o run.tar.gz
                                       one file to send; `import` reads it
""",
    SUBCOMMANDS,
)
