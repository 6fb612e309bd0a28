"""Bundles that came with a repository: cleaned by nobody, and no verdict in any list."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from bundle_words import START, summary_of
from program import git, repository, vibe_gate
from recorded import Kind, begun, recorded

STORE = ".vibe-artifacts"


def test_a_review_and_a_cleaning_leave_a_clone_as_it_was(tmp_path: Path, environ: dict[str, str]) -> None:
    origin = repository(tmp_path / "origin")
    run = origin / STORE / git(origin, "rev-parse", "HEAD") / "20200101T000000000Z-aaaaaaaa"
    for path in (run / "notes.txt", origin / STORE / "objects/notes/README", origin / STORE / "trash/README"):
        path.parent.mkdir(parents=True)
        path.write_text("ours\n")
    git(origin, "add", "-A", "-f")
    git(origin, "commit", "-q", "-m", "artifacts")
    git(tmp_path, "clone", "-q", str(origin), "clone")
    clone = tmp_path / "clone"
    vibe_gate("review", "--commit", "HEAD", "--no-judge", cwd=clone, environ=environ)
    assert (clone / STORE / "index/cleaned").exists()
    assert git(clone, "status", "--short") == ""
    done = vibe_gate("bundles", "clean", "--older-than", "0", cwd=clone, environ=environ)
    assert " 1 run deleted" in f" {done.stdout.splitlines()[-1]}"
    assert git(clone, "status", "--short") == ""


def test_a_pass_that_needs_approval_is_no_pass_in_the_list(tmp_path: Path, environ: dict[str, str]) -> None:
    repo = repository(tmp_path / "r")
    run = begun(repo, START, Kind())
    run.seal(summary_of(run, "pass", 4))
    for _ in range(2):
        (line,) = vibe_gate("bundles", "list", cwd=repo, environ=environ).stdout.splitlines()
        assert line.split()[2] == "approval"


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_a_committed_run_is_foreign_in_every_version_of_the_index(
    tmp_path: Path, environ: dict[str, str], version: str
) -> None:
    repo = repository(tmp_path / "r")
    own = recorded(repo, START, Kind(outcome="fail"))
    git(repo, "update-index", "--index-version", version)
    git(repo, "add", "-A", "-f", STORE)
    for _ in range(2):  # the second is answered by the index of the first, where it can be
        done = vibe_gate("bundles", "list", cwd=repo, environ=environ)
        assert own in done.stdout
        assert "foreign" in done.stdout
        assert " fail " not in done.stdout


CORRUPT = hashlib.sha256(b"new\n").hexdigest() + ".txt"


def committed(repo: Path, files: dict[str, str]) -> None:
    """Files below the store that came with the repository."""
    for name, text in files.items():
        (repo / STORE / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / STORE / name).write_text(text)
    git(repo, "add", "-A", "-f", STORE)
    git(repo, "commit", "-q", "-m", "artifacts")


def test_no_review_and_no_repair_moves_a_corrupt_object_that_git_tracks(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    repo = repository(tmp_path / "r")
    committed(repo, {f"objects/{CORRUPT[:2]}/{CORRUPT}": "planted"})
    (repo / "new.txt").write_text("new\n")
    done = vibe_gate("review", "--no-judge", "--json", "HEAD", cwd=repo, environ=environ)
    bundle = repo / json.loads(done.stdout)["bundle"]
    assert (bundle / "files/after" / CORRUPT).read_text() == "new\n"
    assert git(repo, "status", "--short", STORE) == ""
    mended = vibe_gate("bundles", "repair", cwd=repo, environ=environ)
    assert mended.returncode == 5
    assert f"git tracks objects/{CORRUPT[:2]}/{CORRUPT}, so nothing was done there" in mended.stdout
    assert git(repo, "status", "--short", STORE) == ""


@pytest.mark.parametrize("worktree", [False, True])
def test_no_list_writes_an_index_that_git_tracks(tmp_path: Path, environ: dict[str, str], worktree: bool) -> None:
    repo = repository(tmp_path / "r")
    committed(repo, {"index/runs.tsv": "theirs", "index/seen": "theirs"})
    if worktree:
        git(repo, "worktree", "add", "-q", str(tmp_path / "w"))
        repo = tmp_path / "w"
    recorded(repo, START, Kind())
    for _ in range(2):
        assert " pass " in vibe_gate("bundles", "list", cwd=repo, environ=environ).stdout
    assert git(repo, "status", "--short", STORE) == ""


def test_a_linked_worktree_of_a_clean_repository_has_an_index(tmp_path: Path, environ: dict[str, str]) -> None:
    repo = repository(tmp_path / "r")
    git(repo, "worktree", "add", "-q", str(tmp_path / "w"))
    recorded(tmp_path / "w", START, Kind())
    vibe_gate("bundles", "list", cwd=tmp_path / "w", environ=environ)
    assert (tmp_path / "w" / STORE / "index/runs.tsv").read_bytes().count(b"\n") == 2
