"""A run's graph as text. Written anew by `PYTHONPATH=.:tests python tests/report/test_graph.py`."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from vibe_gate.domain.event import Event, Graph, fold_events
from vibe_gate.report.text_graph import draw_graph, list_nodes

GOLDEN = Path(__file__).with_name("graphs")
TREE = "4f2a91c" + "0" * 33


def graph(nodes: dict[str, str], edges: str) -> Graph:
    """`nodes`: kind by id. `edges`: `a>b` words."""
    events: list[Event] = []

    def add(type: str, node: str | None, **data: Any) -> None:
        events.append(
            Event(seq=len(events) + 1, ts="", type=type, run_id="run", node_id=node, data=data)
        )

    for name, kind in nodes.items():
        add("node.added", name, kind=kind, digest="d", agent="fixer" if kind == "stage" else "")
        if kind in ("stage", "judge"):
            add("turn.started", name, turn="turn-001")
            add(
                "turn.completed",
                name,
                turn="turn-001",
                usd=0.0125,
                after=TREE if kind == "stage" else "",
            )
        add(
            "node.status",
            name,
            status="DONE",
            outcome="" if kind in ("checks", "judge") else "pass",
        )
    for edge in edges.split():
        source, _, target = edge.partition(">")
        add("edge.added", None, **{"from": source, "to": target})
    return fold_events(events)


FIX = {"review": "gate", "review-checks": "checks", "review-quality": "judge", "fix": "stage", "fix-until": "gate",
       "fix-b": "stage", "fix-until-b": "gate"}  # fmt: skip
GRAPHS = {
    "review": graph({"checks": "checks", "judge-quality": "judge"}, "checks>judge-quality"),
    "fix": graph(
        FIX,
        "review>review-checks review-checks>review-quality review>fix fix>fix-until fix-until>fix-b fix-b>fix-until-b",
    ),
    "merge": graph(dict.fromkeys("abcdef", "stage"), "a>b a>c a>d b>e c>e d>f a>f b>f"),
    "cycles": graph(dict.fromkeys("abcde", "judge"), "a>b b>c c>b c>d e>e"),
    "wide": graph(
        dict.fromkeys(["a", *(f"judge-{n}" for n in range(9))], "judge"),
        "a>judge-0 judge-0>judge-1",
    ),
    "names": graph(
        {"ERR\x1b[31m": "stage", "x" * 90: "gate", "ü文": "judge"}, f"ERR\x1b[31m>{'x' * 90}"
    ),
}


def rendered(name: str) -> str:
    run_graph = GRAPHS[name]
    forms = {
        "list": list_nodes(run_graph, 80),
        "dag": draw_graph(run_graph, 80),
    }
    return "\n".join(f"=== {form}\n" + "\n".join(lines) + "\n" for form, lines in forms.items())


@pytest.mark.parametrize("name", GRAPHS)
def test_it_is_drawn_as_it_was(name: str) -> None:
    assert rendered(name) == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", GRAPHS)
def test_it_fits_eighty_columns_and_hides_nothing(name: str) -> None:
    for lines in (list_nodes(GRAPHS[name], 80), draw_graph(GRAPHS[name], 80)):
        assert all(len(line) <= 80 and line.isprintable() for line in lines)


def test_the_order_in_which_nodes_and_edges_came_does_not_matter() -> None:
    merge = GRAPHS["merge"]
    turned = replace(merge, nodes=merge.nodes[::-1], edges=merge.edges[::-1])
    assert (list_nodes(turned, 80), draw_graph(turned, 80)) == (
        list_nodes(merge, 80),
        draw_graph(merge, 80),
    )


def chain_of(length: int, both_ways: bool = False) -> Graph:
    names = [f"n{number:05}" for number in range(length)]
    edges = list(itertools.pairwise(names))
    if both_ways:
        edges += [(target, source) for source, target in edges]
    return replace(graph(dict.fromkeys(names, "stage"), ""), edges=tuple(edges))


@pytest.mark.parametrize(("length", "is_drawn"), [(30, True), (31, False)])
def test_more_than_thirty_nodes_are_listed_and_a_sentence_says_so(
    length: int, is_drawn: bool
) -> None:
    long = chain_of(length)
    lines = draw_graph(long, 80)
    assert any(line.startswith("┌") for line in lines) is is_drawn
    if not is_drawn:
        assert lines == [
            "A list: 31 nodes are too many to draw (at most 30).",
            "",
            *list_nodes(long, 80),
        ]


def test_boxes_that_are_wider_than_the_terminal_are_listed_and_a_sentence_says_so() -> None:
    wide = GRAPHS["wide"]
    assert draw_graph(wide, 80) == [
        "A list: boxes would be wider than 80 columns.",
        "",
        *list_nodes(wide, 80),
    ]


@pytest.mark.parametrize("length", [20, pytest.param(5000, marks=pytest.mark.slow)])
def test_cycles_that_share_nodes_are_one(length: int) -> None:
    ladder = chain_of(length, both_ways=True)
    assert sum("cycle" in line for line in list_nodes(ladder, 80)) == 1
    assert sum(line.startswith("┌") for line in draw_graph(ladder, 80)) == (length <= 30)


@pytest.mark.parametrize(("columns", "is_whole"), [(100, True), (80, True), (60, False)])
def test_a_long_name_is_whole_if_the_terminal_has_room(columns: int, is_whole: bool) -> None:
    name = "review-of-the-payment-service-and-its-tests-after-the-merge"
    long = graph({name: "gate"}, "")
    for lines in (list_nodes(long, columns), draw_graph(long, columns)):
        assert any(name in line for line in lines) is is_whole
        assert all(len(line) <= columns for line in lines)


def test_lines_that_would_meet_wrongly_are_not_drawn() -> None:
    # Each of two sources stands right above what only the other leads to.
    crossed = graph(dict.fromkeys("abyz", "gate"), "a>z b>y")
    text = "\n".join(draw_graph(crossed, 80))
    assert "<- a" in text or text.count("┬") + text.count("┴") == 4


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for graph_name in GRAPHS:
        (GOLDEN / f"{graph_name}.txt").write_text(rendered(graph_name))
