"""`vibe-gate override`: a person lets a finding, or a change of the gate itself, pass here for a while."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

from vibe_gate.errors import PASS
from vibe_gate.faces.cli.output import emit
from vibe_gate.gate.waive import Plea, override
from vibe_gate.report.text import safe

SUMMARY = "Let a finding, or a change of the gate itself, pass here for a while; never for an agent."

FORM = "vibe-gate override FINDING --reason TEXT [--expires DATE]"

EXAMPLES = """\
examples:
  vibe-gate override 3f9a1c --reason "the fixture needs the key"      a finding by its fingerprint
  vibe-gate override policy --reason "agreed with Ada" --expires 2027-01-31
                                       the change of the gate itself, after exit code 4
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `override` takes."""
    parser.add_argument("finding", metavar="FINDING", help="a fingerprint, an unambiguous beginning of one, or: policy")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why; shown wherever the verdict is shown")
    parser.add_argument("--expires", type=a_date, metavar="DATE", help="the last day it holds; by default in 30 days")
    parser.add_argument("--run", metavar="RUN", help="the run that found it; by default the newest that did")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Record the override."""
    plea = Plea(args.finding, args.reason, args.expires, args.run or "")
    made, what = override(plea, start=Path.cwd(), environ=environ, now=datetime.now(UTC))
    lines = [
        f"{made.finding} is overridden by {made.by} until {made.expires}: {made.reason}",
        f"  {what}",
        "It holds in this clone only; review again to see the verdict with it.",
    ]
    emit("".join(f"{safe(line)}\n" for line in lines))
    return PASS


def a_date(text: str) -> date:
    """A date as ISO 8601 writes it."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no date; write it as 2027-01-31") from None
