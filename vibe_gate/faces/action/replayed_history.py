"""What a pull request's rubrics would have said of earlier runs: replayed for the comment, within a
budget of its own.

A job begins with no earlier run. They come from the store that a team shares, or a step before puts
bundles into the checkout's store, or into the folder of the input `replay-from`. Whoever can upload
an artifact can have written those, so they are shown and decide nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from vibe_gate.context.mode import Batch, ReplayTrial
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.bundles import Provenance, RunEntry
from vibe_gate.domain.change import RULE_FILES, Selection
from vibe_gate.domain.escape import counted
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.model_wire import read_wire
from vibe_gate.domain.paths import matches_any_glob, unquote
from vibe_gate.domain.replayed import Replayed, ReplayRow
from vibe_gate.domain.store_access import StoreAccess
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import GateError
from vibe_gate.faces import progress
from vibe_gate.faces.action.inputs import Inputs
from vibe_gate.gate.trusted import unconfirmed_store
from vibe_gate.git import Credentials, Repository
from vibe_gate.run.replay import ReplayTask, replay_batch, replay_run_in, replayable, unreplayed_row
from vibe_gate.store.run_archive import import_runs
from vibe_gate.store.worktree_bundles import Bundles

LONGEST_S = 600.0
"""Seconds after which no further run is replayed: the verdict waits."""

MAX_ARCHIVES = 200
"""Archives of `replay-from` that are looked at, the last by name."""

NO_EARLIER_RUN = "No earlier run is stored here, so none was replayed (input `replay`)."


def edits_rubrics(summary: Summary) -> bool:
    """Whether the change edits what the gate refuses."""
    for file in summary.change.files:
        for path in (file.path, file.old_path):
            if path and matches_any_glob(unquote(path), RULE_FILES):
                return True
    return False


def replay_history(
    summary: Summary,
    inputs: Inputs,
    repository: Repository,
    *,
    store_url: str,
    archives: Path | None,
    clock: Callable[[], datetime],
    credentials: Credentials,
) -> Replayed:
    """Judge the last `inputs.replay` runs again, under the definitions of the reviewed head.

    Args:
        summary: The review's.
        inputs: The job's.
        repository: Where the runs are stored.
        store_url: Of the shared store, as the gate in force names it, or "".
        archives: The folder with archives of runs, if the job names one.
        clock: The time, in UTC.
        credentials: With which commits are fetched.
    """
    bundles = Bundles(repository.store_root, Provenance(clock(), repository.tracked_in_store()))
    notes = _import_archives(bundles, archives)
    if store_url and not unconfirmed_store(repository, store_url):  # the review has said so
        notes += _fetch_shared_runs(
            bundles, store_url, inputs.replay, repository.environment.store, clock
        )
    earlier_runs = replayable(run for run in bundles.find() if run.run_id != summary.run_id)
    runs = earlier_runs[-inputs.replay :]
    if not runs:
        return Replayed((), (NO_EARLIER_RUN, *notes))
    request = ReviewRequest(
        Selection("range"),
        rubrics=inputs.rubrics,
        definitions=summary.change.head_commit,
        wire=read_wire(repository.environment.variables),
    )
    batch = Batch(replay_batch(repository, request, ""))
    # Nobody has approved what the change brings to be run.
    trial = ReplayTrial(batch, runs_commands=False)
    _fetch_commits(repository, runs, credentials)
    budget_usd = inputs.replay_max_cost_usd
    rows = tuple(_rows(repository, runs, request, trial, budget_usd, clock))
    return Replayed(rows, notes, budget_usd)


def _rows(
    repository: Repository,
    runs: Iterable[RunEntry],
    request: ReviewRequest,
    trial: ReplayTrial,
    left_usd: float,
    clock: Callable[[], datetime],
) -> Iterable[ReplayRow]:
    """A row for each run, the newest first, one after the other: a deadline interrupts by
    signals.
    """
    deadline = time.monotonic() + LONGEST_S
    gates: dict[str, Gate] = {}
    for run in reversed(list(runs)):
        left_s = deadline - time.monotonic()
        limited = replace(request, max_cost_usd=left_usd, deadline_s=max(left_s, 1.0))
        task = ReplayTask(repository.root, run.run_id, run.key, limited, trial)
        if left_s <= 0:
            yield unreplayed_row(task, f"the {LONGEST_S / 60:.0f} minutes for replays are over")
            continue
        row = progress.run_walk(replay_run_in(task, repository, gates, clock=clock))
        left_usd -= row.usd
        yield row


def _import_archives(bundles: Bundles, folder: Path | None) -> tuple[str, ...]:
    """Bring the runs of the folder's archives into the store; a sentence about those that were
    refused.
    """
    if folder is None:
        return ()
    archives = sorted((*folder.glob("*.tar.xz"), *folder.glob("*/*.tar.xz")))[-MAX_ARCHIVES:]
    refused = []
    for archive in archives:
        try:
            import_runs(bundles.root, bundles.provenance, archive)
        except GateError as error:
            refused.append(str(error))
    if not archives:
        return ("The folder of `replay-from` holds no archive (bundle.tar.xz).",)
    if not refused:
        return ()
    return (f"{counted(len(refused), 'archive')} refused, the first: {refused[0]}",)


def _fetch_shared_runs(
    bundles: Bundles,
    url: str,
    number: int,
    access: StoreAccess,
    clock: Callable[[], datetime],
) -> tuple[str, ...]:
    """Bring the last runs of the shared store; a sentence if that failed."""
    from vibe_gate.store.shared_store import SharedStore  # few gates name one

    if SharedStore.unusable(url, access):  # the review has said so
        return ()
    try:
        shared = SharedStore(url, access, clock).runs(bundles.root, bundles.provenance)
        shared.fetch(replayable(shared.find())[-number:])
    except GateError as error:
        return (str(error),)
    return ()


def _fetch_commits(
    repository: Repository, runs: Iterable[RunEntry], credentials: Credentials
) -> None:
    """Have the commits of the runs here, as far as the remote gives them; without, the row says
    what is missing.
    """
    for run in runs:
        commits = [name for name in (run.head_commit, run.base_commit) if name]
        with suppress(GateError):
            repository.fetch(commits, partial(_has_all, repository, commits), credentials)


def _has_all(repository: Repository, commits: Iterable[str]) -> bool:
    return all(map(repository.has, commits))
