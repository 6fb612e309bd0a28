"""The fast path may only ever say that there is nothing; what hides a change must be left to the full path."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
from program import git, repository, vibe_gate

from vibe_gate.faces.cli.idle import NOTHING, nothing_to_review

STAGED, WORKTREE = NOTHING["staged"], NOTHING["worktree"]


@pytest.fixture
def repo(tmp_path, monkeypatch) -> Path:
    where = repository(tmp_path / "r", **{"a.txt": "one\n", "b.txt": "two\n"})
    monkeypatch.chdir(where)
    return where


def edit(repo: Path, name: str = "a.txt", text: str = "changed\n") -> None:
    (repo / name).write_text(text)


def test_a_clean_repository_has_nothing_staged_and_nothing_changed(repo):
    assert nothing_to_review(["--staged"]) == STAGED
    assert nothing_to_review([]) == WORKTREE
    assert nothing_to_review(["HEAD"]) == WORKTREE


def test_it_answers_from_a_subdirectory_too(repo, monkeypatch):
    (repo / "sub").mkdir()
    monkeypatch.chdir(repo / "sub")
    assert nothing_to_review(["--staged"]) == STAGED
    assert nothing_to_review([]) == WORKTREE


@pytest.mark.parametrize(
    "arguments", [["--json"], ["HEAD~0"], ["--staged", "--json"], ["--rubric", "x"], ["--staged", "HEAD"]]
)
def test_any_other_question_is_left_to_the_full_path(repo, arguments):
    assert nothing_to_review(arguments) is None


def test_options_without_a_meaning_here_change_nothing(repo):
    assert nothing_to_review(["--staged", "--strict", "--no-judge"]) == STAGED


def test_outside_a_repository_it_says_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert nothing_to_review(["--staged"]) is None
    assert nothing_to_review([]) is None


def test_without_git_it_says_nothing(repo, monkeypatch):
    monkeypatch.setenv("PATH", str(repo))
    assert nothing_to_review(["--staged"]) is None
    assert nothing_to_review([]) is None


def test_a_staged_change_is_seen(repo):
    edit(repo)
    git(repo, "add", "a.txt")
    assert nothing_to_review(["--staged"]) is None
    assert nothing_to_review([]) is None


def test_an_unstaged_change_leaves_the_index_alone(repo):
    edit(repo)
    assert nothing_to_review(["--staged"]) == STAGED
    assert nothing_to_review([]) is None


def test_an_untracked_file_is_seen(repo):
    edit(repo, "new.txt")
    assert nothing_to_review([]) is None


def test_an_untracked_file_is_seen_where_the_configuration_hides_it(repo):
    edit(repo, "new.txt")
    git(repo, "config", "--global", "status.showUntrackedFiles", "no")
    assert nothing_to_review([]) is None


def test_an_ignored_file_is_nothing(repo):
    (repo / ".git/info/exclude").write_text("*.log\n")
    edit(repo, "x.log")
    assert nothing_to_review([]) == WORKTREE


def test_an_intent_to_add_is_left_to_the_full_path_in_the_working_tree(repo):
    edit(repo, "new.txt")
    git(repo, "add", "-N", "new.txt")
    assert nothing_to_review([]) is None
    assert git(repo, "write-tree") == git(repo, "rev-parse", "HEAD^{tree}")
    assert nothing_to_review(["--staged"]) == STAGED


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_an_edit_behind_a_flag_is_left_to_the_full_path(repo, flag):
    git(repo, "update-index", flag, "a.txt")
    edit(repo)
    assert git(repo, "status", "--porcelain") == ""
    assert nothing_to_review([]) is None


def test_a_change_outside_the_current_folder_is_seen_in_spite_of_diff_relative(repo, monkeypatch):
    edit(repo)
    git(repo, "add", "a.txt")
    git(repo, "config", "diff.relative", "true")
    (repo / "sub").mkdir()
    monkeypatch.chdir(repo / "sub")
    assert nothing_to_review(["--staged"]) is None


def submodule(repo: Path) -> None:
    child = repository(repo.parent / "child")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(child), "sub")
    git(repo, "config", "-f", ".gitmodules", "submodule.sub.ignore", "all")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "with a submodule")


def test_a_staged_submodule_is_seen_in_spite_of_ignore_all(repo):
    submodule(repo)
    assert nothing_to_review(["--staged"]) == STAGED
    git(repo / "sub", "commit", "-q", "--allow-empty", "-m", "on")
    git(repo, "update-index", "--cacheinfo", f"160000,{git(repo / 'sub', 'rev-parse', 'HEAD')},sub")
    assert nothing_to_review(["--staged"]) is None


def test_submodules_in_the_working_tree_are_left_to_the_full_path(repo):
    submodule(repo)
    git(repo, "config", "--remove-section", "submodule.sub")
    assert nothing_to_review([]) is None


def test_a_replaced_head_does_not_hide_what_is_staged(repo):
    edit(repo)
    git(repo, "add", "a.txt")
    forged = git(repo, "commit-tree", "-m", "forged", git(repo, "write-tree"))
    git(repo, "replace", "HEAD", forged)
    assert git(repo, "diff", "--cached", "--name-only") == ""
    assert nothing_to_review(["--staged"]) is None


def test_a_conflicted_index_is_left_to_the_full_path(repo):
    blob = git(repo, "hash-object", "-w", "a.txt")
    lines = f"0 {'0' * 40}\ta.txt\n100644 {blob} 1\ta.txt\n100644 {blob} 2\ta.txt\n"
    subprocess.run(["git", "update-index", "--index-info"], cwd=repo, input=lines.encode(), check=True)
    assert nothing_to_review(["--staged"]) is None
    assert nothing_to_review([]) is None


def test_before_the_first_commit_an_empty_index_is_nothing_and_a_staged_file_is_seen(tmp_path, monkeypatch):
    git(tmp_path, "init", "-q", "fresh")
    monkeypatch.chdir(tmp_path / "fresh")
    assert nothing_to_review(["--staged"]) == STAGED
    edit(tmp_path / "fresh")
    git(tmp_path / "fresh", "add", "a.txt")
    assert nothing_to_review(["--staged"]) is None


def test_the_index_that_git_means_in_a_hook_is_the_one_looked_at(repo, monkeypatch):
    edit(repo)
    git(repo, "add", "a.txt", GIT_INDEX_FILE=".git/other-index")
    assert nothing_to_review(["--staged"]) == STAGED
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/other-index")
    assert nothing_to_review(["--staged"]) is None


def make(where: Path, kind: str) -> Path:
    """A repository of a kind that the full path refuses, with nothing to review in it."""
    options = {"bare": ["--bare"], "sha256": ["--object-format=sha256"]}.get(kind, [])
    git(where, "init", "-q", *options, "odd")
    repo = where / "odd"
    if kind != "bare":
        edit(repo)
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "-m", "start")
    if kind == "made bare":
        git(repo, "config", "core.bare", "true")
    if kind == "partial clone":
        git(repo, "config", "uploadpack.allowFilter", "true")
        git(where, "clone", "-q", "--filter=blob:none", f"file://{repo}", "partial")
        repo = where / "partial"
    return repo


@pytest.mark.parametrize("kind", ["bare", "made bare", "sha256", "partial clone"])
@pytest.mark.parametrize("arguments", [["--staged"], []])
def test_what_the_full_path_refuses_is_left_for_it_to_refuse(tmp_path, environ, monkeypatch, kind, arguments):
    repo = make(tmp_path, kind)
    monkeypatch.chdir(repo)
    assert nothing_to_review(arguments) is None
    assert vibe_gate("review", *arguments, cwd=repo, environ=environ).returncode == 2


def test_a_submodules_own_index_is_looked_at_inside_of_it(repo, monkeypatch):
    submodule(repo)
    monkeypatch.chdir(repo / "sub")
    assert nothing_to_review(["--staged"]) == STAGED
    edit(repo / "sub")
    git(repo / "sub", "add", "-A")
    assert nothing_to_review(["--staged"]) is None


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"])
def test_a_redirected_working_tree_is_left_to_the_full_path(repo, monkeypatch, name):
    monkeypatch.setenv(name, str(repo / ".git" if name == "GIT_DIR" else repo))
    assert nothing_to_review([]) is None


def test_a_linked_worktree_is_left_to_the_full_path(repo, monkeypatch):
    git(repo, "worktree", "add", "-q", "../linked")
    monkeypatch.chdir(repo.parent / "linked")
    assert nothing_to_review([]) is None
    assert nothing_to_review(["--staged"]) == STAGED


def trap(repo: Path) -> tuple[Path, Path]:
    """A program that leaves a mark when it runs."""
    mark, program = repo.parent / "it-ran", repo.parent / "trap"
    program.write_text(f"#!/bin/sh\necho ran >> '{mark}'\nexec cat\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program, mark


CONFIGURED_PROGRAMS = {
    "core.fsmonitor": "",
    "diff.external": "",
    "diff.x.textconv": "* diff=x\n",
    "diff.x.command": "* diff=x\n",
    "filter.x.clean": "* filter=x\n",
    "filter.x.process": "* filter=x\n",
    "core.pager": "",
    "core.sshCommand": "",
    "core.alternateRefsCommand": "",
}


@pytest.mark.parametrize("setting", sorted(CONFIGURED_PROGRAMS))
@pytest.mark.parametrize("arguments", [["--staged"], []])
def test_no_program_named_by_the_repository_runs(repo, setting, arguments):
    program, mark = trap(repo)
    (repo / ".gitattributes").write_text(CONFIGURED_PROGRAMS[setting])
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "attributes")
    git(repo, "config", setting, str(program))
    now = (repo / "a.txt").stat()
    os.utime(repo / "a.txt", ns=(now.st_atime_ns, now.st_mtime_ns + 10**9))  # git has to look inside again
    edit(repo, "b.txt")
    nothing_to_review(arguments)
    assert not mark.exists()


@pytest.mark.parametrize(
    "text",
    [
        "[core]\n\tcheckStat = minimal\n",
        "[core]\n\tignoreStat = true\n",
        "[core]\n\tfileMode = false\n",
        "[core] worktree = /\n",
        "[include]\n\tpath = elsewhere\n",
        '[includeIf "gitdir:/"]\n\tpath = elsewhere\n',
        '[remote "x"] [core]\n\tcheckStat = minimal\n',
        '[remote "x"]\n\turl = a\\\n[core]\n',
        '[filter "x"]\n\tclean = x\n',
        "[extensions]\n\tworktreeConfig = true\n",
        "[alias]\n\tstatus = !false\n",
        "[status]\n\tshowUntrackedFiles = no\n",
    ],
)
def test_configuration_that_is_not_known_to_be_harmless_is_left_to_the_full_path(repo, text):
    with (repo / ".git/config").open("a") as config:
        config.write(text)
    assert nothing_to_review([]) is None


def test_what_clone_and_people_write_into_the_configuration_is_harmless(repo):
    with (repo / ".git/config").open("a") as config:
        config.write(
            '[remote "origin"]\n\turl = https://example.org/x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'
        )
        config.write('[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n[user]\n\tname = Ada\n')
    assert nothing_to_review([]) == WORKTREE


def test_index_and_head_are_left_byte_identical(repo):
    os.utime(repo / "a.txt", (1, 1))  # what is written in the index about it is out of date now
    before = {path: path.read_bytes() for path in (repo / ".git").rglob("*") if path.is_file()}
    nothing_to_review([])
    nothing_to_review(["--staged"])
    assert {path: path.read_bytes() for path in (repo / ".git").rglob("*") if path.is_file()} == before
