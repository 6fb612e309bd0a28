"""What a worker does with a task: a face of its own, whose environment, clock and repository are
this process's.
"""

from __future__ import annotations

import atexit
import shutil
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from vibe_gate.agent import sdk_version
from vibe_gate.context.listeners import unheard
from vibe_gate.domain.bundles import Provenance
from vibe_gate.domain.commit_row import CommitRow
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.replayed import ReplayRow
from vibe_gate.errors import GateError
from vibe_gate.faces import progress
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.gateway import find_upstream
from vibe_gate.git import Repository, open_repository
from vibe_gate.run.batch import SOON_USED_UP
from vibe_gate.run.case_reviews import CaseResult, CaseSet, CaseTask, read_case_set
from vibe_gate.run.cluster_repository import SentRepository, WorkerRepository
from vibe_gate.run.each import CommitTask, review_commit_in, unreviewed_row
from vibe_gate.run.replay import ReplayTask, replay_run_in, unreplayed_row
from vibe_gate.store.clone_state import CloneState, open_state
from vibe_gate.store.worktree_bundles import Bundles

_opened = ExitStack()
_gates: dict[str, Gate] = {}
"""By batch of replays, for one after the other."""
atexit.register(_opened.close)


def review_commit(task: CommitTask) -> CommitRow:
    """Review the task's commit. The repository is opened for the first one, and stays open."""
    try:
        repository, state, tracked = _repository(task.root)
    except GateError as error:
        return unreviewed_row(task, error.exit_code, str(error))
    bundles = Bundles(repository.store_root, Provenance(_now(), tracked))
    return progress.run_walk(review_commit_in(task, repository, state, bundles, clock=_now))


def replay_run(task: ReplayTask) -> ReplayRow:
    """Judge the task's run again."""
    try:
        repository, _, _ = _repository(task.root)
    except GateError as error:
        return unreplayed_row(task, str(error))
    return progress.run_walk(replay_run_in(task, repository, _gates, clock=_now))


def run_case(task: CaseTask) -> CaseResult:
    """Review the task's case. They are read for the first one. GateError."""
    cases = _case_set(task.root)
    case = next(case for case in cases.cases if case.name == task.case)
    if task.max_cost_usd is not None and task.max_cost_usd < SOON_USED_UP:
        return CaseResult(case, "undecided", ("not asked: the budget is used up",))
    walk = cases.run(
        case,
        task.wire,
        clock=_now,
        progress=unheard,
        max_cost_usd=task.max_cost_usd,
        repeat=task.repeat,
        judge=task.judge,
    )
    return progress.run_walk(walk)


def unfit(*, asks: bool, instead: str = "") -> str:
    """Why this process cannot be a worker, as a clause; "" if it can.

    `asks`: its tasks may ask a model; `instead`: what lets the command do without, as an
    imperative.
    """
    if shutil.which("git") is None:
        return "git is not installed"
    try:
        if asks and find_upstream(read_process_environment().variables) is None:
            return "no API key: set ANTHROPIC_API_KEY in the worker's environment" + (
                instead and f", or {instead}"
            )
        if asks and not sdk_version():
            return "claude-agent-sdk is not installed: pip install vibe-gate in the worker's environment"
    except GateError as error:
        return str(error)
    return ""


def open_sent_repository(sent_repository: SentRepository) -> WorkerRepository:
    """The command's repository on this machine. InfrastructureError."""
    return WorkerRepository(sent_repository, read_process_environment())


def close() -> None:
    """Close what this process has opened for its tasks."""
    _gates.clear()
    _repository.cache_clear()
    _case_set.cache_clear()
    _opened.close()


def _now() -> datetime:
    return datetime.now(UTC)


@lru_cache(maxsize=1)
def _repository(root: Path) -> tuple[Repository, CloneState, frozenset[str]]:
    """The repository, its shared state, and what git tracks in its store."""
    repository = _opened.enter_context(open_repository(root, read_process_environment()))
    state = _opened.enter_context(open_state(repository.common_dir))
    return repository, state, repository.tracked_in_store()


@lru_cache(maxsize=1)
def _case_set(root: Path) -> CaseSet:
    return _opened.enter_context(read_case_set(root, read_process_environment()))
