"""`--cluster`: a Dask scheduler and its workers, real processes on this machine, that die while
they work.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import sdk_alone
from answers import passes
from command import CommandResult
from dask_processes import Process, begin_program, vibe_gate_on_cluster
from repos import RUBRIC, Repo, gated
from scripted_messages_api import Hang
from wire import KEY, answering

from vibe_gate.version import __version__

pytest.importorskip("distributed", reason="distributed is not installed here")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("quick_agents"),
]  # a scheduler, workers, reviews

OWN_KEY = "sk-ant-api03-the-key-of-whoever-begins-it"
CHECKED = """\
schema = 1
id = "quality"
[[criterion]]
id = "small"
kind = "check"
check = "max-changed-lines"
options = {{ max = {limit} }}
must = true
"""
COMMAND = 'schema = 1\nid = "quality"\n[[criterion]]\nid = "tests"\nkind = "check"\ncommand = ["true"]\nmust = true\n'
ONE_QUESTION = RUBRIC.partition('[[criterion]]\nid = "names')[0]


COMMITS = 6
"""Each asks in a process of its own, which loads the SDK."""

BUSY_S = 800
"""Seconds that all may take where many others use the machine."""


class DaskCluster:
    """A scheduler and workers; they are what tests kill."""

    def __init__(self, place: Path, environ: Mapping[str, str], scheme: str = "tcp") -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.url = f"{scheme}://127.0.0.1:{self._port}"
        self._at = (f"--host={scheme}://127.0.0.1", f"--port={self._port}", "--no-dashboard")
        self._environ = {**environ, "TMPDIR": str(place), "PYTHONPATH": str(sdk_alone.SITE)}
        self._place = place
        self.copies = place / f"vibe-gate-cluster-{os.getuid()}"
        self.scheduler = self._started("dask_scheduler", *self._at)
        self.workers: list[Process] = []
        self._workers_environ: dict[str, str] = {}

    def work(self, number: int, **environ: str) -> None:
        """Add workers. Each is a process: Dask's own, which begins one again, is a second."""
        self._workers_environ = environ
        options = [
            "--nthreads=1",
            "--no-dashboard",
            "--no-nanny",
            f"--local-directory={self._place}",
        ]
        for _ in range(number):
            self.workers.append(self._started("dask_worker", self.url, *options, **environ))

    def restart(self) -> None:
        """Kill the scheduler, which ends the workers; begin new ones at the same address."""
        self.scheduler.kill()
        for process in (self.scheduler, *self.workers):
            process.join(BUSY_S)
        self.scheduler = self._started("dask_scheduler", *self._at)
        number, self.workers = len(self.workers), []
        self.work(number, **self._workers_environ)

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()  # a worker's own process ends with it, and at once
        for process in (*self.workers, self.scheduler):
            process.join(BUSY_S)

    def log(self, program: str) -> str:
        path = self._place / f"{program}.log"
        return path.read_text() if path.exists() else ""

    def _started(self, program: str, *options: str, **environ: str) -> Process:
        log = self._place / f"{program}.log"
        module, variables = f"distributed.cli.{program}", self._environ | environ
        return begin_program(module, options, self._place, variables, log, log)


@pytest.fixture
def history(tmp_path: Path, environ: dict[str, str]) -> Repo:
    """COMMITS commits after `start`, for each of which the judge is asked one question."""
    repo = gated(tmp_path / "repo", environ, rubric=ONE_QUESTION)
    repo.commit("A gate")
    repo.git("tag", "start")
    for number in range(COMMITS):
        repo.commit(
            f"Change {number}",
            **{"src/load.py": f"def load_{number}(path):\n    return open(path).read()\n"},
        )
    return repo


@pytest.fixture
def cluster(tmp_path: Path, environ: dict[str, str]) -> Iterator[DaskCluster]:
    place = tmp_path / "cluster"
    place.mkdir()
    cluster = DaskCluster(place, environ)
    yield cluster
    cluster.close()


def review_each(repo: Repo, *options: str) -> CommandResult:
    environ = repo.environ | {"ANTHROPIC_API_KEY": OWN_KEY}
    argv = ("review", "start..HEAD", "--each", *options)
    return vibe_gate_on_cluster(*argv, cwd=repo.path, environ=environ, timeout=BUSY_S)


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + BUSY_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_worker_that_is_killed_and_a_scheduler_that_restarts_cost_no_run_and_no_question(
    history, cluster
):
    with answering(passes("errors-not-swallowed"), repeat_last=True) as model:
        cluster.work(2, **model.environ)
        requests = model.script.requests
        results: list[CommandResult] = []
        command = threading.Thread(
            target=lambda: results.append(review_each(history, "--json", "--cluster", cluster.url))
        )
        command.start()
        until(lambda: len(requests) >= 2)
        os.kill(pid_of_working_child(cluster), signal.SIGKILL)
        until(lambda: len(requests) >= 4)
        cluster.restart()
        command.join(BUSY_S)
        assert len(requests) == COMMITS
        assert {request.headers["x-api-key"] for request in requests} == {KEY}
    *rows, total = map(json.loads, results[0].out.splitlines())
    assert (results[0].code, total["exit_code"]) == (0, 0), (results[0].err, rows)
    assert sorted(row["commit"] for row in rows) == sorted(
        history.git("rev-list", "start..HEAD").split()
    )
    assert all((history.path / row["bundle"] / "summary.json").exists() for row in rows)
    assert "The scheduler is gone; waiting for it and its workers." in results[0].err
    assert not [path for path in cluster.copies.iterdir() if path.is_dir()]
    assert f"{COMMITS} commits: {COMMITS} pass" in review_each(history, "--table").out


def test_each_worker_that_cannot_be_used_has_a_sentence_and_nothing_is_asked(
    history, cluster, tmp_path
):
    (tmp_path / "other/vibe_gate-9.9.dist-info").mkdir(parents=True)
    (tmp_path / "other/vibe_gate-9.9.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: vibe-gate\nVersion: 9.9\n"
    )
    cluster.work(1, ANTHROPIC_API_KEY=KEY, PATH="/nowhere")
    cluster.work(1)
    cluster.work(1, ANTHROPIC_API_KEY=KEY, PYTHONPATH=str(tmp_path / "other"))
    until(lambda: cluster.log("dask_scheduler").count("Register worker") == 3)
    result = review_each(history, "--cluster", cluster.url)
    reasons = sorted(line.partition(" cannot be used: ")[2] for line in result.err.splitlines())
    assert (result.code, reasons) == (
        2,
        [
            "git is not installed.",
            "no API key: set ANTHROPIC_API_KEY in the worker's environment, or use --no-judge.",
            f"vibe-gate 9.9 is installed, here it is {__version__}.",
        ],
    )
    assert not (history.path / ".vibe-artifacts").exists()


def test_ctrl_c_ends_the_tasks_and_what_is_done_stays(history, tmp_path):
    err = tmp_path / "err"
    with answering(passes("errors-not-swallowed"), Hang(), repeat_last=True) as model:
        argv = ("review", "start..HEAD", "--each", "--cluster", "local", "--jobs=2")
        variables = history.environ | model.environ
        process = begin_program(
            "vibe_gate.faces.cli", argv, history.path, variables, tmp_path / "out", err
        )
        until(lambda: len(model.script.requests) >= 3)
        os.kill(process.pid, signal.SIGINT)
        process.join(BUSY_S)
    assert process.exitcode == 130
    sentence = f"1 of {COMMITS} commits recorded. The same command goes on from there."
    assert sentence in err.read_text()
    assert len(list(history.path.glob(".vibe-artifacts/*/*/summary.json"))) == 1


LOCAL = """
import os, pathlib
import psutil
from vibe_gate.faces import workers
from vibe_gate.run.batch import carry_out_tasks
from vibe_gate.run.cluster import WorkerSetup, cluster_workers
from vibe_gate.run.cluster_repository import CommandRepository

died = "pathlib.Path('died')"
once = f"import os, pathlib\\nif not {died}.exists(): {died}.touch(); os.kill(os.getpid(), 9)"
setup = WorkerSetup(None, workers.open_sent_repository, str)
command_repository = CommandRepository(pathlib.Path(), (), None, None)
with cluster_workers("local", 2, setup, command_repository, str, print) as crew:
    for end in carry_out_tasks([once, "pass", "1 / 0"], exec, crew):
        print(end.task == once, end.why)
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    print([one.laddr.port for each in processes for one in each.net_connections() if one.status == "LISTEN"])
"""


def test_local_has_no_port_that_reviewed_code_could_use_and_a_task_that_was_killed_is_done_again(
    tmp_path, environ
):
    result = subprocess.run(
        [sys.executable, "-c", LOCAL],
        cwd=tmp_path,
        env=environ | {"PYTHONPATH": ""},
        capture_output=True,
        text=True,
    )
    announcement, *ends, ports = result.stdout.splitlines()
    assert (announcement, ports) == ("Cluster: 2 workers, 2 tasks at a time.", "[]"), result.stderr
    assert sorted(ends) == [
        "False ",
        "False internal error: ZeroDivisionError: division by zero",
        "True ",
    ]
    assert (tmp_path / "died").exists()


def test_commands_of_the_gate_run_on_a_cluster_with_tls_whose_certificates_dask_is_told(
    tmp_path, environ
):
    from distributed.security import Security

    repo = gated(tmp_path / "repo", environ, rubric=COMMAND)
    repo.commit("Second", **{"src/load.py": "A = 1\n"})
    argv = ("review", "HEAD~1..HEAD", "--each", "--no-judge", "--cluster")
    without = vibe_gate_on_cluster(*argv, "tls://127.0.0.1:1", cwd=repo.path, environ=environ)
    assert (without.code, "Dask has no certificates" in without.err) == (2, True)
    certificates = Security.temporary()
    for name, content in (("cert", certificates.tls_ca_file), ("key", certificates.tls_client_key)):
        (tmp_path / name).write_text(content)
    environ["DASK_DISTRIBUTED__COMM__TLS__CA_FILE"] = str(tmp_path / "cert")
    for role in ("CLIENT", "SCHEDULER", "WORKER"):
        for name in ("cert", "key"):
            environ[f"DASK_DISTRIBUTED__COMM__TLS__{role}__{name.upper()}"] = str(tmp_path / name)
    (tmp_path / "cluster").mkdir()
    cluster = DaskCluster(tmp_path / "cluster", environ, scheme="tls")
    try:
        cluster.work(1)
        result = vibe_gate_on_cluster(*argv, cluster.url, cwd=repo.path, environ=environ)
    finally:
        cluster.close()
    assert (result.code, "1 commit: 1 pass" in result.out) == (0, True), result.err


def pid_of_working_child(cluster: DaskCluster) -> int:
    """The process of a Dask worker that has a task: the parent of the task's own process."""
    pids = subprocess.run(
        ["pgrep", "-f", "vibe_gate.sandbox.task_process"], capture_output=True, text=True
    ).stdout.split()
    worker_pids = {str(worker.pid) for worker in cluster.workers}
    for child in pids:
        worker = parent(child)
        if worker in worker_pids:
            return int(worker)
    raise AssertionError("no worker has a task")


def parent(pid: str) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]


def test_stored_runs_labelled_cases_and_the_files_on_disk_travel(tmp_path, environ, cluster):
    repo = gated(tmp_path / "repo", environ, rubric=CHECKED.format(limit=99))
    repo.commit("A gate")
    repo.write("src/new.py", "NEW = 1\nNEWER = 2\n")

    def run(*argv: str) -> CommandResult:
        result = vibe_gate_on_cluster(*argv, cwd=repo.path, environ=environ)
        assert result.code == 0, result.err
        return result

    stored = run("review", "--json").json
    repo.write(".vibe-gate/rubrics/quality.toml", CHECKED.format(limit=1))
    repo.write(
        ".vibe-gate/rubrics/asked.toml", ONE_QUESTION.replace('id = "quality"', 'id = "asked"')
    )
    for name, rubric, expected in (
        ("kept", "asked", "errors-not-swallowed"),
        ("small", "quality", "small"),
    ):
        case_text = f'schema = 1\nrubric = "{rubric}"\n[expect]\n{expected} = "pass"\n'
        repo.write(f".vibe-gate/cases/{name}/case.toml", case_text)
        repo.write(f".vibe-gate/cases/{name}/after/src/load.py", f"{name} = 1\n")
    with answering(passes("errors-not-swallowed"), repeat_last=True) as model:
        cluster.work(1, **model.environ)
        (row,) = run("replay", "--json", "--rubric", "quality", "--cluster", cluster.url).json[
            "runs"
        ]
        assert (row["run_id"], row["blocks"]) == (stored["run_id"], True)
        assert (repo.path / row["bundle"] / "summary.json").exists()
        tested = run("test", "--wire", "live", "--cluster", cluster.url)
        assert tested.out.startswith("kept: ok\nsmall: ok\n2 cases: 2 ok · $")
        environ["ANTHROPIC_API_KEY"] = OWN_KEY
        measured = run("calibrate", "--json", "--cluster", cluster.url).json
        assert len(model.script.requests) == 2
    assert [rubric["criteria"][0]["clean"] for rubric in measured["rubrics"]] == [1]
    assert measured["paid_usd"] > 0
