"""Bundles that came with a repository: cleaned by nobody, and no verdict in any list."""

from __future__ import annotations

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
