"""`vibe-gate bundles verify [RUN...]`: everything that is wrong, in one go."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import Problem, Verified
from vibe_gate.errors import INTEGRITY, PASS
from vibe_gate.faces.cli.bundles.naming import root_of
from vibe_gate.faces.cli.bundles.trusting import RUNS_HELP, provenance, views
from vibe_gate.faces.cli.output import emit
from vibe_gate.report.text import safe
from vibe_gate.store import Bundles

SUMMARY = "Name everything that is wrong with the store, or with some runs; exit 5 if anything is."

MARKS = {"corrupt": "✗", "foreign": "✗", "untidy": "!", "incomplete": "·", "running": "·"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `bundles verify` takes."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"{RUNS_HELP}; by default the whole store")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Look, tell, and return 0 or 5."""
    root = root_of(environ)
    found = Bundles(root, provenance(root, environ)).verify(views(root, args.runs, environ))
    exit_code = PASS if found.is_sound else INTEGRITY
    if args.json:
        emit(json.dumps({"schema": 1, "exit_code": exit_code, **counted(found)}, indent=2) + "\n")
    else:
        emit("".join(f"{safe(text)}\n" for text in [*map(line, found.problems), *_conclusion(found)]))
    return exit_code


def counted(found: Verified) -> dict[str, Any]:
    """What was found, as JSON has it."""
    return {"runs": found.runs, "contents": found.contents, "flaws": [as_json(flaw) for flaw in found.problems]}


def as_json(flaw: Problem) -> dict[str, str | None]:
    """One flaw; `place` as shown (`paths.quote`)."""
    return {
        "state": flaw.state,
        "what": flaw.what,
        "place": paths.quote(flaw.place),
        "run_id": flaw.run.partition("/")[2] or None,
        "why": safe(flaw.why),
    }


def line(flaw: Problem) -> str:
    """One flaw, for people."""
    return f"{MARKS[flaw.state]} {flaw.state:<11}{paths.quote(flaw.place) or '.'}: {flaw.why}"


def _number(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def _conclusion(found: Verified) -> list[str]:
    states = Counter[str](flaw.state for flaw in found.problems)
    counts = ", ".join(f"{states[state]} {state}" for state in MARKS if states[state])
    looked = f"{_number(found.runs, 'run')} and {_number(found.contents, 'content')} looked at"
    whole = f"{looked}: {counts or 'every hash agrees'}."
    if found.is_sound and found.runs:
        whole += " Who wrote them is not told by that: `vibe-gate verify` looks at signatures."
    if not any(states[state] for state in ("corrupt", "foreign", "untidy")):
        return [whole]
    return [whole, "`vibe-gate bundles repair` heals what can be healed and puts the rest aside; it deletes nothing."]
