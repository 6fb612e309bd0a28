"""Which commits git made by itself of others: a pick is told from whatever differs from it in a
byte.
"""

from __future__ import annotations

import pytest
from gitbench import Bench

from vibe_gate.domain.environment import read_environment
from vibe_gate.git import Updates

LATER = {"GIT_COMMITTER_DATE": "2031-01-01T00:00:00Z"}
"""Else git makes the very commit that it picks."""

AFTERWARDS = {
    "git cherry-pick topic": True,
    "git cherry-pick topic; git commit --amend -m 'Other words'": True,
    "git cherry-pick -X ours conflict": True,
    "git cherry-pick -X theirs conflict": True,
    "git revert --no-edit HEAD": True,
    "git cherry-pick topic; echo more >>new; git commit -a --amend --no-edit": False,
    "git cherry-pick topic; chmod +x new; git commit -a --amend --no-edit": False,
    "git cherry-pick topic; git rm -q a; git commit --amend --no-edit": False,
    "git cherry-pick topic; echo x >x; git add x; git commit --amend --no-edit": False,
    "git cherry-pick -n topic; git update-index --add --cacheinfo 160000,$(git rev-parse main),m;"
    " git commit -C topic": False,
    "git cherry-pick conflict; echo both >a; git commit -a -C conflict": False,
}
"""Commands on main, and whether the commit that they end with is git's alone."""


@pytest.mark.parametrize("commands", AFTERWARDS)
def test_what_git_makes_by_itself_is_told_from_what_somebody_added(
    bench: Bench, commands: str
) -> None:
    bench.commit("Start", a="a\n", b="b\n")
    bench.git("branch", "-M", "main")
    bench.git("checkout", "-q", "-b", "topic")
    bench.commit("topic", new="new\n")
    bench.git("checkout", "-q", "-b", "conflict", "main")
    bench.commit("conflict", a="theirs\n", other="theirs\n")
    bench.git("checkout", "-q", "main")
    bench.commit("Main", a="ours\n", another="ours\n")
    bench.git("-c", f"alias.x=!{commands}; true", "x", env=LATER)
    head = bench.git("rev-parse", "HEAD")
    updates = Updates(bench.root, read_environment(bench.environ))
    assert (head in updates.made_by_git([head])) is AFTERWARDS[commands]
