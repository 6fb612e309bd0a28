"""The reference-transaction hook: an agent's branch moves only to what a hook let through; people's
always.
"""

from __future__ import annotations

import pytest
from hooked import Hooked, again, at, put_in, started

AGENT = {"CLAUDECODE": "1"}
PERSON: dict[str, str] = {}

BYPASS = "git checkout -q --detach; git commit -qanm bad"
REVIEWED = "echo g >g; git add g; git commit -qm good"

FAILS = {"a": "<<<<<<< ours\n=======\n>>>>>>> theirs\n"}
"""A change that the built-in gate stops."""


def prepared(here: Hooked) -> None:
    """Two branches that parted, an upstream that is ahead, and hooks that none of these commits
    went through.
    """
    for branch, name in (("topic", "b"), ("other", "c")):
        here.git("checkout", "-q", "-b", branch, "main")
        commit(here, **{name: f"{branch}\n"})
    here.git("checkout", "-q", "main")
    commit(here, d="main\n")
    upstream = here.path.parent / "upstream"
    here.git("clone", "-q", str(here.path), str(upstream))
    there = at(upstream, here.environ)
    commit(there, e="upstream\n")
    there.git("checkout", "-q", "-b", "new")
    commit(there, f="new\n")
    there.git("checkout", "-q", "main")
    here.git("remote", "add", "origin", "../upstream")
    put_in(here, "install git")


@pytest.fixture
def here(kept, tmp_path, environ) -> Hooked:
    made = kept / "transactions"
    if not made.exists():
        prepared(started(made / "repository", environ))
    again(made / "upstream", tmp_path / "upstream", environ, prepared)
    return again(made / "repository", tmp_path / "repository", environ, prepared)


def commit(here: Hooked, *flags: str, environ: dict[str, str] = PERSON, **files: str) -> None:
    here.write(**files)
    here.git("add", *files)
    here.git("commit", "-q", "-m", "x", *flags, **environ)


def amended(here: Hooked, who: dict[str, str]) -> None:
    commit(here, environ=who, g="g\n")
    here.git("commit", "-q", "--amend", "-m", "other words", **who)
    here.write(g="more\n")
    here.git("commit", "-q", "-a", "--amend", "--no-edit", **who)


def rebased_with_edits(here: Hooked, who: dict[str, str]) -> None:
    here.git("checkout", "-q", "topic")
    for name in ("g", "h", "i"):
        commit(here, environ=who, **{name: f"{name}\n"})
    commands = "sed -i -e 2s/pick/reword/ -e 3s/pick/fixup/ -e 4s/pick/edit/"
    here.git("rebase", "-q", "-i", "main", GIT_SEQUENCE_EDITOR=commands, **who)
    here.write(i="edited\n")
    here.git("commit", "-q", "-a", "--amend", "--no-edit", **who)
    here.git("rebase", "--continue", **who)


def pulled_by_url(here: Hooked, who: dict[str, str]) -> None:
    here.git("pull", "-q", "--no-rebase", "--no-edit", "../upstream", "new", **who)


def stashed(here: Hooked, who: dict[str, str]) -> None:
    here.write(a="stashed\n", new="untracked\n")
    here.git("stash", "-q", "-u", **who)
    here.git("stash", "branch", "from-stash", **who)


def detached(here: Hooked, who: dict[str, str]) -> None:
    here.git("checkout", "-q", "--detach", **who)
    commit(here, environ=who, g="g\n")
    here.git("checkout", "-q", "-b", "kept", **who)


def applied(here: Hooked, who: dict[str, str]) -> None:
    mail = here.git("format-patch", "--stdout", "-1", "topic", **who)
    here.git("am", "-q", stdin=mail + "\n", **who)


def in_a_worktree(here: Hooked, who: dict[str, str]) -> None:
    here.git("worktree", "add", "-q", "../linked", "-b", "linked", **who)
    commit(at(here.path.parent / "linked", here.environ), environ=who, g="g\n")


def squashed(here: Hooked, who: dict[str, str]) -> None:
    here.git("checkout", "-q", "--detach", **who)
    commit(here, environ=who, g="g\n")
    commit(here, environ=who, h="h\n")
    here.git("reset", "-q", "--soft", "HEAD~2", **who)
    here.git("commit", "-q", "-n", "-m", "both", **who)
    here.git("branch", "-f", "main", "HEAD", **who)


def picked_and_amended(here: Hooked, who: dict[str, str]) -> None:
    here.git("checkout", "-q", "--detach", **who)
    here.git("cherry-pick", "topic", **who)
    here.write(b="more\n")
    here.git("commit", "-q", "-a", "--amend", "--no-edit", **who)
    here.git("branch", "-f", "main", "HEAD", **who)


def pulled_and_amended(here: Hooked, who: dict[str, str]) -> None:
    here.git("pull", "-q", "origin", "main", **who)
    here.write(e="more\n")
    here.git("commit", "-q", "-a", "--amend", "--no-edit", **who)


def reworded(here: Hooked, who: dict[str, str]) -> None:
    words = ("--msg-filter", "sed s/x/y/", "--", "main~1..topic")
    here.git("filter-branch", "-f", *words, FILTER_BRANCH_SQUELCH_WARNING="1", **who)


HARMLESS = {
    "a commit": lambda here, who: commit(here, environ=who, g="g\n"),
    "an empty commit": lambda here, who: here.git("commit", "-q", "--allow-empty", "-n", "-m", "empty", **who),
    "amends": amended,
    "a squash of reviewed commits": squashed,
    "an amended pick without a branch": picked_and_amended,
    "an amend of a pulled commit": pulled_and_amended,
    "a fast-forward pull": lambda here, who: here.git("pull", "-q", "origin", "main", **who),
    "a fetch into a branch": lambda here, who: here.git("fetch", "-q", "origin", "new:new", **who),
    "a pull by address": pulled_by_url,
    "a pull that rebases": lambda here, who: (commit(here, environ=who, g="g\n"),
                                              here.git("pull", "-q", "--rebase", "origin", "main", **who)),
    "a merge": lambda here, who: here.git("merge", "-q", "--no-edit", "topic", **who),
    "a rebase": lambda here, who: here.git("rebase", "-q", "main", "topic", **who),
    "a rebase by mails": lambda here, who: here.git("rebase", "-q", "--apply", "main", "topic", **who),
    "a rebase with edits": rebased_with_edits,
    "a cherry-pick": lambda here, who: here.git("cherry-pick", "topic", "other", **who),
    "a revert": lambda here, who: here.git("revert", "--no-edit", "HEAD", **who),
    "am": applied,
    "a stash and its branch": stashed,
    "a linked worktree": in_a_worktree,
    "a detached HEAD": detached,
    "a rewrite of messages": reworded,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_work_of_an_agent_goes_through(here, name):
    HARMLESS[name](here, AGENT)
    assert [record for record in here.records() if "not checked" in record.get("reason", "")] == []


@pytest.mark.slow
def test_a_person_may_do_what_an_agent_may_not(here):
    here.write(**FAILS)
    assert here.run("git", "commit", "-qanm", "x").code == 0
    here.git("filter-branch", "-f", "--index-filter", "git rm -q --cached c", "--", "main~1..main",
             FILTER_BRANCH_SQUELCH_WARNING="1")  # fmt: skip
    here.git(
        "update-ref",
        "refs/heads/main",
        here.git("commit-tree", "-m", "x", "-p", "HEAD", "HEAD~1^{tree}"),
    )


@pytest.mark.slow
def test_an_agent_moves_no_branch_to_a_tree_that_no_hook_let_through(here):
    before = here.git("rev-parse", "main")
    here.write(**FAILS)
    done = here.run("git", "commit", "-qanm", "bypass", **AGENT)
    assert (done.code, here.git("rev-parse", "main")) == (128, before)
    assert "refs/heads/main was not moved: no hook let these commits through" in done.text
    assert "Make the commit with `git commit` and without --no-verify" in done.text
    assert here.run("git", "commit", "-qam", "blocked", **AGENT).code == 1
    assert here.run("git", "commit", "-qanm", "blocked", **AGENT).code == 128
    commit(here, environ=AGENT, a="good\n")  # the way that the refusal names


@pytest.mark.slow
@pytest.mark.parametrize(
    "way",
    [
        """python3 -c "import subprocess; subprocess.run(['git', 'commit', '-anm', 'x'])" """,
        "echo Z2l0IGNvbW1pdCAtYW5tIHg= | base64 -d | sh",
        "F=-anm; git commit $F x",
        "git checkout -q --detach; git commit -qanm x; git branch -f main",
        "git stash -q; git reset -q --hard stash@{0}",
        "git add -A; git update-ref refs/heads/main $(git commit-tree -m x -p HEAD $(git write-tree))",
        "git add -A; cd .git; git update-ref refs/heads/main $(git commit-tree -m x -p HEAD $(git write-tree))",
        "git add -A; git merge -q $(git commit-tree -m x -p HEAD $(git write-tree))",
        "git add -A; git fetch -q . $(git commit-tree -m x -p HEAD $(git write-tree)):refs/heads/new",
        "git symbolic-ref HEAD refs/heads/new; git commit -qanm x",
        f"{BYPASS}; git fetch -q . HEAD:main",
        f"{BYPASS}; git fetch -q $PWD HEAD:main",
        f"{BYPASS}; git fetch -q . HEAD; git checkout -q main; git merge -q --ff-only FETCH_HEAD",
        f"{BYPASS}; {REVIEWED} --amend; git branch -f main HEAD",
        f"{BYPASS}; {REVIEWED}; git symbolic-ref HEAD refs/heads/main; git commit -qnm one",
        f"{BYPASS}; c=$(git rev-parse HEAD); git replace main $c; git branch -f main $c",
        f"{BYPASS}; c=$(git rev-parse HEAD); echo $(git rev-parse main) $c >.git/g; "
        "GIT_GRAFT_FILE=.git/g git branch -f main $c",
    ],
)  # fmt: skip
def test_no_indirect_way_makes_an_agents_commit_past_the_hooks(here, way):
    known = set(here.git("log", "--all", "--format=%T").split())
    here.write(**FAILS)
    here.run("sh", "-c", way, **AGENT)
    assert (
        set(here.git("--no-replace-objects", "log", "--branches", "--format=%T").split()) <= known
    )


@pytest.mark.slow
def test_a_conflict_that_a_rebase_continues_past_the_hooks_needs_a_review(here):
    here.git("checkout", "-q", "topic")
    commit(here, environ=AGENT, d="topic\n")
    here.run("git", "rebase", "main", **AGENT)
    here.write(d="both\n")
    here.git("add", "d")
    done = here.run("git", "rebase", "--continue", **AGENT)
    assert "refs/heads/topic was not moved" in done.text
    here.git("rebase", "--abort")
    here.run("git", "rebase", "main", **AGENT)
    here.write(d="both\n")
    here.git("add", "d")
    here.git("commit", "-q", "-m", "both", **AGENT)
    here.git("rebase", "--continue", **AGENT)


@pytest.mark.slow
def test_a_commit_that_was_reviewed_afterwards_may_be_moved_to(here):
    here.write(a="good\n")
    here.git("checkout", "-q", "--detach")
    here.git("commit", "-qanm", "x", **AGENT)
    assert here.run("git", "branch", "-f", "main", **AGENT).code != 0
    here.git("checkout", "-q", "-b", "other-way")  # a person
    here.run("vibe-gate", "review", "--no-judge", "--commit", "HEAD")
    here.git("branch", "-f", "main", **AGENT)


@pytest.mark.slow
def test_a_broken_installation_stops_nobody_and_says_so(here):
    script = here.path / ".git" / "hooks" / "reference-transaction"
    python = (
        next(line for line in script.read_text().split("\n") if "-m vibe_gate" in line)
        .split("|")[1]
        .split()[0]
    )
    script.write_text(script.read_text().replace(python, "/nowhere/python"))
    here.write(**FAILS)
    done = here.run("git", "commit", "-qanm", "x", **AGENT)
    assert (done.code, "not checked whether a hook let this commit through" in done.text) == (
        0,
        True,
    )


@pytest.mark.slow
def test_a_hook_that_was_there_runs_first_with_the_same_input(here):
    here.run("vibe-gate", "uninstall", "git")
    theirs = here.path / ".git" / "hooks" / "reference-transaction"
    theirs.write_text('#!/bin/sh\n[ "$1" = prepared ] && cat >>.git/seen\nexit 0\n')
    theirs.chmod(0o755)
    put_in(here, "install git")
    commit(here, g="g\n")
    assert "refs/heads/main" in (here.path / ".git" / "seen").read_text()
    here.write(**FAILS)
    assert here.run("git", "commit", "-qanm", "x", **AGENT).code == 128
    here.run("vibe-gate", "uninstall", "git")
    assert theirs.read_text().startswith("#!/bin/sh\n[ ")
