"""What a person at a terminal is told while a commit is reviewed for longer than a moment."""

from __future__ import annotations

from pathlib import Path

import pytest
from hooked import (
    BIN,
    Hooked,
    add_judged_gate,
    commit_on_terminal,
    install_gate,
    start_repository,
)

from vibe_gate.faces.git_hook.waiting_notice import MOMENT_S

pytestmark = pytest.mark.slow

NOTICE = "vibe-gate: checking 1 file (1 MB), 1 check ..."
LARGE_TEXT = "x" * 1_000_000 + "\n"
SLOW_CHECK = f"""\
schema = 1
id = "quality"
[[criterion]]
id = "slow"
kind = "check"
must = true
command = ["sh", "-c", "test ! -s large || sleep {MOMENT_S + 0.5}"]
"""


@pytest.fixture(params=["install git", "prek"])
def repository(request: pytest.FixtureRequest, tmp_path: Path, environ: dict[str, str]) -> Hooked:
    """A repository whose only check waits longer than a moment where there is a text in `large`."""
    way_in: str = request.param
    if way_in != "install git" and not (BIN / way_in).exists():
        pytest.skip(f"{way_in} is not installed here (the extra `test` brings it)")
    repository = start_repository(tmp_path / "repository", environ)
    repository.write(large="")
    install_gate(add_judged_gate(repository, SLOW_CHECK), way_in)
    return repository


def test_a_person_reads_what_a_long_review_is_at(repository):
    repository.write(large=LARGE_TEXT)
    screen = commit_on_terminal(repository, "-q", "-a", "-m", "x")
    assert screen.count(NOTICE) == 1
    assert screen.count("vibe-gate: reading the change ...") <= 1


def test_an_agent_and_a_pipe_get_no_such_line(repository):
    repository.write(large=LARGE_TEXT)
    assert NOTICE not in commit_on_terminal(repository, "-q", "-a", "-m", "x", CLAUDECODE="1")
    repository.write(large=LARGE_TEXT.upper())
    assert NOTICE not in repository.git("commit", "-q", "-a", "-m", "y")


def test_a_quick_review_says_nothing(repository):
    repository.write(a="x\n")
    assert "vibe-gate:" not in commit_on_terminal(repository, "-q", "-a", "-m", "x")
