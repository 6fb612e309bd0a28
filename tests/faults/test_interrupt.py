"""Ctrl-C, SIGTERM and two reviews at once: nothing is left behind, nothing is mixed up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sdk_alone
from answers import answers, fails, passes
from command import begun, vibe_gate
from repos import RUBRIC, SWALLOWS, gated, swallowing
from run.working import WorkingRepo, writes
from scripted_messages_api import Hang, Usage
from wire import answer, answering

from vibe_gate.store.clone_state import open_state

pytestmark = pytest.mark.slow

PASSES = passes("errors-not-swallowed", "names-are-clear")


REVIEW = ("review", "--commit", "HEAD")


def start(cwd: Path, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A review that is an interpreter's own process, in a group of its own, as a shell starts
    it.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "vibe_gate", *REVIEW],
        cwd=cwd,
        env=dict(environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )


def wait_for(condition: Callable[[], bool], seconds: float = 200) -> None:
    """Until `condition` holds, or the test fails."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it never came to that"
        time.sleep(0.05)


def command_lines() -> list[bytes]:
    """The command lines of all processes."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            lines.append((entry / "cmdline").read_bytes())
    return lines


def own_processes(mark: str) -> list[int]:
    """Processes whose environment carries the test's mark: the review and all that it started."""
    pids = []
    for entry in Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and mark.encode()
                in (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            ):
                pids.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in pids if pid != os.getpid()]


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")
@pytest.mark.parametrize(
    ("name", "whole_group"),
    [(signal.SIGINT, True), (signal.SIGTERM, False)],
    ids=["ctrl-c", "SIGTERM"],
)
def test_an_interrupted_judge_leaves_no_process_and_an_incomplete_bundle(
    tmp_path, environ, name, whole_group
):
    repo = swallowing(tmp_path / "repo", environ)
    (tmp_path / "tmp").mkdir()
    environ |= {"TMPDIR": str(tmp_path / "tmp")}
    with answering(Hang(), repeat_last=True) as model:
        if name == signal.SIGINT:
            review = begun(*REVIEW, cwd=repo.path, environ=environ | model.environ)
        else:
            review = start(repo.path, environ | model.environ)
        wait_for(lambda: bool(model.api.log))
        (os.killpg if whole_group else os.kill)(review.pid, name)
        _, err = review.communicate(timeout=200)
        wait_for(lambda: not own_processes(str(tmp_path / "tmp")))
    assert review.returncode == 130, err
    assert "Traceback" not in str(err)
    (run,) = (repo.path / ".vibe-artifacts").glob("*/*/run.json")
    assert not (run.parent / "summary.json").exists()
    last = json.loads((run.parent / "events.ndjson").read_text().splitlines()[-1])
    assert (last["type"], last["data"]["status"]) == ("run.completed", "incomplete")
    assert list((tmp_path / "tmp").iterdir()) == []


STAGES = """\
schema = 1
id = "stages"
[[stage]]
id = "fix"
agent = "fixer"
prompt = "Write."
until = { rubrics = ["done"], max_iterations = 3 }
[[stage]]
id = "wait"
needs = ["fix"]
rubrics = ["slow"]
"""
DONE = 'schema = 1\nid = "done"\n[[criterion]]\nid = "done"\nkind = "judge"\nquestion = "Is it done?"\nmust = true\n'
SLOW = 'schema = 1\nid = "slow"\n[[criterion]]\nid = "slow"\nkind = "check"\ncommand = ["sleep", "61"]\nmust = true\n'


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")
@pytest.mark.usefixtures("quick_agents")
@pytest.mark.timeout(900)
def test_a_workflow_interrupted_in_each_stage_leaves_no_process_and_says_how_to_go_on(
    tmp_path, environ
):
    repo = WorkingRepo(tmp_path / "repo", environ, stages=STAGES)
    repo.write(".vibe-gate/rubrics/done.toml", DONE)
    repo.write(".vibe-gate/rubrics/slow.toml", SLOW)
    repo.commit("More rubrics")
    repo.write("src/load.py", "x = 0\n")
    (tmp_path / "tmp").mkdir()
    environ |= {"TMPDIR": str(tmp_path / "tmp")}
    line = {"path": "src/load.py", "line": 1, "quote": "x = 1", "side": "after"}
    failed = answers(fails(line, criterion="done"))
    stands = {"trace": "", "outcome": "stands", "reason": "It is not done."}
    first, second = writes("src/load.py", "x = 1\n"), writes("src/load.py", "x = 2\n")
    steps = {
        "the agent": [Hang()],
        "the judge": [*first, Hang()],
        "the second look": [failed, Hang()],  # the vote is kept
        "the agent, in the loop": [stands, Hang()],
        "the command": [*second, passes("done")],
    }
    command: tuple[str, ...] = ("run", "stages")
    for stage, turns in steps.items():
        with answering(*turns) as model:
            running = begun(*command, cwd=repo.path, environ=environ | model.environ)
            wait_for(lambda turns=turns, model=model: len(model.script.requests) == len(turns))
            if stage == "the command":
                wait_for(
                    lambda: any(b"\0".join((b"sleep", b"61")) in line for line in command_lines())
                )
            os.killpg(running.pid, signal.SIGINT)
            _, err = running.communicate(timeout=200)
            wait_for(lambda: not own_processes(str(tmp_path / "tmp")))
            assert not model.script.unexpected, stage
        (run,) = (repo.path / ".vibe-artifacts").glob("*/*/run.json")
        last = err.splitlines()[-1]
        sentence = f"vibe-gate: interrupted; `vibe-gate resume {run.parent.name}` goes on."
        assert (running.returncode, last) == (130, sentence), (stage, err)
        assert list((tmp_path / "tmp").iterdir()) == [], stage
        command = ("resume", run.parent.name)


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")
@pytest.mark.usefixtures("quick_agents")
def test_a_killed_review_takes_its_agent_with_it_and_leaves_what_its_settled_answers_cost(
    tmp_path, environ
):
    repo = gated(
        tmp_path / "repo", environ, rubric=RUBRIC.replace("schema = 1\n", "schema = 1\nvotes = 5\n")
    )
    repo.write("src/load.py", SWALLOWS)
    repo.commit("Load robustly")
    (tmp_path / "tmp").mkdir()
    environ |= {"TMPDIR": str(tmp_path / "tmp")}
    paid = answer(PASSES, usage=Usage(1_000, 1_000))
    with answering(paid, paid, Hang(), repeat_last=True) as model:
        review = start(repo.path, environ | model.environ | {"PYTHONPATH": str(sdk_alone.SITE)})
        wait_for(lambda: len(model.script.requests) == 3)
        review.kill()
        review.communicate(timeout=200)
        wait_for(lambda: not own_processes(str(tmp_path / "tmp")))
    assert not list((repo.path / ".vibe-artifacts").glob("*/*/summary.json"))
    spent = open_state(repo.path / ".git").spending.spent(datetime.now(UTC))
    assert spent == pytest.approx(2 * (1_000 * 2 + 1_000 * 10) / 1_000_000)
    assert {path.name[:14] for path in (tmp_path / "tmp").iterdir()} > {"vibe-gate-run-"}
    with answering(PASSES, repeat_last=True) as model:
        vibe_gate(*REVIEW, cwd=repo.path, environ=environ | model.environ)
    assert list((tmp_path / "tmp").iterdir()) == [], "the next review deletes what was left"


@pytest.mark.usefixtures("quick_agents")
def test_two_reviews_at_once_in_one_repository_are_both_right(tmp_path, environ):
    repo = swallowing(tmp_path / "repo", environ)
    with answering(PASSES, repeat_last=True) as model:
        environ |= model.environ
        reviews = [begun(*REVIEW, "--json", cwd=repo.path, environ=environ) for _ in range(2)]
        results = [review.communicate(timeout=200) for review in reviews]
    assert [review.returncode for review in reviews] == [0, 0], results
    documents = [json.loads(out) for out, _ in results]
    assert documents[0]["run_id"] != documents[1]["run_id"]
    for document in documents:
        assert document["outcome"] == "pass"
        assert (repo.path / document["bundle"] / "summary.json").exists()
