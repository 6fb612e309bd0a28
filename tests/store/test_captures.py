"""Captured sessions: what is kept of them, what never is, and which blobs they wrote."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bundle_schemas import find_problems

from vibe_gate.domain.bundles import Provenance
from vibe_gate.domain.document import MAX_VALUES
from vibe_gate.secrets import Redactor
from vibe_gate.store import captures
from vibe_gate.store.agent_events import CapturedEvent
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.event_writes import blob_id, written_blobs_of
from vibe_gate.store.store import open_store
from vibe_gate.store.store_audit import verify_store

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
TS = int(NOW.timestamp() * 1000)
SESSION = "0f3c9a1e-1111-2222-3333-444455556666"


@pytest.fixture
def common(tmp_path):
    """A git folder; `.vibe-artifacts` would be beside it."""
    folder = tmp_path / ".git"
    folder.mkdir()
    return folder


def spool(common, *events, session=SESSION, ts=TS):
    """Leave events as capture does."""
    folder = common / "vibe-gate" / "captures" / session
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "events.ndjson", "a") as file:
        for number, event in enumerate(events):
            file.write(
                event
                if isinstance(event, str)
                else json.dumps({"ts": ts + number, "event": event}) + "\n"
            )


def fold(common, now=NOW, environ=None):
    redactor = Redactor(environ or {})
    shelf = open_store(common.parent, redactor, lambda: NOW).captures()
    return captures.fold_captures(open_state(common), shelf, redactor, now)[0]


def read_session(common):
    """The one session below `.vibe-artifacts/captures`: its name, its meta and its messages."""
    (folder,) = (common.parent / ".vibe-artifacts" / "captures").iterdir()
    messages = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return folder.name, json.loads((folder / "meta.json").read_text()), messages


def write_event(path, content, **fields):
    return {
        "hook_event_name": "PostToolUse",
        "tool_name": "Write",
        "tool_input": {"file_path": path, "content": content},
        "tool_response": {"type": "create", "content": content, **fields},
    }


def edit_event(path, original, old, new, replace_all=False):
    return {
        "hook_event_name": "PostToolUse",
        "tool_name": "Edit",
        "tool_input": {
            "file_path": path,
            "old_string": old,
            "new_string": new,
            "replace_all": replace_all,
        },
        "tool_response": {"originalFile": original, "oldString": old, "newString": new},
    }


def test_events_become_messages_and_the_raw_ones_go(common):
    spool(
        common,
        {"hook_event_name": "SessionStart"},
        {"hook_event_name": "UserPromptSubmit", "prompt": "go"},
    )
    assert fold(common) == 2
    name, meta, messages = read_session(common)
    assert name == "claude_20260304_050607_0f3c9a1e"
    assert [(message["ts"], message["type"]) for message in messages] == [
        ("2026-03-04T05:06:07.000Z", "SessionStart"),
        ("2026-03-04T05:06:07.001Z", "UserPromptSubmit"),
    ]
    assert (meta["schema"], meta["session_id"], meta["events"], meta["agent"]) == (
        1,
        SESSION,
        2,
        "claude",
    )
    leftovers = {path.name for path in (common / "vibe-gate" / "captures" / SESSION).iterdir()}
    assert leftovers == set()


def test_a_captured_session_fits_the_published_schemas(common, tmp_path):
    written = tmp_path / "a.py"
    written.write_text("x = 1\n")
    call = {"tool_name": "Write", "tool_use_id": "toolu_1", "cwd": str(tmp_path)}
    content = {"file_path": str(written), "content": "x = 1\n"}
    spool(
        common,
        {"hook_event_name": "UserPromptSubmit", "prompt": "go"},
        {"hook_event_name": "PreToolUse", **call, "tool_input": content},
        {
            "hook_event_name": "PostToolUse",
            **call,
            "tool_input": content,
            "tool_response": {"type": "create", "filePath": str(written), **content},
        },
    )
    fold(common)
    problems, names = find_problems(common.parent / ".vibe-artifacts")
    assert problems == []
    assert names == {"capture-meta", "capture-event", "capture-write"}


def test_a_secret_never_leaves_the_spool(common):
    key = "sk-ant-api03-" + "Zq7" * 31 + "AA"
    spool(
        common,
        write_event("/r/.env", f"KEY={key}\n"),
        {"hook_event_name": "UserPromptSubmit", "prompt": "tOp-sEcret-9"},
    )
    fold(common, environ={"MY_TOKEN": "tOp-sEcret-9"})
    everything = b"".join(path.read_bytes() for path in common.parent.rglob("*") if path.is_file())
    assert key.encode() not in everything
    assert b"tOp-sEcret-9" not in everything


def test_a_line_that_is_no_event_is_counted_and_costs_no_other(common):
    spool(
        common,
        {"hook_event_name": "SessionStart"},
        '{"ts":1,"event":{"torn\n',
        "\n",
        {"hook_event_name": "Stop"},
    )
    assert fold(common) == 2
    assert read_session(common)[1]["damaged"] == 2


@pytest.mark.parametrize("value", [["Write"], None])
def test_an_event_with_other_types_than_usual_is_only_kept(common, value):
    odd = dict.fromkeys(("tool_name", "tool_input"), value)
    spool(common, {**odd, "hook_event_name": "PostToolUse"}, {**odd, "hook_event_name": value})
    assert fold(common) == 2
    assert len(read_session(common)[2]) == 2


def test_where_nothing_can_be_written_the_blobs_are_known_and_the_events_wait(common):
    (common.parent / ".vibe-artifacts").symlink_to("/tmp")
    spool(common, write_event("/r/a.py", "x = 1\n"))
    assert fold(common) == 0
    assert blob_id(b"x = 1\n") in open_state(common).captured_blobs.sessions_by_blob()
    (common.parent / ".vibe-artifacts").unlink()
    assert fold(common) == 1


def test_without_sessions_nothing_is_made(common):
    assert fold(common) == 0
    assert open_state(common).captured_blobs.sessions_by_blob() == {}
    assert not (common / "vibe-gate").exists()


def test_sessions_are_forgotten_after_a_month(common):
    spool(common, write_event("/r/a.py", "x = 1\n"))
    fold(common)
    assert open_state(common).captured_blobs.sessions_by_blob()
    fold(common, datetime.now(UTC) + timedelta(days=31))
    assert open_state(common).captured_blobs.sessions_by_blob() == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "whose"),
    [(".lock", "all sessions"), (f"{SESSION}/events.ndjson", f"session {SESSION[:8]}")],
)
def test_what_another_process_holds_waits_and_is_said(common, place, whose):
    spool(common, {"hook_event_name": "SessionStart"})
    with (common / "vibe-gate" / "captures" / place).open("ab") as locked_file:
        fcntl.flock(locked_file, fcntl.LOCK_EX)
        note = captures.note_written(open_state(common), NOW)
    assert f"cannot be read ({whose}: another process holds the lock)" in note
    assert fold(common) == 1


def blobs(event, ts=TS):
    return written_blobs_of(CapturedEvent(datetime.fromtimestamp(ts / 1000, UTC), event))


def test_blob_ids_are_those_of_git(tmp_path, environ):
    for data in (b"", b"x = 1\n", b"\x00\xff" * 999):
        result = subprocess.run(
            ["git", "hash-object", "--stdin"], input=data, capture_output=True, cwd=tmp_path
        )
        assert blob_id(data) == result.stdout.decode().strip()


@pytest.mark.parametrize(
    ("event", "content"),
    [
        (write_event("/r/a", "one\ntwo\n"), b"one\ntwo\n"),
        (write_event("/r/a", "one\ntwo\n"), b"one\r\ntwo\r\n"),
        (edit_event("/r/a", "one\none\n", "one", "two"), b"two\none\n"),
        (edit_event("/r/a", "one\none\n", "one", "two", replace_all=True), b"two\ntwo\n"),
        (edit_event("/r/a", "", "", "two\n"), b"two\n"),
        (write_event("/r/a", "grün\n"), "grün\n".encode()),
    ],
)
def test_the_content_after_the_call_is_what_counts(event, content):
    assert blob_id(content) in blobs(event)


@pytest.mark.parametrize(
    "event",
    [
        write_event("/r/a", "x") | {"hook_event_name": "PreToolUse"},
        write_event("/r/a", "x") | {"tool_name": "Read"},
        write_event("/r/a", "x") | {"tool_input": None},
        write_event(7, "x"),
        write_event("/r/a", ""),
        edit_event("/r/a", "abc", "not there", "x"),
        edit_event("/r/a", None, "a", "b"),
        write_event("/r/a", None),
        write_event("/r/\0", None),
    ],
)
def test_a_call_that_wrote_nothing_has_no_blobs(event):
    assert blobs(event) == set()


def test_a_file_that_a_formatter_changed_at_once_is_still_the_agents(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    at = path.stat().st_mtime_ns // 1_000_000
    assert blob_id(b"x = 1\n") in blobs(write_event(str(path), "x=1\n"), at - 200)
    os.utime(path, ((at + 60_000) / 1000,) * 2)
    assert blob_id(b"x = 1\n") not in blobs(write_event(str(path), "x=1\n"), at - 200)


@pytest.mark.slow
def test_a_short_event_that_tells_of_a_huge_content_costs_next_to_nothing(common):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ten_gigabytes = edit_event("/r/a", "a" * 100_000, "a", "b" * 100_000, replace_all=True)
    many_values = f'{{"ts": {TS}, "event": {{"x": [{"0," * MAX_VALUES}0]}}}}\n'
    spool(common, ten_gigabytes, many_values, write_event("/r/b", "x = 1\n"))
    captures.note_written(open_state(common), NOW)
    assert blob_id(b"x = 1\n") in open_state(common).captured_blobs.sessions_by_blob()
    assert fold(common) == 2
    assert read_session(common)[1]["damaged"] == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KB


class Stumbling(Redactor):
    """A redactor that some text is too much for."""

    def text(self, text):
        if "stumble" in text:
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
        return super().text(text)


def fold_stumbling(common, now=NOW):
    shelf = open_store(common.parent, Redactor({}), lambda: NOW).captures()
    return captures.fold_captures(open_state(common), shelf, Stumbling({}), now)[0]


def list_flaws(common):
    """What `bundles verify` finds wrong with the sessions."""
    return [flaw.why for flaw in verify_store(common.parent, Provenance(NOW)).problems]


def folders(common):
    return sorted((common.parent / ".vibe-artifacts" / "captures").iterdir())


@pytest.mark.parametrize(
    "ids",
    [
        ("session-1", "session-2"),
        ("_", "__", "unknown"),
    ],
)
def test_sessions_whose_ids_begin_alike_in_one_second_stay_apart(common, ids):
    for number in range(2):
        for session in ids:
            spool(
                common,
                {"hook_event_name": "Stop", "prompt": f"{session} {number}"},
                session=session,
            )
        fold(common, NOW + timedelta(seconds=number))
    prompts_by_session = {}
    for folder in folders(common):
        lines = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        prompts_by_session[json.loads((folder / "meta.json").read_text())["session_id"]] = [
            line["data"]["prompt"] for line in lines
        ]
    assert prompts_by_session == {session: [f"{session} 0", f"{session} 1"] for session in ids}
    assert list_flaws(common) == []
    assert captures.read_capture_gaps(open_state(common)) == []


# Folding that is interrupted, hostile or in the way


def test_an_event_that_cannot_be_kept_is_left_out_and_said_to_be_so(common):
    spool(
        common,
        write_event("/r/a.py", "x = 1\n"),
        write_event("/r/stumble.py", "y = 1\n"),
        {"hook_event_name": "SessionEnd"},
    )
    assert fold_stumbling(common) == 3
    _, meta, messages = read_session(common)
    assert [message["type"] for message in messages] == ["PostToolUse", "", "SessionEnd"]
    assert messages[1]["data"] == {"left_out": "UnicodeEncodeError"}
    assert (meta["events"], meta["damaged"], meta["ended"]) == (3, 1, True)
    assert not list((common / "vibe-gate" / "captures" / SESSION).iterdir())


def test_an_event_that_is_nested_deeply_costs_no_other(common):
    depth = 940
    deep = '{"hook_event_name": "Stop", "x": %s}' % ("[" * depth + '"tOp-sEcret-9"' + "]" * depth)
    spool(
        common,
        {"hook_event_name": "SessionStart"},
        f'{{"ts": {TS}, "event": {deep}}}\n',
        {"hook_event_name": "End"},
    )
    assert fold(common, environ={"MY_TOKEN": "tOp-sEcret-9"}) == 3
    _, meta, messages = read_session(common)
    assert messages[1]["type"] == "Stop" or messages[1]["data"] == {"left_out": "nested too deeply"}
    assert meta["damaged"] == ("left_out" in messages[1]["data"])
    assert "tOp-sEcret-9" not in json.dumps(messages) + json.dumps(meta)


@pytest.mark.parametrize("calls", [1, 3, 6])
def test_folding_that_is_killed_anywhere_is_finished_once(common, calls):
    spool(
        common,
        {"hook_event_name": "SessionStart"},
        {"hook_event_name": "Stop"},
        {"hook_event_name": "SessionEnd"},
    )
    countdown = calls

    class Dying(Redactor):
        def value(self, value):
            nonlocal countdown
            countdown -= 1
            if not countdown:
                os._exit(9)
            return super().value(value)

    if not os.fork():
        shelf = open_store(common.parent, Redactor({}), lambda: NOW).captures()
        captures.fold_captures(open_state(common), shelf, Dying({}), NOW)
        os._exit(0)
    os.wait()
    fold(common)
    assert [message["type"] for message in read_session(common)[2]] == [
        "SessionStart",
        "Stop",
        "SessionEnd",
    ]
    assert list_flaws(common) == []


@pytest.mark.parametrize(
    ("damage", "goes_on"),
    [
        (lambda folder: shutil.rmtree(folder), 0),
        (lambda folder: (folder / "meta.json").unlink(), 1),
        (lambda folder: (folder / "events.jsonl").write_bytes(b'{"torn'), 1),
    ],
    ids=["gone", "meta", "torn"],
)
def test_what_is_not_as_it_was_left_stays_and_the_session_goes_on_beside_it(
    common, damage, goes_on
):
    spool(common, {"hook_event_name": "SessionStart"}, {"hook_event_name": "Stop"})
    fold(common)
    (first,) = folders(common)
    damage(first)
    for number in range(1, 3):
        spool(common, {"hook_event_name": f"Later{number}"})
        assert fold(common, NOW + timedelta(seconds=number)) == 1
    assert len(folders(common)) == 1 + goes_on
    last = next((folder for folder in folders(common) if folder != first), first)
    assert [json.loads(line)["type"] for line in (last / "events.jsonl").read_text().splitlines()][
        -2:
    ] == [
        "Later1",
        "Later2",
    ]


def test_where_the_state_takes_nothing_the_events_wait_and_that_is_a_hint(common):
    spool(common, write_event("/r/a.py", "x = 1\n"))
    (common / "vibe-gate" / "state.db").mkdir()
    state = open_state(common)
    assert "cannot be read (session 0f3c9a1e" in captures.note_written(state, NOW)
    (common / "vibe-gate" / "state.db").rmdir()
    assert fold(common) == 1


def test_the_id_of_the_session_is_no_secret_whatever_variable_holds_it(common):
    spool(common, {"hook_event_name": "Stop", "session_id": SESSION})
    fold(common, environ={"CLAUDE_CODE_SESSION_ID": SESSION, "COPILOT_AGENT_SESSION_ID": SESSION})
    _, meta, messages = read_session(common)
    assert (meta["session_id"], messages[0]["data"]["session_id"]) == (SESSION, SESSION)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "lie", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("../../../elsewhere")]
)
@pytest.mark.parametrize("name", [f"{SESSION}/events.ndjson", "gaps", ".lock"])
def test_what_is_no_file_keeps_nobody_waiting_and_is_never_followed(common, lie, name):
    (common.parent / "elsewhere").write_text("theirs\n")
    spool(common, {"hook_event_name": "Stop"}, write_event("/r/a.py", "x = 1\n"), session="another")
    path = common / "vibe-gate" / "captures" / name
    path.parent.mkdir(exist_ok=True)
    lie(path)
    note = captures.note_written(open_state(common), NOW)
    assert captures.read_capture_gaps(open_state(common)) == []
    assert (common.parent / "elsewhere").read_text() == "theirs\n"
    named_source = {"gaps": "", ".lock": "all sessions: "}.get(name, f"session {SESSION[:8]}: ")
    assert named_source in note and bool(named_source) == bool(note)
    assert fold(common) == (0 if name == ".lock" else 2)
