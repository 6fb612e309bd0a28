"""A run's graph as text: a list in topological order, or boxes, layer below layer, with the edges between them.

The same graph gives the same text. Of nodes that could come next the one with the lowest id does (Kahn); a node's layer
is the length of the longest way to it; nodes that come after each other in a circle stand in one box.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.event import Graph, Node

WIDEST = 32  # characters of a name
GAP = 2  # columns between boxes

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES = dict(zip(range(1, 16), "│││─┘┐┤─└┌├─┴┬┼", strict=True))

_KIND, _TREE = 2, 6
"""Columns of the list."""

Group = tuple[str, ...]
"""Nodes that stand in one place: as a rule one, else those of a cycle."""


def listed(graph: Graph, columns: int) -> list[str]:
    """A line a node: status, id, kind, agent, outcome, turns, cost, tree, and what it comes directly after."""
    layout = _Layout(graph)
    rows = {name: layout.row(name) for group in layout.order for name in group}
    widths = [max(map(len, column)) for column in zip(*rows.values(), strict=True)]
    for spare in (_TREE, _KIND):  # so that what it comes after is not cut off
        if sum(width + 2 for width in widths if width) > columns + 2:
            widths[spare] = 0
    rule = "─" * 8
    lines = []
    for group in layout.order:
        cells = [zip(rows[name], widths, strict=True) for name in group]
        texts = ["  ".join(text.ljust(width) for text, width in row if width).rstrip() for row in cells]
        lines += [f"{rule} cycle", *texts, rule] if layout.is_cycle(group) else texts
    return [_cut(line, columns) for line in lines]


def drawn(graph: Graph, columns: int) -> list[str]:
    """Boxes in layers, and lines between them; the list if the boxes do not fit, or no lines can be drawn."""
    canvas, rows = _Canvas(), _placed(_Layout(graph), columns)
    if rows and all(_paint(canvas, upper, lower) for upper, lower in zip(rows, [*rows[1:], []], strict=True)):
        return canvas.lines()
    return listed(graph, columns)


def _cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: columns - 3] + "..."


def _shown(text: str) -> str:
    """A node's own text in ASCII, so that every character takes one column."""
    return _cut(safe(text).encode("ascii", "backslashreplace").decode(), WIDEST)


class _Layout:
    """Which nodes come after which, their cycles, their order."""

    def __init__(self, graph: Graph) -> None:
        self.nodes = {node.id: node for node in graph.nodes}
        self._before: dict[str, list[str]] = defaultdict(list)
        after: dict[str, list[str]] = defaultdict(list)
        for source, target in graph.edges:
            after[source].append(target)
            self._before[target].append(source)
        self.group: dict[str, Group] = {}
        for group in _cycles(sorted(self.nodes), after):
            self.group |= dict.fromkeys(group, group)
        self.after: dict[Group, list[Group]] = {
            group: sorted({self.group[name] for one in group for name in after[one]} - {group})
            for group in self.group.values()
        }
        self.layer: dict[Group, int] = {}
        self.order = list(self._sorted())

    def _sorted(self) -> Iterator[Group]:
        waits: dict[Group, int] = dict.fromkeys(self.after, 0)
        for groups in self.after.values():
            for group in groups:
                waits[group] += 1
        ready = [group for group, count in waits.items() if not count]
        heapq.heapify(ready)
        self.layer = dict.fromkeys(waits, 0)
        while ready:
            first = heapq.heappop(ready)
            yield first
            for group in self.after[first]:
                self.layer[group] = max(self.layer[group], self.layer[first] + 1)
                waits[group] -= 1
                if not waits[group]:
                    heapq.heappush(ready, group)

    def is_cycle(self, group: Group) -> bool:
        return len(group) > 1 or group[0] in self._before[group[0]]

    def row(self, name: str) -> tuple[str, ...]:
        """A node's line of the list, by column."""
        node, before = self.nodes[name], self._before[name]
        kind = "" if node.kind == name else _shown(node.kind)
        sources = f"<- {', '.join(map(_shown, sorted(before)))}" if before else ""
        tree = node.after[:7] if node.after.isalnum() and node.after.isascii() else ""
        return (_state(node), _shown(name), kind, *_used(node), tree, sources)

    def texts(self, group: Group) -> list[str]:
        """What stands in the group's box."""
        texts = ["cycle"] if self.is_cycle(group) else []
        for name in group:
            node = self.nodes[name]
            texts += [_shown(name), _state(node), " ".join(filter(None, _used(node)))]
        return [_cut(text, WIDEST) for text in texts if text]


def _state(node: Node) -> str:
    return f"{node.status} {_shown(node.outcome)}".rstrip()


def _used(node: Node) -> tuple[str, str, str]:
    """Agent, turns, cost."""
    turns = counted(len(node.turns), "turn") if node.turns else ""
    return _shown(node.agent), turns, "" if node.usd is None else f"${node.usd:.4f}"


def _cycles(names: Iterable[str], after: Mapping[str, Sequence[str]]) -> Iterator[Group]:
    """The strongly connected groups (Tarjan's algorithm without recursion: a hostile log may nest them deep)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: dict[str, None] = {}
    for root in names:
        work = [] if root in index else [(root, iter(after[root]))]
        while work:
            name, targets = work[-1]
            if name not in index:
                index[name] = low[name] = len(index)
                path[name] = None
            for target in targets:
                if target not in index:
                    work.append((target, iter(after[target])))
                    break
                if target in path:
                    low[name] = min(low[name], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    group: list[str] = []
                    while not group or group[-1] != name:
                        group.append(path.popitem()[0])
                    yield tuple(sorted(group))


@dataclass(slots=True)
class Box:
    """A box in its layer, or, without texts, the place where an edge passes through it. `after`: boxes of the next."""

    texts: list[str] = field(default_factory=list)
    left: int = 0
    width: int = 1
    after: list[Box] = field(default_factory=list)
    order: float = 0.0

    @property
    def middle(self) -> int:
        """The column where lines begin and end."""
        return self.left + self.width // 2

    @property
    def right(self) -> int:
        """The last column."""
        return self.left + self.width - 1


def _placed(layout: _Layout, columns: int) -> list[list[Box]]:
    """The boxes by layer with their places, near to below what they come after; none if they do not fit."""
    passed = (
        max((layout.layer[one] for one in ends), default=0) - layout.layer[at] for at, ends in layout.after.items()
    )
    if sum(passed) > columns * len(layout.order):  # more edges pass by than have room; a hostile log has millions
        return []
    rows: list[list[Box]] = [[] for _ in range(max(layout.layer.values(), default=-1) + 1)]
    boxes = {group: Box(layout.texts(group)) for group in layout.order}
    for group in layout.order:
        rows[layout.layer[group]].append(boxes[group])
    for group in layout.order:
        waypoints = boxes[group]
        passing: dict[int, Box] = {layout.layer[group]: waypoints}
        for target in sorted(layout.after[group], key=lambda one: (layout.layer[one], one)):
            for number in range(layout.layer[group] + 1, layout.layer[target]):
                if number not in passing:
                    passing[number] = Box()
                    rows[number].append(passing[number])
                    passing[number - 1].after.append(passing[number])
            passing[layout.layer[target] - 1].after.append(boxes[target])
    for row in rows:
        widest = max((len(text) for box in row for text in box.texts), default=0)
        height = max(len(box.texts) for box in row)
        for box in row:
            if box.texts:
                box.width = widest + 4
                box.texts += [""] * (height - len(box.texts))
    _align(rows)
    return rows if all(row[-1].right < columns for row in rows) else []


def _align(rows: list[list[Box]]) -> None:
    axis = max((_width(row) for row in rows), default=0) // 2
    for row in rows:
        row.sort(key=lambda box: box.order)
        left = axis - _width(row) // 2
        for box in row:
            box.left = left
            left += box.width + GAP
        below: dict[int, tuple[Box, list[int]]] = {}
        for box in row:
            for target in box.after:
                below.setdefault(id(target), (target, []))[1].append(box.middle)
        for target, places in below.values():
            target.order = sum(places) / len(places)


def _width(row: Sequence[Box]) -> int:
    return sum(box.width for box in row) + GAP * (len(row) - 1)


class _Canvas:
    """Texts and lines by row and column. Lines that cross without meeting show the upright one."""

    def __init__(self) -> None:
        self.height = 0
        self._texts: dict[int, list[tuple[int, str]]] = defaultdict(list)
        self._flat: dict[tuple[int, int], int] = {}
        self._upright: dict[tuple[int, int], int] = {}
        self._meet: set[tuple[int, int]] = set()

    def across(self, row: int, left: int, right: int) -> None:
        """A line from column to column."""
        for column in range(left, right + 1):
            bits = _LEFT * (column > left) | _RIGHT * (column < right)
            self._flat[row, column] = self._flat.get((row, column), 0) | bits

    def down(self, column: int, top: int, bottom: int) -> None:
        """A line from row to row; at its ends it is joined with what it touches."""
        for row in range(top, bottom + 1):
            bits = _UP * (row > top) | _DOWN * (row < bottom)
            self._upright[row, column] = self._upright.get((row, column), 0) | bits
        self._meet |= {(top, column), (bottom, column)}

    def box(self, box: Box, top: int) -> None:
        """A box with its texts; lines begin and end in the middle of its edges."""
        bottom, line, side = top + len(box.texts) + 1, _LINES[_LEFT | _RIGHT], _LINES[_UP | _DOWN]
        for row, left, right in ((top, _DOWN | _RIGHT, _DOWN | _LEFT), (bottom, _UP | _RIGHT, _UP | _LEFT)):
            border = _LINES[left] + line * (box.width - 2) + _LINES[right]
            self._texts[row].append((box.left, border))
            self._flat[row, box.middle] = _LEFT | _RIGHT
        for row, text in enumerate(box.texts, start=top + 1):
            self._texts[row].append((box.left, f"{side} {text.ljust(box.width - 4)} {side}"))

    def lines(self) -> list[str]:
        """Everything, from the top."""
        rows = [
            [" "] * max((left + len(text) for left, text in self._texts[row]), default=0) for row in range(self.height)
        ]
        for row, texts in self._texts.items():
            for left, text in texts:
                rows[row][left : left + len(text)] = text
        for row, column in self._flat.keys() | self._upright.keys():
            flat, upright = self._flat.get((row, column), 0), self._upright.get((row, column), 0)
            bits = upright if upright and (row, column) not in self._meet else flat | upright
            cells = rows[row]
            cells += " " * (column + 1 - len(cells))
            cells[column] = _LINES[bits]
        return ["".join(cells) for cells in rows]


@dataclass(slots=True)
class _Bus:
    """The line of one source to all that come after it, in one row of the channel between two layers."""

    source: int
    targets: list[int]
    track: int = 0

    @property
    def ends(self) -> tuple[int, int]:
        return min(self.source, *self.targets), max(self.source, *self.targets)


def _paint(canvas: _Canvas, upper: list[Box], lower: list[Box]) -> bool:
    """A layer and the channel below it; False if its lines would be ambiguous."""
    height = max(len(box.texts) for box in upper)
    top = canvas.height
    for box in upper:
        if box.texts:
            canvas.box(box, top)
        else:
            canvas.down(box.middle, top, top + height + 1)
    bottom = top + height + 1
    buses = [_Bus(box.middle, [target.middle for target in box.after]) for box in upper if box.after]
    tracks = _tracks([bus for bus in buses if bus.targets != [bus.source]])
    canvas.height = bottom + 1 + (tracks + 1 if lower else 0)
    for bus in buses:
        row = bottom + bus.track
        canvas.down(bus.source, bottom, row)
        if bus.track:
            canvas.across(row, *bus.ends)
        for target in bus.targets:
            canvas.down(target, row, canvas.height)
    return tracks >= 0


def _tracks(buses: list[_Bus]) -> int:
    """Give every bus a row from 1 on; how many there are. -1: there is no order in which no two lines meet wrongly."""
    above = {id(bus): [one for one in buses if one is not bus and one.source in bus.targets] for bus in buses}
    used: list[list[tuple[int, int]]] = []
    waiting = sorted(buses, key=lambda bus: bus.ends)
    while waiting:
        bus = next((one for one in waiting if all(each.track for each in above[id(one)])), None)
        if bus is None:
            return -1
        waiting.remove(bus)
        left, right = bus.ends
        bus.track = 1 + max((each.track for each in above[id(bus)]), default=0)
        while bus.track <= len(used) and any(
            left <= end + 1 and start <= right + 1 for start, end in used[bus.track - 1]
        ):
            bus.track += 1
        used += [[] for _ in range(bus.track - len(used))]
        used[bus.track - 1].append((left, right))
    return len(used)
