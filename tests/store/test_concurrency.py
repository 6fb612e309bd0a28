"""Threads and processes at once: nothing interleaves, nothing is lost, every run is its own."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from bundle_words import (
    KEY,
    START,
    Clock,
    OneSecretRedactor,
    find_run,
    list_runs,
    read_summary,
    record_a_review,
    summary_of,
)

from vibe_gate.store.folder import Folder
from vibe_gate.store.ndjson_log import Log
from vibe_gate.store.store import Store, open_store

_FORK = multiprocessing.get_context("fork")


def in_processes(number: int, work: Callable[[int], None]) -> None:
    """Run `work` in that many processes, all started before any begins."""
    barrier = _FORK.Barrier(number)

    def start(index: int) -> None:
        barrier.wait(30)
        work(index)

    processes = [_FORK.Process(target=start, args=(index,)) for index in range(number)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * number


def in_threads(number: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


@pytest.mark.slow
def test_two_reviews_of_one_change_in_one_millisecond_are_both_right(tmp_path: Path) -> None:
    outcomes = ["pass", "fail"] * 4

    def review(index: int) -> None:
        run = open_store(tmp_path, OneSecretRedactor(), Clock(step_ms=0)).begin(KEY, START, {})
        record_a_review(run)
        run.seal(summary_of(run, outcomes[index], exit_code=int(outcomes[index] == "fail")))
        assert run.lost is None

    in_processes(len(outcomes), review)
    runs = list_runs(tmp_path)
    assert len({run.run_id for run in runs}) == len(outcomes)
    assert sorted(run.summary.outcome for run in runs) == sorted(outcomes)
    for run in runs:
        assert [event.run_id for event in run.events()] == [run.run_id] * len(list(run.events()))


@pytest.mark.slow
def test_events_of_threads_are_whole_lines_numbered_without_gaps(store: Store) -> None:
    run = store.begin(KEY, START, {})
    turn = run.turn("judge-quality")

    def speak(index: int) -> None:
        for number in range(100):
            run.event("log.mark", who=index, number=number, text="x" * (number * 97 % 9000))
            turn.hook({"hook_event_name": "Notification", "who": index})

    in_threads(8, speak)
    lines = [
        json.loads(line) for line in (run.directory / "events.ndjson").read_bytes().splitlines()
    ]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert len(lines) == 2 + 800
    for index in range(8):
        assert [
            line["data"]["number"] for line in lines if line["data"].get("who") == index
        ] == list(range(100))
    hooks = [
        json.loads(line)
        for line in (run.directory / turn.relative / "hooks.ndjson").read_bytes().splitlines()
    ]
    assert [line["seq"] for line in hooks] == list(range(800))


@pytest.mark.slow
def test_one_log_written_by_processes_is_numbered_without_gaps(tmp_path: Path) -> None:
    def write(index: int) -> None:
        log = Log(Folder.at(tmp_path), "events.ndjson", first=1)
        for number in range(100):
            log.append(
                lambda seq: {"seq": seq, "who": index, "text": "x" * (number * 997 % 90_000)}  # noqa: B023
            )

    in_processes(4, write)
    lines = [json.loads(line) for line in (tmp_path / "events.ndjson").read_bytes().splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, 401))


@pytest.mark.parametrize("torn", [b'{"seq":', b"x" * 200_000, b""])
def test_a_torn_line_is_cut_by_the_next_writer(tmp_path: Path, torn: bytes) -> None:
    Log(Folder.at(tmp_path), "log", first=1).append(lambda seq: {"seq": seq, "text": "y" * 100_000})
    with (tmp_path / "log").open("ab") as file:
        file.write(torn)
    assert Log(Folder.at(tmp_path), "log", first=1).append(lambda seq: {"seq": seq}) == 2
    assert [json.loads(line)["seq"] for line in (tmp_path / "log").read_bytes().splitlines()] == [
        1,
        2,
    ]


_KILLED = """
import os, signal, sys
from pathlib import Path
from bundle_words import *
from vibe_gate.store.store import open_store
run = open_store(Path(sys.argv[1]), OneSecretRedactor(), Clock()).begin(KEY, START, {})
record_a_review(run)
print("recorded", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_the_mark_of_a_running_review_dies_with_its_process(tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
    path = os.pathsep.join([str(tests), str(tests.parent)])
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": path},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"recorded\n"
        assert find_run(tmp_path).state == "running"
        process.kill()
    assert find_run(tmp_path).state == "incomplete"
    second_run = open_store(tmp_path, OneSecretRedactor(), Clock()).begin(KEY, START, {})
    record_a_review(second_run)
    second_run.seal(summary_of(second_run))
    assert read_summary(second_run.directory).outcome == "pass"
