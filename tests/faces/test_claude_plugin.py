"""The plugin for Claude Code, installed by the real CLI from this repository into a fresh home: hooks,
skill and commands, and nothing twice beside `install claude`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from claude_cli import calls, claude, cli_environ
from command import vibe_gate
from program import repository
from scripted_messages_api import Text, ToolUse, Turn

from vibe_gate.agent import find_cli
from vibe_gate.faces.agent_hook.agents import CLAUDE
from vibe_gate.version import __version__

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / ".claude-plugin" / "vibe-gate"
SECRET = 'TOKEN = "ghp_' + 'a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"\n'


def run_cli(home: Path, *arguments: str) -> str:
    """Run a command of Claude Code; what it prints."""
    done = subprocess.run(
        [find_cli(os.environ["PATH"]), *arguments],
        env=cli_environ(home),
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def home(tmp_path):
    """A home into which the plugin is installed from this checkout."""
    place = tmp_path / "home"
    (place / "claude").mkdir(parents=True)
    run_cli(place, "plugin", "marketplace", "add", str(ROOT))
    run_cli(place, "plugin", "install", "vibe-gate@vibe-gate")
    return place


@pytest.fixture
def gated(tmp_path):
    """A repository that uses vibe-gate, without its hooks in any settings."""
    where = repository(tmp_path / "r")
    (where / ".git" / "vibe-gate").mkdir()
    return where


def write_secret(where: Path, home: Path) -> list[dict]:
    """A session that writes a secret, and repairs it when it is held; the CLI's messages."""
    path = str(where / "b.py")
    turns = [
        *calls(ToolUse("Write", {"file_path": path, "content": SECRET})),
        Turn(ToolUse("Write", {"file_path": path, "content": "TOKEN = None\n"})),
        Turn(Text("repaired")),
    ]
    search_path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return claude(where, home, turns, sources="user,project,local", PATH=search_path)


def captured_kinds(where: Path) -> list[str]:
    """The kinds of the events that were kept, those that a review has read included."""
    waiting = (where / ".git/vibe-gate/captures").glob("*/events.ndjson")
    kept = (where / ".vibe-artifacts/captures").glob("*/events.jsonl")
    lines = [line for file in (*waiting, *kept) for line in file.read_text().splitlines()]
    events = [json.loads(line) for line in lines]
    return [
        event["event"]["hook_event_name"] if "event" in event else event["type"] for event in events
    ]


def test_the_plugins_hooks_are_those_that_install_writes():
    groups = json.loads((PLUGIN / "hooks" / "hooks.json").read_text())["hooks"]
    expected = CLAUDE.hooks(shared=True, user=True, stop_gate=True)
    assert groups.keys() == expected.keys()
    for event, wanted in expected.items():
        for group, wanted_group in zip(groups[event], wanted, strict=True):
            (hook,), (wanted_hook,) = group["hooks"], wanted_group["hooks"]
            script, *_ = wanted_hook["args"]
            run = {"command": "${CLAUDE_PLUGIN_ROOT}/hooks/run.sh", "args": [script]}
            assert hook == wanted_hook | run
            assert group.get("matcher") == wanted_group.get("matcher")


def test_the_plugin_has_the_programs_version():
    assert json.loads((PLUGIN / ".claude-plugin/plugin.json").read_text())["version"] == __version__


@pytest.mark.slow
def test_claude_code_finds_the_marketplace_and_the_plugin_valid(tmp_path):
    assert "Validation passed" in run_cli(tmp_path, "plugin", "validate", str(ROOT))
    assert "Validation passed" in run_cli(tmp_path, "plugin", "validate", str(PLUGIN))


@pytest.mark.slow
def test_a_session_with_the_plugin_has_its_skill_and_commands_and_is_held_at_its_end(home, gated):
    messages = write_secret(gated, home)
    started = next(message for message in messages if message.get("subtype") == "init")
    assert {f"vibe-gate:{name}" for name in ("review", "fix", "explain")} <= set(
        started["slash_commands"]
    )
    assert messages[-1]["result"] == "repaired"
    kinds = captured_kinds(gated)
    assert (kinds.count("UserPromptSubmit"), kinds.count("PostToolUse")) == (1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("place", [(), ("--user",)], ids=["project", "user"])
def test_with_the_plugin_and_the_hooks_of_install_nothing_happens_twice(
    home, gated, environ, place
):
    settings = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / "claude")}
    done = vibe_gate(
        "install", "claude", "--stop", *place, cwd=gated, environ={**environ, **settings}
    )
    assert done.returncode == 0, done.stderr
    assert write_secret(gated, home)[-1]["result"] == "repaired"
    kinds = captured_kinds(gated)
    assert (kinds.count("UserPromptSubmit"), kinds.count("PostToolUse")) == (1, 2)


@pytest.mark.slow
def test_without_vibe_gate_on_the_machine_the_session_goes_on(home, gated):
    path = str(gated / "b.py")
    turns = calls(ToolUse("Write", {"file_path": path, "content": SECRET}))
    messages = claude(gated, home, turns, sources="user,project,local", PATH="/usr/bin:/bin")
    assert messages[-1]["result"] == "done"
    assert captured_kinds(gated) == []
