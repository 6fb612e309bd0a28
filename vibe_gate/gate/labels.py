"""`label`: what a person says of a finding is looked up in the stored runs, and kept in this
clone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct

from vibe_gate.domain.label import Label, LabelSource, Word, newest
from vibe_gate.errors import UsageError
from vibe_gate.gate.stored import StoredFinding, only_finding, require_person, stored_finding
from vibe_gate.gate.trusted import standing_store
from vibe_gate.git import Repository
from vibe_gate.secrets import Redactor
from vibe_gate.store.clone_state import open_state

if TYPE_CHECKING:
    from vibe_gate.store.shared_store import SharedStore


class LabelAsked(Struct, frozen=True):
    """What a person says of a finding."""

    finding: str
    """The beginning of its fingerprint."""

    right: bool
    """Whether it is right."""

    reason: str = ""

    source: LabelSource = "cli"


def add_label(ask: LabelAsked, repository: Repository, now: datetime) -> tuple[Label, str]:
    """Record a label; what it is about comes back as a sentence.

    UsageError: an agent asks, no or several findings are meant, or no rubric found it.
    """
    name, email = require_person(repository, "label")
    finding = stored_finding(repository, ask.finding, now)
    # It goes into cases and summaries, with the label.
    reason = Redactor(repository.environment.variables).text(ask.reason)
    word = Word(ts=now, right=ask.right, reason=reason, by=f"{name} <{email}>", source=ask.source)
    new_labels = _keep_labels(repository, finding, word)

    def upload(store: SharedStore) -> None:
        for new_label in new_labels:
            store.put_label(new_label)

    problems = _in_shared_store(repository, now, upload)
    return new_labels[0], " ".join((finding.about, *problems))


def _keep_labels(repository: Repository, finding: StoredFinding, word: Word) -> tuple[Label, ...]:
    new_labels = word.on(finding.fingerprint, finding.sources)
    is_remark = finding.finding is not None and finding.finding.remark is not UNSET
    if not new_labels and is_remark:
        raise UsageError(
            f"{finding.fingerprint} is a remark: a remark blocks nothing, so no figure counts a label "
            "of it."
        )
    if not new_labels:
        raise UsageError(
            f"{finding.fingerprint} fails no criterion of a rubric (it is about the gate itself, "
            "text that speaks to the reviewer, or refuted); labels are for findings that do."
        )
    open_state(repository.common_dir).labels.append(*new_labels)
    return new_labels


def _in_shared_store(
    repository: Repository, now: datetime, act: Callable[[SharedStore], object]
) -> tuple[str, ...]:
    """Act on the shared store, if the gate names one that can be used here; sentences about what
    failed.
    """
    with suppress(UsageError):
        store = standing_store(repository, lambda: now)
        act(store)
        return store.take_remarks()
    return ()


def counted_labels(
    repository: Repository, now: datetime
) -> tuple[tuple[Label, ...], tuple[str, ...]]:
    """The labels of this clone and of the team, the newest of each finding and rubric: what figures
    count. Then sentences about those of the team that could not be had.

    What a judge may block counts those of the clone alone: an author must not switch off the judge
    of a change.
    """
    all_labels = list(open_state(repository.common_dir).labels.all())
    problems = _in_shared_store(repository, now, lambda store: all_labels.extend(store.labels()))
    return newest(all_labels), problems


def take_back_label(prefix: str, repository: Repository) -> str:
    """Remove the labels of one finding, named by the beginning of its fingerprint; the whole of it
    comes back.

    UsageError: an agent asks, it has none, or several are meant.
    """
    require_person(repository, "label")
    labels = open_state(repository.common_dir).labels
    fingerprint = only_finding(labels.all(), prefix, "labelled finding", "label")
    labels.remove(fingerprint)
    now = datetime.now(UTC)
    _in_shared_store(repository, now, lambda store: store.remove_labels(fingerprint))
    return fingerprint
