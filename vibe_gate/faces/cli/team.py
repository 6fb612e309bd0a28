"""The store that a team shares, as commands reach it: `--store`, and `bundles push`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from vibe_gate import scratch
from vibe_gate.domain.bundles import Provenance, RunEntry, is_evidence
from vibe_gate.domain.label import ON_FORGE
from vibe_gate.domain.leaving import WHY_NOT
from vibe_gate.errors import IntegrityError, UsageError
from vibe_gate.faces.cli.output import now
from vibe_gate.faces.cli.runs import NamedRun, StoredRuns
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.git import Repository, open_repository
from vibe_gate.store.clone_state import open_state

if TYPE_CHECKING:
    from vibe_gate.store.shared_runs import SharedRuns
    from vibe_gate.store.shared_store import SharedStore


class TeamRuns(StoredRuns):
    """The runs of the shared store that the gate at the trusted revision names. Those that are
    looked at are fetched into `folder`. UsageError: there is no such store, or this environment has
    no key to it.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.root = folder

    @contextlib.contextmanager
    def repository(self) -> Iterator[Repository | None]:
        """The repository whose gate names the store."""
        with open_repository(self.top, read_process_environment()) as repository:
            yield repository

    @cached_property
    def bundles(self) -> SharedRuns:
        """What is there. GateError."""
        with self.repository() as repository:
            assert repository is not None
            from vibe_gate.gate.trusted import standing_store  # most lists are of this clone

            return standing_store(repository, now).runs(self.root, Provenance(now()))

    def begun_first(self, entries: Sequence[RunEntry]) -> list[RunEntry]:
        """The runs as they are: where each began makes no difference to a team."""
        return list(entries)

    def open_run(self, reference: str | None) -> tuple[StoredRuns, NamedRun]:
        """As of StoredRuns, the run fetched. IntegrityError: it is foreign, or was altered."""
        named_run = self.find_own_run(reference)
        self.bundles.fetch([named_run.entry])
        return self, named_run


@contextlib.contextmanager
def runs_of(*, in_store: bool) -> Iterator[StoredRuns]:
    """The runs of this clone, or those of the shared store."""
    if not in_store:
        yield StoredRuns()
        return
    with scratch.private_folder("run") as folder:
        yield TeamRuns(folder)


class PushedRuns(Struct, frozen=True):
    """What was uploaded to the shared store."""

    url: str
    """The store's address."""
    runs: tuple[RunEntry, ...]
    answers: int
    """How many answers."""
    waiting: int
    """How many answers and labels could not be uploaded yet."""
    problems: tuple[str, ...]
    """Sentences."""
    is_sound: bool
    """Whether none of them is about a run that is corrupt here."""


def push_runs(runs: StoredRuns, entries: Sequence[RunEntry] | None) -> PushedRuns:
    """Upload these runs, or all that are evidence, and the answers that could not be shared when
    they were given.

    UsageError: a run is not sealed, or there is no store to use. StorageError: it cannot be
    written.
    """
    for entry in entries or ():
        if entry.state != "sealed":
            raise UsageError(f"Run {entry.run_id} is {entry.state}; only sealed runs are uploaded.")
    with runs.repository() as repository:
        if repository is None:
            raise UsageError(
                "There is no repository here, and so no gate that names a shared store."
            )
        from vibe_gate.gate.trusted import standing_store

        store = standing_store(repository, now)
        upload = _upload_runs(runs, entries or _evidence(runs), store)
        store.patient()
        answers, waiting = _push_state(repository, store)
    problems = [*upload.faults, *_withheld_remark(upload.withheld_ids), *store.take_remarks()]
    is_sound = not upload.faults
    return PushedRuns(store.url, tuple(upload.runs), answers, waiting, tuple(problems), is_sound)


def _evidence(runs: StoredRuns) -> list[RunEntry]:
    """The sealed runs that a team can use as evidence, oldest first."""
    evidence = []
    for entry in reversed(runs.bundles.find()):
        if entry.state == "sealed" and is_evidence(entry.key, entry.cost_basis):
            evidence.append(entry)
    return evidence


class _Upload(Struct, frozen=True):
    """What became of the runs that were to be uploaded."""

    runs: list[RunEntry]
    """The uploaded ones; a run that the store had is not one of them."""
    withheld_ids: list[str]
    """Runs that stay in this clone."""
    faults: list[str]
    """Sentences about runs that are corrupt."""


def _upload_runs(runs: StoredRuns, entries: Sequence[RunEntry], store: SharedStore) -> _Upload:
    shared = store.runs(runs.root, runs.bundles.provenance)
    shared_places = {run.entry.place for run in shared.list_runs() if run.entry.state == "sealed"}
    upload = _Upload([], [], [])
    for entry in entries:
        if not runs.bundles.may_leave(entry):
            upload.withheld_ids.append(entry.run_id)
            continue
        try:
            if entry.place not in shared_places and shared.upload(entry):
                upload.runs.append(entry)
        except IntegrityError as error:
            upload.faults.append(str(error))
    return upload


def _push_state(repository: Repository, store: SharedStore) -> tuple[int, int]:
    """Upload the answers and labels of this clone: how many answers were, and how many of both
    could not be.
    """
    with open_state(repository.common_dir) as state:
        answers, waiting = state.answers.push(store)
        labels = [label for label in state.labels.all() if label.source not in ON_FORGE]
        waiting += sum(not store.put_label(label) for label in labels)
    return answers, waiting


def _withheld_remark(run_ids: Sequence[str]) -> list[str]:
    """The sentence about runs that stay in this clone, if there are some."""
    if not run_ids:
        return []
    names = ", ".join(run_ids[:3]) + (", ..." if len(run_ids) > 3 else "")
    return [f"Not uploaded: {names}. {WHY_NOT[0].upper()}{WHY_NOT[1:]}."]
