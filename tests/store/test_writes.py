"""What an agent's events say: its prompts, and the files that its calls wrote."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from vibe_gate.domain.change import FileDiff, FileVersion
from vibe_gate.gate.authorship import written_hints
from vibe_gate.secrets import Redactor
from vibe_gate.store import captured, captures, open_state, open_store
from vibe_gate.store.writes import AGENTS, CapturedEvent, blob_id, prompt_of, writes_of

NOW = datetime(2026, 11, 27, 11, tzinfo=UTC)
GEMINI = "gemini.b10b9136-a66b-4d07-8973-abfc57582b76"


def recorded(agent):
    return (Path(__file__).parent / f"{agent}_events.ndjson").read_text(encoding="utf-8").splitlines()


RECORDED = recorded("gemini")
"""Hook events of Gemini CLI 0.61.0, driven by a scripted API: four writes, one that failed, a command, a read."""


def gemini(**data):
    return CapturedEvent(NOW, data, "gemini")


def test_geminis_prompts_and_writes_are_read_from_its_own_events():
    events = [gemini(**json.loads(line)) for line in RECORDED]
    assert [*filter(None, map(prompt_of, events))] == ["Rename x to y; also\nsecond line"]
    writes = [write for event in events for write in writes_of(event)]
    assert [(write.path, write.tool, write.before, write.after) for write in writes] == [
        ("/r/b.py", "write_file", "", "y = 3\n"),
        ("/r/sub/c.py", "write_file", "", "z = 'ü'\nw = 1"),
        ("/r/a.py", "replace", "x = 1\n", "x = 2\n"),
        ("/r/crlf.txt", "write_file", "one\r\ntwo\r\n", "one\ntwo\nthree\n"),
    ]
    assert blob_id(b"x = 2\n") in writes[2].blobs


def test_codexs_patches_name_every_file_that_they_write_and_the_text_of_a_new_one(tmp_path):
    """Events of Codex 0.171.0, driven by a scripted API: one patch of two files, two calls that the guard refused."""
    events = [CapturedEvent(NOW, json.loads(line), "codex") for line in recorded("codex")]
    assert [*filter(None, map(prompt_of, events))] == ["Rename x"]
    writes = [write for event in events for write in writes_of(event)]
    assert [(write.path, write.before, write.after) for write in writes] == [
        ("/r/a.py", None, None),
        ("/r/b.py", "", "y = 3\n"),
    ]
    assert {write.tool_use_id for write in writes} == {"exec-d6b972fd-0749-4d02-b249-1e9745e80147"}

    path = tmp_path / "new.py"
    path.write_text("one\ntwo\n")
    at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    patch = "*** Begin Patch\n*** Update File: old.py\n*** Move to: new.py\n@@\n one\n+two\n*** Delete File: x.py\n"
    call = {"hook_event_name": "PostToolUse", "tool_name": "apply_patch", "tool_input": {"command": patch}}
    (write,) = writes_of(CapturedEvent(at, {**call, "cwd": str(tmp_path)}, "codex"))
    assert (write.path, write.blobs) == (str(path), {blob_id(b"one\ntwo\n")})
    assert writes_of(CapturedEvent(at, {**call, "tool_input": {"command": 7}}, "codex")) == ()


def test_a_gemini_session_is_folded_under_its_own_name_and_the_hints_name_gemini(tmp_path):
    common = tmp_path / ".git"
    spool = common / "vibe-gate" / "captures" / GEMINI
    spool.mkdir(parents=True)
    ts = int(NOW.timestamp() * 1000)
    (spool / "events.ndjson").write_text("".join(f'{{"ts":{ts},"event":{line}}}\n' for line in RECORDED))
    state = open_state(common)
    assert captures.fold(state, open_store(tmp_path, Redactor({}), lambda: NOW).captures(), Redactor({}), NOW)[1] == ""

    (folder,) = (tmp_path / ".vibe-artifacts" / "captures").iterdir()
    meta = json.loads((folder / "meta.json").read_text())
    assert folder.name == "gemini_20261127_110000_b10b9136"
    assert (meta["agent"], meta["session_id"], meta["ended"]) == ("gemini", GEMINI, True)
    session = captured.session_in(tmp_path, GEMINI)
    assert session is not None
    assert [call.name for call in session.calls][-3:] == ["replace", "run_shell_command", "read_file"]

    changed = FileVersion(blob_id(b"x = 2\n"), 0o100644, 1)
    files = [FileDiff("a.py", None, "modified", None, changed, False, 1, 0, ())]
    assert written_hints(files, captures.written_blobs(state)) == ("Gemini CLI session b10b9136 wrote 1 of 1 file",)


@pytest.mark.parametrize(
    ("session", "title"),
    [
        ("0f3c9a1e-1111", "Claude Code session 0f3c9a1e"),
        ("gemini", "Claude Code session gemini"),  # an id that Claude Code may give, and no agent's name
        ("other.0f3c9a1e", "Claude Code session other.0f"),
        ("gemini.\x1b[31m", "Gemini CLI session ⟦U+001B⟧[31m"),
    ],
)
def test_a_sessions_name_says_whose_it_is(session, title):
    assert captures.session_title(session) == title


def test_an_edit_by_claude_code_tells_the_file_before_and_after_it():
    def of(tool, asked, answer):
        data = {"hook_event_name": "PostToolUse", "tool_name": tool, "tool_use_id": "toolu_1", "tool_input": asked}
        (write,) = writes_of(CapturedEvent(NOW, data | {"tool_response": answer}))
        return write.tool_use_id, write.before, write.after

    path = {"file_path": "/r/a"}
    assert of("Write", path, {"type": "create", "content": "x\n", "originalFile": None}) == ("toolu_1", "", "x\n")
    assert of("Write", path, {"type": "update", "content": "y\n", "originalFile": "x\n"}) == ("toolu_1", "x\n", "y\n")
    replaced = {"originalFile": "x x\n", "oldString": "x", "newString": "y"}
    assert of("Edit", path, replaced) == ("toolu_1", "x x\n", "y x\n")
    assert of("NotebookEdit", {"notebook_path": "/r/n.ipynb"}, {}) == ("toolu_1", None, None)


@pytest.mark.parametrize("shown", ["Error", None, {}, {"filePath": 7, "newContent": "x"}])
def test_a_call_of_gemini_that_wrote_nothing_has_no_writes(shown):
    data = {"hook_event_name": "AfterTool", "tool_name": "write_file", "tool_input": {}}
    assert writes_of(gemini(**data, tool_response={"returnDisplay": shown})) == ()
    assert writes_of(gemini(**data, tool_response=None)) == ()


def test_every_agent_has_its_events_told():
    assert all(agent.title and agent.prompt and agent.ended and agent.writes for agent in AGENTS.values())
