"""`vibe-gate suppress`: write into `.vibe-gate/suppressions.toml` what the repository decides to live with."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from vibe_gate.errors import PASS
from vibe_gate.faces.cli.output import emit
from vibe_gate.faces.cli.override import a_date
from vibe_gate.gate.waive import Plea, suppress
from vibe_gate.report.text import safe

SUMMARY = "Write a suppression into .vibe-gate/suppressions.toml, for everybody, once it is merged."

FORM = "vibe-gate suppress FINGERPRINT | CRITERION:GLOB --reason TEXT [--expires DATE]"

EXAMPLES = """\
examples:
  vibe-gate suppress 3f9a1c --reason "a test vector"                  one finding of the newest run that has it
  vibe-gate suppress 'no-secrets:tests/fixtures/**' --reason "no real keys there"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `suppress` takes."""
    parser.add_argument("what", metavar="FINGERPRINT|CRITERION:GLOB", help="a finding, or a criterion's at some paths")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why; shown wherever the verdict is shown")
    parser.add_argument("--expires", type=a_date, metavar="DATE", help="the last day it holds; by default for ever")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Write the suppression."""
    plea = Plea(args.what, args.reason, args.expires)
    rule, path = suppress(plea, start=Path.cwd(), environ=environ, now=datetime.now(UTC))
    lines = [
        f"{path} now suppresses {rule.name}: {rule.reason}",
        "It is read at the trusted revision: it has an effect once it is merged, and its change needs approval.",
    ]
    emit("".join(f"{safe(line)}\n" for line in lines))
    return PASS
