"""Tool calls are put together by tool_use_id, and todos follow the agent's own list."""

from __future__ import annotations

import json

import pytest
from bundle_words import KEY, START, Ended

from vibe_gate.domain.turn import TurnChange, TurnFile
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.store import Store
from vibe_gate.store.turn_summary import (
    MAX_LISTED_LACKS,
    FileStats,
    HookCaptureStatus,
    HookMark,
    apply_todo_event,
    correlate_hooks,
    count_changes,
)


def marks(*words: str) -> list[HookMark]:
    """`pre:id`, `post:id`, `fail:id`, or another hook's name; a mark every 10 ms."""
    names = {"pre": "PreToolUse", "post": "PostToolUse", "fail": "PostToolUseFailure"}
    return [
        HookMark(
            seq,
            1000 + 10 * seq,
            names.get(word.partition(":")[0], word),
            word.partition(":")[2],
            "Read",
        )
        for seq, word in enumerate(words)
    ]


def test_a_failed_call_ends_and_is_not_ok() -> None:
    calls, capture = correlate_hooks(marks("pre:a", "fail:a"), ())
    assert (calls[0].ok, calls[0].ended_at, capture.complete) == (False, 1010, True)


def test_hooks_without_an_id_or_seen_twice_are_warnings() -> None:
    _, capture = correlate_hooks(marks("pre:", "pre:a", "pre:a", "post:a", "post:a"), ())
    assert capture.warnings == (
        "hook 0 (PreToolUse) has no tool_use_id",
        "hook 2 (PreToolUse) repeats a",
        "hook 4 (PostToolUse) repeats a",
    )
    assert capture.missing_events == ()


def test_what_very_many_calls_lack_is_bounded_and_counted() -> None:
    words = [f"pre:{number}" for number in range(MAX_LISTED_LACKS + 2)]
    _, capture = correlate_hooks(marks(*words, *["pre:"] * (MAX_LISTED_LACKS + 3)), ())
    assert (len(capture.missing_events), capture.more_missing_events) == (MAX_LISTED_LACKS, 2)
    assert (len(capture.warnings), capture.more_warnings) == (MAX_LISTED_LACKS, 3)
    assert not capture.complete
    _, capture = correlate_hooks(marks(*words[:MAX_LISTED_LACKS]), ())
    assert (len(capture.missing_events), capture.more_missing_events) == (MAX_LISTED_LACKS, None)


def test_other_hooks_are_no_tool_calls() -> None:
    calls, capture = correlate_hooks(
        marks("Notification", "PermissionRequest:a", "SubagentStop", "SomethingNew:b"), ()
    )
    assert (calls, capture.complete) == ((), True)


@pytest.mark.slow
def test_a_summary_of_very_much_is_bounded_and_says_what_it_leaves_out(store: Store) -> None:
    run = store.begin(KEY, START, {})
    turn = run.turn("fix")
    for number in range(1_003):
        text = f"{number} " + "x" * 100_000 if number == 0 else str(number)
        turn.event({"type": "todo", "action": "add", "text": text, "status": "pending"})
    call = {"tool_name": "T" * 100_000, "tool_use_id": "u" * 100_000}
    turn.hook({"hook_event_name": "PreToolUse", **call})
    files = tuple(TurnFile(path=f"f{number}", change_type="added") for number in range(20_003))
    turn.seal(Ended(change=TurnChange(files=files)))
    path = run.directory / turn.relative / "summary.json"
    assert path.stat().st_size < 20_000 * 100
    document = json.loads(path.read_text())
    assert (len(document["files"]), document["moreFiles"]) == (20_000, 3)
    assert (len(document["todos"]), document["moreTodos"]) == (1_000, 3)
    assert len(document["todos"][0]["text"]) == 1_000 and "moreToolCalls" not in document
    assert document["metrics"]["filesChanged"] == document["fileStats"]["total"] == 20_003
    result = read_bundle(run.directory / turn.relative)
    assert [call.state for call in result.tools.all()] == ["missing-post"]
    assert (len(result.files.changed()), result.files.unlisted) == (20_000, 3)
    assert result.git.changed_count == 20_003


@pytest.mark.slow
def test_a_summary_lists_so_many_calls_and_the_hooks_have_all(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vibe_gate.store.turn_recorder.MAX_LISTED_CALLS", 100)
    run = store.begin(KEY, START, {})
    turn = run.turn("fix")
    for number in range(102):
        call = {"tool_name": "Read", "tool_use_id": f"toolu_{number}"}
        turn.hook({"hook_event_name": "PreToolUse", **call})
        turn.hook({"hook_event_name": "PostToolUse", **call})
    turn.seal(Ended())
    document = json.loads((run.directory / turn.relative / "summary.json").read_text())
    assert (len(document["toolCalls"]), document["moreToolCalls"]) == (100, 2)
    assert document["metrics"]["toolCalls"] == 102
    assert read_bundle(run.directory / turn.relative).tools.used("Read") == 102


def test_files_are_counted_by_kind() -> None:
    kinds = ["added", "modified", "modified", "deleted", "renamed", "type_changed"]
    assert count_changes(kinds) == FileStats(added=1, modified=3, deleted=1, renamed=1, total=6)


def after(*todo_events: tuple[str, str, str]) -> list[tuple[str, str]]:
    todos: list = []
    for action, text, status in todo_events:
        todos = apply_todo_event(todos, {"action": action, "text": text, "status": status})
    return [(todo.text, todo.status) for todo in todos]


def test_todos_are_added_and_updated() -> None:
    todo_events = [
        ("add", "read", "pending"),
        ("add", "write", "pending"),
        ("update", "read", "completed"),
    ]
    assert after(*todo_events, ("update", "write", "in_progress")) == [
        ("read", "completed"),
        ("write", "in_progress"),
    ]


def test_set_todos_replace_what_was_said_of_them() -> None:
    assert after(("set", "read", "pending"), ("set", "read", "completed")) == [
        ("read", "completed")
    ]


def test_a_deleted_todo_leaves_the_list_an_unknown_one_changes_nothing_and_a_strange_status_is_pending() -> (
    None
):
    todo_events = [
        ("add", "read", "?"),
        ("add", "write", ""),
        ("update", "write", "deleted"),
        ("update", "other", "completed"),
    ]
    assert after(*todo_events) == [("read", "pending")]


@pytest.mark.parametrize(
    ("missing", "warnings", "lacks"),
    [
        ((), (), ""),
        (("PostToolUse a", "PreToolUse b"), ("hook 2 (PreToolUse) has no tool_use_id",),
         "no PostToolUse a, no PreToolUse b, hook 2 (PreToolUse) has no tool_use_id"),
        (("a", "b", "c", "d", "e"), (), "no a, no b, no c and 2 more"),
    ],
)  # fmt: skip
def test_what_a_capture_lacks_is_told_in_one_line(missing, warnings, lacks) -> None:
    status = HookCaptureStatus(complete=not lacks, missing_events=missing, warnings=warnings)
    assert status.lacks == lacks
