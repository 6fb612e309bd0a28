"""Where the nodes of a graph stand: in layers, ordered so that few edges cross. Pure; the same graph gives the same.

Of nodes that could come next the one with the lowest id does (Kahn); a node's layer is the length of the longest way to
it; nodes that come after each other in a circle stand in one place. Within their layers nodes are ordered by what they
are joined with, layer by layer, down and up (Sugiyama's barycentres), and then by swapping neighbours.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from itertools import accumulate, pairwise
from typing import TypeVar

from msgspec import Struct

from vibe_gate.domain.event import Graph
from vibe_gate.report.folds import edges_of, owned

SWEEPS = 12
"""Down and up; more change little."""

SWAPS = 4
"""Times that all neighbours are compared after a sweep."""

STRAIGHT = 6.0
"""How much more than a box a passing edge keeps its place, so that it runs straight."""

MOST_SWEPT = 20_000
"""Places of a graph that is swept more than once; edges that pass by its layers, if it is drawn at all."""

Group = tuple[str, ...]
"""Nodes that stand in one place: as a rule one, else those of a cycle."""

Sorted = TypeVar("Sorted", Group, int)


class Slot(Struct, eq=False):
    """A place in a layer: a group's, or one without, where the edges of one source pass.

    `after` and `before`: what it is joined with in the next layer, and in the one above. `at`: where it is in its own.
    """

    group: Group = ()
    after: list[Slot] = []
    before: list[Slot] = []
    at: float = 0.0


def comes_after(graph: Graph) -> dict[str, list[str]]:
    """What each node comes directly after; a gate after its checks and judges, and they after what the gate does.

    A log has them the other way round, as a gate starts them; but it ends, with their verdict, when they have ended.
    """
    after, before = edges_of(graph)
    kinds = {node.id: node.kind for node in graph.nodes}
    made = dict(before)
    for gate in (name for name, kind in kinds.items() if kind == "gate"):
        own = set(owned([gate], kinds, after, before))
        match list(own.intersection(after[gate])):
            case [first]:  # its checks; several, which no run has, would each come after all that the gate does
                made[gate] = [name for name in own if own.isdisjoint(after[name])]
                made[first] = before[gate]
    return {name: sorted(sources) for name, sources in made.items()}


def layers_of(before: Mapping[str, Collection[str]]) -> tuple[dict[Group, int], dict[Group, set[Group]]]:
    """The groups in topological order, each with its layer; and what each comes directly after."""
    group = _groups(before)
    sources = {one: {group[name] for each in one for name in before[each]} - {one} for one in set(group.values())}
    layers: dict[Group, int] = {}
    for one in in_order(sources):
        layers[one] = 1 + max((layers[source] for source in sources[one]), default=-1)
    return layers, sources


def is_cycle(group: Group, before: Mapping[str, Collection[str]]) -> bool:
    """Whether its nodes come after each other, or after themselves."""
    return len(group) > 1 or group[0] in before[group[0]]


def in_order(before: Mapping[Sorted, Collection[Sorted]]) -> Iterator[Sorted]:
    """Each after what it comes after, of those that could be next the lowest (Kahn). CycleError."""
    sorter = TopologicalSorter(before)
    sorter.prepare()
    ready: list[Sorted] = []
    while sorter.is_active():
        for one in sorter.get_ready():
            heapq.heappush(ready, one)
        first = heapq.heappop(ready)
        yield first
        sorter.done(first)


def places(before: Mapping[str, Collection[str]], most: int, in_all: int = MOST_SWEPT) -> list[list[Slot]]:
    """The layers of a graph, ordered; none if more than `most` edges pass by a layer on average, or `in_all` by all.

    A hostile log has millions of them.
    """
    layers, sources = layers_of(before)
    after: dict[Group, list[Group]] = {group: [] for group in layers}
    for target in sorted(layers, key=lambda one: (layers[one], one)):
        for source in sources[target]:
            after[source].append(target)
    passed = (layers[ends[-1]] - layers[group] for group, ends in after.items() if ends)
    if sum(passed) > min(most * len(layers), in_all):
        return []
    rows: list[list[Slot]] = [[] for _ in range(max(layers.values(), default=-1) + 1)]
    made = {group: Slot(group) for group in layers}
    for group, layer in layers.items():
        rows[layer].append(made[group])
    for group, layer in layers.items():
        passing = {layer: made[group]}
        for target in after[group]:
            for number in range(layer + 1, layers[target]):
                if number not in passing:
                    passing[number] = Slot()
                    rows[number].append(passing[number])
                    _join(passing[number - 1], passing[number])
            _join(passing[layers[target] - 1], made[target])
    _order(rows)
    return rows


def crossings(rows: Sequence[Sequence[Slot]]) -> int:
    """How many pairs of edges cross between the layers."""
    number = 0
    for upper, lower in pairwise(rows):
        at = {id(place): index for index, place in enumerate(lower)}
        passed: list[int] = []
        for place in upper:
            ends = [at[id(target)] for target in place.after]
            number += sum(len(passed) - bisect_right(passed, end) for end in ends)
            for end in ends:
                insort(passed, end)
    return number


def _groups(before: Mapping[str, Collection[str]]) -> dict[str, Group]:
    """Each node's group: the nodes that lead to it and that it leads to (Kosaraju), itself included."""
    after: dict[str, list[str]] = {name: [] for name in before}
    for target, sources in before.items():
        for source in sources:
            after[source].append(target)
    seen: set[str] = set()
    order = [name for root in before for name in _reached(root, after, seen)]
    seen = set()
    made = (tuple(sorted(_reached(root, before, seen))) for root in reversed(order))
    return {name: group for group in made for name in group}


def _reached(root: str, edges: Mapping[str, Collection[str]], seen: set[str]) -> Iterator[str]:
    """What `root` leads to and nothing led to before (`seen`, which grows), each after what it leads to itself."""
    stack = [(root, iter(edges[root]))] if root not in seen else []
    seen.add(root)
    while stack:
        name, targets = stack[-1]
        following = next((target for target in targets if target not in seen), None)
        if following is None:
            stack.pop()
            yield name
        else:
            seen.add(following)
            stack.append((following, iter(edges[following])))


def _join(upper: Slot, lower: Slot) -> None:
    upper.after.append(lower)
    lower.before.append(upper)


def _order(rows: list[list[Slot]]) -> None:
    """Order each layer: as a walk from the first layer finds them, then swept while fewer edges cross for it."""
    found = {id(place): number for number, place in enumerate(_walked(rows))}
    for row in rows:
        row.sort(key=lambda place: found[id(place)])
    best, fewest = [list(row) for row in rows], crossings(rows)
    sweeps = SWEEPS if sum(map(len, rows)) <= MOST_SWEPT else 1
    for number in range(sweeps):
        if not fewest:
            break
        _sweep(rows, down=number % 2 == 0)
        _swap(rows)
        crossed = crossings(rows)
        if crossed < fewest:
            best, fewest = [list(row) for row in rows], crossed
    rows[:] = best


def _walked(rows: Sequence[Sequence[Slot]]) -> Iterator[Slot]:
    """Every place, what follows one right behind it: trees come out without a crossing."""
    seen: set[int] = set()
    stack = [place for row in reversed(rows) for place in reversed(row)]
    while stack:
        place = stack.pop()
        if id(place) not in seen:
            seen.add(id(place))
            yield place
            stack += reversed(place.after)


def _sweep(rows: Sequence[list[Slot]], *, down: bool) -> None:
    """Order each layer by the middle of what its places are joined with in the layer before, or after."""
    for fixed, moved in pairwise(rows if down else rows[::-1]):
        for index, place in enumerate(fixed):
            place.at = index
        for index, place in enumerate(moved):
            joined = place.before if down else place.after
            place.at = sum(one.at for one in joined) / len(joined) if joined else index
        moved.sort(key=lambda place: place.at)


def _swap(rows: Sequence[list[Slot]]) -> None:
    """Swap neighbours as long as fewer edges cross for it, a few times."""
    for row in rows:
        for index, place in enumerate(row):
            place.at = index
    for _ in range(SWAPS):
        if not sum(_swap_in(row) for row in rows):
            return


def _swap_in(row: list[Slot]) -> int:
    swapped = 0
    for index in range(len(row) - 1):
        left, right = row[index], row[index + 1]
        if _crossed(right, left) < _crossed(left, right):
            row[index], row[index + 1] = right, left
            left.at, right.at = right.at, left.at
            swapped += 1
    return swapped


def _crossed(left: Slot, right: Slot) -> int:
    """How many edges of two neighbours cross each other if they stand in this order."""
    number = 0
    for ours, theirs in ((left.before, right.before), (left.after, right.after)):
        ends = sorted(one.at for one in ours)
        number += sum(len(ends) - bisect_right(ends, one.at) for one in theirs)
    return number


def spread(rows: Sequence[Sequence[Slot]], width: float, gap: float) -> float:
    """Give each place its middle, `at`, from 0 to what is returned: near to what it is joined with, `gap` apart.

    `width` is that of a group's place; where edges pass, nothing but the gap is needed.
    """
    for row in rows:
        for at, middle in zip(row, _apart(row, [0.0] * len(row), width, gap), strict=True):
            at.at = middle
    for number in range(SWEEPS):
        for row in rows if number % 2 == 0 else rows[::-1]:
            wanted = [_wanted(place, number) for place in row]
            for place, middle in zip(row, _apart(row, wanted, width, gap), strict=True):
                place.at = middle
    first = min((_left(place, width) for row in rows for place in row), default=0.0)
    for row in rows:
        for place in row:
            place.at -= first
    return max((_left(place, width) + _wide(place, width) for row in rows for place in row), default=0.0)


def _wanted(slot: Slot, number: int) -> float:
    """Where a place would like to be: below what it comes after, and above what comes after it.

    At last what joins several stays in the middle below them, and what forks above; an edge that passes stays straight.
    """
    is_above = number % 2 == 1
    if number >= SWEEPS // 2:
        ups, downs = len(slot.before), len(slot.after)
        is_above = downs > ups if ups != downs else is_above
        if not slot.group:
            is_above = bool(slot.before[0].group) and not slot.after[0].group
    joined = slot.after if is_above else slot.before
    return sum(one.at for one in joined) / len(joined) if joined else slot.at


def _apart(row: Sequence[Slot], wanted: Sequence[float], width: float, gap: float) -> list[float]:
    """The middles nearest to what is wanted that keep their order and distance (isotonic regression by pools)."""
    steps = ((_wide(left, width) + _wide(right, width)) / 2 + gap for left, right in pairwise(row))
    offsets = list(accumulate(steps, initial=0.0))
    pools: list[list[float]] = []  # sum of weights, weighted mean, places
    for place, want, off in zip(row, wanted, offsets, strict=True):
        pool = [STRAIGHT if not place.group else 1.0, want - off, 1]
        while pools and pools[-1][1] > pool[1]:
            weight, mean, count = pools.pop()
            both = weight + pool[0]
            pool = [both, (weight * mean + pool[0] * pool[1]) / both, count + pool[2]]
        pools.append(pool)
    settled = (mean for _, mean, count in pools for _ in range(int(count)))
    return [mean + off for mean, off in zip(settled, offsets, strict=True)]


def _wide(place: Slot, width: float) -> float:
    return width if place.group else 0.0


def _left(place: Slot, width: float) -> float:
    return place.at - _wide(place, width) / 2
