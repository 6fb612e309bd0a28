"""Figures as pictures: SVG that stands with scripts off, prints, and is the same bytes for the same
figures.

A picture is for the eye and the mouse; the table of `render_figure` says the same to keyboards and
readers of screens.
`html/app/src/page.css` has the styles, of both themes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

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

MIDDLE = 0.41
"""Of a column, in shares of the way to the next one."""

ROW, NAME, FIGURE = 24, 210, 92
"""Of a picture of rows: its height; the columns of the names and of the figures."""

WIDEST_NAME = 320
"""Of the names' column if a name needs more than `NAME`: half of the picture."""

NAME_END = 8
"""What is left between a name and its bar."""

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
    """What one colour stands for; `style` is a class of the style sheet: one of STYLES, or an
    outcome.
    """

    name: str
    style: str


class Part(Struct, frozen=True):
    """A figure of a bar. `shown` is it as text, with its unit; `link` leads to what it counts, ""
    nowhere.
    """

    value: float
    shown: str
    link: str = ""


class Bar(Struct, frozen=True):
    """A bar of parts, one of each series, None where there is no figure; `shown` is what they come
    to.

    `title`: its name in full, if `name` is short.
    """

    name: str
    parts: tuple[Part | None, ...]
    shown: str = ""
    link: str = ""
    title: str = ""


class Range(Struct, frozen=True):
    """A share with its interval."""

    name: str
    interval: Interval
    shown: str
    link: str = ""


class Dot(Struct, frozen=True):
    """A share with its interval, above what it cost in US dollars."""

    name: str
    usd: float
    interval: Interval
    shown: str
    link: str = ""


class Span(Struct, frozen=True):
    """Part of a lane, from `start` to `end` in seconds, in the colour of the series with that
    index.
    """

    start: float
    end: float
    series: int
    shown: str


class Lane(Struct, frozen=True):
    """What somebody did over time; `shown` is how long it took."""

    name: str
    spans: tuple[Span, ...]
    shown: str
    link: str = ""


def draw_columns(
    bars: Sequence[Bar], series: Sequence[Series], tick: Callable[[float], str]
) -> Html:
    """Columns side by side, each its parts one upon the other, the first at the bottom."""
    most, drawn = _most(map(_total, bars)), [_grid(bars, tick)]
    step = (WIDTH - LEFT - RIGHT) / max(len(bars), 1)
    high = HEIGHT - TOP - BOTTOM
    for at, bar in enumerate(bars):
        x, width = LEFT + at * step, max(step * 2 * MIDDLE, 1)
        ends = accumulate(map(_value, bar.parts), initial=0.0)
        for start, part, one in zip(ends, bar.parts, series, strict=False):
            if part and part.value > 0:
                length = max(part.value / most * high, 0.75)
                box = _box(x, TOP + high - start / most * high - length, width, length, one.style)
                drawn.append(_titled_part(box, bar, one, part))
    return _svg(HEIGHT, drawn)


def draw_lines(bars: Sequence[Bar], series: Sequence[Series], tick: Callable[[float], str]) -> Html:
    """A line for each series through the middles of the columns; one without parts is a gap that
    the lines cross.
    """
    most, drawn = (
        _most(_value(part) for bar in bars for part in bar.parts),
        [_grid(bars, tick, stacked=False)],
    )
    step, high = (WIDTH - LEFT - RIGHT) / max(len(bars), 1), HEIGHT - TOP - BOTTOM
    for number, one in enumerate(series):
        parts = (
            (at, bar, bar.parts[number]) for at, bar in enumerate(bars) if len(bar.parts) > number
        )
        there = [(at, bar, part) for at, bar, part in parts if part]
        places = [
            (LEFT + (at + MIDDLE) * step, TOP + high - part.value / most * high)
            for at, _, part in there
        ]
        points = " ".join(f"{coordinate(x)},{coordinate(y)}" for x, y in places)
        drawn.append(tag("polyline", points=points, class_=f"line {one.style}"))
        for (x, y), (_, bar, part) in zip(places, there, strict=True):
            dot = tag("circle", cx=coordinate(x), cy=coordinate(y), r=3, class_=one.style)
            drawn.append(_titled_part(dot, bar, one, part))
    return _svg(HEIGHT, drawn)


def draw_rows(bars: Sequence[Bar], series: Sequence[Series], most: float = 0.0) -> Html:
    """Bars one below the other, with names and figures; `most` is what a whole bar stands for, 0
    for the longest.
    """
    whole = most or _most(map(_total, bars), nice=False)
    names = _names_width(bar.name for bar in bars)
    shapes, room = list[Html](), WIDTH - names - FIGURE
    for at, bar in enumerate(bars):
        y, x = at * ROW, float(names)
        shapes += _named(bar.name, bar.shown, bar.link, y, names)
        for part, one in zip(bar.parts, series, strict=False):
            if part and part.value > 0:
                length = max(part.value / whole * room, LEAST)
                box = _box(x, y + 4, length, ROW - 8, one.style)
                shapes.append(_titled_part(box, bar, one, part))
                x += length
    return _svg(len(bars) * ROW, shapes)


def draw_lanes(found: Sequence[Lane], series: Sequence[Series], seconds: float) -> Html:
    """Lanes one below the other, above a time axis from 0 to `seconds`."""
    names = _names_width(lane.name for lane in found)
    room, base, shapes = WIDTH - names - FIGURE, len(found) * ROW, list[Html]()
    unit, name = next(one for one in TIMES if seconds > 2 * one[0] or one is TIMES[-1])
    for mark in (mark for mark in axis_ticks(seconds / unit) if mark <= seconds / unit):
        shapes += _tick_below(names + mark * unit / (seconds or 1) * room, base, f"{mark:g} {name}")
    for at, lane in enumerate(found):
        shapes += _named(lane.name, lane.shown, lane.link, at * ROW, names)
        for span in lane.spans:
            x = names + span.start / (seconds or 1) * room
            length = (span.end - span.start) / (seconds or 1) * room
            one = series[span.series]
            box = _box(x, at * ROW + 4, max(length, LEAST), ROW - 8, one.style)
            shapes.append(add_title(box, f"{lane.name}, {one.name}: {span.shown}", lane.link))
    return _svg(base + BOTTOM, shapes)


def draw_ranges(found: Sequence[Range]) -> Html:
    """Shares from 0 to 1 as dots upon their intervals, one below the other."""
    names = _names_width(share_range.name for share_range in found)
    room, shapes = WIDTH - names - FIGURE, list[Html]()
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        shapes += _tick_below(names + share * room, len(found) * ROW, f"{share:.0%}")
    for at, share_range in enumerate(found):
        y, interval = at * ROW + ROW / 2, share_range.interval
        value = interval.value
        shapes += _named(share_range.name, share_range.shown, share_range.link, at * ROW, names)
        start, end = names + interval.low * room, names + interval.high * room
        reach = tag(
            "line",
            x1=coordinate(start),
            x2=coordinate(end),
            y1=coordinate(y),
            y2=coordinate(y),
            class_="reach",
        )
        dot = tag(
            "circle", cx=coordinate(names + value * room), cy=coordinate(y), r=4.5, class_="s0"
        )
        shapes.append(
            add_title(
                join_html([reach, dot]),
                f"{share_range.name}: {share_range.shown}",
                share_range.link,
            )
        )
    return _svg(len(found) * ROW + BOTTOM, shapes)


def draw_dots(found: Sequence[Dot]) -> Html:
    """Shares from 0 to 1 with their intervals, each above its cost, with its name beside it."""
    marks, base, high, room = (
        axis_ticks(max(one.usd for one in found)),
        HEIGHT - BOTTOM,
        HEIGHT - TOP - BOTTOM,
        WIDTH - LEFT,
    )
    drawn, names = list[Html](), list[tuple[float, float, float]]()
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = base - share * high
        drawn.append(
            tag("line", x1=LEFT, x2=WIDTH, y1=coordinate(y), y2=coordinate(y), class_="grid")
        )
        drawn.append(
            tag("text", f"{share:.0%}", x=LEFT - 6, y=coordinate(y + 3.5), class_="tick end")
        )
    across = room * 0.96 / (marks[-1] or 1)  # the last figure stays inside
    for mark in marks:
        drawn.append(
            tag(
                "text",
                f"${mark:g}",
                x=coordinate(LEFT + mark * across),
                y=HEIGHT - 6,
                class_="tick middle",
            )
        )
    for one in found:
        x, y = LEFT + one.usd * across, base - one.interval.value * high
        low, top = base - one.interval.low * high, base - one.interval.high * high
        shown = cut_text(one.name, NAME_CHARS)
        long = CHAR * len(shown)
        to_left = x + 9 + long > WIDTH
        start = x - 9 - long if to_left else x + 9
        at = _free(names, start, start + long, y + 4)
        names.append((start, start + long, at))
        name = tag(
            "text",
            shown,
            x=coordinate(x - 9 if to_left else x + 9),
            y=coordinate(at),
            class_="end" if to_left else None,
        )
        reach = tag(
            "line",
            x1=coordinate(x),
            x2=coordinate(x),
            y1=coordinate(low),
            y2=coordinate(top),
            class_="reach",
        )
        dot = tag("circle", cx=coordinate(x), cy=coordinate(y), r=4.5, class_="s0")
        drawn.append(add_title(join_html([reach, dot, name]), f"{one.name}: {one.shown}", one.link))
    return _svg(HEIGHT, drawn)


def _free(taken: Sequence[tuple[float, float, float]], start: float, end: float, y: float) -> float:
    """The nearest line for a name from start to end, upwards from the bottom half and downwards
    from the top half.
    """
    step = -LINE if y > HEIGHT / 2 else LINE
    while any(start < right and left < end and abs(y - line) < LINE for left, right, line in taken):
        y += step
    return y


def draw_legend(series: Iterable[Series]) -> Html:
    """What the colours stand for."""
    made = (tag("li", tag("span", "", class_=f"key {one.style}"), one.name) for one in series)
    return tag("ul", *made, class_="keys-of")


def render_figure(
    name: str,
    title: str,
    drawn: Html,
    told: Html | None,
    heads: Sequence[str],
    lines: Iterable[Html],
) -> Html:
    """A picture with its title, a legend or a sentence, and the same figures as a table that opens.
    `name`: its id.
    """
    caption = tag("figcaption", tag("h3", title), told)
    figures = tag(
        "details", tag("summary", "Figures"), render_html_table(heads, lines, class_="figures")
    )
    return tag("figure", caption, drawn, figures, id=name, aria_label=title)


def link_text(text: str, link: str) -> Html | str:
    """A text that leads somewhere, if it does."""
    return tag("a", text, href=link) if link else text


def _value(part: Part | None) -> float:
    return part.value if part else 0.0


def _total(bar: Bar) -> float:
    return sum(map(_value, bar.parts))


def _most(values: Iterable[float], *, nice: bool = True) -> float:
    """The upper end of an axis; 1 if there is nothing to show."""
    most = max(values, default=0.0)
    return (axis_ticks(most)[-1] if nice else most) or 1.0


def axis_ticks(most: float) -> list[float]:
    """Four steps or so of 1, 2 or 5 times a power of ten, from 0 to `most` or just above; 0 alone
    if that is no figure.

    Costs that a bundle makes up can add up to infinity.
    """
    if not 0 < most < math.inf:
        return [0.0]
    power = 10.0 ** int(f"{most / 4:e}".partition("e")[2])
    step = next(one * power for one in (1, 2, 5, 10) if one * power >= most / 4 - 1e-12)
    number = 1
    while number * step < most - 1e-9:
        number += 1
    return [at * step for at in range(number + 1)]


def _grid(bars: Sequence[Bar], tick: Callable[[float], str], *, stacked: bool = True) -> Html:
    """Lines at round figures, and the names of some columns."""
    single = (_value(part) for bar in bars for part in bar.parts)
    marks = axis_ticks(max(map(_total, bars) if stacked else single, default=0.0))
    high, step = HEIGHT - TOP - BOTTOM, (WIDTH - LEFT - RIGHT) / max(len(bars), 1)
    drawn = []
    for mark in marks:
        y = TOP + high - mark / (marks[-1] or 1) * high
        drawn.append(
            tag(
                "line", x1=LEFT, x2=WIDTH - RIGHT, y1=coordinate(y), y2=coordinate(y), class_="grid"
            )
        )
        drawn.append(tag("text", tick(mark), x=LEFT - 6, y=coordinate(y + 3.5), class_="tick end"))
    every = max(1, -(-len(bars) * 62 // (WIDTH - LEFT - RIGHT)))
    for at in range(0, len(bars), every):
        x = LEFT + (at + MIDDLE) * step
        drawn.append(
            tag(
                "text",
                cut_text(bars[at].name, TICK_CHARS),
                x=coordinate(x),
                y=HEIGHT - 6,
                class_="tick middle",
            )
        )
    return join_html(drawn)


def _names_width(names: Iterable[str]) -> int:
    """As wide as the longest name, within bounds."""
    longest = max((len(safe(name[:WIDEST_NAME])) for name in names), default=0)
    return min(max(NAME, longest * CHAR + NAME_END), WIDEST_NAME)


def _named(name: str, shown: str, link: str, y: float, width: int) -> list[Html]:
    """A name in a column of that width, and the figures at the right."""
    visible_name = cut_middle(name, (width - NAME_END) // CHAR)
    text = tag(
        "text", visible_name, x=width - NAME_END, y=coordinate(y + ROW / 2 + 4), class_="end"
    )
    figures = tag("text", shown, x=WIDTH, y=coordinate(y + ROW / 2 + 4), class_="tick end")
    return [add_title(text, name, link), figures]


def add_title(drawn: Html, title: str, link: str) -> Html:
    """With a title, which the mouse shows. Keyboards have the table."""
    both = join_html([tag("title", cut_text(title, MOST_TITLE)), drawn])
    return tag("a", both, href=link, tabindex=-1) if link else tag("g", both)


def _titled_part(drawn: Html, bar: Bar, series: Series, part: Part) -> Html:
    return add_title(
        drawn, f"{bar.title or bar.name}, {series.name}: {part.shown}", part.link or bar.link
    )


def _tick_below(x: float, base: float, text: str) -> Iterator[Html]:
    """A line from the top down to `base`, and what it stands for."""
    yield tag("line", x1=coordinate(x), x2=coordinate(x), y1=0, y2=base, class_="grid")
    yield tag("text", text, x=coordinate(x), y=base + 14, class_="tick middle")


def _box(x: float, y: float, width: float, height: float, style: str) -> Html:
    return tag(
        "rect",
        x=coordinate(x),
        y=coordinate(y),
        width=coordinate(width),
        height=coordinate(height),
        class_=style,
    )


def _svg(height: float, drawn: Iterable[Html]) -> Html:
    return tag(
        "svg",
        *drawn,
        viewBox=f"0 0 {WIDTH} {coordinate(height)}",
        class_="picture",
        aria_hidden="true",
    )


def cut_text(text: str, most: int) -> str:
    """At most so many characters of a text of others, with nothing hidden in them."""
    text = safe(text[: 2 * most])
    return text if len(text) <= most else f"{text[: most - 1]}…"


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
