"""A run's graph as text: a list in topological order, or boxes, layer below layer, with the edges
between them.

The same graph gives the same text. `layers` says where nodes stand, here and on the report's page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError
from itertools import pairwise

from msgspec import Struct

from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.event import Graph, Node
from vibe_gate.domain.summary import Summary
from vibe_gate.report.layers import (
    MOST_DRAWN,
    Group,
    is_cycle,
    layers_of,
    place_nodes,
    predecessors_of,
    sort_topologically,
)
from vibe_gate.report.node_outcomes import add_outcomes
from vibe_gate.store.run_result import RunResult

WIDEST = 32
"""Characters of a text, if there is no room for all of them."""

MOST_TEXT = 300
"""Characters of a text in any case."""

GAP = 2  # columns between boxes

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES = dict(zip(range(1, 16), "│││─┘┐┤─└┌├─┴┬┼", strict=True))

_KIND, _TREE = 2, 6
"""Columns of the list."""


def graph_of(result: RunResult, summary: Summary | None) -> Graph:
    """The run's graph as it is now, with what its checks and judges answered if it has a `summary`.

    If its process has ended without a seal, nothing in it runs any more.
    """
    graph = result.graph().left() if result.state == "incomplete" else result.graph()
    return add_outcomes(graph, summary) if summary else graph


def list_nodes(graph: Graph, columns: int) -> list[str]:
    """A line a node: status, id, kind, agent, outcome, turns, cost, tree, and what it comes
    directly after.
    """
    lines = _list_lines(graph, columns, MOST_TEXT)
    if any(len(line) > columns for line in lines):
        lines = _list_lines(graph, columns, WIDEST)
    return [_cut(line, columns) for line in lines]


def _list_lines(graph: Graph, columns: int, widest: int) -> list[str]:
    """The lines of the list, with texts of at most so many characters."""
    before = predecessors_of(graph)
    rows = {node.id: _row(node, before[node.id], widest) for node in graph.nodes}
    widths = [max(map(len, column)) for column in zip(*rows.values(), strict=True)]
    for spare in (_TREE, _KIND):  # so that what it comes after is not cut off
        if sum(width + 2 for width in widths if width) > columns + 2:
            widths[spare] = 0
    rule = "─" * 8
    lines = []
    for group in layers_of(before)[0]:
        cells = [zip(rows[name], widths, strict=True) for name in group]
        texts = [
            "  ".join(text.ljust(width) for text, width in row if width).rstrip() for row in cells
        ]
        lines += [f"{rule} cycle", *texts, rule] if is_cycle(group, before) else texts
    return lines


def draw_graph(graph: Graph, columns: int) -> list[str]:
    """Boxes in layers, and lines between them; else a sentence that says why not, and the list."""
    if not graph.nodes:
        return []
    if len(graph.nodes) > MOST_DRAWN:
        reason = f"A list: {len(graph.nodes):,} nodes are too many to draw (at most {MOST_DRAWN})."
        return [reason, "", *list_nodes(graph, columns)]
    rows = _placed(graph, columns, columns - 4) or _placed(graph, columns, WIDEST)
    if not rows:
        return [
            f"A list: boxes would be wider than {columns} columns.",
            "",
            *list_nodes(graph, columns),
        ]
    canvas = _Canvas()
    try:
        for upper, lower in pairwise([*rows, []]):
            _paint(canvas, upper, lower)
    except CycleError:
        return ["A list: some lines between boxes would touch.", "", *list_nodes(graph, columns)]
    return canvas.lines()


def _row(node: Node, before: Collection[str], widest: int) -> tuple[str, ...]:
    """A node's line of the list, by column."""
    kind = "" if node.kind == node.id else _shown(node.kind, widest)
    names = ", ".join(_shown(name, widest) for name in before)
    sources = f"<- {names}" if before else ""
    tree = node.after[:7] if node.after.isalnum() and node.after.isascii() else ""
    return (_state(node), _shown(node.id, widest), kind, *_used(node, widest), tree, sources)


def _state(node: Node) -> str:
    return f"{node.status} {_shown(node.outcome, WIDEST)}".rstrip()


def _used(node: Node, widest: int) -> tuple[str, str, str]:
    """Agent, turns, cost."""
    turns = counted(len(node.turns), "turn") if node.turns else ""
    cost = "" if node.usd is None else f"${node.usd:.4f}"
    return _shown(node.agent, widest), turns, cost


def _cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: columns - 3] + "..."


def _shown(text: str, widest: int) -> str:
    """A node's own text in ASCII, so that every character takes one column."""
    return _cut(safe(text).encode("ascii", "backslashreplace").decode(), widest)


class Box(Struct):
    """A box in its layer, or, without texts, the place where an edge passes through it. `after`:
    boxes of the next.
    """

    texts: list[str] = []
    left: int = 0
    width: int = 1
    after: list[Box] = []

    @property
    def middle(self) -> int:
        """The column where lines begin and end."""
        return self.left + self.width // 2

    @property
    def right(self) -> int:
        """The last column."""
        return self.left + self.width - 1


def _placed(graph: Graph, columns: int, widest: int) -> list[list[Box]]:
    """The boxes by layer with their places; none if they do not fit. `widest`: of a text."""
    before, nodes = predecessors_of(graph), {node.id: node for node in graph.nodes}
    rows = place_nodes(before)
    boxes = {
        id(place): Box(_texts(place.group, nodes, before, widest)) for row in rows for place in row
    }
    for row in rows:
        own = [boxes[id(place)] for place in row]
        widest = max((len(text) for box in own for text in box.texts), default=0)
        height = max(len(box.texts) for box in own)
        for place, box in zip(row, own, strict=True):
            box.after = [boxes[id(target)] for target in place.after]
            if box.texts:
                box.width = widest + 4
                box.texts += [""] * (height - len(box.texts))
    made = [[boxes[id(place)] for place in row] for row in rows]
    _align(made)
    return made if all(row[-1].right < columns for row in made) else []


def _texts(
    group: Group, nodes: Mapping[str, Node], before: Mapping[str, Collection[str]], widest: int
) -> list[str]:
    """What stands in the group's box."""
    texts = ["cycle"] if group and is_cycle(group, before) else []
    for name in group:
        used = " ".join(filter(None, _used(nodes[name], widest)))
        texts += [_shown(name, widest), _state(nodes[name]), used]
    return [_cut(text, widest) for text in texts if text]


def _align(rows: list[list[Box]]) -> None:
    axis = max((_width(row) for row in rows), default=0) // 2
    for row in rows:
        left = axis - _width(row) // 2
        for box in row:
            box.left = left
            left += box.width + GAP


def _width(row: Sequence[Box]) -> int:
    return sum(box.width for box in row) + GAP * (len(row) - 1)


class _Canvas:
    """Texts and lines by row and column. Lines that cross without meeting show the upright one."""

    def __init__(self) -> None:
        self.height = 0
        self._texts: dict[tuple[int, int], str] = {}
        self._flat: dict[tuple[int, int], int] = defaultdict(int)
        self._upright: dict[tuple[int, int], int] = defaultdict(int)
        self._meet: set[tuple[int, int]] = set()

    def across(self, row: int, left: int, right: int) -> None:
        """A line from column to column."""
        for column in range(left, right + 1):
            self._flat[row, column] |= _LEFT * (column > left) | _RIGHT * (column < right)

    def down(self, column: int, top: int, bottom: int) -> None:
        """A line from row to row; at its ends it is joined with what it touches."""
        for row in range(top, bottom + 1):
            self._upright[row, column] |= _UP * (row > top) | _DOWN * (row < bottom)
        self._meet |= {(top, column), (bottom, column)}

    def box(self, box: Box, top: int) -> None:
        """A box with its texts; lines begin and end in the middle of its edges."""
        bottom = top + len(box.texts) + 1
        for row in (top, bottom):
            self.across(row, box.left, box.right)
        for column in (box.left, box.right):
            self.down(column, top, bottom)
        for row, text in enumerate(box.texts, start=top + 1):
            self._texts |= {
                (row, column): char for column, char in enumerate(text, start=box.left + 2)
            }

    def lines(self) -> list[str]:
        """Everything, from the top."""
        cells = dict(self._texts)
        for place in self._flat.keys() | self._upright.keys():
            flat, upright = self._flat[place], self._upright[place]
            cells[place] = _LINES[
                upright if upright and place not in self._meet else flat | upright
            ]
        width = 1 + max((column for _, column in cells), default=0)
        rows = (
            "".join(cells.get((row, column), " ") for column in range(width))
            for row in range(self.height)
        )
        return [row.rstrip() for row in rows]


class _Bus(Struct):
    """The line of one source to all that come after it, in one row of the channel between two
    layers.
    """

    source: int
    targets: list[int]
    track: int = 0

    @property
    def ends(self) -> tuple[int, int]:
        return min(self.source, *self.targets), max(self.source, *self.targets)


def _paint(canvas: _Canvas, upper: list[Box], lower: list[Box]) -> None:
    """A layer and the channel below it. CycleError if its lines would be ambiguous."""
    height = max(len(box.texts) for box in upper)
    top = canvas.height
    bottom = top + height + 1
    for box in upper:
        if box.texts:
            canvas.box(box, top)
        else:
            canvas.down(box.middle, top, bottom)
    buses = [
        _Bus(box.middle, [target.middle for target in box.after]) for box in upper if box.after
    ]
    tracks = _tracks([bus for bus in buses if bus.targets != [bus.source]])
    canvas.height = bottom + 1 + (tracks + 1 if lower else 0)
    for bus in buses:
        row = bottom + bus.track
        canvas.down(bus.source, bottom, row)
        if bus.track:
            canvas.across(row, *bus.ends)
        for target in bus.targets:
            canvas.down(target, row, canvas.height)


def _tracks(buses: list[_Bus]) -> int:
    """Give every bus a row from 1 on; how many there are. CycleError: in each order two lines meet
    wrongly.
    """
    buses.sort(key=lambda bus: bus.ends)
    above = {
        index: [
            other for other, one in enumerate(buses) if one is not bus and one.source in bus.targets
        ]
        for index, bus in enumerate(buses)
    }
    used: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for index in sort_topologically(above):
        left, right = buses[index].ends
        track = 1 + max((buses[other].track for other in above[index]), default=0)
        while any(left <= end + 1 and start <= right + 1 for start, end in used[track]):
            track += 1
        used[track].append((left, right))
        buses[index].track = track
    return max(used, default=0)
