"""Notes of a remote, added to: only what is given leaves, and what others put there stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from repos import Repo

from vibe_gate.domain.environment import read_environment
from vibe_gate.git import open_repository

REF = "vibe-gate-prompts"


@pytest.fixture
def repo(tmp_path, environ) -> Repo:
    """A clone with a remote beside it, two commits here and one there; a note of another remote is
    here.
    """
    repo = Repo(tmp_path / "repo", environ)
    repo.commit("First", a="1\n")
    repo.git("init", "-q", "--bare", str(tmp_path / "remote"))
    repo.git("push", "-q", str(tmp_path / "remote"), "main")
    repo.commit("Second", a="2\n")
    return repo


def add_notes(repo: Repo, **lines: bytes) -> str:
    """Add lines to the remote notes on HEAD, and on HEAD~1; the problem, "" if there is none."""
    commits = {"head": repo.git("rev-parse", "main"), "before": repo.git("rev-parse", "main~1")}
    with open_repository(repo.path, read_environment(repo.environ)) as repository:
        lines_by_commit = {commits[name]: line.splitlines() for name, line in lines.items()}
        return repository.add_remote_notes(str(repo.path.parent / "remote"), REF, lines_by_commit)


def note(repo: Repo, revision: str = "HEAD") -> list[str]:
    """The remote's note on a commit of the clone."""
    commit, git = repo.git("rev-parse", revision), ("--git-dir", str(repo.path.parent / "remote"))
    tree = repo.git(*git, "ls-tree", "-r", f"refs/notes/{REF}")
    rows = {row.split("\t")[1].replace("/", ""): row.split()[2] for row in tree.splitlines()}
    return repo.git(*git, "cat-file", "blob", rows[commit]).splitlines() if commit in rows else []


@pytest.mark.slow
def test_only_the_given_lines_leave_and_the_clone_has_the_same_notes(repo):
    repo.git("config", "push.followTags", "true")
    repo.git("tag", "-a", "-m", "x", "v1", "HEAD~1")
    assert add_notes(repo, head=b"one") == ""
    assert note(repo) == ["one"]
    assert repo.git("notes", "--ref", REF, "show") == "one"
    assert repo.git("--git-dir", "../remote", "for-each-ref", "--format=%(refname)") == (
        f"refs/heads/main\nrefs/notes/{REF}"
    )
    # What is in this clone's notes alone, of another remote for example, stays here.
    repo.git("notes", "--ref", REF, "add", "-m", "another remote's", "HEAD~1")
    assert add_notes(repo, head=b"one\ntwo") == ""
    assert (note(repo), note(repo, "HEAD~1")) == (["one", "two"], [])
    assert repo.git("notes", "--ref", REF, "show", "HEAD~1") == "another remote's"


@pytest.mark.slow
def test_lines_of_a_colleague_stay_and_a_push_in_between_is_added_to(repo, tmp_path):
    colleague = Repo(tmp_path / "colleague", repo.environ)
    colleague.git("fetch", "-q", "--update-head-ok", str(repo.path), "main:main")
    assert add_notes(colleague, before=b"theirs", head=b"theirs") == ""
    # Whoever pushes while the remote's own hook runs was faster.
    hook = repo.path.parent / "remote/hooks/pre-receive"
    faster_push = (
        f"git --git-dir={repo.path}/.git push -q {tmp_path}/remote refs/x:refs/notes/{REF}"
    )
    repo.git("fetch", "-q", str(tmp_path / "remote"), f"refs/notes/{REF}:refs/notes/faster")
    repo.git("notes", "--ref", "faster", "append", "-m", "in between", "HEAD~1")
    repo.git("update-ref", "refs/x", "refs/notes/faster")
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        f'#!/bin/sh\nrm "$0"\nunset GIT_QUARANTINE_PATH GIT_DIR GIT_OBJECT_DIRECTORY\n{faster_push}\n'
    )
    hook.chmod(0o755)
    assert add_notes(repo, head=b"ours") == ""
    assert not hook.exists()
    assert note(repo) == ["theirs", "ours"]
    assert note(repo, "HEAD~1") == ["theirs", "", "in between"]
    refs, before = (
        repo.git("for-each-ref"),
        repo.git("--git-dir", "../remote", "rev-parse", f"refs/notes/{REF}"),
    )
    assert add_notes(repo, head=b"ours") == ""  # there already
    assert repo.git("--git-dir", "../remote", "rev-parse", f"refs/notes/{REF}") == before
    assert repo.git("for-each-ref") == refs


def test_a_remote_that_refuses_notes_or_is_not_there_is_named(repo, tmp_path):
    hook = tmp_path / "remote/hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\necho "no notes here" >&2\nexit 1\n')
    hook.chmod(0o755)
    assert "hook declined" in add_notes(repo, head=b"one")
    assert repo.git("for-each-ref", "refs/notes") == ""
    Path(tmp_path / "remote").rename(tmp_path / "gone")
    assert "does not appear to be a git repository" in add_notes(repo, head=b"one")
