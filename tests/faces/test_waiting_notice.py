"""What a person at a terminal is told while a commit of a large text is reviewed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hooked import BIN, Hooked, commit_on_terminal, install_gate, start_repository

pytestmark = pytest.mark.slow

NOTICE = "vibe-gate: checking 1 file (12 MB), "


@pytest.fixture
def large_text() -> str:
    """12 MB of words that do not repeat, whose review takes several moments."""
    letters = "".join(Random(1).choices("abcdefghijklmnop", k=12_000_000))
    words = [letters[start : start + 6] for start in range(0, len(letters), 7)]
    lines = [" ".join(words[start : start + 9]) for start in range(0, len(words), 9)]
    return "\n".join(lines) + "\n"


@pytest.fixture(params=["install git", "prek"])
def repository(request: pytest.FixtureRequest, tmp_path: Path, environ: dict[str, str]) -> Hooked:
    way_in: str = request.param
    if way_in != "install git" and not (BIN / way_in).exists():
        pytest.skip(f"{way_in} is not installed here (the extra `test` brings it)")
    repository = start_repository(tmp_path / "repository", environ)
    install_gate(repository, way_in)
    return repository


def test_a_person_reads_what_a_long_review_is_at(repository, large_text):
    repository.write(a=large_text)
    screen = commit_on_terminal(repository, "-q", "-a", "-m", "x")
    assert screen.count(NOTICE) == 1
    assert screen.count("vibe-gate: reading the change ...") <= 1


def test_an_agent_and_a_pipe_get_no_such_line(repository, large_text):
    repository.write(a=large_text)
    assert NOTICE not in commit_on_terminal(repository, "-q", "-a", "-m", "x", CLAUDECODE="1")
    repository.write(a=large_text[::-1])
    assert NOTICE not in repository.git("commit", "-q", "-a", "-m", "y")


def test_a_quick_review_says_nothing(repository):
    repository.write(a="x\n")
    assert "vibe-gate:" not in commit_on_terminal(repository, "-q", "-a", "-m", "x")
