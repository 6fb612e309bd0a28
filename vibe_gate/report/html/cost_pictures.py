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
from vibe_gate.report.html.view import MAX_ROWS, TurnView, View
from vibe_gate.report.markup import Html, join_html, table_row, tag
from vibe_gate.report.svg import Bar, Lane, Part, Series, Span
from vibe_gate.report.waits import merge_periods

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


def render_cost_pictures(view: View, known: Mapping[str, Stage]) -> Iterator[Html]:
    """Dollars by stage and by model, tokens by stage, and the run's time."""
    recorded = view.summary is not None and queries.is_from_recording(view.summary)
    when = " when the answers were recorded" if recorded else ""
    links = {name: link_to_element(node_element_id(name)) for name in known}
    whose = _whose(view.graph) if len(known) > MOST_ROWS else {}
    by_stage = _summed(
        {name: _by_kind(stage, _usd(stage, recorded)) for name, stage in known.items()}, whose
    )
    by_model = _by_model(view, known, recorded)
    tokens = _summed({name: _tokens_of(stage.turns) for name, stage in known.items()}, whose)
    yield from _rows(
        "cost-stages", f"US dollars by stage{when}", by_stage, KINDS, format_stage_dollars, links
    )
    yield from _rows(
        "cost-models", f"US dollars by model{when}", by_model, KINDS, format_stage_dollars, {}
    )
    yield from _rows("tokens", "Tokens by stage", tokens, TOKENS, _count, links)
    yield from _time(view, known)


def _whose(graph: Graph) -> dict[str, str]:
    """The node that stands for a folded one in the picture of the graph."""
    if not is_foldable(graph):
        return {}
    return {name: fold.node for fold in fold_graph(graph)[1] for name in fold.nodes}


def _summed(figures: Mapping[str, list[float]], whose: Mapping[str, str]) -> dict[str, list[float]]:
    """Figures of nodes as those of what stands for them."""
    sums: dict[str, list[float]] = {}
    for name, each in figures.items():
        own = sums.setdefault(whose.get(name, name), [0.0] * len(each))
        own[:] = [one + other for one, other in zip(own, each, strict=True)]
    return sums


def _usd(stage: Stage, recorded: bool) -> float:
    return sum(turn.usd or 0.0 for turn in stage.turns) if recorded else stage.usd or 0.0


def _by_kind(stage: Stage, usd: float) -> list[float]:
    return [usd if stage.kind == kind.name else 0.0 for kind in KINDS]


def _by_model(view: View, known: Mapping[str, Stage], recorded: bool) -> dict[str, list[float]]:
    """Dollars of each model by kind. What the summary has of it beyond that of the turns cannot be
    told apart.
    """
    totals = {} if recorded or view.summary is None else dict(view.summary.cost.by_model)
    found: dict[str, list[float]] = {name: [0.0] * len(KINDS) for name in totals}
    for stage in known.values():
        for turn in stage.turns:
            if turn.model and turn.usd:
                own = found.setdefault(turn.model, [0.0] * len(KINDS))
                at = next(number for number, kind in enumerate(KINDS) if kind.name == stage.kind)
                own[at] += turn.usd
    for model, total in totals.items():
        own = found[model]
        if sum(own) > total * 1.001:  # its turns asked other models, too
            found[model] = [0.0] * (len(KINDS) - 1) + [total]
        else:
            own[-1] = total - sum(own) if total - sum(own) > total * 0.001 else 0.0
    return {model: own for model, own in found.items() if sum(own)}


def _tokens_of(turns: Iterable[TurnView]) -> list[float]:
    read = sum(turn.cache_read_tokens for turn in turns)
    return [
        sum(turn.input_tokens for turn in turns) - read,
        read,
        sum(turn.output_tokens for turn in turns),
    ]


def _count(tokens: float) -> str:
    return f"{tokens:,.0f}"


def _rows(
    name: str,
    title: str,
    figures: Mapping[str, list[float]],
    series: Sequence[Series],
    told: Callable[[float], str],
    links: Mapping[str, str],
) -> Iterator[Html]:
    """Bars, the longest first, with a legend of the series that have figures, and their table; of
    nothing, nothing.
    """
    ranked = sorted(
        (one for one, each in figures.items() if sum(each)),
        key=lambda one: (-sum(figures[one]), one),
    )
    if not ranked:
        return
    bars = [
        Bar(
            one,
            tuple(Part(each, told(each)) for each in figures[one]),
            told(sum(figures[one])),
            links.get(one, ""),
        )
        for one in ranked[:MAX_ROWS]
    ]
    used = [at for at in range(len(series)) if any(figures[one][at] for one in ranked)]
    lines = [
        table_row(
            (
                svg.link_text(bar.name, bar.link),
                *(told(figures[bar.name][at]) for at in used),
                bar.text,
            )
        )
        for bar in bars
    ]
    if left := ranked[MAX_ROWS:]:
        others = _others(left, figures, told)
        lines.append(table_row((others.name, *("" for _ in used), others.text)))
    shown = bars if len(bars) <= MOST_ROWS else bars[: MOST_ROWS - 1]
    if left := ranked[len(shown) :]:  # one bar would be longer than all that people compare
        shown = [*shown, _others(left, figures, told)]
    legend = [series[at] for at in used]
    head = "Stage" if links else "Model"
    heads = (head, *(one.name for one in legend), "all")
    yield svg.render_figure(
        name, title, svg.draw_rows(shown, series), svg.draw_legend(legend), heads, lines
    )


def _others(
    names: Sequence[str], figures: Mapping[str, list[float]], told: Callable[[float], str]
) -> Bar:
    return Bar(f"{len(names):,} others", (), told(sum(sum(figures[name]) for name in names)))


class Worked(Struct, frozen=True):
    """How a node spent its time: (start, end, index of WORK), in milliseconds since 1970, in their
    order.
    """

    stage: Stage
    spans: tuple[tuple[int, int, int], ...]

    def ms(self, kind: int) -> int:
        """Of one kind, from the node's start on."""
        begun = self.stage.time.start if self.stage.time else 0
        return sum(
            end - max(start, begun) for start, end, of in self.spans if of == kind and end > begun
        )


def _time(view: View, known: Mapping[str, Stage]) -> Iterator[Html]:
    begun, ended = span_of_stages(view.times.values())
    fine = max((ended - begun) // FINEST, 1)
    worked = [
        _worked(stage, fine) for stage in known.values() if stage.time and stage.node.kind != "gate"
    ]
    worked = sorted(
        (one for one in worked if one.spans), key=lambda one: (one.spans[0][0], one.stage.node.id)
    )
    if not worked:
        return
    waited = set(find_critical_path(view.graph, view.times))
    ranked = sorted(
        worked, key=lambda one: (one.stage.node.id not in waited, -(one.stage.seconds or 0))
    )
    kept = {one.stage.node.id for one in ranked[:MOST_LANES]}
    lanes = [_lane(one, begun) for one in worked if one.stage.node.id in kept]
    drawn = svg.draw_lanes(lanes, WORK, (ended - begun) / 1000)
    sums = [sum(one.ms(kind) for one in worked) for kind in range(len(WORK))]
    told = ", ".join(
        f"{one.name} {format_seconds(ms / 1000)}" for one, ms in zip(WORK, sums, strict=True) if ms
    )
    less = (
        f" The {len(worked) - len(lanes):,} shortest stand in the table alone."
        if len(worked) > len(lanes)
        else ""
    )
    about = (
        f"The nodes took {time_taken(view)}. "
        f"Added up over {counted(len(worked), 'node')}: {told}.{_longest_wait(worked)}{less}"
    )
    shown = {kind for one in worked for *_, kind in one.spans}
    series = [one for kind, one in enumerate(WORK) if kind in shown]
    heads = ("Node", *(one.name for one in WORK), "time", "waited to start")
    yield svg.render_figure(
        "time",
        "Time",
        drawn,
        join_html([tag("p", about, class_="none"), svg.draw_legend(series)]),
        heads,
        map(_time_line, worked),
    )


def _longest_wait(worked: Sequence[Worked]) -> str:
    longest = max((one.stage for one in worked), key=lambda stage: stage.waited)
    return f" {longest.node.id} {wait}, the longest." if (wait := long_wait(longest)) else ""


def _time_line(one: Worked) -> Html:
    cells = (format_seconds(ms / 1000) if (ms := one.ms(kind)) else "" for kind in range(len(WORK)))
    name, waited = one.stage.node.id, one.stage.waited
    ends = format_seconds(one.stage.seconds), format_seconds(waited) if waited else ""
    return table_row((tag("a", name, href=link_to_element(node_element_id(name))), *cells, *ends))


def _lane(one: Worked, begun: int) -> Lane:
    stage = one.stage
    spans = tuple(
        Span(
            (start - begun) / 1000, (end - begun) / 1000, kind, format_seconds((end - start) / 1000)
        )
        for start, end, kind in one.spans
    )
    link = (
        place_link("e", stage.turns[0].id)
        if stage.turns
        else link_to_element(node_element_id(stage.node.id))
    )
    return Lane(stage.node.id, spans, format_seconds(stage.seconds), link)


def _worked(stage: Stage, fine: int) -> Worked:
    """In turns, calls of tools are tools, waits for an overloaded API waiting, the rest the model.

    Outside of its turns an agent waits. Calls that are less than `fine` apart are one.
    """
    time = stage.time
    if time is None:
        return Worked(stage, ())
    turns = [(turn.started, turn.ended or time.end) for turn in stage.turns]
    calls = [
        (call.start, call.end)
        for turn in stage.turns
        for call in turn.calls
        if call.end is not None
    ]
    waits = [wait for turn in stage.turns for wait in turn.waits]
    outside = _WAITING if stage.node.kind in _ASKS else _CHECKS
    covers = [
        (merge_periods(calls, fine), _TOOLS),
        (merge_periods(waits, fine), _WAITING),
        (merge_periods(turns), _MODEL),
        ([(time.start, time.end)], outside),
        ([(time.added, time.start)], _WAITING),
    ]
    edges = sorted({edge for intervals, _ in covers for interval in intervals for edge in interval})
    edges = [edge for edge in edges if time.added <= edge <= time.end]
    spans: list[tuple[int, int, int]] = []
    at = [0] * len(covers)
    for start, end in pairwise(edges):
        for number, (intervals, kind) in enumerate(covers):
            while at[number] < len(intervals) and intervals[at[number]][1] <= start:
                at[number] += 1
            if at[number] < len(intervals) and intervals[at[number]][0] <= start:
                if spans and spans[-1][1:] == (start, kind):
                    spans[-1] = (spans[-1][0], end, kind)
                else:
                    spans.append((start, end, kind))
                break
    return Worked(stage, tuple(spans))
