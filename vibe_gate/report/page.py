"""Fitting rows of text to a page: what is cut, what is wrapped, what is left out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text


class Row(NamedTuple):
    """One row of a page.

    `rank`: how soon it is left out, or stays on one line, where lines are short (0 last). `indent`: columns before
    its second and further lines. `whole`: never cut; the terminal breaks it (a path that is to be copied).
    """

    rank: int
    line: Text
    indent: int = 4
    whole: bool = False


def height(lines: Iterable[Text], columns: int) -> int:
    """Lines of the terminal that these take, those included that the terminal breaks itself."""
    return sum(max(1, -(-cell_len(line.plain) // columns)) for line in lines)


def keep(rows: Sequence[Row], room: int, what: str) -> list[Row]:
    """The rows of the lowest ranks that fit `room` lines, in their order, and a last row that counts the others."""
    if len(rows) <= room:
        return list(rows)
    kept = sorted(sorted(range(len(rows)), key=lambda index: (rows[index].rank, index))[: max(room - 1, 0)])
    missing = Text(f"  … and {len(rows) - len(kept)} more {what}: see summary.json in the bundle", "dim")
    return [*(rows[index] for index in kept), Row(0, missing)]


def lay_out(rows: Sequence[Row], columns: int, spare: int | None) -> list[Text]:
    """The rows as lines of at most `columns`.

    The lowest ranks are wrapped as long as `spare` lines are left for that (None: without end); what does not fit
    then is cut at its end.
    """
    laid: dict[int, list[Text]] = {}
    for index in sorted(range(len(rows)), key=lambda index: (rows[index].rank, index)):
        row = rows[index]
        lines = [row.line] if row.whole else wrap(row.line, columns, row.indent)
        more = len(lines) - 1
        if spare is not None and more > spare:
            lines, more = [fit(row.line, columns)], 0
        spare = None if spare is None else spare - more
        laid[index] = lines
    return [line for index in range(len(rows)) for line in laid[index]]


def fit(line: Text, columns: int) -> Text:
    """The line, cut to the columns with an ellipsis."""
    if cell_len(line.plain) <= columns:
        return line
    cut = line[: len(set_cell_size(line.plain, columns - 1).rstrip())]
    cut.append("…")
    return cut


def crop(text: str, columns: int) -> str:
    """The text, cut to the columns with an ellipsis."""
    return text if cell_len(text) <= columns else set_cell_size(text, columns - 1) + "…"


def wrap(line: Text, columns: int, indent: int) -> list[Text]:
    """The line broken between words into lines of at most `columns`; a word that is too long is cut."""
    if cell_len(line.plain) <= columns:
        return [line]
    indent = min(indent, columns // 2)
    pieces = line.divide(_breaks(line.plain, columns, indent))
    lines = [pieces[0], *(Text(" " * indent).append_text(piece) for piece in pieces[1:])]
    for piece in lines:
        piece.rstrip()
    return [fit(piece, columns) for piece in lines]


def _breaks(text: str, columns: int, indent: int) -> list[int]:
    """Offsets of the words that begin a new line."""
    offsets: list[int] = []
    used, position = 0, 0
    for word in text.split(" "):
        width = cell_len(word)
        if used > indent and used + width > columns and word:
            offsets.append(position)
            used = indent
        used += width + 1
        position += len(word) + 1
    return offsets
