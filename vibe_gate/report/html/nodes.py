"""The graph of a run as a picture, with its list: what each node came to, and what the run's end
waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from textwrap import wrap

from msgspec import Struct

from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.event import Graph
from vibe_gate.report.folds import OWNED, Fold, fold_graph, graph_inside, is_foldable
from vibe_gate.report.html.addresses import (
    file_link,
    finding_element_id,
    fold_element_id,
    link_to_element,
    node_element_id,
    place_link,
    round_element_id,
)
from vibe_gate.report.html.stage_figures import (
    Stage,
    find_critical_path,
    format_line_counts,
    format_seconds,
    format_stage_dollars,
    long_wait,
    span_of_stages,
    time_taken,
)
from vibe_gate.report.html.view import View
from vibe_gate.report.layers import MOST_DRAWN, Slot, place_nodes, predecessors_of, spread_slots
from vibe_gate.report.markup import Html, join_html, render_html_table, table_row, tag
from vibe_gate.report.outcome_words import outcome_rank, outcome_style
from vibe_gate.report.svg import Series, add_title, coordinate, cut_middle, cut_text, draw_legend

WIDTH, LINE, BETWEEN, BELOW, EDGE = 216, 17, 22, 46, 12
"""Of a box and of a line of it; what is left between boxes, between layers, and around all."""

WIDEST, PAGE = 480, 980
"""Of a box whose texts need more, while as many as stand side by side fit a page of usual width."""

INSIDE = 26
"""Of a box's width: left and right of its texts."""

NAME_CHAR, LINE_CHAR = 7.6, 6.15
"""What a character of a box's first line is wide, and one of the others."""

PAPER = 1_600
"""A picture that is wider is printed without small text, which could not be read."""

LINE_CHARS = 31
"""Characters of a line of a box that is broken between words."""

IN_A_ROW = 5
"""Boxes side by side that no edge joins; so many can be read in a page of usual width."""

FEW_FOLDS = 3
"""Folds below a picture that stand there one by one."""

MOST_LINKS = 20
"""Findings and changed files of a node that its line in the list names."""

LEAST_WAITED = 0.02
"""Of the time that all nodes took; the critical path does not name a shorter wait."""

KEYS = (
    Series("pass", "pass"),
    Series("warning: failed, and its rubric passed", "s3"),
    Series("fail", "fail"),
    Series("inconclusive", "inconclusive"),
    Series("error, incomplete, cancelled", "error"),
    Series("done", "done"),
    Series("running", "s6"),
    Series("unchanged, nothing reviewed, not begun", "s7"),
    Series("skipped", "skipped"),
    Series("waited for by the run's end", "waited"),
    Series("opens", "opens"),
)
"""What colours and borders of boxes stand for."""


class NodeBox(Struct, frozen=True):
    """What stands in a box: `told` below the name; `style` is an outcome's; `link` where a click
    leads.
    """

    name: str
    told: tuple[str, ...]
    style: str
    link: str
    title: str
    links: tuple[tuple[str, str], ...] = ()
    is_fold: bool = False


def render_graph_section(view: View, known: Mapping[str, Stage]) -> Iterator[Html]:
    """The picture, if the graph is not too large, its folds, and the list."""
    critical = find_critical_path(view.graph, view.times)
    yield _told(view, known, critical)
    has_picture = False
    if is_foldable(view.graph):
        small, folds = fold_graph(view.graph)
        has_picture = 0 < len(small.nodes) <= MOST_DRAWN
        if has_picture:
            yield from _pictures(view.graph, small, folds, known, critical)
    if view.graph.nodes and not has_picture:
        yield tag(
            "p", f"Too many to draw: a picture has at most {MOST_DRAWN} boxes.", class_="none"
        )
    heads = (
        "Node",
        "Outcome",
        "Agent",
        "Turns",
        "Cost",
        "Time",
        "Waited to start",
        "After",
        "Findings",
        "Changed",
    )
    before = predecessors_of(view.graph)
    lines = [
        _line(known[node.id], before[node.id], node.id in critical) for node in view.graph.nodes
    ]
    nodes = render_html_table(heads, lines, class_="figures nodes")
    yield tag(
        "details", tag("summary", "All nodes as a list"), nodes, open=None if has_picture else ""
    )


def _told(view: View, known: Mapping[str, Stage], critical: Sequence[str]) -> Html:
    size = counted(len(view.graph.nodes), "node")
    if not critical:
        return tag("p", f"{size}.", class_="none")
    begun, ended = span_of_stages(view.times.values())
    least = (ended - begun) / 1000 * LEAST_WAITED
    way = [part for name in critical for part in (" → ", *_step(known[name], least))][1:]
    return tag(
        "p",
        f"{size}. The run's end waited for ",
        *way,
        f": {time_taken(view)}.",
        class_="none critical-path",
    )


def _step(stage: Stage, least: float) -> Iterator[Html | str]:
    """A node of the critical path; `least`: seconds of waiting that are worth telling."""
    yield tag("a", stage.node.id, href=link_to_element(node_element_id(stage.node.id)))
    if stage.waited >= least and (wait := long_wait(stage)):
        yield f" ({wait})"


def _pictures(
    whole: Graph,
    small: Graph,
    folds: Sequence[Fold],
    known: Mapping[str, Stage],
    critical: Sequence[str],
) -> Iterator[Html]:
    """The legend, the graph with its folds closed, and below it what they open."""
    styles = {outcome_style(known[node.id].outcome) for node in whole.nodes}
    styles |= {"waited"} if critical else set()
    styles |= {"opens"} if folds else set()
    yield draw_legend(key for key in KEYS if key.style in styles)
    yield _picture(small, folds, known, critical)
    opened = [_fold(whole, fold, known, critical) for fold in folds]
    if len(opened) > FEW_FOLDS:
        yield tag(
            "details", tag("summary", f"{len(opened):,} boxes that open"), *opened, class_="folds"
        )
    else:
        yield from opened


def _fold(whole: Graph, fold: Fold, known: Mapping[str, Stage], critical: Sequence[str]) -> Html:
    """What a fold opens: a picture of its nodes, with folds of its own, or where they are
    listed.
    """
    small, folds = fold_graph(graph_inside(whole, fold), within=fold.kind)
    if len(small.nodes) > MOST_DRAWN:
        contents = [
            tag(
                "p",
                f"{len(small.nodes):,} nodes: too many to draw; the list has them.",
                class_="none",
            )
        ]
    else:
        contents = [_picture(small, folds, known, critical)]
        contents += [_fold(whole, nested, known, critical) for nested in folds]
    name = tag("summary", f"{fold.node}: {_fold_size(fold)}")
    return tag("details", name, tag("div", *contents, id=fold_element_id(fold)), class_="fold-of")


def _fold_size(fold: Fold) -> str:
    """What a fold has, in words."""
    return counted(fold.count, "iteration") if fold.kind == "loop" else f"{fold.count:,} alike"


def _picture(
    graph: Graph, folds: Sequence[Fold], known: Mapping[str, Stage], critical: Collection[str]
) -> Html:
    fold_of = {fold.node: fold for fold in folds}
    boxes = {}
    for node in graph.nodes:
        fold = fold_of.get(node.id)
        boxes[node.id] = _box(known[node.id]) if fold is None else _fold_box(fold, known)
    stands_for = {name: fold.node for fold in folds for name in fold.nodes}
    path = dict.fromkeys(stands_for.get(name, name) for name in critical)
    drawing = draw_layout(graph, boxes, [name for name in path if name in boxes])
    return tag(
        "div",
        drawing,
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label="Picture of the graph",
    )


def draw_layout(graph: Graph, boxes: Mapping[str, NodeBox], critical: Sequence[str]) -> Html:
    """A graph of at most MOST_DRAWN nodes drawn; `critical` are those that the run's end waited
    for, in order.
    """
    rows = place_nodes(predecessors_of(graph))
    if len(rows) == 1:  # nothing is joined: side by side they would be a line that nobody reads
        rows = [rows[0][at : at + IN_A_ROW] for at in range(0, len(rows[0]), IN_A_ROW)]
    wide = _box_width(boxes.values(), max(map(len, rows)))
    width = spread_slots(rows, wide, BETWEEN)
    high = LINE * (max(len(box.told) + bool(box.links) for box in boxes.values()) + 1) + 12
    high += 6 * any(box.is_fold for box in boxes.values())
    tops, top = list[float](), 0.0
    for each in rows:
        tops.append(top)
        top += high * max(len(place.group) or 1 for place in each) + BELOW
    waited = _waited(rows, list(pairwise(critical)))
    shapes = [*_edges(rows, tops, high, boxes, waited)]
    shapes += _boxes(rows, tops, wide, high, boxes, set(critical))
    size = width + 2 * EDGE, top - BELOW + 2 * EDGE
    return tag(
        "svg",
        *shapes,
        viewBox=f"{-EDGE} {-EDGE} {coordinate(size[0])} {coordinate(size[1])}",
        width=coordinate(size[0]),
        height=coordinate(size[1]),
        class_="picture nodes broad" if size[0] > PAPER else "picture nodes",
        aria_hidden="true",
    )


def _waited(
    rows: Sequence[Sequence[Slot]], critical: Sequence[tuple[str, str]]
) -> set[tuple[int, int]]:
    """The steps from place to place that the edges of the critical path take."""
    at = {name: place for each in rows for place in each for name in place.group}
    found: set[tuple[int, int]] = set()
    for source, target in critical:
        found |= _way(at[source], at[target]) if at[source] is not at[target] else set()
    return found


def _way(place: Slot, end: Slot) -> set[tuple[int, int]]:
    """The steps of one edge: the places between have no group, and one place before them."""
    steps, below = set[tuple[int, int]](), end
    while below is not place:
        above = next(
            (
                one
                for one in below.before
                if one is place or (not one.group and _root(one) is place)
            ),
            None,
        )
        if above is None:
            return set()
        steps.add((id(above), id(below)))
        below = above
    return steps


def _root(place: Slot) -> Slot:
    while not place.group:
        place = place.before[0]
    return place


def _edges(
    rows: Sequence[Sequence[Slot]],
    tops: Sequence[float],
    high: float,
    boxes: Mapping[str, NodeBox],
    waited: Collection[tuple[int, int]],
) -> Iterator[Html]:
    """Lines from place to place, those of the critical path above the others; of each style one
    element has all.
    """
    skipped = {name for name, box in boxes.items() if box.style == "skipped"}
    styles = ("edge", "edge skip", "head", "edge critical", "head critical")
    paths: dict[str, list[str]] = {style: [] for style in styles}
    for (upper, lower), top, below in zip(pairwise(rows), tops, tops[1:], strict=False):
        for place in upper:
            start = top + high * len(place.group)
            for target in place.after:
                style = "edge"
                if (id(place), id(target)) in waited:
                    style = "edge critical"
                elif not skipped.isdisjoint((*place.group, *target.group)):
                    style = "edge skip"
                paths[style].append(_edge_path(place.middle, start, target.middle, below))
        for target in lower:
            if not target.group or not target.before:
                continue
            if any((id(source), id(target)) in waited for source in target.before):
                paths["head critical"].append(_head_path(target.middle, below, 12))
            else:
                paths["head"].append(_head_path(target.middle, below, 8))
    for style, style_paths in paths.items():
        if style_paths:
            yield tag("path", d="".join(style_paths), class_=style)


def _edge_path(x: float, start: float, target_x: float, below: float) -> str:
    """A line down from `start` and then a curve to the target, whose top is at `below`."""
    bottom, middle = below - BELOW, below - BELOW / 2
    down = f"M{coordinate(x)} {coordinate(start)}V{coordinate(bottom)}"
    points = ((x, middle), (target_x, middle), (target_x, below))
    return f"{down}C{' '.join(f'{coordinate(px)} {coordinate(py)}' for px, py in points)}"


def _head_path(x: float, below: float, width: int) -> str:
    """The head of an arrow, whose point is at `below`."""
    start = f"M{coordinate(x - width / 2)} {coordinate(below - width)}"
    return f"{start}h{width}l{coordinate(-width / 2)} {width - 1}z"


def _boxes(
    rows: Sequence[Sequence[Slot]],
    tops: Sequence[float],
    wide: float,
    high: float,
    boxes: Mapping[str, NodeBox],
    critical: Collection[str],
) -> Iterator[Html]:
    for each, top in zip(rows, tops, strict=True):
        for place in each:
            left = place.middle - wide / 2
            if len(place.group) > 1:
                tall = coordinate(high * len(place.group) + 6)
                yield tag(
                    "rect",
                    x=coordinate(left - 6),
                    y=coordinate(top - 3),
                    width=coordinate(wide + 12),
                    height=tall,
                    rx=8,
                    class_="circle",
                )
            for number, name in enumerate(place.group):
                corner = left, top + number * high
                yield _draw_box(boxes[name], corner, (wide, high), is_critical=name in critical)


def _box_width(boxes: Iterable[NodeBox], side_by_side: int) -> float:
    """As wide as the longest text needs, while the boxes of the fullest layer fit the page."""
    needed = 0.0
    for box in boxes:
        texts = [(box.name, NAME_CHAR), *((text, LINE_CHAR) for text in box.told)]
        needed = max(needed, *(len(safe(text[:WIDEST])) * char + INSIDE for text, char in texts))
    room = (PAGE + BETWEEN) / max(side_by_side, 1) - BETWEEN
    return float(round(max(WIDTH, min(needed, room, WIDEST))))


def _draw_box(
    box: NodeBox, corner: tuple[float, float], size: tuple[float, float], *, is_critical: bool
) -> Html:
    """A box at its place (left, top), of that width and height; the title has what is cut."""
    wide, high = size
    behind = (
        [
            tag(
                "rect",
                x=7,
                y=7,
                width=coordinate(wide - 9),
                height=coordinate(high - 9),
                rx=6,
                class_="box",
            )
        ]
        if box.is_fold
        else []
    )
    room = 6 if box.is_fold else 0
    frame = tag(
        "rect",
        x=1.5,
        y=1.5,
        width=coordinate(wide - 3 - room),
        height=coordinate(high - 3 - room),
        rx=6,
        class_="box",
    )
    mark = tag(
        "rect", x=5, y=5, width=6, height=coordinate(high - 10 - room), rx=3, class_=box.style
    )
    name = cut_middle(box.name, round((wide - INSIDE) / NAME_CHAR))
    lines = [tag("text", name, x=17, y=18, class_="name")]
    for number, text in enumerate(box.told, start=1):
        if text:
            line = cut_text(text, round((wide - INSIDE) / LINE_CHAR))
            lines.append(tag("text", line, x=17, y=18 + LINE * number))
    parts = [add_title(join_html([*behind, frame, mark, *lines]), box.title, box.link)]
    y, x = 18 + LINE * (len(box.told) + 1), 17.0
    for text, link in box.links:
        parts.append(
            tag("a", tag("text", text, x=coordinate(x), y=y, class_="to"), href=link, tabindex=-1)
        )
        x += 7 * len(text) + 12
    style = "critical" if is_critical else None
    left, top = corner
    return tag(
        "svg",
        *parts,
        x=coordinate(left),
        y=coordinate(top),
        width=coordinate(wide),
        height=coordinate(high),
        class_=style,
    )


def _box(stage: Stage) -> NodeBox:
    node = stage.node
    usd = "" if stage.usd is None else format_stage_dollars(stage.usd)
    turns = counted(len(node.turns), "turn") if node.turns else ""
    told = [
        _dotted(stage.outcome, format_seconds(stage.seconds)),
        _dotted(node.agent or node.kind, turns, usd),
    ]
    told += filter(None, [long_wait(stage)])
    link = (
        place_link("e", stage.turns[0].id)
        if stage.turns
        else link_to_element(node_element_id(node.id))
    )
    title = _dotted(node.id, *told, node.reason)
    return NodeBox(
        node.id, tuple(told), outcome_style(stage.outcome), link, title, tuple(_links(stage))
    )


def _links(stage: Stage) -> Iterator[tuple[str, str]]:
    """To the first of its findings, or a gate's round if they are gone, and to the first file that
    it changed.
    """
    number = stage.told.counts.new + stage.told.counts.open if stage.told else len(stage.findings)
    if number:
        place = (
            finding_element_id(stage.findings[0])
            if stage.findings
            else round_element_id(stage.node.id)
        )
        yield counted(number, "finding"), link_to_element(place)
    if stage.files:
        turn, file = stage.files[0]
        yield format_line_counts(stage.files), file_link(file.path, turn=turn)


def _fold_box(fold: Fold, known: Mapping[str, Stage]) -> NodeBox:
    own = [known[name] for name in fold.nodes]
    turns, costs = (
        sum(len(stage.node.turns) for stage in own),
        [stage.usd for stage in own if stage.usd is not None],
    )
    usd = format_stage_dollars(sum(costs)) if costs else ""
    outcome, how = _came_to(fold, own)
    took = [stage.time for stage in own if stage.time]
    time = (
        (max(each.end for each in took) - min(each.start for each in took)) / 1000 if took else None
    )
    size, figures = (
        _fold_size(fold),
        _dotted(counted(turns, "turn") if turns else "", usd, format_seconds(time)),
    )
    told = (
        (_dotted(size, how), figures)
        if fold.kind == "loop"
        else (size, *wrap(how, LINE_CHARS), figures)
    )
    found = tuple(dict.fromkeys(index for stage in own for index in stage.findings))
    links = (
        ((counted(len(found), "finding"), link_to_element(finding_element_id(found[0]))),)
        if found
        else ()
    )
    title = _dotted(f"{fold.node} to {fold.nodes[-1]}", *told, "click to open")
    return NodeBox(
        fold.node,
        told,
        outcome_style(outcome),
        link_to_element(fold_element_id(fold)),
        title,
        links,
        is_fold=True,
    )


def _came_to(fold: Fold, own: Sequence[Stage]) -> tuple[str, str]:
    """The outcome that a fold shows, and the words: a loop's last, of nodes that are alike each
    with its number.
    """
    if fold.kind == "loop":
        ends = (
            stage.outcome
            for stage in reversed(own)
            if stage.node.outcome and stage.node.kind not in OWNED
        )
        last = next(ends, own[-1].outcome)
        return last, last
    counts = Counter(stage.outcome for stage in own)
    by_rank = sorted(counts, key=lambda word: (outcome_rank(word), word))
    return by_rank[0], ", ".join(f"{counts[word]:,} {word}" for word in by_rank) if len(
        counts
    ) > 1 else by_rank[0]


def _dotted(*parts: str) -> str:
    return " · ".join(filter(None, parts))


def _line(stage: Stage, before: Sequence[str], is_critical: bool) -> Html:
    """A node's line of the list."""
    node, files = stage.node, stage.files
    turns = join_html(
        part
        for turn in stage.turns
        for part in (", ", tag("a", turn.id.split("/")[-1], href=place_link("e", turn.id)))
    )
    after = [
        part
        for name in before
        for part in (", ", tag("a", name, href=link_to_element(node_element_id(name))))
    ]
    few = stage.findings[:MOST_LINKS]
    found = [
        part
        for at in few
        for part in (
            ", ",
            tag("a", f"finding {at + 1}", href=link_to_element(finding_element_id(at))),
        )
    ]
    found += (
        [f", and {len(stage.findings) - len(few):,} more"] if len(few) < len(stage.findings) else []
    )
    changed = [
        _changed(turn, file.path, file.added, file.deleted) for turn, file in files[:MOST_LINKS]
    ]
    more = f"and {len(files) - MOST_LINKS:,} more" if len(files) > MOST_LINKS else None
    cells = (
        join_html(
            [
                tag("b", node.id) if is_critical else node.id,
                tag("small", " waited for") if is_critical else None,
            ]
        ),
        _dotted(stage.outcome, node.reason),
        node.agent or node.kind,
        Html(turns[2:]),
        "" if stage.usd is None else format_stage_dollars(stage.usd),
        format_seconds(stage.seconds),
        format_seconds(stage.waited) if stage.waited else "",
        join_html(after[1:]),
        join_html(found[1:]),
        join_html([*changed, more]),
    )
    return table_row(cells, id=node_element_id(node.id))


def _changed(turn: str, path: str, added: int, deleted: int) -> Html:
    link = file_link(path, turn=turn)
    return tag(
        "div", tag("a", path, href=link), f" +{added:,} −{deleted:,}", id=f"e={turn}&f={path}"
    )
