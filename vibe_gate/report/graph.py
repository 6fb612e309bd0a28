"""A run's graph as text: a list in topological order, or boxes, layer below layer; both name what each comes after.

The same graph gives the same text. Of nodes that could come next the one with the lowest id does (Kahn); a node's layer
is the length of the longest way to it; nodes that come after each other in a circle stand in one box.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from graphlib import TopologicalSorter

from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.event import Graph, Node

WIDEST = 32  # characters of a name
GAP = 2  # columns between boxes

_KIND, _TREE = 2, 6
"""Columns of the list."""

Group = tuple[str, ...]
"""Nodes that stand in one place: as a rule one, else those of a cycle."""


def listed(graph: Graph, columns: int) -> list[str]:
    """A line a node: status, id, kind, agent, outcome, turns, cost, tree, and what it comes directly after."""
    before = _before(graph)
    rows = {node.id: _row(node, before[node.id]) for node in graph.nodes}
    widths = [max(map(len, column)) for column in zip(*rows.values(), strict=True)]
    for spare in (_TREE, _KIND):  # so that what it comes after is not cut off
        if sum(width + 2 for width in widths if width) > columns + 2:
            widths[spare] = 0
    rule = "─" * 8
    lines = []
    for group in _layers(before):
        cells = [zip(rows[name], widths, strict=True) for name in group]
        texts = ["  ".join(text.ljust(width) for text, width in row if width).rstrip() for row in cells]
        lines += [f"{rule} cycle", *texts, rule] if _is_cycle(group, before) else texts
    return [_cut(line, columns) for line in lines]


def drawn(graph: Graph, columns: int) -> list[str]:
    """Boxes in layers; the list if a layer is too wide."""
    before, nodes = _before(graph), {node.id: node for node in graph.nodes}
    layers: dict[int, list[list[str]]] = defaultdict(list)
    for group, layer in _layers(before).items():
        texts, inside = ["cycle"] if _is_cycle(group, before) else [], set(group)
        for name in group:
            texts += [_shown(name), _state(nodes[name]), " ".join(filter(None, _used(nodes[name])))]
        texts.append(_after(name for one in group for name in before[one] if name not in inside))
        layers[layer].append([_cut(text, WIDEST) for text in texts if text])
    lines = [line for layer in sorted(layers) for line in _boxes(layers[layer])]
    return lines if all(len(line) <= columns for line in lines) else listed(graph, columns)


def _boxes(boxes: list[list[str]]) -> list[str]:
    """The texts of a layer's boxes in frames, side by side."""
    height = max(map(len, boxes))
    framed = []
    for texts in boxes:
        width = max(map(len, texts))
        rows = [f"│ {text.ljust(width)} │" for text in texts + [""] * (height - len(texts))]
        framed.append([f"┌{'─' * (width + 2)}┐", *rows, f"└{'─' * (width + 2)}┘"])
    return [(" " * GAP).join(row) for row in zip(*framed, strict=True)]


def _before(graph: Graph) -> dict[str, list[str]]:
    """What each node comes directly after."""
    before: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for source, target in sorted(graph.edges):
        before[target].append(source)
    return before


def _layers(before: Mapping[str, Collection[str]]) -> dict[Group, int]:
    """The groups in topological order, each with its layer."""
    group = _groups(before)
    sources = {one: {group[name] for each in one for name in before[each]} - {one} for one in set(group.values())}
    sorter = TopologicalSorter(sources)
    sorter.prepare()
    layers: dict[Group, int] = {}
    ready: list[Group] = []
    while sorter.is_active():
        for one in sorter.get_ready():
            heapq.heappush(ready, one)
        first = heapq.heappop(ready)
        layers[first] = 1 + max((layers[one] for one in sources[first]), default=-1)
        sorter.done(first)
    return layers


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


def _is_cycle(group: Group, before: Mapping[str, Collection[str]]) -> bool:
    return len(group) > 1 or group[0] in before[group[0]]


def _row(node: Node, before: Iterable[str]) -> tuple[str, ...]:
    """A node's line of the list, by column."""
    kind = "" if node.kind == node.id else _shown(node.kind)
    tree = node.after[:7] if node.after.isalnum() and node.after.isascii() else ""
    return (_state(node), _shown(node.id), kind, *_used(node), tree, _after(before))


def _after(names: Iterable[str]) -> str:
    sources = ", ".join(map(_shown, names))
    return f"<- {sources}" if sources else ""


def _state(node: Node) -> str:
    return f"{node.status} {_shown(node.outcome)}".rstrip()


def _used(node: Node) -> tuple[str, str, str]:
    """Agent, turns, cost."""
    turns = counted(len(node.turns), "turn") if node.turns else ""
    return _shown(node.agent), turns, "" if node.usd is None else f"${node.usd:.4f}"


def _cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: columns - 3] + "..."


def _shown(text: str) -> str:
    """A node's own text in ASCII, so that every character takes one column."""
    return _cut(safe(text).encode("ascii", "backslashreplace").decode(), WIDEST)
