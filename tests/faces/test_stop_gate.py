"""The end of an agent's turn: who is held, by what, for how long, and what the person is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from command import vibe_gate
from program import git
from scripted_messages_api import ApiError, DropConnection, Text, Turn
from stopping import CLEAN, SCRIPTS, SECRET, HookedAgentSession, numbered_secret, start_session
from wire import answering

from vibe_gate.faces.agent_hook import spool
from vibe_gate.faces.agent_hook.hooked_agents import AGENTS
from vibe_gate.faces.agent_hook.session_writes import writes_by_calls

pytestmark = pytest.mark.slow


@pytest.fixture
def session(tmp_path: Path, environ: dict[str, str]) -> HookedAgentSession:
    """A session of Claude Code in a repository with the built-in gate."""
    return start_session(tmp_path / "r", environ)


def with_gate(session: HookedAgentSession, gate: str, **rubrics: str) -> None:
    """Commit a gate of the repository's own."""
    folder = session.root / ".vibe-gate"
    (folder / "rubrics").mkdir(parents=True)
    (folder / "gate.toml").write_text(gate)
    for name, text in rubrics.items():
        (folder / "rubrics" / f"{name}.toml").write_text(text)
    git(session.root, "add", "-A")
    git(session.root, "commit", "-q", "-m", "gate")


SAFE = 'schema = 1\nid = "safe"\n[[criterion]]\nid = "no-secrets"\nkind = "check"\ncheck = "no-secrets"\nmust = true\n'
GATE = 'schema = 1\nrubrics = ["safe"]\n'
SLOW = 'schema = 1\nid = "safe"\n[[criterion]]\nid = "slow"\nkind = "check"\ncommand = ["sleep", "60"]\nmust = true\n'


def test_a_fail_in_a_written_file_goes_back_to_the_agent_until_it_is_repaired(session):
    session.write("b.py", SECRET)
    answer = session.stop()
    assert answer.holds
    assert "round 1 of 3" in answer.reason
    assert "b.py:1: failure: GitHub token" in answer.reason
    assert "[no-secrets]" in answer.reason
    assert "--no-stop" in answer.reason
    assert answer.message == "vibe-gate: 1 finding given back to the agent (round 1 of 3)"
    session.write("b.py", CLEAN)
    assert session.stop(after_block=True).document == {}


def test_with_unchanged_files_the_agent_stops_and_the_person_is_told_what_fails(session):
    session.write("b.py", SECRET)
    assert session.stop().holds
    answer = session.stop(after_block=True)
    assert not answer.holds
    assert "b.py:1: failure: GitHub token" in answer.message
    assert "without changing anything more" in answer.message
    assert session.stop(after_block=True).document == {}
    session.prompt()
    assert session.stop().document == {}


def test_an_agent_that_repairs_nothing_in_eight_stops_is_held_three_times(session):
    answers = []
    for number in range(8):
        session.write("b.py", SECRET * (number + 1))
        answers.append(session.stop(after_block=number > 0))
    assert [answer.holds for answer in answers] == [True] * 3 + [False] * 5
    assert all("after 3 rounds" in answer.message for answer in answers[3:])
    session.prompt()
    session.write("b.py", SECRET * 9)
    assert session.stop().holds


def test_findings_in_files_of_others_are_told_once_of_the_same_trees_and_hold_nobody(session):
    (session.root / "theirs.py").write_text(SECRET)
    time.sleep(0.01)
    session.write("b.py", CLEAN)
    answer = session.stop()
    assert not answer.holds
    assert "did not write" in answer.message
    assert "theirs.py:1: failure" in answer.message
    assert session.stop().document == {}
    session.write("b.py", CLEAN + "\n")
    assert "theirs.py:1: failure" in session.stop().message


def test_what_a_command_writes_is_the_sessions_and_a_command_that_reads_is_no_edit(session):
    old = session.root / "old.py"
    old.write_text(numbered_secret(1))
    os.utime(old, (1, 1))
    time.sleep(2.1)
    session.run(f"printf '%s' '{SECRET}' > made.py")
    answer = session.stop()
    assert answer.holds
    assert "made.py:1" in answer.reason
    assert "old.py" not in answer.reason
    (session.root / "made.py").unlink()
    assert not session.stop(after_block=True).holds
    session.prompt()
    session.run("ls | head -3 && git status")
    assert session.stop().document == {}


def test_a_secret_that_stood_elsewhere_before_holds_until_it_is_out_of_what_was_written(session):
    (session.root / "a.py").write_text(SECRET)
    time.sleep(0.01)
    session.write("b.py", SECRET)
    answer = session.stop()
    assert answer.holds
    assert "also at: b.py:1" in answer.reason
    session.write("b.py", CLEAN)
    answer = session.stop(after_block=True)
    assert not answer.holds
    assert "a.py:1: failure" in answer.message


def test_a_second_session_in_the_same_tree_is_not_held_by_the_first_ones_files(session, environ):
    other = HookedAgentSession(session.root, environ, session="other")
    session.write("b.py", SECRET)
    other.write("c.py", CLEAN)
    answer = other.stop()
    assert not answer.holds
    assert "b.py:1" in answer.message
    assert session.stop().holds


def test_a_person_who_repairs_the_file_meanwhile_ends_the_round(session):
    session.write("b.py", SECRET)
    assert session.stop().holds
    (session.root / "b.py").write_text(CLEAN)
    assert session.stop(after_block=True).document == {}


def test_a_gate_that_changes_in_this_turn_does_not_decide_about_it(session):
    with_gate(session, GATE, safe=SAFE)
    session.prompt()
    session.run("printf 'schema = 1\\n[hooks.stop]\\nreview = \"never\"\\n' > .vibe-gate/gate.toml")
    session.write("b.py", SECRET)
    answer = session.stop()
    assert answer.holds
    assert "b.py:1: failure" in answer.reason


def test_the_first_gate_that_comes_with_the_turn_does_not_switch_its_review_off(session):
    session.write(".vibe-gate/gate.toml", f'{GATE}[hooks.stop]\nreview = "never"\n')
    session.write(".vibe-gate/rubrics/safe.toml", SAFE)
    session.write("b.py", SECRET)
    assert session.stop().holds


def test_the_gate_says_whether_turns_are_reviewed_and_how_often_they_are_given_back(session):
    with_gate(session, f"{GATE}[hooks.stop]\nmax_rounds = 1\n", safe=SAFE)
    session.write("b.py", SECRET)
    assert "round 1 of 1" in session.stop().reason
    session.write("b.py", SECRET * 2)
    assert not session.stop(after_block=True).holds
    (session.root / ".vibe-gate/gate.toml").write_text(f'{GATE}[hooks.stop]\nreview = "never"\n')
    git(session.root, "add", ".vibe-gate")
    git(session.root, "commit", "-q", "-m", "never", "--no-verify")
    session.prompt()
    session.write("b.py", SECRET * 3)
    assert session.stop().document == {}


def test_a_gate_that_does_not_parse_holds_nobody(session):
    session.write(".vibe-gate/gate.toml", "schema = 1\nrubrisc = []\n")
    session.write("b.py", SECRET)
    answer = session.stop()
    assert not answer.holds
    assert "turn not reviewed: .vibe-gate/gate.toml:2" in answer.message


def test_a_judge_without_a_key_holds_nobody_and_the_person_is_told(session):
    judged = 'schema = 1\nid = "safe"\n[[criterion]]\nid = "clear"\nkind = "judge"\nmust = true\nquestion = "Is it clear?"\n'
    with_gate(session, f'{GATE}[hooks.stop]\nreview = "judge"\n', safe=judged)
    session.write("b.py", CLEAN)
    answer = session.stop()
    assert not answer.holds
    problem = "vibe-gate: turn not reviewed: not asked: no API key. Next: set ANTHROPIC_API_KEY"
    assert answer.message.startswith(problem)


def test_a_rubric_of_questions_alone_is_silent_where_only_checks_run(session):
    judged = 'schema = 1\nid = "safe"\n[[criterion]]\nid = "clear"\nkind = "judge"\nmust = true\nquestion = "Is it clear?"\n'
    with_gate(session, GATE, safe=judged)
    session.write("b.py", CLEAN)
    assert session.stop().document == {}


def test_a_review_ends_before_a_shorter_time_out_in_the_settings_does(session):
    with_gate(session, GATE, safe=SLOW)
    settings = session.root / ".claude" / "settings.local.json"
    document = json.loads(settings.read_text())
    document["hooks"]["Stop"][1]["hooks"][0]["timeout"] = 6
    settings.write_text(json.dumps(document))
    session.write("b.py", CLEAN)
    began_at = time.monotonic()
    answer = session.stop()
    assert time.monotonic() - began_at < 6
    assert not answer.holds
    assert "turn not reviewed" in answer.message


def test_what_a_command_in_the_background_writes_is_reviewed_when_it_has_ended(session, tmp_path):
    line = f"(until [ -e ../go ]; do sleep 0.05; done; printf '%s' '{SECRET}' > late.py)"
    session.run(f"{line} > /dev/null 2>&1 &", run_in_background=True)
    task = {"id": "b1", "type": "shell", "status": "running"}
    assert session.stop(background_tasks=[task]).document == {}
    (tmp_path / "go").touch()
    wait_for((session.root / "late.py").exists)
    assert "late.py:1: failure" in session.stop().reason


def test_while_a_subagent_is_at_work_nothing_is_reviewed(session):
    session.write("b.py", SECRET)
    task = {"id": "a1", "type": "subagent", "status": "running"}
    assert session.stop(background_tasks=[task]).document == {}
    assert session.stop(background_tasks=[{**task, "status": "completed"}]).holds


def test_in_plan_mode_nothing_is_reviewed_and_the_turn_after_it_is(session):
    session.write("b.py", SECRET)
    assert session.stop(permission_mode="plan").document == {}
    assert session.stop().holds


def test_in_the_middle_of_a_merge_nothing_is_reviewed_and_the_turn_after_it_is(session):
    git(session.root, "checkout", "-q", "-b", "other")
    (session.root / "a.txt").write_text("theirs\n")
    git(session.root, "commit", "-q", "-am", "theirs")
    git(session.root, "checkout", "-q", "-")
    (session.root / "a.txt").write_text("ours\n")
    git(session.root, "commit", "-q", "-am", "ours")
    subprocess.run(["git", "merge", "other"], cwd=session.root, capture_output=True)
    session.write("b.py", SECRET)
    answer = session.stop()
    assert answer.message == (
        "vibe-gate: turn not reviewed: a merge is under way; the turn that ends after it is reviewed"
    )
    assert session.stop().document == {}
    session.prompt()
    assert session.stop().message == answer.message
    git(session.root, "merge", "--abort")
    assert session.stop().holds


def test_a_commit_past_the_hooks_does_not_take_its_fail_out_of_the_turn(session):
    session.write("b.py", SECRET)
    git(session.root, "add", "-A")
    moment = {"GIT_COMMITTER_DATE": f"{time.time():.0f} +0000"}
    git(session.root, "commit", "-q", "-m", "sneaky", "--no-verify", **moment)
    assert "b.py:1: failure" in session.stop().reason


def test_in_a_linked_worktree_that_tree_is_reviewed(session, tmp_path, environ):
    linked = tmp_path / "linked"
    git(session.root, "worktree", "add", "-q", str(linked))
    other = HookedAgentSession(linked, environ, session="linked")
    other.write("b.py", SECRET)
    assert "b.py:1: failure" in other.stop().reason
    assert session.stop().document == {}


def start_stop_hook(session: HookedAgentSession) -> subprocess.Popen[bytes]:
    """The stop hook, waiting for its event on stdin."""
    return subprocess.Popen(
        session.command("stop"),
        cwd=session.root,
        env=session.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def test_stdin_that_never_ends_holds_no_turn_up(session):
    session.write("b.py", SECRET)
    event = {"session_id": session.session, "cwd": str(session.root), "hook_event_name": "Stop"}
    process = start_stop_hook(session)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(event).encode())
    process.stdin.flush()
    answer = json.loads(process.stdout.read())
    assert answer["decision"] == "block"
    process.stdin.close()
    assert process.wait() == 0


def test_stdin_without_an_event_is_given_up(session):
    process = start_stop_hook(session)
    assert process.stdout is not None
    assert "no event came on stdin" in json.loads(process.stdout.read())["systemMessage"]
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_hook_leaves_no_process_and_the_next_stop_reviews(session, number, tmp_path):
    with_gate(session, GATE, safe=SLOW.replace("60", f"61.{number:d}"))
    session.write("b.py", CLEAN)
    event = {"session_id": session.session, "cwd": str(session.root), "hook_event_name": "Stop"}
    process = start_stop_hook(session)
    assert process.stdin is not None
    process.stdin.write(json.dumps(event).encode())
    process.stdin.close()
    wait_for(lambda: sleepers(number) > 0)
    process.send_signal(number)
    process.wait()
    wait_for(lambda: sleepers(number) == 0)
    assert not list((session.root / ".git/vibe-gate/captures").glob("*/stop.json"))


def sleepers(number: int) -> int:
    """Processes of the slow check."""
    count = 0
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            count += place.read_bytes().endswith(b"sleep\x0061.%d\x00" % number)
        except OSError:
            continue
    return count


def wait_for(is_so) -> None:
    ends = time.monotonic() + 200
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.05)


@pytest.mark.parametrize(("agent", "decision"), [("codex", "block"), ("gemini", "deny")])
def test_codex_and_gemini_are_held_in_their_own_form(tmp_path, environ, agent, decision):
    session = start_session(tmp_path / "r", environ, agent)
    session.write("b.py", SECRET)
    answer = session.stop()
    assert answer.document["decision"] == decision
    assert "b.py:1: failure" in answer.reason
    session.write("b.py", CLEAN)
    assert session.stop(after_block=True).document == {}


def test_what_the_agent_is_given_is_bounded_escaped_and_redacted(session):
    for number in range(60):
        session.write(f"dir/\x1b[31mx{number}.py", numbered_secret(number))
    reason = session.stop().reason
    assert len(reason.encode()) <= 4096
    assert "\x1b" not in reason
    assert "a1B2c3D4" not in reason
    assert "more findings" in reason
    assert "--no-stop" in reason


JUDGED = 'schema = 1\nid = "safe"\n[[criterion]]\nid = "clear"\nkind = "judge"\nmust = true\nquestion = "Is it clear?"\n'


@pytest.mark.parametrize(
    "step",
    [ApiError(500), DropConnection(), Turn(Text("I would rather not"))],
    ids=["down", "cut off", "no answer"],
)
def test_a_model_that_gives_no_answer_holds_nobody_and_the_person_is_told(
    session, quick_agents, step
):
    rule = '[hooks.stop]\nreview = "judge"\ndeadline_s = 8\n'
    with_gate(session, GATE + rule, safe=JUDGED)
    session.write("b.py", CLEAN)
    with answering(step, repeat_last=True) as model:
        session.environ |= model.environ
        answer = session.stop()
    assert not answer.holds
    assert answer.message.startswith("vibe-gate: turn not reviewed: ")
    assert "`vibe-gate review`" in answer.message


def test_hooks_that_everyone_shares_run_the_command(session, environ):
    shared = vibe_gate("install", "claude", "--shared", "--stop", cwd=session.root, environ=environ)
    assert shared.code == 0, shared.err
    session.write("b.py", SECRET)
    event = {"session_id": session.session, "cwd": str(session.root), "hook_event_name": "Stop"}
    result = vibe_gate("stop", cwd=session.root, environ=environ, stdin=json.dumps(event).encode())
    assert (result.code, json.loads(result.out)["decision"]) == (0, "block")


def test_no_stop_is_remembered_for_every_hook_of_the_clone_until_stop_takes_it_back(session):
    plugin = replace(session, arguments=("--user",))
    agent = {**session.environ, "CLAUDECODE": "1"}
    session.write("b.py", SECRET)
    refused = vibe_gate("install", "claude", "--no-stop", cwd=session.root, environ=agent)
    assert refused.code == 2
    vibe_gate("install", "claude", "--no-stop", cwd=session.root, environ=session.environ)
    assert plugin.stop().document == {}
    second_installation = vibe_gate("install", "claude", cwd=session.root, environ=session.environ)
    assert "The end of a turn is not reviewed" in second_installation.err
    vibe_gate("uninstall", "claude", cwd=session.root, environ=session.environ)
    assert plugin.stop().document == {}
    vibe_gate("install", "claude", "--stop", cwd=session.root, environ=session.environ)
    assert session.stop().holds


def test_the_users_own_hook_leaves_the_turn_to_the_projects(session):
    session.write("b.py", SECRET)
    session.arguments = ("--user",)
    assert session.hook("stop", {"hook_event_name": "Stop"}) == ""
    session.arguments = ()
    assert session.stop().holds


def spool_of(session: HookedAgentSession) -> Path:
    """Where the hooks keep what they know of the session."""
    return session.root / ".git/vibe-gate/captures" / session.session


def read_memory(session: HookedAgentSession) -> dict:
    """What the last review left."""
    return json.loads((spool_of(session) / "stop.json").read_text())


def test_an_agent_whose_rounds_cannot_be_counted_is_not_held_and_the_person_is_told(session):
    (spool_of(session) / "stop.json").mkdir()
    for number in range(2):
        session.write("b.py", SECRET * (number + 1))
        answer = session.stop(after_block=number > 0)
        assert not answer.holds
        assert "its rounds cannot be counted: stop.json: Is a directory" in answer.message
        assert "b.py:1: failure: GitHub token" in answer.message
    assert [path.name for path in spool_of(session).glob("stop.*")] == ["stop.json"]


def test_a_memory_of_many_long_paths_stays_small(session):
    for number in range(12):
        session.write(f"{'d' * 200}/{'e' * 200}/{'f' * 200}{number}.py", numbered_secret(number))
    assert session.stop().holds
    assert len(read_memory(session)["failing"]) < 4096
    message = session.stop(after_block=True).message
    assert "without changing anything more" in message
    assert "FAIL" in message
    assert "more finding" in message
    assert len(message.encode()) <= 4096


def test_leftovers_of_killed_reviews_are_removed_and_a_pipe_hangs_none(session):
    for name in ("stop.4711", "stop.json"):
        os.mkfifo(spool_of(session) / name)
    session.write("b.py", SECRET)
    assert session.stop().holds
    assert [path.name for path in spool_of(session).glob("stop.*")] == ["stop.json"]
    assert session.stop(after_block=True).message


def test_what_is_remembered_is_escaped_and_cut_before_the_person_sees_it(session):
    session.write("b.py", SECRET)
    assert session.stop().holds
    memory = read_memory(session)
    memory["failing"] = "\x1b[2J\n" + "x" * 9000 + "\nFAIL\u202e"
    (spool_of(session) / "stop.json").write_text(json.dumps(memory))
    message = session.stop(after_block=True).message
    assert not {"\x1b", "\u202e"} & set(message)
    assert "\\x1b[2J" in message
    assert len(message.encode()) <= 4096


def test_gemini_is_held_three_times_even_if_no_prompt_is_known(tmp_path, environ):
    session = start_session(tmp_path / "r", environ, "gemini")
    (session.root / ".git/vibe-gate/captures/gemini.0f3c9a1e-aaaa/calls.ndjson").unlink()
    answers = []
    for number in range(5):
        session.write("b.py", SECRET * (number + 1))
        answers.append(session.stop())
    assert [answer.holds for answer in answers] == [True] * 3 + [False] * 2


@pytest.mark.parametrize(
    "line",
    [
        'git log "--output=b.py"',
        "git log '--output=b.py'",
        "git log --outp\\ut=b.py",
        "git log --out$X",
        "git log `id`",
        "ls\ntouch b.py",
        "git diff --output=b.py",
        "rg --pre ./run x",
        "rg --pre=./run x",
        "rg --hostname-bin=./run x",
        "git grep -O./run x",
        "git grep -nO./run x",
        "git grep --open=./run x",
        "git log -p --ext-diff",
        "git log -p --ext",
        "git log -p --textconv",
        "cat x2>&1y",
    ],
)
def test_a_command_that_may_write_is_none_that_reads(line):
    assert not spool.only_reads(line)


@pytest.mark.parametrize(
    "line",
    [
        "ls | head -3 && git status",
        "git log --oneline --pretty=short 2>&1 | head",
        "grep -rn --only-matching x . 2>&1",
    ],
)
def test_a_command_that_only_reads_is_no_edit(line):
    assert spool.only_reads(line)


def test_a_command_that_names_a_patch_is_still_a_command(session):
    patch = "*** Begin Patch\n*** Add File: c.py\n*** End Patch"
    session.run(f"printf '%s' '{SECRET}' > b.py; : '{patch}'", file_path="d.py")
    assert "b.py:1: failure" in session.stop().reason


@pytest.mark.parametrize(
    "other",
    [
        {"type": "prompt"},
        {"async": True},
        {"if": "false"},
        {"once": True},
        {"args": ["-c", "pass", str(SCRIPTS / "stop.py")]},
    ],
    ids=str,
)
def test_a_hook_of_the_project_that_runs_not_always_leaves_the_turn_to_the_users(session, other):
    settings = session.root / ".claude" / "settings.local.json"
    document = json.loads(settings.read_text())
    document["hooks"]["Stop"][1]["hooks"][0].update(other)
    settings.write_text(json.dumps(document))
    session.write("b.py", SECRET)
    session.arguments = ("--user",)
    assert session.stop().holds


def test_hooks_that_install_writes_are_the_projects_own():
    for agent in AGENTS.values():
        project_hooks = agent.hooks(stop_gate=True)
        text = json.dumps({"hooks": project_hooks}).encode()
        for event in agent.captured:
            assert spool.starts(text, event, "capture")
        assert spool.starts(text, agent.guarding, "guard")
        assert spool.starts(text, agent.stopping, "stop")


@pytest.mark.parametrize("name", ["events.ndjson", "calls.ndjson"])
def test_a_write_is_reviewed_or_the_person_is_told_that_it_was_not_recorded(session, name):
    (spool_of(session) / name).unlink()
    (spool_of(session) / name).mkdir()
    session.write("b.py", SECRET)
    answer = session.stop()
    assert answer.holds == (name == "events.ndjson")
    if not answer.holds:
        assert answer.message == (
            "vibe-gate: turn not reviewed: the agent's calls were not recorded "
            "(calls.ndjson: Is a directory)."
        )


@pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "gone"])
def test_calls_that_are_gone_are_told_to_the_person_and_the_next_stop_reviews(session, is_cut):
    session.write("b.py", CLEAN)
    assert session.stop().document == {}
    calls = spool_of(session) / "calls.ndjson"
    calls.write_text("") if is_cut else calls.unlink()
    session.write("b.py", SECRET)
    assert "calls were not recorded (calls.ndjson is shorter than it was)" in session.stop().message
    assert session.stop().holds


@pytest.mark.parametrize("offset", [-5, "many", None, True, 1.5])
def test_an_offset_that_is_none_is_the_beginning(session, offset):
    session.write("b.py", SECRET)
    (spool_of(session) / "stop.json").write_text(json.dumps({"calls_bytes": offset}))
    assert session.stop().holds


def linked_worktree(session: HookedAgentSession, folder: Path) -> Path:
    """A worktree beside the session's."""
    git(session.root, "worktree", "add", "-q", str(folder))
    return folder


def test_what_a_session_writes_in_another_worktree_is_reviewed_there(session, tmp_path):
    linked = linked_worktree(session, tmp_path / "linked")
    session.write(f"{linked}/b.py", SECRET)
    answer = session.stop()
    assert "b.py:1: failure" in answer.reason
    assert f"These files are in the working tree {linked}." in answer.reason
    second_answer = session.stop(after_block=True)
    assert "without changing anything more" in second_answer.message
    assert str(linked) in second_answer.message
    assert session.stop().document == {}


def test_of_two_worktrees_one_is_reviewed_and_the_other_at_the_next_stop(session, tmp_path):
    linked = linked_worktree(session, tmp_path / "linked")
    session.write(f"{linked}/b.py", SECRET)
    session.write("c.py", CLEAN)
    answer = session.stop()
    assert answer.message == (
        f"vibe-gate: this session also wrote in {linked}: reviewed when its next turn ends"
    )
    session.prompt()
    assert "b.py:1: failure" in session.stop().reason
    session.write(f"{linked}/b.py", CLEAN)
    assert session.stop(after_block=True).document == {}
    assert session.stop().document == {}


def test_a_worktree_that_is_gone_is_reviewed_no_more(session, tmp_path):
    linked = linked_worktree(session, tmp_path / "linked")
    session.write(f"{linked}/b.py", SECRET)
    assert session.stop().holds
    git(session.root, "worktree", "remove", "--force", str(linked))
    assert session.stop(after_block=True).document == {}
    assert session.stop().document == {}


@pytest.mark.parametrize("name", ["/x\0y/b.py", "\ud800/b.py"], ids=["NUL", "surrogate"])
def test_a_call_with_a_name_that_is_no_path_is_taken_for_one_that_may_write_any(session, name):
    (session.root / "b.py").write_text(SECRET)
    call = {"tool_name": "Write", "tool_input": {"file_path": name}, "duration_ms": 900}
    session.hook("capture", {"hook_event_name": "PostToolUse", **call})
    assert "b.py:1: failure" in session.stop().reason


def test_what_changed_in_the_millisecond_in_which_a_command_ended_is_the_sessions(tmp_path):
    (tmp_path / "b.py").touch()
    os.utime(tmp_path / "b.py", ns=(5_000_400_000, 5_000_400_000))
    command = {"ts": 5_000, "paths": [], "ms": 10}
    assert writes_by_calls([command], tmp_path, now=6.0).has("b.py")


def test_the_first_gate_of_a_repository_does_not_decide_about_the_turn_that_wrote_it(session):
    gate = 'schema = 1\nrubrics = []\n[hooks.stop]\nreview = "never"\n'
    session.write(".vibe-gate/gate.toml", gate)
    session.write("b.py", SECRET)
    assert "b.py:1: failure" in session.stop().reason
