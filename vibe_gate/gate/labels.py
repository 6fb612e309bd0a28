"""`label`: what a person says of a finding is looked up in the stored runs, and kept in this clone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from vibe_gate.domain.label import Label, LabelSource, Word, newest
from vibe_gate.errors import UsageError
from vibe_gate.gate.stored import StoredFinding, only_finding, person, stored_finding
from vibe_gate.gate.trusted import standing_store
from vibe_gate.git import Repository, open_repository
from vibe_gate.secrets import Redactor
from vibe_gate.store.state import open_state

if TYPE_CHECKING:
    from vibe_gate.store.shared import SharedStore


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
        made = _put(repository, meant, word)
        told = _shared(repository, environ, now, lambda store: [store.put_label(one) for one in made])
        return made[0], " ".join((meant.about, *told))


def _put(repository: Repository, meant: StoredFinding, word: Word) -> tuple[Label, ...]:
    made = word.on(meant.fingerprint, meant.sources)
    if not made:
        raise UsageError(
            f"{meant.fingerprint} fails no criterion of a rubric (it is about the gate itself, or refuted); labels are "
            "for findings that do."
        )
    open_state(repository.common_dir).labels.append(*made)
    return made


def _shared(
    repository: Repository, environ: Mapping[str, str], now: datetime, share: Callable[[SharedStore], object]
) -> tuple[str, ...]:
    """Do this in the shared store, if the gate names one that can be used here; sentences about what failed."""
    with suppress(UsageError):
        store = standing_store(repository, environ, lambda: now)
        share(store)
        return store.told()
    return ()


def counted_labels(
    repository: Repository, environ: Mapping[str, str], now: datetime
) -> tuple[tuple[Label, ...], tuple[str, ...]]:
    """The labels of this clone and of the team, the newest of each finding and rubric: what figures count. Then
    sentences about those of the team that could not be had.

    What a judge may block counts those of the clone alone: an author must not switch off the judge of a change.
    """
    found = list(open_state(repository.common_dir).labels.all())
    told = _shared(repository, environ, now, lambda store: found.extend(store.labels()))
    return newest(found), told


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
        _shared(repository, environ, datetime.now(UTC), lambda store: store.remove_labels(name))
        return name
