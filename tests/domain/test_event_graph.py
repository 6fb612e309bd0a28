"""The graph of a run is a fold of its events, and its JSON is byte-stable."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_gate.domain.document import decode_document, to_json
from vibe_gate.domain.event import NODE_STATUSES, Event, Graph, fold_events

TS = "2026-01-02T03:04:05.678Z"


def events(*facts: tuple[str, str | None, dict[str, Any]]) -> list[Event]:
    return [
        Event(seq=seq, ts=TS, type=type_, run_id="run", node_id=node, data=data)
        for seq, (type_, node, data) in enumerate(facts, start=1)
    ]


def test_no_events_make_an_empty_graph() -> None:
    assert fold_events([]) == Graph()


def test_nodes_keep_the_order_in_which_they_were_added() -> None:
    graph = fold_events(
        events(("node.added", "b", {"kind": "judge"}), ("node.added", "a", {"kind": "checks"}))
    )
    assert [(node.id, node.kind, node.status) for node in graph.nodes] == [
        ("b", "judge", "IDLE"),
        ("a", "checks", "IDLE"),
    ]


def test_the_last_status_stands_with_its_reason() -> None:
    graph = fold_events(
        events(
            ("node.added", "a", {"kind": "judge"}),
            ("node.status", "a", {"status": "BLOCKED", "reason": "budget"}),
            ("turn.started", "a", {"turn": "turn-001"}),
            ("turn.started", "a", {"turn": "turn-001"}),
            ("turn.completed", "a", {"turn": "turn-001"}),
            ("node.status", "a", {"status": "DONE"}),
        )
    )
    (node,) = graph.nodes
    assert (node.status, node.reason, node.turns) == ("DONE", "", ("turn-001",))


def test_edges_stand_once_and_those_of_unknown_nodes_are_left_out() -> None:
    log = events(
        ("node.added", "a", {"kind": "checks"}),
        ("node.added", "b", {"kind": "judge"}),
        ("edge.added", None, {"from": "a", "to": "b"}),
        ("edge.added", None, {"from": "a", "to": "c"}),
        ("edge.added", None, {"from": "a", "to": "b"}),
    )
    assert fold_events(log).edges == (("a", "b"),)


def test_an_event_about_a_node_that_is_not_there_changes_nothing() -> None:
    log = events(("node.status", "a", {"status": "DONE"}), ("turn.started", "a", {"turn": "x"}))
    assert fold_events(log) == Graph(run_id="run")


def test_a_node_names_its_agent_what_it_left_and_what_it_cost() -> None:
    (node,) = fold_events(
        events(
            ("node.added", "fix", {"kind": "stage", "agent": "fixer", "digest": "d" * 64}),
            ("turn.started", "fix", {"turn": "turn-001"}),
            ("turn.completed", "fix", {"turn": "turn-001", "status": "interrupted", "usd": 0.25}),
            ("turn.started", "fix", {"turn": "turn-002"}),
            (
                "turn.completed",
                "fix",
                {"turn": "turn-002", "before": "a" * 40, "after": "b" * 40, "usd": 0.5},
            ),
            ("node.status", "fix", {"status": "DONE", "outcome": "pass"}),
        )
    ).nodes
    assert (node.agent, node.outcome, node.after, node.usd) == ("fixer", "pass", "b" * 40, 0.75)


def test_a_node_holds_its_configuration_and_how_its_last_turn_ended() -> None:
    config = {"model": "a-model", "tools": ["Read"], "max_turns": 5, "of_a_later_version": 1}
    graph = fold_events(
        events(
            ("node.added", "fix-b", {"kind": "stage", "stage": "fix", "config": config}),
            ("turn.completed", "fix-b", {"turn": "turn-001", "status": "done", "message": "One."}),
            (
                "turn.completed",
                "fix-b",
                {
                    "turn": "turn-002", "status": "done", "message": "x" * 5_000,
                    "files": 2, "added": 7, "deleted": True,
                },
            ),
        )
    )  # fmt: skip
    (document,) = json.loads(graph.to_json())["nodes"]
    assert document["stage"] == "fix"
    assert document["config"] == {"model": "a-model", "tools": ["Read"], "max_turns": 5}
    assert document["last"] == {
        "turn": "turn-002", "status": "done", "message": "x" * 2_000, "files": 2, "added": 7,
    }  # fmt: skip


def test_a_graph_holds_the_verdict_when_it_says_what_its_rubrics_came_to() -> None:
    data = {"outcome": "fail", "exit_code": 1}
    assert "verdict" not in fold_events(events(("verdict.decided", None, data))).to_json()
    verdict = data | {"rubrics": {"quality": "fail"}}
    graph = fold_events(events(("verdict.decided", None, verdict)))
    assert json.loads(graph.to_json())["verdict"] == verdict


@pytest.mark.parametrize("config", ["model", [], {"tools": "Read"}, {"max_turns": "many"}])
def test_a_configuration_that_is_none_is_refused(config: object) -> None:
    with pytest.raises(ValueError):
        events(("node.added", "a", {"kind": "stage", "config": config}))


@pytest.mark.parametrize("usd", [10**400, -1, "1", 1e300])
def test_a_cost_that_is_none_is_left_out(usd: object) -> None:
    log = events(
        ("node.added", "a", {"kind": "judge", "digest": "d"}),
        ("turn.completed", "a", {"turn": "t", "usd": usd}),
    )
    assert "usd" not in fold_events(log).to_json()


def test_events_of_a_later_version_change_nothing() -> None:
    node_added = ("node.added", "a", {"kind": "stage"})
    assert fold_events(
        events(node_added, ("node.painted", "a", {"colour": "red"}), ("run.moved", None, {}))
    ).nodes == (fold_events(events(node_added)).nodes)


_NODE = st.sampled_from(["a", "b", "c", "d"])
_SAID = st.one_of(
    st.tuples(st.just("node.added"), _NODE, st.fixed_dictionaries({"kind": st.text()})),
    st.tuples(
        st.just("node.status"),
        _NODE,
        st.fixed_dictionaries({"status": st.sampled_from(NODE_STATUSES)}),
    ),
    st.tuples(
        st.just("edge.added"), st.none(), st.fixed_dictionaries({"from": _NODE, "to": _NODE})
    ),
    st.tuples(st.just("turn.started"), _NODE, st.fixed_dictionaries({"turn": st.text(max_size=3)})),
    st.tuples(st.just("log.mark"), st.none(), st.dictionaries(st.text(), st.text())),
)


@pytest.mark.slow
@given(st.lists(_SAID, max_size=40))
def test_events_that_were_written_and_read_back_fold_to_the_same_bytes(facts: list) -> None:
    written = events(*facts)
    read = [decode_document(Event, to_json(event)) for event in written]
    graph = fold_events(written)
    assert fold_events(read).to_json() == graph.to_json()
    assert graph.to_json().isascii()
    assert all(
        edge[0] in {n.id for n in graph.nodes} and edge[1] in {n.id for n in graph.nodes}
        for edge in graph.edges
    )
