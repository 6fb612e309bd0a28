"""Linked worktrees: what a snapshot leaves out, what it must not leave out, and which working tree
has the store.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from gitbench import Bench, fingerprint

from vibe_gate.domain.change import Selection

SECRET = 'key = "hidden"\n'


def changed_paths(bench: Bench, start: Path | None = None) -> list[str]:
    """The paths that differ between HEAD and the working tree."""
    with bench.open(start) as repository:
        return [file.path for file in repository.change(Selection("worktree")).files]


LEFT_OUT = {
    "where Claude Code makes them": "git worktree add -q -b one .claude/worktrees/one",
    "several, in folders of other names": "git worktree add -q -b one .worktrees/one; "
    "git worktree add -q -b two wt/two",
    "where git ignores them": "echo .claude/ >.git/info/exclude; git worktree add -q -b one .claude/worktrees/one",
    "in names that git takes for patterns": "git worktree add -q -b one 'app/[id]/*'; "
    r"git worktree add -q -b two 'a\b'; git worktree add -q -b three ':(top)x'; git worktree add -q -b four '!y'",
    "in names that git quotes": r"""git worktree add -q -b one "$(printf 'new\nline')"; git worktree add -q -b two é""",
    "inside of one another": "git worktree add -q -b one wt/one; cd wt/one; git worktree add -q -b two wt/two",
    "without a branch, with edits": "git worktree add -q --detach wt/one; echo edited >wt/one/a.txt; echo x >wt/one/x",
    "locked": "git worktree add -q --lock -b one wt/one",
    "without a commit": "git worktree add -q -b one wt/one; git -C wt/one symbolic-ref HEAD refs/heads/unborn",
    "moved by git": "git worktree add -q -b one wt/one; git worktree move wt/one moved",
    "staged as a gitlink before": "git worktree add -q -b one wt/one; git add wt 2>/dev/null; git commit -qm link; "
    "git -C wt/one commit -q --allow-empty -m more",
}


@pytest.mark.parametrize("arrangement", LEFT_OUT)
def test_a_linked_worktree_is_no_part_of_a_snapshot(seeded: Bench, arrangement: str) -> None:
    subprocess.run(
        LEFT_OUT[arrangement], shell=True, check=True, cwd=seeded.root, env=seeded.environ
    )
    before = fingerprint(seeded.root)
    assert changed_paths(seeded) == []
    assert fingerprint(seeded.root) == before


def test_a_snapshot_in_a_linked_worktree_leaves_out_those_inside_of_it(seeded: Bench) -> None:
    seeded.git("worktree", "add", "-q", "-b", "one", ".claude/worktrees/one")
    worktree = Bench(seeded.root / ".claude/worktrees/one", seeded.environ)
    worktree.git("worktree", "add", "-q", "-b", "two", ".claude/worktrees/two")
    worktree.write("new.txt", "x\n")
    assert changed_paths(worktree) == ["new.txt"]


def test_the_main_working_tree_inside_of_a_linked_one_is_left_out(
    seeded: Bench, tmp_path: Path
) -> None:
    seeded.git("worktree", "add", "-q", "--no-checkout", "-b", "outer", "../outer")
    outer = Bench(tmp_path / "outer", seeded.environ)
    outer.git("reset", "-q", "--hard")
    shutil.move(seeded.root, outer.root / "inner")
    subprocess.run(
        ["git", "worktree", "repair", outer.root],
        check=True,
        cwd=outer.root / "inner",
        env=seeded.environ,
    )
    assert changed_paths(outer) == []


SEEN = {
    "a `.git` that claims to be a registered worktree": (
        "mkdir fake; cp a.txt fake; cp wt/one/.git fake/.git",
        ["fake"],
    ),
    "a worktree that was moved by hand": ("mv wt/one moved", ["moved"]),
    "a folder whose `.git` is gone": (
        "rm wt/one/.git; rm -r wt/one/src",
        ["wt/one/a.txt", "wt/one/link", "wt/one/tool.sh"],
    ),
    "a folder that is another repository by now": (
        "rm -r wt/one; git init -q wt/one; git -C wt/one commit -q --allow-empty -m x",
        ["wt/one"],
    ),
    "files that were put where a worktree was removed": (
        "git worktree remove wt/one; mkdir -p wt/one; echo x >wt/one/x",
        ["wt/one/x"],
    ),
    "a registration that leads to a folder of files": (
        "mkdir .git/worktrees/evil; echo $PWD/src/.git >.git/worktrees/evil/gitdir; echo more >src/app.py",
        ["src/app.py"],
    ),
    "a worktree in the place of tracked files": (
        "rm -r src; git worktree add -q -b two src; rm src/a.txt src/link src/tool.sh; rm -r src/src; "
        "mkdir -p src/deep/er; echo deep >src/deep/er/file.txt; echo edited >src/app.py",
        ["src/app.py"],
    ),
    "a worktree in the place of a tracked file": (
        "rm a.txt; git worktree add -q -b two a.txt",
        ["a.txt"],
    ),
    "another repository": (
        "git init -q other; git -C other commit -q --allow-empty -m x",
        ["other"],
    ),
}


@pytest.mark.parametrize("attack", SEEN)
def test_nothing_else_is_hidden_as_a_linked_worktree(seeded: Bench, attack: str) -> None:
    script, expected = SEEN[attack]
    seeded.git("worktree", "add", "-q", "-b", "one", "wt/one")
    subprocess.run(script, shell=True, check=True, cwd=seeded.root, env=seeded.environ)
    assert changed_paths(seeded) == expected


@pytest.mark.slow
def test_a_snapshot_still_holds_when_an_agent_commits_in_an_inner_worktree(seeded: Bench) -> None:
    seeded.git("worktree", "add", "-q", "-b", "one", "wt/one")
    inner = Bench(seeded.root / "wt/one", seeded.environ)
    with seeded.open() as repository:
        tree = repository.snapshot()
        inner.commit(**{"new.txt": "x\n"})
        assert repository.still_holds(tree)
        seeded.git("worktree", "add", "-q", "-b", "two", "wt/two")
        assert repository.still_holds(tree)
        seeded.git("worktree", "remove", "wt/one")
        assert repository.still_holds(tree)
        seeded.write("wt/plain", SECRET)
        assert not repository.still_holds(tree)


@pytest.mark.slow
def test_a_submodule_is_no_linked_worktree(seeded: Bench, tmp_path: Path) -> None:
    other = Bench(tmp_path / "other", seeded.environ)
    other.root.mkdir()
    other.git("init", "-q")
    other.commit(x="x\n")
    seeded.git(
        "-c", "protocol.file.allow=always", "submodule", "add", "-q", os.fspath(other.root), "sub"
    )
    seeded.commit("sub")
    Bench(seeded.root / "sub", seeded.environ).commit(y="y\n")
    assert changed_paths(seeded) == ["sub"]
