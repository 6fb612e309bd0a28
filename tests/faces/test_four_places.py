"""The end of a turn, the commit, the push and the pull request's job: one verdict, paid at the first
of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from answers import passes
from command import vibe_gate
from contract.github import LoopbackGitHub
from faces.jobs import Project
from hooked import JUDGED
from repos import Repo, allow_store
from stopping import CLEAN, HookedAgentSession
from wire import answering

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_agents")]

STORE_KEY = {"VIBE_GATE_STORE_KEY": "correct horse battery staple"}
GATE = """\
schema = 1
rubrics = ["quality"]
[store]
url = "{store}"
[hooks.stop]
review = "judge"
[hooks.pre-commit]
judge = "always"
[hooks.pre-push]
judge = "always"
"""


@pytest.fixture
def team_project(tmp_path: Path, environ: dict[str, str], github: LoopbackGitHub) -> Project:
    """What GitHub has: a gate that judges at each place, and names a store of the team."""
    pytest.importorskip("obstore", reason="obstore is not installed here")
    store = tmp_path / "store"
    store.mkdir()
    allow_store(store.as_uri(), environ)
    origin = Repo(tmp_path / "origin", environ)
    origin.git("checkout", "-q", "-B", "main")
    origin.write(".vibe-gate/gate.toml", GATE.format(store=store.as_uri()))
    origin.write(".vibe-gate/rubrics/quality.toml", JUDGED)
    origin.commit("The gate")
    return Project(tmp_path, environ | STORE_KEY, github, origin)


@pytest.fixture
def agent_session(team_project: Project) -> HookedAgentSession:
    """An agent at work on a branch, in a clone with the hooks of git and of the agent."""
    environ = dict(team_project.environ)
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    clone = Repo(team_project.place / "clone", environ)
    clone.git("remote", "add", "origin", str(team_project.origin.path))
    clone.git("fetch", "-q", "origin")
    clone.git("checkout", "-q", "-b", "feature", "origin/main")
    for target in (("git",), ("claude", "--stop")):
        installed = vibe_gate("install", *target, cwd=clone.path, environ=environ)
        assert installed.code == 0, installed.err
    return HookedAgentSession(clone.path, environ)


def run_git(session: HookedAgentSession, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *words], cwd=session.root, env=session.environ, capture_output=True, text=True
    )


def test_what_the_stop_hook_asked_neither_commit_nor_push_nor_the_pull_request_asks_again(
    team_project, agent_session
):
    with answering(passes("clear")) as model:
        agent_session.environ |= model.environ
        agent_session.prompt()
        agent_session.write("load.py", CLEAN)
        stop = agent_session.stop()
        assert (stop.holds, len(model.script.requests)) == (False, 1)
        run_git(agent_session, "add", "-A")
        commit = run_git(agent_session, "commit", "-q", "-m", "Read the token")
        assert commit.returncode == 0, commit.stderr
        push = run_git(agent_session, "push", "-q", "origin", "HEAD:refs/heads/feature")
        assert push.returncode == 0, push.stderr
        head = team_project.origin.git("rev-parse", "feature")
        team_project.pull(head)
        inputs = {"VIBE_GATE_INPUT_ANTHROPIC_API_KEY": model.environ["ANTHROPIC_API_KEY"]}
        inputs["ANTHROPIC_BASE_URL"] = model.base_url
        job = team_project.review_pull(head, **inputs)
        assert job.code == 0, job.out + job.err
        assert team_project.outputs["verdict"] == "pass"
        assert len(model.script.requests) == 1
