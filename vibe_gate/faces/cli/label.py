"""`vibe-gate label`: what a person says of a finding; it measures the judge and changes no verdict."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from vibe_gate.domain.escape import safe
from vibe_gate.domain.label import Label
from vibe_gate.errors import PASS, UsageError
from vibe_gate.faces.cli.command import Command, argument, did_you_mean
from vibe_gate.faces.cli.output import complain, emit_lines, now
from vibe_gate.gate.labels import LabelAsked, counted_labels, label, labels, take_back_label
from vibe_gate.git import Repository

WORDS = ("right", "wrong")

_ANSWERS = {"w": False, "a": True}
_ASK = "Is the finding wrong, or right and accepted? w: wrong, a: accepted, Enter: no label "


def waived(parser: argparse.ArgumentParser) -> None:
    """Declare what a person may say of a finding that is let pass."""
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--wrong", action="store_true", help="the finding is wrong: label it so")
    either.add_argument("--accepted", action="store_true", help="it is right, and accepted: label it right")


def known_labels(repository: Repository, environ: Mapping[str, str]) -> tuple[Label, ...]:
    """The labels that figures count, those of the team among them; what could not be had is said on stderr."""
    found, told = counted_labels(repository, environ, now())
    for sentence in told:
        complain(f"vibe-gate: {safe(sentence)}")
    return found


def require_one_finding(args: argparse.Namespace, is_one: bool) -> None:
    """UsageError if the options say something of a finding, and what is let pass is none, or several."""
    if (args.wrong or args.accepted) and not is_one:
        raise UsageError("--wrong and --accepted label one finding; name it by its fingerprint.")


def label_waived(args: argparse.Namespace, finding: str, environ: Mapping[str, str]) -> None:
    """Label a finding that was let pass, as the options or the person at the terminal say; without an answer not."""
    right = args.accepted if args.wrong or args.accepted else _answer()
    if right is not None:
        ask = LabelAsked(finding, right, args.reason, "override")
        made, _ = label(ask, start=Path.cwd(), environ=environ, now=now())
        emit_lines(f"{made.finding} is labelled {word_of(made)}: `vibe-gate stats` and `calibrate` count it.")


def _answer() -> bool | None:
    """What a person answers at the terminal; None: nothing, or nobody is there."""
    if not (sys.stdin and sys.stderr and sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    sys.stderr.write(_ASK)
    sys.stderr.flush()
    return _ANSWERS.get(sys.stdin.readline().strip().lower()[:1])


def word_of(made: Label) -> str:
    """The label as people write it."""
    return WORDS[0] if made.right else WORDS[1]


def _run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    if args.finding == "list":
        if args.word is not None:
            raise UsageError("label list takes nothing more; to take a label back: vibe-gate label remove FINDING")
        return _list(environ)
    if args.finding == "remove":
        return _remove(args.word, environ)
    if args.word is None:
        hint = did_you_mean(args.finding, ("list", "remove"))
        raise UsageError(f"say whether it is right or wrong: vibe-gate label FINDING right|wrong{hint}")
    if args.word not in WORDS:
        raise UsageError(f"'{args.word}' is not right or wrong{did_you_mean(args.word, WORDS)}")
    ask = LabelAsked(args.finding, args.word == "right", args.reason or "")
    before = {one.finding: word_of(one) for one in labels(start=Path.cwd(), environ=environ)}
    made, what = label(ask, start=Path.cwd(), environ=environ, now=now())
    said = f": {made.reason}" if made.reason else ""
    was = before.get(made.finding, args.word)
    emit_lines(
        f"{made.finding} is labelled {args.word}{f' (was {was})' if was != args.word else ''} by {made.by}{said}",
        f"  {what}",
        "No verdict changes; `vibe-gate stats` and `calibrate` count it.",
    )
    return PASS


def _remove(finding: str | None, environ: Mapping[str, str]) -> int:
    if not finding:
        raise UsageError("name the finding: vibe-gate label remove FINDING (`vibe-gate label list` has them)")
    gone = take_back_label(finding, start=Path.cwd(), environ=environ)
    emit_lines(f"{gone} is not labelled any more.")
    return PASS


def _list(environ: Mapping[str, str]) -> int:
    made = labels(start=Path.cwd(), environ=environ)
    for one in made:
        said = f": {one.reason}" if one.reason else ""
        emit_lines(f"{one.finding}  {word_of(one)}  {one.rubric}/{one.criterion}  {one.by}{said}")
    if not made:
        emit_lines("No labels in this clone.")
    return PASS


LABEL = Command(
    "Say whether a finding is right or wrong, to measure the judge. Changes no verdict. Refused to agents.",
    (
        argument("finding", metavar="FINDING", help="a fingerprint, its beginning, or: list, remove"),
        argument("word", nargs="?", metavar="right|wrong", help="is it a defect, as its criterion means it?"),
        argument("--reason", metavar="TEXT", help="why"),
    ),
    _run,
    "vibe-gate label FINDING right|wrong [--reason TEXT]\n       vibe-gate label list | remove FINDING",
    """\
examples:
  vibe-gate label 3f9a1c wrong --reason "the caller checks it"
  vibe-gate label 3f9a1c right
  vibe-gate label list
  vibe-gate label remove 3f9a1c
""",
)
