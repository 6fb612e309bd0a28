"""Capture: every event whole and once, wherever the agent stands, and never a fault of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from command import vibe_gate
from program import git, repository

from vibe_gate.faces.agent_hook import capture
from vibe_gate.faces.agent_hook.hooked_agents import CLAUDE, CODEX, GEMINI
from vibe_gate.secrets import Redactor
from vibe_gate.store import captures
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.folder import Folder

BARE = [sys.executable, "-I", "-S", capture.__file__]


def capture_event(event_line: bytes, folder, environ, *options: str) -> None:
    result = subprocess.run(
        [*BARE, *options], input=event_line, cwd=folder, env=environ, capture_output=True
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


def event(session="s1", **fields) -> bytes:
    return json.dumps({"session_id": session, "hook_event_name": "PostToolUse", **fields}).encode()


def read_events(repo, session="s1"):
    lines = (
        (repo / ".git" / "vibe-gate" / "captures" / session / "events.ndjson")
        .read_bytes()
        .splitlines()
    )
    return [json.loads(line)["event"] for line in lines]


def test_an_event_is_one_line_with_its_time_that_nobody_else_may_read(tmp_path, environ):
    repo = repository(tmp_path / "r")
    capture_event(event(tool_name="Read"), repo, environ)
    spool = repo / ".git/vibe-gate/captures/s1/events.ndjson"
    assert (spool.stat().st_mode | spool.parent.stat().st_mode) & 0o077 == 0
    (line,) = spool.read_text().splitlines()
    document = json.loads(line)
    assert abs(document["ts"] / 1000 - datetime.now(UTC).timestamp()) < 60
    assert document["event"]["tool_name"] == "Read"


def test_geminis_events_are_kept_apart_by_the_agents_name_and_those_of_an_unknown_agent_are_not_kept(
    tmp_path, environ
):
    repo = repository(tmp_path / "r")
    capture_event(event(tool_name="write_file"), repo, environ, "gemini")
    assert read_events(repo, "gemini.s1")[0]["tool_name"] == "write_file"
    result = vibe_gate("capture", "gemini", cwd=repo, environ=environ, stdin=event())
    assert (result.code, result.out, result.err, len(read_events(repo, "gemini.s1"))) == (
        0,
        "",
        "",
        2,
    )
    result = vibe_gate("capture", "another", cwd=repo, environ=environ, stdin=event())
    assert (result.code, result.out, result.err) == (0, "", "")
    assert len([*(repo / ".git/vibe-gate/captures").iterdir()]) == 1


@pytest.mark.parametrize(("agent", "start"), [(GEMINI, "."), (CODEX, "."), (CODEX, "deep")])
def test_events_of_other_agents_are_kept_once_by_the_projects_hooks_or_the_users(
    tmp_path, environ, agent, start
):
    repo = repository(tmp_path / "r")
    (repo / "deep").mkdir()
    event_line = json.dumps({"session_id": "s1", "hook_event_name": agent.captured[2]}).encode()
    assert vibe_gate("install", agent.name, cwd=repo, environ=environ).code == 0
    (repo / ".vibe-gate").mkdir()
    capture_event(event_line, repo / start, environ, agent.name, "--user")
    assert not (repo / ".git" / "vibe-gate" / "captures").exists()
    assert vibe_gate("uninstall", agent.name, cwd=repo, environ=environ).code == 0
    capture_event(event_line, repo / start, environ, agent.name, "--user")
    assert len(read_events(repo, f"{agent.name}.s1")) == 1


def test_an_event_over_several_lines_becomes_one(tmp_path, environ):
    repo = repository(tmp_path / "r")
    document = {
        "session_id": "s1",
        "text": "with\nline feeds\r\nof its own",
        "more": [1, {"a": "b"}],
    }
    for newline in ("\n", "\r\n"):
        capture_event(
            (json.dumps(document, indent=2).replace("\n", newline) + "\n").encode(), repo, environ
        )
    assert read_events(repo) == [document, document]


@pytest.mark.slow
def test_a_hook_of_the_users_own_settings_keeps_events_only_where_vibe_gate_is_used(
    tmp_path, environ
):
    outside, repo = tmp_path / "outside", repository(tmp_path / "r")
    outside.mkdir()
    folder = repo / ".git" / "vibe-gate"
    for start in (outside, repo):
        capture_event(event(), start, environ, "--user")
    assert not folder.exists()
    (repo / ".vibe-gate").mkdir()
    (repo / "deep").mkdir()
    capture_event(event(), repo / "deep", environ, "--user")
    assert len(read_events(repo)) == 1
    (repo / ".vibe-gate").rmdir()
    capture_event(event(), outside, environ | {"CLAUDE_PROJECT_DIR": str(repo)}, "--user")
    assert len(read_events(repo)) == 2  # by its records
    shutil.rmtree(folder)
    (repo / ".git/hooks/pre-commit").write_text(
        "#!/bin/sh\n# vibe-gate: written by `vibe-gate install git`\n"
    )
    capture_event(event(), repo, environ, "--user")
    assert len(read_events(repo)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
def test_a_hook_of_the_users_own_settings_leaves_events_to_the_projects_own_hooks(
    tmp_path, environ, shared
):
    repo = repository(tmp_path / "r")
    (repo / ".vibe-gate").mkdir()
    (repo / ".claude").mkdir()
    settings = repo / ".claude" / ("settings.json" if shared else "settings.local.json")
    settings.write_text(json.dumps({"hooks": CLAUDE.hooks(user=True)}))
    capture_event(event(), repo, environ, "--user")
    assert len(read_events(repo)) == 1
    own_hooks = CLAUDE.hooks(shared=shared)
    settings.write_text(json.dumps({"hooks": own_hooks}))
    capture_event(event(), repo, environ, "--user")
    assert len(read_events(repo)) == 1
    hook = own_hooks["PostToolUse"][0]["hooks"][0]
    looks_like_it: tuple[object, ...] = (
        {"env": {"A": "agent_hook/capture.py"}, "x": ["vibe-gate", "capture"]},
        {"hooks": {"Notification": own_hooks["Notification"]}},
        {"hooks": {"PostToolUse": [{"matcher": "None", "hooks": [hook]}]}},
        {"hooks": {"PostToolUse": [{"hooks": [{"command": "/nowhere/agent_hook/capture.py"}]}]}},
        [],
    )
    for count, like in enumerate(looks_like_it, start=2):
        settings.write_text(json.dumps(like))
        capture_event(event(), repo, environ, "--user")
        assert len(read_events(repo)) == count, like


@pytest.mark.parametrize("place", ["sub folder", "linked", "submodule", "elsewhere"])
def test_the_repository_is_found_from_wherever_the_agent_stands(tmp_path, environ, place):
    repo = repository(tmp_path / "r")
    start, home = repo / "deep" / "down", repo / ".git"
    if place == "linked":
        git(repo, "worktree", "add", "-q", "../linked")
        start = tmp_path / "linked"
    if place == "submodule":
        inner = repository(tmp_path / "inner")
        git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
        start, home = repo / "sub", repo / ".git" / "modules" / "sub"
    if place == "elsewhere":
        start, environ = tmp_path / "other", environ | {"CLAUDE_PROJECT_DIR": str(repo)}
    start.mkdir(parents=True, exist_ok=True)
    capture_event(event(), start, environ)
    assert (home / "vibe-gate" / "captures" / "s1" / "events.ndjson").exists()


@pytest.mark.parametrize(
    ("session", "folder"),
    [
        ("../../../etc", "_________etc-"),
        ("a/b", "a_b-"),
        ("", "unknown"),
        (".", "_-"),
        ("x" * 500, "x" * 55 + "-"),
    ],
)
def test_a_session_id_cannot_lead_out_of_its_folder(tmp_path, environ, session, folder):
    repo = repository(tmp_path / "r")
    capture_event(event(session), repo, environ)
    (name,) = [path.name for path in (repo / ".git/vibe-gate/captures").iterdir()]
    assert name.startswith(folder)
    assert len(name) <= 64


@pytest.mark.slow
def test_sessions_whose_ids_differ_in_letters_that_no_folder_has_stay_apart(tmp_path, environ):
    repo = repository(tmp_path / "r")
    ids = ["a/b", "a.b", "a_b", "a b", "x" * 64, "x" * 65, "x" * 64 + "y"]
    for session in (*ids, *ids):
        capture_event(event(session, prompt=session), repo, environ)
    folders = [path.name for path in (repo / ".git/vibe-gate/captures").iterdir()]
    assert sorted(read_events(repo, name)[0]["prompt"] for name in folders) == sorted(ids)
    assert [len(read_events(repo, name)) for name in folders] == [2] * len(ids)


@pytest.mark.slow
def test_of_parallel_calls_with_a_folding_in_the_middle_nothing_is_lost_or_torn(tmp_path, environ):
    sizes = [10, 3_000, 70_000, 300_000]
    repo = repository(tmp_path / "r")
    store = tmp_path / "store"
    store.mkdir()
    shelf = Folder.at(store)

    def call(number: int) -> None:
        capture_event(event(number=number, text="x" * sizes[number % 4]), repo, environ)
        if number % 10 == 0:
            captures.fold_captures(
                open_state(repo / ".git"), shelf, Redactor({}), datetime.now(UTC)
            )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(40)))
    captures.fold_captures(open_state(repo / ".git"), shelf, Redactor({}), datetime.now(UTC))
    (messages,) = store.glob("*/events.jsonl")
    kept_events = [json.loads(line)["data"] for line in messages.read_text().splitlines()]
    assert sorted(kept_event["number"] for kept_event in kept_events) == list(range(40))
    assert all(
        len(kept_event["text"]) == sizes[kept_event["number"] % 4] for kept_event in kept_events
    )


def test_it_imports_next_to_nothing(tmp_path, environ):
    repo = repository(tmp_path / "r")
    result = subprocess.run(
        [*BARE[:3], "-X", "importtime", BARE[3]], input=event(), cwd=repo, capture_output=True
    )
    imported = {line.rsplit("|")[-1].strip() for line in result.stderr.decode().splitlines()}
    assert not {"site", "vibe_gate", "pathlib", "datetime", "typing", "subprocess"} & imported


@pytest.mark.parametrize("command", ["capture", "guard"])
def test_the_commands_do_what_the_scripts_do(tmp_path, environ, command):
    repo = repository(tmp_path / "r")
    event_line = event(tool_name="Bash", tool_input={"command": "git commit -n"}, cwd=str(repo))
    program = [sys.executable, "-m", "vibe_gate", command]
    root = str(capture.__file__).split("/vibe_gate/faces")[0]
    around = environ | {"PYTHONPATH": root, "CLAUDE_PROJECT_DIR": str(repo)}
    result = subprocess.run(program, input=event_line, cwd=repo, env=around, capture_output=True)
    assert (result.returncode, result.stderr) == (0, b"")
    assert (b"deny" in result.stdout) is (command == "guard")
    assert len(read_events(repo)) == 1
