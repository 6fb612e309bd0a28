"""What each stage holds to the gate, what its exit code does to git, and when a judge is asked."""

from __future__ import annotations

import base64
import fcntl
import json
import subprocess
import sys
import time
from typing import Any

import pytest
import sdk_alone
from hooked import (
    ASKING,
    BIN,
    GATE,
    JUDGED,
    PASSES,
    WAYS_IN,
    Hooked,
    copy_template,
    install_gate,
    start_repository,
)
from wire import answer, answering

from vibe_gate.errors import FAIL, INCONCLUSIVE, INTEGRITY, PASS, POLICY_CHANGED, USAGE
from vibe_gate.faces.git_hook.call import Effect, effect

pytestmark = pytest.mark.usefixtures("quick_agents")

CONFLICT = "<<<<<<< ours\n"
CHECKS = """\
schema = 1
id = "quality"
[[criterion]]
id = "no-todo"
kind = "check"
check = "forbidden-pattern"
must = true
options = { pattern = "TODO" }
"""
SUPPRESSED = """\
schema = 1
[[suppression]]
criterion = "no-todo"
paths = ["a"]
reason = "known for long"
"""
AGENT = "x\n\nCo-authored-by: Claude <noreply@anthropic.com>\n"


@pytest.mark.parametrize(
    ("code", "rule", "ci", "strict", "expected"),
    [
        (PASS, "warn", False, False, 0),
        (FAIL, "warn", False, False, 1),
        (USAGE, "warn", False, False, 2),
        (INTEGRITY, "pass", False, False, 5),
        (INCONCLUSIVE, "warn", False, False, 0),
        (INCONCLUSIVE, "block", False, False, 3),
        (INCONCLUSIVE, "pass", True, False, 3),
        (POLICY_CHANGED, "warn", False, False, 0),
        (POLICY_CHANGED, "warn", False, True, 4),
        (POLICY_CHANGED, "warn", True, False, 4),
    ],
)
def test_an_exit_code_does_this_to_git(code, rule, ci, strict, expected):
    assert effect(code, rule, in_ci=ci, strict=strict).code == expected


def test_only_what_is_not_silently_passed_is_warned_of():
    assert effect(INCONCLUSIVE, "pass", in_ci=False, strict=False) == Effect(0)
    assert "NOT REVIEWED" in effect(INCONCLUSIVE, "warn", in_ci=False, strict=False).warning
    assert "maintainer" in effect(POLICY_CHANGED, "pass", in_ci=False, strict=False).warning


def test_a_failing_check_stops_the_commit_and_says_where(plain):
    plain.write(a=CONFLICT)
    commit = plain.run("git", "commit", "-a", "-m", "x")
    assert commit.code == 1
    assert "a:1" in commit.text
    assert plain.git("log", "--format=%s") == "start"
    assert [(r["kind"], r["exit_code"], r["blocked"]) for r in plain.records()] == [
        ("reviewed", 1, True)
    ]


@pytest.mark.parametrize("framework", [False, True])
def test_marks_are_ascii_where_nothing_says_that_utf8_is_read(plain, framework):
    plain.write(a="<<<<<<< HEAD\n=======\n>>>>>>> x\n")
    commit = plain.run(
        "git", "commit", "-a", "-m", "x", **({"PRE_COMMIT": "1"} if framework else {})
    )
    assert (commit.code, commit.text.isascii(), "✗" in commit.text) == (1, not framework, framework)


def test_a_commit_that_was_stopped_and_made_all_the_same_is_a_bypass(plain):
    plain.write(a=CONFLICT)
    plain.run("git", "commit", "-a", "-m", "x")
    output = plain.git("commit", "-a", "--no-verify", "-m", "x")
    assert "went past the hooks" in output
    assert plain.records()[-1]["kind"] == "bypassed"


def test_a_human_change_costs_only_the_checks(judging):
    judging.write(a="x\n")
    with answering() as model:
        output = judging.git("commit", "-q", "-a", "-m", "x", **model.environ)
    assert (output, model.script.requests) == ("", [])


@pytest.mark.usefixtures("real_cli")
def test_an_agents_change_is_judged_and_the_reason_is_recorded(judging):
    judging.write(a="x\n")
    with answering(PASSES) as model:
        output = judging.git("commit", "-q", "-a", "-m", "x", **model.environ, CLAUDECODE="1")
    last = judging.records()[-1]
    assert (output, last["judged"], last["hints"]) == (
        ASKING,
        True,
        [{"code": "variable", "name": "CLAUDECODE", "agent": "Claude Code"}],
    )
    assert len(model.script.requests) == 1


def test_the_receipt_of_the_review_that_asked_is_shared_with_the_commit(judging):
    judging.git("config", "vibe-gate.receipts", "notes")
    judging.write(a="x\n")
    with answering(
        PASSES
    ) as model:  # the hook before the commit asks; that of the message has nothing to add
        judging.git("commit", "-a", "-m", "x", **model.environ, CLAUDECODE="1")
    notes = judging.git("notes", "--ref", "vibe-gate", "show", "HEAD").split()
    receipts = [
        json.loads(base64.b64decode(json.loads(note)["payload"]))["predicate"] for note in notes
    ]
    assert sorted(
        (receipt["cache"]["hits"], bool(receipt["questions"])) for receipt in receipts
    ) == [(0, True)]


def test_a_message_that_names_an_agent_has_the_judge_asked(judging):
    judging.write(a="x\n")
    with answering(PASSES) as model:
        judging.git("commit", "-a", "-m", AGENT, **model.environ)
    hint = {"code": "trailer", "name": "Co-authored-by", "agent": "Claude"}
    assert judging.records()[-1]["hints"] == [hint]
    assert len(model.script.requests) == 1


def test_comments_in_the_message_and_the_diff_below_the_scissors_are_not_the_message(judging):
    judging.write(a="x\n")
    editor = "sed -i '1i x'"
    template = judging.path.parent / "template"
    template.write_text(f"\n# {AGENT.splitlines()[-1]}\n")
    with answering() as model:
        judging.git("commit", "-a", "-v", "-t", str(template), GIT_EDITOR=editor, **model.environ)
    assert model.script.requests == []


def test_the_same_question_is_never_paid_twice(judging, tmp_path):
    """Second attempt, amended message, rebase with equal trees, push, another worktree: one request
    in all.
    """
    judging.share(tmp_path / "remote").write(a="x\n")
    with answering(PASSES) as model:
        agent = {**model.environ, "CLAUDECODE": "1"}
        judging.git("commit", "-a", "-m", "x", **agent)
        assert len(model.script.requests) == 1
        judging.git("reset", "-q", "--soft", "HEAD~1")
        assert judging.git("commit", "-q", "-m", AGENT, **agent) == ""
        judging.git("commit", "--amend", "-m", "another message", **agent)
        judging.git("rebase", "-q", "--force-rebase", "HEAD~1", **agent)
        judging.git(
            "worktree", "add", "-q", "--detach", str(tmp_path / "linked"), "HEAD~1", **agent
        )
        linked = Hooked(tmp_path / "linked", judging.environ, judging.more)
        linked.write(a="x\n")
        assert linked.git("commit", "-q", "-a", "-m", AGENT, **agent) == ""
        assert linked.git("push", "-q", "origin", "HEAD:refs/heads/other", **agent) == ""
        assert linked.records()[-1]["judged"] is True
    assert len(model.script.requests) == 1


SEEN = JUDGED.replace('id = "quality"\n', 'id = "quality"\nsees = ["message"]\n', 1)


@pytest.fixture
def sharing(judging, tmp_path) -> Hooked:
    """A gate whose judge sees the message, and a remote that knows it."""
    (judging.path / ".vibe-gate" / "rubrics" / "quality.toml").write_text(SEEN)
    judging.git("commit", "-a", "-q", "--no-verify", "-m", "sees")
    return judging.share(tmp_path / "remote")


def test_a_judge_who_sees_the_message_is_asked_once_without_and_once_with_each_message(sharing):
    sharing.write(a="x\n")
    with answering(PASSES, repeat_last=True) as model:
        agent = {**model.environ, "CLAUDECODE": "1"}
        sharing.git("commit", "-a", "-m", "PROSE", **agent)
        bodies = [json.dumps(request.body) for request in model.script.requests]
        assert ["PROSE" in body for body in bodies] == [False, True]
        sharing.git("push", "origin", "main", **agent)
        assert len(model.script.requests) == 2
        sharing.git("reset", "-q", "--soft", "HEAD~1")
        sharing.git("commit", "-m", "another", **agent)
    assert len(model.script.requests) == 3


def test_the_message_that_is_asked_about_is_the_one_that_git_stores(sharing):
    sharing.write(a="x\n")
    with answering(PASSES, repeat_last=True) as model:
        agent = {**model.environ, "CLAUDECODE": "1"}
        sharing.git("commit", "-a", "-m", "x\n\n#123 is mended \n\n\n\nmore\n", **agent)
        assert "#123" in json.dumps(model.script.requests[-1].body)
        assert len(model.script.requests) == 2
        assert sharing.git("push", "-q", "origin", "main", **agent) == ""
    assert len(model.script.requests) == 2


WAITING = "another review asks the same just now"


def test_two_reviews_of_one_question_at_a_time_pay_once_and_the_second_says_that_it_waits(judging):
    logs = [judging.path.parent / f"said-{number}" for number in range(2)]

    def waits(_: Any) -> Any:
        until = time.monotonic() + 60
        while not any(WAITING in log.read_text() for log in logs) and time.monotonic() < until:
            time.sleep(0.05)
        return answer(PASSES)

    judging.write(a="x\n")
    judging.git("add", "a")
    with answering(waits, repeat_last=True) as model:
        environ = {**judging.environ, **judging.more, **model.environ}
        argv = ["vibe-gate", "review", "--staged"]
        with logs[0].open("w") as first_log, logs[1].open("w") as second_log:
            reviews = [
                subprocess.Popen(
                    argv, cwd=judging.path, env=environ, stdout=file, stderr=subprocess.STDOUT
                )
                for file in (first_log, second_log)
            ]
        codes = [review.wait(timeout=250) for review in reviews]
    assert codes == [0, 0]
    assert len(model.script.requests) == 1
    assert sum(WAITING in log.read_text() for log in logs) == 1


def test_a_review_that_was_killed_while_it_asked_keeps_nobody_waiting(judging):
    judging.write(a="x\n")
    judging.git("add", "a")

    def stuck(_: Any) -> Any:
        first.kill()
        return answer(PASSES)

    with answering(stuck, PASSES) as model:
        environ = {**judging.environ, **judging.more, **model.environ}
        environ["PYTHONPATH"] = str(sdk_alone.SITE)  # its agent is the quick one, too
        argv = [sys.executable, "-m", "vibe_gate", "review", "--staged"]
        first = subprocess.Popen(argv, cwd=judging.path, env=environ)
        first.wait(timeout=250)
        review = judging.run("vibe-gate", "review", "--staged", **model.environ)
    assert review.code == 0, review.text
    assert "another review" not in review.text


def test_sessions_that_cannot_be_read_are_a_hint_of_an_agent(judging):
    sessions = judging.path / ".git" / "vibe-gate" / "captures"
    (sessions / "one").mkdir(parents=True)
    judging.write(a="x\n")
    with (sessions / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with answering(PASSES) as model:
            judging.git("commit", "-a", "-m", "x", **model.environ)
            assert len(model.script.requests) == 1
    hint = (
        "what captured sessions wrote cannot be read (all sessions: another process holds the lock)"
    )
    reasons = {record["hints"][0]["reason"][: len(hint)] for record in judging.records()}
    assert reasons == {hint}


def test_a_change_of_the_gate_is_a_warning_here_and_one_that_says_block_blocks_what_could_not_be_reviewed(
    judging,
):
    (judging.path / ".vibe-gate" / "gate.toml").write_text(GATE + '[on]\ninconclusive = "block"\n')
    output = judging.git("commit", "-a", "-m", "stricter")
    assert "a maintainer must approve" in output
    assert judging.records()[0]["exit_code"] == 4
    judging.write(a="x\n")
    assert judging.run("git", "commit", "-a", "-m", "x", CLAUDECODE="1").code == 1


def test_definitions_that_do_not_parse_stop_the_commit_with_a_sentence(judging):
    (judging.path / ".vibe-gate" / "gate.toml").write_text("schema = 1\nrubrick = []\n")
    judging.git("commit", "-a", "-q", "--no-verify", "-m", "broken")
    judging.write(a="x\n")
    commit = judging.run("git", "commit", "-a", "-m", "x", CLAUDECODE="1")
    assert commit.code == 1
    assert "rubrick" in commit.text
    assert "vibe-gate: the commit is stopped until these mistakes are corrected." in commit.text
    last = judging.records()[-1]
    assert (last["kind"], last["exit_code"], last["hints"]) == (
        *("not-reviewed", 2),
        [{"code": "variable", "name": "CLAUDECODE", "agent": "Claude Code"}],
    )


@pytest.fixture
def pushing(request, templates, tmp_path, environ) -> Hooked:
    """A repository with an empty remote, and the gate at its pushes, by `install git` or by a
    framework.
    """
    way_in = getattr(request, "param", "install git")
    if way_in != "install git" and not (BIN / way_in).exists():
        pytest.skip(f"{way_in} is not installed here")
    repository = copy_template(
        templates / f"pushing by {way_in}",
        tmp_path / "repository",
        environ,
        lambda repository: install_gate(repository, way_in),
    )
    repository.git("init", "-q", "--bare", str(tmp_path / "remote"))
    repository.git("remote", "add", "origin", str(tmp_path / "remote"))
    (repository.path / ".git" / "vibe-gate" / "installed").unlink(
        missing_ok=True
    )  # as beside a framework
    return repository


def _stage_file(repository: Hooked, name: str, text: str) -> None:
    (repository.path / name).write_text(text)
    repository.git("add", name)


def _commit(repository: Hooked, name: str, text: str) -> str:
    _stage_file(repository, name, text)
    repository.git("commit", "-q", "--no-verify", "-m", name)
    return repository.git("rev-parse", "HEAD")


def _pushed_commits(repository: Hooked) -> list[str]:
    return [record["commit"] for record in repository.records() if record["stage"] == "pre-push"]


def _commit_unseen(repository: Hooked, name: str, text: str) -> str:
    """A commit that no hook of this clone saw, as those from before there were any."""
    _stage_file(repository, name, text)
    repository.git("-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", name)
    return repository.git("rev-parse", "HEAD")


OLDER = "older than the gate here: not reviewed"


@pytest.mark.parametrize("pushing", WAYS_IN, indirect=True)
def test_a_first_push_is_not_held_back_by_what_is_older_than_the_hooks(pushing):
    _commit_unseen(pushing, "old", CONFLICT)
    assert OLDER in pushing.git("push", "-q", "origin", "main")
    bad = _commit(pushing, "bad", CONFLICT)
    push = pushing.run("git", "push", "origin", "main")
    assert (push.code, "bad:1" in push.text, OLDER in push.text) == (1, True, False)
    assert _pushed_commits(pushing)[-1] == bad


def test_what_the_hooks_saw_is_held_to_the_gate_in_a_first_push_whatever_its_date(pushing):
    _commit_unseen(pushing, "old", CONFLICT)
    _commit(pushing, "bad", CONFLICT)
    _commit_unseen(pushing, "unseen", "made by plumbing, with an old date\n")
    push = pushing.run("git", "push", "origin", "main")
    assert (push.code, "bad:1" in push.text, "old:1" in push.text) == (1, True, False)
    assert "2 commits " + OLDER in push.text
    assert [file["path"] for file in pushing.last_review()["change"]["files"]] == ["bad", "unseen"]


def test_what_was_made_after_a_hook_first_ran_is_held_to_the_gate_though_none_saw_it(pushing):
    _commit_unseen(pushing, "old", CONFLICT)
    pushing.git("push", "-q", "origin", "main")
    pushing.environ.pop("GIT_COMMITTER_DATE")
    _commit_unseen(pushing, "bad", CONFLICT)
    assert pushing.run("git", "push", "origin", "main").code == 1


def test_a_first_push_begins_at_the_commit_that_brings_the_gate(pushing):
    _commit_unseen(pushing, "old", CONFLICT)
    (pushing.path / ".vibe-gate").mkdir()
    _commit_unseen(pushing, ".vibe-gate/gate.toml", "schema = 1\nrubrics = []\n")
    assert OLDER in pushing.git("push", "-q", "origin", "main")
    assert [file["path"] for file in pushing.last_review()["change"]["files"]] == [
        ".vibe-gate/gate.toml"
    ]


@pytest.fixture
def installed(pushing: Hooked) -> Hooked:
    """`install git` ran now, after an old commit."""
    _commit_unseen(pushing, "old", CONFLICT)
    pushing.git("tag", "-a", "-m", "x", "v1")
    pushing.forget_records()
    assert pushing.run("vibe-gate", "install", "git").code == 0
    return pushing


LONG_AGO = "2001-01-01T00:00:00Z"


@pytest.mark.parametrize("date", [LONG_AGO, "2099-01-01T00:00:00Z"])
def test_a_first_push_reviews_what_was_made_after_the_installation_whatever_its_date(
    installed: Hooked, date: str
) -> None:
    installed.environ["GIT_COMMITTER_DATE"] = date
    _commit_unseen(installed, "bad", CONFLICT)
    push = installed.run("git", "push", "origin", "main")
    assert (push.code, "bad:1" in push.text, "old:1" in push.text) == (1, True, False)
    assert "older than the gate here" in push.text


def test_a_first_push_of_another_branch_or_gate_reviews_what_was_made_since(
    installed: Hooked,
) -> None:
    installed.environ["GIT_COMMITTER_DATE"] = LONG_AGO
    installed.git("checkout", "-q", "-b", "side", "HEAD~1")
    _commit_unseen(installed, "bad", CONFLICT)
    rubrics = installed.path / ".vibe-gate/rubrics"
    rubrics.mkdir(parents=True)
    (rubrics / "safety.toml").write_text(
        'schema = 1\nid = "safety"\n[[criterion]]\nid = "markers"\nkind = "check"\n'
        'check = "no-conflict-markers"\nmust = true\n'
    )
    installed.git("add", ".vibe-gate")
    _commit_unseen(installed, ".vibe-gate/gate.toml", 'schema = 1\nrubrics = ["safety"]\n')
    push = installed.run("git", "push", "origin", "side")
    assert (push.code, "bad:1" in push.text) == (1, True)


def test_a_second_installation_does_not_move_the_start(installed: Hooked) -> None:
    _commit_unseen(installed, "bad", CONFLICT)
    installed.run("vibe-gate", "install", "git")
    assert installed.run("git", "push", "origin", "main").code == 1


def test_an_old_history_that_is_imported_after_the_installation_is_older(installed: Hooked) -> None:
    installed.git("checkout", "-q", "--orphan", "imported")
    installed.environ["GIT_COMMITTER_DATE"] = LONG_AGO
    _commit_unseen(installed, "first", CONFLICT)
    _commit_unseen(installed, "second", CONFLICT)
    assert "2 commits " + OLDER in installed.git("push", "origin", "imported")
    installed.environ.pop("GIT_COMMITTER_DATE")
    _commit_unseen(installed, "bad", CONFLICT)
    push = installed.run("git", "push", "origin", "imported")
    assert (push.code, "bad:1" in push.text) == (1, True)


def test_a_damaged_start_counts_as_none_and_uninstall_deletes_it(installed: Hooked) -> None:
    start = installed.path / ".git" / "vibe-gate" / "installed"
    start.write_text("12 x\n")
    assert OLDER in installed.git("push", "-q", "origin", "main")
    assert installed.run("vibe-gate", "uninstall", "git").code == 0
    assert not start.exists()


def test_the_pushed_commits_are_judged_and_never_the_working_tree(pushing):
    good = _commit(pushing, "good", "good\n")
    pushing.write(a=CONFLICT)
    pushing.git("add", "a")
    pushing.write(b=CONFLICT)
    pushing.git("push", "-q", "origin", "main")
    assert _pushed_commits(pushing) == [good]


def test_a_rewritten_branch_is_judged_from_where_it_left(pushing):
    base = _commit(pushing, "base", "base\n")
    _commit(pushing, "old", "old\n")
    pushing.git("push", "-q", "origin", "main")
    pushing.git("reset", "-q", "--hard", base)
    new = _commit(pushing, "new", CONFLICT)
    push = pushing.run("git", "push", "--force", "origin", "main")
    assert push.code == 1
    assert _pushed_commits(pushing)[-1] == new


def test_what_others_pushed_is_nothing_that_a_rebase_or_a_merge_brings(pushing):
    _commit(pushing, "a", "one\n")
    pushing.git("push", "-q", "origin", "main")
    pushing.git("checkout", "-q", "-b", "topic")
    _commit(pushing, "topic", "topic\n")
    pushing.git("push", "-q", "origin", "topic")
    pushing.git("checkout", "-q", "main")
    _commit(pushing, "b", CONFLICT)
    pushing.git("push", "-q", "--no-verify", "origin", "main")
    pushing.git("rebase", "-q", "main", "topic")
    pushing.git("push", "-q", "--force", "origin", "topic")
    assert [file["path"] for file in pushing.last_review()["change"]["files"]] == ["topic"]
    pushing.git("checkout", "-q", "main")
    _commit(pushing, "topic", "main\n")
    _commit(pushing, "c", CONFLICT)
    pushing.git("push", "-q", "--no-verify", "origin", "main")
    pushing.git("checkout", "-q", "topic")
    pushing.run("git", "merge", "-q", "main")
    _commit(pushing, "topic", "both\n")
    pushing.git("push", "-q", "origin", "topic")
    assert [file["path"] for file in pushing.last_review()["change"]["files"]] == ["topic"]


@pytest.mark.slow
def test_several_refs_are_each_judged(plain, tmp_path):
    repository = plain
    repository.git("init", "-q", "--bare", str(tmp_path / "remote"))
    repository.git("remote", "add", "origin", str(tmp_path / "remote"))
    repository.git("push", "-q", "--no-verify", "origin", "main", "main:gone")
    repository.git("checkout", "-q", "-b", "one")
    first_commit = _commit(repository, "one", "one\n")
    repository.git("checkout", "-q", "-b", "two", "main")
    second_commit = _commit(repository, "two", CONFLICT)
    repository.git("tag", "-a", "-m", "of one", "v1", "one")
    push = repository.run("git", "push", "origin", "one", "two", "v1", ":gone")
    assert push.code == 1
    assert set(_pushed_commits(repository)) == {first_commit, second_commit}


def test_a_remote_without_a_name_is_taken_to_have_what_the_remote_of_its_url_has(pushing, tmp_path):
    _commit(pushing, "bad", CONFLICT)
    pushing.git("push", "-q", "--no-verify", "origin", "main")
    pushing.git("fetch", "-q", "origin")
    good = _commit(pushing, "good", "good\n")
    pushing.git("push", "-q", str(tmp_path / "remote"), "main:another")
    assert _pushed_commits(pushing) == [good]


@pytest.mark.slow
@pytest.mark.parametrize("way_in", WAYS_IN[1:])
def test_a_stage_that_is_run_by_hand_judges_the_index_or_the_range_that_it_is_given(
    tmp_path, environ, way_in
):
    if not (BIN / way_in).exists():
        pytest.skip(f"{way_in} is not installed here")
    repository = install_gate(start_repository(tmp_path / "repository", environ), way_in)
    result = repository.run(str(BIN / way_in), "run", "-v", "--all-files", "vibe-gate")
    assert (result.code, result.text.count("looked at nothing")) == (0, 1)
    assert "looked at nothing" not in repository.git("commit", "--allow-empty", "-m", "x")
    repository.write(a=CONFLICT)
    repository.git("add", "a")
    result = repository.run(str(BIN / way_in), "run", "--hook-stage", "manual", "vibe-gate")
    assert result.code == 1
    assert repository.judged_trees() == {repository.git("write-tree")}
    bad = _commit(repository, "bad", CONFLICT)
    result = repository.run(
        str(BIN / way_in), "run", "vibe-gate", "--from-ref", f"{bad}~1", "--to-ref", bad, CI="true"
    )
    assert (result.code, "bad:1" in result.text, repository.records()[-1].get("commit")) == (
        1,
        True,
        bad,
    )


def test_what_a_powerless_hook_did_not_see_the_next_one_does(plain):
    (plain.path / ".git" / "hooks" / "pre-commit").chmod(0o644)
    plain.write(a=CONFLICT)
    assert plain.run("git", "commit", "-a", "-m", "x").code == 1
    assert [(record["kind"], record["stage"]) for record in plain.records()] == [
        ("reviewed", "commit-msg")
    ]
    (plain.path / ".git" / "hooks" / "commit-msg").chmod(0o644)
    assert "went past the hooks" in plain.git("commit", "-a", "-m", "x")
    assert plain.records()[-1]["kind"] == "bypassed"


def test_an_option_that_nobody_knows_stops_git(plain):
    result = plain.run("vibe-gate", "hook", "pre-commit", "--lenient")
    assert (
        result.code,
        result.text.splitlines()[0].startswith("vibe-gate: unknown option '--lenient'"),
    ) == (2, True)


def test_a_hook_line_of_ones_own_stops_git_too(tmp_path, environ):
    repository = start_repository(tmp_path / "repository", environ)
    hook = repository.path / ".git" / "hooks" / "pre-commit"
    hook.write_text('#!/bin/sh\nvibe-gate hook pre-commit --strict -- "$@"\n')
    hook.chmod(0o755)
    (repository.path / ".vibe-gate" / "rubrics").mkdir(parents=True)
    (repository.path / ".vibe-gate" / "gate.toml").write_text(GATE)
    (repository.path / ".vibe-gate" / "rubrics" / "quality.toml").write_text(JUDGED)
    repository.git("add", "-A")
    repository.git("commit", "-q", "--no-verify", "-m", "gate")
    repository.write(a="x\n")
    commit = repository.run("git", "commit", "-a", "-m", "x", CLAUDECODE="1")
    assert commit.code == 1
    assert "NOT REVIEWED (inconclusive)" in commit.text
    assert repository.records()[0]["blocked"] is True


def _standing(repository: Hooked) -> dict[str, str]:
    result = repository.run("vibe-gate", "verify", "--json", "HEAD~1..HEAD")
    standing: dict[str, str] = json.loads(result.text)["commits"][0]
    return standing


@pytest.fixture
def shared(judging, tmp_path) -> Hooked:
    """With a remote that has everything until now."""
    return judging.share(tmp_path / "remote")


def test_an_agents_bypass_is_judged_when_it_is_pushed(shared):
    shared.write(a="x\n")
    shared.git("commit", "-q", "-a", "--no-verify", "-m", "byp", AIDER_MODEL="x")
    commit = shared.git("rev-parse", "HEAD")
    assert _standing(shared)["status"] == "bypassed"
    with answering(PASSES) as model:
        shared.git("push", "origin", "main", **model.environ)
    hint = {"code": "variable", "commit": commit, "recorded": True}
    assert hint | {"name": "AIDER_MODEL", "agent": "Aider"} in shared.records()[-1]["hints"]
    assert len(model.script.requests) == 1
    assert _standing(shared)["status"] == "reviewed"


def test_a_tree_that_a_person_had_checked_is_an_agents_once_an_agent_commits_it(shared):
    shared.write(a="x\n")
    shared.git("add", "a")
    shared.git("hook", "run", "pre-commit")
    assert shared.records()[-1]["kind"] == "reviewed"
    shared.git("commit", "-q", "--no-verify", "-m", "x", AIDER_MODEL="x")
    assert _standing(shared)["status"] == "incomplete"


def test_what_was_let_pass_is_said_of_a_pass(plain):
    (plain.path / ".vibe-gate").mkdir()
    (plain.path / ".vibe-gate" / "gate.toml").write_text(GATE)
    (plain.path / ".vibe-gate" / "rubrics").mkdir()
    (plain.path / ".vibe-gate" / "rubrics" / "quality.toml").write_text(CHECKS)
    (plain.path / ".vibe-gate" / "suppressions.toml").write_text(SUPPRESSED)
    plain.git("add", "-A")
    plain.git("commit", "-q", "--no-verify", "-m", "gate")
    plain.write(a="TODO\n", b="fine\n")
    output = plain.git("commit", "-a", "-m", "x")
    assert "vibe-gate: PASS" not in output
    assert "known for long" in output
