"""Commits with nothing to do: no git is started for them, and whatever else looks like one is looked at anew."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from hooked import Hooked, put_in, started

BAD = "<<<<<<< ours\n"


@pytest.fixture
def here(tmp_path, environ) -> Hooked:
    """Two commits of different trees, then two idle ones: the index is known to be HEAD's tree."""
    made = started(tmp_path / "repository", environ)
    made.write(a="second\n")
    made.git("commit", "-q", "-a", "-m", "second")
    put_in(made, "install git")
    idle(made)
    assert looks(made) == 0
    return made


def idle(here: Hooked, *more: str, **environ: str) -> None:
    here.git("commit", "-q", "--allow-empty", "-m", "idle", *more, **environ)


def looks(here: Hooked, *argv: str, **environ: str) -> int:
    """How often the hooks of a commit (an idle one) had git compare the index with HEAD."""
    trace = here.path.parent / "trace"
    trace.unlink(missing_ok=True)
    here.git(*(argv or ("commit", "-q", "--allow-empty", "-m", "idle")), GIT_TRACE=str(trace), **environ)
    return trace.read_text().count("git diff --cached")


def was_held(here: Hooked, *argv: str, **environ: str) -> bool:
    """Whether a commit's tree was held to the gate, or written down as one that was not."""
    before = here.records()
    here.git(*(argv or ("commit", "-q", "-m", "x")), **environ)
    tree = here.tree()
    return any(record.get("tree") == tree for record in here.records()[len(before) :])


def test_after_a_commit_that_was_held_to_the_gate_an_amended_message_costs_no_look(here):
    here.write(b="x\n")
    assert looks(here, "commit", "-q", "-a", "-m", "x") == 1
    assert looks(here, "commit", "-q", "--amend", "-m", "another message") == 0
    assert looks(here) == 0


def test_a_branch_made_of_the_same_commit_and_no_branch_at_all_are_known_too(here):
    here.git("switch", "-q", "-c", "topic")
    idle(here)
    assert looks(here) == 0
    here.git("switch", "-q", "--detach")
    idle(here)
    assert looks(here) == 0


def test_a_linked_worktree_knows_its_own(here, tmp_path):
    here.git("worktree", "add", "-q", str(tmp_path / "linked"))
    linked = Hooked(tmp_path / "linked", here.environ, here.more)
    idle(linked)
    assert [looks(linked), looks(here)] == [0, 0]
    linked.write(a="x\n")
    assert was_held(linked, "commit", "-q", "-a", "-m", "x")


def test_refs_in_one_file_are_left_to_git(here):
    here.git("pack-refs", "--all")
    assert [looks(here), looks(here), looks(here)] == [2, 0, 0]


def test_where_no_file_can_have_two_names_git_looks_each_time(here, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ln").symlink_to("/bin/false")
    here.more["PATH"] = f"{tmp_path / 'bin'}:{here.environ['PATH']}"
    for known in (here.path / ".git" / "vibe-gate").iterdir():
        known.unlink()
    assert [looks(here), looks(here)] == [2, 2]
    here.write(a="x\n")
    assert was_held(here, "commit", "-q", "-a", "-m", "x")


def test_a_merge_is_never_idle(here):
    here.git("switch", "-q", "-c", "side", "HEAD~3")
    here.write(b="side\n")
    here.git("commit", "-q", "-a", "-m", "side")
    here.git("switch", "-q", "main")
    idle(here)
    here.git("merge", "-q", "--no-commit", "-s", "ours", "side", CLAUDECODE="1")
    here.git("commit", "-q", "-m", "merged", CLAUDECODE="1")
    assert here.records()[-1]["kind"] == "unseen"


MOVES = {
    "reset": [["reset", "-q", "--soft", "HEAD~3"]],
    "update-ref": [["update-ref", "HEAD", "HEAD~3"]],
    "update-ref of the branch": [["update-ref", "refs/heads/main", "HEAD~3"]],
    "another branch": [["branch", "old", "HEAD~3"], ["symbolic-ref", "HEAD", "refs/heads/old"]],
    "another branch of the same name": [
        ["branch", "old", "HEAD~3"],
        ["update-ref", "--no-deref", "-d", "refs/heads/main"],
        ["branch", "-m", "old", "main"],
    ],
    "no branch": [["update-ref", "--no-deref", "HEAD", "HEAD~3"]],
    "refs in one file": [["update-ref", "HEAD", "HEAD~3"], ["pack-refs", "--all"]],
    "a branch that is a name of another": [
        ["branch", "old", "HEAD~3"],
        ["symbolic-ref", "refs/heads/main", "refs/heads/old"],
    ],
}
"""Ways to have HEAD be another commit, and the index file as it is."""


@pytest.mark.parametrize("flags", [[], ["--no-verify"]], ids=["", "--no-verify"])
@pytest.mark.parametrize("move", MOVES)
def test_a_head_that_was_moved_under_the_index_makes_something_to_do(here, move, flags):
    index = here.path / ".git" / "index"
    number = index.stat().st_ino
    for command in MOVES[move]:
        here.git(*command)
    assert index.stat().st_ino == number
    assert was_held(here, "commit", "-q", *flags, "-m", "x")


def test_an_index_that_was_written_in_place_is_looked_at(here):
    here.write(a="x\n")
    other = here.path / ".git" / "other"
    shutil.copy(here.path / ".git" / "index", other)
    here.git("add", "a", GIT_INDEX_FILE=str(other))
    (here.path / ".git" / "index").write_bytes(other.read_bytes())
    assert was_held(here)


def test_an_index_put_in_its_place_with_the_old_times_is_looked_at(here):
    index = here.path / ".git" / "index"
    times = index.stat()
    here.write(a="x\n")
    here.git("add", "a")
    os.utime(index, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert was_held(here)


def test_another_index_is_looked_at_whatever_lies_beside_it(here, tmp_path):
    aside = tmp_path / "aside"
    aside.mkdir()
    (aside / "index").hardlink_to(here.path / ".git" / "index")
    (aside / "HEAD").write_text(here.git("rev-parse", "HEAD") + "\n")
    here.git("reset", "-q", "--soft", "HEAD~3")
    assert was_held(here, "commit", "-q", "-m", "x", GIT_INDEX_FILE=str(aside / "index"))


def test_the_index_of_another_worktree_is_looked_at(here, tmp_path):
    here.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"), "HEAD~3")
    linked = Hooked(tmp_path / "linked", here.environ, here.more)
    assert was_held(linked, "commit", "-q", "-m", "x", GIT_INDEX_FILE=str(here.path / ".git" / "index"))


def test_a_common_folder_given_by_hand_is_left_to_git(here):
    assert looks(here, GIT_COMMON_DIR=str(here.path / ".git"), GIT_DIR=str(here.path / ".git")) == 2


def test_a_hook_after_the_commit_that_moves_head_leaves_nothing_known_of_it(here):
    chained = here.path / ".git" / "hooks" / "post-commit.before-vibe-gate"
    chained.write_text("#!/bin/sh\ngit reset -q --soft HEAD~4\n")
    chained.chmod(0o755)
    idle(here)
    chained.unlink()
    assert was_held(here)


def test_what_is_staged_after_the_look_is_no_idle_commit(here):
    """Git reads the index once more after pre-commit: somebody else may have put something there."""
    hooks = here.path / ".git" / "hooks"
    (hooks / "pre-commit").rename(hooks / "ours")
    (hooks / "pre-commit").write_text('#!/bin/sh\n"${0%/*}/ours" "$@" && echo x >>late && git add late\n')
    (hooks / "pre-commit").chmod(0o755)
    os.utime(here.path / ".git" / "index")  # or else nothing at all is asked
    assert was_held(here, "commit", "-q", "--allow-empty", "-m", "x")
    assert here.records()[-1]["kind"] == "reviewed"
    (hooks / "commit-msg").write_text("#!/bin/sh\n")  # as if it was staged later still
    os.utime(here.path / ".git" / "index")
    assert was_held(here, "commit", "-q", "--allow-empty", "-m", "x")
    assert here.records()[-1]["kind"] == "bypassed"


NAMES = ("idle", "passed", "proven", "index", "records.ndjson")


def test_no_hook_writes_through_a_link_in_the_folder_of_records(here, tmp_path):
    state = here.path / ".git" / "vibe-gate"
    victims = [tmp_path / "victims" / name for name in ("index", *NAMES)]
    victims[0].parent.mkdir()
    for victim in victims:
        victim.write_text("mine\n")

    def linked() -> None:
        for name in {*NAMES, *(found.name for found in state.iterdir())}:
            (state / name).unlink(missing_ok=True)
            (state / name).symlink_to(tmp_path / "victims" / (name if name in NAMES else "index"))

    for number in range(3):
        linked()
        os.utime(here.path / ".git" / "index")
        idle(here)
        linked()
        here.write(a=f"{number}\n")
        here.run("git", "commit", "-q", "-a", "-m", "x")
    (state / "index").unlink(missing_ok=True)
    (state / "index").symlink_to(tmp_path / "victims")
    os.utime(here.path / ".git" / "index")
    idle(here)
    assert {victim.read_text() for victim in victims} == {"mine\n"}
    assert sorted(found.name for found in (tmp_path / "victims").iterdir()) == sorted(NAMES)


def test_no_hook_writes_where_a_link_in_place_of_the_folder_of_records_leads(here, tmp_path):
    state, elsewhere = here.path / ".git" / "vibe-gate", tmp_path / "elsewhere"
    state.rename(tmp_path / "kept")
    elsewhere.mkdir()
    (elsewhere / "index").write_text("mine\n")
    state.symlink_to(elsewhere)
    os.utime(here.path / ".git" / "index")
    idle(here)
    idle(here)
    assert [found.name for found in elsewhere.iterdir()] == ["index"]
    assert (elsewhere / "index").read_text() == "mine\n"


def test_what_a_commit_became_is_told_by_the_hooks_own_names_alone(here):
    """A line that somebody put where the hooks leave word for each other is in no record."""
    passed = here.path / ".git" / "vibe-gate" / "passed"
    hook = here.path / ".git" / "hooks" / "post-commit"
    hook.write_text(hook.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\necho 'touch pwned #' >>{passed}\n"))
    here.write(a="x\n")
    here.git("commit", "-q", "-a", "-m", "x")
    commit = here.git("rev-parse", "HEAD")
    assert here.records()[-1]["commit"] == commit
    here.write(a="y\n")
    here.git("commit", "-q", "-a", "-m", "y")
    lines = json.dumps(here.records())
    assert ("pwned" in lines, commit in lines) == (False, True)


def forge(here: Hooked, text: str, **environ: str) -> Hooked:
    """A commit that was idle before it was made, for the index was written in place and its time set back; a remote."""
    remote = here.path.parent / "remote"
    here.git("init", "-q", "--bare", str(remote))
    here.git("remote", "add", "origin", str(remote))
    here.git("push", "-q", "--no-verify", "origin", "main")
    index, other = here.path / ".git" / "index", here.path / ".git" / "other"
    times = index.stat()
    here.write(a=text)
    os.utime(here.path / "a", (1_700_000_000, 1_700_000_000))
    shutil.copy(index, other)
    here.git("add", "a", GIT_INDEX_FILE=str(other))
    here.git("write-tree", GIT_INDEX_FILE=str(other))  # or else git puts an index of its own there, and that is seen
    index.write_bytes(other.read_bytes())
    os.utime(index, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert was_held(here, **environ)
    assert here.git("show", "HEAD:a") == text.strip()
    return here


def test_what_was_forged_past_the_look_is_recorded_and_named_by_verify(here):
    done = forge(here, BAD).run("vibe-gate", "verify", "--json", "HEAD~1..HEAD")
    assert here.records()[-1]["kind"] == "bypassed"
    assert [row["status"] for row in json.loads(done.text)["commits"]] == ["bypassed"]


def test_what_was_forged_past_the_look_is_held_to_the_gate_at_the_push(here):
    done = forge(here, BAD).run("git", "push", "origin", "main")
    assert (done.code, "a:1" in done.text) == (1, True)


def test_what_an_agent_forged_past_the_look_is_held_for_the_agents_whoever_pushes(here):
    said = forge(here, "fine\n", CLAUDECODE="1").run("git", "push", "origin", "main").text
    assert "CLAUDECODE is set" in said
