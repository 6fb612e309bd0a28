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
from vibe_gate.report.folds import OWNED, Fold, fold_graph, inside, is_foldable
from vibe_gate.report.html.addresses import (
    file_link,
    finding_id,
    fold_id,
    node_id,
    place_link,
    round_id,
    to,
)
from vibe_gate.report.html.stage_figures import (
    Stage,
    critical_path,
    dollars,
    long_wait,
    seconds,
    sizes,
    span,
    time_taken,
)
from vibe_gate.report.html.view import View
from vibe_gate.report.layers import MOST_DRAWN, Slot, comes_after, place_nodes, spread
from vibe_gate.report.markup import Html, joined, row, table, tag
from vibe_gate.report.outcome_words import outcome_rank, outcome_style
from vibe_gate.report.svg import Series, cut, cut_middle, legend, n, titled

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


def graph(view: View, known: Mapping[str, Stage]) -> Iterator[Html]:
    """The picture, if the graph is not too large, its folds, and the list."""
    critical = critical_path(view.graph, view.times)
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
    before = comes_after(view.graph)
    lines = [
        _line(known[node.id], before[node.id], node.id in critical) for node in view.graph.nodes
    ]
    nodes = table(heads, lines, class_="figures nodes")
    yield tag(
        "details", tag("summary", "All nodes as a list"), nodes, open=None if has_picture else ""
    )


def _told(view: View, known: Mapping[str, Stage], critical: Sequence[str]) -> Html:
    size = counted(len(view.graph.nodes), "node")
    if not critical:
        return tag("p", f"{size}.", class_="none")
    begun, ended = span(view.times.values())
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
    yield tag("a", stage.node.id, href=to(node_id(stage.node.id)))
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
    yield legend(key for key in KEYS if key.style in styles)
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
    small, folds = fold_graph(inside(whole, fold), within=fold.kind)
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
    return tag("details", name, tag("div", *contents, id=fold_id(fold)), class_="fold-of")


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
    drawing = layout(graph, boxes, [name for name in path if name in boxes])
    return tag(
        "div",
        drawing,
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label="Picture of the graph",
    )


def layout(graph: Graph, boxes: Mapping[str, NodeBox], critical: Sequence[str]) -> Html:
    """A graph of at most MOST_DRAWN nodes drawn; `critical` are those that the run's end waited
    for, in order.
    """
    rows = place_nodes(comes_after(graph))
    if len(rows) == 1:  # nothing is joined: side by side they would be a line that nobody reads
        rows = [rows[0][at : at + IN_A_ROW] for at in range(0, len(rows[0]), IN_A_ROW)]
    wide = _box_width(boxes.values(), max(map(len, rows)))
    width = spread(rows, wide, BETWEEN)
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
        viewBox=f"{-EDGE} {-EDGE} {n(size[0])} {n(size[1])}",
        width=n(size[0]),
        height=n(size[1]),
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
        bottom, middle = below - BELOW, below - BELOW / 2
        for place in upper:
            start = top + high * len(place.group)
            for target in place.after:
                is_skip = not skipped.isdisjoint((*place.group, *target.group))
                is_waited = (id(place), id(target)) in waited
                style = "edge critical" if is_waited else "edge skip" if is_skip else "edge"
                curve = f"C{n(place.middle)} {n(middle)} {n(target.middle)} {n(middle)} {n(target.middle)} {n(below)}"
                paths[style].append(f"M{n(place.middle)} {n(start)}V{n(bottom)}{curve}")
        for target in lower:
            if target.group and target.before:
                is_waited = any((id(source), id(target)) in waited for source in target.before)
                wide, style = (12, "head critical") if is_waited else (8, "head")
                paths[style].append(
                    f"M{n(target.middle - wide / 2)} {n(below - wide)}h{wide}l{n(-wide / 2)} {wide - 1}z"
                )
    return (tag("path", d="".join(each), class_=style) for style, each in paths.items() if each)


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
                tall = n(high * len(place.group) + 6)
                yield tag(
                    "rect",
                    x=n(left - 6),
                    y=n(top - 3),
                    width=n(wide + 12),
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
        [tag("rect", x=7, y=7, width=n(wide - 9), height=n(high - 9), rx=6, class_="box")]
        if box.is_fold
        else []
    )
    room = 6 if box.is_fold else 0
    frame = tag(
        "rect",
        x=1.5,
        y=1.5,
        width=n(wide - 3 - room),
        height=n(high - 3 - room),
        rx=6,
        class_="box",
    )
    mark = tag("rect", x=5, y=5, width=6, height=n(high - 10 - room), rx=3, class_=box.style)
    name = cut_middle(box.name, round((wide - INSIDE) / NAME_CHAR))
    lines = [tag("text", name, x=17, y=18, class_="name")]
    for number, text in enumerate(box.told, start=1):
        if text:
            line = cut(text, round((wide - INSIDE) / LINE_CHAR))
            lines.append(tag("text", line, x=17, y=18 + LINE * number))
    parts = [titled(joined([*behind, frame, mark, *lines]), box.title, box.link)]
    y, x = 18 + LINE * (len(box.told) + 1), 17.0
    for text, link in box.links:
        parts.append(tag("a", tag("text", text, x=n(x), y=y, class_="to"), href=link, tabindex=-1))
        x += 7 * len(text) + 12
    style = "critical" if is_critical else None
    left, top = corner
    return tag("svg", *parts, x=n(left), y=n(top), width=n(wide), height=n(high), class_=style)


def _box(stage: Stage) -> NodeBox:
    node = stage.node
    usd = "" if stage.usd is None else dollars(stage.usd)
    turns = counted(len(node.turns), "turn") if node.turns else ""
    told = [
        _dotted(stage.outcome, seconds(stage.seconds)),
        _dotted(node.agent or node.kind, turns, usd),
    ]
    told += filter(None, [long_wait(stage)])
    link = place_link("e", stage.turns[0].id) if stage.turns else to(node_id(node.id))
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
        place = finding_id(stage.findings[0]) if stage.findings else round_id(stage.node.id)
        yield counted(number, "finding"), to(place)
    if stage.files:
        turn, file = stage.files[0]
        yield sizes(stage.files), file_link(file.path, turn=turn)


def _fold_box(fold: Fold, known: Mapping[str, Stage]) -> NodeBox:
    own = [known[name] for name in fold.nodes]
    turns, costs = (
        sum(len(stage.node.turns) for stage in own),
        [stage.usd for stage in own if stage.usd is not None],
    )
    usd = dollars(sum(costs)) if costs else ""
    outcome, how = _came_to(fold, own)
    took = [stage.time for stage in own if stage.time]
    time = (
        (max(each.end for each in took) - min(each.start for each in took)) / 1000 if took else None
    )
    size, figures = (
        _fold_size(fold),
        _dotted(counted(turns, "turn") if turns else "", usd, seconds(time)),
    )
    told = (
        (_dotted(size, how), figures)
        if fold.kind == "loop"
        else (size, *wrap(how, LINE_CHARS), figures)
    )
    found = tuple(dict.fromkeys(index for stage in own for index in stage.findings))
    links = ((counted(len(found), "finding"), to(finding_id(found[0]))),) if found else ()
    title = _dotted(f"{fold.node} to {fold.nodes[-1]}", *told, "click to open")
    return NodeBox(
        fold.node, told, outcome_style(outcome), to(fold_id(fold)), title, links, is_fold=True
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
    turns = joined(
        part
        for turn in stage.turns
        for part in (", ", tag("a", turn.id.split("/")[-1], href=place_link("e", turn.id)))
    )
    after = [part for name in before for part in (", ", tag("a", name, href=to(node_id(name))))]
    few = stage.findings[:MOST_LINKS]
    found = [
        part
        for at in few
        for part in (", ", tag("a", f"finding {at + 1}", href=to(finding_id(at))))
    ]
    found += (
        [f", and {len(stage.findings) - len(few):,} more"] if len(few) < len(stage.findings) else []
    )
    changed = [
        _changed(turn, file.path, file.added, file.deleted) for turn, file in files[:MOST_LINKS]
    ]
    more = f"and {len(files) - MOST_LINKS:,} more" if len(files) > MOST_LINKS else None
    cells = (
        joined(
            [
                tag("b", node.id) if is_critical else node.id,
                tag("small", " waited for") if is_critical else None,
            ]
        ),
        _dotted(stage.outcome, node.reason),
        node.agent or node.kind,
        Html(turns[2:]),
        "" if stage.usd is None else dollars(stage.usd),
        seconds(stage.seconds),
        seconds(stage.waited) if stage.waited else "",
        joined(after[1:]),
        joined(found[1:]),
        joined([*changed, more]),
    )
    return row(cells, id=node_id(node.id))


def _changed(turn: str, path: str, added: int, deleted: int) -> Html:
    link = file_link(path, turn=turn)
    return tag(
        "div", tag("a", path, href=link), f" +{added:,} −{deleted:,}", id=f"e={turn}&f={path}"
    )
