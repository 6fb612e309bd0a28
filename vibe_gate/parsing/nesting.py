"""Definitions of a file, and which of them stands around which line, found once for all lines.

The lines at which definitions begin and end cut a file into pieces. Within a piece the definitions
around a line are the same, so one walk over the pieces answers for every line.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

MAX_DEPTH = 64
"""Definitions around a line that are considered, innermost first: more are no code of people."""


class Definition(Struct, frozen=True):
    """A function, type, constant or variable."""

    name: str
    """The last part of it; "" of a function that is an argument."""

    role: Literal["function", "type", "value"]

    first: int
    """The first line, from 1, with decorators."""

    last: int

    line: int
    """The line that has the name or, of a long declaration, its beginning."""

    body: int
    """The line on which the body begins."""

    parameters: tuple[str, ...] = ()
    """Of a function."""

    @property
    def length(self) -> int:
        """How many lines it has."""
        return self.last - self.first + 1


class Nesting:
    """The definitions around the lines of a file."""

    def __init__(self, definitions: Sequence[Definition]) -> None:
        """`definitions`: outer ones before inner ones."""
        self._definitions = definitions
        self._piece_starts: list[int] = []
        self._innermost: list[Definition | None] = []
        self._types: dict[Definition, Definition | None] = {}
        self._walk_pieces()

    def around_line(self, line: int) -> Definition | None:
        """The innermost named function around a line, from 1; else the innermost other one; else
        the innermost type or value.
        """
        index = bisect_right(self._piece_starts, line) - 1
        return self._innermost[index] if index >= 0 else None

    def type_around(self, inner: Definition) -> Definition | None:
        """The innermost type around one of the definitions."""
        return self._types.get(inner)

    def _walk_pieces(self) -> None:
        begins: dict[int, list[int]] = {}
        ends: dict[int, list[int]] = {}
        for index, definition in enumerate(self._definitions):
            if definition.last < definition.first:
                continue
            begins.setdefault(definition.first, []).append(index)
            ends.setdefault(definition.last + 1, []).append(index)
        open_indexes: list[int] = []
        for start in sorted({*begins, *ends}):
            for index in ends.get(start, ()):
                del open_indexes[bisect_left(open_indexes, index)]
            for index in begins.get(start, ()):
                insort(open_indexes, index)
            open_definitions = [self._definitions[index] for index in open_indexes[-MAX_DEPTH:]]
            self._piece_starts.append(start)
            self._innermost.append(_pick_innermost(open_definitions))
            for index in begins.get(start, ()):
                inner = self._definitions[index]
                self._types[inner] = _find_type_around(inner, open_definitions)


def _pick_innermost(open_definitions: Sequence[Definition]) -> Definition | None:
    innermost: Definition | None = None
    for definition in open_definitions:
        if innermost is None or _closeness(definition) >= _closeness(innermost):
            innermost = definition
    return innermost


def _closeness(definition: Definition) -> int:
    if definition.role != "function":
        return 0
    if definition.name:
        return 2
    return 1


def _find_type_around(
    inner: Definition, open_definitions: Sequence[Definition]
) -> Definition | None:
    for outer in reversed(open_definitions):
        if outer.role == "type" and outer != inner and outer.last >= inner.last:
            return outer
    return None
