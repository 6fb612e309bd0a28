"""`label`: what a person says of a finding is looked up in the stored runs, and kept in this clone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from vibe_gate.domain.label import Label, LabelSource, Word
from vibe_gate.errors import UsageError
from vibe_gate.gate.stored import StoredFinding, only_finding, person, stored_finding
from vibe_gate.git import Repository, open_repository
from vibe_gate.secrets import Redactor
from vibe_gate.store import open_state


class LabelAsked(Struct, frozen=True):
    """What a person says of the finding whose fingerprint begins with `finding`: it is `right`, or wrong."""

    finding: str
    right: bool
    reason: str = ""
    source: LabelSource = "cli"


def label(ask: LabelAsked, *, start: Path, environ: Mapping[str, str], now: datetime) -> tuple[Label, str]:
    """Record a label; what it is about comes back as a sentence.

    UsageError: an agent asks, no or several findings are meant, or no rubric found it.
    """
    with open_repository(start, environ) as repository:
        name, email = person(repository, environ, "label")
        meant = stored_finding(repository, ask.finding, now)
        reason = Redactor(environ).text(ask.reason)  # it goes into cases and summaries, with the label
        word = Word(ts=now, right=ask.right, reason=reason, by=f"{name} <{email}>", source=ask.source)
        return _put(repository, meant, word), meant.about


def _put(repository: Repository, meant: StoredFinding, word: Word) -> Label:
    made = word.on(meant.fingerprint, meant.sources)
    if not made:
        raise UsageError(
            f"{meant.fingerprint} fails no criterion of a rubric (it is about the gate itself, or refuted); labels are "
            "for findings that do."
        )
    open_state(repository.common_dir).labels.append(*made)
    return made[0]


def labels(*, start: Path, environ: Mapping[str, str]) -> tuple[Label, ...]:
    """The labels of this clone that count, oldest first."""
    with open_repository(start, environ) as repository:
        return open_state(repository.common_dir).labels.all()


def take_back_label(what: str, *, start: Path, environ: Mapping[str, str]) -> str:
    """Remove the labels of one finding, named by the beginning of its fingerprint; the whole of it comes back.

    UsageError: an agent asks, it has none, or several are meant.
    """
    with open_repository(start, environ) as repository:
        person(repository, environ, "label")
        state = open_state(repository.common_dir).labels
        name = only_finding(state.all(), what, "labelled finding", "label")
        state.remove(name)
        return name
