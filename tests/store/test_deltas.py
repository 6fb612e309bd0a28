"""Messages in pieces: no secret passes between two of them, no event is lost, none overtakes another."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bundle_words import KEY, SECRET, START, Ended, Hush, summary_of
from growth import assert_linear
from hypothesis import given
from hypothesis import strategies as st

from vibe_gate.store import Store, deltas
from vibe_gate.store.deltas import Deltas


def piece(text: str, index: int = 0, kind: str = "text", parent: str = "") -> dict[str, Any]:
    field = {"text": "text_delta", "partial_json": "input_json_delta", "thinking": "thinking_delta"}[kind]
    event = {"type": "content_block_delta", "index": index, "delta": {"type": field, kind: text}}
    return {"type": "stream_event", "session_id": "s", "parent_tool_use_id": parent, "event": event}


def stop(index: int = 0, parent: str = "") -> dict[str, Any]:
    event = {"type": "content_block_stop", "index": index}
    return {"type": "stream_event", "session_id": "s", "parent_tool_use_id": parent, "event": event}


def other(number: int) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": f"number {number}"}


def passed(events: list[dict[str, Any]]) -> list[Any]:
    stream = Deltas(Hush().text)
    return [event for given in events for event in stream.feed(given)] + stream.rest()


def text_of(events: list[Any], kind: str = "text") -> str:
    return "".join(event.get("event", {}).get("delta", {}).get(kind, "") for event in events)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("kind", ["text", "partial_json", "thinking"])
def test_a_secret_in_pieces_of_any_size_goes_and_all_else_stays(size: int, kind: str) -> None:
    said = f'{{"a": "before {SECRET} after", "b": "{SECRET}"}}'
    cut = [said[start : start + size] for start in range(0, len(said), size)]
    events = [*(piece(text, kind=kind) for text in cut), stop()]
    told = passed(events)
    assert text_of(told, kind) == said.replace(SECRET, "[redacted]")
    assert [event["event"]["type"] for event in told] == [event["event"]["type"] for event in events]


@pytest.mark.parametrize("field", ["signature", "content", "output", "value", "stdout", "chunk"])
def test_pieces_of_every_kind_are_joined(field: str) -> None:
    told = passed(
        [
            {"type": "content_block_delta", "index": 0, "delta": {"type": f"{field}_delta", field: text}}
            for text in (SECRET[:7], SECRET[7:])
        ]
    )
    assert [event["delta"][field] for event in told] == ["[redacted]", ""]


@pytest.mark.parametrize(
    "between",
    [
        {"type": "result", "session_id": "another"},
        {"type": "stream_event", "session_id": "s", "event": {"type": "message_delta", "delta": {"stop_reason": None}}},
        {"type": "stream_event", "session_id": "s", "event": {"type": "ping"}},
    ],
)
def test_what_ends_nothing_of_a_message_does_not_part_it(between: dict[str, Any]) -> None:
    told = passed([piece(SECRET[:7]), between, piece(SECRET[7:])])
    assert text_of(told) == "[redacted]"
    assert told[1] == between


@pytest.mark.parametrize("ends", [{"type": "result", "session_id": "s"}, {"type": "result"}])
def test_the_result_of_a_session_ends_its_messages_and_those_of_its_subagents(ends: dict[str, Any]) -> None:
    stream = Deltas(Hush().text)
    assert stream.feed(piece("a")) == stream.feed(piece("b", parent="toolu_1")) == []
    assert len(stream.feed(ends)) == 3


def test_pieces_with_ids_are_joined_by_these_and_never_with_the_next_message() -> None:
    events = [{"type": "text-delta", "id": "1", "delta": SECRET[:7]}, {"type": "text-delta", "id": "2", "delta": "y"}]
    events += [{"type": "text-delta", "id": "1", "delta": SECRET[7:]}, {"type": "text-end", "id": "1"}]
    told = passed([*events, {"type": "text-delta", "id": "2", "delta": "x"}])
    assert [event.get("delta") for event in told] == ["[redacted]", "y", "", None, "x"]


def test_pieces_before_and_behind_a_secret_keep_their_borders() -> None:
    cut = ["one ", "two ", SECRET[:4], SECRET[4:], " three", " four"]
    told = [event["event"]["delta"]["text"] for event in passed([*map(piece, cut), stop()])[:-1]]
    assert told == ["one ", "two ", "[redacted]", "", " three", " four"]


def test_events_wait_behind_an_open_block_and_come_in_their_order() -> None:
    stream = Deltas(Hush().text)
    assert stream.feed(other(1)) == [other(1)]
    assert stream.feed(piece(SECRET[:5])) == []
    assert stream.feed(other(2)) == []
    assert stream.feed(piece(SECRET[5:])) == []
    told = stream.feed(stop())
    assert told == [piece("[redacted]"), other(2), piece(""), stop()]
    assert stream.feed(other(3)) == [other(3)]


def test_blocks_of_agents_that_speak_at_the_same_time_are_told_apart() -> None:
    events = [
        piece(SECRET[:5], parent="one"),
        piece(SECRET[:9], parent="two"),
        stop(parent="one"),
        piece(SECRET[9:], parent="two"),
        stop(parent="two"),
    ]
    told = passed(events)
    assert text_of(told) == SECRET[:5] + "[redacted]"
    assert [event["parent_tool_use_id"] for event in told] == ["one", "two", "one", "two", "two"]


_EVENTS = st.lists(
    st.one_of(
        st.builds(piece, st.text("hunter2- x", max_size=9), st.integers(0, 1), parent=st.sampled_from(["", "p"])),
        st.builds(stop, st.integers(0, 1), st.sampled_from(["", "p"])),
        st.builds(other, st.integers(0, 9)),
    ),
    max_size=40,
)


@given(_EVENTS)
def test_without_a_secret_the_very_events_come_back(events: list[dict[str, Any]]) -> None:
    stream = Deltas(lambda text: text)
    told = [event for given in events for event in stream.feed(given)] + stream.rest()
    assert all(one is two for one, two in zip(told, events, strict=True))


@given(_EVENTS, st.integers(0, 15), st.integers(0, 15))
def test_what_is_no_piece_is_never_changed_lost_or_moved(events: list[dict[str, Any]], one: int, two: int) -> None:
    events = [piece(SECRET[:one]), *events, piece(SECRET[one:]), piece(SECRET[:two]), piece(SECRET[two:])]
    told = passed(events)
    assert [event["type"] for event in told] == [event["type"] for event in events]
    assert [e for e in told if e["type"] == "message"] == [e for e in events if e["type"] == "message"]


@pytest.mark.parametrize(
    "event",
    [
        {"delta": None}, {"event": 7, "delta": {"text": 1}}, {"event": {"delta": [], "index": {}}},
        {"data": {"event": []}},
        {"type": "content_block_stop", "index": []}, {"delta": "x", "messageId": {"a": 1}}, {},
    ],
)  # fmt: skip
def test_an_event_of_any_shape_passes(event: dict[str, Any]) -> None:
    assert passed([piece("a"), event, stop()]) == [piece("a"), event, stop()]


def test_a_block_without_end_is_held_up_to_a_limit_only() -> None:
    stream = Deltas(Hush().text)
    text = ("x" * 997 + SECRET) * 4000
    cut = [text[start : start + 1000] for start in range(0, len(text), 1000)]
    most, told = 0, []
    for one in cut:
        told += stream.feed(piece(one))
        most = max(most, stream._size)
    assert most <= deltas.MAX_HELD + 1000
    assert text_of(told + stream.rest()) == text.replace(SECRET, "[redacted]")


def test_many_small_pieces_take_linear_time() -> None:
    assert_linear(passed, lambda count: [piece("x") for _ in range(count)], 40_000)


class Compared(str):
    """A block's number that counts how often it is held against another."""

    times = 0

    def __str__(self) -> str:
        return self

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, str(other))

    __hash__ = str.__hash__


def numbered(event: dict[str, Any], number: int) -> dict[str, Any]:
    return event | {"event": event["event"] | {"index": Compared(number)}}


def test_thousands_of_open_blocks_are_each_looked_at_a_few_times_only() -> None:
    asked = 0

    def redact(text: str) -> str:
        nonlocal asked
        asked += 1
        return text

    count = deltas.MAX_EVENTS + 10
    events = [numbered(piece("API_KEY = "), number) for number in range(count)]
    events += [numbered(stop(), number) for number in range(count)]
    stream, Compared.times = Deltas(redact), 0
    told = [event for given in events for event in stream.feed(given)] + stream.rest()
    assert told == events
    assert asked < 3 * count
    assert Compared.times < 10 * count


def test_no_cut_goes_through_a_secret_of_a_block_that_is_over_while_another_is_open() -> None:
    half = deltas.MAX_EVENTS // 2
    events = [piece("x", parent="open")] * (half - 1)
    events += [piece(SECRET[:5]), piece(SECRET[5:]), stop()]
    events += [piece("x", parent="open")] * half
    told = passed(events)
    assert len(told) == len(events)
    assert text_of(told).replace("x", "") == "[redacted]"


def test_a_turn_that_ends_without_its_block_keeps_every_event_redacted(store: Store) -> None:
    with store.begin(KEY, START, {}) as run:
        turn = run.turn("judge-quality")
        for text in (SECRET[:6], SECRET[6:], " and more"):
            turn.event(piece(text) | {"ts": 5})
        turn.event(other(1) | {"ts": 6})
        turn.seal(Ended())
        run.seal(summary_of(run))
    folder = run.directory / turn.relative
    lines = [json.loads(line) for line in (folder / "events.ndjson").read_text().splitlines()]
    assert [(line["seq"], line["ts"]) for line in lines] == [(0, 5), (1, 5), (2, 5), (3, 6)]
    assert text_of(lines) == "[redacted] and more"
    assert SECRET[:6] not in (folder / "turn.log").read_text()


def test_an_interrupted_run_keeps_what_was_held(store: Store) -> None:
    with store.begin(KEY, START, {}) as run:
        turn = run.turn("judge-quality")
        turn.event(piece("half a sen"))
        run.abandon("interrupted")
    assert "half a sen" in (run.directory / turn.relative / "events.ndjson").read_text()


def test_a_parent_of_none_is_no_parent() -> None:
    deltas_ = Deltas(Hush().text)
    begun = {"session_id": "s", **piece(SECRET[:5]), "parent_tool_use_id": None}
    ended = {"session_id": "s", **piece(SECRET[5:])}
    ended.pop("parent_tool_use_id", None)
    assert deltas_.feed(begun) == []
    assert deltas_.feed(ended) == []
    assert SECRET[:5] not in json.dumps(deltas_.rest())
