"""Reviews of many commits that are killed at some point: what is done stays, and the same command
does the rest.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from answers import passes
from command import begun
from wire import answering

from vibe_gate.gate.chosen import rubric_named
from vibe_gate.gate.loading import FolderFiles, built_in_gate

COMMITS = 16
"""Far more than are reviewed when the last signal comes."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with COMMITS commits after one that is tagged `start`."""
    folder = tmp_path_factory.mktemp("history") / "repo"
    folder.mkdir()
    stream = ["reset refs/heads/main\n"]
    for number in range(COMMITS + 1):
        text = f"def f{number}(value):\n    return value + {number}\n"
        stream.append(
            f"commit refs/heads/main\ncommitter Ada <ada@example.org> {1_700_000_000 + number} +0000\n"
            f"data <<.\nCommit {number}\n.\nM 644 inline src/part{number}.py\ndata {len(text)}\n{text}\n"
        )
        if number == 0:
            stream.append("reset refs/tags/start\nfrom refs/heads/main\n\n")
    git = ("git", "-C", str(folder))
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "fast-import", "--quiet"], input="".join(stream).encode(), check=True)
    subprocess.run([*git, "reset", "-q", "--hard", "main"], check=True)
    return folder


@pytest.fixture
def history(template: Path, tmp_path: Path) -> Path:
    subprocess.run(["cp", "-r", template, tmp_path / "repo"], check=True)
    return tmp_path / "repo"


def start(
    folder: Path, environ: Mapping[str, str], *options: str, commits: str = "start..HEAD"
) -> subprocess.Popen[str]:
    """Begin the command in a process group of its own, as a shell does."""
    command = [sys.executable, "-m", "vibe_gate", "review", commits, "--each", "--json", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        command, cwd=folder, env=dict(environ), text=True, process_group=0, **pipes
    )


def fork_review(folder: Path, environ: Mapping[str, str], *options: str) -> subprocess.Popen[str]:
    """Begin a review of four commits by a judge in a fork, which spares the interpreter's start:
    most of the time.
    """
    argv = ("review", "HEAD~4..HEAD", "--each", "--json", "--rubric", "general", *options)
    return begun(*argv, cwd=folder, environ=environ)


def wait_for_rows(process: subprocess.Popen[str]) -> list[dict]:
    out, err = process.communicate(timeout=250)
    assert process.returncode in (0, 3), err
    return [json.loads(line) for line in out.splitlines()]


def count_sealed(folder: Path) -> Counter[str]:
    """How many sealed runs each commit has."""
    return Counter(path.parts[-3] for path in folder.glob(".vibe-artifacts/*/*/summary.json"))


def until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends, "it never came to that"
        time.sleep(0.01)


def workers_of(process: subprocess.Popen[str]) -> Iterator[int]:
    """The processes that carry tasks out for it."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == process.pid and b"spawn_main" in (entry / "cmdline").read_bytes():
                yield int(entry.name)


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")
@pytest.mark.parametrize(
    ("jobs", "names"),
    [("1", [signal.SIGTERM]), ("2", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])],
)
def test_killed_in_any_way_every_commit_is_reviewed_once_and_no_process_is_left(
    history, environ, jobs, names
):
    for number, name in enumerate(names, 1):
        process = start(history, environ, "--jobs", jobs)
        least = 3 * number - 2
        until(lambda least=least: len(count_sealed(history)) >= least)
        workers = list(workers_of(process))
        assert len(workers) == (0 if jobs == "1" else int(jobs))
        (os.killpg if name == signal.SIGINT else os.kill)(
            process.pid, name
        )  # Ctrl-C reaches the whole group
        out, err = process.communicate(timeout=250)
        if name != signal.SIGKILL:
            assert process.returncode == 130
            assert json.loads(out.splitlines()[-1])["error"]["message"].endswith(
                f"of {COMMITS} commits recorded. The same command goes on from there."
            )
            assert err == ""
        until(lambda pids=workers: not any(Path(f"/proc/{pid}").exists() for pid in pids))
        before = count_sealed(history)
        assert least <= len(before) < COMMITS
    *rows, total = wait_for_rows(start(history, environ, "--jobs", jobs))
    assert Counter(row["commit"] for row in rows) == Counter({row["commit"]: 1 for row in rows})
    assert {row["commit"] for row in rows if row["recorded"]} == set(before)
    assert total["outcomes"]["pass"] == len(rows) == COMMITS
    assert count_sealed(history) == {row["commit"]: 1 for row in rows}


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")
@pytest.mark.parametrize("name", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_is_killed_costs_nothing_but_its_own_review_which_is_done_again(
    history, environ, name
):
    process = start(history, environ, "--jobs", "2")
    until(lambda: len(count_sealed(history)) >= 4)
    os.kill(next(workers_of(process)), name)
    *rows, total = wait_for_rows(process)
    assert total["outcomes"]["pass"] == len(rows) == COMMITS
    assert count_sealed(history) == {row["commit"]: 1 for row in rows}


def test_two_commands_at_once_share_the_commits_and_review_none_twice(history, environ):
    argv = ("review", "start..HEAD", "--each", "--json", "--jobs", "1")
    processes = [begun(*argv, cwd=history, environ=environ) for _ in range(2)]
    (*first, _), (*second, _) = (wait_for_rows(process) for process in processes)
    assert {row["run_id"] for row in first} == {row["run_id"] for row in second}
    assert count_sealed(history) == {row["commit"]: 1 for row in first}


@pytest.mark.usefixtures("quick_agents")
def test_judges_are_asked_once_a_commit_however_often_it_is_interrupted(history, environ):
    questions = [
        criterion.id
        for criterion in rubric_named(built_in_gate(FolderFiles(history)), "general").judge_criteria
    ]
    with answering(passes(*questions), repeat_last=True) as model:
        environ |= model.environ
        process = fork_review(history, environ, "--jobs", "1")
        until(lambda: len(count_sealed(history)) >= 1)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=250)
        *rows, total = wait_for_rows(fork_review(history, environ, "--jobs", "1"))
        last_rows = wait_for_rows(fork_review(history, environ, "--jobs", "1"))
    assert total["outcomes"]["pass"] == 4, rows[0]
    assert last_rows[-1]["recorded"] == 4
    assert 4 <= len(model.script.requests) <= 4 + 1  # that of the one that was interrupted
