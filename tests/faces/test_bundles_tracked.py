"""Bundles that came with a repository: cleaned by nobody, and no verdict in any list."""

from __future__ import annotations

from pathlib import Path

from bundle_words import START, summary_of
from command import vibe_gate
from program import git, repository
from recorded import Kind, begun, recorded

STORE = ".vibe-artifacts"


def test_a_review_a_cleaning_and_a_repair_leave_a_clone_as_it_was(tmp_path: Path, environ: dict[str, str]) -> None:
    origin = repository(tmp_path / "origin")
    run = origin / STORE / git(origin, "rev-parse", "HEAD") / "20200101T000000000Z-aaaaaaaa"
    for path in (run / "notes.txt", origin / STORE / "trash/README"):
        path.parent.mkdir(parents=True)
        path.write_text("ours\n")
    git(origin, "add", "-A", "-f")
    git(origin, "commit", "-q", "-m", "artifacts")
    git(tmp_path, "clone", "-q", str(origin), "clone")
    clone = tmp_path / "clone"
    done = vibe_gate("review", "--commit", "HEAD", "--no-judge", cwd=clone, environ=environ)
    assert "git tracks 2 files in .vibe-artifacts, so nothing is written there." in done.stdout + done.stderr
    for command in (["clean", "--older-than", "0"], ["repair"]):
        done = vibe_gate("bundles", *command, cwd=clone, environ=environ)
        assert (done.returncode, done.stdout) == (3, "")
        assert "Run `git rm -r --cached .vibe-artifacts`" in done.stderr
    assert git(clone, "status", "--short", "--ignored", STORE) == ""


def test_a_pass_that_needs_approval_is_no_pass_in_the_list(tmp_path: Path, environ: dict[str, str]) -> None:
    repo = repository(tmp_path / "r")
    run = begun(repo, START, Kind())
    run.seal(summary_of(run, "pass", 4))
    for _ in range(2):
        (line,) = vibe_gate("bundles", "list", cwd=repo, environ=environ).stdout.splitlines()
        assert line.split()[2] == "approval"


def test_a_committed_run_is_foreign_in_a_list_with_and_without_an_index(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    repo = repository(tmp_path / "r")
    own = recorded(repo, START, Kind(outcome="fail"))
    git(repo, "add", "-A", "-f", STORE)
    for _ in range(2):  # the second is answered by the index of the first, where it can be
        done = vibe_gate("bundles", "list", cwd=repo, environ=environ)
        assert own in done.stdout
        assert "foreign" in done.stdout
        assert " fail " not in done.stdout
