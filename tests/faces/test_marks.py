"""Picks, rebases and amended messages start no Python: sh notes them, and the next start records
them.
"""

from __future__ import annotations

import json
import os
import sys

import pytest
from command import started as fresh
from hooked import Hooked, again, put_in

pytestmark = pytest.mark.slow

AGENT = {"CLAUDECODE": "1"}
LATER = {"GIT_COMMITTER_DATE": "2031-01-01T00:00:00Z"}
"""Else a rebase makes the very commits that a cherry-pick made."""


@pytest.fixture
def here(kept, tmp_path, environ) -> Hooked:
    """Hooks, and a branch `topic` of two commits that they let through, beside one on main."""

    def finish(here: Hooked) -> None:
        put_in(here, "install git")
        here.git("checkout", "-q", "-b", "topic")
        commit(here, "b", "picked\n")
        commit(here, "c", "picked, too\n")
        here.git("checkout", "-q", "main")
        commit(here, "a", "elsewhere\n")

    return again(kept / "marks", tmp_path / "repository", environ, finish)


def commit(here: Hooked, name: str, text: str, *flags: str, **environ: str) -> str:
    here.write(**{name: text})
    here.git("add", name)
    return here.git("commit", "-q", *flags, "-m", name, **environ)


def marks(here: Hooked) -> list[str]:
    folder = here.path / ".git" / "vibe-gate" / "unrecorded"
    return sorted(path.name.split(".")[0] for path in folder.iterdir()) if folder.is_dir() else []


def bypasses(here: Hooked) -> list[tuple[object, object]]:
    kinds = [record for record in here.records() if record["kind"] == "bypassed"]
    return [(record.get("during", ""), record.get("hints", [])) for record in kinds]


def verified(here: Hooked, span: str) -> list[str]:
    rows = json.loads(here.run("vibe-gate", "verify", "--json", span).text)["commits"]
    return [row["status"] for row in rows]


def test_what_git_makes_by_itself_starts_no_python(here):
    done = fresh("install", "git", cwd=here.path, environ=here.environ | here.more)
    assert done.code == 0, done.err
    for name in ("pre-commit", "commit-msg", "post-commit", "post-rewrite"):
        hook = here.path / ".git" / "hooks" / name
        hook.write_text(hook.read_text().replace(sys.executable, "/gone/bin/python"))
    here.git("worktree", "add", "-q", "../linked", "main~1")
    linked = Hooked(here.path.parent / "linked", here.environ, here.more)
    for at in (here, linked):
        at.git("cherry-pick", "topic~1", "topic")
        at.git("commit", "-q", "--amend", "-m", f"in {at.path.name}")
    here.git("rebase", "-q", "main~2", "topic", **LATER)
    put_in(here, "install git")
    assert marks(here) == ["amend"] * 2 + ["cherry-pick"] * 4 + ["rebase"] * 2
    assert verified(here, "HEAD~1..HEAD") == ["reviewed"]  # its patch was
    assert marks(here) == []
    assert sorted(during for during, _ in bypasses(here)) == ["cherry-pick"] * 2 + ["rebase"] * 2
    rewritten = [
        record.get("during", "") for record in here.records() if record["kind"] == "rewritten"
    ]
    assert sorted(rewritten) == ["", "", "rebase", "rebase"]


def test_a_branch_that_is_gone_makes_no_bypass_of_what_git_made_of_it(here):
    here.git("cherry-pick", "topic~1")
    here.git("checkout", "-q", "-b", "rebased", "topic")
    here.git("rebase", "-q", "main~1", **LATER)
    here.git("rebase", "-q", "main")
    here.git("checkout", "-q", "main")
    here.git("reset", "-q", "--hard", "rebased")
    here.git("branch", "-q", "-D", "topic", "rebased")
    verified(here, "HEAD~1..HEAD")
    assert {during for during, _ in bypasses(here)} == {"cherry-pick", "rebase"}


def test_the_next_review_settles_them_with_their_time_and_an_agent_has_no_part_in_them(here):
    here.git("cherry-pick", "topic")
    assert (marks(here), bypasses(here)) == (["cherry-pick"], [])
    [mark] = (here.path / ".git" / "vibe-gate" / "unrecorded").iterdir()
    os.utime(mark, (1_700_000_000, 1_700_000_000))
    commit(here, "b", "an agent's\n", **AGENT)
    assert (marks(here), bypasses(here)) == ([], [("cherry-pick", [])])
    assert "2023-11-14T22:13:20.000+00:00" in [record["ts"] for record in here.records()]


@pytest.mark.parametrize("variable", ["CLAUDECODE", "AIDER_MODEL"])
def test_of_an_agent_they_keep_its_signs(here, variable):
    agent = {variable: "x y"}
    here.git("cherry-pick", "topic", **agent)
    here.git("commit", "-q", "--amend", "-m", "other words", **agent)
    here.git("rebase", "-q", "main~1", "topic", **agent, **LATER)
    assert set(marks(here)) == {"amend", "cherry-pick", "rebase"}
    verified(here, "HEAD~1..HEAD")
    told = [(during, variable in str(hints)) for during, hints in bypasses(here)]
    assert sorted(told) == [("cherry-pick", True), ("rebase", True), ("rebase", True)]


def test_what_an_agent_picked_is_an_agents_when_a_person_commits_it(here):
    here.git("cherry-pick", "topic", **AGENT)
    here.git("reset", "-q", "--soft", "HEAD~1")
    here.git("commit", "-q", "-m", "a person's")
    assert "CLAUDECODE" in str(here.records()[-1]["hints"])


def test_an_agent_goes_on_from_what_it_picked_without_a_branch(here):
    here.git("checkout", "-q", "--detach", **AGENT)
    here.git("cherry-pick", "topic", **AGENT)
    here.write(c="more\n")
    here.git("commit", "-q", "-a", "--amend", "--no-edit", **AGENT)
    here.git("branch", "-f", "main", "HEAD", **AGENT)


def test_what_a_person_commits_past_the_hooks_after_a_conflict_is_told_at_once(here):
    commit(here, "b", "main\n")
    assert here.run("git", "cherry-pick", "topic~1").code == 1
    assert "went past the hooks" in commit(here, "b", "both\n", "--no-verify")
    assert here.run("git", "rebase", "main", "topic").code == 1
    here.write(b="all\n")
    here.git("add", "b")
    assert "not what git makes there by itself" in here.git("rebase", "--continue")
    verified(here, "main..topic")
    assert bypasses(here) == [("", []), ("", []), ("rebase", [])]


@pytest.mark.parametrize("how", ["break", "kill"])
def test_what_a_person_commits_past_the_hooks_in_a_rebase_is_told_at_once(here, how):
    """Where it stopped and is given up, or was killed and gone on with: post-rewrite tells nothing
    of it.
    """
    steps = "sed -i 1abreak" if how == "break" else "true"
    if how == "kill":
        hook = here.path / ".git" / "hooks" / "prepare-commit-msg"
        hook.write_text("#!/bin/sh\nif grep -qx c $1; then rm $0; kill -9 $PPID; fi\n")
        hook.chmod(0o755)
    assert (
        here.run("git", "rebase", "-q", "-i", "main", "topic", GIT_SEQUENCE_EDITOR=steps).code == 0
    ) is (how == "break")
    assert "went past the hooks" in commit(here, "new", "sneaked in\n", "--no-verify")
    here.git("rebase", "--quit" if how == "break" else "--continue")
    assert verified(here, "main..HEAD") == ["bypassed", "reviewed"]


@pytest.mark.parametrize("branch", [True, False])
def test_a_fold_makes_no_bypass_of_what_git_picked_before_it_deleted_the_sources(here, branch):
    here.git("checkout", "-q", "topic")
    commit(here, "b", "picked again\n")
    here.git("commit", "-q", "--amend", "-m", "fixup! b")
    if not branch:
        here.git("checkout", "-q", "--detach")
        here.git("branch", "-q", "-D", "topic")
    here.git("rebase", "-q", "main", **LATER)
    here.git("update-ref", "-d", "ORIG_HEAD")
    here.git("reflog", "expire", "--expire=now", "--all")
    here.git("gc", "-q", "--prune=now")
    here.git(
        "rebase", "-q", "-i", "--autosquash", "main", GIT_SEQUENCE_EDITOR="sed -i '1aexec true'"
    )
    assert not [
        record
        for record in here.records()
        if record["kind"] == "bypassed" and "during" not in record
    ]


def test_a_fake_mark_makes_no_bypass_innocent(here):
    commit(here, "b", "past\n", "--no-verify")
    made = here.git("rev-parse", "HEAD")
    here.forget_records()
    folder = here.path / ".git" / "vibe-gate" / "unrecorded"
    folder.mkdir(exist_ok=True)
    for name in (
        f"cherry-pick.{made}.{made}",
        f"rebase.{'0' * 40}.{made}",
        f"amend.{made}.{'0' * 40}",
        "x",
    ):
        (folder / name).touch()
    assert verified(here, "HEAD~1..HEAD") == ["bypassed"]
    assert marks(here) == ["x"]


def test_an_agents_own_mark_moves_no_branch(here):
    here.write(b="past\n")
    here.git("add", "b")
    tree = here.git("write-tree")
    first, second = (
        here.git("commit-tree", tree, "-p", "HEAD", "-m", title).strip() for title in "xy"
    )
    folder = here.path / ".git" / "vibe-gate" / "unrecorded"
    folder.mkdir(exist_ok=True)
    (folder / f"cherry-pick.{first}.{second}").touch()
    assert here.run("git", "update-ref", "refs/heads/main", second, **AGENT).code != 0


def test_a_mark_of_a_commit_that_git_has_not_whole_stops_no_other(here):
    here.git("cherry-pick", "topic")
    tree = here.git("rev-parse", "HEAD^{tree}").strip()
    folder = here.path / ".git" / "vibe-gate" / "unrecorded"
    person = "P <p@example.org> 1 +0000"
    for line in (f"tree {tree}\nparent {'1' * 40}", f"tree {'2' * 40}"):
        (here.path / "made").write_text(f"{line}\nauthor {person}\ncommitter {person}\n\nm\n")
        made = here.git("hash-object", "-t", "commit", "-w", "--literally", "made").strip()
        (folder / f"rebase.{here.git('rev-parse', 'HEAD~1').strip()}.{made}").touch()
    assert verified(here, "HEAD~1..HEAD") == ["reviewed"]
    assert (marks(here), len(bypasses(here))) == ([], 1)


def test_nothing_is_written_through_a_link(here, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (here.path / ".git" / "vibe-gate" / "unrecorded").symlink_to(tmp_path / "elsewhere")
    here.git("cherry-pick", "topic")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert bypasses(here) == [("cherry-pick", [])]


def test_a_review_knows_what_a_commit_was_before(here):
    commit(here, "b", "an agent's\n", "--no-verify", AIDER_MODEL="x")
    here.git("commit", "-q", "--amend", "-m", "a person's words")
    assert marks(here) == ["amend"]
    here.run("vibe-gate", "review", "--quiet", "--no-judge", "--commit", "HEAD")
    [summary] = here.path.glob(f".vibe-artifacts/{here.git('rev-parse', 'HEAD')}/*/summary.json")
    assert "AIDER_MODEL" in str(json.loads(summary.read_text())["agent_authored"]["hints"])
