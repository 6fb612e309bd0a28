"""Ways around the gate that leave its hooks in place: none of them goes unseen, or unasked."""

from __future__ import annotations

import json
import shutil

import pytest
from hooked import Hooked, put_in, started
from wire import answering

GATE = 'schema = 1\nrubrics = ["quality"]\n'
RUBRIC = """\
schema = 1
id = "quality"
[[criterion]]
id = "clear"
kind = "judge"
must = true
question = "Is every new line clear?"
[[criterion]]
id = "no-todo"
kind = "check"
check = "forbidden-pattern"
must = true
options = { pattern = "TODO" }
"""
PASSES = {
    "answers": [
        {"criterion": "clear", "outcome": "pass", "reason": "So it is.", "counterexample": None, "evidence": []}
    ]
}


@pytest.fixture
def here(tmp_path, environ) -> Hooked:
    """A gate of a judge and a check, at every commit and push; the remote has everything until now."""
    here = started(tmp_path / "repository", environ)
    (here.path / ".vibe-gate" / "rubrics").mkdir(parents=True)
    (here.path / ".vibe-gate" / "gate.toml").write_text(GATE)
    (here.path / ".vibe-gate" / "rubrics" / "quality.toml").write_text(RUBRIC)
    here.git("add", "-A")
    here.git("commit", "-q", "-m", "gate")
    here.git("init", "-q", "--bare", str(tmp_path / "remote"))
    here.git("remote", "add", "origin", str(tmp_path / "remote"))
    here.git("push", "-q", "origin", "main")
    here.git("fetch", "-q", "origin")
    return put_in(here, "install git")


def commit(here: Hooked, name: str, text: str, *flags: str, **environ: str) -> None:
    here.write(**{name: text})
    here.git("add", name)
    here.git("commit", "-q", *flags, "-m", name, **environ)


def verified(here: Hooked, span: str, *flags: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(here.run("vibe-gate", "verify", "--json", *flags, span).text)["commits"]
    return rows


def test_a_push_whose_source_has_a_space_is_held_to_the_gate(here):
    commit(here, "b", "TODO\n", "--no-verify")
    done = here.run("git", "push", "origin", "main^{/b}:refs/heads/main")
    assert (done.code, "no-todo" in done.text) == (1, True)


@pytest.mark.parametrize("line", ["main", "refs/heads/main abc refs/heads/main def", "a b c d"])
def test_a_line_of_git_that_cannot_be_read_stops_the_push(here, line):
    done = here.run("vibe-gate", "hook", "pre-push", "--", "origin", "there", stdin=line + "\n")
    assert (done.code, "cannot be read" in done.text) == (2, True)


def test_no_variable_of_a_framework_empties_a_push_of_git(here):
    commit(here, "b", "TODO\n", "--no-verify")
    done = here.run("git", "push", "origin", "main", PRE_COMMIT="1", PRE_COMMIT_TO_REF="origin/main")
    assert (done.code, "no-todo" in done.text) == (1, True)


def test_no_variable_of_a_framework_puts_a_range_in_the_place_of_the_index(here):
    here.write(b="TODO\n")
    done = here.run("git", "commit", "-a", "-m", "b", PRE_COMMIT_FROM_REF="HEAD", PRE_COMMIT_TO_REF="HEAD")
    assert (done.code, "no-todo" in done.text) == (1, True)


def fixed_and_left_behind(here: Hooked) -> None:
    """The remote gets a fix; a branch begins before it."""
    here.git("checkout", "-q", "-b", "evil")
    here.git("checkout", "-q", "main")
    commit(here, "security", "check()\n")
    here.git("push", "-q", "origin", "main")
    here.git("fetch", "-q")
    here.git("checkout", "-q", "evil")


def test_a_merge_that_drops_the_other_sides_fix_is_asked_about_as_a_whole(here):
    with answering(PASSES, repeat_last=True) as model:
        agent = {**model.environ, "CLAUDECODE": "1"}
        fixed_and_left_behind(here)
        commit(here, "work", "w\n", **agent)
        here.git("merge", "-q", "--no-commit", "--no-ff", "main", **agent)
        here.git("rm", "-qf", "security")
        here.git("commit", "-q", "--allow-empty", "-m", "Merge main", **agent)
        asked = len(model.script.requests)
        [row, _] = verified(here, "main..HEAD")
        assert (row["status"], "more than its parents together" in str(row["why"])) == ("missing", True)
        said = here.git("push", "origin", "HEAD:main", **agent)
        assert ("not asked again" in said, len(model.script.requests)) == (False, asked + 1)
    assert [row["status"] for row in verified(here, "main..HEAD")] == ["empty", "reviewed"]


def test_a_merge_that_keeps_only_its_own_side_is_not_empty(here):
    fixed_and_left_behind(here)
    here.git("merge", "-q", "-s", "ours", "-m", "Merge main", "main")
    assert [row["status"] for row in verified(here, "main..HEAD")] == ["missing"]


def test_a_merge_of_reviewed_branches_that_git_makes_by_itself_asks_nothing_more(here):
    with answering(PASSES, repeat_last=True) as model:
        agent = {**model.environ, "CLAUDECODE": "1"}
        fixed_and_left_behind(here)
        commit(here, "work", "w\n", **agent)
        here.git("merge", "-q", "--no-edit", "main", **agent)
        asked = len(model.script.requests)
        assert "not asked again: each of its 2 commits" in here.git("push", "origin", "HEAD:main", **agent)
        assert len(model.script.requests) == asked


def test_the_same_hunk_at_another_place_does_not_take_over_the_verdict(here):
    block = "#\n#\n#\ndebug = false\n#\n#\n#\n"
    commit(here, "conf", f"[dev]\n{block}[prod]\n{block}[end]\n")
    with answering(PASSES) as model:
        commit(here, "conf", f"[dev]\n{block.replace('false', 'true')}[prod]\n{block}[end]\n", **model.environ)
        here.run("vibe-gate", "review", "HEAD~1..HEAD", **model.environ)
    here.git("reset", "-q", "--hard", "HEAD~1")
    commit(here, "conf", f"[dev]\n{block}[prod]\n{block.replace('false', 'true')}[end]\n", "--no-verify")
    assert [row["status"] for row in verified(here, "HEAD~1..HEAD")] == ["bypassed"]
    (here.path / ".git" / "vibe-gate" / "records.ndjson").unlink()
    here.git("reflog", "expire", "--expire=all", "--all")
    [row] = verified(here, "HEAD~1..HEAD")
    assert (row["status"], "perhaps at another place" in str(row["why"])) == ("missing", True)


def test_a_commit_that_no_hook_saw_is_judged_when_an_agent_pushes_it(here):
    here.git("-c", "core.hooksPath=/dev/null", "commit", "-q", "--allow-empty", "-m", "nothing")
    commit_tree = here.git("commit-tree", "-p", "HEAD", "-m", "plumbing", _tree_with(here, "b", "x\n"))
    here.git("update-ref", "refs/heads/main", commit_tree)
    with answering(PASSES) as model:
        said = here.git("push", "origin", "main", **model.environ, CLAUDECODE="1")
        assert ("judged because:" in said, len(model.script.requests)) == (True, 1)


def test_what_an_agent_pushed_unseen_does_not_stand_by_checks_alone(here):
    here.git(
        "update-ref", "refs/heads/main", here.git("commit-tree", "-p", "HEAD", "-m", "p", _tree_with(here, "b", "x"))
    )
    here.git("push", "origin", "main", CLAUDECODE="1")  # no model can be reached: a warning
    shutil.rmtree(here.path / ".vibe-artifacts")
    here.run("vibe-gate", "review", "--no-judge", "--commit", "HEAD")
    [row] = verified(here, "HEAD~1..HEAD")
    assert (row["status"], "CLAUDECODE is set" in str(row["why"])) == ("incomplete", True)


def _tree_with(here: Hooked, name: str, text: str) -> str:
    here.write(**{name: text})
    here.git("add", name)
    return here.git("write-tree")


def test_an_agents_bypass_is_told_after_a_rebase_and_its_hint_after_a_pick_and_a_squash(here):
    here.git("checkout", "-q", "-b", "topic")
    commit(here, "b", "past\n", "--no-verify", CLAUDECODE="1")
    here.git("checkout", "-q", "main")
    commit(here, "c", "elsewhere\n")
    here.git("checkout", "-q", "-b", "picked")
    here.git("cherry-pick", "topic")
    assert any("taken from commit" in hint for hint in here.records()[-1]["hints"])
    here.git("checkout", "-q", "-b", "moved", "topic")
    here.git("rebase", "-q", "main")
    assert [row["status"] for row in verified(here, "main..HEAD")] == ["bypassed"]
    here.git("checkout", "-q", "-b", "squashed", "main")
    here.git("merge", "-q", "--squash", "topic")
    with answering(PASSES) as model:
        assert "taken from commit" in here.git("commit", "-m", "squashed", **model.environ)
        assert len(model.script.requests) == 1


def test_an_agents_merge_that_keeps_only_one_side_is_judged_when_a_person_pushes_it(here):
    fixed_and_left_behind(here)
    here.git("merge", "-q", "-s", "ours", "-m", "Merge main", "main", CLAUDECODE="1")
    with answering(PASSES) as model:
        here.git("push", "origin", "HEAD:main", **model.environ)
        assert len(model.script.requests) == 1


def test_a_process_number_that_came_again_skips_no_hook(here):
    """What a commit with nothing to do left behind is another process's, though its number is the same."""
    here.git("commit", "-q", "--allow-empty", "-m", "nothing")
    idle = here.path / ".git" / "vibe-gate" / "idle"
    _, start = idle.read_text().split()
    assert int(start) > 0
    script = here.path / ".git" / "hooks" / "post-commit"
    script.write_text(script.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\necho $PPID {start} >'{idle}'\n"))
    commit(here, "b", "x\n", "--no-verify")
    assert here.records()[-1]["kind"] == "bypassed"


def test_a_commit_with_something_to_do_forgets_what_an_idle_one_left_behind(here):
    here.git("commit", "-q", "--allow-empty", "-m", "nothing")
    commit(here, "b", "x\n")
    assert (here.path / ".git" / "vibe-gate" / "idle").read_text() == ""
