"""A run's graph as an SVG picture, drawn as `vibe-gate viz` draws it."""

from __future__ import annotations

from collections.abc import Callable

from vibe_gate.domain.event import Graph, Node
from vibe_gate.report import graph as drawing
from vibe_gate.report.html.markup import Html, block, tag

ACROSS, DOWN = 8, 18
"""Pixels of a column and a row."""

WIDEST = 400
"""Columns of a picture; a wider graph is listed."""


def picture(graph: Graph, link: Callable[[Node], str]) -> Html:
    """The graph; each box of a node is a link to what `link` gives ("": none)."""
    canvas = _Picture({node.id: node for node in graph.nodes}, link)
    if not drawing.paint(graph, canvas, WIDEST):
        return block("\n".join(drawing.listed(graph, WIDEST)), class_="graph")
    width, height = canvas.width * ACROSS, canvas.height * DOWN
    size = {"viewBox": f"0 0 {width} {height}", "width": str(width), "height": str(height)}
    return tag("svg", *canvas.lines, *canvas.boxes, class_="graph", role="group", aria_label="graph of the run", **size)


class _Picture:
    """Lines first, boxes above them."""

    def __init__(self, nodes: dict[str, Node], link: Callable[[Node], str]) -> None:
        self.height = self.width = 0
        self.lines: list[Html] = []
        self.boxes: list[Html] = []
        self._nodes = nodes
        self._link = link

    def across(self, row: int, left: int, right: int) -> None:
        self.lines.append(tag("path", d=f"M{_x(left)} {_y(row)}H{_x(right)}"))

    def down(self, column: int, top: int, bottom: int) -> None:
        self.lines.append(tag("path", d=f"M{_x(column)} {_y(top)}V{_y(bottom)}"))

    def box(self, box: drawing.Box, top: int) -> None:
        self.width = max(self.width, box.right + 1)
        node = self._nodes[box.group[0]]
        height = (len(box.texts) + 1) * DOWN
        width = (box.width - 1) * ACROSS
        frame = tag("rect", x=_x(box.left), y=_y(top), width=width, height=height, rx=4)
        texts = [
            tag("text", text, x=_x(box.left) + width // 2, y=_y(top + row) + DOWN // 4, text_anchor="middle")
            for row, text in enumerate(box.texts, start=1)
        ]
        kind = f"node {node.outcome or node.status.lower()}"
        target = self._link(node) if len(box.group) == 1 else ""
        made = tag("g", frame, *texts, class_=kind)
        self.boxes.append(tag("a", made, href=target) if target else made)


def _x(column: int) -> int:
    return column * ACROSS + ACROSS // 2


def _y(row: int) -> int:
    return row * DOWN + DOWN // 2
