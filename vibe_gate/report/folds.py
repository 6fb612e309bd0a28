"""Which nodes of a graph stand as one: iterations of a loop, a stage with its checks and judges, nodes alike. Pure.

A loop is a stage that is there again, after itself: `fix`, `fix-b`, `fix-c` with what lies between them, and the checks
and judges of these. Alike are nodes of one name but for its `-b`, `-c`, that come after nodes that are alike and before
such: so a graph has no circle that it had not before.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.event import Graph
from vibe_gate.domain.node_names import repeat_suffix

FEW = 24
"""Nodes of a graph in which a stage's checks and judges, and two iterations of a loop, have boxes of their own."""

MOST_NODES, MOST_EDGES = 1_000, 4_000
"""Of a graph that is folded and drawn. A hostile log has twenty times as many."""

ALIKE = 4
"""So many nodes that are alike stand as one."""

OWNED = frozenset({"checks", "judge"})
"""Kinds of nodes that belong to the stage that they come after."""

Edges = Mapping[str, Collection[str]]


class Fold(Struct, frozen=True):
    """Nodes that stand as one, `node`; `nodes` in the graph's order. `count`: iterations of a loop, else nodes."""

    kind: Literal["loop", "stage", "alike"]
    node: str
    nodes: tuple[str, ...]
    count: int


def is_drawn(graph: Graph) -> bool:
    """Whether it is small enough."""
    return len(graph.nodes) <= MOST_NODES and len(graph.edges) <= MOST_EDGES


def folded(graph: Graph, *, within: str = "") -> tuple[Graph, list[Fold]]:
    """The graph in which each fold is one node, and the folds; `within`: the kind of the fold that it is the inside of.

    Each lies in one fold at most; the inside of a loop may have others.
    """
    folds = _loops(graph) if not within else []
    small = _with(graph, folds)
    if len(graph.nodes) > FEW and within in ("", "loop"):
        stages = _stages(small)
        folds, small = [*folds, *stages], _with(small, stages)
    alike = _alike(small, {fold.node for fold in folds}) if within != "alike" else []
    return _with(small, alike), [*folds, *alike]


def names(graph: Graph) -> dict[str, str]:
    """Each node's id without what its being there again added to it (`repeated`)."""
    ids = dict.fromkeys(node.id for node in graph.nodes)
    endings = {repeat_suffix(index) for index in range(1, len(ids))}  # so the stage fix-ui is no fix again
    return {name: _base(name, endings, ids) for name in ids}


def _base(name: str, endings: Collection[str], ids: Collection[str]) -> str:
    base, dash, letters = name.rpartition("-")
    return base if base in ids and dash + letters in endings else name


def inside(graph: Graph, fold: Fold) -> Graph:
    """The nodes of a fold alone, with the edges among them."""
    own = set(fold.nodes)
    edges = tuple(edge for edge in graph.edges if own.issuperset(edge))
    return replace(graph, nodes=tuple(node for node in graph.nodes if node.id in own), edges=edges)


def _with(graph: Graph, folds: list[Fold]) -> Graph:
    """The graph with one node for each fold, its first."""
    stands = {name: fold.node for fold in folds for name in fold.nodes}
    nodes = tuple(node for node in graph.nodes if stands.get(node.id, node.id) == node.id)
    edges = dict.fromkeys((stands.get(one, one), stands.get(other, other)) for one, other in graph.edges)
    return replace(graph, nodes=nodes, edges=tuple(edge for edge in edges if edge[0] != edge[1] or edge in graph.edges))


def _loops(graph: Graph) -> list[Fold]:
    after, before = edges_of(graph)
    named, kinds = names(graph), {node.id: node.kind for node in graph.nodes}
    families: dict[str, list[str]] = defaultdict(list)
    for name, base in named.items():
        families[base].append(name)
    folds, taken = list[Fold](), set[str]()
    least = 2 if len(graph.nodes) > FEW else 3
    for base, members in families.items():
        if len(members) < least or taken.intersection(members) or kinds[base] in OWNED:
            continue
        later = _reached([base], after)
        if not later.issuperset(members):
            continue
        region = later & _reached([members[-1]], before)
        if not region.issuperset(members):
            continue
        own = {named[name] for name in region}
        ends = [name for name in _reached([members[-1]], after) if named[name] in own]
        region |= later & _reached(ends, before)
        region |= set(owned(region, kinds, after, before))
        if not taken & region:
            taken |= region
            nodes = tuple(node.id for node in graph.nodes if node.id in region)
            folds.append(Fold("loop", base, nodes, len(members)))
    return folds


def owned(region: Collection[str], kinds: Mapping[str, str], after: Edges, before: Edges) -> Iterator[str]:
    """The checks and judges that come after nodes of the region alone."""
    left, waiting = dict[str, int](), list(region)
    while waiting:
        for name in after[waiting.pop()]:
            left[name] = left.get(name, len(before[name])) - 1
            if not left[name] and name not in region and kinds[name] in OWNED:
                waiting.append(name)
                yield name


def _stages(graph: Graph) -> list[Fold]:
    """Stages with the checks and judges that come after them alone."""
    after, before = edges_of(graph)
    kinds = {node.id: node.kind for node in graph.nodes}
    order = {name: at for at, name in enumerate(kinds)}
    folds = list[Fold]()
    for name in (name for name, kind in kinds.items() if kind not in OWNED):
        own = sorted({name, *owned([name], kinds, after, before)}, key=order.__getitem__)
        if len(own) > 1:
            folds.append(Fold("stage", name, tuple(own), len(own)))
    return folds


def _alike(graph: Graph, but: Collection[str]) -> list[Fold]:
    """Nodes that cannot be told apart by their names, and by what comes before and after them; none of `but`."""
    after, before = edges_of(graph)
    named, kinds = names(graph), {node.id: node.kind for node in graph.nodes}
    colours: dict[str, object] = {name: (kinds[name], base) for name, base in named.items()}
    number = 0
    while len(set(colours.values())) > number:
        number = len(set(colours.values()))
        ids = {colour: at for at, colour in enumerate(dict.fromkeys(colours.values()))}
        own = {name: ids[colour] for name, colour in colours.items()}
        colours = {
            name: (own[name], frozenset(own[one] for one in before[name]), frozenset(own[one] for one in after[name]))
            for name in own
        }
    counts = Counter(colours.values())
    same: dict[object, list[str]] = defaultdict(list)
    for name, colour in colours.items():
        if counts[colour] >= ALIKE and name not in but:
            same[colour].append(name)
    return [Fold("alike", nodes[0], tuple(nodes), len(nodes)) for nodes in same.values() if len(nodes) > 1]


def edges_of(graph: Graph) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """What comes after each node, and before it, as the log has it."""
    after: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    before: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for source, target in graph.edges:
        after[source].append(target)
        before[target].append(source)
    return after, before


def _reached(roots: Collection[str], edges: Edges) -> set[str]:
    """The roots, and all that they lead to."""
    seen, waiting = set(roots), list(roots)
    while waiting:
        new = [name for name in edges[waiting.pop()] if name not in seen]
        seen.update(new)
        waiting += new
    return seen
