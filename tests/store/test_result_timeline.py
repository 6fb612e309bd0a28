"""A bundle's logs as one stream of events by time."""

from __future__ import annotations

import asyncio
import heapq
import json
import shutil
import tracemalloc
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from bundle_words import KEY, START, Ended, summary_of
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vibe_gate.errors import IntegrityError
from vibe_gate.store.bundle_events import TimelineEvent
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.store import Store

GOLDEN = Path(__file__).parents[1] / "golden/bundle-1"
DATED = 1_767_323_045_000


async def collect(directory: Path) -> list[TimelineEvent]:
    return [event async for event in read_bundle(directory).timeline.events()]


def events_of(directory: Path) -> list[TimelineEvent]:
    return asyncio.run(collect(directory))


def turn_folder(tmp_path: Path, sdk: list[Any], hooks: list[Any]) -> Path:
    folder = tmp_path / "turn"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, lines in (("events.ndjson", sdk), ("hooks.ndjson", hooks)):
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (folder / name).write_text("".join(text + "\n" for text in texts))
    return folder


def sdk_line(seq: int, ts: int, pad: int = 0) -> dict[str, Any]:
    return {"seq": seq, "ts": ts, "type": "message", "role": "assistant", "content": "x" * pad}


def hook_line(seq: int, ts: int, pad: int = 0) -> dict[str, Any]:
    fields = {
        "hook": "PreToolUse",
        "tool_name": "Read",
        "tool_use_id": "t",
        "tool_input": "x" * pad,
    }
    return {"seq": seq, "ts": ts, **fields}


def test_a_run_tells_everything_in_order_with_its_source(tmp_path: Path) -> None:
    events = events_of(shutil.copytree(GOLDEN, tmp_path / "bundle-1"))
    assert [event.ts for event in events] == sorted(event.ts for event in events)
    assert len(events) == 19 + 2 + 6 + 2
    turn = [event for event in events if event.turn == "nodes/judge-quality/turn-001"]
    assert [(event.source, event.type, event.seq) for event in turn] == [
        ("run", "turn.started", 11),
        ("sdk", "message", 0),
        ("hook", "PreToolUse", 0), ("hook", "PreToolUse", 1), ("hook", "PreToolUse", 2),
        ("hook", "PostToolUse", 3), ("hook", "PostToolUseFailure", 4), ("hook", "Notification", 5),
        ("sdk", "usage", 1),
        ("run", "turn.completed", 12),
    ]  # fmt: skip


times = st.lists(st.integers(0, 6), max_size=40)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(times, times)
@example([5, 1, 1], [1, 5, 2])
@example([1] * 30, [1] * 30)
@example([], [3])
def test_events_come_by_time_and_each_log_in_its_own_order(
    tmp_path_factory: pytest.TempPathFactory, sdk: list[int], hooks: list[int]
) -> None:
    folder = turn_folder(
        tmp_path_factory.mktemp("merged"),
        [sdk_line(seq, DATED + ts) for seq, ts in enumerate(sdk)],
        [hook_line(seq, DATED + ts) for seq, ts in enumerate(hooks)],
    )
    logs = [
        [(latest, source, seq) for seq, latest in enumerate(accumulate(log, max))]
        for source, log in (("sdk", sdk), ("hook", hooks))
    ]
    expected = heapq.merge(*logs, key=lambda item: (item[0], item[1] == "hook"))
    assert [(event.source, event.seq) for event in events_of(folder)] == [
        item[1:] for item in expected
    ]


def test_a_hook_with_unexpected_values_is_an_event_all_the_same(tmp_path: Path) -> None:
    odd = {
        "seq": 1,
        "ts": DATED,
        "hook": "Novel",
        "tool_name": None,
        "agent_id": 7,
        "tool_use_id": ["?"],
    }
    folder = turn_folder(tmp_path, [], [hook_line(0, DATED), odd, hook_line(2, DATED)])
    events = events_of(folder)
    assert [(event.type, event.tool) for event in events] == [
        ("PreToolUse", "Read"), ("Novel", ""), ("PreToolUse", "Read"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line", ["no json", "[]", '{"seq": 1}', '{"seq": 1, "ts": "now"}', '{"ts":1,"a":' + "[" * 5000]
)
def test_a_line_that_is_no_event_is_an_integrity_error_that_names_the_log(
    tmp_path: Path, line: str
) -> None:
    folder = turn_folder(tmp_path, [sdk_line(0, DATED), line, sdk_line(2, DATED)], [])
    with pytest.raises(IntegrityError, match=r"events\.ndjson is corrupt"):
        events_of(folder)


@pytest.mark.parametrize("turn", ["../../..", "turn-001/../..", "turn-1", "", "turn-001\n"])
def test_a_run_cannot_send_its_reader_out_of_its_folder(store: Store, turn: str) -> None:
    run = store.begin(KEY, START, {})
    run.event("turn.started", "fix", turn=turn)
    run.event("turn.started", "../../fix", turn="turn-001")
    with pytest.raises(IntegrityError, match="cannot be a folder"):
        events_of(run.directory)
    with pytest.raises(IntegrityError, match="cannot be a folder"):
        list(read_bundle(run.directory).messages)


def test_events_name_their_node_and_the_stage_of_the_workflow(store: Store) -> None:
    run = store.begin(KEY, START, {})
    run.event("node.added", "fix-b", kind="stage", stage="fix")
    run.event("node.added", "review", kind="gate", stage="review")
    run.event("node.added", "review-judge", kind="judge", gate="review")
    for node in ("fix-b", "review-judge"):
        turn = run.turn(node)
        turn.event({"type": "message", "role": "user", "content": "?"})
        turn.hook({"hook_event_name": "Stop"})
        turn.seal(Ended())
    run.seal(summary_of(run))
    origins = {(event.source, event.node_id, event.stage) for event in events_of(run.directory)}
    assert origins == {
        ("run", "", ""), ("run", "review", "review"),
        *((source, "fix-b", "fix") for source in ("run", "sdk", "hook")),
        *((source, "review-judge", "review") for source in ("run", "sdk", "hook")),
    }  # fmt: skip
    (event, *_) = events_of(run.directory / "nodes/fix-b/turn-001")
    assert (event.node_id, event.stage) == ("fix-b", "")


def test_a_turn_comes_after_its_beginning_however_it_is_dated(store: Store) -> None:
    run = store.begin(KEY, START, {})
    run.turn("fix").event({"type": "message", "role": "user", "content": "?", "ts": 1})
    run.event("log.mark", mark="later")
    assert [(event.type, event.ts) for event in events_of(run.directory)][-3:] == [
        ("turn.started", DATED + 679), ("message", 1), ("log.mark", DATED + 680),
    ]  # fmt: skip


def test_of_a_changed_log_the_error_comes_behind_its_last_line(store: Store) -> None:
    run = store.begin(KEY, START, {})
    turn = run.turn("fix")
    turn.event({"type": "message", "role": "user", "content": "?"})
    turn.seal(Ended())
    run.seal(summary_of(run))
    log = run.directory / turn.relative / "events.ndjson"
    log.write_text(log.read_text().replace("?", "!"))
    read: list[str] = []

    async def read_all() -> None:
        async for event in read_bundle(run.directory).timeline.events():
            read.append(event.text)

    with pytest.raises(IntegrityError, match="it was changed after sealing"):
        asyncio.run(read_all())
    assert "!" in read


@pytest.mark.slow
def test_one_line_of_each_log_is_held_however_long_it_is(tmp_path: Path) -> None:
    folder = turn_folder(tmp_path, [sdk_line(seq, DATED + seq, 4_000) for seq in range(5_000)], [])
    assert (folder / "events.ndjson").stat().st_size > 20_000_000

    async def count() -> int:
        counted = 0
        async for _ in read_bundle(folder).timeline.events():
            counted += 1
        return counted

    tracemalloc.start()
    try:
        assert asyncio.run(count()) == 5_000
        assert tracemalloc.get_traced_memory()[1] < 300_000
    finally:
        tracemalloc.stop()


def test_the_first_event_is_there_before_the_rest_was_read(tmp_path: Path) -> None:
    folder = turn_folder(tmp_path, [sdk_line(0, DATED), "no json"], [])

    async def first() -> TimelineEvent:
        return await anext(read_bundle(folder).timeline.events())

    assert asyncio.run(first()).seq == 0
