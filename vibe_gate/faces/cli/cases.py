"""`vibe-gate cases add`: make a labelled case of a reviewed change."""

from __future__ import annotations

import argparse
import sys

from vibe_gate.errors import PASS
from vibe_gate.faces.cli.command import Command, argument, group
from vibe_gate.faces.cli.output import can_ask, emit_lines, now, open_repository_here
from vibe_gate.faces.cli.runs import StoredRuns
from vibe_gate.gate.add_case import CaseAsked, add_case

_ASK = "Is finding {} right? y: yes, expect fail; n: no, expect pass; Enter: stop "


def _parse_add(args: argparse.Namespace) -> CaseAsked:
    return CaseAsked(args.what, args.rubric or "", tuple(args.expect), args.patch)


def _add(ask: CaseAsked) -> int:
    with open_repository_here() as repository:
        case = add_case(
            ask,
            repository,
            now=now(),
            run_named=lambda name: StoredRuns().find_own_run(name).entry,
            is_right=_is_right,
        )
    emit_lines(
        f"{case.folder}: rubric {case.rubric}, expected: {case.expected}",
        *(["Secrets of the change are replaced in its patch."] if case.redacted else []),
        "Run it with `vibe-gate test`; if a judge is asked, once with `--wire record` before.",
    )
    return PASS


def _is_right(finding: str) -> bool | None:
    """What a person answers at the terminal; None: nothing, or nobody is there."""
    if not can_ask():
        return None
    sys.stderr.write(_ASK.format(finding))
    sys.stderr.flush()
    return {"y": True, "n": False}.get(sys.stdin.readline().strip().lower()[:1])


_SUBCOMMANDS = {
    "add": Command(
        "Write the change of a finding, or of a run, as a labelled case. Refused to agents.",
        (
            argument(
                "what",
                metavar="FINDING|RUN",
                help="a fingerprint or its beginning, a run id, or a revision",
            ),
            argument(
                "--expect",
                action="append",
                default=[],
                metavar="[CRITERION=]OUTCOME",
                help="instead of what labels say; may be repeated",
            ),
            argument("--rubric", metavar="ID", help="which one, if the run has several"),
            argument(
                "--patch",
                action="store_true",
                help="keep the patch, not the id of the change's last commit",
            ),
        ),
        _parse_add,
        _add,
    ),
}

CASES = group(
    "Labelled cases of the rubrics: changes of which you say how a rubric must answer.",
    """\
examples:
  vibe-gate cases add 3f9a1c               a finding that you have labelled
  vibe-gate cases add 3f9a1c --expect pass
  vibe-gate cases add HEAD --expect errors-not-swallowed=pass
                                           the run about the last commit
""",
    _SUBCOMMANDS,
)
