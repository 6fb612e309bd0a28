"""Claude Code itself, held at the end of its turn by the installed hook."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from answers import passes
from claude_cli import calls, claude, fork_stop_hook
from command import vibe_gate
from hooked import JUDGED
from program import git, repository
from scripted_messages_api import MessagesRequest, Text, ToolUse, Turn
from stopping import CLEAN, SECRET
from wire import answer, answering

pytestmark = pytest.mark.slow

CHECKED = '[[criterion]]\nid = "no-secrets"\nkind = "check"\ncheck = "no-secrets"\nmust = true\n'


@pytest.fixture
def installed(tmp_path: Path, environ: dict[str, str]) -> Path:
    """A repository with the gate at commits and at the end of turns."""
    root = repository(tmp_path / "r")
    for target in (("git",), ("claude", "--stop")):
        installation = vibe_gate("install", *target, cwd=root, environ=environ)
        assert installation.code == 0, installation.err
    return root


@pytest.fixture
def quickly_stopped(installed: Path) -> Path:
    """The same, its stop hook a fork: what the agent makes of the answers is the subject."""
    fork_stop_hook(installed)
    return installed


def write(root: Path, text: str) -> ToolUse:
    return ToolUse("Write", {"file_path": str(root / "b.py"), "content": text})


def feedback(messages: list[dict[str, Any]]) -> list[str]:
    """What our hook gave back to the agent."""
    texts = [
        block["text"]
        for message in messages
        if message["type"] == "user"
        for block in message["message"]["content"]
        if isinstance(block, dict) and block.get("type") == "text"
    ]
    return [text for text in texts if "vibe-gate: what this session wrote" in text]


def read_hook_message(messages: list[dict[str, Any]]) -> str:
    """What our hook told the person."""
    return "\n".join(
        message["content"] for message in messages if message.get("subtype") == "informational"
    )


def commit(root: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What a person's `git commit` of everything comes to."""
    git(root, "add", "-A")
    return subprocess.run(
        ["git", "commit", "-m", "more"], cwd=root, env=environ, capture_output=True, text=True
    )


def test_an_agent_is_held_repairs_and_stops_and_commit_and_push_ask_nothing_again(
    installed, tmp_path, environ
):
    gate = installed / ".vibe-gate"
    (gate / "rubrics").mkdir(parents=True)
    (gate / "gate.toml").write_text(
        'schema = 1\nrubrics = ["quality"]\n[hooks.stop]\nreview = "judge"\n'
        '[hooks.pre-commit]\njudge = "always"\n[hooks.pre-push]\njudge = "always"\n'
    )
    (gate / "rubrics" / "quality.toml").write_text(JUDGED + CHECKED)
    git(installed, "add", "-A")
    git(installed, "commit", "-q", "-m", "gate", "--no-verify")
    remote = tmp_path / "remote.git"
    git(installed, "init", "-q", "--bare", str(remote))
    git(installed, "remote", "add", "origin", str(remote))
    git(installed, "push", "-q", "--no-verify", "origin", "HEAD:main")
    git(installed, "fetch", "-q", "origin")
    turns = [
        *(Turn(write(installed, SECRET)), Turn(Text("done"))),
        *(Turn(write(installed, CLEAN)), Turn(Text("now it is done"))),
        answer(passes("clear")),
    ]
    messages = claude(installed, tmp_path / "home", turns)
    (objection,) = feedback(messages)
    assert "b.py:1: failure: GitHub token" in objection
    assert (installed / "b.py").read_text() == CLEAN
    with answering() as model:
        variables = {**environ, **model.environ}
        result = commit(installed, variables)
        assert result.returncode == 0, result.stderr
        pushed = subprocess.run(
            ["git", "push", "origin", "HEAD:main"],
            cwd=installed,
            env=variables,
            capture_output=True,
            text=True,
        )
        assert pushed.returncode == 0, pushed.stderr
        reviewed = vibe_gate("review", "HEAD~1..HEAD", "--json", cwd=installed, environ=variables)
        assert (reviewed.code, reviewed.json["cache"]) == (0, {"hits": 1, "misses": 0})
        assert model.script.requests == []


def test_an_agent_that_repairs_nothing_stops_at_once_and_its_commit_is_refused(
    quickly_stopped, tmp_path, environ
):
    turns = [Turn(write(quickly_stopped, SECRET)), Turn(Text("done")), Turn(Text("it is fine"))]
    messages = claude(quickly_stopped, tmp_path / "home", turns)
    assert len(feedback(messages)) == 1
    assert "without changing anything more" in read_hook_message(messages)
    assert "b.py:1: failure: GitHub token" in read_hook_message(messages)
    assert commit(quickly_stopped, environ).returncode != 0


def test_what_a_command_in_the_background_wrote_is_given_back_when_it_has_ended(
    quickly_stopped, tmp_path
):
    line = f"sleep 3; printf '%s' '{SECRET}' > {quickly_stopped}/late.py"
    later = ToolUse("Bash", {"command": line, "run_in_background": True, "description": "later"})
    turns = [Turn(later), *(Turn(Text(text)) for text in ("started", "woken", "so be it"))]
    messages = claude(quickly_stopped, tmp_path / "home", turns)
    (objection,) = feedback(messages)
    assert "late.py:1: failure" in objection


def test_what_a_subagent_wrote_is_given_back_to_the_agent_that_sent_it(quickly_stopped, tmp_path):
    def step(request: MessagesRequest) -> Turn:
        conversation, last = json.dumps(request.messages), json.dumps(request.messages[-1])
        begun = json.dumps(request.messages[:2])
        if "SUBTASK" in begun and "toolu_main" not in begun:
            if "toolu_sub" in conversation:
                return Turn(Text("the subagent wrote it"))
            tool_input = {"file_path": str(quickly_stopped / "sub.py"), "content": SECRET}
            return Turn(ToolUse("Write", tool_input, id="toolu_sub"))
        if "toolu_main" not in conversation:
            tool_input = {
                "description": "s",
                "prompt": "SUBTASK",
                "subagent_type": "general-purpose",
            }
            return Turn(ToolUse("Agent", tool_input, id="toolu_main"))
        return Turn(Text("so be it" if "Stop hook" in last else "sent"))

    messages = claude(
        quickly_stopped, tmp_path / "home", [step] * 8, options=("--allowedTools", "Agent", "Write")
    )
    (objection,) = feedback(messages)
    assert "sub.py:1: failure" in objection


def test_a_hook_that_is_killed_ends_the_turn(installed, tmp_path):
    slow = installed / ".vibe-gate"
    (slow / "rubrics").mkdir(parents=True)
    (slow / "gate.toml").write_text('schema = 1\nrubrics = ["slow"]\n')
    (slow / "rubrics" / "slow.toml").write_text(
        'schema = 1\nid = "slow"\n[[criterion]]\nid = "slow"\nkind = "check"\n'
        'command = ["sleep", "62.5"]\nmust = true\n'
    )
    git(installed, "add", "-A")
    git(installed, "commit", "-q", "-m", "gate", "--no-verify")
    killer = subprocess.Popen(
        ["sh", "-c", f"until kill -9 $(cat {tmp_path}/pid) 2> /dev/null; do sleep 0.1; done"]
    )
    settings = installed / ".claude" / "settings.local.json"
    document = json.loads(settings.read_text())
    hook = document["hooks"]["Stop"][1]["hooks"][0]
    line = " ".join([hook["command"], *hook["args"]])
    hook["command"], hook["args"] = "sh", ["-c", f"echo $$ > {tmp_path}/pid; exec {line}"]
    settings.write_text(json.dumps(document))
    began_at = time.monotonic()
    messages = claude(installed, tmp_path / "home", calls(write(installed, CLEAN)))
    assert killer.wait(timeout=250) == 0
    assert time.monotonic() - began_at < 60
    assert feedback(messages) == []
    assert messages[-1]["type"] == "result"
