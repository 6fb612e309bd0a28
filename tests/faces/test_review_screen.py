"""`review` on a terminal and off it: one page, colours where they are wanted, nothing that acts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import on_a_terminal, vibe_gate
from program import git, repository


@pytest.fixture
def repo(tmp_path) -> Path:
    root = repository(tmp_path / "r")
    (root / "a.txt").write_text("one\ntwo \x1b[2J\u202e\n")
    (root / "evil\x1b]0;title\x07.txt").write_text("x\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "more")
    return root


@pytest.mark.slow
def test_the_screen_is_coloured(repo, environ):
    environ = {**environ, "TERM": "xterm-256color"}
    code, text = on_a_terminal(repo, environ, "review", "HEAD~1", "--no-judge")
    assert code == 1
    assert text.startswith("\x1b[1;31m✗ FAIL\x1b[0m")
    assert "\x1b[2J" not in text
    assert "\x1b]0;" not in text
    assert "\u202e" not in text
    piped = vibe_gate(
        "review", "HEAD~1", "--no-judge", cwd=repo, environ=environ | {"FORCE_COLOR": "1"}
    )
    assert piped.stdout.startswith("\x1b[1;31m✗ FAIL\x1b[0m")


@pytest.mark.slow
@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_refused(repo, environ, setting):
    _, text = on_a_terminal(
        repo, {**environ, "TERM": "xterm", **setting}, "review", "HEAD~1", "--no-judge"
    )
    assert text.startswith("✗ FAIL")
    assert "\x1b" not in text


def test_off_a_terminal_there_is_plain_text_and_one_line_of_progress_a_step(repo, environ):
    review = vibe_gate("review", "HEAD~1", "--no-judge", cwd=repo, environ=environ)
    assert review.returncode == 1
    assert review.stdout.startswith("✗ FAIL · safety: no-invisible-unicode failed (must)")
    assert review.stderr.splitlines()[0] == "change: reading the change"
    assert "checks: 2 files, " in review.stderr
    assert not set(review.stdout + review.stderr) & {"\x1b", "\u202e", "\x07"}


@pytest.fixture
def commanding(tmp_path) -> Path:
    root = repository(tmp_path / "commanding")
    (root / "##[error]x.py").write_text("x = 1  # \u202e\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "##[stop-commands]x")
    return root


@pytest.mark.parametrize("form", [(), ("--gitlab", "-")], ids=["screen", "json"])
def test_in_a_step_of_a_job_the_runner_obeys_nothing_that_a_review_prints(
    commanding, environ, form
):
    plain, in_a_job = (
        vibe_gate("review", "HEAD~1", "--no-judge", *form, cwd=commanding, environ=variables).stdout
        for variables in (environ, {**environ, "GITHUB_ACTIONS": "true"})
    )
    assert "##[error]x.py" in plain
    assert "error]x.py" in in_a_job
    assert "##[" not in in_a_job
    if form:
        assert json.loads(in_a_job) == json.loads(plain)
