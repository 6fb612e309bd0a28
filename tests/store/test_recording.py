"""What one run leaves on disk."""

from __future__ import annotations

import gc
import hashlib
import json
import resource
import stat
import subprocess
from pathlib import Path

import pytest
from bundle_words import (
    KEY,
    SECRET,
    START,
    Clock,
    Ended,
    OneSecretRedactor,
    find_run,
    read_summary,
    record_a_review,
    summary_of,
    tree,
)

from vibe_gate.domain.document import read
from vibe_gate.domain.event import Event, fold_events
from vibe_gate.errors import InfrastructureError, StorageError
from vibe_gate.store.folder import Folder
from vibe_gate.store.ndjson_log import read_lines
from vibe_gate.store.store import Store, open_store


def document(path: Path) -> dict:
    return json.loads(path.read_bytes())


def log(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_run_id_is_its_utc_time_with_milliseconds_and_a_short_hash(store: Store) -> None:
    run = store.begin(KEY, START, {})
    assert run.run_id.startswith("20260102T030405678Z-")
    assert len(run.run_id) == len("20260102T030405678Z-") + 8
    assert run.relative == f".vibe-artifacts/{KEY}/{run.run_id}"
    assert run.directory.is_dir()


def test_run_json_says_what_the_run_is_about_and_is_redacted(store: Store) -> None:
    run = store.begin(
        KEY, START, {"prompt": f"the password is {SECRET}", "budgets": {"max_cost_usd": 0.5}}
    )
    run_document = document(run.directory / "run.json")
    assert run_document == {
        "schema": 1,
        "run_id": run.run_id,
        "key": KEY,
        "created_at": "2026-01-02T03:04:05.678Z",
        "prompt": "the password is [redacted]",
        "budgets": {"max_cost_usd": 0.5},
    }
    run.add_to_run_document(versions={"a": "1"}, questions={})
    run.add_to_run_document(versions={"b": "2"}, questions={"q/x": f"Is it {SECRET}?"})
    assert document(run.directory / "run.json") == run_document | {
        "versions": {"a": "1", "b": "2"},
        "questions": {"q/x": "Is it [redacted]?"},
    }


def test_the_store_ignores_itself_and_is_its_owners_only(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / ".vibe-artifacts"
    assert (folder / ".gitignore").read_text() == "*\n"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert (
        subprocess.run(["git", "status", "--porcelain"], cwd=tmp_path, capture_output=True).stdout
        == b""
    )


def test_events_are_numbered_timed_and_fold_to_the_graph_on_disk(store: Store) -> None:
    run = store.begin(KEY, START, {})
    record_a_review(run)
    run.seal(summary_of(run))
    lines = log(run.directory / "events.ndjson")
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[0]["ts"] == "2026-01-02T03:04:05.678Z"
    assert "node_id" not in lines[0]
    assert lines[-1]["data"] == {"status": "completed", "outcome": "pass", "exit_code": 0}
    graph = fold_events(read(Event, line) for line in lines)
    assert (run.directory / "graph.json").read_text() == graph.to_json()
    assert [(node.id, node.status, node.turns) for node in graph.nodes] == [
        ("checks", "DONE", ()),
        ("judge-quality", "DONE", ("turn-001",)),
    ]


def test_the_graph_shows_the_verdict_of_a_sealed_run_only(store: Store) -> None:
    run = store.begin(KEY, START, {})
    run.event("verdict.decided", outcome="pass", exit_code=0, rubrics={"quality": "pass"})
    assert run.read().graph().verdict is None
    run.seal(summary_of(run))
    assert run.read().graph().verdict.rubrics == {"quality": "pass"}


def test_many_contents_are_in_the_log_in_their_order_and_before_what_follows_them(
    store: Store,
) -> None:
    run = store.begin(KEY, START, {})
    for number in range(600):
        run.keep_content("after", b"%d\n" % (number % 500), f"file-{number}")
    assert run.read().state == "running"
    lines = log(run.directory / "events.ndjson")
    assert [line["seq"] for line in lines] == list(range(1, 602))
    assert [line["data"]["path"] for line in lines[1:]] == [
        f"file-{number}" for number in range(600)
    ]
    run.keep_content("before", b"last\n", "last")
    run.event("log.mark", mark="m")
    assert [line["type"] for line in log(run.directory / "events.ndjson")[-2:]] == [
        "artifact.written",
        "log.mark",
    ]


def test_a_deadline_that_interrupts_recording_ends_the_review_and_not_the_recording(
    tmp_path: Path,
) -> None:
    class Interrupted(OneSecretRedactor):
        def data(self, data: bytes) -> bytes:
            raise InfrastructureError("The deadline was reached.")

        def value(self, value: object) -> object:
            if value == {"first": "milliseconds"}:
                raise InfrastructureError("The deadline was reached.")
            return super().value(value)

    store = open_store(tmp_path, Interrupted(), Clock())
    with pytest.raises(InfrastructureError, match="deadline"):
        store.begin(KEY, START, {"first": "milliseconds"})
    run = store.begin(KEY, START, {})
    with pytest.raises(InfrastructureError, match="deadline"):
        run.keep_content("after", b"new\n", "a")
    assert run.lost is None
    run.abandon("The deadline was reached.")
    assert log(run.directory / "events.ndjson")[-1]["data"] == {
        "status": "incomplete", "reason": "The deadline was reached.",
    }  # fmt: skip


def test_a_deadline_that_comes_while_the_verdict_is_written_leaves_the_verdict(
    tmp_path: Path,
) -> None:
    def late(_summary: object, _digests: object) -> bytes:
        raise InfrastructureError("The deadline was reached.")

    run = open_store(tmp_path, OneSecretRedactor(), Clock()).begin(KEY, START, {})
    assert run.seal(summary_of(run), late) is None
    assert "while the verdict was being written" in (run.lost or "")
    assert find_run(tmp_path, run.run_id).state == "incomplete"


def test_a_reader_ends_before_a_line_that_is_being_written(tmp_path: Path) -> None:
    log_file = tmp_path / "events.ndjson"
    log_file.write_bytes(b'{"whole": 1}\n{"ha')

    def finish_line(line: bytes) -> None:
        if not line.endswith(b"\n"):
            with log_file.open("ab") as file:
                file.write(b'lf": 1}\n{"next": 1}\n')

    assert [*read_lines(Folder.at(tmp_path), "events.ndjson", finish_line)] == [b'{"whole": 1}\n']


@pytest.mark.parametrize("name", ["../mine", "full"])
def test_a_file_that_could_not_be_made_takes_none_of_that_name_away(
    tmp_path: Path, name: str
) -> None:
    inside = tmp_path / "folder"
    inside.mkdir()
    mine = inside / name
    mine.write_bytes(b"mine")
    folder = Folder.at(inside)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises((OSError, ValueError)):
            folder.write(name, b"other")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert mine.read_bytes() == b"mine"


def test_the_summary_is_the_document_with_the_digests_of_every_log(store: Store) -> None:
    run = store.begin(KEY, START, {})
    record_a_review(run)
    summary = summary_of(run)
    run.seal(summary)
    written = document(run.directory / "summary.json")
    digests = written.pop("digests")
    assert written.pop("redacted") == {"count": 0, "kinds": {}}
    assert written == json.loads(summary.to_json())
    turn = "nodes/judge-quality/turn-001/"
    assert set(digests) == {
        "events.ndjson", "run.json", "graph.json", "sessions.json", "change.patch",
        turn + "events.ndjson", turn + "hooks.ndjson", turn + "summary.json", turn + "turn.log",
    }  # fmt: skip
    for name, digest in digests.items():
        assert hashlib.sha256((run.directory / name).read_bytes()).hexdigest() == digest
    assert read_summary(run.directory) == summary


def test_sessions_json_maps_nodes_to_their_sessions_in_order(store: Store) -> None:
    run = store.begin(KEY, START, {})
    for number in (1, 2):
        run.turn("judge-quality").seal(Ended(session_id=f"session-{number}"))
    run.seal(summary_of(run))
    assert document(run.directory / "sessions.json") == {
        "schema": 1,
        "nodes": {"judge-quality": ["session-1", "session-2"]},
    }


def test_a_turns_summary_has_the_seeds_names(store: Store) -> None:
    run = store.begin(KEY, START, {})
    record_a_review(run)
    turn = document(run.directory / "nodes/judge-quality/turn-001/summary.json")
    assert turn["testId"] == f"{run.run_id}/judge-quality/turn-001"
    assert turn["metrics"] == {
        "totalTokens": 1234, "totalCostUsd": 0.0125, "costBasis": "known", "durationMs": 1500, "toolCalls": 1,
        "filesChanged": 0,
    }  # fmt: skip
    assert turn["fileStats"] == {"added": 0, "modified": 0, "deleted": 0, "renamed": 0, "total": 0}
    (call,) = turn["toolCalls"]
    assert (call["name"], call["ok"], call["durationMs"], call["hookRef"]) == (
        "Read",
        True,
        1,
        {"pre": 0, "post": 1},
    )
    assert turn["todos"] == [{"text": "read pay.py", "status": "completed"}]
    assert turn["hookCaptureStatus"] == {"complete": True, "missingEvents": [], "warnings": []}
    assert "git" not in turn


def test_hooks_stay_raw_and_carry_seq_ts_and_tool_use_id(store: Store) -> None:
    run = store.begin(KEY, START, {})
    turn = run.turn("judge-quality")
    turn.hook(
        {
            "seq": 9,
            "ts": 1000,
            "hook": "Stop",
            "hook_event_name": "Stop",
            "tool_use_id": None,
            "new": [1],
        }
    )
    (line,) = log(run.directory / turn.relative / "hooks.ndjson")
    assert line == {
        "seq": 0,
        "ts": 1000,
        "hook": "Stop",
        "tool_use_id": "",
        "hook_event_name": "Stop",
        "new": [1],
    }


def test_a_transcript_is_readable_and_has_no_raw_control_character(store: Store) -> None:
    run = store.begin(KEY, START, {})
    turn = run.turn("judge-quality")
    turn.event(
        {
            "type": "message",
            "role": "assistant",
            "content": "a\x1b]0;owned\x07\u202eb\nc",
            "ts": 3_723_004,
        }
    )
    turn.event({"type": "system", "subtype": "init", "data": {"cwd": "/"}, "ts": 1})
    turn.event(
        {
            "type": "message",
            "role": "assistant",
            "tool": "Write",
            "input": {"file_path": "a"},
            "ts": 0,
        }
    )
    turn.event({"type": "message", "role": "tool", "result": [{"text": "\x9b31m"}], "ts": 0})
    turn.event({"type": "result", "subtype": "error_max_turns", "uuid": "u", "ts": 0})
    assert (run.directory / turn.relative / "turn.log").read_text() == (
        "01:02:03.004 message assistant: a⟦U+001B⟧]0;owned⟦U+0007⟧⟦U+202E⟧b\nc\n"
        '00:00:00.000 message assistant Write: {"file_path": "a"}\n'
        "00:00:00.000 message tool: ⟦U+009B⟧31m\n00:00:00.000 result: error_max_turns\n"
    )


def test_logs_are_ascii_whatever_they_carry(store: Store) -> None:
    run = store.begin(KEY, START, {})
    run.event("log.mark", text="\x9b\u202e\ud800 é", number=float("nan"))
    raw = (run.directory / "events.ndjson").read_bytes()
    assert raw.isascii()
    assert log(run.directory / "events.ndjson")[-1]["data"] == {
        "text": "\x9b\u202e\ud800 é",
        "number": None,
    }


def test_an_abandoned_run_is_incomplete_and_shows_no_verdict(store: Store, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), store.begin(KEY, START, {}) as run:
        raise KeyboardInterrupt
    run.event("log.mark")
    run.seal(summary_of(run))
    view = find_run(tmp_path)
    assert view.state == "incomplete"
    assert [event.type for event in view.events()] == ["run.created", "run.completed"]
    assert list(view.events())[-1].data == {"status": "incomplete", "reason": "interrupted"}
    with pytest.raises(StorageError, match="incomplete"):
        _ = view.summary


def test_no_descriptor_stays_open_after_a_run(store: Store) -> None:
    gc.collect()  # what earlier tests left open
    before = set(Path("/proc/self/fd").iterdir())
    run = store.begin(KEY, START, {})
    record_a_review(run)
    run.turn("judge-quality").event({"type": "message"})
    run.seal(summary_of(run))
    del run
    assert set(Path("/proc/self/fd").iterdir()) == before


@pytest.mark.parametrize(
    "key", ["..", "a/b", "", ".hidden", "objects", "quarantine", "x" * 200, "a\0b"]
)
def test_a_key_that_could_leave_its_place_is_refused(store: Store, key: str) -> None:
    with pytest.raises(ValueError, match=r"key of a change|itself"):
        store.begin(key, START, {})


@pytest.mark.parametrize("node_id", ["..", "a/b", "", "-x", "a\nb"])
def test_a_node_id_that_could_leave_its_place_is_refused(store: Store, node_id: str) -> None:
    with pytest.raises(ValueError, match="cannot be a node id"):
        store.begin(KEY, START, {}).turn(node_id)


def test_text_that_is_no_unicode_never_ends_a_session_or_a_run(
    store: Store, tmp_path: Path
) -> None:
    bad = "\ud800\x1b[2J"
    run = store.begin(KEY, START, {"prompt": bad})
    run.event("node.added", "judge-quality", kind="judge")
    run.event("node.status", "judge-quality", status="BLOCKED", reason=bad)
    turn = run.turn("judge-quality")
    turn.event({"type": "todo", "action": "add", "text": bad, "status": bad})
    turn.event({"type": bad, "role": bad, "content": [bad]})
    turn.hook({"hook_event_name": "PreToolUse", "tool_name": bad, "tool_use_id": bad, bad: bad})
    turn.seal(Ended(session_id=bad, detail=bad))
    run.seal(summary_of(run))
    assert run.lost is None
    assert find_run(tmp_path).summary.outcome == "pass"
    assert find_run(tmp_path).graph().nodes[0].status == "BLOCKED"


def test_input_nested_without_end_is_left_out_and_the_session_goes_on(store: Store) -> None:
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    run = store.begin(KEY, START, {})
    turn = run.turn("judge-quality")
    turn.hook(
        {
            "hook_event_name": "PreToolUse",
            "tool_name": "Read",
            "tool_use_id": "t",
            "tool_input": deep,
        }
    )
    turn.event({"type": "message", "role": "assistant", "input": deep})
    (line,) = log(run.directory / turn.relative / "hooks.ndjson")
    assert (line["tool_use_id"], line["left_out"]) == ("t", "nested too deeply to be recorded")
    (line,) = log(run.directory / turn.relative / "events.ndjson")
    assert (line["role"], line["left_out"]) == ("assistant", "nested too deeply to be recorded")


def test_straggling_threads_find_a_sealed_run_closed(store: Store) -> None:
    run = store.begin(KEY, START, {})
    turn = run.turn("judge-quality")
    run.seal(summary_of(run))
    before = tree(run.directory)
    turn.event({"type": "message"})
    turn.hook({})
    turn.seal(Ended())
    run.event("log.mark")
    run.keep_patch(b"late")
    assert run.keep_content("after", b"late") is None
    assert run.turn("judge-quality").relative == ""
    run.abandon("late")
    assert tree(run.directory) == before
