"""The reference-transaction hook: an agent's branch moves only to what a hook let through; people's
always.
"""

from __future__ import annotations

import pytest
from hooked import Hooked, copy_template, install_gate, open_hooked, start_repository

AGENT = {"CLAUDECODE": "1"}
PERSON: dict[str, str] = {}

BYPASS = "git checkout -q --detach; git commit -qanm bad"
REVIEWED = "echo g >g; git add g; git commit -qm good"

FAILS = {"a": "<<<<<<< ours\n=======\n>>>>>>> theirs\n"}
"""A change that the built-in gate stops."""


def prepare_branches(repository: Hooked) -> None:
    """Two branches that parted, an upstream that is ahead, and hooks that none of these commits
    went through.
    """
    for branch, name in (("topic", "b"), ("other", "c")):
        repository.git("checkout", "-q", "-b", branch, "main")
        commit(repository, **{name: f"{branch}\n"})
    repository.git("checkout", "-q", "main")
    commit(repository, d="main\n")
    upstream = repository.path.parent / "upstream"
    repository.git("clone", "-q", str(repository.path), str(upstream))
    remote = open_hooked(upstream, repository.environ)
    commit(remote, e="upstream\n")
    remote.git("checkout", "-q", "-b", "new")
    commit(remote, f="new\n")
    remote.git("checkout", "-q", "main")
    repository.git("remote", "add", "origin", "../upstream")
    install_gate(repository, "install git")


@pytest.fixture
def repository(templates, tmp_path, environ) -> Hooked:
    template = templates / "transactions"
    if not template.exists():
        prepare_branches(start_repository(template / "repository", environ))
    copy_template(template / "upstream", tmp_path / "upstream", environ, prepare_branches)
    return copy_template(
        template / "repository", tmp_path / "repository", environ, prepare_branches
    )


def commit(repository: Hooked, *flags: str, environ: dict[str, str] = PERSON, **files: str) -> None:
    repository.write(**files)
    repository.git("add", *files)
    repository.git("commit", "-q", "-m", "x", *flags, **environ)


def amend(repository: Hooked, actor: dict[str, str]) -> None:
    commit(repository, environ=actor, g="g\n")
    repository.git("commit", "-q", "--amend", "-m", "other words", **actor)
    repository.write(g="more\n")
    repository.git("commit", "-q", "-a", "--amend", "--no-edit", **actor)


def rebase_with_edits(repository: Hooked, actor: dict[str, str]) -> None:
    repository.git("checkout", "-q", "topic")
    for name in ("g", "h", "i"):
        commit(repository, environ=actor, **{name: f"{name}\n"})
    commands = "sed -i -e 2s/pick/reword/ -e 3s/pick/fixup/ -e 4s/pick/edit/"
    repository.git("rebase", "-q", "-i", "main", GIT_SEQUENCE_EDITOR=commands, **actor)
    repository.write(i="edited\n")
    repository.git("commit", "-q", "-a", "--amend", "--no-edit", **actor)
    repository.git("rebase", "--continue", **actor)


def pull_by_url(repository: Hooked, actor: dict[str, str]) -> None:
    repository.git("pull", "-q", "--no-rebase", "--no-edit", "../upstream", "new", **actor)


def stash(repository: Hooked, actor: dict[str, str]) -> None:
    repository.write(a="stashed\n", new="untracked\n")
    repository.git("stash", "-q", "-u", **actor)
    repository.git("stash", "branch", "from-stash", **actor)


def commit_detached(repository: Hooked, actor: dict[str, str]) -> None:
    repository.git("checkout", "-q", "--detach", **actor)
    commit(repository, environ=actor, g="g\n")
    repository.git("checkout", "-q", "-b", "kept", **actor)


def apply_mail(repository: Hooked, actor: dict[str, str]) -> None:
    mail = repository.git("format-patch", "--stdout", "-1", "topic", **actor)
    repository.git("am", "-q", stdin=mail + "\n", **actor)


def commit_in_worktree(repository: Hooked, actor: dict[str, str]) -> None:
    repository.git("worktree", "add", "-q", "../linked", "-b", "linked", **actor)
    commit(
        open_hooked(repository.path.parent / "linked", repository.environ), environ=actor, g="g\n"
    )


def squash(repository: Hooked, actor: dict[str, str]) -> None:
    repository.git("checkout", "-q", "--detach", **actor)
    commit(repository, environ=actor, g="g\n")
    commit(repository, environ=actor, h="h\n")
    repository.git("reset", "-q", "--soft", "HEAD~2", **actor)
    repository.git("commit", "-q", "-n", "-m", "both", **actor)
    repository.git("branch", "-f", "main", "HEAD", **actor)


def pick_and_amend(repository: Hooked, actor: dict[str, str]) -> None:
    repository.git("checkout", "-q", "--detach", **actor)
    repository.git("cherry-pick", "topic", **actor)
    repository.write(b="more\n")
    repository.git("commit", "-q", "-a", "--amend", "--no-edit", **actor)
    repository.git("branch", "-f", "main", "HEAD", **actor)


def pull_and_amend(repository: Hooked, actor: dict[str, str]) -> None:
    repository.git("pull", "-q", "origin", "main", **actor)
    repository.write(e="more\n")
    repository.git("commit", "-q", "-a", "--amend", "--no-edit", **actor)


def reword(repository: Hooked, actor: dict[str, str]) -> None:
    words = ("--msg-filter", "sed s/x/y/", "--", "main~1..topic")
    repository.git("filter-branch", "-f", *words, FILTER_BRANCH_SQUELCH_WARNING="1", **actor)


HARMLESS = {
    "a commit": lambda repository, actor: commit(repository, environ=actor, g="g\n"),
    "an empty commit": lambda repository, actor: repository.git("commit", "-q", "--allow-empty", "-n", "-m", "empty", **actor),
    "amends": amend,
    "a squash of reviewed commits": squash,
    "an amended pick without a branch": pick_and_amend,
    "an amend of a pulled commit": pull_and_amend,
    "a fast-forward pull": lambda repository, actor: repository.git("pull", "-q", "origin", "main", **actor),
    "a fetch into a branch": lambda repository, actor: repository.git("fetch", "-q", "origin", "new:new", **actor),
    "a pull by address": pull_by_url,
    "a pull that rebases": lambda repository, actor: (commit(repository, environ=actor, g="g\n"),
                                                      repository.git("pull", "-q", "--rebase", "origin", "main", **actor)),
    "a merge": lambda repository, actor: repository.git("merge", "-q", "--no-edit", "topic", **actor),
    "a rebase": lambda repository, actor: repository.git("rebase", "-q", "main", "topic", **actor),
    "a rebase by mails": lambda repository, actor: repository.git("rebase", "-q", "--apply", "main", "topic", **actor),
    "a rebase with edits": rebase_with_edits,
    "a cherry-pick": lambda repository, actor: repository.git("cherry-pick", "topic", "other", **actor),
    "a revert": lambda repository, actor: repository.git("revert", "--no-edit", "HEAD", **actor),
    "am": apply_mail,
    "a stash and its branch": stash,
    "a linked worktree": commit_in_worktree,
    "a detached HEAD": commit_detached,
    "a rewrite of messages": reword,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_work_of_an_agent_goes_through(repository, name):
    HARMLESS[name](repository, AGENT)
    assert [
        record for record in repository.records() if "not checked" in record.get("reason", "")
    ] == []


@pytest.mark.slow
def test_a_person_may_do_what_an_agent_may_not(repository):
    repository.write(**FAILS)
    assert repository.run("git", "commit", "-qanm", "x").code == 0
    repository.git("filter-branch", "-f", "--index-filter", "git rm -q --cached c", "--", "main~1..main",
             FILTER_BRANCH_SQUELCH_WARNING="1")  # fmt: skip
    repository.git(
        "update-ref",
        "refs/heads/main",
        repository.git("commit-tree", "-m", "x", "-p", "HEAD", "HEAD~1^{tree}"),
    )


@pytest.mark.slow
def test_an_agent_moves_no_branch_to_a_tree_that_no_hook_let_through(repository):
    before = repository.git("rev-parse", "main")
    repository.write(**FAILS)
    result = repository.run("git", "commit", "-qanm", "bypass", **AGENT)
    assert (result.code, repository.git("rev-parse", "main")) == (128, before)
    assert "refs/heads/main was not moved: no hook let these commits through" in result.text
    assert "Make the commit with `git commit` and without --no-verify" in result.text
    assert repository.run("git", "commit", "-qam", "blocked", **AGENT).code == 1
    assert repository.run("git", "commit", "-qanm", "blocked", **AGENT).code == 128
    commit(repository, environ=AGENT, a="good\n")  # the way that the refusal names


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
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
def test_no_indirect_way_makes_an_agents_commit_past_the_hooks(repository, script):
    known_trees = set(repository.git("log", "--all", "--format=%T").split())
    repository.write(**FAILS)
    repository.run("sh", "-c", script, **AGENT)
    assert (
        set(repository.git("--no-replace-objects", "log", "--branches", "--format=%T").split())
        <= known_trees
    )


@pytest.mark.slow
def test_a_conflict_that_a_rebase_continues_past_the_hooks_needs_a_review(repository):
    repository.git("checkout", "-q", "topic")
    commit(repository, environ=AGENT, d="topic\n")
    repository.run("git", "rebase", "main", **AGENT)
    repository.write(d="both\n")
    repository.git("add", "d")
    result = repository.run("git", "rebase", "--continue", **AGENT)
    assert "refs/heads/topic was not moved" in result.text
    repository.git("rebase", "--abort")
    repository.run("git", "rebase", "main", **AGENT)
    repository.write(d="both\n")
    repository.git("add", "d")
    repository.git("commit", "-q", "-m", "both", **AGENT)
    repository.git("rebase", "--continue", **AGENT)


@pytest.mark.slow
def test_a_commit_that_was_reviewed_afterwards_may_be_moved_to(repository):
    repository.write(a="good\n")
    repository.git("checkout", "-q", "--detach")
    repository.git("commit", "-qanm", "x", **AGENT)
    assert repository.run("git", "branch", "-f", "main", **AGENT).code != 0
    repository.git("checkout", "-q", "-b", "other-way")  # a person
    repository.run("vibe-gate", "review", "--no-judge", "--commit", "HEAD")
    repository.git("branch", "-f", "main", **AGENT)


@pytest.mark.slow
def test_a_broken_installation_stops_nobody_and_says_so(repository):
    script = repository.path / ".git" / "hooks" / "reference-transaction"
    python = (
        next(line for line in script.read_text().split("\n") if "-m vibe_gate" in line)
        .split("|")[1]
        .split()[0]
    )
    script.write_text(script.read_text().replace(python, "/nowhere/python"))
    repository.write(**FAILS)
    result = repository.run("git", "commit", "-qanm", "x", **AGENT)
    assert (result.code, "not checked whether a hook let this commit through" in result.text) == (
        0,
        True,
    )


@pytest.mark.slow
def test_a_hook_that_was_there_runs_first_with_the_same_input(repository):
    repository.run("vibe-gate", "uninstall", "git")
    theirs = repository.path / ".git" / "hooks" / "reference-transaction"
    theirs.write_text('#!/bin/sh\n[ "$1" = prepared ] && cat >>.git/seen\nexit 0\n')
    theirs.chmod(0o755)
    install_gate(repository, "install git")
    commit(repository, g="g\n")
    assert "refs/heads/main" in (repository.path / ".git" / "seen").read_text()
    repository.write(**FAILS)
    assert repository.run("git", "commit", "-qanm", "x", **AGENT).code == 128
    repository.run("vibe-gate", "uninstall", "git")
    assert theirs.read_text().startswith("#!/bin/sh\n[ ")
