"""The graph of a run as a picture, with its list: what each node came to, and what the run's end
waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from textwrap import wrap

from vibe_gate.domain.escape import counted
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
from vibe_gate.report.html.graph_drawing import NodeBox, draw_layout
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
from vibe_gate.report.html.view import FileView, View
from vibe_gate.report.layers import MOST_DRAWN, predecessors_of
from vibe_gate.report.markup import (
    Html,
    join_html,
    join_with_commas,
    render_html_table,
    table_row,
    tag,
)
from vibe_gate.report.outcome_words import outcome_rank, outcome_style
from vibe_gate.report.svg import Series, draw_legend

LINE_CHARS = 31
"""Characters of a line of a box that is broken between words."""

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


def render_graph_section(view: View, stages: Mapping[str, Stage]) -> Iterator[Html]:
    """The picture, if the graph is not too large, its folds, and the list."""
    critical = find_critical_path(view.graph, view.times)
    yield _critical_path_sentence(view, stages, critical)
    has_picture = False
    if is_foldable(view.graph):
        small, folds = fold_graph(view.graph)
        has_picture = 0 < len(small.nodes) <= MOST_DRAWN
        if has_picture:
            yield from _pictures(view.graph, small, folds, stages, critical)
    if view.graph.nodes and not has_picture:
        text = f"Too many to draw: a picture has at most {MOST_DRAWN} boxes."
        yield tag("p", text, class_="none")
    before = predecessors_of(view.graph)
    rows = []
    for node in view.graph.nodes:
        rows.append(_list_row(stages[node.id], before[node.id], node.id in critical))
    table = render_html_table(LIST_HEADS, rows, class_="figures nodes")
    title = tag("summary", "All nodes as a list")
    yield tag("details", title, table, open=None if has_picture else "")


LIST_HEADS = (
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


def _critical_path_sentence(
    view: View, stages: Mapping[str, Stage], critical: Sequence[str]
) -> Html:
    """How many nodes there are, and what the run's end waited for."""
    size = counted(len(view.graph.nodes), "node")
    if not critical:
        return tag("p", f"{size}.", class_="none")
    start, end = span_of_stages(view.times.values())
    least_wait = (end - start) / 1000 * LEAST_WAITED
    parts: list[str] = []
    for name in critical:
        if parts:
            parts.append(" → ")
        parts.append(tag("a", name, href=link_to_element(node_element_id(name))))
        wait = long_wait(stages[name])
        if wait and stages[name].waited >= least_wait:
            parts.append(f" ({wait})")
    text = f"{size}. The run's end waited for "
    return tag("p", text, *parts, f": {time_taken(view)}.", class_="none critical-path")


def _pictures(
    graph: Graph,
    small: Graph,
    folds: Sequence[Fold],
    stages: Mapping[str, Stage],
    critical: Sequence[str],
) -> Iterator[Html]:
    """The legend, the graph with its folds closed, and below it what they open."""
    styles = {outcome_style(stages[node.id].outcome) for node in graph.nodes}
    if critical:
        styles.add("waited")
    if folds:
        styles.add("opens")
    yield draw_legend(key for key in KEYS if key.style in styles)
    yield _picture(small, folds, stages, critical)
    fold_contents = []
    for fold in folds:
        fold_contents.append(_fold_contents(graph, fold, stages, critical))
    if len(fold_contents) > FEW_FOLDS:
        title = tag("summary", f"{len(fold_contents):,} boxes that open")
        yield tag("details", title, *fold_contents, class_="folds")
    else:
        yield from fold_contents


def _fold_contents(
    graph: Graph, fold: Fold, stages: Mapping[str, Stage], critical: Sequence[str]
) -> Html:
    """What a fold opens: a picture of its nodes, with folds of its own, or where they are
    listed.
    """
    small, folds = fold_graph(graph_inside(graph, fold), within=fold.kind)
    contents = []
    if len(small.nodes) > MOST_DRAWN:
        text = f"{len(small.nodes):,} nodes: too many to draw; the list has them."
        contents.append(tag("p", text, class_="none"))
    else:
        contents.append(_picture(small, folds, stages, critical))
        for nested in folds:
            contents.append(_fold_contents(graph, nested, stages, critical))
    title = tag("summary", f"{fold.node}: {_fold_size(fold)}")
    body = tag("div", *contents, id=fold_element_id(fold))
    return tag("details", title, body, class_="fold-of")


def _fold_size(fold: Fold) -> str:
    """What a fold has, in words."""
    if fold.kind == "loop":
        return counted(fold.count, "iteration")
    return f"{fold.count:,} alike"


def _picture(
    graph: Graph, folds: Sequence[Fold], stages: Mapping[str, Stage], critical: Collection[str]
) -> Html:
    """The graph with its folds closed; of a fold that has nodes of the critical path its box is
    one.
    """
    folds_by_node = {fold.node: fold for fold in folds}
    boxes = {}
    for node in graph.nodes:
        fold = folds_by_node.get(node.id)
        boxes[node.id] = _fold_box(fold, stages) if fold else _stage_box(stages[node.id])
    fold_nodes: dict[str, str] = {}
    for fold in folds:
        fold_nodes |= dict.fromkeys(fold.nodes, fold.node)
    path = dict.fromkeys(fold_nodes.get(name, name) for name in critical)
    drawing = draw_layout(graph, boxes, [name for name in path if name in boxes])
    attributes = {"class_": "scroll", "tabindex": "0", "role": "region"}
    return tag("div", drawing, **attributes, aria_label="Picture of the graph")


def _stage_box(stage: Stage) -> NodeBox:
    node = stage.node
    usd = ""
    if stage.usd is not None:
        usd = format_stage_dollars(stage.usd)
    turns = ""
    if node.turns:
        turns = counted(len(node.turns), "turn")
    lines = [
        _dotted(stage.outcome, format_seconds(stage.seconds)),
        _dotted(node.agent or node.kind, turns, usd),
    ]
    wait = long_wait(stage)
    if wait:
        lines.append(wait)
    link = link_to_element(node_element_id(node.id))
    if stage.turns:
        link = place_link("e", stage.turns[0].id)
    title = _dotted(node.id, *lines, node.reason)
    style = outcome_style(stage.outcome)
    return NodeBox(node.id, tuple(lines), style, link, title, tuple(_box_links(stage)))


def _box_links(stage: Stage) -> Iterator[tuple[str, str]]:
    """To the first of its findings, or a gate's round if they are gone, and to the first file that
    it changed.
    """
    findings = len(stage.findings)
    if stage.round:
        findings = stage.round.counts.new + stage.round.counts.open
    if findings:
        element_id = round_element_id(stage.node.id)
        if stage.findings:
            element_id = finding_element_id(stage.findings[0])
        yield counted(findings, "finding"), link_to_element(element_id)
    if stage.files:
        turn, file = stage.files[0]
        yield format_line_counts(stage.files), file_link(file.path, turn=turn)


def _fold_box(fold: Fold, stages: Mapping[str, Stage]) -> NodeBox:
    members = [stages[name] for name in fold.nodes]
    outcome = _fold_outcome(fold, members)
    size, words, figures = _fold_size(fold), _fold_words(fold, members), _fold_figures(members)
    lines = [size, *wrap(words, LINE_CHARS), figures]
    if fold.kind == "loop":
        lines = [_dotted(size, words), figures]
    indexes: dict[int, None] = {}
    for stage in members:
        indexes |= dict.fromkeys(stage.findings)
    links = []
    if indexes:
        first = link_to_element(finding_element_id(next(iter(indexes))))
        links.append((counted(len(indexes), "finding"), first))
    return NodeBox(
        fold.node,
        tuple(lines),
        outcome_style(outcome),
        link_to_element(fold_element_id(fold)),
        _dotted(f"{fold.node} to {fold.nodes[-1]}", *lines, "click to open"),
        tuple(links),
        is_fold=True,
    )


def _fold_figures(members: Sequence[Stage]) -> str:
    """Turns, cost and time of all together."""
    turns = sum(len(stage.node.turns) for stage in members)
    costs = [stage.usd for stage in members if stage.usd is not None]
    figures = []
    if turns:
        figures.append(counted(turns, "turn"))
    if costs:
        figures.append(format_stage_dollars(sum(costs)))
    figures.append(format_seconds(_seconds_between_ends(members)))
    return _dotted(*figures)


def _seconds_between_ends(members: Sequence[Stage]) -> float | None:
    """From when the first began until the last ended; None if none has a time."""
    times = [stage.time for stage in members if stage.time]
    if not times:
        return None
    start = min(time.start for time in times)
    end = max(time.end for time in times)
    return (end - start) / 1000


def _fold_outcome(fold: Fold, members: Sequence[Stage]) -> str:
    """A loop's last outcome; of nodes that are alike the worst."""
    if fold.kind != "loop":
        return _worst_first(members)[0]
    for stage in reversed(members):
        if stage.node.outcome and stage.node.kind not in OWNED:
            return stage.outcome
    return members[-1].outcome


def _fold_words(fold: Fold, members: Sequence[Stage]) -> str:
    """The outcome in words; of nodes that are alike each with its number."""
    outcomes = _worst_first(members)
    if fold.kind == "loop" or len(outcomes) == 1:
        return _fold_outcome(fold, members)
    counts = Counter(stage.outcome for stage in members)
    return ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in outcomes)


def _worst_first(members: Sequence[Stage]) -> list[str]:
    """Their outcomes, each once."""
    outcomes = {stage.outcome for stage in members}
    return sorted(outcomes, key=lambda outcome: (outcome_rank(outcome), outcome))


def _list_row(stage: Stage, before: Sequence[str], is_critical: bool) -> Html:
    """A node's row of the list."""
    node = stage.node
    name = join_html([node.id])
    if is_critical:
        name = join_html([tag("b", node.id), tag("small", " waited for")])
    turns = []
    for turn in stage.turns:
        turns.append(tag("a", turn.id.split("/")[-1], href=place_link("e", turn.id)))
    sources = []
    for source in before:
        sources.append(tag("a", source, href=link_to_element(node_element_id(source))))
    cells = (
        name,
        _dotted(stage.outcome, node.reason),
        node.agent or node.kind,
        join_with_commas(turns),
        "" if stage.usd is None else format_stage_dollars(stage.usd),
        format_seconds(stage.seconds),
        format_seconds(stage.waited) if stage.waited else "",
        join_with_commas(sources),
        _finding_links(stage.findings),
        _changed_files(stage.files),
    )
    return table_row(cells, id=node_element_id(node.id))


def _finding_links(findings: Sequence[int]) -> Html:
    """The first of the findings, and how many more there are."""
    links: list[str] = []
    for index in findings[:MOST_LINKS]:
        link = link_to_element(finding_element_id(index))
        links.append(tag("a", f"finding {index + 1}", href=link))
    if len(findings) > MOST_LINKS:
        links.append(f"and {len(findings) - MOST_LINKS:,} more")
    return join_with_commas(links)


def _changed_files(files: Sequence[tuple[str, FileView]]) -> Html:
    """The first of the files that its turns changed, and how many more there are."""
    parts: list[str] = []
    for turn, file in files[:MOST_LINKS]:
        link = tag("a", file.path, href=file_link(file.path, turn=turn))
        size = f" +{file.added:,} −{file.deleted:,}"
        parts.append(tag("div", link, size, id=f"e={turn}&f={file.path}"))
    if len(files) > MOST_LINKS:
        parts.append(f"and {len(files) - MOST_LINKS:,} more")
    return join_html(parts)


def _dotted(*parts: str) -> str:
    return " · ".join(filter(None, parts))
