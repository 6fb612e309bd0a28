"""Claude Code itself, with our hooks installed: what it may not do, and what is kept of it."""

from __future__ import annotations

import json
import os
import subprocess
import time

import pytest
from claude_cli import calls, claude, tool_results
from command import vibe_gate
from program import git, repository
from scripted_messages_api import Text, ToolUse, Turn

pytestmark = pytest.mark.slow


@pytest.fixture
def installed(tmp_path, environ):
    """A repository with `install claude` done."""
    where = repository(tmp_path / "r")
    done = vibe_gate("install", "claude", cwd=where, environ=environ)
    assert done.returncode == 0, done.stderr
    return where


def events(where):
    """All captured events of the repository, in the order of their files."""
    lines = [
        line
        for spool in sorted((where / ".git" / "vibe-gate" / "captures").glob("*/events.ndjson"))
        for line in spool.read_text().splitlines()
    ]
    return [json.loads(line) for line in lines]


def test_a_session_is_captured_from_its_start_to_its_end(installed, tmp_path):
    claude(
        installed,
        tmp_path / "home",
        calls(
            ToolUse("Write", {"file_path": str(installed / "b.py"), "content": "x = 1\n"}),
            ToolUse("Bash", {"command": "ls nowhere"}),
            ToolUse("TaskCreate", {"subject": "tidy up", "description": "all of it"}),
        ),
    )
    kept = [line["event"] for line in events(installed)]
    assert {event["hook_event_name"] for event in kept} == {
        *("SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd")
    }
    tools = [(event["hook_event_name"], event["tool_name"]) for event in kept if "tool_name" in event]
    assert sorted(tools) == [("PostToolUse", "TaskCreate"), ("PostToolUse", "Write"), ("PostToolUseFailure", "Bash")]
    assert all(line["ts"] > 1_700_000_000_000 for line in events(installed))


def test_parallel_calls_are_all_captured(installed, tmp_path):
    reads = [ToolUse("Read", {"file_path": str(installed / "a.txt")}) for _ in range(12)]
    claude(installed, tmp_path / "home", [Turn(*reads), Turn(*reads), Turn(Text("done"))])
    kept = [line["event"] for line in events(installed)]
    assert sum(event["hook_event_name"] == "PostToolUse" for event in kept) == 24


def test_a_commit_around_the_gate_is_refused_and_an_honest_one_is_not(installed, tmp_path):
    messages = claude(
        installed,
        tmp_path / "home",
        calls(
            ToolUse("Bash", {"command": "git commit --allow-empty --no-verify -m sneaky"}),
            ToolUse("Bash", {"command": "git -c core.hooksPath=/dev/null commit --allow-empty -m sneaky"}),
            ToolUse("Bash", {"command": "git commit --allow-empty -m honest"}),
        ),
    )
    (first, said), (second, _), (third, _) = tool_results(messages)
    assert (first, second, third) == (True, True, False)
    assert "`git commit` without its hooks goes around the gate; run it without --no-verify" in said
    assert git(installed, "log", "--format=%s").splitlines() == ["honest", "start"]
    refused = [line["event"]["tool_input"]["command"] for line in events(installed) if "refused" in line["event"]]
    assert len(refused) == 2


def test_a_definition_of_the_gate_cannot_be_edited(installed, tmp_path):
    target = installed / ".vibe-gate" / "gate.toml"
    target.parent.mkdir()
    target.write_text("schema = 1\n")
    path = {"file_path": str(target)}
    turns = calls(
        ToolUse("Read", path),
        ToolUse("Write", path | {"content": "softer"}),
        ToolUse("Edit", path | {"old_string": "1", "new_string": "2"}),
    )
    _, *refused = tool_results(claude(installed, tmp_path / "home", turns))
    assert [(failed, "let the user edit it" in said) for failed, said in refused] == [(True, True)] * 2
    assert target.read_text() == "schema = 1\n"


def test_the_hooks_cannot_be_taken_out_of_the_settings(installed, tmp_path):
    path = installed / ".claude" / "settings.local.json"
    was = path.read_text()
    turns = calls(
        ToolUse("Read", {"file_path": str(path)}),
        ToolUse("Write", {"file_path": str(path), "content": "{}"}),
        ToolUse("Edit", {"file_path": str(path), "old_string": "guard.py", "new_string": "x.py", "replace_all": True}),
        ToolUse("Bash", {"command": "env -u CLAUDECODE git commit --allow-empty -m hidden"}),
    )
    _, *refused = tool_results(claude(installed, tmp_path / "home", turns))
    assert [failed for failed, _ in refused] == [True] * 3
    assert "ask the user" in refused[0][1]
    assert path.read_text() == was
    assert git(installed, "log", "--format=%s") == "start"


def test_a_session_in_a_linked_worktree_lands_in_the_shared_git_folder(installed, tmp_path):
    git(installed, "add", "-A")
    git(installed, "commit", "-q", "-m", "settings")
    git(installed, "worktree", "add", "-q", str(tmp_path / "linked"))
    below = tmp_path / "linked" / "deep" / "down"
    below.mkdir(parents=True)
    subprocess.run(["true"], check=True)
    claude(tmp_path / "linked", tmp_path / "home", calls(ToolUse("Bash", {"command": f"cd {below} && pwd"})))
    assert [line["event"]["hook_event_name"] for line in events(installed)].count("PostToolUse") == 1


def test_after_uninstall_no_hook_runs(installed, tmp_path, environ):
    assert vibe_gate("uninstall", "claude", cwd=installed, environ=environ).returncode == 0
    claude(installed, tmp_path / "home", calls(ToolUse("Bash", {"command": "git commit --allow-empty -nm free"})))
    assert git(installed, "log", "--format=%s").splitlines() == ["free", "start"]
    assert not (installed / ".git" / "vibe-gate").exists()


def test_the_review_says_which_session_wrote_the_files(installed, tmp_path, environ):
    (installed / "by_hand.txt").write_text("written by a person\n")
    turns = calls(
        ToolUse("Write", {"file_path": str(installed / "b.py"), "content": "x = 1\n"}),
        ToolUse("Read", {"file_path": str(installed / "a.txt")}),
        ToolUse("Edit", {"file_path": str(installed / "a.txt"), "old_string": "one", "new_string": "two"}),
    )
    messages = claude(installed, tmp_path / "home", turns)
    session = messages[0]["session_id"]
    git(installed, "add", "a.txt", "b.py", "by_hand.txt")
    done = vibe_gate("review", "--staged", "--no-judge", "--json", cwd=installed, environ=environ)
    authored = json.loads(done.stdout)["agent_authored"]
    assert authored == {"decision": True, "hints": [f"Claude Code session {session[:8]} wrote 2 of 3 files"]}
    (folder,) = (installed / ".vibe-artifacts" / "captures").iterdir()
    assert json.loads((folder / "meta.json").read_text())["session_id"] == session
    assert events(installed) == []  # nothing that is not redacted stays

    git(installed, "commit", "-q", "-m", "Both of us")
    again = vibe_gate("review", "--commit", "HEAD", "--no-judge", "--json", cwd=installed, environ=environ)
    assert json.loads(again.stdout)["agent_authored"] == authored


def test_a_persons_own_change_has_no_hint_of_a_session(installed, tmp_path, environ):
    turns = calls(ToolUse("Write", {"file_path": str(installed / "b.py"), "content": "x = 1\n"}))
    claude(installed, tmp_path / "home", turns)
    (installed / "b.py").write_text("x = 2  # by hand\n")
    later = time.time() + 10  # no person is faster than that
    os.utime(installed / "b.py", (later, later))
    git(installed, "add", "b.py")
    done = vibe_gate("review", "--staged", "--no-judge", "--json", cwd=installed, environ=environ)
    assert json.loads(done.stdout)["agent_authored"] == {"decision": False, "hints": []}


def test_what_a_subagent_writes_is_the_sessions(installed, tmp_path, environ):
    asked = {
        "description": "write",
        "prompt": "write c.py",
        "subagent_type": "general-purpose",
        "run_in_background": False,
    }
    written = {"file_path": str(installed / "c.py"), "content": "y = 1\n"}
    turns = [Turn(ToolUse("Agent", asked)), Turn(ToolUse("Write", written)), Turn(Text("done")), Turn(Text("all done"))]
    claude(installed, tmp_path / "home", turns)
    kept = [line["event"] for line in events(installed)]
    names = [event["hook_event_name"] for event in kept]
    assert {"SubagentStart", "SubagentStop"} <= set(names)
    (write,) = [event for event in kept if event.get("tool_name") == "Write"]
    assert write["agent_id"]
    git(installed, "add", "c.py")
    done = vibe_gate("review", "--staged", "--no-judge", "--json", cwd=installed, environ=environ)
    assert json.loads(done.stdout)["agent_authored"]["hints"] == [
        f"Claude Code session {write['session_id'][:8]} wrote 1 of 1 file"
    ]
