"""`vibe-gate verify`: which commits of a range have a verdict that can be relied on."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from vibe_gate.faces.cli.dispatch import Command
from vibe_gate.faces.cli.output import emit_result
from vibe_gate.receipts.verify import VerifyRequest, verify
from vibe_gate.report import verified


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("range", nargs="?", default="", metavar="RANGE", help="default: upstream..HEAD, else HEAD")
    parser.add_argument("--strict", action="store_true", help="as in CI: a pass needs a listed signer, not the author")
    parser.add_argument("--from-notes", action="store_true", help="also use receipts in refs/notes/vibe-gate")
    parser.add_argument("--base", metavar="REV", help="read definitions and signers at this revision")
    parser.add_argument("--definitions", metavar="REV|worktree", help="read .vibe-gate/ at REV, or from disk")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Verify, print, and return 0, 1 or 5."""
    request = VerifyRequest(
        range=args.range, base=args.base, definitions=args.definitions, strict=args.strict, notes=args.from_notes
    )
    found = verify(request, start=Path.cwd(), environ=environ, now=datetime.now(UTC))
    shown = (found.commits, found.trusted, found.signers, found.strict, found.remark)
    emit_result(args, verified.document(*shown, found.exit_code), verified.lines(*shown))
    return found.exit_code


VERIFY = Command(
    "Show for every commit of a range whether it was reviewed.",
    _add_arguments,
    _run,
    "vibe-gate verify [A..B | A...B | REV] [options]",
    """\
examples:
  vibe-gate verify                      commits that the upstream does not have
  vibe-gate verify main..HEAD           every commit since main
  vibe-gate verify --strict main..HEAD  as in CI: passes need a listed signer
""",
)
