"""What travels to a worker's machine and back, and the process that carries a task out there;
without a cluster.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from repos import Repo

from vibe_gate.context.mode import Batch
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.errors import InfrastructureError, UsageError
from vibe_gate.faces import workers
from vibe_gate.faces.cli.pool import pool_of
from vibe_gate.git import open_repository
from vibe_gate.run.cluster_repository import (
    CommandRepository,
    WorkerRepository,
    carry_out_in_copy,
    pack_repository,
)
from vibe_gate.run.each import CommitTask
from vibe_gate.sandbox.task_process import TaskProcess
from vibe_gate.store.clone_state import open_state


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Repo:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    repo = Repo(tmp_path / "repo", environ)
    repo.commit("First", **{"a.txt": "one\n"})
    repo.commit("Second", **{"a.txt": "two\n"})
    return repo


def test_a_run_of_another_machine_comes_home_with_its_cost_and_the_copy_is_gone_when_the_last_lets_go(
    repo, tmp_path
):
    head = repo.git("rev-parse", "HEAD")
    with (
        open_repository(repo.path, read_environment(repo.environ)) as repository,
        open_state(repository.common_dir) as state,
    ):
        state.answers.put("ab" * 32, {"outcome": "pass"}, now())
        sent_repository = pack_repository(repository, files=False)
        first, second = (
            WorkerRepository(sent_repository, read_environment(repo.environ)),
            WorkerRepository(sent_repository, read_environment(repo.environ)),
        )
        assert first.root == second.root
        with open_state(first.root / ".git") as copied_state:
            assert copied_state.answers.get("ab" * 32, now()) == {"outcome": "pass"}
        task = CommitTask(
            repo.path, head, "Second", ReviewRequest(Selection("range"), judge="never"), Batch("b")
        )
        task_result = carry_out_in_copy(workers.review_commit, first.root, task, b"")
        workers.close()
        assert not (first.root / task_result.result.bundle).exists()
        row = CommandRepository(repository.root, (), state, now).store_result(task_result)
        assert (row.commit, row.outcome) == (head, "pass")
        assert (repo.path / row.bundle / "summary.json").exists()
        first.close(delete=False)
        assert second.root.exists()
        second.close(delete=True)
        assert not second.root.exists()


def test_workers_that_come_at_once_make_one_copy_and_none_waits_for_ever(repo):
    with open_repository(repo.path, read_environment(repo.environ)) as repository:
        sent_repository = pack_repository(repository, files=False)
    with ThreadPoolExecutor(6) as crew:
        repositories = list(
            crew.map(
                lambda _: WorkerRepository(sent_repository, read_environment(repo.environ)),
                range(6),
                timeout=250,
            )
        )
    assert len({repository.root for repository in repositories}) == 1
    with ThreadPoolExecutor(6) as crew:
        list(crew.map(lambda repository: repository.close(delete=True), repositories))
    assert not repositories[0].root.exists()


def test_a_process_that_is_still_at_a_task_is_waited_for_by_the_next_one(repo):
    """Its worker was killed, and the task was handed out again: it removes its run at the end."""
    with open_repository(repo.path, read_environment(repo.environ)) as repository:
        copy = WorkerRepository(
            pack_repository(repository, files=False), read_environment(repo.environ)
        )
    task = CommitTask(repo.path, "head", "Second", ReviewRequest(Selection("range")), Batch("b"))
    steps = []

    def work(task: CommitTask) -> None:
        steps.append("begins")
        time.sleep(0.1)
        steps.append("ends")

    with ThreadPoolExecutor(2) as crew:
        list(crew.map(lambda _: carry_out_in_copy(work, copy.root, task, b""), range(2)))
    copy.close(delete=True)
    assert steps == ["begins", "ends", "begins", "ends"]


def test_a_folder_that_others_may_write_into_is_not_used(repo, tmp_path):
    (tmp_path / f"vibe-gate-cluster-{os.getuid()}").mkdir(0o777)
    (tmp_path / f"vibe-gate-cluster-{os.getuid()}").chmod(0o777)
    with (
        open_repository(repo.path, read_environment(repo.environ)) as repository,
        pytest.raises(InfrastructureError, match="not this user's alone; delete it"),
    ):
        WorkerRepository(pack_repository(repository, files=False), read_environment(repo.environ))


def test_a_child_gives_results_and_errors_and_ends_its_task_when_it_is_ended_but_not_when_it_is_let_go():
    child = TaskProcess()
    assert child.carry_out(math.sqrt, 4.0) == 2.0
    with pytest.raises(ValueError, match="math domain error"):
        child.carry_out(math.sqrt, -1.0)
    threading.Timer(0.1, child.end).start()
    began = time.monotonic()
    with pytest.raises(BrokenExecutor):
        child.carry_out(time.sleep, 30)
    assert time.monotonic() - began < 10
    threading.Timer(0.1, child.end_after_task).start()
    assert child.carry_out(time.sleep, 0.3) is None


@pytest.mark.parametrize(
    ("cluster", "wire", "sentence"),
    [
        ("local", "live", "install it: pip install 'vibe-gate\\[cluster\\]'"),
        ("tcp://127.0.0.1:1", "record", "use --cluster local"),
    ],
)
def test_what_a_cluster_lacks_or_cannot_do_is_a_sentence(
    repo, monkeypatch, cluster, wire, sentence
):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "vibe_gate.run.cluster", raising=False)
    with (
        open_repository(repo.path, read_environment(repo.environ)) as repository,
        pytest.raises(UsageError, match=sentence),
        pool_of(cluster, 2, repository, asks=False, wire=wire),
    ):
        pass
