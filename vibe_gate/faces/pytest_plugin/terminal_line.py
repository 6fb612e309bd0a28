"""A line below the one that pytest is writing, rewritten in place."""

from __future__ import annotations

import os
import threading

from rich.cells import cell_len, set_cell_size

DEFAULT_COLUMNS = 80
"""Of a terminal that does not say how wide it is."""

INDENT = "  "
"""Before what is said of agents."""

_MAKE_ROOM = "\x1bD\x1b[A"
"""Index and up again: scrolls if the cursor is in the last row, and leaves it in its column."""

_SAVE, _RESTORE = "\x1b7", "\x1b8"
_ROW_BELOW = "\x1b[B\r\x1b[2K"
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


class TerminalLine:
    """Writes to a terminal of its own descriptor, so that pytest's capture is left alone. Safe for
    several threads.
    """

    def __init__(self, descriptor: int, *, is_coloured: bool) -> None:
        """`descriptor`: of the terminal; it is not closed."""
        self._descriptor = descriptor
        self._is_coloured = is_coloured
        self._is_drawn = False
        self._lock = threading.Lock()

    def draw(self, name: str, start: str, end: str) -> None:
        """Show the parts; if they are too wide without `name`, and else the end of `start`."""
        columns = self._columns() - 1
        text = f"{INDENT}{name}{start}{end}"
        if cell_len(text) > columns:
            text = fit_line(f"{INDENT}{start}", end, columns)
        if self._is_coloured:
            text = f"{_DIM}{text}{_PLAIN}"
        with self._lock:
            room = "" if self._is_drawn else _MAKE_ROOM
            self._is_drawn = True
            self._write(f"{room}{_SAVE}{_ROW_BELOW}{text}{_RESTORE}")

    def erase(self) -> None:
        """Leave nothing of it."""
        with self._lock:
            if self._is_drawn:
                self._write(f"{_SAVE}{_ROW_BELOW}{_RESTORE}")
            self._is_drawn = False

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._descriptor).columns or DEFAULT_COLUMNS
        except OSError:
            return DEFAULT_COLUMNS

    def _write(self, text: str) -> None:
        try:
            os.write(self._descriptor, text.encode("utf-8", "replace"))
        except OSError:  # the terminal is gone: nobody looks
            return


def fit_line(start: str, end: str, columns: int) -> str:
    """Both parts in one line of so many cells at most; first the end of `start` is left out."""
    room = columns - cell_len(end)
    if room < 2:
        return _cut_cells(start + end, columns)
    return _cut_cells(start, room) + end


def _cut_cells(text: str, cells: int) -> str:
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, max(cells - 1, 0)).rstrip() + "…"
