"""Picks, rebases and amended messages start no Python: sh notes them, and the next start records
them.
"""

from __future__ import annotations

import json
import os
import sys

import pytest
from command import run_unforked
from hooked import Hooked, copy_template, install_gate

pytestmark = pytest.mark.slow

AGENT = {"CLAUDECODE": "1"}
LATER = {"GIT_COMMITTER_DATE": "2031-01-01T00:00:00Z"}
"""Else a rebase makes the very commits that a cherry-pick made."""


@pytest.fixture
def repository(templates, tmp_path, environ) -> Hooked:
    """Hooks, and a branch `topic` of two commits that they let through, beside one on main."""

    def finish(repository: Hooked) -> None:
        install_gate(repository, "install git")
        repository.git("checkout", "-q", "-b", "topic")
        commit(repository, "b", "picked\n")
        commit(repository, "c", "picked, too\n")
        repository.git("checkout", "-q", "main")
        commit(repository, "a", "elsewhere\n")

    return copy_template(templates / "marks", tmp_path / "repository", environ, finish)


def commit(repository: Hooked, name: str, text: str, *flags: str, **environ: str) -> str:
    repository.write(**{name: text})
    repository.git("add", name)
    return repository.git("commit", "-q", *flags, "-m", name, **environ)


def marks(repository: Hooked) -> list[str]:
    folder = repository.path / ".git" / "vibe-gate" / "unrecorded"
    return sorted(path.name.split(".")[0] for path in folder.iterdir()) if folder.is_dir() else []


def bypasses(repository: Hooked) -> list[tuple[object, object]]:
    kinds = [record for record in repository.records() if record["kind"] == "bypassed"]
    return [(record.get("during", ""), record.get("hints", [])) for record in kinds]


def verified_statuses(repository: Hooked, span: str) -> list[str]:
    rows = json.loads(repository.run("vibe-gate", "verify", "--json", span).text)["commits"]
    return [row["status"] for row in rows]


def test_what_git_makes_by_itself_starts_no_python(repository):
    installation = run_unforked(
        "install", "git", cwd=repository.path, environ=repository.environ | repository.more
    )
    assert installation.code == 0, installation.err
    for name in ("pre-commit", "commit-msg", "post-commit", "post-rewrite"):
        hook = repository.path / ".git" / "hooks" / name
        hook.write_text(hook.read_text().replace(sys.executable, "/gone/bin/python"))
    repository.git("worktree", "add", "-q", "../linked", "main~1")
    linked = Hooked(repository.path.parent / "linked", repository.environ, repository.more)
    for at in (repository, linked):
        at.git("cherry-pick", "topic~1", "topic")
        at.git("commit", "-q", "--amend", "-m", f"in {at.path.name}")
    repository.git("rebase", "-q", "main~2", "topic", **LATER)
    install_gate(repository, "install git")
    assert marks(repository) == ["amend"] * 2 + ["cherry-pick"] * 4 + ["rebase"] * 2
    assert verified_statuses(repository, "HEAD~1..HEAD") == ["reviewed"]  # its patch was
    assert marks(repository) == []
    assert (
        sorted(during for during, _ in bypasses(repository)) == ["cherry-pick"] * 2 + ["rebase"] * 2
    )
    rewritten = [
        record.get("during", "") for record in repository.records() if record["kind"] == "rewritten"
    ]
    assert sorted(rewritten) == ["", "", "rebase", "rebase"]


def test_a_branch_that_is_gone_makes_no_bypass_of_what_git_made_of_it(repository):
    repository.git("cherry-pick", "topic~1")
    repository.git("checkout", "-q", "-b", "rebased", "topic")
    repository.git("rebase", "-q", "main~1", **LATER)
    repository.git("rebase", "-q", "main")
    repository.git("checkout", "-q", "main")
    repository.git("reset", "-q", "--hard", "rebased")
    repository.git("branch", "-q", "-D", "topic", "rebased")
    verified_statuses(repository, "HEAD~1..HEAD")
    assert {during for during, _ in bypasses(repository)} == {"cherry-pick", "rebase"}


def test_the_next_review_settles_them_with_their_time_and_an_agent_has_no_part_in_them(repository):
    repository.git("cherry-pick", "topic")
    assert (marks(repository), bypasses(repository)) == (["cherry-pick"], [])
    [mark] = (repository.path / ".git" / "vibe-gate" / "unrecorded").iterdir()
    os.utime(mark, (1_700_000_000, 1_700_000_000))
    commit(repository, "b", "an agent's\n", **AGENT)
    assert (marks(repository), bypasses(repository)) == ([], [("cherry-pick", [])])
    assert "2023-11-14T22:13:20.000+00:00" in [record["ts"] for record in repository.records()]


@pytest.mark.parametrize("variable", ["CLAUDECODE", "AIDER_MODEL"])
def test_of_an_agent_they_keep_its_signs(repository, variable):
    agent = {variable: "x y"}
    repository.git("cherry-pick", "topic", **agent)
    repository.git("commit", "-q", "--amend", "-m", "other words", **agent)
    repository.git("rebase", "-q", "main~1", "topic", **agent, **LATER)
    assert set(marks(repository)) == {"amend", "cherry-pick", "rebase"}
    verified_statuses(repository, "HEAD~1..HEAD")
    signs = [(during, variable in str(hints)) for during, hints in bypasses(repository)]
    assert sorted(signs) == [("cherry-pick", True), ("rebase", True), ("rebase", True)]


def test_what_an_agent_picked_is_an_agents_when_a_person_commits_it(repository):
    repository.git("cherry-pick", "topic", **AGENT)
    repository.git("reset", "-q", "--soft", "HEAD~1")
    repository.git("commit", "-q", "-m", "a person's")
    assert "CLAUDECODE" in str(repository.records()[-1]["hints"])


def test_an_agent_goes_on_from_what_it_picked_without_a_branch(repository):
    repository.git("checkout", "-q", "--detach", **AGENT)
    repository.git("cherry-pick", "topic", **AGENT)
    repository.write(c="more\n")
    repository.git("commit", "-q", "-a", "--amend", "--no-edit", **AGENT)
    repository.git("branch", "-f", "main", "HEAD", **AGENT)


def test_what_a_person_commits_past_the_hooks_after_a_conflict_is_told_at_once(repository):
    commit(repository, "b", "main\n")
    assert repository.run("git", "cherry-pick", "topic~1").code == 1
    assert "went past the hooks" in commit(repository, "b", "both\n", "--no-verify")
    assert repository.run("git", "rebase", "main", "topic").code == 1
    repository.write(b="all\n")
    repository.git("add", "b")
    assert "not what git makes there by itself" in repository.git("rebase", "--continue")
    verified_statuses(repository, "main..topic")
    assert bypasses(repository) == [("", []), ("", []), ("rebase", [])]


@pytest.mark.parametrize("ending", ["break", "kill"])
def test_what_a_person_commits_past_the_hooks_in_a_rebase_is_told_at_once(repository, ending):
    """Where it stopped and is given up, or was killed and gone on with: post-rewrite tells nothing
    of it.
    """
    steps = "sed -i 1abreak" if ending == "break" else "true"
    if ending == "kill":
        hook = repository.path / ".git" / "hooks" / "prepare-commit-msg"
        hook.write_text("#!/bin/sh\nif grep -qx c $1; then rm $0; kill -9 $PPID; fi\n")
        hook.chmod(0o755)
    assert (
        repository.run("git", "rebase", "-q", "-i", "main", "topic", GIT_SEQUENCE_EDITOR=steps).code
        == 0
    ) is (ending == "break")
    assert "went past the hooks" in commit(repository, "new", "sneaked in\n", "--no-verify")
    repository.git("rebase", "--quit" if ending == "break" else "--continue")
    assert verified_statuses(repository, "main..HEAD") == ["bypassed", "reviewed"]


@pytest.mark.parametrize("branch", [True, False])
def test_a_fold_makes_no_bypass_of_what_git_picked_before_it_deleted_the_sources(
    repository, branch
):
    repository.git("checkout", "-q", "topic")
    commit(repository, "b", "picked again\n")
    repository.git("commit", "-q", "--amend", "-m", "fixup! b")
    if not branch:
        repository.git("checkout", "-q", "--detach")
        repository.git("branch", "-q", "-D", "topic")
    repository.git("rebase", "-q", "main", **LATER)
    repository.git("update-ref", "-d", "ORIG_HEAD")
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "-q", "--prune=now")
    repository.git(
        "rebase", "-q", "-i", "--autosquash", "main", GIT_SEQUENCE_EDITOR="sed -i '1aexec true'"
    )
    assert not [
        record
        for record in repository.records()
        if record["kind"] == "bypassed" and "during" not in record
    ]


def test_a_fake_mark_makes_no_bypass_innocent(repository):
    commit(repository, "b", "past\n", "--no-verify")
    head = repository.git("rev-parse", "HEAD")
    repository.forget_records()
    folder = repository.path / ".git" / "vibe-gate" / "unrecorded"
    folder.mkdir(exist_ok=True)
    for name in (
        f"cherry-pick.{head}.{head}",
        f"rebase.{'0' * 40}.{head}",
        f"amend.{head}.{'0' * 40}",
        "x",
    ):
        (folder / name).touch()
    assert verified_statuses(repository, "HEAD~1..HEAD") == ["bypassed"]
    assert marks(repository) == ["x"]


def test_an_agents_own_mark_moves_no_branch(repository):
    repository.write(b="past\n")
    repository.git("add", "b")
    tree = repository.git("write-tree")
    first, second = (
        repository.git("commit-tree", tree, "-p", "HEAD", "-m", title).strip() for title in "xy"
    )
    folder = repository.path / ".git" / "vibe-gate" / "unrecorded"
    folder.mkdir(exist_ok=True)
    (folder / f"cherry-pick.{first}.{second}").touch()
    assert repository.run("git", "update-ref", "refs/heads/main", second, **AGENT).code != 0


def test_a_mark_of_a_commit_that_git_has_not_whole_stops_no_other(repository):
    repository.git("cherry-pick", "topic")
    tree = repository.git("rev-parse", "HEAD^{tree}").strip()
    folder = repository.path / ".git" / "vibe-gate" / "unrecorded"
    person = "P <p@example.org> 1 +0000"
    for line in (f"tree {tree}\nparent {'1' * 40}", f"tree {'2' * 40}"):
        (repository.path / "made").write_text(f"{line}\nauthor {person}\ncommitter {person}\n\nm\n")
        forged = repository.git("hash-object", "-t", "commit", "-w", "--literally", "made").strip()
        (folder / f"rebase.{repository.git('rev-parse', 'HEAD~1').strip()}.{forged}").touch()
    assert verified_statuses(repository, "HEAD~1..HEAD") == ["reviewed"]
    assert (marks(repository), len(bypasses(repository))) == ([], 1)


def test_nothing_is_written_through_a_link(repository, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (repository.path / ".git" / "vibe-gate" / "unrecorded").symlink_to(tmp_path / "elsewhere")
    repository.git("cherry-pick", "topic")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert bypasses(repository) == [("cherry-pick", [])]


def test_a_review_knows_what_a_commit_was_before(repository):
    commit(repository, "b", "an agent's\n", "--no-verify", AIDER_MODEL="x")
    repository.git("commit", "-q", "--amend", "-m", "a person's words")
    assert marks(repository) == ["amend"]
    repository.run("vibe-gate", "review", "--quiet", "--no-judge", "--commit", "HEAD")
    [summary] = repository.path.glob(
        f".vibe-artifacts/{repository.git('rev-parse', 'HEAD')}/*/summary.json"
    )
    assert "AIDER_MODEL" in str(json.loads(summary.read_text())["agent_authored"]["hints"])
