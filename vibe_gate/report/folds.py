"""Which nodes of a graph stand as one: iterations of a loop, and conversations that are alike.
Pure.

A loop is a stage that is there again, after itself: `fix`, `fix-b`, `fix-c` with what lies between
them, and the checks and judges of these. Alike are nodes of one name but for its `-b`, `-c`, before
and after which the same nodes come.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.event import Graph
from vibe_gate.domain.node_names import repeat_suffix

FEW = 24
"""Nodes of a graph in which two iterations of a loop have boxes of their own; in a larger one they
do not.
"""

MOST_NODES, MOST_EDGES = 1_000, 4_000
"""Of a graph that is folded. A hostile log has twenty times as many."""

ALIKE = 4
"""So many nodes that are alike stand as one."""

OWNED = frozenset({"checks", "judge"})
"""Kinds of nodes that belong to the stage that they come after."""

Edges = Mapping[str, Collection[str]]


class Fold(Struct, frozen=True):
    """Nodes that stand as one."""

    kind: Literal["loop", "alike"]
    node: str
    """The first of them, which stands for all."""
    nodes: tuple[str, ...]
    """All of them, in the graph's order."""
    count: int
    """Iterations of a loop, else nodes."""


def is_foldable(graph: Graph) -> bool:
    """Whether it is small enough to be folded."""
    return len(graph.nodes) <= MOST_NODES and len(graph.edges) <= MOST_EDGES


def fold_graph(graph: Graph, *, within: str = "") -> tuple[Graph, list[Fold]]:
    """The graph in which each fold is one node, and the folds; `within`: the kind of the fold that
    it is the inside of.

    Each node lies in one fold at most; the inside of a loop may have nodes that are alike.
    """
    loops = []
    if not within:
        loops = _loops(graph)
    without_loops = _with_folds(graph, loops)
    alike: list[Fold] = []
    if within != "alike":
        alike = _alike(without_loops, {fold.node for fold in loops})
    return _with_folds(without_loops, alike), [*loops, *alike]


def names_without_repeats(graph: Graph) -> dict[str, str]:
    """Each node's id without what its being there again added to it (`repeat_suffix`)."""
    ids = dict.fromkeys(node.id for node in graph.nodes)
    # As many as there may be, so the stage fix-ui is no fix again.
    endings = {repeat_suffix(index) for index in range(1, len(ids))}
    bases = {}
    for name in ids:
        base, dash, letters = name.rpartition("-")
        bases[name] = name
        if base in ids and dash + letters in endings:
            bases[name] = base
    return bases


def graph_inside(graph: Graph, fold: Fold) -> Graph:
    """The nodes of a fold alone, with the edges among them."""
    members = set(fold.nodes)
    nodes = tuple(node for node in graph.nodes if node.id in members)
    edges = tuple(edge for edge in graph.edges if members.issuperset(edge))
    return replace(graph, nodes=nodes, edges=edges)


def owned_nodes(
    region: Collection[str], kinds: Mapping[str, str], after: Edges, before: Edges
) -> Iterator[str]:
    """The checks and judges that come after nodes of the region alone."""
    sources_left: dict[str, int] = {}
    waiting = list(region)
    while waiting:
        for name in after[waiting.pop()]:
            sources_left[name] = sources_left.get(name, len(before[name])) - 1
            if not sources_left[name] and name not in region and kinds[name] in OWNED:
                waiting.append(name)
                yield name


def neighbours_of(graph: Graph) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """What comes after each node, and before it, as the log has it."""
    after: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    before: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for source, target in graph.edges:
        after[source].append(target)
        before[target].append(source)
    return after, before


def _with_folds(graph: Graph, folds: list[Fold]) -> Graph:
    """The graph with one node for each fold, its first."""
    stands_for: dict[str, str] = {}
    for fold in folds:
        stands_for |= dict.fromkeys(fold.nodes, fold.node)
    nodes = []
    for node in graph.nodes:
        if stands_for.get(node.id, node.id) == node.id:
            nodes.append(node)
    edges: dict[tuple[str, str], None] = {}
    for edge in graph.edges:
        source = stands_for.get(edge[0], edge[0])
        target = stands_for.get(edge[1], edge[1])
        if source != target or edge == (source, target):
            edges[source, target] = None
    return replace(graph, nodes=tuple(nodes), edges=tuple(edges))


def _loops(graph: Graph) -> list[Fold]:
    """The loops of which no two share a node, the first of the graph first."""
    after, before = neighbours_of(graph)
    bases = names_without_repeats(graph)
    kinds = {node.id: node.kind for node in graph.nodes}
    least = 3
    if len(graph.nodes) > FEW:
        least = 2
    folds: list[Fold] = []
    folded_names: set[str] = set()
    for base, members in _families(bases).items():
        if len(members) < least or kinds[base] in OWNED:
            continue
        if folded_names.intersection(members):
            continue
        region = _loop_region(members, bases, after, before)
        if not region:
            continue
        region |= set(owned_nodes(region, kinds, after, before))
        if not folded_names & region:
            folded_names |= region
            nodes = tuple(node.id for node in graph.nodes if node.id in region)
            folds.append(Fold("loop", base, nodes, len(members)))
    return folds


def _families(bases: Mapping[str, str]) -> dict[str, list[str]]:
    """The nodes of each name, in the graph's order."""
    families: dict[str, list[str]] = defaultdict(list)
    for name, base in bases.items():
        families[base].append(name)
    return families


def _loop_region(
    members: list[str], bases: Mapping[str, str], after: Edges, before: Edges
) -> set[str]:
    """The nodes of all iterations; none if the members do not lie behind each other.

    `members`: the stages that begin the iterations. The last iteration may have gone further than
    its beginning: to nodes of names that lie between others.
    """
    reached_later = _reached([members[0]], after)
    region = reached_later & _reached([members[-1]], before)
    if not region.issuperset(members):
        return set()
    names_inside = {bases[name] for name in region}
    ends = []
    for name in _reached([members[-1]], after):
        if bases[name] in names_inside:
            ends.append(name)
    return region | (reached_later & _reached(ends, before))


def _alike(graph: Graph, loop_nodes: Collection[str]) -> list[Fold]:
    """Nodes of one name and kind before and after which the same nodes come; none of
    `loop_nodes`.
    """
    after, before = neighbours_of(graph)
    bases = names_without_repeats(graph)
    families: dict[object, list[str]] = defaultdict(list)
    for node in graph.nodes:
        if node.id not in loop_nodes:
            place = frozenset(before[node.id]), frozenset(after[node.id])
            families[bases[node.id], node.kind, place].append(node.id)
    folds = []
    for names in families.values():
        if len(names) >= ALIKE:
            folds.append(Fold("alike", names[0], tuple(names), len(names)))
    return folds


def _reached(roots: Collection[str], edges: Edges) -> set[str]:
    """The roots, and all that they lead to."""
    reached = set(roots)
    waiting = list(roots)
    while waiting:
        for name in edges[waiting.pop()]:
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached
