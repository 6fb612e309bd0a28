"""Where the nodes of a graph stand, and which of them stand as one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

from drawn_runs import review, workflow

from vibe_gate.domain.event import Graph, Node
from vibe_gate.report.folds import folded, inside
from vibe_gate.report.layers import Slot, comes_after, crossings, layers_of, places, spread


def graph(edges: Sequence[tuple[str, str]], kind: str = "stage") -> Graph:
    names = dict.fromkeys(name for edge in edges for name in edge)
    return Graph("run", tuple(Node(id=name, kind=kind) for name in names), tuple(edges))


def rows_of(of: Graph) -> list[list[Slot]]:
    return places(comes_after(of), 300)


def test_300_nodes_of_a_workflow_cross_nothing_and_overlap_nowhere() -> None:
    whole = workflow(18).graph
    assert len(whole.nodes) >= 290
    assert crossings(rows_of(folded(whole)[0])) == 0
    rows = rows_of(whole)
    assert crossings(rows) <= 25  # the judges of a stage that others join beside it
    width = spread(rows, 200, 20)
    for row in rows:
        for left, right in pairwise(row):
            apart = 20 + 100 * bool(left.group) + 100 * bool(right.group)
            assert right.at - left.at >= apart - 1e-6
        assert all(0 <= place.at <= width for place in row)


def test_edges_cross_only_where_they_must() -> None:
    # Three times three that all join: 9 pairs must cross; a tree written in any order crosses nothing.
    must = graph([(f"a{one}", f"b{other}") for one in range(3) for other in range(3)])
    assert crossings(rows_of(must)) == 9
    dice = random.Random(7)
    tree = [(f"n{number // 3}", f"n{number}") for number in range(1, 300)]
    dice.shuffle(tree)
    assert crossings(rows_of(graph([edge for edge in tree if edge[0] != edge[1]]))) == 0
    # Pairs whose names cross: swept apart.
    assert crossings(rows_of(graph([(f"a{n}", f"b{40 - n:02}") for n in range(40)]))) == 0


def test_a_gate_stands_after_the_checks_and_judges_whose_verdict_it_is() -> None:
    kinds = {"fix": "stage", "until": "gate", "checks": "checks", "a": "judge", "b": "judge", "look": "judge"}
    edges = (("fix", "until"), ("until", "checks"), ("checks", "a"), ("checks", "b"), ("a", "look"), ("until", "next"))
    whole = Graph("run", tuple(Node(id=name, kind=kind) for name, kind in [*kinds.items(), ("next", "stage")]), edges)
    assert comes_after(whole) == {
        "fix": [], "checks": ["fix"], "a": ["checks"], "b": ["checks"], "look": ["a"], "until": ["b", "look"],
        "next": ["until"],
    }  # fmt: skip
    circle = Graph("run", whole.nodes, (*edges, ("look", "until"), ("until", "until")))
    assert layers_of(comes_after(circle))[0] == {
        ("fix",): 0, ("a", "b", "checks", "look", "until"): 1, ("next",): 2
    }, "what is a circle in the log stays one"  # fmt: skip


def test_a_loop_and_a_stage_with_its_judges_stand_as_one_in_a_large_graph() -> None:
    whole = workflow(18).graph
    small, folds = folded(whole)
    assert len(small.nodes) < 90
    loop = next(fold for fold in folds if fold.kind == "loop")
    assert (loop.node, loop.count) == ("fix-00", 3)
    assert {"fix-00", "until-00", "fix-00-c", "until-00-c", "until-00-c-quality"} <= set(loop.nodes)
    stage = next(fold for fold in folds if fold.kind == "stage")
    assert stage.nodes == ("gate-00", "gate-00-checks", "gate-00-quality", "gate-00-security", "gate-00-tests")
    assert all(inside(whole, fold).edges for fold in folds)
    assert folded(review().graph) == (review().graph, [])
    own_names = graph([("fix", "fix-ui"), ("fix-ui", "fix-api")])
    assert folded(own_names) == (own_names, [])


def test_many_conversations_of_one_rubric_stand_as_one_and_those_apart_do_not() -> None:
    looks = [("judge-a-c", "second-look-a")]
    whole = graph([("checks", f"judge-a{end}") for end in ("", "-b", "-c", "-d", "-e", "-f")] + looks, "judge")
    small, folds = folded(whole)
    assert [fold.nodes for fold in folds] == [("judge-a", "judge-a-b", "judge-a-d", "judge-a-e", "judge-a-f")]
    assert {node.id for node in small.nodes} == {"checks", "judge-a", "judge-a-c", "second-look-a"}
    # Steps of a chain are not alike, whatever their names.
    chain = graph([("a", "a-b"), ("a-b", "a-c"), ("a-c", "a-d"), ("a-d", "a-e")], "judge")
    assert folded(chain)[1] == []
