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


def draw_sparkline(values: Sequence[float]) -> str:
    """A character a value, from nothing to the largest."""
    most = max(values, default=0)
    return "".join(
        LEVELS[max(0, round(value / most * 8) - 1)] if value > 0 else " " for value in values
    )


def draw_bar(value: float, most: float, width: int) -> str:
    """At most `width` characters; of what is not nothing, one at least."""
    return "█" * max(1, round(value / most * width)) if value > 0 and most > 0 else ""


def draw_stacked_bar(parts: Sequence[tuple[str, int]], width: int) -> list[Text]:
    """One bar of all parts, each as long as its share; nothing without parts. `draw_key` says which is
    which.
    """
    whole, text, done = sum(count for _, count in parts), Text(), 0
    columns = min(width, MOST_NAME + MOST_BAR)
    for (name, count), fill in zip(parts, _fills(len(parts)), strict=True):
        done += count
        text.append(fill * (round(done / whole * columns) - len(text)), outcome_colour(name))
    return [text] if parts else []


def draw_key(parts: Sequence[tuple[str, int]]) -> Text:
    """Numbers and names of the parts, each with what it is drawn with."""
    shown = zip(parts, _fills(len(parts)), strict=True)
    return Text(", ").join(
        Text.assemble((fill, outcome_colour(name)), f" {count:,} {name}")
        for (name, count), fill in shown
    )


def _fills(number: int) -> str:
    return "".join(FILLS[at % len(FILLS)] for at in range(number))


def draw_bar_table(
    title: str,
    head: str,
    rows: Sequence[tuple[str, str, float]],
    width: int,
    style: str = "cyan",
    most: float | None = None,
) -> list[Text]:
    """Rows of a name, its figure as text and as a bar; the names are anybody's. Nothing without
    rows.

    If it is too wide there are no bars, and then names are cut. `most`: what a whole bar stands
    for, and is then drawn to its end; else it stands for the largest figure.
    """
    if not rows:
        return []
    figures = max(len(head), *(len(figure) for _, figure, _ in rows))
    room_of_names = max(MOST_NAME, width - figures - MOST_BAR - 4)
    longest_name = min(room_of_names, width - figures - 2)
    title, *names = (fit_name(name, longest_name) for name in (title, *(row[0] for row in rows)))
    widest = max(map(cell_len, (title, *names)))
    room = min(width - widest - figures - 4, MOST_BAR)
    lines = [Text(), Text(f"{title}{' ' * (widest - cell_len(title))}  {head:>{figures}}", "bold")]
    for name, (_, figure, value) in zip(names, rows, strict=True):
        line = Text(f"{name}{' ' * (widest - cell_len(name))}  {figure:>{figures}}")
        if room >= LEAST_BAR:
            drawn = draw_bar(value, most or max(value for _, _, value in rows), room)
            line.append(f"  {drawn}".rstrip(), style)
            line.append(FILLS[-1] * (room - len(drawn) if most else 0), "dim")
        lines.append(line)
    return lines


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
