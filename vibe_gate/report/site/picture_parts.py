"""The two shapes that most pictures of a site have, each with its table: columns over time, and a
bar a row. Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from msgspec import Struct

from vibe_gate.report import svg
from vibe_gate.report.markup import Html, and_more, join_html, table_row, tag
from vibe_gate.report.site.site_runs import DaySpan
from vibe_gate.report.svg import Bar, Part, Series

MOST_ROWS = 12
"""Rows of a picture; its table has a few more, and the selection above the list of runs has all."""

MOST_LINES = 100
"""Rows of a table of figures."""

FEWEST = 5
"""Runs of which a sentence compares the share or the median."""

LinkedValue = tuple[float, str]
"""A figure, and the link to the runs behind it."""


class PictureRow(Struct, frozen=True):
    """A row of a picture of rows."""

    name: str
    text: str
    """What its figures come to."""
    link: str
    values: Sequence[LinkedValue]
    """One of each series."""
    remark: str = ""
    """The cell of the table's further column."""


def draw_over_time(
    name: str,
    title: str,
    series: Sequence[Series],
    rows: Sequence[tuple[DaySpan, Sequence[LinkedValue]]],
    tick: Callable[[float], str],
    *,
    form: str = ",.0f",
    caption: Html | str | None = None,
    adds_up: bool = False,
) -> Html:
    """Columns, one for each span of time. `adds_up`: the table has a column of totals."""
    bars = []
    lines = []
    for span, values in rows:
        parts = [Part(value, format(value, form), link) for value, link in values]
        bars.append(Bar(span.name, tuple(parts), "", span.link, span.text))
        if not any(part.value for part in parts):
            continue
        cells = [_part_cell(part) for part in parts]
        if adds_up:
            total = sum(part.value for part in parts)
            cells.append(svg.link_text(format(total, form), span.link))
        lines.append(table_row((svg.link_text(span.text, span.link), *cells)))
    heads = ["Days", *(entry.name for entry in series)]
    if adds_up:
        heads.append("total")
    sentence = join_html([render_sentence(caption), svg.draw_legend(series)])
    picture = svg.draw_columns(bars, series, tick)
    return svg.render_figure(name, title, picture, sentence, heads, lines)


def draw_by_row(
    name: str,
    title: str,
    heads: Sequence[str],
    series: Sequence[Series],
    rows: Sequence[PictureRow],
    caption: Html | None = None,
) -> Html:
    """A bar for each row. `heads`: of the names, of the texts, and of the remarks if the table has
    these.
    """
    bars = []
    lines = []
    has_remarks = len(heads) > 2
    for row in rows[:MOST_LINES]:
        parts = [Part(value, f"{value:,}", link) for value, link in row.values]
        cells = [svg.link_text(row.name, row.link), row.text]
        if has_remarks:
            cells.append(row.remark)
        cells += map(_part_cell, parts)
        bars.append(Bar(row.name, tuple(parts), row.text, row.link))
        lines.append(table_row(cells))
    omission = and_more(len(rows) - MOST_ROWS, "p", class_="none")
    sentence = join_html([render_sentence(caption), svg.draw_legend(series), omission])
    picture = svg.draw_rows(bars[:MOST_ROWS], series)
    all_heads = (*heads, *(entry.name for entry in series))
    return svg.render_figure(name, title, picture, sentence, all_heads, lines)


def _part_cell(part: Part) -> Html | str:
    """A figure in the table, with the link to its runs; nothing for 0."""
    if not part.value:
        return ""
    return svg.link_text(part.text, part.link)


def render_sentence(text: Html | str | None) -> Html | None:
    """A sentence above a picture, if there is one."""
    if not text:
        return None
    return tag("p", text, class_="sentence")


def count_tick(value: float) -> str:
    """No tick between 0 and 1: there is no half a run."""
    if not value.is_integer():
        return ""
    return f"{value:,.0f}"


def quantile(values: Sequence[float], share: float) -> float:
    """Of one value at least."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[round(share * 100) - 1]
