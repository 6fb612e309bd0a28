"""`vibe-gate override` and `vibe-gate suppress`: accept a finding for a while here, or for good in the repository."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

from vibe_gate.domain.escape import safe
from vibe_gate.errors import PASS
from vibe_gate.faces.cli.dispatch import Command
from vibe_gate.faces.cli.output import emit
from vibe_gate.gate.waive import Plea, override, suppress


def _add_override(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("finding", metavar="FINDING", help="a fingerprint, an unambiguous prefix of one, or: policy")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why; shown with the verdict")
    parser.add_argument("--expires", type=_date, metavar="DATE", help="the last day it holds (default: in 30 days)")
    parser.add_argument("--run", metavar="RUN", help="the run with the finding (default: the newest that has it)")


def _override(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    plea = Plea(args.finding, args.reason, args.expires, args.run or "")
    made, what = override(plea, start=Path.cwd(), environ=environ, now=datetime.now(UTC))
    _print(
        f"{made.finding} is overridden by {made.by} until {made.expires}: {made.reason}",
        f"  {what}",
        "This holds in this clone only. Review again to see the verdict with it.",
    )
    return PASS


def _add_suppress(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="FINGERPRINT|CRITERION:GLOB", help="one finding, or a criterion at some paths")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why; shown with the verdict")
    parser.add_argument("--expires", type=_date, metavar="DATE", help="the last day it holds (default: for ever)")


def _suppress(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    plea = Plea(args.what, args.reason, args.expires)
    rule, path = suppress(plea, start=Path.cwd(), environ=environ, now=datetime.now(UTC))
    _print(
        f"{path} now suppresses {rule.name}: {rule.reason}",
        "It takes effect once it is merged, and the change of the file needs approval.",
    )
    return PASS


def _print(*lines: str) -> None:
    emit("".join(f"{safe(line)}\n" for line in lines))


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a date; write it as 2027-01-31") from None


OVERRIDE = Command(
    "Temporarily accept a finding, or a change of the gate itself, in this clone. Refused to agents.",
    _add_override,
    _override,
    "vibe-gate override FINDING --reason TEXT [--expires DATE]",
    """\
examples:
  vibe-gate override 3f9a1c --reason "the fixture needs the key"
  vibe-gate override policy --reason "agreed with Ada" --expires 2027-01-31
                       the change of the gate itself, after exit code 4
""",
)

SUPPRESS = Command(
    "Permanently ignore a finding: write it to .vibe-gate/suppressions.toml, for everybody, once it is merged.",
    _add_suppress,
    _suppress,
    "vibe-gate suppress FINGERPRINT | CRITERION:GLOB --reason TEXT\n                          [--expires DATE]",
    """\
examples:
  vibe-gate suppress 3f9a1c --reason "a test vector"
                       one finding of the newest run that has it
  vibe-gate suppress 'no-secrets:tests/fixtures/**' --reason "no real keys"
""",
)
