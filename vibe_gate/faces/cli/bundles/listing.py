"""`vibe-gate bundles list`: the runs, newest first."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from vibe_gate.domain.bundles import OUTCOMES, STATES, Wanted
from vibe_gate.errors import PASS
from vibe_gate.faces.cli.bundles.naming import provenance, root_of
from vibe_gate.faces.cli.bundles.place import columns
from vibe_gate.faces.cli.output import emit
from vibe_gate.report.listing import NO_RUNS, NONE_FOUND, documents, lines
from vibe_gate.store import Bundles

SUMMARY = "List the runs, newest first: when, outcome, author, size, findings, cost, run id, key, rubrics."

_AGO = re.compile(r"([0-9]{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_FILTERS = ("outcome", "rubric", "author", "path", "since")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `bundles list` takes."""
    parser.add_argument("--outcome", choices=(*OUTCOMES, *STATES), help="only runs that came out so, or did not")
    parser.add_argument("--rubric", metavar="ID", help="only runs that were held against this rubric")
    parser.add_argument("--author", choices=("agent", "human"), help="only changes written by one")
    parser.add_argument("--path", metavar="GLOB", help="only runs in which a changed path matches")
    parser.add_argument("--since", type=_since, metavar="WHEN", help="30d, 12h, 2w, or an ISO date (UTC)")
    parser.add_argument("--limit", type=_limit, metavar="N", help="at most the newest N")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the list."""
    root = root_of(environ)
    wanted = Wanted(**{name: getattr(args, name) for name in _FILTERS if getattr(args, name) is not None})  # type: ignore[typeddict-item]
    found = Bundles(root, provenance(root, environ)).find(**wanted)[: args.limit]
    if args.json:
        emit(documents(found))
    else:
        emit(lines(found, columns()) or (NONE_FOUND if wanted else NO_RUNS))
    return PASS


def _since(text: str) -> datetime:
    ago = _AGO.fullmatch(text)
    try:
        if ago:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        then = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"'{text}' is neither a time ago (30d, 12h, 2w) nor an ISO date") from None
    return then if then.tzinfo else then.replace(tzinfo=UTC)


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text) > 0):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above zero")
    return int(text)


_DIGITS = 9
