"""Who carries out many tasks: this machine, or with `--cluster` the workers of a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from vibe_gate.domain.model_wire import WireMode
from vibe_gate.errors import UsageError
from vibe_gate.faces import workers
from vibe_gate.faces.cli.output import complain, now
from vibe_gate.faces.cli.shared_options import LOCAL, WorkerOptions
from vibe_gate.gate.chosen import refuse_code
from vibe_gate.git import Repository
from vibe_gate.run.batch import SharedLimit, Workers, local_workers
from vibe_gate.run.case_reviews import CaseSet
from vibe_gate.run.each import CommitTask
from vibe_gate.run.replay import ReplayTask
from vibe_gate.store.clone_state import open_state

T = TypeVar("T", CommitTask, ReplayTask)

MAX_JOBS = 4
"""Tasks side by side, if nobody says how many: a judge's agent has a process of its own, some 200
MB.
"""


def jobs_for(tasks: int, requested: int | None) -> int:
    """How many of so many tasks are carried out side by side on this machine."""
    return min(requested or min(MAX_JOBS, os.cpu_count() or 1), max(tasks, 1))


def within(budget: SharedLimit | None, most: float, task: T) -> T | None:
    """The task with its part of the budget, `most` USD; None if it has to wait for another
    one's.
    """
    if budget is None:
        return task
    limit = budget.reserve(most)
    if limit is None:
        return None
    return replace(task, request=replace(task.request, max_cost_usd=limit))


@contextmanager
def pool_of(
    cluster: str | None,
    jobs: int,
    repository: Repository,
    *,
    asks: bool,
    wire: WireMode,
    instead: str = "",
    files: bool = False,
    cassettes: bool = False,
    place_of: Callable[[Any], str] = lambda task: "",
) -> Iterator[Workers]:
    """The workers; `jobs` of them on this machine. UsageError, InfrastructureError: no cluster.

    `asks`: the tasks may ask a model; `instead`: what lets the command do without, as an
    imperative. `files`: they need the files of the working tree; `cassettes`: what is replayed is
    among them. `place_of`: the place of the stored run that a task needs, "" for none.
    """
    if not cluster:
        with local_workers(jobs) as local:
            yield local
        return
    if cluster != LOCAL and wire != "live" and not (cassettes and wire == "replay"):
        raise UsageError(f"--wire {wire} uses files of this machine; use --cluster local.")
    try:
        from vibe_gate.run import cluster as dask
        from vibe_gate.run.cluster_repository import CommandRepository, pack_repository
    except ModuleNotFoundError as error:
        raise UsageError(
            "--cluster needs Dask; install it: pip install 'vibe-gate[cluster]'"
        ) from error
    with open_state(repository.common_dir) as state:
        sent_repository = None if cluster == LOCAL else pack_repository(repository, files=files)
        unfit = partial(workers.unfit, asks=asks and wire != "replay", instead=instead)
        setup = dask.WorkerSetup(sent_repository, workers.open_sent_repository, unfit)
        command_repository = CommandRepository(
            repository.store_root, repository.tracked_in_store(), state, now
        )
        with dask.cluster_workers(
            cluster, jobs, setup, command_repository, place_of, complain
        ) as remote:
            yield remote


@contextmanager
def cases_pool(options: WorkerOptions, wire: WireMode, cases: CaseSet) -> Iterator[Workers]:
    """The workers of labelled cases; each process reads them for itself, as git sees them.

    UsageError, InfrastructureError: no cluster, or none for these rubrics.
    """
    rubric_ids = {case.file.rubric for case in cases.cases}
    if options.has_open_ports:
        rubrics = [rubric for rubric in cases.gate.rubrics if rubric.id in rubric_ids]
        refuse_code(cases.gate, rubrics)
    pool = pool_of(
        options.cluster if cases.cases else None,
        jobs_for(len(cases.cases), options.jobs),
        cases.repository,
        asks=cases.gate.may_ask(rubric_ids),
        wire=wire,
        files=True,
        cassettes=True,
    )
    with closing(workers), pool as crew:
        yield crew
