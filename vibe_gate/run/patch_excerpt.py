"""What of a patch an agent is shown if it is too long: the files and hunks with findings before the
others, cut between files and hunks, and the names of the files that are left out. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from vibe_gate.domain import patch as patches
from vibe_gate.domain import paths
from vibe_gate.domain.escape import counted, list_names, without_middle

MAX_PIECE_ROWS = 200
"""Rows of a hunk that are shown or left out together: a new file is one hunk of any length."""

MAX_NAMED_FILES = 100
"""Files left out that are named."""

MAX_NAMES = 4_000
"""Characters of these names."""

MARKER_LENGTH = 60
"""Characters, about, of the line that says how many rows are left out."""

_HUNK_HEADER = re.compile(r"@@ -(\d{1,9})(?:,\d{1,9})? \+(\d{1,9})")
_ROW = re.compile(r"[^\n]*\n|[^\n]+")

LinePosition = tuple[str, int]
"""A path, as shown, and a line of that file; 0 for the file as a whole."""


class _PatchPiece(Struct, frozen=True):
    """Rows of one file's section that are shown or left out together."""

    text: str

    rows: int

    has_finding: bool
    """Whether a finding is about one of its lines."""


def fit_patch(patch: bytes, positions: Collection[LinePosition], max_length: int) -> str:
    """The whole patch, if it has at most `max_length` characters. Else that much of it: first the
    files that `positions` name, each with as much room as the others, then the other files; of a
    file that does not fit the hunks that are named, then its first and last ones. What is left out
    is counted, and files that are left out are named.
    """
    text = patch.decode("utf-8", "replace")
    if len(text) <= max_length:
        return text
    sections = {}
    for path, section in patches.by_path(patch).items():
        sections[paths.quote(path)] = section.decode("utf-8", "replace")
    named_paths = {path for path, _ in positions} & set(sections)
    parts: list[str] = []
    hidden_paths = []
    free_length = max_length
    for path in _order_paths(sections, named_paths):
        room = free_length
        if path in named_paths:
            room = free_length // len(named_paths)
            named_paths.remove(path)
        line_numbers = {number for name, number in positions if name == path}
        part = _fit_section(sections[path], line_numbers, room)
        if not part:
            hidden_paths.append(path)
        parts.append(part)
        free_length -= len(part)
    if hidden_paths:
        names = without_middle(list_names(hidden_paths, MAX_NAMED_FILES), MAX_NAMES)
        parts.append(f"[not shown: {counted(len(hidden_paths), 'file')}: {names}]\n")
    return "".join(parts)


def _order_paths(sections: dict[str, str], named_paths: Collection[str]) -> list[str]:
    """The named paths, short sections first so that what they spare is the longer ones'; then the
    others.
    """
    first_paths = sorted(named_paths, key=lambda path: (len(sections[path]), path))
    return [*first_paths, *(path for path in sections if path not in named_paths)]


def _fit_section(section: str, line_numbers: Collection[int], max_length: int) -> str:
    """One file's section, without the pieces for which there is no room; "" if there is none for
    any.
    """
    if len(section) <= max_length:
        return section
    header, *pieces = _pieces_of(section, line_numbers)
    free_length = max_length - len(header.text) - MARKER_LENGTH
    shown_positions = set()
    for position in _order_pieces(pieces):
        needed_length = len(pieces[position].text) + MARKER_LENGTH
        if needed_length <= free_length:
            shown_positions.add(position)
            free_length -= needed_length
    if not shown_positions:
        return ""
    return header.text + "".join(_excerpt_of(pieces, shown_positions))


def _order_pieces(pieces: Sequence[_PatchPiece]) -> list[int]:
    """The positions of the pieces with findings, then of the others from both ends."""
    first_positions: list[int] = []
    other_positions: list[int] = []
    for position, piece in enumerate(pieces):
        if piece.has_finding:
            first_positions.append(position)
        else:
            other_positions.append(position)
    last_position = len(pieces) - 1
    other_positions.sort(key=lambda position: min(position, last_position - position))
    return first_positions + other_positions


def _excerpt_of(pieces: Sequence[_PatchPiece], shown_positions: Collection[int]) -> Iterator[str]:
    """The shown pieces, and how many rows lie between them."""
    hidden_rows = 0
    for position, piece in enumerate(pieces):
        if position not in shown_positions:
            hidden_rows += piece.rows
            continue
        if hidden_rows:
            yield _hidden_rows_line(hidden_rows)
            hidden_rows = 0
        yield piece.text if piece.text.endswith("\n") else f"{piece.text}\n"
    if hidden_rows:
        yield _hidden_rows_line(hidden_rows)


def _hidden_rows_line(rows: int) -> str:
    return f"[{counted(rows, 'row')} of this file's patch left out here]\n"


def _pieces_of(section: str, line_numbers: Collection[int]) -> Iterator[_PatchPiece]:
    """The section's header, and its hunks, long ones in several pieces."""
    rows: list[str] = []
    has_finding = False
    old_number = new_number = 0
    for row in _ROW.findall(section):
        header = _HUNK_HEADER.match(row)
        if header or len(rows) >= MAX_PIECE_ROWS:
            yield _PatchPiece("".join(rows), len(rows), has_finding)
            rows = []
            has_finding = False
        rows.append(row)
        if header:
            old_number, new_number = int(header[1]), int(header[2])
            continue
        if row.startswith(("-", " ")):
            has_finding |= old_number in line_numbers
            old_number += 1
        if row.startswith(("+", " ")):
            has_finding |= new_number in line_numbers
            new_number += 1
    yield _PatchPiece("".join(rows), len(rows), has_finding)
