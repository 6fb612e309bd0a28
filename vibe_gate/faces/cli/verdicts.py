"""`vibe-gate verify`, `override` and `suppress`: which commits were reviewed, and what people accept all the same."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from vibe_gate.errors import PASS, UsageError
from vibe_gate.faces.advice import advising
from vibe_gate.faces.cli.command import JSON, Command, argument, did_you_mean
from vibe_gate.faces.cli.label import label_waived, require_one_finding, waived
from vibe_gate.faces.cli.output import emit_lines, emit_result, now
from vibe_gate.gate.waive import WaiverAsked, override, overrides, suppress, take_back
from vibe_gate.receipts.verify import VerifyRequest, verify
from vibe_gate.report import verified


def _verify(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    request = VerifyRequest(
        range=args.range, base=args.base, definitions=args.definitions, strict=args.strict, notes=args.from_notes
    )
    left, _, right = args.range.partition("...") if "..." in args.range else args.range.partition("..")
    with advising((left, right, args.base, args.definitions), Path.cwd(), environ, {}):
        found = verify(request, start=Path.cwd(), environ=environ, now=now())
    return emit_result(args, verified.document(found), verified.lines(found), found.exit_code)


VERIFY = Command(
    "Show for every commit of a range whether it was reviewed.",
    (
        argument("range", nargs="?", default="", metavar="RANGE", help="default: upstream..HEAD, else HEAD"),
        argument("--strict", action="store_true", help="as in CI: a pass needs a listed signer, not the author"),
        argument("--from-notes", action="store_true", help="also use receipts in refs/notes/vibe-gate"),
        argument("--base", metavar="REV", help="read definitions and signers at this revision"),
        argument("--definitions", metavar="REV|worktree", help="read .vibe-gate/ at REV, or from disk"),
        JSON,
    ),
    _verify,
    "vibe-gate verify [A..B | A...B | REV] [options]",
    """\
examples:
  vibe-gate verify                      commits that the upstream does not have
  vibe-gate verify main..HEAD           every commit since main
  vibe-gate verify --strict main..HEAD  as in CI: passes need a listed signer
""",
)


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a date; write it as 2027-01-31") from None


def _override(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    if args.finding == "list" and not args.removed:
        return _list(environ)
    if args.finding == "remove":
        if not args.removed:
            raise UsageError("name the finding: vibe-gate override remove FINDING (`vibe-gate override list` has them)")
        gone = take_back(args.removed, start=Path.cwd(), environ=environ)
        emit_lines(f"{gone} is not overridden any more.", "Review again to see the verdict without it.")
        return PASS
    if args.removed:
        raise UsageError(f"'{args.removed}' belongs to nothing: after FINDING comes --reason TEXT")
    if hint := did_you_mean(args.finding, ("list", "remove", "policy")) if args.finding != "policy" else "":
        raise UsageError(f"'{args.finding}' is not a finding{hint}")
    if args.reason is None:
        raise UsageError("say why the finding is acceptable: vibe-gate override FINDING --reason TEXT")
    require_one_finding(args, args.finding != "policy")
    ask = WaiverAsked(args.finding, args.reason, args.expires)
    made, what = override(ask, start=Path.cwd(), environ=environ, now=now())
    emit_lines(
        f"{made.finding} is overridden by {made.by} until {made.expires}: {made.reason}",
        f"  {what}",
        "This holds in this clone only. Review again to see the verdict with it.",
    )
    if args.finding != "policy":
        label_waived(args, made.finding, environ)
    return PASS


def _list(environ: Mapping[str, str]) -> int:
    today = now().date()
    made = overrides(start=Path.cwd(), environ=environ)
    for one in made:
        until = f"until {one.expires}" if one.expires >= today else f"expired {one.expires}"
        emit_lines(f"{one.finding:<23}  {until:<18}  {one.by}: {one.reason}")
    if not made:
        emit_lines("No overrides in this clone.")
    return PASS


def _suppress(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    require_one_finding(args, ":" not in args.what)
    ask = WaiverAsked(args.what, args.reason, args.expires)
    rule, path = suppress(ask, start=Path.cwd(), environ=environ, now=now())
    emit_lines(
        f"{path} now suppresses {rule.name}: {rule.reason}",
        "It takes effect once it is merged, and the change of the file needs approval.",
    )
    if rule.finding:
        label_waived(args, rule.finding, environ)
    return PASS


OVERRIDE = Command(
    "Temporarily accept a finding, or a change of the gate itself, in this clone. Refused to agents.",
    (
        argument("finding", metavar="FINDING", help="a fingerprint, its beginning, policy, or: list, remove"),
        argument("removed", nargs="?", metavar="FINDING", help=argparse.SUPPRESS),
        argument("--reason", metavar="TEXT", help="why; shown with the verdict"),
        argument("--expires", type=_date, metavar="DATE", help="the last day it holds (default: in 30 days)"),
        waived,
    ),
    _override,
    """\
vibe-gate override FINDING --reason TEXT [--expires DATE]
                          [--wrong | --accepted]
       vibe-gate override list | remove FINDING""",
    """\
examples:
  vibe-gate override 3f9a1c --reason "the fixture needs the key"
  vibe-gate override policy --reason "agreed with Ada" --expires 2027-01-31
                       the change of the gate itself, after exit code 4
  vibe-gate override list
  vibe-gate override remove 3f9a1c
""",
)

SUPPRESS = Command(
    "Permanently ignore a finding: write it to .vibe-gate/suppressions.toml, for everybody, once it is merged.",
    (
        argument("what", metavar="FINGERPRINT|CRITERION:GLOB", help="one finding, or a criterion at some paths"),
        argument("--reason", required=True, metavar="TEXT", help="why; shown with the verdict"),
        argument("--expires", type=_date, metavar="DATE", help="the last day it holds (default: for ever)"),
        waived,
    ),
    _suppress,
    """\
vibe-gate suppress FINGERPRINT | CRITERION:GLOB --reason TEXT
                          [--expires DATE] [--wrong | --accepted]""",
    """\
examples:
  vibe-gate suppress 3f9a1c --reason "a test vector"
                       one finding of the newest run that has it
  vibe-gate suppress 'no-secrets:tests/fixtures/**' --reason "no real keys"
""",
)
