"""`vibe-gate resume`: killed at any request, a run goes on to the same graph and tree; ended turns are paid once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import Done, started, vibe_gate
from test_workflows import FIX
from wire import answering
from working import FIXED, WORSE, WorkingRepo, says, writes

THREE = """\
from vibe_gate import workflow

@workflow("three")
async def steps(wf):
    look = await wf.stage("look", agent="reviewer", prompt="Look.")
    first = await wf.stage("first", agent="fixer", prompt="Write.", context=[look])
    await wf.stage("second", agent="fixer", prompt="Write more.", context=[first])
    assert (await wf.judge(first, rubrics=["clean"])).passed
"""

ROOT = Path(__file__).parents[2]

SCRIPTS = {
    "fix": [writes("src/load.py", WORSE.format(1)), writes("src/load.py", FIXED)],
    "three": [(says("Look here: sk-ant-api03-a-secret-0123456789abcdefghij"),), writes("src/load.py", FIXED),
              writes("src/more.py", "X = 1\n")],
}  # fmt: skip
"""What the model says in each turn of the two workflows."""


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> WorkingRepo:
    return WorkingRepo(tmp_path / "repo", environ, fix=FIX, three=THREE)


def killed(repo: WorkingRepo, workflow: str, at: int) -> list[Done]:
    """Kill `run WORKFLOW` when its agent asks for the `at`-th time, after another process tried to resume it."""
    steps = [step for turn in SCRIPTS[workflow] for step in turn]
    tried: list[Done] = []

    def kill(request: Any) -> Any:
        environ = {**repo.environ, **model.environ, "PYTHONPATH": str(ROOT)}
        tried.append(started("resume", cwd=repo.path, environ=environ))
        running.send_signal(signal.SIGKILL)
        running.wait()
        return steps[at - 1](request) if callable(steps[at - 1]) else steps[at - 1]

    with answering(*steps[: at - 1], kill) as model:
        environ = {**repo.environ, **model.environ, "PYTHONPATH": str(ROOT)}
        argv = [sys.executable, "-m", "vibe_gate", "run", workflow]
        running = subprocess.Popen(
            argv, cwd=repo.path, env=environ, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        running.wait(60)
    assert running.returncode == -signal.SIGKILL
    assert f"process {running.pid}." in tried[0].err
    return tried


def remaining(workflow: str, at: int) -> list[Any]:
    """The model's steps from the turn on that was cut."""
    turns, seen = SCRIPTS[workflow], 0
    for number, turn in enumerate(turns):
        seen += len(turn)
        if at <= seen:
            return [step for each in turns[number:] for step in each]
    raise AssertionError(at)


def shape(repo: WorkingRepo, document: dict[str, Any]) -> tuple[Any, ...]:
    """What must be as if nothing had happened: nodes, edges, trees, patch, outcome."""
    bundle = repo.path / document["bundle"]
    graph = json.loads((bundle / "graph.json").read_text())
    nodes = {node["id"]: [node.get(name) for name in ("kind", "status", "outcome", "after")] for node in graph["nodes"]}
    return nodes, sorted(graph["edges"]), (bundle / "made.patch").read_bytes(), document["outcome"], document["rubrics"]


@pytest.mark.slow
@pytest.mark.parametrize(("workflow", "at"), [*(("fix", at) for at in (1, 2, 3, 4)), *(("three", at) for at in (2, 5))])
def test_killed_at_any_request_it_goes_on_to_the_same_end(repo, workflow, at):
    with answering(*(step for turn in SCRIPTS[workflow] for step in turn)) as model:
        whole = repo.run(workflow, "--json", model=model.environ)
    assert whole.code == 0, whole.err
    before = repo.state()
    (tried,) = killed(repo, workflow, at)
    assert tried.code == 3
    steps = remaining(workflow, at)
    with answering(*steps) as model:
        done = vibe_gate("resume", "--json", cwd=repo.path, environ={**repo.environ, **model.environ})
        assert len(model.script.requests) == len(steps)  # no ended turn is asked for again
    assert (done.code, repo.state()) == (0, before), done.err
    assert shape(repo, done.json) == shape(repo, whole.json)
    assert done.json["cost"]["usd"] >= whole.json["cost"]["usd"] > 0
    verified = vibe_gate("bundles", "verify", cwd=repo.path, environ=repo.environ)
    assert verified.code == 0, verified.out
    again = vibe_gate("resume", cwd=repo.path, environ=repo.environ)
    assert (again.code, "there is nothing to resume" in again.err) == (2, True)


def test_a_run_that_waits_goes_on_when_a_person_approves(repo):
    argv = ("run", "--agent", "fixer", "--prompt", "Go.", "--interactive")
    with answering(*writes("src/load.py", FIXED)) as model:
        environ = {**repo.environ, **model.environ}
        assert vibe_gate(*argv, cwd=repo.path, environ=environ).code == 3
        waiting = vibe_gate("resume", cwd=repo.path, environ=environ)
        assert (waiting.code, waiting.err.splitlines()[-1]) == (3, "vibe-gate: blocked: fixer")
        wrong = vibe_gate("resume", "--approve", "fixr", cwd=repo.path, environ=environ)
        assert (wrong.code, "waiting: fixer" in wrong.err) == (2, True)
        done = vibe_gate("resume", "--approve", "fixer", cwd=repo.path, environ=environ)
    assert (done.code, "changed   1 file" in done.out) == (0, True), done.err


def test_a_person_can_deny_it_or_ask_nobody_any_more(repo):
    argv = ("run", "--agent", "fixer", "--prompt", "Go.", "--interactive")
    assert vibe_gate(*argv, cwd=repo.path, environ=repo.environ).code == 3
    denied = vibe_gate("resume", "--deny", "fixer", "--json", cwd=repo.path, environ=repo.environ)
    assert (denied.code, denied.json["outcome"]) == (3, "inconclusive")
    assert vibe_gate(*argv, cwd=repo.path, environ=repo.environ).code == 3
    with answering(*writes("src/load.py", FIXED)) as model:
        done = vibe_gate("resume", "--auto", "--json", cwd=repo.path, environ={**repo.environ, **model.environ})
    assert done.code == 0, done.err
    log = (repo.path / done.json["bundle"] / "events.ndjson").read_text()
    assert '"run.mode_changed"' in log


def test_a_change_of_the_files_stops_it_and_is_named(repo):
    argv = ("run", "--agent", "fixer", "--prompt", "Go.", "--interactive")
    assert vibe_gate(*argv, cwd=repo.path, environ=repo.environ).code == 3
    repo.write("src/new.py", "Y = 2\n")
    done = vibe_gate("resume", "--auto", cwd=repo.path, environ=repo.environ)
    assert (done.code, "Bring its commit and files back" in done.err) == (3, True), done.err


def test_a_review_is_not_resumed(repo):
    vibe_gate("review", cwd=repo.path, environ=repo.environ)
    done = vibe_gate("resume", cwd=repo.path, environ=repo.environ)
    assert done.code == 2
