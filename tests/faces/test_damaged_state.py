"""A state.db that is damaged: each command puts it aside, says so once, and ends as it would
without.
"""

from __future__ import annotations

import pytest
from hooked import Hooked, put_in, started

SENTENCE = "was damaged (file is not a database), so a new one was begun: "


@pytest.fixture
def here(tmp_path, environ) -> Hooked:
    here = put_in(started(tmp_path / "r", environ), "install git")
    here.write(a="reviewed\n")
    here.git("commit", "-a", "-m", "reviewed")
    return here


def damage(here: Hooked) -> None:
    for path in (here.path / ".git" / "vibe-gate").glob("state.db*"):
        path.unlink()
    (here.path / ".git" / "vibe-gate" / "state.db").write_bytes(b"no database\n" * 1000)


def test_a_commit_goes_through_and_is_recorded_in_the_new_one(here):
    damage(here)
    here.write(a="next\n")
    said = here.git("commit", "-a", "-m", "next")
    assert said.count(SENTENCE) == 1
    assert [record["tree"] for record in here.records()] == [here.tree()]
    here.write(a="third\n")
    assert SENTENCE not in here.git("commit", "-a", "-m", "third")


@pytest.mark.parametrize(
    "command",
    [
        "review HEAD~1 --no-judge", "review HEAD~1 --no-judge --json", "bundles list", "bundles list --json",
        "bundles show HEAD", "override list", "stats", "verify HEAD",
    ],
)  # fmt: skip
def test_every_command_ends_as_it_would_with_a_new_one_and_says_it_once(here, command):
    def ended() -> tuple[int, str]:
        done = here.run("vibe-gate", *command.split())
        return done.code, done.text

    damage(here)
    (here.path / ".git" / "vibe-gate" / "state.db").unlink()
    code, _ = ended()
    damage(here)
    damaged_code, text = ended()
    assert damaged_code == code, text
    assert text.count(SENTENCE) == 1, text
    assert ended()[1].count(SENTENCE) == 0
