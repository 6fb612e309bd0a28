"""The screen of a terminal, as far as pytest and the line below it need one."""

from __future__ import annotations

import re

_SEQUENCE = re.compile(
    r"\x1b(?:\[(?P<number>[\d;]*)(?P<final>[A-Za-z])|(?P<single>[78D]))|(?P<char>.)", re.S
)


class Screen:
    """Rows of text with a cursor; what scrolls out at the top is kept in `history`."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns = columns
        self.history: list[str] = []
        self.below_cursor: list[str] = []
        """What stood in the row below the cursor each time that this was put back."""
        self._rows = [[" "] * columns for _ in range(rows)]
        self._row = self._column = 0
        self._saved = (0, 0)
        self.has_colour = False

    def feed(self, text: str) -> None:
        for match in _SEQUENCE.finditer(text):
            if match["char"]:
                self._put(match["char"])
            else:
                self._obey(match["single"] or match["final"], match["number"])

    def text(self) -> str:
        """All rows, from the first that was written."""
        return "\n".join([*self.history, *map(self._line, range(len(self._rows)))]).rstrip()

    def _line(self, row: int) -> str:
        return "".join(self._rows[row]).rstrip()

    def _put(self, char: str) -> None:
        if char == "\r":
            self._column = 0
        elif char == "\n":
            self._index()
        else:
            if self._column == self.columns:
                self._column = 0
                self._index()
            self._rows[self._row][self._column] = char
            self._column += 1

    def _index(self) -> None:
        if self._row == len(self._rows) - 1:
            self.history.append(self._line(0))
            self._rows = [*self._rows[1:], [" "] * self.columns]
        else:
            self._row += 1

    def _obey(self, letter: str, number: str) -> None:
        if letter == "7":
            self._saved = (self._row, self._column)
        elif letter == "8":
            self._row, self._column = self._saved
            self.below_cursor.append(self._line(self._row + 1))
        elif letter == "D":
            self._index()
        elif letter == "A":
            self._row = max(self._row - 1, 0)
        elif letter == "B":
            self._row = min(self._row + 1, len(self._rows) - 1)
        elif letter == "K":
            assert number == "2"
            self._rows[self._row] = [" "] * self.columns
        else:
            assert letter == "m", f"a sequence that this screen does not know: {letter}"
            self.has_colour = True
