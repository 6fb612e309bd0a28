"""The plugin for Claude Code, installed by the real CLI from this repository into a fresh home: hooks,
skill and commands, and nothing twice beside `install claude`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import forked
import pytest
from claude_cli import calls, claude, cli_environ
from command import vibe_gate
from program import repository
from scripted_messages_api import Text, ToolUse, Turn

from vibe_gate.agent import find_cli
from vibe_gate.faces.agent_hook import stop
from vibe_gate.faces.agent_hook.hooked_agents import CLAUDE
from vibe_gate.version import __version__

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / ".claude-plugin" / "vibe-gate"
SECRET = 'TOKEN = "ghp_' + 'a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"\n'


def run_cli(home: Path, *arguments: str) -> str:
    """Run a command of Claude Code; what it prints."""
    result = subprocess.run(
        [find_cli(os.environ["PATH"]), *arguments],
        env=cli_environ(home),
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    return tmp_path_factory.mktemp("homes")


@pytest.fixture
def home(homes, tmp_path):
    """A home into which the plugin is installed from this checkout: a copy of the one that the first
    test installed into, with its own paths.
    """
    template = homes / "template"
    if not template.exists():
        (template / "claude").mkdir(parents=True)
        run_cli(template, "plugin", "marketplace", "add", str(ROOT))
        run_cli(template, "plugin", "install", "vibe-gate@vibe-gate")
    place = tmp_path / "home"
    shutil.copytree(template, place, symlinks=True)
    for file in place.glob("claude/**/*.json"):
        file.write_text(file.read_text().replace(str(template), str(place)))
    return place


@pytest.fixture
def gated(tmp_path):
    """A repository that uses vibe-gate, without its hooks in any settings."""
    root = repository(tmp_path / "r")
    (root / ".git" / "vibe-gate").mkdir()
    return root


INSTALLED = Path(sys.executable).parent
"""The folder with `vibe-gate` as it is installed."""


def write_secret(root: Path, home: Path, programs: Path = INSTALLED) -> list[dict]:
    """A session that writes a secret, and repairs it when it is held; the CLI's messages.
    `vibe-gate` is that in `programs`.
    """
    path = str(root / "b.py")
    turns = [
        *calls(ToolUse("Write", {"file_path": path, "content": SECRET})),
        Turn(ToolUse("Write", {"file_path": path, "content": "TOKEN = None\n"})),
        Turn(Text("repaired")),
    ]
    search_path = f"{programs}:{os.environ['PATH']}"
    return claude(root, home, turns, sources="user,project,local", PATH=search_path)


def captured_kinds(root: Path) -> list[str]:
    """The kinds of the events that were kept, those that a review has read included."""
    waiting = (root / ".git/vibe-gate/captures").glob("*/events.ndjson")
    folded_files = (root / ".vibe-artifacts/captures").glob("*/events.jsonl")
    lines = [line for file in (*waiting, *folded_files) for line in file.read_text().splitlines()]
    events = [json.loads(line) for line in lines]
    return [
        event["event"]["hook_event_name"] if "event" in event else event["type"] for event in events
    ]


def test_the_plugins_hooks_are_those_that_install_writes():
    groups = json.loads((PLUGIN / "hooks" / "hooks.json").read_text())["hooks"]
    expected = CLAUDE.hooks(shared=True, user=True, stop_gate=True)
    assert groups.keys() == expected.keys()
    for event, expected_groups in expected.items():
        for group, wanted_group in zip(groups[event], expected_groups, strict=True):
            (hook,), (wanted_hook,) = group["hooks"], wanted_group["hooks"]
            script, *_ = wanted_hook["args"]
            run = {"command": "${CLAUDE_PLUGIN_ROOT}/hooks/run.sh", "args": [script]}
            assert hook == wanted_hook | run
            assert group.get("matcher") == wanted_group.get("matcher")


def test_the_plugin_has_the_programs_version():
    assert json.loads((PLUGIN / ".claude-plugin/plugin.json").read_text())["version"] == __version__


def test_the_plugin_starts_the_programs_version():
    assert f" vibe-gate=={__version__} " in (PLUGIN / "hooks/run.sh").read_text()


def put_program(folder: Path, body: str, name: str = "vibe-gate") -> Path:
    """A program of a shell script; its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)
    return folder


def run_hook(root: Path, script: str, *folders: object) -> subprocess.CompletedProcess[str]:
    """Run a hook of the plugin in a project, with these folders first on PATH."""
    path = ":".join(map(str, (*folders, "/usr/bin", "/bin")))
    variables = {"HOME": str(root.parent), "PATH": path, "CLAUDE_PROJECT_DIR": str(root)}
    return subprocess.run(
        [PLUGIN / "hooks/run.sh", script],
        input="{}",
        cwd=root,
        env=variables,
        capture_output=True,
        text=True,
        timeout=250,
    )


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        (
            "stop",
            '{"systemMessage": "vibe-gate: turn not reviewed: vibe-gate stop ended with exit code 2; '
            'is it as new as the plugin?"}',
        ),
        ("guard", ""),
        ("capture", ""),
    ],
)
def test_a_program_that_refuses_its_arguments_blocks_nothing(tmp_path, gated, script, answer):
    folder = put_program(tmp_path / "bin", "echo blocked; exit 2")
    result = run_hook(gated, script, folder)
    assert (result.returncode, result.stdout, result.stderr) == (0, answer, "")


def test_the_programs_answer_is_passed_on_and_it_gets_the_event(tmp_path, gated):
    folder = put_program(tmp_path / "bin", 'echo "$@: $(cat)"')
    assert run_hook(gated, "stop", folder).stdout == "stop --user: {}"


def test_without_vibe_gate_its_version_is_fetched(tmp_path, gated):
    folder = put_program(tmp_path / "bin", 'echo "$@"', "uvx")
    expected = f"--quiet vibe-gate=={__version__} stop --user"
    assert run_hook(gated, "stop", folder).stdout == expected


@pytest.mark.parametrize("script", ["stop", "guard", "capture"])
def test_without_vibe_gate_on_the_machine_nothing_is_said_and_nothing_held(gated, script):
    result = run_hook(gated, script)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_a_program_that_the_project_brings_along_is_not_started(tmp_path, gated):
    project_bin = put_program(gated / "bin", "echo decoy")
    (tmp_path / "link").symlink_to(project_bin)
    folder = put_program(tmp_path / "bin", "echo genuine")
    places = (project_bin, tmp_path / "link", "bin", "", ".", folder)
    (gated / "sub").mkdir()
    assert run_hook(gated, "stop", *places).stdout == "genuine"
    assert run_hook(gated / "sub", "stop", *places[:-1]).stdout == ""


def test_only_a_hook_in_the_users_settings_takes_the_plugins_place(tmp_path, gated):
    folder = put_program(tmp_path / "bin", "echo ran")
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    script = str(stop.__file__)
    settings.write_text(json.dumps({"permissions": {"deny": [f"Edit({script})", script]}}))
    assert run_hook(gated, "stop", folder).stdout == "ran"
    settings.write_text(json.dumps({"hooks": CLAUDE.hooks(user=True, stop_gate=True)}, indent=2))
    assert run_hook(gated, "stop", folder).stdout == ""


@pytest.mark.slow
def test_the_stop_waits_for_a_call_that_is_still_being_recorded(gated):
    (gated / "b.py").write_text(SECRET)
    fields = {"session_id": "s", "cwd": str(gated)}
    call = {"tool_name": "Write", "tool_input": {"file_path": str(gated / "b.py")}}
    variables = {**os.environ, "CLAUDE_PROJECT_DIR": str(gated)}
    variables["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def begin(script: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [PLUGIN / "hooks/run.sh", script],
            cwd=gated,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    capture, end = begin("capture"), begin("stop")
    assert end.stdin is not None
    end.stdin.write(json.dumps({**fields, "hook_event_name": "Stop"}).encode())
    end.stdin.flush()
    time.sleep(0.7)
    capture.communicate(json.dumps({**fields, **call, "hook_event_name": "PostToolUse"}).encode())
    answer, _ = end.communicate()
    assert json.loads(answer)["decision"] == "block"


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
def test_with_the_plugin_and_the_hooks_of_install_nothing_happens_twice(home, gated, environ):
    settings = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / "claude")}
    installation = vibe_gate(
        "install", "claude", "--stop", "--user", cwd=gated, environ={**environ, **settings}
    )
    assert installation.returncode == 0, installation.stderr
    messages = write_secret(gated, home, forked.programs())
    assert messages[-1]["result"] == "repaired"
    kinds = captured_kinds(gated)
    assert (kinds.count("UserPromptSubmit"), kinds.count("PostToolUse")) == (1, 2)


@pytest.mark.slow
def test_a_person_who_wants_no_review_of_turns_is_obeyed_by_the_plugins_hook(home, gated, environ):
    settings = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / "claude")}
    person = {**environ, **settings}
    vibe_gate("install", "claude", "--stop", cwd=gated, environ=person)
    installation = vibe_gate("install", "claude", "--no-stop", cwd=gated, environ=person)
    assert (
        "not reviewed in this clone, nor by hooks of other settings or of a plugin"
        in installation.err
    )
    removed = vibe_gate("uninstall", "claude", cwd=gated, environ=person)
    assert "The plugin vibe-gate@vibe-gate for Claude Code is enabled" in removed.err
    points = vibe_gate("doctor", cwd=gated, environ=person).out
    assert "vibe-gate@vibe-gate is enabled" in points
    assert "not reviewed when they end" in points
    path = str(gated / "b.py")
    turns = calls(ToolUse("Write", {"file_path": path, "content": SECRET}))
    search_path = f"{forked.programs()}:{os.environ['PATH']}"
    messages = claude(gated, home, turns, sources="user,project,local", PATH=search_path)
    assert messages[-1]["result"] == "done"
