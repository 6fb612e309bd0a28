"""A graph as a picture: boxes in layers, and edges between them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from vibe_gate.domain.escape import safe
from vibe_gate.domain.event import Graph
from vibe_gate.report.layers import Slot, place_nodes, predecessors_of, spread_slots
from vibe_gate.report.markup import (
    Html,
    join_html,
    tag,
)
from vibe_gate.report.svg import add_title, coordinate, cut_middle, cut_text

WIDTH = 216
"""Of a box, at least."""

LINE = 17
"""From one line of a box to the next."""

BETWEEN = 22
"""Room between boxes of a layer."""

BELOW = 46
"""Room between layers."""

EDGE = 12
"""Room around all."""

WIDEST = 480
"""Of a box whose texts need more, while as many as stand side by side fit the page."""

PAGE = 980
"""The usual width of a page."""

INSIDE = 26
"""Of a box's width: left and right of its texts."""

NAME_CHAR = 7.6
"""What a character of a box's first line is wide."""

LINE_CHAR = 6.15
"""What a character of its other lines is wide."""

PAPER = 1_600
"""A picture that is wider is printed without small text, which could not be read."""

IN_A_ROW = 5
"""Boxes side by side that no edge joins; so many can be read in a page of usual width."""


class NodeBox(Struct, frozen=True):
    """What stands in a box."""

    name: str
    lines: tuple[str, ...]
    """Below the name."""
    style: str
    """An outcome's."""
    link: str
    """Where a click leads."""
    title: str
    links: tuple[tuple[str, str], ...] = ()
    """Texts with their links, in a line below the others."""
    is_fold: bool = False


class _Layout(Struct, frozen=True):
    """Where boxes stand: in rows, at their middles."""

    rows: Sequence[Sequence[Slot]]
    tops: Sequence[float]
    """Of each row."""
    bottom: float
    """Below the last row."""
    box_width: float
    box_height: float


def draw_layout(graph: Graph, boxes: Mapping[str, NodeBox], critical: Sequence[str]) -> Html:
    """A graph of at most MOST_DRAWN nodes drawn; `critical` are those that the run's end waited
    for, in order.
    """
    rows = place_nodes(predecessors_of(graph))
    if len(rows) == 1:  # nothing is joined: side by side they would be a line that nobody reads
        slots = rows[0]
        rows = [slots[start : start + IN_A_ROW] for start in range(0, len(slots), IN_A_ROW)]
    box_width = _box_width(boxes.values(), max(map(len, rows)))
    width = spread_slots(rows, box_width, BETWEEN)
    layout = _set_tops(rows, box_width, _box_height(boxes.values()))
    waited_steps = _waited_steps(rows, critical)
    shapes = [*_draw_edges(layout, boxes, waited_steps)]
    shapes += _draw_boxes(layout, boxes, set(critical))
    width += 2 * EDGE
    height = layout.bottom + 2 * EDGE
    return tag(
        "svg",
        *shapes,
        viewBox=f"{-EDGE} {-EDGE} {coordinate(width)} {coordinate(height)}",
        width=coordinate(width),
        height=coordinate(height),
        class_="picture nodes broad" if width > PAPER else "picture nodes",
        aria_hidden="true",
    )


def _box_height(boxes: Collection[NodeBox]) -> float:
    """As high as the box with most lines, and room for what shows that one opens."""
    lines = max(len(box.lines) + bool(box.links) for box in boxes)
    height = LINE * (lines + 1) + 12
    if any(box.is_fold for box in boxes):
        return height + 6
    return height


def _set_tops(rows: Sequence[Sequence[Slot]], box_width: float, box_height: float) -> _Layout:
    """The rows one below the other."""
    tops = []
    top = 0.0
    for row in rows:
        tops.append(top)
        most_boxes = max(len(slot.group) or 1 for slot in row)
        top += box_height * most_boxes + BELOW
    return _Layout(rows, tops, top - BELOW, box_width, box_height)


def _waited_steps(rows: Sequence[Sequence[Slot]], critical: Sequence[str]) -> set[tuple[int, int]]:
    """The steps from slot to slot, by their ids, that the edges of the critical path take."""
    slots: dict[str, Slot] = {}
    for row in rows:
        for slot in row:
            slots |= dict.fromkeys(slot.group, slot)
    steps: set[tuple[int, int]] = set()
    for source, target in pairwise(critical):
        if slots[source] is not slots[target]:
            steps |= _steps_between(slots[source], slots[target])
    return steps


def _steps_between(start: Slot, end: Slot) -> set[tuple[int, int]]:
    """The steps of one edge: the slots between have no group, and one slot before them."""
    steps: set[tuple[int, int]] = set()
    below = end
    while below is not start:
        above = next((slot for slot in below.before if _leads_from(start, slot)), None)
        if above is None:
            return set()
        steps.add((id(above), id(below)))
        below = above
    return steps


def _leads_from(start: Slot, slot: Slot) -> bool:
    """Whether it is the start, or a slot through which an edge of the start passes."""
    if slot is start:
        return True
    return not slot.group and _first_slot(slot) is start


def _first_slot(slot: Slot) -> Slot:
    """Where the edge begins that passes through the slot."""
    while not slot.group:
        slot = slot.before[0]
    return slot


def _draw_edges(
    layout: _Layout, boxes: Mapping[str, NodeBox], waited_steps: Collection[tuple[int, int]]
) -> Iterator[Html]:
    """Lines from slot to slot, those of the critical path above the others; of each style one
    element has all.
    """
    skipped = {name for name, box in boxes.items() if box.style == "skipped"}
    styles = ("edge", "edge skip", "head", "edge critical", "head critical")
    paths: dict[str, list[str]] = {style: [] for style in styles}
    layer_pairs = zip(pairwise(layout.rows), pairwise(layout.tops), strict=True)
    for (upper, lower), (top, below) in layer_pairs:
        for slot in upper:
            start = top + layout.box_height * len(slot.group)
            for target in slot.after:
                style = _edge_style(slot, target, skipped, waited_steps)
                paths[style].append(_edge_path(slot.middle, start, target.middle, below))
        for target in lower:
            if not target.group or not target.before:
                continue
            style, width = "head", 8
            if any((id(source), id(target)) in waited_steps for source in target.before):
                style, width = "head critical", 12
            paths[style].append(_head_path(target.middle, below, width))
    for style, style_paths in paths.items():
        if style_paths:
            yield tag("path", d="".join(style_paths), class_=style)


def _edge_style(
    slot: Slot,
    target: Slot,
    skipped: Collection[str],
    waited_steps: Collection[tuple[int, int]],
) -> str:
    """The class of a line: the run's end waited for the step, or a node of it did not run."""
    if (id(slot), id(target)) in waited_steps:
        return "edge critical"
    if any(name in skipped for name in (*slot.group, *target.group)):
        return "edge skip"
    return "edge"


def _draw_boxes(
    layout: _Layout, boxes: Mapping[str, NodeBox], critical: Collection[str]
) -> Iterator[Html]:
    width, height = layout.box_width, layout.box_height
    for row, top in zip(layout.rows, layout.tops, strict=True):
        for slot in row:
            x = slot.middle - width / 2
            if len(slot.group) > 1:
                frame_height = height * len(slot.group) + 6
                yield _rect(x - 6, top - 3, width + 12, frame_height, radius=8, style="circle")
            for number, name in enumerate(slot.group):
                y = top + number * height
                style = None
                if name in critical:
                    style = "critical"
                yield tag(
                    "svg",
                    *_box_shapes(boxes[name], width, height),
                    x=coordinate(x),
                    y=coordinate(y),
                    width=coordinate(width),
                    height=coordinate(height),
                    class_=style,
                )


def _rect(x: float, y: float, width: float, height: float, *, radius: float, style: str) -> Html:
    numbers = {"x": x, "y": y, "width": width, "height": height}
    attributes = {name: coordinate(number) for name, number in numbers.items()}
    return tag("rect", **attributes, rx=radius, class_=style)


def _edge_path(x: float, start: float, target_x: float, below: float) -> str:
    """A line down from `start` and then a curve to the target, whose top is at `below`."""
    bottom, middle = below - BELOW, below - BELOW / 2
    down = f"M{coordinate(x)} {coordinate(start)}V{coordinate(bottom)}"
    points = [_point(x, middle), _point(target_x, middle), _point(target_x, below)]
    return f"{down}C{' '.join(points)}"


def _point(x: float, y: float) -> str:
    return f"{coordinate(x)} {coordinate(y)}"


def _head_path(x: float, below: float, width: int) -> str:
    """The head of an arrow, whose point is at `below`."""
    start = f"M{coordinate(x - width / 2)} {coordinate(below - width)}"
    return f"{start}h{width}l{coordinate(-width / 2)} {width - 1}z"


def _box_width(boxes: Iterable[NodeBox], side_by_side: int) -> float:
    """As wide as the longest text needs, while the boxes of the fullest layer fit the page."""
    needed = 0.0
    for box in boxes:
        needed = max(needed, _text_width(box.name, NAME_CHAR) + INSIDE)
        for line in box.lines:
            needed = max(needed, _text_width(line, LINE_CHAR) + INSIDE)
    room = (PAGE + BETWEEN) / max(side_by_side, 1) - BETWEEN
    return float(round(max(WIDTH, min(needed, room, WIDEST))))


def _text_width(text: str, char_width: float) -> float:
    return len(safe(text[:WIDEST])) * char_width


def _box_shapes(box: NodeBox, width: float, height: float) -> list[Html]:
    """A box of that width and height; the title has what is cut."""
    shapes = [*_box_frame(box, width, height)]
    name = cut_middle(box.name, round((width - INSIDE) / NAME_CHAR))
    shapes.append(tag("text", name, x=17, y=18, class_="name"))
    for number, line in enumerate(box.lines, start=1):
        if line:
            text = cut_text(line, round((width - INSIDE) / LINE_CHAR))
            shapes.append(tag("text", text, x=17, y=18 + LINE * number))
    return [add_title(join_html(shapes), box.title, box.link), *_box_links(box)]


def _box_frame(box: NodeBox, width: float, height: float) -> Iterator[Html]:
    """The box with the colour of its outcome at the left; one that opens has a second box behind
    it.
    """
    room = 0
    if box.is_fold:
        room = 6
        yield _rect(7, 7, width - 9, height - 9, radius=6, style="box")
    yield _rect(1.5, 1.5, width - 3 - room, height - 3 - room, radius=6, style="box")
    yield _rect(5, 5, 6, height - 10 - room, radius=3, style=box.style)


def _box_links(box: NodeBox) -> Iterator[Html]:
    """The box's links, side by side below its lines."""
    x, y = 17.0, 18 + LINE * (len(box.lines) + 1)
    for text, link in box.links:
        link_shape = tag("text", text, x=coordinate(x), y=y, class_="to")
        yield tag("a", link_shape, href=link, tabindex=-1)
        x += 7 * len(text) + 12
