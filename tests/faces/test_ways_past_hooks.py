"""Ways around the gate that leave its hooks in place: none of them goes unseen, or unasked."""

from __future__ import annotations

import json

import pytest
from hooked import JUDGED, PASSES, Hooked, add_judged_gate, copy_template, install_gate
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
def repository(templates, tmp_path, environ) -> Hooked:
    """A gate of a judge and a check, at every commit and push; the remote has everything until
    now.
    """
    template = templates / "past hooks"
    repository = copy_template(
        template,
        tmp_path / "repository",
        environ,
        lambda repository: install_gate(add_judged_gate(repository, JUDGED + TODO), "install git"),
    )
    return repository.share(tmp_path / "remote")


def commit(repository: Hooked, name: str, text: str, *flags: str, **environ: str) -> None:
    repository.write(**{name: text})
    repository.git("add", name)
    repository.git("commit", "-q", *flags, "-m", name, **environ)


def verified_rows(repository: Hooked, span: str, *flags: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(
        repository.run("vibe-gate", "verify", "--json", *flags, span).text
    )["commits"]
    return rows


def test_a_push_whose_source_has_a_space_is_held_to_the_gate(repository):
    commit(repository, "b", "TODO\n", "--no-verify")
    result = repository.run("git", "push", "origin", "main^{/b}:refs/heads/main")
    assert (result.code, "no-todo" in result.text) == (1, True)


def test_a_line_of_git_that_cannot_be_read_stops_the_push(repository):
    for line in ("main", "refs/heads/main abc refs/heads/main def", "a b c d"):
        result = repository.run(
            "vibe-gate", "hook", "pre-push", "--", "origin", "there", stdin=line + "\n"
        )
        assert (result.code, "cannot be read" in result.text) == (2, True), line


def test_no_variable_of_a_framework_empties_a_push_of_git(repository):
    commit(repository, "b", "TODO\n", "--no-verify")
    result = repository.run(
        "git", "push", "origin", "main", PRE_COMMIT="1", PRE_COMMIT_TO_REF="origin/main"
    )
    assert (result.code, "no-todo" in result.text) == (1, True)


def test_no_variable_of_a_framework_puts_a_range_in_the_place_of_the_index(repository):
    repository.write(b="TODO\n")
    result = repository.run(
        "git", "commit", "-a", "-m", "b", PRE_COMMIT_FROM_REF="HEAD", PRE_COMMIT_TO_REF="HEAD"
    )
    assert (result.code, "no-todo" in result.text) == (1, True)


def leave_behind_a_fix(repository: Hooked) -> None:
    """The remote gets a fix; a branch begins before it."""
    repository.git("checkout", "-q", "-b", "evil")
    repository.git("checkout", "-q", "main")
    commit(repository, "security", "check()\n")
    repository.git("push", "-q", "origin", "main")
    repository.git("fetch", "-q")
    repository.git("checkout", "-q", "evil")


def test_a_merge_that_drops_the_other_sides_fix_is_asked_about_as_a_whole(repository):
    with answering(PASSES, repeat_last=True) as model:
        agent = {**model.environ, "CLAUDECODE": "1"}
        leave_behind_a_fix(repository)
        commit(repository, "work", "w\n", **agent)
        repository.git("merge", "-q", "--no-commit", "--no-ff", "main", **agent)
        repository.git("rm", "-qf", "security")
        repository.git("commit", "-q", "--allow-empty", "-m", "Merge main", **agent)
        requests_before = len(model.script.requests)
        [row, _] = verified_rows(repository, "main..HEAD")
        assert (row["status"], "a merge with changes of its own" in str(row["why"])) == (
            "missing",
            True,
        )
        repository.git("push", "origin", "HEAD:main", **agent)
        assert (repository.records()[-1]["judged"], len(model.script.requests)) == (
            True,
            requests_before + 1,
        )
    assert [row["status"] for row in verified_rows(repository, "main..HEAD")] == [
        "empty",
        "reviewed",
    ]


def test_a_merge_that_keeps_only_its_own_side_is_not_empty(repository):
    leave_behind_a_fix(repository)
    repository.git("merge", "-q", "-s", "ours", "-m", "Merge main", "main")
    assert [row["status"] for row in verified_rows(repository, "main..HEAD")] == ["missing"]


def test_a_merge_of_reviewed_branches_that_git_makes_by_itself_asks_nothing_more(repository):
    with answering(PASSES, repeat_last=True) as model:
        agent = {**model.environ, "CLAUDECODE": "1"}
        leave_behind_a_fix(repository)
        commit(repository, "work", "w\n", **agent)
        repository.git("merge", "-q", "--no-edit", "main", **agent)
        requests_before = len(model.script.requests)
        repository.git("push", "origin", "HEAD:main", **agent)
        assert "not asked again: each of its 2 commits" in json.dumps(repository.last_review())
        assert len(model.script.requests) == requests_before


def test_the_same_hunk_at_another_place_does_not_take_over_the_verdict(repository):
    block = "#\n#\n#\ndebug = false\n#\n#\n#\n"
    commit(repository, "conf", f"[dev]\n{block}[prod]\n{block}[end]\n")
    with answering(PASSES) as model:
        commit(
            repository,
            "conf",
            f"[dev]\n{block.replace('false', 'true')}[prod]\n{block}[end]\n",
            **model.environ,
        )
        repository.run("vibe-gate", "review", "HEAD~1..HEAD", **model.environ)
    repository.git("reset", "-q", "--hard", "HEAD~1")
    commit(
        repository,
        "conf",
        f"[dev]\n{block}[prod]\n{block.replace('false', 'true')}[end]\n",
        "--no-verify",
    )
    assert [row["status"] for row in verified_rows(repository, "HEAD~1..HEAD")] == ["bypassed"]
    repository.forget_records()
    repository.git("reflog", "expire", "--expire=all", "--all")
    [row] = verified_rows(repository, "HEAD~1..HEAD")
    # With the author, date and title of the reviewed commit it is an edited form of that one, and
    # not reviewed.
    assert (row["status"], row["match"]) == ("stale", None)


def test_what_an_agent_applied_from_a_mail_is_an_agents_after_it_was_rewritten(repository):
    agent = {"CLAUDECODE": "1"}
    commit(repository, "b", "x\n")
    mail = repository.git("format-patch", "--stdout", "-1")
    repository.git("reset", "-q", "--hard", "HEAD~1")
    repository.git("am", "-q", stdin=mail.replace("+x", "+y") + "\n", **agent)
    repository.git("commit", "-q", "--amend", "-m", "y", **agent)
    with answering(PASSES) as model:
        repository.git("push", "origin", "main", **model.environ)
    assert repository.records()[-1]["judged"] is True


@pytest.mark.parametrize("claim", ["revert", "rebase-merge/", "CHERRY_PICK_HEAD"])
def test_no_variable_and_no_file_makes_a_bypass_one_of_gits_own(repository, claim):
    place = repository.path / ".git" / claim
    if claim.endswith("/"):
        place.mkdir()
    elif claim.isupper():
        place.write_text("nothing that git takes away\n")
    commit(repository, "b", "x\n", "--no-verify", GIT_REFLOG_ACTION=claim)
    assert [row["status"] for row in verified_rows(repository, "HEAD~1..HEAD")] == ["bypassed"]


def test_what_git_picks_reverts_and_rebases_by_itself_is_no_bypass(repository):
    repository.git("checkout", "-q", "-b", "topic")
    commit(repository, "b", "picked\n")
    commit(repository, "c", "rebased\n", "--no-verify")
    repository.git("checkout", "-q", "main")
    commit(repository, "a", "elsewhere\n")
    repository.git("cherry-pick", "topic~1", "topic")
    repository.git("revert", "--no-edit", "HEAD~1")
    commit(repository, "a", "anew\n")
    commit(repository, "b", "in conflict\n")
    repository.git("cherry-pick", "-X", "theirs", "topic~1")
    repository.git("checkout", "-q", "topic")
    repository.git(
        "rebase",
        "-q",
        "-i",
        "main~6",
        GIT_SEQUENCE_EDITOR="sed -i s/pick/reword/",
        GIT_EDITOR="sed -i 1s/^/x/",
    )
    assert [
        record["during"]
        for record in repository.records()
        if record["kind"] == "bypassed" and "during" in record
    ] == [
        *("cherry-pick", "cherry-pick", "revert", "cherry-pick"),
        *("rebase", "rebase"),
    ]


def test_a_message_that_an_agent_amends_makes_no_persons_commit_an_agents(repository):
    commit(repository, "b", "x\n")
    repository.git("commit", "-q", "--amend", "-m", "y", CLAUDECODE="1")
    assert repository.git("push", "-q", "origin", "main", CLAUDECODE="1") == ""
    assert "hints" not in repository.records()[-1]


def test_an_agents_bypass_is_told_after_a_rebase(repository):
    repository.git("checkout", "-q", "-b", "topic")
    commit(repository, "b", "past\n", "--no-verify", AIDER_MODEL="x")
    repository.git("checkout", "-q", "main")
    commit(repository, "c", "elsewhere\n")
    repository.git("rebase", "-q", "main", "topic")
    assert [row["status"] for row in verified_rows(repository, "main..HEAD")] == ["bypassed"]


def test_a_bypass_in_a_reviewed_range_is_noted(repository):
    commit(repository, "b", "secret\n", "--no-verify")
    commit(repository, "b", "b\n", "--no-verify")
    commit(repository, "c", "good\n")
    repository.run("vibe-gate", "review", "--no-judge", "origin/main..HEAD")
    rows = verified_rows(repository, "origin/main..HEAD")
    assert [
        (row["status"], any("committed without the hook" in note for note in row["notes"]))
        for row in rows
    ] == [
        ("reviewed", False),
        ("reviewed", True),
        ("reviewed", True),
    ]
