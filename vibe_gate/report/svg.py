"""Figures as pictures: SVG that stands with scripts off, prints, and is the same bytes for the same
figures.

A picture is for the eye and the mouse; the table of `render_figure` says the same to keyboards and
readers of screens.
`html/app/src/page.css` has the styles, of both themes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from vibe_gate.domain.escape import safe
from vibe_gate.domain.interval import Interval
from vibe_gate.report.markup import Html, join_html, render_html_table, tag

WIDTH, HEIGHT = 640, 190
"""Of a picture, in the units of its own that a browser scales; one of rows is as high as its
rows.
"""

LEFT, RIGHT, TOP, BOTTOM = 52, 8, 8, 22
"""Room around the plot, for ticks."""

BOTTOM_Y = HEIGHT - BOTTOM
"""Where 0 stands."""

MIDDLE = 0.41
"""Of a column, in shares of the way to the next one."""

ROW, NAME, FIGURE = 24, 210, 92
"""Of a picture of rows: its height; the columns of the names and of the figures."""

WIDEST_NAME = 320
"""Of the names' column if a name needs more than `NAME`: half of the picture."""

NAME_END = 8
"""What is left between a name and its bar."""

NAME_BELOW = 62
"""As wide is a column's name below it, with the room beside it."""

LINE, CHAR = 13, 7
"""From one name to the next below it; what a character of a name is wide, at most as a rule."""

LEAST = 2
"""As long is a bar or a span at least: the line around it takes some."""

NAME_CHARS, TICK_CHARS = 30, 10
"""Characters of a row's name and below a column; a title has all of a name."""

MOST_TITLE = 300
"""Characters of a title."""

TIMES = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (0.001, "ms"))
"""Units of a time axis, in seconds."""

STYLES = ("s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7")
"""Colours that people tell apart who do not see all; the last is for what is left over."""


class Series(Struct, frozen=True):
    """What one colour stands for."""

    name: str
    style: str
    """A class of the style sheet: one of STYLES, or an outcome."""


class Part(Struct, frozen=True):
    """A figure of a bar."""

    value: float
    text: str
    """The value as text, with its unit."""
    link: str = ""
    """To what it counts; "" nowhere."""


class Bar(Struct, frozen=True):
    """A bar of parts."""

    name: str
    parts: tuple[Part | None, ...]
    """One of each series, None where there is no figure."""
    text: str = ""
    """What the parts come to, as text."""
    link: str = ""
    title: str = ""
    """Its name in full, if `name` is short."""


class Range(Struct, frozen=True):
    """A share with its interval."""

    name: str
    interval: Interval
    text: str
    link: str = ""


class Dot(Struct, frozen=True):
    """A share with its interval, above what it cost in US dollars."""

    name: str
    usd: float
    interval: Interval
    text: str
    link: str = ""


class Span(Struct, frozen=True):
    """Part of a lane."""

    start: float
    """In seconds."""
    end: float
    """In seconds."""
    series: int
    """The index of the series whose colour it has."""
    text: str


class Lane(Struct, frozen=True):
    """What somebody did over time."""

    name: str
    spans: tuple[Span, ...]
    text: str
    """How long it took, as text."""
    link: str = ""


class _RowPlot(Struct, frozen=True):
    """Where values stand in a picture of rows: at the right of the names."""

    left: int
    """Where 0 stands."""
    scale: float
    """As wide is one of the value."""

    def x(self, value: float) -> float:
        """Of the value."""
        return self.left + value * self.scale


class _Plot(Struct, frozen=True):
    """Where columns and lines stand."""

    bars: int
    """So many steps there are to the right."""
    most: float
    """The value at the top; 0 is at the bottom."""

    @property
    def step(self) -> float:
        """From one column to the next."""
        return (WIDTH - LEFT - RIGHT) / max(self.bars, 1)

    def x(self, index: float) -> float:
        """Of the column with that index."""
        return LEFT + index * self.step

    def y(self, value: float) -> float:
        """Of the value."""
        return BOTTOM_Y - self.height(value)

    def height(self, value: float) -> float:
        """As high is a column of the value."""
        return value / self.most * (HEIGHT - TOP - BOTTOM)


def draw_columns(
    bars: Sequence[Bar], series: Sequence[Series], tick: Callable[[float], str]
) -> Html:
    """Columns side by side, each its parts one upon the other, the first at the bottom."""
    plot = _Plot(len(bars), _axis_end(map(_total, bars)))
    shapes = [_grid(bars, tick)]
    width = max(plot.step * 2 * MIDDLE, 1)
    for index, bar in enumerate(bars):
        value_below = 0.0
        for part, part_series in _visible_parts(bar, series):
            height = max(plot.height(part.value), 0.75)
            top = plot.y(value_below) - height
            box = _box(plot.x(index), top, width, height, part_series.style)
            shapes.append(_titled_part(box, bar, part_series, part))
            value_below += part.value
    return _svg(HEIGHT, shapes)


def _visible_parts(bar: Bar, series: Sequence[Series]) -> Iterator[tuple[Part, Series]]:
    """The parts of a bar that have a length, each with its series."""
    for part, part_series in zip(bar.parts, series, strict=False):
        if part and part.value > 0:
            yield part, part_series


def draw_lines(bars: Sequence[Bar], series: Sequence[Series], tick: Callable[[float], str]) -> Html:
    """A line for each series through the middles of the columns; one without parts is a gap that
    the lines cross.
    """
    plot = _Plot(len(bars), _axis_end(_values(bars)))
    shapes = [_grid(bars, tick, stacked=False)]
    for number, line_series in enumerate(series):
        shapes += _line_through(bars, number, line_series, plot)
    return _svg(HEIGHT, shapes)


def _line_through(bars: Sequence[Bar], number: int, series: Series, plot: _Plot) -> list[Html]:
    """The line of the series with that number, and a dot at each of its parts."""
    points = []
    dots = []
    for index, bar in enumerate(bars):
        if number >= len(bar.parts):
            continue
        part = bar.parts[number]
        if part is None:
            continue
        x = coordinate(plot.x(index + MIDDLE))
        y = coordinate(plot.y(part.value))
        points.append(f"{x},{y}")
        dot = tag("circle", cx=x, cy=y, r=3, class_=series.style)
        dots.append(_titled_part(dot, bar, series, part))
    line = tag("polyline", points=" ".join(points), class_=f"line {series.style}")
    return [line, *dots]


def draw_rows(bars: Sequence[Bar], series: Sequence[Series], most: float = 0.0) -> Html:
    """Bars one below the other, with names and figures; `most` is what a whole bar stands for, 0
    for the longest.
    """
    most = most or max(map(_total, bars), default=0.0) or 1.0
    name_width = _names_width(bar.name for bar in bars)
    bar_width = WIDTH - name_width - FIGURE
    shapes: list[Html] = []
    for index, bar in enumerate(bars):
        shapes += _row_texts(bar.name, bar.text, bar.link, index, name_width)
        x = float(name_width)
        for part, part_series in _visible_parts(bar, series):
            length = max(part.value / most * bar_width, LEAST)
            box = _box(x, index * ROW + 4, length, ROW - 8, part_series.style)
            shapes.append(_titled_part(box, bar, part_series, part))
            x += length
    return _svg(len(bars) * ROW, shapes)


def draw_lanes(lanes: Sequence[Lane], series: Sequence[Series], seconds: float) -> Html:
    """Lanes one below the other, above a time axis from 0 to `seconds`."""
    name_width = _names_width(lane.name for lane in lanes)
    plot = _RowPlot(name_width, (WIDTH - name_width - FIGURE) / (seconds or 1))
    bottom = len(lanes) * ROW
    shapes = [*_time_ticks(seconds, bottom, plot)]
    for index, lane in enumerate(lanes):
        shapes += _row_texts(lane.name, lane.text, lane.link, index, name_width)
        for span in lane.spans:
            shapes.append(_span_box(lane, span, index, series[span.series], plot))
    return _svg(bottom + BOTTOM, shapes)


def _time_ticks(seconds: float, bottom: float, plot: _RowPlot) -> Iterator[Html]:
    """Lines at round times, down to `bottom`."""
    unit, unit_name = _time_unit(seconds)
    units = seconds / unit
    for mark in axis_ticks(units):
        if mark <= units:
            yield from _tick_below(plot.x(mark * unit), bottom, f"{mark:g} {unit_name}")


def _span_box(lane: Lane, span: Span, index: int, series: Series, plot: _RowPlot) -> Html:
    """A part of the lane with that index."""
    length = max((span.end - span.start) * plot.scale, LEAST)
    box = _box(plot.x(span.start), index * ROW + 4, length, ROW - 8, series.style)
    return add_title(box, f"{lane.name}, {series.name}: {span.text}", lane.link)


def _time_unit(seconds: float) -> tuple[float, str]:
    """The largest unit of which there are more than two; the smallest, if there is none."""
    for unit, name in TIMES:
        if seconds > 2 * unit:
            return unit, name
    return TIMES[-1]


def draw_ranges(ranges: Sequence[Range]) -> Html:
    """Shares from 0 to 1 as dots upon their intervals, one below the other."""
    name_width = _names_width(share_range.name for share_range in ranges)
    plot = _RowPlot(name_width, WIDTH - name_width - FIGURE)
    bottom = len(ranges) * ROW
    shapes: list[Html] = []
    for share in SHARE_TICKS:
        shapes += _tick_below(plot.x(share), bottom, f"{share:.0%}")
    for index, share_range in enumerate(ranges):
        name, text, link = share_range.name, share_range.text, share_range.link
        shapes += _row_texts(name, text, link, index, name_width)
        drawing = _dot_upon_interval(share_range.interval, index, plot)
        shapes.append(add_title(drawing, f"{name}: {text}", link))
    return _svg(bottom + BOTTOM, shapes)


def _dot_upon_interval(interval: Interval, index: int, plot: _RowPlot) -> Html:
    """In the row with that index."""
    y = index * ROW + ROW / 2
    reach = _line(plot.x(interval.low), y, plot.x(interval.high), y)
    return join_html([reach, _dot(plot.x(interval.value), y)])


SHARE_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares that an axis of shares names."""


def draw_dots(dots: Sequence[Dot]) -> Html:
    """Shares from 0 to 1 with their intervals, each above its cost, with its name beside it."""
    shapes: list[Html] = []
    for share in SHARE_TICKS:
        shapes += _tick_beside(WIDTH, _share_y(share), f"{share:.0%}")
    marks = axis_ticks(max(dot.usd for dot in dots))
    scale = (WIDTH - LEFT) * 0.96 / (marks[-1] or 1)  # the last figure stays inside
    for mark in marks:
        mark_x = coordinate(LEFT + mark * scale)
        shapes.append(tag("text", f"${mark:g}", x=mark_x, y=HEIGHT - 6, class_="tick middle"))
    taken_lines: list[tuple[float, float, float]] = []
    for dot in dots:
        x = LEFT + dot.usd * scale
        y = _share_y(dot.interval.value)
        reach = _line(x, _share_y(dot.interval.low), x, _share_y(dot.interval.high))
        name = _name_beside(dot.name, x, y, taken_lines)
        drawing = join_html([reach, _dot(x, y), name])
        shapes.append(add_title(drawing, f"{dot.name}: {dot.text}", dot.link))
    return _svg(HEIGHT, shapes)


def _share_y(share: float) -> float:
    """Where a share stands if 1 is at the top."""
    return BOTTOM_Y - share * (BOTTOM_Y - TOP)


def _name_beside(
    name: str, x: float, y: float, taken_lines: list[tuple[float, float, float]]
) -> Html:
    """A name at the right of a dot, or at its left if there is no room; its line is added to those
    that are taken.
    """
    text = cut_text(name, NAME_CHARS)
    width = CHAR * len(text)
    is_at_left = x + 9 + width > WIDTH
    text_x = start = x + 9
    style = None
    if is_at_left:
        text_x = x - 9
        start = text_x - width
        style = "end"
    end = start + width
    line = _free_line(taken_lines, start, end, y + 4)
    taken_lines.append((start, end, line))
    return tag("text", text, x=coordinate(text_x), y=coordinate(line), class_=style)


def _free_line(
    taken_lines: Sequence[tuple[float, float, float]], start: float, end: float, y: float
) -> float:
    """The nearest line for a name from start to end, upwards from the bottom half and downwards
    from the top half. `taken_lines`: start, end and line of other names.
    """
    step = LINE
    if y > HEIGHT / 2:
        step = -LINE
    near_lines = []
    for other_start, other_end, line in taken_lines:
        if start < other_end and other_start < end:
            near_lines.append(line)
    while any(abs(y - line) < LINE for line in near_lines):
        y += step
    return y


def draw_legend(series: Iterable[Series]) -> Html:
    """What the colours stand for."""
    items = []
    for entry in series:
        key = tag("span", "", class_=f"key {entry.style}")
        items.append(tag("li", key, entry.name))
    return tag("ul", *items, class_="keys-of")


def render_figure(
    name: str,
    title: str,
    picture: Html,
    caption: Html | None,
    heads: Sequence[str],
    lines: Iterable[Html],
) -> Html:
    """A picture with its title, a legend or a sentence, and the same figures as a table that opens.
    `name`: its id.
    """
    head = tag("figcaption", tag("h3", title), caption)
    table = render_html_table(heads, lines, class_="figures")
    figures = tag("details", tag("summary", "Figures"), table)
    return tag("figure", head, picture, figures, id=name, aria_label=title)


def link_text(text: str, link: str) -> Html | str:
    """A text that leads somewhere, if it does."""
    if link:
        return tag("a", text, href=link)
    return text


def _value(part: Part | None) -> float:
    if not part:
        return 0.0
    return part.value


def _values(bars: Iterable[Bar]) -> Iterator[float]:
    """Of all parts."""
    for bar in bars:
        yield from map(_value, bar.parts)


def _axis_end(values: Iterable[float]) -> float:
    """The upper end of an axis; 1 if there is nothing to show."""
    return axis_ticks(max(values, default=0.0))[-1] or 1.0


def _total(bar: Bar) -> float:
    return sum(map(_value, bar.parts))


def axis_ticks(most: float) -> list[float]:
    """Four steps or so of 1, 2 or 5 times a power of ten, from 0 to `most` or just above; 0 alone
    if that is no figure.

    Costs that a bundle makes up can add up to infinity.
    """
    if not 0 < most < math.inf:
        return [0.0]
    power = 10.0 ** int(f"{most / 4:e}".partition("e")[2])
    step = power
    for factor in (1, 2, 5, 10):
        step = factor * power
        if step >= most / 4 - 1e-12:
            break
    number = 1
    while number * step < most - 1e-9:
        number += 1
    return [index * step for index in range(number + 1)]


def _grid(bars: Sequence[Bar], tick: Callable[[float], str], *, stacked: bool = True) -> Html:
    """Lines at round figures, and the names of some columns."""
    values: Iterable[float] = _values(bars)
    if stacked:
        values = map(_total, bars)
    marks = axis_ticks(max(values, default=0.0))
    plot = _Plot(len(bars), marks[-1] or 1)
    shapes: list[Html] = []
    for mark in marks:
        shapes += _tick_beside(WIDTH - RIGHT, plot.y(mark), tick(mark))
    return join_html([*shapes, *_column_names(bars, plot)])


def _column_names(bars: Sequence[Bar], plot: _Plot) -> Iterator[Html]:
    """The names of the columns; of many, of so many that none stands upon another."""
    columns_a_name = max(1, -(-len(bars) * NAME_BELOW // (WIDTH - LEFT - RIGHT)))
    for index in range(0, len(bars), columns_a_name):
        name = cut_text(bars[index].name, TICK_CHARS)
        x = coordinate(plot.x(index + MIDDLE))
        yield tag("text", name, x=x, y=HEIGHT - 6, class_="tick middle")


def _names_width(names: Iterable[str]) -> int:
    """As wide as the longest name, within bounds."""
    longest = max((len(safe(name[:WIDEST_NAME])) for name in names), default=0)
    return min(max(NAME, longest * CHAR + NAME_END), WIDEST_NAME)


def _row_texts(name: str, figure: str, link: str, index: int, width: int) -> list[Html]:
    """Of the row with that index, the name in a column of that width, and the figures at the
    right.
    """
    y = coordinate(index * ROW + ROW / 2 + 4)
    visible_name = cut_middle(name, (width - NAME_END) // CHAR)
    name_text = tag("text", visible_name, x=width - NAME_END, y=y, class_="end")
    figure_text = tag("text", figure, x=WIDTH, y=y, class_="tick end")
    return [add_title(name_text, name, link), figure_text]


def add_title(drawing: Html, title: str, link: str) -> Html:
    """With a title, which the mouse shows. Keyboards have the table."""
    titled = join_html([tag("title", cut_text(title, MOST_TITLE)), drawing])
    if link:
        return tag("a", titled, href=link, tabindex=-1)
    return tag("g", titled)


def _titled_part(drawing: Html, bar: Bar, series: Series, part: Part) -> Html:
    title = f"{bar.title or bar.name}, {series.name}: {part.text}"
    return add_title(drawing, title, part.link or bar.link)


def _tick_below(x: float, bottom: float, text: str) -> Iterator[Html]:
    """A line from the top down to `bottom`, and what it stands for."""
    yield tag("line", x1=coordinate(x), x2=coordinate(x), y1=0, y2=bottom, class_="grid")
    yield tag("text", text, x=coordinate(x), y=bottom + 14, class_="tick middle")


def _tick_beside(end: float, y: float, text: str) -> Iterator[Html]:
    """A line across the plot, up to `end`, and what it stands for."""
    yield tag("line", x1=LEFT, x2=end, y1=coordinate(y), y2=coordinate(y), class_="grid")
    yield tag("text", text, x=LEFT - 6, y=coordinate(y + 3.5), class_="tick end")


def _line(x: float, y: float, x_end: float, y_end: float) -> Html:
    """The reach of an interval."""
    return tag(
        "line",
        x1=coordinate(x),
        x2=coordinate(x_end),
        y1=coordinate(y),
        y2=coordinate(y_end),
        class_="reach",
    )


def _dot(x: float, y: float) -> Html:
    return tag("circle", cx=coordinate(x), cy=coordinate(y), r=4.5, class_="s0")


def _box(x: float, y: float, width: float, height: float, style: str) -> Html:
    return tag(
        "rect",
        x=coordinate(x),
        y=coordinate(y),
        width=coordinate(width),
        height=coordinate(height),
        class_=style,
    )


def _svg(height: float, shapes: Iterable[Html]) -> Html:
    box = f"0 0 {WIDTH} {coordinate(height)}"
    return tag("svg", *shapes, viewBox=box, class_="picture", aria_hidden="true")


def cut_text(text: str, most: int) -> str:
    """At most so many characters of a text of others, with nothing hidden in them."""
    text = safe(text[: 2 * most])
    if len(text) <= most:
        return text
    return f"{text[: most - 1]}…"


def cut_middle(text: str, most: int) -> str:
    """At most so many characters of both ends of a text of others: the end of a path, or of a
    criterion's name, tells it from others."""
    if len(text) > 2 * most:
        text = text[:most] + text[-most:]
    text = safe(text)
    if len(text) <= most:
        return text
    tail = most // 2
    return f"{text[: most - 1 - tail]}…{text[-tail:]}"


def coordinate(number: float) -> str:
    """A coordinate with two digits at most behind its point."""
    return f"{number:.2f}".rstrip("0").rstrip(".")
