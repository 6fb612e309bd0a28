"""Rows of the verdict screen, and how they are broken and cut to the width of a terminal. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from vibe_gate.domain.escape import expression, safe
from vibe_gate.domain.verdict import CheckedEvidence

LABEL = 10
"""Columns of a label such as "change" before its text."""

LEVEL_MARKS = {"failure": ("✗", "red"), "warning": ("!", "yellow"), "notice": ("·", "dim")}
"""The mark of a finding's level, and its colour."""

_SPACES = expression(r"\s{2,}")


class ScreenRow(Struct, frozen=True):
    """One row of the screen."""

    rank: int
    """How soon it is left out; 0 last."""
    line: Text
    indent: int = 4
    """Columns before its second and further lines."""
    is_uncut: bool = False
    """Never cut: the terminal breaks it (a path that is to be copied)."""


def fact_row(label: str, text: str, style: str = "", *, is_uncut: bool = False) -> ScreenRow:
    """A label and its text."""
    line = Text.assemble((f"  {label}".ljust(LABEL), "dim"), (text, style))
    return ScreenRow(0, line, LABEL, is_uncut=is_uncut)


def quote_evidence(evidence: CheckedEvidence) -> Text:
    """A quoted line with its number."""
    return _quote_behind(f"{evidence.line:>7}", evidence)


def quote_unnumbered(evidence: CheckedEvidence) -> Text:
    """A quoted line whose number the row above has."""
    return _quote_behind(" " * 7, evidence)


def _quote_behind(margin: str, evidence: CheckedEvidence) -> Text:
    side = "|"
    if evidence.side == "before":
        side = "-"
    quote = evidence.quote.replace("\t", "    ").rstrip()
    return Text.assemble((f"{margin} {side} ", "dim"), safe(quote))


def visible_path(path: str) -> str:
    """The path on one line; spaces in a row are written out, else a terminal that breaks a wide
    line shows two.
    """
    return _SPACES.sub(lambda run: "".join(f"\\u{ord(space):04x}" for space in run[0]), safe(path))


def break_rows(rows: Sequence[ScreenRow], columns: int) -> list[Text]:
    """The rows as lines of at most `columns`, but for those that are `is_uncut`."""
    lines = []
    for row in rows:
        if row.is_uncut:
            lines.append(row.line)
        else:
            lines += _break_line(row.line, columns, row.indent)
    return lines


def cut_line(line: Text, columns: int) -> Text:
    """The line, cut to the columns with an ellipsis."""
    line.truncate(columns, overflow="ellipsis")
    return line


def crop_text(text: str, columns: int) -> str:
    """The text, cut to the columns with an ellipsis."""
    if cell_len(text) <= columns:
        return text
    return set_cell_size(text, columns - 1) + "…"


def _break_line(line: Text, columns: int, indent: int) -> list[Text]:
    """The line broken between words into lines of at most `columns`; a word that is too long is
    cut.
    """
    indent = min(indent, columns // 2)
    offsets: list[int] = []
    used_columns, position = 0, 0
    for word in line.plain.split(" "):
        width = cell_len(word)
        if word and used_columns > indent and used_columns + width > columns:
            offsets.append(position)
            used_columns = indent
        used_columns += width + 1
        position += len(word) + 1
    first, *further_pieces = line.divide(offsets)
    lines = [first]
    for piece in further_pieces:
        lines.append(Text(" " * indent).append_text(piece))
    for piece in lines:
        piece.rstrip()
    return [cut_line(piece, columns) for piece in lines]
