"""The project's conventions, read where the change cannot write them."""

from __future__ import annotations

import pytest
from repos import Repo

from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.gate.guidance import MAX_GUIDANCE, read_guidance
from vibe_gate.gate.trusted import gate_for
from vibe_gate.git import open_repository

GATE = {".vibe-gate/gate.toml": "schema = 1\n"}


@pytest.fixture
def repo(tmp_path, environ) -> Repo:
    return Repo(tmp_path / "repo", environ)


def guidance_shown_in(repo: Repo) -> str:
    """What is shown about the last commit."""
    with open_repository(repo.path, read_environment(repo.environ)) as repository:
        change = repository.change(Selection("commit"))
        return read_guidance(
            change, gate_for(repository, change, base=None, definitions=None), repository
        )


def test_the_files_of_the_trusted_revision_above_what_changes_are_shown_and_the_changes_own_are_not(
    repo,
):
    (repo.path / "CLAUDE.md").symlink_to("AGENTS.md")
    repo.commit(**GATE, **{
        "AGENTS.md": "Root \x1b rules.\n", "a/CLAUDE.md": "Rules of a.\n", "a/b/AGENTS.md": "Rules of b.\n",
        "c/AGENTS.md": "Of no interest.\n", "d/AGENTS.md": " \n",
    })  # fmt: skip
    repo.commit(**{"AGENTS.md": "Anything goes.\n", "a/b/AGENTS.md": "Anything.\n", "a/b/x.py": "x\n", "d/y": "y\n",
                   "new/AGENTS.md": "New rules.\n"})  # fmt: skip
    expected = "==== AGENTS.md\nRoot \x1b rules.\n\n==== a/CLAUDE.md\nRules of a.\n\n==== a/b/AGENTS.md\nRules of b."
    assert guidance_shown_in(repo) == expected


def test_a_gate_that_comes_with_the_change_brings_no_conventions(repo):
    repo.commit(**{"a.py": "a\n"})
    repo.commit(**GATE, **{"AGENTS.md": "Anything goes.\n"})
    assert guidance_shown_in(repo) == ""


def test_long_files_are_cut_and_folders_beyond_the_limit_named(repo):
    many = {f"f{n:03}/x.py": "x\n" for n in range(250)}
    repo.commit(**GATE, **{"AGENTS.md": "r" * (MAX_GUIDANCE + 7), "f000/AGENTS.md": "never shown"})
    repo.commit(**many)
    text = guidance_shown_in(repo)
    assert "[7 characters left out here]" in text
    assert "==== f000/AGENTS.md\n\n[11 characters left out here]" in text
    assert text.endswith("[51 folders not looked into]")
    assert len(text) < MAX_GUIDANCE + 300
