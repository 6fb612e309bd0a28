"""The end of a turn, the commit, the push and the pull request's job: one verdict, paid at the first
of them.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from answers import passes
from contract.github import LoopbackGitHub
from faces.jobs import Project
from hooked import JUDGED
from repos import Repo, allow_store
from stopping import CLEAN, TEAM_GATE, HookedAgentSession, start_session_in_clone
from wire import answering

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_agents")]

STORE_KEY = {"VIBE_GATE_STORE_KEY": "correct horse battery staple"}


@pytest.fixture
def team_project(tmp_path: Path, environ: dict[str, str], github: LoopbackGitHub) -> Project:
    """What GitHub has: a gate that judges at each place, and names a store of the team."""
    pytest.importorskip("obstore", reason="obstore is not installed here")
    store = tmp_path / "store"
    store.mkdir()
    allow_store(store.as_uri(), environ)
    origin = Repo(tmp_path / "origin", environ)
    origin.git("checkout", "-q", "-B", "main")
    origin.write(".vibe-gate/gate.toml", TEAM_GATE.format(store=store.as_uri(), review="judge"))
    origin.write(".vibe-gate/rubrics/quality.toml", JUDGED)
    origin.commit("The gate")
    return Project(tmp_path, environ | STORE_KEY, github, origin)


@pytest.fixture
def agent_session(team_project: Project) -> HookedAgentSession:
    """An agent at work on a branch, in a clone with the hooks of git and of the agent."""
    clone_path = team_project.place / "clone"
    return start_session_in_clone(
        team_project.origin.path, clone_path, team_project.environ, branch="feature"
    )


def run_git(session: HookedAgentSession, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *words], cwd=session.root, env=session.environ, capture_output=True, text=True
    )


def test_what_the_stop_hook_asked_neither_commit_nor_push_nor_the_pull_request_asks_again(
    team_project, agent_session
):
    with answering(passes("clear")) as model:
        agent_session.environ |= model.environ
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
