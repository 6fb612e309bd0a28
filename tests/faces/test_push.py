"""At a push: what needs a judge when its commits have verdicts of their own, and when a bug must
not be in the way.
"""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from answers import answers, fails
from hooked import GATE, JUDGED, PASSES, ROOT, Hooked
from wire import answering

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_agents")]


@pytest.fixture
def remote(judging, tmp_path) -> Hooked:
    """With a remote that has everything until now, and knows it."""
    return judging.share(tmp_path / "remote")


def _commit_twice(repository: Hooked, *flags: str, **environ: str) -> None:
    for name in "ab":
        repository.write(**{name: f"{name} {flags}\n"})
        repository.git("commit", "-q", "-a", *flags, "-m", name, **environ)


def test_a_push_of_receipts_is_no_code(remote):
    remote.git("notes", "--ref", "vibe-gate", "add", "-m", "{}", "HEAD")
    assert remote.git("push", "-q", "origin", "refs/notes/vibe-gate", CLAUDECODE="1") == ""
    assert [record for record in remote.records() if record["stage"] == "pre-push"] == []
    _commit_unseen(remote, "leak")
    remote.git("push", "-q", "origin", "+main:refs/notes/vibe-gate")
    assert _count_held_pushes(remote) == 1


def _commit_unseen(repository: Hooked, name: str) -> None:
    """An agent's commit that no hook saw."""
    (repository.path / name).write_text("a line\n")
    repository.git("add", name)
    repository.git(
        "-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", f"{name}\n\nAssisted-by: x"
    )


def _count_held_pushes(repository: Hooked) -> int:
    """How many pushes were held to the gate, here without a key."""
    return [(record["stage"], record["kind"]) for record in repository.records()].count(
        ("pre-push", "not-reviewed")
    )


@pytest.mark.parametrize(
    ("url", "held_pushes"), [(".", 2), ("../helper", 2), ("https://example.invalid/upstream", 0)]
)
def test_a_push_leaves_out_what_a_remote_has_but_not_what_another_clone_on_this_machine_has(
    remote, url, held_pushes
):
    _commit_unseen(remote, "leak")
    remote.git("clone", "-q", ".", "../helper")
    remote.git("remote", "add", "me", url)
    remote.git("fetch", "-q", "../helper", "main:refs/remotes/me/main")
    remote.git("push", "-q", "origin", "main:one")
    remote.git("update-ref", "-d", "refs/remotes/origin/one")
    remote.git("config", "remote.me.pushurl", str(remote.path.parent / "remote"))
    remote.git("push", "-q", "me", "main:two")
    assert _count_held_pushes(remote) == held_pushes


def test_nothing_is_older_than_a_gate_that_the_remote_has_whatever_gate_the_push_brings(remote):
    remote.git("checkout", "-q", "--orphan", "side")
    remote.git("rm", "-rqf", ".")
    _commit_unseen(remote, "leak")
    remote.git("checkout", "-q", "main", "--", ".vibe-gate")
    remote.git("-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "gate")
    assert "older than the gate" not in remote.git("push", "origin", "side")
    assert "leak" in [file["path"] for file in remote.last_review()["change"]["files"]]


def test_a_push_of_commits_that_have_their_verdicts_asks_nobody(remote):
    with answering(PASSES, repeat_last=True) as model:
        agent = {**model.environ, "CLAUDECODE": "1"}
        _commit_twice(remote, **agent)
        assert len(model.script.requests) == 2
        assert remote.git("push", "-q", "origin", "HEAD:refs/heads/topic", **agent) == ""
    assert len(model.script.requests) == 2
    assert "not asked again: each of its 2 commits was reviewed and passed" in json.dumps(
        remote.last_review()
    )
    assert (remote.records()[-1]["stage"], remote.records()[-1].get("exit_code", 0)) == (
        "pre-push",
        0,
    )


def test_a_push_with_one_commit_that_has_no_verdict_asks_about_the_whole(remote):
    with answering(PASSES, repeat_last=True) as model:
        agent = {**model.environ, "AIDER_MODEL": "x"}
        _commit_twice(remote, **agent)
        remote.write(a="past\n")
        remote.git("commit", "-q", "-a", "--no-verify", "-m", "past", **agent)
        remote.git("push", "origin", "main", **agent)
    assert len(model.script.requests) == 3
    assert remote.records()[-1]["judged"] is True


def test_checks_alone_are_no_verdict_for_an_agents_commits_in_a_push(remote):
    _commit_twice(remote, "--no-verify", AIDER_MODEL="x")
    for back in (1, 0):
        remote.run("vibe-gate", "review", "--no-judge", "--commit", f"HEAD~{back}")
    with answering(PASSES) as model:
        remote.git("push", "origin", "main", **model.environ)
    assert len(model.script.requests) == 1


def test_a_push_that_must_be_judged_counts_no_commit_that_was_only_checked(remote):
    (remote.path / ".vibe-gate" / "gate.toml").write_text(
        GATE + '[hooks.pre-push]\njudge = "always"\n'
    )
    remote.git("commit", "-q", "-a", "--no-verify", "-m", "gate")
    remote.git("push", "-q", "--no-verify", "origin", "main")
    _commit_twice(remote)
    with answering(PASSES) as model:
        remote.git("push", "origin", "main", **model.environ)
    assert len(model.script.requests) == 1


def test_checks_still_hold_the_whole_push(remote):
    """What each commit may do and all together may not: here, many lines."""
    rubric = (
        JUDGED
        + '[[criterion]]\nid = "small"\nkind = "check"\ncheck = "max-changed-lines"\nmust = true\n'
    )
    rubric += "options = { max = 4 }\n"
    (remote.path / ".vibe-gate" / "rubrics" / "quality.toml").write_text(rubric)
    remote.git("commit", "-q", "-a", "--no-verify", "-m", "gate")
    remote.git("push", "-q", "--no-verify", "origin", "main")
    with answering(PASSES, repeat_last=True) as model:
        agent = {**model.environ, "CLAUDECODE": "1"}
        for name in "bcd":
            remote.write(**{name: "x\ny\n"})
            remote.git("add", name)
            remote.git("commit", "-q", "-m", name, **agent)
        push = remote.run("git", "push", "origin", "main", **agent)
    assert push.code == 1
    assert "small" in push.text


@pytest.mark.parametrize(("rule", "request_count"), [("always", 1), ("never", 0)])
def test_the_rule_of_commit_msg_is_its_own(judging, rule, request_count):
    gate = GATE + f'[hooks.pre-commit]\njudge = "never"\n[hooks.commit-msg]\njudge = "{rule}"\n'
    (judging.path / ".vibe-gate" / "gate.toml").write_text(gate)
    judging.git("commit", "-q", "-a", "--no-verify", "-m", "gate")
    judging.write(a="x\n")
    with answering(PASSES) as model:
        judging.git("commit", "-q", "-a", "-m", "x", **model.environ)
    assert len(model.script.requests) == request_count


def test_a_bug_warns_loudly_is_recorded_and_stops_nobody_unless_strict(plain, tmp_path):
    module, line = "vibe_gate/faces/git_hook/reviewing.py", "raise ZeroDivisionError('oh')\n"
    broken = _break_module(tmp_path, module, line)
    plain.write(a="x\n")
    plain.git("add", "a")
    result = plain.run(*broken, "hook", "pre-commit")
    assert (result.code, "this is a bug" in result.text, "NOT REVIEWED" in result.text) == (
        0,
        True,
        True,
    )
    assert [record["kind"] for record in plain.records()] == ["not-reviewed"]
    assert plain.run(*broken, "hook", "pre-commit", "--strict").code == 3
    assert plain.run(*broken, "hook", "pre-commit", CI="true").code == 3


def _break_module(tmp_path, module: str, text: str) -> list[str]:
    """The command of a copy of vibe-gate in which one module is broken."""
    shutil.copytree(ROOT / "vibe_gate", tmp_path / "copy" / "vibe_gate")  # with what is compiled
    (tmp_path / "copy" / module).write_text(text)
    start = f"import sys; sys.path.insert(0, {str(tmp_path / 'copy')!r}); from vibe_gate.faces.cli import main; main()"
    return [sys.executable, "-c", f"{start.replace('main()', 'sys.exit(main())')}"]


def _capture_write(repository: Hooked, name: str, text: str) -> None:
    """A captured session of Claude Code writes a file."""
    repository.write(**{name: text})
    event = {
        "hook_event_name": "PostToolUse",
        "session_id": "0f3c9a1e-1111-2222-3333-444455556666",
        "tool_name": "Write",
        "tool_use_id": "t1",
        "tool_input": {"file_path": str(repository.path / name), "content": text},
        "tool_response": {"type": "create", "content": text},
    }
    assert repository.run("vibe-gate", "capture", stdin=json.dumps(event)).code == 0


def test_what_a_captured_session_wrote_is_recorded_with_its_bypass_and_counts_ever_after(judging):
    _capture_write(judging, "a", "by a session\n")
    judging.git("commit", "-q", "-a", "--no-verify", "-m", "by hand")
    assert judging.records()[-1]["kind"] == "bypassed"
    [hint] = judging.records()[-1]["hints"]
    assert (hint["code"], hint["session"][:8], hint["files"]) == ("session", "0f3c9a1e", 1)
    shutil.rmtree(judging.path / ".git" / "vibe-gate" / "captures")
    judging.run("vibe-gate", "review", "--no-judge", "--commit", "HEAD")
    [row] = json.loads(judging.run("vibe-gate", "verify", "--json").text)["commits"]
    assert (row["status"], "session 0f3c9a1e" in row["why"]) == ("incomplete", True)


def test_verify_counts_what_a_session_wrote_since_the_last_review(judging):
    judging.git("config", "core.hooksPath", "/dev/null")
    judging.write(a="by a session\n")
    judging.git("commit", "-q", "-a", "-m", "by hand")
    judging.run("vibe-gate", "review", "--no-judge", "--commit", "HEAD")
    assert (
        json.loads(judging.run("vibe-gate", "verify", "--json").text)["commits"][0]["status"]
        == "reviewed"
    )
    _capture_write(judging, "a", "by a session\n")
    [row] = json.loads(judging.run("vibe-gate", "verify", "--json").text)["commits"]
    assert (row["status"], "session 0f3c9a1e" in row["why"]) == ("incomplete", True)


def test_a_rebased_commit_that_keeps_its_verdict_is_pushed_without_a_question(remote):
    with answering(PASSES, repeat_last=True) as model:
        agent = {**model.environ, "CLAUDECODE": "1"}
        remote.git("checkout", "-q", "-b", "topic")
        remote.write(a="x\n")
        remote.git("commit", "-q", "-a", "-m", "x", **agent)
        remote.git("checkout", "-q", "main")
        remote.write(b="y\n")
        remote.git("commit", "-q", "-a", "--no-verify", "-m", "y")
        remote.git("push", "-q", "--no-verify", "origin", "main")
        remote.git("rebase", "-q", "main", "topic")
        remote.git("push", "origin", "topic", **agent)
    assert "not asked again: its one commit was reviewed and passed" in json.dumps(
        remote.last_review()
    )
    assert len(model.script.requests) == 1


@pytest.mark.parametrize(
    "variable", [{"PREK_HOOK_STAGE": "pre-merge-commit"}, {"GIT_REFLOG_ACTION": "merge"}]
)
def test_no_variable_chooses_a_laxer_rule(judging, variable):
    gate = judging.path / ".vibe-gate" / "gate.toml"
    gate.write_text(
        GATE + '[hooks.pre-commit]\njudge = "always"\n[hooks.pre-merge-commit]\njudge = "never"\n'
        '[hooks.commit-msg]\njudge = "never"\n'
    )
    judging.git("commit", "-q", "-a", "--no-verify", "-m", "gate")
    judging.write(b="x\n")
    with answering(PASSES) as model:
        judging.git("commit", "-q", "-a", "-m", "x", **model.environ, **variable)
    assert len(model.script.requests) == 1


def test_verify_names_the_fail_of_the_same_trees_that_a_later_pass_replaced(judging):
    line = {"path": "b", "line": 1, "quote": "x", "side": "after"}
    judging.write(b="x\n")
    with answering(answers(fails(line, criterion="clear"))) as model:
        commit = judging.run(
            "git", "commit", "-q", "-a", "-m", "x", **model.environ, CLAUDECODE="1"
        )
        assert commit.code == 1
    judging.git("add", "-A")
    with answering(PASSES) as model:
        judging.run("vibe-gate", "review", "--staged", "--force", **model.environ)
    judging.git("commit", "-q", "-m", "x", CLAUDECODE="1")
    [row] = json.loads(judging.run("vibe-gate", "verify", "--json", "HEAD").text)["commits"]
    assert row["status"] == "reviewed"
    assert "another review of the same trees failed: .vibe-artifacts/" in row["notes"][0]
