"""Hooks of git and of agents, and linked worktrees that do not have them: what `install` and
`doctor` say.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command import vibe_gate
from program import git, repository

from vibe_gate.faces.agent_hook.edits import refusal_of_write

Say = Callable[..., str]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


@pytest.fixture
def say(repo: Path, environ: dict[str, str]) -> Say:
    """What a command prints, on one line; wrapped texts have line ends anywhere."""

    def run(*argv: str, at: Path = repo) -> str:
        result = vibe_gate(*argv, cwd=at, environ=environ)
        return " ".join((result.stdout + result.stderr).split())

    return run


HOOK_PATHS = {
    "a tracked folder": (".githooks", True),
    "a folder below": ("tools/git/hooks", True),
    "with a dot": ("./hooks", True),
    "an absolute path": ("{root}/.githooks", False),
    "git's own folder": ("", False),
}


@pytest.mark.parametrize("case", HOOK_PATHS)
def test_install_git_says_when_its_hooks_are_those_of_one_working_tree(
    repo: Path, say: Say, case: str
) -> None:
    path, expected = HOOK_PATHS[case]
    if path:
        git(repo, "config", "core.hooksPath", path.format(root=repo))
    output = say("install", "git")
    assert ("Linked worktrees do not have these hooks" in output) is expected
    if expected:
        assert f"git config core.hooksPath {repo}" in output


def test_doctor_names_the_worktrees_without_hooks_until_they_have_them(
    repo: Path, say: Say
) -> None:
    git(repo, "config", "core.hooksPath", ".githooks")
    git(repo, "worktree", "add", "-q", "../one")
    git(repo, "worktree", "add", "-q", "../two")
    say("install", "git")
    assert "not in worktrees one, two" in say("doctor")
    say("install", "git", at=repo.parent / "one")
    assert "not in worktrees two" in say("doctor")
    git(repo, "config", "core.hooksPath", str(repo / ".githooks"))
    assert "not in worktrees" not in say("doctor")


@pytest.mark.parametrize("agent", ["claude", "gemini", "codex"])
def test_install_of_an_agent_says_what_holds_in_other_worktrees(
    repo: Path, say: Say, agent: str
) -> None:
    output = say("install", agent)
    assert f"run `vibe-gate install {agent}` in each, or use --user." in output
    assert ("copies this file into worktrees that it makes itself" in output) is (agent == "claude")
    assert "in each, or use --user" not in say("install", agent, "--user")


def test_doctor_names_the_worktrees_in_which_no_session_is_captured(repo: Path, say: Say) -> None:
    git(repo, "worktree", "add", "-q", "../one")
    git(repo, "worktree", "add", "-q", "../two")
    assert "not in worktrees" not in say("doctor")
    say("install", "claude")
    assert "not in worktrees one, two" in say("doctor")
    say("install", "claude", at=repo.parent / "one")
    assert "not in worktrees two" in say("doctor")
    say("install", "claude", "--user")
    assert "not in worktrees" not in say("doctor")


@pytest.mark.parametrize(
    "path", ["/x/bare.git/.vibe-artifacts/key/run.json", "/x/repo/.vibe-artifacts/a"]
)
def test_the_guard_protects_the_store_of_a_bare_repositorys_worktrees_too(path: str) -> None:
    common = "/x/bare.git" if "bare" in path else "/x/repo/.git"
    assert "holds evidence that only vibe-gate writes" in refusal_of_write(
        "Write", {}, path, common
    )
