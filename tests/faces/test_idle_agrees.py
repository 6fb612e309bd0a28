"""The fast path against the full one, in random states of a repository: where it speaks, the full path has no file."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest
from program import git

from vibe_gate.domain.change import Selection
from vibe_gate.errors import GateError
from vibe_gate.faces.cli.idle import nothing_to_review
from vibe_gate.git import open_repository

NAMES = ("a", "b", "d/c", "d/e", "x y", "ü")
FLAGS = ("--assume-unchanged", "--skip-worktree", "--no-assume-unchanged", "--no-skip-worktree")
ASKED = (("--staged", Selection("staged")), ("HEAD", Selection("worktree")))


def write(path: Path, text: str) -> None:
    if path.is_dir():
        return
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text)


def link(path: Path) -> None:
    if not os.path.lexists(path) and path.parent.exists():
        path.symlink_to("a")


def step(chance: random.Random) -> None:
    """One thing that people, agents and git do to a repository; git may refuse it."""
    name = chance.choice(NAMES)
    path = Path(name)
    choices = [
        lambda: write(path, chance.choice(["1\n", "2\n", "3\n", ""])),
        lambda: path.unlink(missing_ok=True),
        lambda: link(path),
        lambda: path.is_file() and path.chmod(chance.choice([0o644, 0o755])),
        lambda: path.is_file() and os.utime(path, (1, 1)),
        lambda: write(Path(".gitattributes"), chance.choice(["* text=auto\n", "* -diff\n", "* eol=crlf\n"])),
        lambda: Path(".git/info/exclude").write_text(chance.choice(["", "a\n", "d/\n", "*\n"])),
        *(
            lambda command=command: subprocess.run(["git", *command], capture_output=True)
            for command in (
                ("add", "--", name),
                ("add", "-A"),
                ("add", "-N", name),
                ("commit", "-qm", "x"),
                ("rm", "-qf", "--cached", name),
                ("update-index", chance.choice(FLAGS), name),
                ("reset", "-q", chance.choice(["--mixed", "--hard"])),
                ("checkout", "-q", "--", name),
                ("stash", "-qu"),
            )
        ),
    ]
    chance.choice(choices)()


def files(where: Path, selection: Selection) -> int:
    """How many files the full path finds; -1 where it refuses."""
    try:
        with open_repository(where, os.environ) as repository:
            return len(repository.change(selection).files)
    except GateError:
        return -1


@pytest.mark.parametrize("seed", range(12))
def test_where_the_fast_path_speaks_the_full_path_finds_no_file(tmp_path, monkeypatch, seed):
    git(tmp_path, "init", "-q")
    monkeypatch.chdir(tmp_path)
    chance = random.Random(seed)
    for _ in range(20):
        step(chance)
        for argument, selection in ASKED:
            if nothing_to_review([argument]) is not None:
                assert files(tmp_path, selection) == 0
