"""Claude Code itself, with our hooks installed: what it may not do, and what is kept of it."""

from __future__ import annotations

import json
import os
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
    root = repository(tmp_path / "r")
    installation = vibe_gate("install", "claude", cwd=root, environ=environ)
    assert installation.returncode == 0, installation.stderr
    return root


def events(root):
    """All captured events of the repository, in the order of their files."""
    lines = [
        line
        for spool in sorted((root / ".git" / "vibe-gate" / "captures").glob("*/events.ndjson"))
        for line in spool.read_text().splitlines()
    ]
    return [json.loads(line) for line in lines]


def test_a_session_is_captured_from_its_start_to_its_end_with_every_parallel_call(
    installed, tmp_path
):
    reads = Turn(*(ToolUse("Read", {"file_path": str(installed / "a.txt")}) for _ in range(6)))
    turns = calls(
        ToolUse("Write", {"file_path": str(installed / "b.py"), "content": "x = 1\n"}),
        ToolUse("Bash", {"command": "ls nowhere"}),
        ToolUse("TaskCreate", {"subject": "tidy up", "description": "all of it"}),
    )
    claude(installed, tmp_path / "home", [reads, *turns])
    captured_events = [line["event"] for line in events(installed)]
    assert {event["hook_event_name"] for event in captured_events} == {
        *(
            "SessionStart",
            "UserPromptSubmit",
            "PostToolUse",
            "PostToolUseFailure",
            "Stop",
            "SessionEnd",
        )
    }
    tools = sorted(
        (event["hook_event_name"], event["tool_name"])
        for event in captured_events
        if "tool_name" in event
    )
    assert tools == [
        *[("PostToolUse", "Read")] * 6,
        *(("PostToolUse", "TaskCreate"), ("PostToolUse", "Write"), ("PostToolUseFailure", "Bash")),
    ]
    assert all(line["ts"] > 1_700_000_000_000 for line in events(installed))


def test_what_would_go_around_the_gate_is_refused_and_honest_work_is_not(installed, tmp_path):
    gate = installed / ".vibe-gate" / "gate.toml"
    gate.parent.mkdir()
    gate.write_text("schema = 1\n")
    settings = installed / ".claude" / "settings.local.json"
    was = settings.read_text()
    at, settings_file = {"file_path": str(gate)}, {"file_path": str(settings)}
    turns = calls(
        ToolUse("Read", at),
        ToolUse("Bash", {"command": "git commit --allow-empty -m honest"}),
        ToolUse("Bash", {"command": "git commit --allow-empty --no-verify -m sneaky"}),
        ToolUse("Write", at | {"content": "softer"}),
        ToolUse(
            "Edit",
            settings_file | {"old_string": "guard.py", "new_string": "x.py", "replace_all": True},
        ),
    )
    results = tool_results(claude(installed, tmp_path / "home", turns))
    assert [failed for failed, _ in results] == [False] * 2 + [True] * 3
    assert (
        "`git commit` without its hooks goes around the gate; run it without --no-verify"
        in results[2][1]
    )
    assert "let the user edit it" in results[3][1]
    assert "ask the user" in results[4][1]
    assert git(installed, "log", "--format=%s").splitlines() == ["honest", "start"]
    assert (gate.read_text(), settings.read_text()) == ("schema = 1\n", was)
    assert sum("refused" in line["event"] for line in events(installed)) == 3


def test_a_session_in_a_linked_worktree_lands_in_the_shared_git_folder(installed, tmp_path):
    git(installed, "add", "-f", ".claude")
    git(installed, "commit", "-q", "-m", "settings")
    git(installed, "worktree", "add", "-q", str(tmp_path / "linked"))
    below = tmp_path / "linked" / "deep" / "down"
    below.mkdir(parents=True)
    claude(
        tmp_path / "linked",
        tmp_path / "home",
        calls(ToolUse("Bash", {"command": f"cd {below} && pwd"})),
    )
    assert [line["event"]["hook_event_name"] for line in events(installed)].count(
        "PostToolUse"
    ) == 1


def test_the_review_says_which_session_wrote_the_files_and_nothing_of_a_persons(
    installed, tmp_path, environ
):
    (installed / "by_hand.txt").write_text("written by a person\n")
    turns = calls(
        ToolUse("Write", {"file_path": str(installed / "b.py"), "content": "x = 1\n"}),
        ToolUse("Read", {"file_path": str(installed / "a.txt")}),
        ToolUse(
            "Edit",
            {"file_path": str(installed / "a.txt"), "old_string": "one", "new_string": "two"},
        ),
    )
    messages = claude(installed, tmp_path / "home", turns)
    session = messages[0]["session_id"]
    git(installed, "add", "a.txt", "b.py", "by_hand.txt")
    review = vibe_gate("review", "--staged", "--no-judge", "--json", cwd=installed, environ=environ)
    authored = json.loads(review.stdout)["agent_authored"]
    assert authored == {
        "decision": True,
        "hints": [
            {
                "code": "session",
                "agent": "Claude Code",
                "session": session,
                "files": 2,
                "all_files": 3,
            }
        ],
    }
    (folder,) = (installed / ".vibe-artifacts" / "captures").iterdir()
    assert json.loads((folder / "meta.json").read_text())["session_id"] == session
    assert events(installed) == []  # nothing that is not redacted stays

    git(installed, "commit", "-q", "-m", "Both of us")
    second_review = vibe_gate(
        "review", "--commit", "HEAD", "--no-judge", "--json", cwd=installed, environ=environ
    )
    assert json.loads(second_review.stdout)["agent_authored"] == authored

    (installed / "b.py").write_text("x = 2  # by hand\n")
    later = time.time() + 10  # no person is faster than that
    os.utime(installed / "b.py", (later, later))
    git(installed, "add", "b.py")
    review_of_person = vibe_gate(
        "review", "--staged", "--no-judge", "--json", cwd=installed, environ=environ
    )
    assert review_of_person.json["agent_authored"] == {"decision": False, "hints": []}


def test_what_a_subagent_writes_is_the_sessions(installed, tmp_path, environ):
    agent_input = {
        "description": "write",
        "prompt": "write c.py",
        "subagent_type": "general-purpose",
        "run_in_background": False,
    }
    written = {"file_path": str(installed / "c.py"), "content": "y = 1\n"}
    turns = [
        Turn(ToolUse("Agent", agent_input)),
        Turn(ToolUse("Write", written)),
        Turn(Text("done")),
        Turn(Text("all done")),
    ]
    claude(installed, tmp_path / "home", turns)
    captured_events = [line["event"] for line in events(installed)]
    names = [event["hook_event_name"] for event in captured_events]
    assert {"SubagentStart", "SubagentStop"} <= set(names)
    (write,) = [event for event in captured_events if event.get("tool_name") == "Write"]
    assert write["agent_id"]
    git(installed, "add", "c.py")
    review = vibe_gate("review", "--staged", "--no-judge", "--json", cwd=installed, environ=environ)
    [hint] = json.loads(review.stdout)["agent_authored"]["hints"]
    assert (hint["session"], hint["files"], hint["all_files"]) == (write["session_id"], 1, 1)
