"""The pool: what it does with tasks, with workers that die, with a budget."""

from __future__ import annotations

import os
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from vibe_gate.run.batch import SharedLimit, TaskEnd, Workers, carry_out_tasks, local_workers


class Dying(Executor):
    """Loses the tasks of `lost`, each as often as it says, and gives the double of any other."""

    def __init__(self, **lost: int) -> None:
        self.lost = lost
        self.asked: list[str] = []

    def submit(self, fn, /, *args, **kwargs):
        (task,) = args
        self.asked.append(task)
        self.lost[task] = self.lost.get(task, 0) - 1
        future: Future[str] = Future()
        if self.lost[task] >= 0:
            future.set_exception(BrokenProcessPool("killed"))
        else:
            future.set_result(fn(task))
        return future


def double(task: str) -> str:
    return task * 2


def test_a_worker_that_dies_costs_its_own_task_which_is_done_once_more() -> None:
    executor = Dying(b=1, c=2)
    ends = list(carry_out_tasks("abcd", double, Workers(executor, 2)))
    assert {end.task: end.result for end in ends} == {"a": "aa", "b": "bb", "c": None, "d": "dd"}
    assert [end.why for end in ends if end.result is None] == [
        "The process that worked on it died, 2 times (killed, or out of memory)."
    ]
    assert sorted(executor.asked) == sorted("abbccd")


def test_an_error_of_ours_in_one_task_is_told_and_the_others_go_on() -> None:
    with local_workers(1) as workers:
        ends = list(carry_out_tasks(["2", "no"], int, workers))
    assert ends[0] == TaskEnd("2", 2)
    assert ends[1].why.startswith("internal error: ValueError: invalid literal")


def test_a_task_that_is_not_ready_waits_for_one_that_runs() -> None:
    limit, reservations = SharedLimit(1.0), []

    def ready(task: str) -> str | None:
        if (usd := limit.reserve(0.4)) is not None:
            reservations.append(round(usd, 3))
            return task
        return None

    for end in carry_out_tasks("abcd", double, Workers(Dying(), 4), ready):
        limit.release(reservations["abcd".index(end.task)], 0.3)
    assert reservations == [0.4, 0.4, 0.4, 0.1]


def process_of(task: str) -> int:
    if task == "dies" and not Path("died").exists():
        Path("died").touch()
        os._exit(9)
    return os.getpid()


@pytest.mark.slow  # starts processes, each with the imports of the package
def test_a_process_that_dies_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with local_workers(2) as workers:
        ends = {
            end.task: end for end in carry_out_tasks(["a", "dies", *"bcdef"], process_of, workers)
        }
    assert len(ends) == 7
    assert all(end.result not in (None, os.getpid()) for end in ends.values())


def variable_of_process(name: str) -> str | None:
    return os.environ.get(name)


@pytest.mark.slow  # starts a process, with the imports of the package
def test_a_worker_imports_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("multiprocessing", "selectors"):
        Path(name).mkdir()
        Path(name, "__init__.py").write_text("raise SystemExit('imported')")
    with local_workers(2) as workers:
        (end,) = carry_out_tasks(["PYTHONSAFEPATH"], variable_of_process, workers)
    assert (end.result, end.why) == (None, "")
    assert "PYTHONSAFEPATH" not in os.environ
