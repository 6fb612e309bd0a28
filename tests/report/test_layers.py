"""Where the nodes of a graph stand, and which of them stand as one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations, pairwise

from drawn_runs import review, workflow

from vibe_gate.domain.event import Graph, Node
from vibe_gate.report.folds import fold_graph, graph_inside
from vibe_gate.report.layers import Slot, layers_of, place_nodes, predecessors_of, spread_slots


def graph(edges: Sequence[tuple[str, str]], kind: str = "stage") -> Graph:
    names = dict.fromkeys(name for edge in edges for name in edge)
    return Graph("run", tuple(Node(id=name, kind=kind) for name in names), tuple(edges))


def rows_of(of: Graph) -> list[list[Slot]]:
    return place_nodes(predecessors_of(of))


def crossings(rows: Sequence[Sequence[Slot]]) -> int:
    """How many pairs of edges cross between the layers."""
    count = 0
    for upper, lower in pairwise(rows):
        at = {id(slot): index for index, slot in enumerate(lower)}
        edges = [
            (index, at[id(target)]) for index, slot in enumerate(upper) for target in slot.after
        ]
        for (source, target), (other_source, other_target) in combinations(edges, 2):
            count += (source - other_source) * (target - other_target) < 0
    return count


def test_a_workflow_of_24_boxes_crosses_nothing_and_overlaps_nowhere() -> None:
    small, folds = fold_graph(workflow(3).graph)
    assert (len(small.nodes), len(folds)) == (24, 3)
    rows = rows_of(small)
    assert crossings(rows) == 0
    width = spread_slots(rows, 200, 20)
    for row in rows:
        for box, next_box in pairwise(row):
            number = 20 + 100 * bool(box.group) + 100 * bool(next_box.group)
            assert next_box.middle - box.middle >= number - 1e-6
        assert all(0 <= slot.middle <= width for slot in row)


def test_a_chain_stands_straight_below_the_middle_of_its_judges_whatever_passes_beside_it() -> None:
    edges = [("plan", "fix"), ("fix", "checks"), *(("checks", f"judge-{n}") for n in range(3))]
    edges += [*((f"judge-{n}", "gate") for n in range(3)), ("gate", "release"), ("plan", "release")]
    rows = rows_of(graph(edges))
    spread_slots(rows, 200, 20)
    middles = {name: slot.middle for row in rows for slot in row for name in slot.group}
    chain = ("plan", "fix", "checks", "judge-1", "gate", "release")
    assert {middles[name] for name in chain} == {middles["judge-1"]}


def test_edges_cross_only_where_they_must() -> None:
    # Three times three that all join: 9 pairs must cross; a tree written in any order crosses
    # nothing.
    must = graph([(f"a{number}", f"b{other}") for number in range(3) for other in range(3)])
    assert crossings(rows_of(must)) == 9
    dice = random.Random(7)
    tree = [(f"n{(number - 1) // 3:02}", f"n{number:02}") for number in range(1, 30)]
    dice.shuffle(tree)
    assert crossings(rows_of(graph(tree))) == 0
    # Pairs whose names cross: swept apart.
    assert crossings(rows_of(graph([(f"a{n:02}", f"b{15 - n:02}") for n in range(15)]))) == 0


def test_a_gate_stands_after_the_checks_and_judges_whose_verdict_it_is() -> None:
    kinds = {
        "fix": "stage",
        "until": "gate",
        "checks": "checks",
        "a": "judge",
        "b": "judge",
        "look": "judge",
    }
    edges = (
        ("fix", "until"),
        ("until", "checks"),
        ("checks", "a"),
        ("checks", "b"),
        ("a", "look"),
        ("until", "next"),
    )
    run_graph = Graph(
        "run",
        tuple(Node(id=name, kind=kind) for name, kind in [*kinds.items(), ("next", "stage")]),
        edges,
    )
    assert predecessors_of(run_graph) == {
        "fix": [], "checks": ["fix"], "a": ["checks"], "b": ["checks"], "look": ["a"], "until": ["b", "look"],
        "next": ["until"],
    }  # fmt: skip
    circle = Graph("run", run_graph.nodes, (*edges, ("look", "until"), ("until", "until")))
    assert layers_of(predecessors_of(circle))[0] == {
        ("fix",): 0, ("a", "b", "checks", "look", "until"): 1, ("next",): 2
    }, "what is a circle in the log stays one"  # fmt: skip


def test_a_loop_stands_as_one() -> None:
    run_graph = workflow(18).graph
    _, folds = fold_graph(run_graph)
    loop = folds[0]
    assert (loop.kind, loop.node, loop.count) == ("loop", "fix-00", 3)
    assert {"fix-00", "until-00", "fix-00-c", "until-00-c", "until-00-c-quality"} <= set(loop.nodes)
    assert all(graph_inside(run_graph, fold).edges for fold in folds)
    assert fold_graph(review().graph) == (review().graph, [])
    own_names = graph([("fix", "fix-ui"), ("fix-ui", "fix-api")])
    assert fold_graph(own_names) == (own_names, [])


def test_many_conversations_of_one_rubric_stand_as_one_and_those_apart_do_not() -> None:
    looks = [("judge-a-c", "second-look-a")]
    run_graph = graph(
        [("checks", f"judge-a{end}") for end in ("", "-b", "-c", "-d", "-e", "-f")] + looks, "judge"
    )
    small, folds = fold_graph(run_graph)
    assert [fold.nodes for fold in folds] == [
        ("judge-a", "judge-a-b", "judge-a-d", "judge-a-e", "judge-a-f")
    ]
    assert {node.id for node in small.nodes} == {"checks", "judge-a", "judge-a-c", "second-look-a"}
    # Steps of a chain are not alike, whatever their names.
    chain = graph([("a", "a-b"), ("a-b", "a-c"), ("a-c", "a-d"), ("a-d", "a-e")], "judge")
    assert fold_graph(chain)[1] == []
