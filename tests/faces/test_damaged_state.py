"""A state.db that is damaged: each command puts it aside, says so once, and ends as it would
without.
"""

from __future__ import annotations

import pytest
from hooked import Hooked, install_gate, start_repository

SENTENCE = "was damaged (file is not a database), so a new one was begun: "


@pytest.fixture
def repository(tmp_path, environ) -> Hooked:
    repository = install_gate(start_repository(tmp_path / "r", environ), "install git")
    repository.write(a="reviewed\n")
    repository.git("commit", "-a", "-m", "reviewed")
    return repository


def damage(repository: Hooked) -> None:
    for path in (repository.path / ".git" / "vibe-gate").glob("state.db*"):
        path.unlink()
    (repository.path / ".git" / "vibe-gate" / "state.db").write_bytes(b"no database\n" * 1000)


def test_a_commit_goes_through_and_is_recorded_in_the_new_one(repository):
    damage(repository)
    repository.write(a="next\n")
    output = repository.git("commit", "-a", "-m", "next")
    assert output.count(SENTENCE) == 1
    assert [record["tree"] for record in repository.records()] == [repository.tree()]
    repository.write(a="third\n")
    assert SENTENCE not in repository.git("commit", "-a", "-m", "third")


COMMANDS = (
    "review HEAD~1 --no-judge", "review HEAD~1 --no-judge --json", "bundles list", "bundles list --json",
    "bundles show HEAD", "override list", "stats", "verify HEAD",
)  # fmt: skip


@pytest.mark.slow
def test_every_command_ends_as_it_would_with_a_new_one_and_says_it_once(repository, subtests):
    def run_command(command: str) -> tuple[int, str]:
        result = repository.run("vibe-gate", *command.split())
        return result.code, result.text

    for command in COMMANDS:
        with subtests.test(command=command):
            damage(repository)
            (repository.path / ".git" / "vibe-gate" / "state.db").unlink()
            code, _ = run_command(command)
            damage(repository)
            damaged_code, text = run_command(command)
            assert damaged_code == code, text
            assert text.count(SENTENCE) == 1, text
            assert run_command(command)[1].count(SENTENCE) == 0
