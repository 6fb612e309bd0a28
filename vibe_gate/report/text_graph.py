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
"""Columns of the list that are left out first if it is too wide."""

_RULE = "─" * 8
"""Around the lines of a cycle."""


def graph_of(result: RunResult, summary: Summary | None) -> Graph:
    """The run's graph as it is now, with what its checks and judges answered if it has a `summary`.

    If its process has ended without a seal, nothing in it runs any more.
    """
    graph = result.graph()
    if result.state == "incomplete":
        graph = graph.broken_off()
    if summary:
        return add_outcomes(graph, summary)
    return graph


def list_nodes(graph: Graph, columns: int) -> list[str]:
    """A line a node: status, id, kind, agent, outcome, turns, cost, tree, and what it comes
    directly after.
    """
    lines = _list_lines(graph, columns, MOST_TEXT)
    if any(len(line) > columns for line in lines):
        lines = _list_lines(graph, columns, WIDEST)
    return [_cut_text(line, columns) for line in lines]


def _list_lines(graph: Graph, columns: int, widest: int) -> list[str]:
    """The lines of the list, with texts of at most so many characters."""
    before = predecessors_of(graph)
    rows = {node.id: _list_cells(node, before[node.id], widest) for node in graph.nodes}
    widths = [max(map(len, column)) for column in zip(*rows.values(), strict=True)]
    for spare in (_TREE, _KIND):  # so that what it comes after is not cut off
        used_columns = sum(width + 2 for width in widths if width)
        if used_columns > columns + 2:
            widths[spare] = 0
    lines = []
    for group in layers_of(before)[0]:
        group_lines = [_list_line(rows[name], widths) for name in group]
        if is_cycle(group, before):
            lines += [f"{_RULE} cycle", *group_lines, _RULE]
        else:
            lines += group_lines
    return lines


def _list_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The cells below each other's; a column without width is left out."""
    columns = []
    for cell, width in zip(cells, widths, strict=True):
        if width:
            columns.append(cell.ljust(width))
    return "  ".join(columns).rstrip()


def draw_graph(graph: Graph, columns: int) -> list[str]:
    """Boxes in layers, and lines between them; else a sentence that says why not, and the list."""
    if not graph.nodes:
        return []
    if len(graph.nodes) > MOST_DRAWN:
        reason = f"A list: {len(graph.nodes):,} nodes are too many to draw (at most {MOST_DRAWN})."
        return [reason, "", *list_nodes(graph, columns)]
    layers = _box_layers(graph, columns, columns - 4) or _box_layers(graph, columns, WIDEST)
    if not layers:
        reason = f"A list: boxes would be wider than {columns} columns."
        return [reason, "", *list_nodes(graph, columns)]
    canvas = _Canvas()
    try:
        for upper, lower in pairwise([*layers, []]):
            _draw_layer(canvas, upper, lower)
    except CycleError:
        return ["A list: some lines between boxes would touch.", "", *list_nodes(graph, columns)]
    return canvas.lines()


def _list_cells(node: Node, before: Collection[str], widest: int) -> tuple[str, ...]:
    """A node's line of the list, by column."""
    kind = "" if node.kind == node.id else _ascii_text(node.kind, widest)
    sources = ", ".join(_ascii_text(name, widest) for name in before)
    if sources:
        sources = f"<- {sources}"
    is_tree_id = node.after.isalnum() and node.after.isascii()
    return (
        _status_and_outcome(node),
        _ascii_text(node.id, widest),
        kind,
        *_agent_turns_cost(node, widest),
        node.after[:7] if is_tree_id else "",
        sources,
    )


def _status_and_outcome(node: Node) -> str:
    return f"{node.status} {_ascii_text(node.outcome, WIDEST)}".rstrip()


def _agent_turns_cost(node: Node, widest: int) -> tuple[str, str, str]:
    turns = counted(len(node.turns), "turn") if node.turns else ""
    cost = "" if node.usd is None else f"${node.usd:.4f}"
    return _ascii_text(node.agent, widest), turns, cost


def _cut_text(text: str, columns: int) -> str:
    if len(text) <= columns:
        return text
    return text[: columns - 3] + "..."


def _ascii_text(text: str, widest: int) -> str:
    """A node's own text in ASCII, so that every character takes one column."""
    return _cut_text(safe(text).encode("ascii", "backslashreplace").decode(), widest)


class Box(Struct):
    """A box in its layer, or, without texts, the place where an edge passes through it."""

    texts: list[str] = []
    first_column: int = 0
    width: int = 1
    after: list[Box] = []
    """Boxes of the next layer that come after it."""

    @property
    def middle(self) -> int:
        """The column where lines begin and end."""
        return self.first_column + self.width // 2

    @property
    def last_column(self) -> int:
        """The column of its right edge."""
        return self.first_column + self.width - 1


def _box_layers(graph: Graph, columns: int, widest: int) -> list[list[Box]]:
    """The boxes by layer with their places; none if they do not fit. `widest`: of a text."""
    before = predecessors_of(graph)
    nodes = {node.id: node for node in graph.nodes}
    slot_layers = place_nodes(before)
    boxes: dict[int, Box] = {}
    for slots in slot_layers:
        for slot in slots:
            boxes[id(slot)] = Box(_box_texts(slot.group, nodes, before, widest))
    layers = []
    for slots in slot_layers:
        layer = []
        for slot in slots:
            box = boxes[id(slot)]
            box.after = [boxes[id(target)] for target in slot.after]
            layer.append(box)
        _make_equal(layer)
        layers.append(layer)
    _align(layers)
    fits = all(layer[-1].last_column < columns for layer in layers)
    return layers if fits else []


def _box_texts(
    group: Group, nodes: Mapping[str, Node], before: Mapping[str, Collection[str]], widest: int
) -> list[str]:
    """What stands in the group's box."""
    texts = ["cycle"] if group and is_cycle(group, before) else []
    for name in group:
        node = nodes[name]
        figures = " ".join(filter(None, _agent_turns_cost(node, widest)))
        texts += [_ascii_text(name, widest), _status_and_outcome(node), figures]
    return [_cut_text(text, widest) for text in texts if text]


def _make_equal(layer: list[Box]) -> None:
    """Give the boxes of a layer one width and one height."""
    height = max(len(box.texts) for box in layer)
    widths = [max(map(len, box.texts), default=0) for box in layer]
    for box in layer:
        if box.texts:
            box.width = max(widths) + 4
            box.texts += [""] * (height - len(box.texts))


def _align(layers: list[list[Box]]) -> None:
    """Put the boxes side by side, and the middles of layers below each other."""
    axis = max(map(_layer_width, layers), default=0) // 2
    for layer in layers:
        column = axis - _layer_width(layer) // 2
        for box in layer:
            box.first_column = column
            column += box.width + GAP


def _layer_width(layer: Sequence[Box]) -> int:
    widths = sum(box.width for box in layer)
    return widths + GAP * (len(layer) - 1)


class _Canvas:
    """Texts and lines by row and column. Lines that cross without meeting show the upright one."""

    def __init__(self) -> None:
        self.height = 0
        self._texts: dict[tuple[int, int], str] = {}
        self._flat: dict[tuple[int, int], int] = defaultdict(int)
        """Where lines from column to column lead from each place: `_LEFT`, `_RIGHT`, both."""
        self._upright: dict[tuple[int, int], int] = defaultdict(int)
        """Where lines from row to row lead from each place: `_UP`, `_DOWN`, both."""
        self._meeting_places: set[tuple[int, int]] = set()

    def across(self, row: int, start: int, end: int) -> None:
        """A line from column to column."""
        for column in range(start, end + 1):
            self._flat[row, column] |= _LEFT * (column > start) | _RIGHT * (column < end)

    def down(self, column: int, top: int, bottom: int) -> None:
        """A line from row to row; at its ends it is joined with what it touches."""
        for row in range(top, bottom + 1):
            self._upright[row, column] |= _UP * (row > top) | _DOWN * (row < bottom)
        self._meeting_places |= {(top, column), (bottom, column)}

    def box(self, box: Box, top: int) -> None:
        """A box with its texts; lines begin and end in the middle of its edges."""
        bottom = top + len(box.texts) + 1
        for row in (top, bottom):
            self.across(row, box.first_column, box.last_column)
        for column in (box.first_column, box.last_column):
            self.down(column, top, bottom)
        for row, text in enumerate(box.texts, start=top + 1):
            for column, char in enumerate(text, start=box.first_column + 2):
                self._texts[row, column] = char

    def lines(self) -> list[str]:
        """Everything, from the top."""
        cells = dict(self._texts)
        for place in self._flat.keys() | self._upright.keys():
            cells[place] = self._line_at(place)
        width = 1 + max((column for _, column in cells), default=0)
        lines = []
        for row in range(self.height):
            chars = [cells.get((row, column), " ") for column in range(width)]
            lines.append("".join(chars).rstrip())
        return lines

    def _line_at(self, place: tuple[int, int]) -> str:
        """The character of the lines at the place."""
        flat, upright = self._flat[place], self._upright[place]
        if upright and place not in self._meeting_places:
            return _LINES[upright]
        return _LINES[flat | upright]


class _Bus(Struct):
    """The line of one source to all that come after it, in one row of the channel between two
    layers.
    """

    source: int
    """Its column."""
    targets: list[int]
    """Their columns."""
    track: int = 0
    """The row of the channel, from 1 on; 0 of a line straight down."""

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last column."""
        return min(self.source, *self.targets), max(self.source, *self.targets)


def _draw_layer(canvas: _Canvas, upper: list[Box], lower: list[Box]) -> None:
    """A layer and the channel below it. CycleError if its lines would be ambiguous."""
    height = max(len(box.texts) for box in upper)
    top = canvas.height
    bottom = top + height + 1
    for box in upper:
        if box.texts:
            canvas.box(box, top)
        else:
            canvas.down(box.middle, top, bottom)
    buses = []
    for box in upper:
        if box.after:
            buses.append(_Bus(box.middle, [target.middle for target in box.after]))
    tracks = _set_tracks([bus for bus in buses if bus.targets != [bus.source]])
    canvas.height = bottom + 1
    if lower:
        canvas.height += tracks + 1
    for bus in buses:
        row = bottom + bus.track
        canvas.down(bus.source, bottom, row)
        if bus.track:
            canvas.across(row, *bus.ends)
        for target in bus.targets:
            canvas.down(target, row, canvas.height)


def _set_tracks(buses: list[_Bus]) -> int:
    """Give every bus a row from 1 on; how many there are. CycleError: in each order two lines meet
    wrongly.
    """
    buses.sort(key=lambda bus: bus.ends)
    buses_above = {index: _buses_above(bus, buses) for index, bus in enumerate(buses)}
    taken: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for index in sort_topologically(buses_above):
        bus = buses[index]
        tracks_above = (buses[other].track for other in buses_above[index])
        track = 1 + max(tracks_above, default=0)
        while any(_touch(bus.ends, ends) for ends in taken[track]):
            track += 1
        taken[track].append(bus.ends)
        bus.track = track
    return max(taken, default=0)


def _touch(ends: tuple[int, int], other_ends: tuple[int, int]) -> bool:
    """Whether lines with these ends in one row have no column between them."""
    return ends[0] <= other_ends[1] + 1 and other_ends[0] <= ends[1] + 1


def _buses_above(bus: _Bus, buses: list[_Bus]) -> list[int]:
    """The indexes of those that begin where one of its lines ends: these must turn off first."""
    indexes = []
    for index, other in enumerate(buses):
        if other is not bus and other.source in bus.targets:
            indexes.append(index)
    return indexes
