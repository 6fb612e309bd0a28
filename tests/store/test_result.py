"""A run or a turn read back from its bundle alone."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from bundle_words import (
    KEY,
    SECRET,
    START,
    Clock,
    Ended,
    OneSecretRedactor,
    record_a_review,
    summary_of,
)

from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.store.bundle_events import TimelineEvent
from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.run_result import Attachment, RunResult, read_bundle
from vibe_gate.store.store import Store
from vibe_gate.store.turn_recorder import TurnRecorder
from vibe_gate.store.turn_summary import MAX_LISTED_LACKS

GOLDEN = Path(__file__).parents[1] / "golden/bundle-1"


@pytest.fixture
def golden(tmp_path: Path) -> RunResult:
    return read_bundle(shutil.copytree(GOLDEN, tmp_path / "bundle-1"))


@pytest.fixture
def run(store: Store) -> RunRecorder:
    return store.begin(KEY, START, {"workflow": "review"})


def hook(
    turn: TurnRecorder, event: str, tool_use_id: str, tool: str = "Read", **fields: Any
) -> None:
    turn.hook({"hook_event_name": event, "tool_name": tool, "tool_use_id": tool_use_id, **fields})


async def all_of(events: AsyncIterator[TimelineEvent]) -> list[TimelineEvent]:
    return [event async for event in events]


def turn_of(run: RunRecorder, turn: TurnRecorder) -> RunResult:
    return read_bundle(run.directory / turn.relative)


def test_a_sealed_run_says_what_it_used_and_what_it_decided(golden: RunResult) -> None:
    assert (golden.state, golden.complete, golden.summary.outcome) == ("sealed", True, "fail")
    metrics = golden.metrics
    assert (metrics.total_tokens, metrics.total_cost_usd, metrics.duration_ms) == (
        1234,
        0.0125,
        1500,
    )
    assert (metrics.tool_calls, metrics.files_changed) == (3, 2)
    assert golden.bundle_dir.is_absolute()


def test_a_run_tells_its_change_and_the_repository_before_and_after(golden: RunResult) -> None:
    git = golden.git
    assert git.before and git.after
    assert (git.before.head, git.after.head, git.after.dirty, git.changed_count) == (
        "a" * 40,
        KEY,
        False,
        2,
    )
    assert [(difference.path, difference.change, difference.old_path) for difference in git.diff_summary()] == [
        ("pay.py", "M", None), ('"caf\\351"', "R", "cafe"),
    ]  # fmt: skip


def test_a_run_joins_its_turns(golden: RunResult) -> None:
    assert [message.turn for message in golden.messages] == ["nodes/judge-quality/turn-001"]
    assert [(todo.text, todo.status) for todo in golden.todos] == [
        ("charge the new price", "completed")
    ]
    assert [call.state for call in golden.tools.all()] == ["failed", "completed", "denied"]
    assert [turn.bundle_dir.name for turn in golden.turns()] == ["turn-001", "turn-001", "turn-002"]
    assert golden.hook_capture_status.complete


def test_a_turn_that_was_said_to_begin_twice_is_one_turn(store: Store) -> None:
    run = store.begin(KEY, START, {})
    run.turn("judge").event({"type": "message", "role": "user", "content": "once"})
    run.event("turn.started", "judge", turn="turn-001")
    assert len(read_bundle(run.directory).turns()) == len(read_bundle(run.directory).messages) == 1


def test_a_turn_is_read_alone_wherever_it_was_copied(golden: RunResult, tmp_path: Path) -> None:
    inside = golden.bundle_dir / "nodes/fix/turn-001"
    alone = read_bundle(shutil.copytree(inside, tmp_path / "downloaded"))
    for turn in (read_bundle(inside), alone):
        assert turn.complete
        assert (turn.metrics.total_tokens, turn.metrics.files_changed) == (1234, 1)
        assert turn.git.before and turn.git.after and turn.git.after.dirty
        assert turn.files.stats().modified == 1
        assert turn.turns() == []
    with pytest.raises(StorageError, match=r"no verdict of its own.* has metrics, .*files"):
        _ = alone.summary


def test_a_message_is_a_short_head_and_whole_on_demand(run: RunRecorder) -> None:
    turn = run.turn("fix")
    turn.event({"type": "message", "role": "user", "content": "Fix\x1b[1m it\nnow. " + "x" * 500})
    turn.event(
        {
            "type": "message",
            "role": "assistant",
            "content": "",
            "tool": "Edit",
            "input": {"path": "a.py"},
        }
    )
    turn.event({"type": "usage", "tokens": {"input": 1, "output": 1}, "cost": 0.1})
    turn.event({"type": "message", "role": "tool", "result": [{"type": "text", "text": "done"}]})
    turn.event({"type": "message", "role": "wizard", "content": "?"})
    turn.seal(Ended())
    messages = turn_of(run, turn).messages
    heads = [(message.role, message.summary) for message in messages]
    assert heads[0][1].startswith("Fix⟦U+001B⟧[1m it now. xxx")
    assert heads[1:] == [("assistant", 'Edit {"path": "a.py"}'), ("tool", "done"), ("system", "?")]
    assert messages[0].load()["content"].endswith("x" * 500)
    assert len(messages) == 4
    assert messages[-1].load()["role"] == "wizard"
    assert [message.role for message in messages[1:3]] == ["assistant", "tool"]


def test_a_message_that_changed_meanwhile_is_an_integrity_error(run: RunRecorder) -> None:
    turn = run.turn("fix")
    turn.event({"type": "message", "role": "user", "content": "old"})
    (message,) = turn_of(run, turn).messages
    log = run.directory / turn.relative / "events.ndjson"
    log.write_text(log.read_text().replace("old", "new"))
    with pytest.raises(IntegrityError, match=r"events\.ndjson"):
        message.load()


def test_parallel_calls_of_one_tool_are_told_apart_by_their_ids(run: RunRecorder) -> None:
    turn = run.turn("fix")
    for number in range(4):
        hook(turn, "PreToolUse", f"t{number}", tool_input={"n": number})
    for number in (1, 2, 3, 0):
        hook(turn, "PostToolUse", f"t{number}", tool_response=f"answer {number}")
    turn.seal(Ended())
    tools = turn_of(run, turn).tools
    assert [(call.tool_use_id, call.input(), call.response()) for call in tools.all()] == [
        (f"t{n}", {"n": n}, f"answer {n}") for n in range(4)
    ]
    assert (tools.used("Read"), tools.used("Edit"), len(tools.succeeded())) == (4, 0, 4)


def test_every_way_a_call_can_end_has_a_state(run: RunRecorder) -> None:
    turn = run.turn("fix")
    for name in ("good", "bad", "denied", "lost"):
        hook(turn, "PreToolUse", name)
    hook(turn, "PostToolUse", "good")
    hook(turn, "PostToolUseFailure", "bad", error="gone")
    hook(turn, "PostToolUse", "orphan", tool="Edit")
    turn.seal(Ended(permission_denials=[{"tool_use_id": "denied"}]))
    result = turn_of(run, turn)
    tools = result.tools
    states = {call.tool_use_id: call.state for call in tools.all()}
    assert states == {
        "good": "completed", "bad": "failed", "denied": "denied", "lost": "missing-post", "orphan": "orphan-post",
    }  # fmt: skip
    assert [call.tool_use_id for call in tools.failed()] == ["bad", "denied", "lost"]
    assert [call.tool_use_id for call in tools.succeeded()] == ["good", "orphan"]
    assert tools.in_progress() == []
    first = tools.find_first("Edit")
    assert first is not None and (first.hook_ref.pre, first.hook_ref.post, first.input()) == (
        None,
        6,
        None,
    )
    assert tools.failed()[0].response() == "gone"
    status = result.hook_capture_status
    assert (status.complete, status.missing_events) == (
        False,
        ("PostToolUse lost", "PreToolUse orphan"),
    )


def test_a_call_beyond_those_that_the_summary_lists_has_its_state(run: RunRecorder) -> None:
    turn = run.turn("fix")
    names = [f"t{number}" for number in range(MAX_LISTED_LACKS + 3)]
    for name in names:
        hook(turn, "PreToolUse", name)
    denials = [{"tool_use_id": names[-2]}]
    turn.event({"type": "result", "permission_denials": denials})
    turn.seal(Ended(permission_denials=denials))
    states = [call.state for call in turn_of(run, turn).tools.all()]
    assert states == ["missing-post"] * (len(names) - 2) + ["denied", "missing-post"]


def test_a_call_of_a_subagent_names_the_call_that_started_it(run: RunRecorder) -> None:
    turn = run.turn("fix")
    hook(turn, "PreToolUse", "outer", tool="Agent")
    hook(turn, "PreToolUse", "inner", agent_id="agent-7")
    hook(turn, "PostToolUse", "inner", agent_id="agent-7")
    hook(turn, "PostToolUse", "outer", tool="Agent", tool_response={"agentId": "agent-7"})
    turn.seal(Ended())
    outer, inner = turn_of(run, turn).tools.all()
    assert (outer.agent_id, outer.parent_tool_use_id) == ("", "")
    assert (inner.agent_id, inner.parent_tool_use_id) == ("agent-7", "outer")


def test_a_running_run_shows_what_there_is_and_no_verdict(run: RunRecorder) -> None:
    turn = run.turn("judge-quality")
    turn.event({"type": "message", "role": "user", "content": "?"})
    turn.event({"type": "todo", "action": "add", "text": "look", "status": "in_progress"})
    hook(turn, "PreToolUse", "t1")
    result = read_bundle(run.directory)
    assert (result.state, result.complete) == ("running", False)
    with pytest.raises(StorageError, match="no outcome to show"):
        _ = result.summary
    assert (result.metrics.total_tokens, result.metrics.tool_calls) == (None, 1)
    assert [todo.status for todo in result.todos] == ["in_progress"]
    assert result.files.changed() == []
    assert [call.state for call in result.tools.in_progress()] == ["in-progress"]
    assert result.tools.failed() == []
    assert not result.hook_capture_status.complete
    assert (result.git.before, result.git.changed_count) == (None, 0)
    assert turn_of(run, turn).state == "running"


def test_torn_last_lines_are_left_out(run: RunRecorder) -> None:
    turn = run.turn("fix")
    turn.event({"type": "message", "role": "user", "content": "whole"})
    hook(turn, "PreToolUse", "t1")
    folder = run.directory / turn.relative
    for log in (folder / "events.ndjson", folder / "hooks.ndjson", run.directory / "events.ndjson"):
        with log.open("a") as file:
            file.write('{"seq":9,"ts":1,"type":"mess')
    result = read_bundle(run.directory)
    assert [message.summary for message in result.messages] == ["whole"]
    assert len(result.tools.all()) == 1
    assert len(asyncio.run(all_of(result.timeline.events()))) == 4


def test_an_annotation_lies_beside_the_sealed_files_and_breaks_no_seal(run: RunRecorder) -> None:
    record_a_review(run)
    run.seal(summary_of(run))
    result = read_bundle(run.directory, redact=OneSecretRedactor(), clock=Clock())
    (turn,) = result.turns()
    result.annotate(
        f"the key is {SECRET}", "warning", Attachment(f"log {SECRET}".encode(), "text/plain")
    )
    turn.annotate("look here")
    first, second = result.annotations()
    assert (first.message, first.type, first.turn) == ("the key is [redacted]", "warning", "")
    assert first.attachment is not None
    assert (run.directory / first.attachment["name"]).read_bytes() == b"log [redacted]"
    assert (second.message, second.type, second.turn) == (
        "look here",
        "notice",
        "nodes/judge-quality/turn-001",
    )
    assert [remark.message for remark in turn.annotations()] == ["look here"]
    assert read_bundle(run.directory).summary.outcome == "pass"
    assert SECRET not in "".join(
        p.read_text() for p in run.directory.rglob("annotations*/**") if p.is_file()
    )


def test_an_annotation_has_bounds(run: RunRecorder) -> None:
    with pytest.raises(UsageError, match="Pass `redact`"):
        read_bundle(run.directory).annotate("x")
    result = read_bundle(run.directory, redact=OneSecretRedactor())
    with pytest.raises(UsageError, match="10,000 characters"):
        result.annotate("x" * 10_001)
    with pytest.raises(UsageError, match="10,000,000 bytes"):
        result.annotate("x", attachment=Attachment(bytes(10_000_001)))
    assert result.annotations() == []


@pytest.mark.parametrize(
    ("name", "given_type", "content_type"),
    [
        ("shot.png", None, "image/png"),
        ("told.log.gz", None, "application/octet-stream"),
        ("no-ending", None, "application/octet-stream"),
        ("shot.png", "text/x-mine", "text/x-mine"),
    ],
)
def test_an_attachment_is_made_of_a_file(
    tmp_path: Path, name: str, given_type: str | None, content_type: str
) -> None:
    (tmp_path / name).write_bytes(b"\x89")
    attachment = Attachment.from_file(tmp_path / name, given_type)
    assert attachment == Attachment(b"\x89", content_type)


def test_a_file_that_cannot_be_attached_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.png.* cannot be attached: No such file"):
        Attachment.from_file(tmp_path / "gone.png")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(10_000_001)
    with pytest.raises(UsageError, match="10,000,000 bytes"):
        Attachment.from_file(tmp_path / "large")


def test_where_there_is_no_bundle_one_sentence_says_so(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be opened"):
        read_bundle(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be opened"):
        read_bundle(tmp_path / "file")
    with pytest.raises(StorageError, match="is not a bundle"):
        read_bundle(tmp_path)


def test_opening_reads_no_log(golden: RunResult) -> None:
    for log in golden.bundle_dir.rglob("*.ndjson"):
        log.unlink()
    assert read_bundle(golden.bundle_dir).complete
    with pytest.raises(IntegrityError, match=r"events\.ndjson is corrupt: it is missing"):
        list(read_bundle(golden.bundle_dir).messages)


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("nodes/judge-quality/turn-001/events.ndjson", lambda result: list(result.messages)),
        ("nodes/judge-quality/turn-001/hooks.ndjson", lambda result: result.tools.all()),
        ("nodes/fix/turn-001/summary.json", lambda result: result.todos),
        (
            "nodes/judge-quality/turn-001/hooks.ndjson",
            lambda result: asyncio.run(all_of(result.timeline.events())),
        ),
        ("events.ndjson", lambda result: result.files.changed()),
        ("change.patch", lambda result: result.files.changed()[0].stats),
    ],
)
def test_a_file_that_was_altered_after_sealing_is_named(
    golden: RunResult, name: str, question: Any
) -> None:
    path = golden.bundle_dir / name
    data = path.read_bytes()
    path.write_bytes(data[:-2] + b" }\n" if name.endswith(".ndjson") else data + b"\n")
    with pytest.raises(IntegrityError, match=f"{name} is corrupt: it was changed after sealing"):
        question(golden)
