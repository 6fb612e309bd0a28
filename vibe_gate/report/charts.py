"""Figures as bars and sparklines of a terminal, a character a step; a stdout in ASCII gets
`_.-=+*%#`.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from vibe_gate.domain.escape import safe
from vibe_gate.report.outcome_words import outcome_colour

LEVELS = "▁▂▃▄▅▆▇█"
"""Of a sparkline; nothing at all is a blank."""

FILLS = "█▓▒░"
"""Of a bar's parts, for who sees no colours."""

MOST_NAME, LEAST_BAR, MOST_BAR = 44, 4, 40
"""Columns."""

BarRow = tuple[str, str, float]
"""A name, which is anybody's, its figure as text, and the figure that its bar is as long as."""


def draw_sparkline(values: Sequence[float]) -> str:
    """A character a value, from nothing to the largest."""
    most = max(values, default=0)
    line = ""
    for value in values:
        if value > 0:
            line += LEVELS[max(0, round(value / most * 8) - 1)]
        else:
            line += " "
    return line


def draw_bar(value: float, most: float, width: int) -> str:
    """At most `width` characters; of what is not nothing, one at least."""
    if value <= 0 or most <= 0:
        return ""
    return "█" * max(1, round(value / most * width))


def draw_stacked_bar(parts: Sequence[tuple[str, int]], width: int) -> list[Text]:
    """One bar of all parts, each as long as its share; nothing without parts. `draw_key` says which
    is which.
    """
    if not parts:
        return []
    columns = min(width, MOST_NAME + MOST_BAR)
    total = sum(count for _, count in parts)
    bar = Text()
    count_so_far = 0
    for (name, count), fill in zip(parts, _fills(len(parts)), strict=True):
        count_so_far += count
        length = round(count_so_far / total * columns) - len(bar)
        bar.append(fill * length, outcome_colour(name))
    return [bar]


def draw_key(parts: Sequence[tuple[str, int]]) -> Text:
    """Numbers and names of the parts, each with what it is drawn with."""
    entries = []
    for (name, count), fill in zip(parts, _fills(len(parts)), strict=True):
        entries.append(Text.assemble((fill, outcome_colour(name)), f" {count:,} {name}"))
    return Text(", ").join(entries)


def _fills(number: int) -> str:
    return "".join(FILLS[index % len(FILLS)] for index in range(number))


def draw_bar_table(
    title: str,
    head: str,
    rows: Sequence[BarRow],
    width: int,
    style: str = "cyan",
    most: float | None = None,
) -> list[Text]:
    """Rows of a name, its figure as text and as a bar. Nothing without rows.

    If it is too wide there are no bars, and then names are cut. `most`: what a whole bar stands
    for, and is then drawn to its end; else it stands for the largest figure.
    """
    if not rows:
        return []
    figure_columns = max(len(head), *(len(figure) for _, figure, _ in rows))
    room = width - figure_columns
    longest_name = min(max(MOST_NAME, room - MOST_BAR - 4), room - 2)
    title = fit_name(title, longest_name)
    names = []
    for name, _, _ in rows:
        names.append(fit_name(name, longest_name))
    name_columns = max(map(cell_len, (title, *names)))
    bar_columns = min(room - name_columns - 4, MOST_BAR)
    largest = most or max(value for _, _, value in rows)
    lines = [Text(), Text(f"{_pad(title, name_columns)}  {head:>{figure_columns}}", "bold")]
    for name, (_, figure, value) in zip(names, rows, strict=True):
        line = Text(f"{_pad(name, name_columns)}  {figure:>{figure_columns}}")
        if bar_columns >= LEAST_BAR:
            bar = draw_bar(value, largest, bar_columns)
            line.append(f"  {bar}".rstrip(), style)
            if most:
                line.append(FILLS[-1] * (bar_columns - len(bar)), "dim")
        lines.append(line)
    return lines


def _pad(text: str, columns: int) -> str:
    return text + " " * (columns - cell_len(text))


def wrap_text(text: Text, width: int) -> list[Text]:
    """Its lines, broken between words."""
    lines = [*text.wrap(Console(), width)]
    for line in lines:
        line.rstrip()
    return lines


def fit_name(name: str, columns: int) -> str:
    """Visible, and no wider."""
    text = Text(safe(name))
    text.truncate(columns, overflow="ellipsis")
    return text.plain
