"""The store that a team shares, as commands reach it: `--store`, and `bundles push`."""

from __future__ import annotations

import contextlib
import os
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
from vibe_gate.git import Repository, open_repository
from vibe_gate.store.clone_state import open_state

if TYPE_CHECKING:
    from vibe_gate.store.shared_runs import SharedRuns


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
        with open_repository(self.top, os.environ) as repository:
            yield repository

    @cached_property
    def bundles(self) -> SharedRuns:
        """What is there. GateError."""
        with self.repository() as repository:
            assert repository is not None
            from vibe_gate.gate.trusted import standing_store  # most lists are of this clone

            return standing_store(repository, now).runs(self.root, Provenance(now()))

    def begun_first(self, found: Sequence[RunEntry]) -> list[RunEntry]:
        """The runs as they are: where each began makes no difference to a team."""
        return list(found)

    def opened(self, reference: str | None) -> tuple[StoredRuns, NamedRun]:
        """As of StoredRuns, the run fetched. IntegrityError: it is foreign, or was altered."""
        named_run = self.own(reference)
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
    """What was uploaded to `url`: runs, the number of answers, and what still waits. `problems` are
    sentences; `is_sound`: none is about a run that is corrupt here.
    """

    url: str
    runs: tuple[RunEntry, ...]
    answers: int
    waiting: int
    problems: tuple[str, ...]
    is_sound: bool


def push(runs: StoredRuns, chosen: Sequence[RunEntry] | None) -> PushedRuns:
    """Upload these runs, or all that are evidence, and the answers that could not be shared when
    they were given.

    UsageError: a run is not sealed, or there is no store to use. StorageError: it cannot be
    written.
    """
    if unsealed := next((run for run in chosen or () if run.state != "sealed"), None):
        raise UsageError(
            f"Run {unsealed.run_id} is {unsealed.state}; only sealed runs are uploaded."
        )
    with runs.repository() as repository:
        if repository is None:
            raise UsageError(
                "There is no repository here, and so no gate that names a shared store."
            )
        from vibe_gate.gate.trusted import standing_store

        store = standing_store(repository, now)
        shared = store.runs(runs.root, runs.bundles.provenance)
        shared_places = {run.entry.place for run in shared.found() if run.entry.state == "sealed"}
        uploaded, wrong, staying = list[RunEntry](), list[str](), list[str]()
        for run in chosen or filter(_is_evidence, reversed(runs.bundles.find())):
            if not runs.bundles.may_leave(run):
                staying.append(run.run_id)
                continue
            try:
                if run.place not in shared_places and shared.upload(run):
                    uploaded.append(run)
            except IntegrityError as error:
                wrong.append(str(error))
        store.patient()
        with open_state(repository.common_dir) as state:
            answers, waiting = state.answers.push(store)
            labels = [label for label in state.labels.all() if label.source not in ON_FORGE]
            waiting += sum(not store.put_label(label) for label in labels)
    problems = [*wrong, *_withheld_remark(staying), *store.told()]
    return PushedRuns(store.url, tuple(uploaded), answers, waiting, tuple(problems), not wrong)


def _withheld_remark(run_ids: Sequence[str]) -> list[str]:
    """The sentence about runs that stay in this clone, if there are some."""
    if not run_ids:
        return []
    names = ", ".join(run_ids[:3]) + (", ..." if len(run_ids) > 3 else "")
    return [f"Not uploaded: {names}. {WHY_NOT[0].upper()}{WHY_NOT[1:]}."]


def _is_evidence(run: RunEntry) -> bool:
    return run.state == "sealed" and is_evidence(run.key, run.cost_basis)
