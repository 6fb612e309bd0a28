"""What an agent's events say: its prompts, and the files that its calls wrote."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from growth import assert_linear

from vibe_gate.domain.change import FileDiff, FileVersion
from vibe_gate.gate.authorship import written_hints
from vibe_gate.secrets import Redactor
from vibe_gate.store import captures
from vibe_gate.store.agent_events import AGENTS, CapturedEvent, read_prompt
from vibe_gate.store.captured_conduct import read_captured_session
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.event_writes import MAX_FILES, FileWrite, blob_id, read_writes
from vibe_gate.store.store import open_store
from vibe_gate.store.stored_writes import LineDigests, WriteLog

NOW = datetime(2026, 11, 27, 11, tzinfo=UTC)
GEMINI = "gemini.b10b9136-a66b-4d07-8973-abfc57582b76"


def read_recorded(agent):
    return (
        (Path(__file__).parent / f"{agent}_events.ndjson").read_text(encoding="utf-8").splitlines()
    )


RECORDED = read_recorded("gemini")
"""Hook events of Gemini CLI 0.61.0, driven by a scripted API: four writes, one that failed, a
command, a read.
"""


def gemini(**data):
    return CapturedEvent(NOW, data, "gemini")


def test_geminis_prompts_and_writes_are_read_from_its_own_events():
    events = [gemini(**json.loads(line)) for line in RECORDED]
    assert [*filter(None, map(read_prompt, events))] == ["Rename x to y; also\nsecond line"]
    writes = [write for event in events for write in read_writes(event)]
    assert [(write.path, write.tool, write.before, write.after) for write in writes] == [
        ("/r/b.py", "write_file", "", "y = 3\n"),
        ("/r/sub/c.py", "write_file", "", "z = 'ü'\nw = 1"),
        ("/r/a.py", "replace", "x = 1\n", "x = 2\n"),
        ("/r/crlf.txt", "write_file", "one\r\ntwo\r\n", "one\ntwo\nthree\n"),
    ]
    assert blob_id(b"x = 2\n") in writes[2].blobs


def test_codexs_patches_name_every_file_that_they_write_and_the_text_of_a_new_one(tmp_path):
    """Events of Codex 0.171.0, driven by a scripted API: one patch of two files, two calls that the
    guard refused.
    """
    events = [CapturedEvent(NOW, json.loads(line), "codex") for line in read_recorded("codex")]
    assert [*filter(None, map(read_prompt, events))] == ["Rename x"]
    writes = [write for event in events for write in read_writes(event)]
    assert [(write.path, write.before, write.after) for write in writes] == [
        ("/r/a.py", None, None),
        ("/r/b.py", "", "y = 3\n"),
    ]
    assert {write.tool_use_id for write in writes} == {"exec-d6b972fd-0749-4d02-b249-1e9745e80147"}

    path = tmp_path / "new.py"
    path.write_text("one\ntwo\n")
    at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    patch = "*** Begin Patch\n*** Update File: old.py\n*** Move to: new.py\n@@\n one\n+two\n*** Delete File: x.py\n"
    call = {
        "hook_event_name": "PostToolUse",
        "tool_name": "apply_patch",
        "tool_input": {"command": patch},
    }
    (write,) = read_writes(CapturedEvent(at, {**call, "cwd": str(tmp_path)}, "codex"))
    assert (write.path, write.blobs) == (str(path), {blob_id(b"one\ntwo\n")})
    assert read_writes(CapturedEvent(at, {**call, "tool_input": {"command": 7}}, "codex")) == ()


def test_a_gemini_session_is_folded_under_its_own_name_and_the_hints_name_gemini(tmp_path):
    common = tmp_path / ".git"
    spool = common / "vibe-gate" / "captures" / GEMINI
    spool.mkdir(parents=True)
    ts = int(NOW.timestamp() * 1000)
    (spool / "events.ndjson").write_text(
        "".join(f'{{"ts":{ts},"event":{line}}}\n' for line in RECORDED)
    )
    state = open_state(common)
    assert (
        captures.fold_captures(
            state, open_store(tmp_path, Redactor({}), lambda: NOW).captures(), Redactor({}), NOW
        )[1]
        == ""
    )

    (folder,) = (tmp_path / ".vibe-artifacts" / "captures").iterdir()
    meta = json.loads((folder / "meta.json").read_text())
    assert folder.name == "gemini_20261127_110000_b10b9136"
    assert (meta["agent"], meta["session_id"], meta["ended"]) == ("gemini", GEMINI, True)
    session = read_captured_session(tmp_path, GEMINI)
    assert session is not None
    assert [call.name for call in session.calls][-3:] == [
        "replace",
        "run_shell_command",
        "read_file",
    ]

    changed = FileVersion(blob_id(b"x = 2\n"), 0o100644, 1)
    files = [FileDiff("a.py", None, "modified", None, changed, False, 1, 0, ())]
    written_by = state.captured_blobs.sessions_by_blob()
    (hint,) = written_hints(files, written_by)
    assert hint.sentence == "Gemini CLI session b10b9136 wrote 1 of 1 file"


@pytest.mark.parametrize(
    ("session", "title"),
    [
        ("0f3c9a1e-1111", "Claude Code session 0f3c9a1e"),
        (
            "gemini",
            "Claude Code session gemini",
        ),  # an id that Claude Code may give, and no agent's name
        ("other.0f3c9a1e", "Claude Code session other.0f"),
        ("gemini.\x1b[31m", "Gemini CLI session ⟦U+001B⟧[31m"),
    ],
)
def test_a_sessions_name_says_whose_it_is(session, title):
    assert captures.session_title(session) == title


def test_an_edit_by_claude_code_tells_the_file_before_and_after_it():
    def of(tool, tool_input, answer):
        data = {
            "hook_event_name": "PostToolUse",
            "tool_name": tool,
            "tool_use_id": "toolu_1",
            "tool_input": tool_input,
        }
        (write,) = read_writes(CapturedEvent(NOW, data | {"tool_response": answer}))
        return write.tool_use_id, write.before, write.after

    path = {"file_path": "/r/a"}
    assert of("Write", path, {"type": "create", "content": "x\n", "originalFile": None}) == (
        "toolu_1",
        "",
        "x\n",
    )
    assert of("Write", path, {"type": "update", "content": "y\n", "originalFile": "x\n"}) == (
        "toolu_1",
        "x\n",
        "y\n",
    )
    replaced = {"originalFile": "x x\n", "oldString": "x", "newString": "y"}
    assert of("Edit", path, replaced) == ("toolu_1", "x x\n", "y x\n")
    assert of("NotebookEdit", {"notebook_path": "/r/n.ipynb"}, {}) == ("toolu_1", None, None)


@pytest.mark.parametrize("display", ["Error", None, {}, {"filePath": 7, "newContent": "x"}])
def test_a_call_of_gemini_that_wrote_nothing_has_no_writes(display):
    data = {"hook_event_name": "AfterTool", "tool_name": "write_file", "tool_input": {}}
    assert read_writes(gemini(**data, tool_response={"returnDisplay": display})) == ()
    assert read_writes(gemini(**data, tool_response=None)) == ()


def test_every_agent_has_its_events_told():
    assert all(
        agent.title and agent.prompt and agent.ended and agent.writes for agent in AGENTS.values()
    )


def claude_write(tool, tool_input, answer, cwd="/r", at=NOW):
    data = {
        "hook_event_name": "PostToolUse",
        "tool_name": tool,
        "tool_use_id": "toolu_1",
        "tool_input": tool_input,
    }
    (write,) = read_writes(CapturedEvent(at, data | {"cwd": cwd, "tool_response": answer}))
    return write


def test_every_editing_tool_of_claude_code_tells_the_file_before_and_after_it():
    edits = [
        {"old_string": "a", "new_string": "b"},
        {"old_string": "b", "new_string": "c", "replace_all": True},
    ]
    for name in ("originalFile", "originalFileContents"):
        write = claude_write("MultiEdit", {"file_path": "/r/x", "edits": edits}, {name: "a b\n"})
        assert (write.before, write.after) == ("a b\n", "c c\n")
    answer = {"original_file": '{"cells": []}', "updated_file": '{"cells": [1]}'}
    write = claude_write("NotebookEdit", {"notebook_path": "/r/n.ipynb"}, answer)
    assert (write.before, write.after) == ('{"cells": []}', '{"cells": [1]}')


@pytest.mark.parametrize(
    ("tool", "tool_input", "answer"),
    [
        (
            "MultiEdit",
            {"edits": [{"old_string": "not there", "new_string": "b"}]},
            {"originalFile": "a\n"},
        ),
        ("MultiEdit", {"edits": ["none"]}, {"originalFile": "a\n"}),
        ("MultiEdit", {"edits": 7}, {"originalFile": "a\n"}),
        ("Edit", {}, {"originalFile": None, "structuredPatch": "none"}),
        ("Edit", {}, {"originalFile": None, "structuredPatch": [{"lines": [7]}]}),
        ("Edit", {}, {"originalFile": None, "structuredPatch": [{"lines": ["+not there"]}]}),
    ],
)
def test_what_an_odd_call_left_is_not_told(tool, tool_input, answer):
    assert claude_write(tool, {"file_path": "/r/x", **tool_input}, answer).after is None


def later() -> datetime:
    """A moment at which a file that was just written has settled."""
    return datetime.fromtimestamp(time.time() + 60, UTC)


def test_the_text_before_an_edit_is_worked_out_of_its_patch(tmp_path):
    file = tmp_path / "a.py"
    file.write_text("one\nTWO\nthree\nfour\nFIVE\n")
    lines = (
        [" one", "-two", "+TWO", " three"],
        [" four", "-five", "-six", "+FIVE", "\\ No newline at end of file"],
    )
    answer = {
        "originalFile": None,
        "structuredPatch": [{"lines": patch_lines} for patch_lines in lines],
    }
    write = claude_write("Edit", {"file_path": str(file)}, answer, at=later())
    assert write.before == "one\ntwo\nthree\nfour\nfive\nsix\n"


@pytest.mark.parametrize(
    ("content", "patch", "before"),
    [
        ("a\nB\nc\n", "@@\n a\n-b\n+B\n c\n", "a\nb\nc\n"),
        ("a\r\nB\r\nc\r\n", "@@\n a\n-b\n+B\n c\n", "a\nb\nc\n"),
        ("new\na\n", "@@ def f():\n+new\n a\n", "a\n"),
        ("a\nB\nc\nD\n", "@@\n-b\n+B\n@@\n-d\n+D\n", "a\nb\nc\nd\n"),
        ("a\nc\n", "@@\n a\n-b\n c\n", "a\nb\nc\n"),
        ("x\nx\n", "@@\n-y\n+x\n", None),  # either of them
        ("formatted\n", "@@\n-b\n+B\n", None),  # no longer what it left
        ("a\n", "@@\n-gone\n", None),  # no line says where
    ],
)
def test_the_text_before_a_patch_of_codex_is_known_where_the_patch_fits_once(
    tmp_path, content, patch, before
):
    (tmp_path / "a.py").write_bytes(content.encode())
    data = {"hook_event_name": "PostToolUse", "tool_name": "apply_patch", "cwd": str(tmp_path)}
    data["tool_input"] = {
        "command": f"*** Begin Patch\n*** Update File: a.py\n{patch}*** End Patch\n"
    }
    (write,) = read_writes(CapturedEvent(later(), data, "codex"))
    assert write.before == before


@pytest.mark.parametrize(
    "given_path",
    ["{top}/src/a.py", "src/a.py", "src/../src/a.py", "linked/a.py", "other.py", "./src//a.py"],
)
def test_a_write_is_at_the_file_itself_whatever_links_lead_there(tmp_path, given_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("x\n")
    (tmp_path / "linked").symlink_to("src")
    (tmp_path / "other.py").symlink_to("src/a.py")
    write = claude_write(
        "Write",
        {"file_path": given_path.format(top=tmp_path)},
        {"content": "x\n"},
        cwd=str(tmp_path),
    )
    assert write.path == str(tmp_path / "src" / "a.py")


def test_a_patch_of_very_many_files_tells_of_each_and_follows_the_lines_of_some():
    def event(count):
        patch = "".join(f"*** Add File: d/{number}\n+{number}\n" for number in range(count))
        data = {"hook_event_name": "PostToolUse", "tool_name": "apply_patch", "cwd": "/r"}
        return CapturedEvent(NOW, data | {"tool_input": {"command": patch}}, "codex")

    writes = read_writes(event(MAX_FILES + 2))
    assert [write.path for write in writes[-2:]] == [f"/r/d/{MAX_FILES}", f"/r/d/{MAX_FILES + 1}"]
    assert [write.after for write in writes[-3:]] == [f"{MAX_FILES - 1}\n", None, None]
    assert writes[-1].blobs == {
        blob_id(b"%d\n" % (MAX_FILES + 1)),
        blob_id(b"%d\r\n" % (MAX_FILES + 1)),
    }


@pytest.mark.slow
def test_folding_a_patch_of_many_files_takes_time_that_grows_with_their_number():
    def written(count):
        return [
            FileWrite(f"/r/{number}", "apply_patch", "x", "", "a\n", frozenset())
            for number in range(count)
        ]

    def keep(writes):
        log = WriteLog(LineDigests(b"k" * 32), lambda value: value)
        for write in writes:
            log.line(write, NOW)

    assert_linear(keep, written, 8_000)
