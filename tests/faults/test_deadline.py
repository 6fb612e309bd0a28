"""The deadline holds for what does not look at the clock itself."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import pytest
from repos import Repo, gated
from walks import await_review

from vibe_gate.errors import InfrastructureError

pytestmark = pytest.mark.slow

SLOW = """\
schema = 1
id = "quality"
[[criterion]]
id = "no-runs"
kind = "check"
check = "forbidden-pattern"
options = { pattern = "(a+)+$" }
"""


def test_an_expression_that_never_ends_is_ended_beside_other_tasks(tmp_path, environ, monkeypatch):
    monkeypatch.setattr("vibe_gate.context.deadline.GRACE_S", 0.2)
    repo = gated(tmp_path / "repo", environ, rubric=SLOW)
    repo.write("a.txt", "a" * 60 + "b\n")
    repo.commit("Run")

    async def beside() -> int:
        other = asyncio.create_task(asyncio.sleep(0.1, 42))
        with pytest.raises(InfrastructureError, match="deadline"):
            await await_review(repo.path, environ, deadline_s=0.5)
        return await other

    before, _ = signal.getitimer(signal.ITIMER_REAL)
    assert asyncio.run(beside()) == 42
    after, _ = signal.getitimer(signal.ITIMER_REAL)
    assert bool(after) == bool(before) and after <= before, (
        "the test's own clock, if there is one, runs on"
    )
    (run,) = (repo.path / ".vibe-artifacts").glob("*/*/run.json")
    assert not (run.parent / "summary.json").exists()


def test_a_tree_of_a_hundred_million_names_is_given_up(tmp_path, environ):
    repo = Repo(tmp_path / "repo", environ)
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"x\n")
    entry = "".join(f"100644 blob {blob}\tf{i}\n" for i in range(10))
    tree = repo.git("mktree", stdin=entry.encode())
    for _ in range(7):
        tree = repo.git(
            "mktree", stdin="".join(f"040000 tree {tree}\td{i}\n" for i in range(10)).encode()
        )
    bomb = repo.git("commit-tree", tree, "-m", "Bomb")
    limited = ["sh", "-c", 'ulimit -v 700000; exec "$@"', "sh"]
    command = [
        *limited,
        sys.executable,
        "-m",
        "vibe_gate",
        "review",
        "--no-judge",
        "--deadline",
        "0.3",
        "--commit",
        bomb,
    ]
    result = subprocess.run(command, cwd=repo.path, env=environ, capture_output=True, timeout=250)
    assert result.returncode == 3, result.stderr
    assert b"Traceback" not in result.stderr
