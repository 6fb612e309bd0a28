"""Ways around the gate that leave its hooks in place: none of them goes unseen, or unasked."""

from __future__ import annotations

import json

import pytest
from hooked import JUDGED, PASSES, Hooked, again, judged_by, put_in
from wire import answering

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_agents")]

TODO = """\
[[criterion]]
id = "no-todo"
kind = "check"
check = "forbidden-pattern"
must = true
options = { pattern = "TODO" }
"""


@pytest.fixture
def here(kept, tmp_path, environ) -> Hooked:
    """A gate of a judge and a check, at every commit and push; the remote has everything until
    now.
    """
    made = kept / "past hooks"
    here = again(
        made,
        tmp_path / "repository",
        environ,
        lambda here: put_in(judged_by(here, JUDGED + TODO), "install git"),
    )
    return here.share(tmp_path / "remote")


def commit(here: Hooked, name: str, text: str, *flags: str, **environ: str) -> None:
    here.write(**{name: text})
    here.git("add", name)
    here.git("commit", "-q", *flags, "-m", name, **environ)


def verified(here: Hooked, span: str, *flags: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(
        here.run("vibe-gate", "verify", "--json", *flags, span).text
    )["commits"]
    return rows


def test_a_push_whose_source_has_a_space_is_held_to_the_gate(here):
    commit(here, "b", "TODO\n", "--no-verify")
    done = here.run("git", "push", "origin", "main^{/b}:refs/heads/main")
    assert (done.code, "no-todo" in done.text) == (1, True)


def test_a_line_of_git_that_cannot_be_read_stops_the_push(here):
    for line in ("main", "refs/heads/main abc refs/heads/main def", "a b c d"):
        done = here.run("vibe-gate", "hook", "pre-push", "--", "origin", "there", stdin=line + "\n")
        assert (done.code, "cannot be read" in done.text) == (2, True), line


def test_no_variable_of_a_framework_empties_a_push_of_git(here):
    commit(here, "b", "TODO\n", "--no-verify")
    done = here.run(
        "git", "push", "origin", "main", PRE_COMMIT="1", PRE_COMMIT_TO_REF="origin/main"
    )
    assert (done.code, "no-todo" in done.text) == (1, True)


def test_no_variable_of_a_framework_puts_a_range_in_the_place_of_the_index(here):
    here.write(b="TODO\n")
    done = here.run(
        "git", "commit", "-a", "-m", "b", PRE_COMMIT_FROM_REF="HEAD", PRE_COMMIT_TO_REF="HEAD"
    )
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
        assert (row["status"], "a merge with changes of its own" in str(row["why"])) == (
            "missing",
            True,
        )
        here.git("push", "origin", "HEAD:main", **agent)
        assert (here.records()[-1]["judged"], len(model.script.requests)) == (True, asked + 1)
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
        here.git("push", "origin", "HEAD:main", **agent)
        assert "not asked again: each of its 2 commits" in json.dumps(here.reviewed())
        assert len(model.script.requests) == asked


def test_the_same_hunk_at_another_place_does_not_take_over_the_verdict(here):
    block = "#\n#\n#\ndebug = false\n#\n#\n#\n"
    commit(here, "conf", f"[dev]\n{block}[prod]\n{block}[end]\n")
    with answering(PASSES) as model:
        commit(
            here,
            "conf",
            f"[dev]\n{block.replace('false', 'true')}[prod]\n{block}[end]\n",
            **model.environ,
        )
        here.run("vibe-gate", "review", "HEAD~1..HEAD", **model.environ)
    here.git("reset", "-q", "--hard", "HEAD~1")
    commit(
        here,
        "conf",
        f"[dev]\n{block}[prod]\n{block.replace('false', 'true')}[end]\n",
        "--no-verify",
    )
    assert [row["status"] for row in verified(here, "HEAD~1..HEAD")] == ["bypassed"]
    here.forget_records()
    here.git("reflog", "expire", "--expire=all", "--all")
    [row] = verified(here, "HEAD~1..HEAD")
    # With the author, date and title of the reviewed commit it is an edited form of that one, and
    # not reviewed.
    assert (row["status"], row["match"]) == ("stale", None)


def test_what_an_agent_applied_from_a_mail_is_an_agents_after_it_was_rewritten(here):
    agent = {"CLAUDECODE": "1"}
    commit(here, "b", "x\n")
    mail = here.git("format-patch", "--stdout", "-1")
    here.git("reset", "-q", "--hard", "HEAD~1")
    here.git("am", "-q", stdin=mail.replace("+x", "+y") + "\n", **agent)
    here.git("commit", "-q", "--amend", "-m", "y", **agent)
    with answering(PASSES) as model:
        here.git("push", "origin", "main", **model.environ)
    assert here.records()[-1]["judged"] is True


@pytest.mark.parametrize("claim", ["revert", "rebase-merge/", "CHERRY_PICK_HEAD"])
def test_no_variable_and_no_file_makes_a_bypass_one_of_gits_own(here, claim):
    place = here.path / ".git" / claim
    if claim.endswith("/"):
        place.mkdir()
    elif claim.isupper():
        place.write_text("nothing that git takes away\n")
    commit(here, "b", "x\n", "--no-verify", GIT_REFLOG_ACTION=claim)
    assert [row["status"] for row in verified(here, "HEAD~1..HEAD")] == ["bypassed"]


def test_what_git_picks_reverts_and_rebases_by_itself_is_no_bypass(here):
    here.git("checkout", "-q", "-b", "topic")
    commit(here, "b", "picked\n")
    commit(here, "c", "rebased\n", "--no-verify")
    here.git("checkout", "-q", "main")
    commit(here, "a", "elsewhere\n")
    here.git("cherry-pick", "topic~1", "topic")
    here.git("revert", "--no-edit", "HEAD~1")
    commit(here, "a", "anew\n")
    commit(here, "b", "in conflict\n")
    here.git("cherry-pick", "-X", "theirs", "topic~1")
    here.git("checkout", "-q", "topic")
    here.git(
        "rebase",
        "-q",
        "-i",
        "main~6",
        GIT_SEQUENCE_EDITOR="sed -i s/pick/reword/",
        GIT_EDITOR="sed -i 1s/^/x/",
    )
    assert [
        record["during"]
        for record in here.records()
        if record["kind"] == "bypassed" and "during" in record
    ] == [
        *("cherry-pick", "cherry-pick", "revert", "cherry-pick"),
        *("rebase", "rebase"),
    ]


def test_a_message_that_an_agent_amends_makes_no_persons_commit_an_agents(here):
    commit(here, "b", "x\n")
    here.git("commit", "-q", "--amend", "-m", "y", CLAUDECODE="1")
    assert here.git("push", "-q", "origin", "main", CLAUDECODE="1") == ""
    assert "hints" not in here.records()[-1]


def test_an_agents_bypass_is_told_after_a_rebase(here):
    here.git("checkout", "-q", "-b", "topic")
    commit(here, "b", "past\n", "--no-verify", AIDER_MODEL="x")
    here.git("checkout", "-q", "main")
    commit(here, "c", "elsewhere\n")
    here.git("rebase", "-q", "main", "topic")
    assert [row["status"] for row in verified(here, "main..HEAD")] == ["bypassed"]


def test_a_bypass_in_a_reviewed_range_is_noted(here):
    commit(here, "b", "secret\n", "--no-verify")
    commit(here, "b", "b\n", "--no-verify")
    commit(here, "c", "good\n")
    here.run("vibe-gate", "review", "--no-judge", "origin/main..HEAD")
    rows = verified(here, "origin/main..HEAD")
    assert [
        (row["status"], any("committed without the hook" in note for note in row["notes"]))
        for row in rows
    ] == [
        ("reviewed", False),
        ("reviewed", True),
        ("reviewed", True),
    ]
