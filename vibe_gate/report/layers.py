"""Where the nodes of a small graph stand: in layers, each ordered by what its nodes are joined
with. Pure.

Of nodes that could come next the one with the lowest id does (Kahn); a node's layer is the length
of the longest way to it; nodes that come after each other in a circle stand in one place. The same
graph gives the same.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import TypeVar

from msgspec import Struct

from vibe_gate.domain.event import Graph
from vibe_gate.report.folds import neighbours_of, owned_nodes

MOST_DRAWN = 30
"""Nodes of a graph that is drawn; more than these are easier to read as a list."""

SWEEPS = 5
"""Times that the layers are ordered by their neighbours: down, up, and down at last, so that no
tree crosses.
"""

Group = tuple[str, ...]
"""Nodes that stand in one place: as a rule one, else those of a cycle."""

Sortable = TypeVar("Sortable", Group, int)


class Slot(Struct, eq=False):
    """A place in a layer."""

    group: Group = ()
    """The nodes that stand there; none if the edges of one source pass there."""
    after: list[Slot] = []
    """What it is joined with in the next layer."""
    before: list[Slot] = []
    """What it is joined with in the layer above."""
    middle: float = 0.0
    """Across its layer."""


def predecessors_of(graph: Graph) -> dict[str, list[str]]:
    """What each node comes directly after; a gate after its checks and judges, and they after what
    the gate does.

    A log has them the other way round, as a gate starts them; but it ends, with their verdict, when
    they have ended.
    """
    after, before = neighbours_of(graph)
    kinds = {node.id: node.kind for node in graph.nodes}
    sources = dict(before)
    for gate, kind in kinds.items():
        if kind != "gate":
            continue
        judging = set(owned_nodes([gate], kinds, after, before))
        first_nodes = judging.intersection(after[gate])
        # Its checks; several, which no run has, would each come after all that it does.
        if len(first_nodes) == 1:
            sources[gate] = [name for name in judging if judging.isdisjoint(after[name])]
            sources[first_nodes.pop()] = before[gate]
    return {name: sorted(names) for name, names in sources.items()}


def layers_of(
    before: Mapping[str, Collection[str]],
) -> tuple[dict[Group, int], dict[Group, set[Group]]]:
    """The groups in topological order, each with its layer; and what each comes directly after."""
    group_of = _groups(before)
    sources: dict[Group, set[Group]] = {group: set() for group in group_of.values()}
    for name, names in before.items():
        group = group_of[name]
        sources[group] |= {group_of[source] for source in names} - {group}
    layers: dict[Group, int] = {}
    for group in sort_topologically(sources):
        source_layers = [layers[source] for source in sources[group]]
        layers[group] = 1 + max(source_layers, default=-1)
    return layers, sources


def is_cycle(group: Group, before: Mapping[str, Collection[str]]) -> bool:
    """Whether its nodes come after each other, or after themselves."""
    return len(group) > 1 or group[0] in before[group[0]]


def sort_topologically(before: Mapping[Sortable, Collection[Sortable]]) -> Iterator[Sortable]:
    """Each after what it comes after, of those that could be next the lowest (Kahn). CycleError."""
    sorter = TopologicalSorter(before)
    sorter.prepare()
    ready: list[Sortable] = []
    while sorter.is_active():
        for item in sorter.get_ready():
            heapq.heappush(ready, item)
        first = heapq.heappop(ready)
        yield first
        sorter.done(first)


def place_nodes(before: Mapping[str, Collection[str]]) -> list[list[Slot]]:
    """The layers of a graph of at most MOST_DRAWN nodes, each in its order from the left."""
    layers, sources = layers_of(before)
    row_count = max(layers.values(), default=-1) + 1
    rows: list[list[Slot]] = [[] for _ in range(row_count)]
    slots = {group: Slot(group) for group in layers}
    for group, layer in layers.items():
        rows[layer].append(slots[group])
    passing: dict[tuple[Group, int], Slot] = {}
    for target, layer in layers.items():
        for source in sorted(sources[target]):
            upper = slots[source]
            for number in range(layers[source] + 1, layer):
                upper = _pass_layer(source, number, upper, rows, passing)
            _join(upper, slots[target])
    for number in range(SWEEPS):
        _order_by_neighbours(rows, is_down=number % 2 == 0)
    return rows


def _pass_layer(
    source: Group,
    layer: int,
    upper: Slot,
    rows: Sequence[list[Slot]],
    passing: dict[tuple[Group, int], Slot],
) -> Slot:
    """Where the edges of a source pass a layer, below `upper`: one place for all of them."""
    if (source, layer) not in passing:
        slot = Slot()
        passing[source, layer] = slot
        rows[layer].append(slot)
        _join(upper, slot)
    return passing[source, layer]


def spread_slots(rows: Sequence[Sequence[Slot]], width: float, gap: float) -> float:
    """Give each slot its middle, and return the width of all: the fullest layer stands, the others
    follow it.

    `width` is that of a group's box, `gap` lies between slots; an edge that passes needs nothing
    but the gap.
    """
    if not rows:
        return 0.0
    group_counts = []
    for row in rows:
        group_counts.append(sum(bool(slot.group) for slot in row))
    fullest = group_counts.index(max(group_counts))
    _move_toward(rows[fullest], [0.0] * len(rows[fullest]), width, gap)
    for row in reversed(rows[:fullest]):
        _move_toward(row, [_middle_of(slot.after) for slot in row], width, gap)
    for row in rows[fullest + 1 :]:
        _move_toward(row, [_middle_of(slot.before) for slot in row], width, gap)
    slots: list[Slot] = []
    for row in rows:
        slots += row
    starts = [slot.middle - _width(slot, width) / 2 for slot in slots]
    first_start = min(starts, default=0.0)
    for slot in slots:
        slot.middle -= first_start
    ends = [slot.middle + _width(slot, width) / 2 for slot in slots]
    return max(ends, default=0.0)


def _join(upper: Slot, lower: Slot) -> None:
    upper.after.append(lower)
    lower.before.append(upper)


def _order_by_neighbours(rows: Sequence[list[Slot]], *, is_down: bool) -> None:
    """Order each layer by the middle of what its slots are joined with in the layer before, or
    after.
    """
    for fixed, moved in pairwise(rows if is_down else rows[::-1]):
        for row in (fixed, moved):
            for index, slot in enumerate(row):
                slot.middle = index
        middles = {}
        for slot in moved:
            middles[id(slot)] = _mean(slot.before if is_down else slot.after, slot.middle)
        moved.sort(key=lambda slot: middles[id(slot)])


def _middle_of(neighbours: Sequence[Slot]) -> float:
    """Boxes pull, so that edges which pass beside them leave a chain straight."""
    boxes = [slot for slot in neighbours if slot.group]
    return _mean(boxes or neighbours, 0.0)


def _mean(slots: Sequence[Slot], default: float) -> float:
    if slots:
        return sum(slot.middle for slot in slots) / len(slots)
    return default


def _move_toward(row: Sequence[Slot], targets: Sequence[float], width: float, gap: float) -> None:
    """Move the slots of a layer as near to their targets as their order and distance let them."""
    end = float("-inf")
    moved = 0.0
    for slot, target in zip(row, targets, strict=True):
        half = _width(slot, width) / 2
        slot.middle = max(target, end + half)
        end = slot.middle + half + gap
        moved += slot.middle - target
    for slot in row:
        slot.middle -= moved / len(row)


def _width(slot: Slot, width: float) -> float:
    if not slot.group:
        return 0.0
    return width


def _groups(before: Mapping[str, Collection[str]]) -> dict[str, Group]:
    """Each node's group: the nodes that lead to it and that it leads to (Kosaraju), itself
    included.
    """
    after: dict[str, list[str]] = {name: [] for name in before}
    for target, sources in before.items():
        for source in sources:
            after[source].append(target)
    reached: set[str] = set()
    finished: list[str] = []
    for root in before:
        finished += _walk(root, after, reached)
    reached = set()
    group_of: dict[str, Group] = {}
    for root in reversed(finished):
        group = tuple(sorted(_walk(root, before, reached)))
        group_of |= dict.fromkeys(group, group)
    return group_of


def _walk(root: str, edges: Mapping[str, Collection[str]], reached: set[str]) -> Iterator[str]:
    """What `root` leads to and nothing led to before (`reached`, which grows), each after what it
    leads to itself.
    """
    if root in reached:
        return
    reached.add(root)
    stack = [(root, iter(edges[root]))]
    while stack:
        name, targets = stack[-1]
        following = next((target for target in targets if target not in reached), None)
        if following is None:
            stack.pop()
            yield name
        else:
            reached.add(following)
            stack.append((following, iter(edges[following])))
