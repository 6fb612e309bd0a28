"""`vibe-gate label`: what a person says of a finding; it measures the judge and changes no
verdict.
"""

from __future__ import annotations

import argparse
import sys

from msgspec import Struct

from vibe_gate.domain.escape import safe
from vibe_gate.domain.label import Label
from vibe_gate.errors import PASS, UsageError
from vibe_gate.faces.cli.command import Command, argument, did_you_mean
from vibe_gate.faces.cli.output import can_ask, complain, emit_lines, now, open_repository_here
from vibe_gate.gate.labels import LabelAsked, add_label, counted_labels, take_back_label
from vibe_gate.git import Repository
from vibe_gate.store.clone_state import open_state

WORDS = ("right", "wrong")

_ANSWERS = {"w": False, "a": True}
_ASK = "Is the finding wrong, or right and accepted? w: wrong, a: accepted, Enter: no label "


def known_labels(repository: Repository) -> tuple[Label, ...]:
    """The labels that figures count, those of the team among them; what could not be had is said on
    stderr.
    """
    labels, problems = counted_labels(repository, now())
    for sentence in problems:
        complain(f"vibe-gate: {safe(sentence)}")
    return labels


def label_waived(finding: str, reason: str) -> None:
    """Label a finding that was let pass, as the person at the terminal says.

    Without an answer it is not labelled. GateError.
    """
    right = _answer()
    if right is None:
        return
    ask = LabelAsked(finding, right, reason, "override")
    with open_repository_here() as repository:
        new_label, _ = add_label(ask, repository, now())
    emit_lines(
        f"{new_label.finding} is labelled {word_of(new_label)}: `vibe-gate stats` and `calibrate` count it."
    )


def _answer() -> bool | None:
    """What a person answers at the terminal; None: nothing, or nobody is there."""
    if not can_ask():
        return None
    sys.stderr.write(_ASK)
    sys.stderr.flush()
    return _ANSWERS.get(sys.stdin.readline().strip().lower()[:1])


def word_of(label: Label) -> str:
    """The label as people write it."""
    return WORDS[0] if label.right else WORDS[1]


class ListLabels(Struct, frozen=True):
    """`vibe-gate label list`."""


class RemoveLabel(Struct, frozen=True):
    """`vibe-gate label remove FINDING`."""

    finding: str
    """A fingerprint, or its beginning."""


LabelArguments = ListLabels | RemoveLabel | LabelAsked
"""What `vibe-gate label` does."""


def _parse(args: argparse.Namespace) -> LabelArguments:
    finding, word = args.finding, args.word
    if finding == "list":
        if word is not None:
            raise UsageError(
                "label list takes nothing more; to take a label back: vibe-gate label remove FINDING"
            )
        return ListLabels()
    if finding == "remove":
        if not word:
            raise UsageError(
                "name the finding: vibe-gate label remove FINDING (`vibe-gate label list` has them)"
            )
        return RemoveLabel(word)
    if word is None:
        hint = did_you_mean(finding, ("list", "remove"))
        raise UsageError(
            f"say whether it is right or wrong: vibe-gate label FINDING right|wrong{hint}"
        )
    if word not in WORDS:
        raise UsageError(f"'{word}' is not right or wrong{did_you_mean(word, WORDS)}")
    return LabelAsked(finding, word == "right", args.reason or "")


def _run(arguments: LabelArguments) -> int:
    match arguments:
        case ListLabels():
            _list_labels()
        case RemoveLabel():
            with open_repository_here() as repository:
                finding = take_back_label(arguments.finding, repository)
            emit_lines(f"{finding} is not labelled any more.")
        case _:
            _add_label(arguments)
    return PASS


def _add_label(ask: LabelAsked) -> None:
    with open_repository_here() as repository:
        recorded = open_state(repository.common_dir).labels.all()
        old_words = {old.finding: word_of(old) for old in recorded}
        new_label, description = add_label(ask, repository, now())
    word = word_of(new_label)
    old_word = old_words.get(new_label.finding, word)
    before = f" (was {old_word})" if old_word != word else ""
    reason = f": {new_label.reason}" if new_label.reason else ""
    emit_lines(
        f"{new_label.finding} is labelled {word}{before} by {new_label.by}{reason}",
        f"  {description}",
        "No verdict changes; `vibe-gate stats` and `calibrate` count it.",
    )


def _list_labels() -> None:
    with open_repository_here() as repository:
        recorded = open_state(repository.common_dir).labels.all()
    for entry in recorded:
        reason = f": {entry.reason}" if entry.reason else ""
        question = f"{entry.rubric}/{entry.criterion}"
        emit_lines(f"{entry.finding}  {word_of(entry)}  {question}  {entry.by}{reason}")
    if not recorded:
        emit_lines("No labels in this clone.")


LABEL = Command(
    "Say whether a finding is right or wrong, to measure the judge. Changes no verdict. Refused to agents.",
    (
        argument(
            "finding", metavar="FINDING", help="a fingerprint, its beginning, or: list, remove"
        ),
        argument(
            "word",
            nargs="?",
            metavar="right|wrong",
            help="is it a defect, as its criterion means it?",
        ),
        argument("--reason", metavar="TEXT", help="why"),
    ),
    _parse,
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
