"""`vibe-gate verify`, `override` and `suppress`: which commits were reviewed, and what people
accept all the same.
"""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path

from msgspec import Struct

from vibe_gate.errors import PASS, UsageError
from vibe_gate.faces.cli.command import JSON, Command, argument, did_you_mean
from vibe_gate.faces.cli.label import label_waived
from vibe_gate.faces.cli.output import emit_lines, emit_with_rows, now, open_repository_here
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.faces.revision_advice import advising
from vibe_gate.gate.waive import WaiverAsked, override, remove_override, suppress
from vibe_gate.receipts.commit_status import ChangeIdentity, CommitStatus
from vibe_gate.receipts.verify_range import VerifyRequest, verify_commits
from vibe_gate.report import verified
from vibe_gate.store.clone_state import open_state


class VerifyArguments(Struct, frozen=True):
    """The arguments of `vibe-gate verify`."""

    request: VerifyRequest
    as_json: bool


def _parse_verify(args: argparse.Namespace) -> VerifyArguments:
    request = VerifyRequest(
        range=args.range,
        definitions=args.definitions,
        strict=args.strict,
        notes=args.from_notes,
    )
    return VerifyArguments(request, args.json)


def _verify(arguments: VerifyArguments) -> int:
    request = arguments.request
    dots = "..." if "..." in request.range else ".."
    start, _, end = request.range.partition(dots)
    revisions = (start, end, request.definitions)
    environment = read_process_environment()
    show = _show_nothing if arguments.as_json else _show_status
    with advising(revisions, Path.cwd(), environment, {}):
        verification = verify_commits(
            request, start=Path.cwd(), environment=environment, now=now(), show=show
        )
    if arguments.as_json:
        rows = verified.build_commit_rows(verification)
        emit_with_rows(verified.build_verify_document(verification), "commits", rows)
    else:
        emit_lines(*verified.render_verify_totals(verification))
    return verification.exit_code


def _show_status(identity: ChangeIdentity, status: CommitStatus) -> None:
    emit_lines(*verified.render_commit_status(identity, status))


def _show_nothing(identity: ChangeIdentity, status: CommitStatus) -> None:
    """The document is printed at the end, as a whole."""


VERIFY = Command(
    "Show for every commit of a range whether it was reviewed.",
    (
        argument(
            "range",
            nargs="?",
            default="",
            metavar="RANGE",
            help="default: upstream..HEAD, else HEAD",
        ),
        argument(
            "--strict",
            action="store_true",
            help="as in CI: a pass needs a listed signer, not the author",
        ),
        argument(
            "--from-notes", action="store_true", help="also use receipts in refs/notes/vibe-gate"
        ),
        argument(
            "--definitions",
            metavar="REV|worktree",
            help="read .vibe-gate/, with its signers, at REV, or from disk",
        ),
        JSON,
    ),
    _parse_verify,
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
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a date; write it as 2027-01-31"
        ) from None


class ListOverrides(Struct, frozen=True):
    """`vibe-gate override list`."""


class RemoveOverride(Struct, frozen=True):
    """`vibe-gate override remove FINDING`."""

    finding: str
    """A fingerprint, or its beginning."""


OverrideArguments = ListOverrides | RemoveOverride | WaiverAsked
"""What `vibe-gate override` does."""

POLICY = "policy"
"""What stands for a change of the gate, in place of a finding."""


def _parse_override(args: argparse.Namespace) -> OverrideArguments:
    finding = args.finding
    if finding == "list" and not args.removed:
        return ListOverrides()
    if finding == "remove":
        if not args.removed:
            raise UsageError(
                "name the finding: vibe-gate override remove FINDING (`vibe-gate override list` has them)"
            )
        return RemoveOverride(args.removed)
    if args.removed:
        raise UsageError(f"'{args.removed}' belongs to nothing: after FINDING comes --reason TEXT")
    is_policy = finding == POLICY or finding.startswith(f"{POLICY}-")
    if not is_policy:
        hint = did_you_mean(finding, ("list", "remove", POLICY))
        if hint:
            raise UsageError(f"'{finding}' is not a finding{hint}")
    if args.reason is None:
        raise UsageError(
            "say why the finding is acceptable: vibe-gate override FINDING --reason TEXT"
        )
    return WaiverAsked(finding, args.reason, args.expires)


def _override(arguments: OverrideArguments) -> int:
    match arguments:
        case ListOverrides():
            _list_overrides()
        case RemoveOverride():
            with open_repository_here() as repository:
                finding = remove_override(arguments.finding, repository)
            emit_lines(
                f"{finding} is not overridden any more.",
                "Review again to see the verdict without it.",
            )
        case WaiverAsked():
            _add_override(arguments)
    return PASS


def _add_override(ask: WaiverAsked) -> None:
    with open_repository_here() as repository:
        new_override, description = override(ask, repository, now())
    terms = f"by {new_override.by} until {new_override.expires}: {new_override.reason}"
    emit_lines(
        f"{new_override.finding} is overridden {terms}",
        f"  {description}",
        "This holds in this clone only. Review again to see the verdict with it.",
    )
    if not ask.what.startswith(POLICY):
        label_waived(new_override.finding, ask.reason)


def _list_overrides() -> None:
    today = now().date()
    with open_repository_here() as repository:
        recorded = open_state(repository.common_dir).overrides.all()
    for entry in recorded:
        is_over = entry.expires < today
        until = f"{'expired' if is_over else 'until'} {entry.expires}"
        emit_lines(f"{entry.finding:<23}  {until:<18}  {entry.by}: {entry.reason}")
    if not recorded:
        emit_lines("No overrides in this clone.")


def _parse_suppress(args: argparse.Namespace) -> WaiverAsked:
    return WaiverAsked(args.what, args.reason, args.expires)


def _suppress(ask: WaiverAsked) -> int:
    with open_repository_here() as repository:
        rule, path = suppress(ask, repository, now())
    emit_lines(
        f"{path} now suppresses {rule.name}: {rule.reason}",
        "It takes effect once it is merged, and the change of the file needs approval.",
    )
    if rule.finding:
        label_waived(rule.finding, ask.reason)
    return PASS


OVERRIDE = Command(
    "Temporarily accept a finding, or a change of the gate itself, in this clone. Refused to agents.",
    (
        argument(
            "finding",
            metavar="FINDING",
            help="a fingerprint, its beginning, policy (the newest change of the gate), or: list, remove",
        ),
        argument("removed", nargs="?", metavar="FINDING", help=argparse.SUPPRESS),
        argument("--reason", metavar="TEXT", help="why; shown with the verdict"),
        argument(
            "--expires",
            type=_date,
            metavar="DATE",
            help="the last day it holds (default: in 30 days)",
        ),
    ),
    _parse_override,
    _override,
    """\
vibe-gate override FINDING --reason TEXT [--expires DATE]
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
        argument(
            "what",
            metavar="FINGERPRINT|CRITERION:GLOB",
            help="one finding, or a criterion at some paths",
        ),
        argument("--reason", required=True, metavar="TEXT", help="why; shown with the verdict"),
        argument(
            "--expires",
            type=_date,
            metavar="DATE",
            help="the last day it holds (default: for ever)",
        ),
    ),
    _parse_suppress,
    _suppress,
    """\
vibe-gate suppress FINGERPRINT | CRITERION:GLOB --reason TEXT
                          [--expires DATE]""",
    """\
examples:
  vibe-gate suppress 3f9a1c --reason "a test vector"
                       one finding of the newest run that has it
  vibe-gate suppress 'no-secrets:tests/fixtures/**' --reason "no real keys"
""",
)
