"""What a run cost, and where its time went, as pictures with their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from vibe_gate.domain.escape import counted
from vibe_gate.domain.event import Graph
from vibe_gate.report import queries, svg
from vibe_gate.report.folds import fold_graph, is_foldable
from vibe_gate.report.html.addresses import link_to_element, node_element_id, place_link
from vibe_gate.report.html.stage_figures import (
    Stage,
    find_critical_path,
    format_seconds,
    format_stage_dollars,
    long_wait,
    span_of_stages,
    time_taken,
)
from vibe_gate.report.html.view import MAX_ROWS, NodeTime, TurnView, View
from vibe_gate.report.markup import Html, join_html, table_row, tag
from vibe_gate.report.svg import Bar, Lane, Part, Series, Span
from vibe_gate.report.waits import Period, merge_periods

MOST_ROWS, MOST_LANES = 20, 40
"""Bars and lanes of a picture; what is smaller is one bar of its own, or stands in the table
alone.
"""

FINEST = 400
"""Parts of the run's time that are told apart in a lane; calls that are nearer to each other are
one.
"""

KINDS = (
    Series("judge", "s0"),
    Series("agent", "s4"),
    Series("second look", "s3"),
    Series("not told apart", "s7"),
)
TOKENS = (Series("input", "s0"), Series("read from cache", "s7"), Series("output", "s1"))
WORK = (
    Series("model", "s0"),
    Series("tools", "s4"),
    Series("checks", "s2"),
    Series("waiting", "s7"),
)
_MODEL, _TOOLS, _CHECKS, _WAITING = range(len(WORK))

_ASKS = frozenset({"judge", "stage", "agent"})
"""Kinds of nodes that do nothing but in their turns."""


def render_cost_pictures(view: View, stages: Mapping[str, Stage]) -> Iterator[Html]:
    """Dollars by stage and by model, tokens by stage, and the run's time."""
    is_recorded = view.summary is not None and queries.is_from_recording(view.summary)
    ending = ""
    if is_recorded:
        ending = " when the answers were recorded"
    links = {name: link_to_element(node_element_id(name)) for name in stages}
    fold_nodes = {}
    if len(stages) > MOST_ROWS:
        fold_nodes = _fold_nodes(view.graph)
    usd_by_stage = {}
    tokens_by_stage = {}
    for name, stage in stages.items():
        usd_by_stage[name] = _usd_by_kind(stage, _usd(stage, is_recorded=is_recorded))
        tokens_by_stage[name] = _token_counts(stage.turns)
    yield from _draw_figures(
        _Figures(
            "cost-stages", f"US dollars by stage{ending}", "Stage", KINDS, format_stage_dollars
        ),
        _add_folded(usd_by_stage, fold_nodes),
        links,
    )
    yield from _draw_figures(
        _Figures(
            "cost-models", f"US dollars by model{ending}", "Model", KINDS, format_stage_dollars
        ),
        _usd_by_model(view, stages, is_recorded=is_recorded),
        {},
    )
    yield from _draw_figures(
        _Figures("tokens", "Tokens by stage", "Stage", TOKENS, _format_count),
        _add_folded(tokens_by_stage, fold_nodes),
        links,
    )
    yield from _draw_time(view, stages)


def _fold_nodes(graph: Graph) -> dict[str, str]:
    """The node that stands for a folded one in the picture of the graph."""
    if not is_foldable(graph):
        return {}
    nodes: dict[str, str] = {}
    for fold in fold_graph(graph)[1]:
        nodes |= dict.fromkeys(fold.nodes, fold.node)
    return nodes


def _add_folded(
    figures: Mapping[str, list[float]], fold_nodes: Mapping[str, str]
) -> dict[str, list[float]]:
    """Figures of nodes as those of what stands for them."""
    sums: dict[str, list[float]] = {}
    for name, values in figures.items():
        fold_sums = sums.setdefault(fold_nodes.get(name, name), [0.0] * len(values))
        for index, value in enumerate(values):
            fold_sums[index] += value
    return sums


def _usd(stage: Stage, *, is_recorded: bool) -> float:
    if is_recorded:
        return sum(turn.usd or 0.0 for turn in stage.turns)
    return stage.usd or 0.0


def _usd_by_kind(stage: Stage, usd: float) -> list[float]:
    return [usd if stage.kind == kind.name else 0.0 for kind in KINDS]


def _usd_by_model(
    view: View, stages: Mapping[str, Stage], *, is_recorded: bool
) -> dict[str, list[float]]:
    """Dollars of each model by kind. What the summary has of it beyond that of the turns cannot be
    told apart.
    """
    totals: dict[str, float] = {}
    if view.summary is not None and not is_recorded:
        totals = dict(view.summary.cost.by_model)
    usd_by_model: dict[str, list[float]] = {name: [0.0] * len(KINDS) for name in totals}
    for stage in stages.values():
        for turn in stage.turns:
            if turn.model and turn.usd:
                usd_by_kind = usd_by_model.setdefault(turn.model, [0.0] * len(KINDS))
                usd_by_kind[_KIND_INDEXES[stage.kind]] += turn.usd
    for model, total in totals.items():
        usd_by_model[model] = _with_remainder(usd_by_model[model], total)
    return {model: values for model, values in usd_by_model.items() if sum(values)}


_KIND_INDEXES = {kind.name: index for index, kind in enumerate(KINDS)}


def _with_remainder(usd_by_kind: list[float], total: float) -> list[float]:
    """What the total has beyond the kinds, as the last of them."""
    of_turns = sum(usd_by_kind)
    if of_turns > total * 1.001:  # its turns asked other models, too
        return [0.0] * (len(KINDS) - 1) + [total]
    remainder = total - of_turns
    if remainder <= total * 0.001:
        remainder = 0.0
    return [*usd_by_kind[:-1], remainder]


def _token_counts(turns: Sequence[TurnView]) -> list[float]:
    """As TOKENS."""
    from_cache = sum(turn.cache_read_tokens for turn in turns)
    tokens_in = sum(turn.input_tokens for turn in turns)
    tokens_out = sum(turn.output_tokens for turn in turns)
    return [tokens_in - from_cache, from_cache, tokens_out]


def _format_count(tokens: float) -> str:
    return f"{tokens:,.0f}"


class _Figures(Struct, frozen=True):
    """What a picture of bars shows."""

    id: str
    """Of its element."""
    title: str
    head: str
    """Above the names."""
    series: Sequence[Series]
    format: Callable[[float], str]
    """Makes a figure a text."""


class _FigureRow(Struct, frozen=True):
    """What the picture shows of one stage or model."""

    name: str
    values: Sequence[float]
    """One of each series."""
    link: str

    @property
    def total(self) -> float:
        """Of all series."""
        return sum(self.values)


def _draw_figures(
    figures: _Figures, values_by_name: Mapping[str, list[float]], links: Mapping[str, str]
) -> Iterator[Html]:
    """Bars, the longest first, with a legend of the series that have figures, and their table; of
    nothing, nothing.
    """
    rows = []
    for name, values in values_by_name.items():
        if sum(values):
            rows.append(_FigureRow(name, values, links.get(name, "")))
    if not rows:
        return
    rows.sort(key=lambda row: (-row.total, row.name))
    used_indexes = _used_series([row.values for row in rows])
    legend = [figures.series[index] for index in used_indexes]
    heads = (figures.head, *(series.name for series in legend), "all")
    picture = svg.draw_rows(_figure_bars(figures, rows), figures.series)
    caption = svg.draw_legend(legend)
    lines = _figure_lines(figures, rows, used_indexes)
    yield svg.render_figure(figures.id, figures.title, picture, caption, heads, lines)


def _used_series(rows: Sequence[Sequence[float]]) -> list[int]:
    """The indexes of the series that have a figure in any of the rows."""
    return [index for index in range(len(rows[0])) if any(values[index] for values in rows)]


def _figure_bars(figures: _Figures, rows: Sequence[_FigureRow]) -> list[Bar]:
    """A bar for each row; of many the smaller ones are one row, without a bar: it would be longer
    than all that people compare.
    """
    if len(rows) > MOST_ROWS:
        remainder = _sum_of_others(figures, rows[MOST_ROWS - 1 :])
        return [*_figure_bars(figures, rows[: MOST_ROWS - 1]), remainder]
    bars = []
    for row in rows:
        texts = map(figures.format, row.values)
        parts = tuple(map(Part, row.values, texts))
        bars.append(Bar(row.name, parts, figures.format(row.total), row.link))
    return bars


def _figure_lines(
    figures: _Figures, rows: Sequence[_FigureRow], used_indexes: Sequence[int]
) -> list[Html]:
    """The rows of the table, with a column for each series that is used."""
    lines = []
    for row in rows[:MAX_ROWS]:
        cells = [figures.format(row.values[index]) for index in used_indexes]
        name = svg.link_text(row.name, row.link)
        lines.append(table_row((name, *cells, figures.format(row.total))))
    if len(rows) > MAX_ROWS:
        remainder = _sum_of_others(figures, rows[MAX_ROWS:])
        empty_cells = [""] * len(used_indexes)
        lines.append(table_row((remainder.name, *empty_cells, remainder.text)))
    return lines


def _sum_of_others(figures: _Figures, rows: Sequence[_FigureRow]) -> Bar:
    """A row without a bar."""
    total = sum(row.total for row in rows)
    return Bar(f"{len(rows):,} others", (), figures.format(total))


class WorkTime(Struct, frozen=True):
    """How a node spent its time."""

    stage: Stage
    spans: tuple[tuple[int, int, int], ...]
    """(start, end, index of WORK), in milliseconds since 1970, in their order."""

    def ms(self, kind: int) -> int:
        """Of one kind, from the node's start on."""
        node_start = 0
        if self.stage.time:
            node_start = self.stage.time.start
        total = 0
        for start, end, span_kind in self.spans:
            if span_kind == kind and end > node_start:
                total += end - max(start, node_start)
        return total


def _draw_time(view: View, stages: Mapping[str, Stage]) -> Iterator[Html]:
    """What the nodes did, when: a lane for each."""
    run_start, run_end = span_of_stages(view.times.values())
    times = _work_times(stages.values(), fine=max((run_end - run_start) // FINEST, 1))
    if not times:
        return
    lane_ids = _longest_nodes(view, times)
    lanes = []
    for time in times:
        if time.stage.node.id in lane_ids:
            lanes.append(_lane(time, run_start))
    kinds: set[int] = set()
    for time in times:
        kinds.update(kind for _, _, kind in time.spans)
    series = [entry for kind, entry in enumerate(WORK) if kind in kinds]
    sentence = tag("p", _time_sentence(view, times, len(lanes)), class_="none")
    caption = join_html([sentence, svg.draw_legend(series)])
    picture = svg.draw_lanes(lanes, WORK, (run_end - run_start) / 1000)
    heads = ("Node", *(entry.name for entry in WORK), "time", "waited to start")
    yield svg.render_figure("time", "Time", picture, caption, heads, map(_time_line, times))


def _work_times(stages: Iterable[Stage], *, fine: int) -> list[WorkTime]:
    """Of the nodes that began, in that order; a gate's time is that of its checks and judges."""
    times = []
    for stage in stages:
        if stage.time and stage.node.kind != "gate":
            time = _work_time(stage, fine)
            if time.spans:
                times.append(time)
    return sorted(times, key=lambda time: (time.spans[0][0], time.stage.node.id))


def _longest_nodes(view: View, times: Sequence[WorkTime]) -> set[str]:
    """Those that the run's end waited for, then those that took longest; as many as have lanes."""
    critical = set(find_critical_path(view.graph, view.times))

    def rank(time: WorkTime) -> tuple[bool, float]:
        return time.stage.node.id not in critical, -(time.stage.seconds or 0)

    return {time.stage.node.id for time in sorted(times, key=rank)[:MOST_LANES]}


def _time_sentence(view: View, times: Sequence[WorkTime], lanes: int) -> str:
    sums = []
    for kind, series in enumerate(WORK):
        ms = sum(time.ms(kind) for time in times)
        if ms:
            sums.append(f"{series.name} {format_seconds(ms / 1000)}")
    text = (
        f"The nodes took {time_taken(view)}. "
        f"Added up over {counted(len(times), 'node')}: {', '.join(sums)}."
    )
    longest = max((time.stage for time in times), key=lambda stage: stage.waited)
    wait = long_wait(longest)
    if wait:
        text += f" {longest.node.id} {wait}, the longest."
    if len(times) > lanes:
        text += f" The {len(times) - lanes:,} shortest stand in the table alone."
    return text


def _time_line(time: WorkTime) -> Html:
    stage = time.stage
    cells: list[Html | str] = []
    cells.append(tag("a", stage.node.id, href=link_to_element(node_element_id(stage.node.id))))
    for kind in range(len(WORK)):
        ms = time.ms(kind)
        cells.append(format_seconds(ms / 1000) if ms else "")
    cells.append(format_seconds(stage.seconds))
    cells.append(format_seconds(stage.waited) if stage.waited else "")
    return table_row(cells)


def _lane(time: WorkTime, run_start: int) -> Lane:
    stage = time.stage
    spans = []
    for start, end, kind in time.spans:
        text = format_seconds((end - start) / 1000)
        spans.append(Span((start - run_start) / 1000, (end - run_start) / 1000, kind, text))
    link = link_to_element(node_element_id(stage.node.id))
    if stage.turns:
        link = place_link("e", stage.turns[0].id)
    return Lane(stage.node.id, tuple(spans), format_seconds(stage.seconds), link)


class _Cover(Struct):
    """Periods in which a node did work of one kind, and the first that is not over."""

    periods: Sequence[Period]
    kind: int
    index: int = 0

    def has(self, start: int) -> bool:
        """Whether it did at that time; asked for ever later ones."""
        while self.index < len(self.periods) and self.periods[self.index][1] <= start:
            self.index += 1
        return self.index < len(self.periods) and self.periods[self.index][0] <= start


def _work_time(stage: Stage, fine: int) -> WorkTime:
    """In turns, calls of tools are tools, waits for an overloaded API waiting, the rest the model.

    Outside of its turns an agent waits. Calls that are less than `fine` apart are one.
    """
    if stage.time is None:
        return WorkTime(stage, ())
    covers = _covers(stage, stage.time, fine)
    edges: set[int] = set()
    for cover in covers:
        for period in cover.periods:
            edges.update(period)
    inside = sorted(edge for edge in edges if stage.time.added <= edge <= stage.time.end)
    spans: list[tuple[int, int, int]] = []
    for start, end in pairwise(inside):
        kind = next((cover.kind for cover in covers if cover.has(start)), None)
        if kind is None:
            continue
        if spans and spans[-1][1:] == (start, kind):
            spans[-1] = (spans[-1][0], end, kind)
        else:
            spans.append((start, end, kind))
    return WorkTime(stage, tuple(spans))


def _covers(stage: Stage, time: NodeTime, fine: int) -> list[_Cover]:
    """The kinds of work; where two overlap the first counts."""
    turns: list[Period] = []
    calls: list[Period] = []
    waits: list[Period] = []
    for turn in stage.turns:
        turns.append((turn.started, turn.ended or time.end))
        calls += [(call.start, call.end) for call in turn.calls if call.end is not None]
        waits += turn.waits
    outside = _CHECKS
    if stage.node.kind in _ASKS:
        outside = _WAITING
    return [
        _Cover(merge_periods(calls, fine), _TOOLS),
        _Cover(merge_periods(waits, fine), _WAITING),
        _Cover(merge_periods(turns), _MODEL),
        _Cover([(time.start, time.end)], outside),
        _Cover([(time.added, time.start)], _WAITING),
    ]
