"""Hunks with what is near of the functions around them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from io import BytesIO

from vibe_gate.domain.change import FileDiff, Hunk, HunkLine
from vibe_gate.parsing import Definition, FileOutline

WHOLE_FUNCTION = 80
"""Lines of a function that is shown whole: nothing has to be looked up in it."""

AROUND_IN_FUNCTION = 40
"""Lines that are shown before and after a changed one in a longer function; its head always is."""

AROUND = 10
"""The same where no function encloses it."""

AROUND_FUNCTION = 3
"""The same where one does, whether they belong to it or not."""

MAX_HEAD = 8
"""Lines of a long function's head: its name and parameters."""

SMALL_GAP = 2
"""Unchanged lines that are shown rather than left out, as the mark for that is a line, too."""

MAX_WIDENED = 2_000_000
"""Bytes of a file whose hunks are shown with more around them than they have."""


def widen_hunks(file: FileDiff, content: bytes, outline: FileOutline | None) -> tuple[Hunk, ...]:
    """The file's hunks with what is near of the functions around them.

    `content` and `outline` are those of the file after the change.
    """
    if len(content) > MAX_WIDENED:
        return file.hunks
    lines = list(BytesIO(content))
    numbers = _near_numbers(file.hunks, outline, len(lines))
    return tuple(_cut_out(file.hunks, lines, numbers))


def first_lines(hunk: Hunk) -> tuple[int, int]:
    """The number before the change of the hunk's first line, and the one after it."""
    # Git names the line above of a side without lines.
    return hunk.old_start + (not hunk.old_lines), hunk.new_start + (not hunk.new_lines)


def _near_numbers(hunks: Sequence[Hunk], outline: FileOutline | None, line_count: int) -> list[int]:
    """The numbers after the change of the lines that are shown, if they did not change."""
    numbers: set[int] = set()
    for hunk in hunks:
        number = first_lines(hunk)[1]
        for line in hunk.lines:
            if line.origin != " ":
                numbers.update(_numbers_around(outline, number, line.origin))
            if line.origin != "-":
                number += 1
    shown_numbers = sorted(number for number in numbers if 1 <= number <= line_count)
    filled_numbers: list[int] = []
    for number in shown_numbers:
        if filled_numbers and number - filled_numbers[-1] <= SMALL_GAP + 1:
            filled_numbers.extend(range(filled_numbers[-1] + 1, number))
        filled_numbers.append(number)
    return filled_numbers


def _numbers_around(outline: FileOutline | None, number: int, origin: str) -> Iterator[int]:
    """What is shown around a changed line."""
    definition = None
    if outline is not None:
        definition = outline.enclosing(number)
        if origin == "-":  # it stood between this line and the one above
            definition = outline.enclosing(number - 1) or definition
    if outline is None or definition is None:
        yield from range(number - AROUND, number + AROUND + 1)
        return
    around = AROUND
    if definition.role == "function":
        around = AROUND_FUNCTION
        yield from _numbers_of_function(definition, number)
    else:
        yield definition.line
    yield from range(number - around, number + around + 1)
    outer_type = outline.enclosing_type(definition)
    if outer_type is not None:
        yield outer_type.line


def _numbers_of_function(function: Definition, number: int) -> Iterator[int]:
    if function.length <= WHOLE_FUNCTION:
        yield from range(function.first, function.last + 1)
        return
    head_end = min(max(function.body - 1, function.line), function.first + MAX_HEAD - 1)
    yield from range(function.first, head_end + 1)
    first = max(function.first, number - AROUND_IN_FUNCTION)
    last = min(function.last, number + AROUND_IN_FUNCTION)
    yield from range(first, last + 1)


def _cut_out(
    hunks: Sequence[Hunk], lines: Sequence[bytes], numbers: Sequence[int]
) -> Iterator[Hunk]:
    """Hunks of the changed lines and of the unchanged ones with these numbers, in order."""
    part = _LineRun()
    old_number = new_number = 1
    for hunk in hunks:
        hunk_old, hunk_new = first_lines(hunk)
        yield from _unchanged_lines(part, (old_number, new_number), hunk_new, lines, numbers)
        old_number, new_number = hunk_old, hunk_new
        for line in hunk.lines:
            if line.origin == " ":
                after = new_number + 1
                yield from _unchanged_lines(part, (old_number, new_number), after, lines, numbers)
            else:
                yield from part.add(old_number, new_number, line)
            old_number += line.origin != "+"
            new_number += line.origin != "-"
    end = len(lines) + 1
    yield from _unchanged_lines(part, (old_number, new_number), end, lines, numbers)
    yield from part.end()


def _unchanged_lines(
    part: _LineRun,
    start: tuple[int, int],
    new_end: int,
    lines: Sequence[bytes],
    numbers: Sequence[int],
) -> Iterator[Hunk]:
    """Add the lines from `start` (their numbers before and after) up to `new_end` that are
    shown.
    """
    old_start, new_start = start
    first = bisect_left(numbers, new_start)
    last = bisect_right(numbers, new_end - 1)
    for number in numbers[first:last]:
        line = HunkLine(" ", lines[number - 1])
        yield from part.add(old_start + number - new_start, number, line)


class _LineRun:
    """Lines that follow one another, until one does not."""

    def __init__(self) -> None:
        self._lines: list[HunkLine] = []
        self._start = (0, 0)
        self._next = (0, 0)

    def add(self, old_number: int, new_number: int, line: HunkLine) -> Iterator[Hunk]:
        """Add a line; the hunk before it, if it does not follow on that."""
        if (old_number, new_number) != self._next:
            yield from self.end()
            self._start = old_number, new_number
        self._lines.append(line)
        self._next = old_number + (line.origin != "+"), new_number + (line.origin != "-")

    def end(self) -> Iterator[Hunk]:
        """The hunk of the lines until now."""
        if not self._lines:
            return
        old_count = self._next[0] - self._start[0]
        new_count = self._next[1] - self._start[1]
        old_start = self._start[0] - (not old_count)
        new_start = self._start[1] - (not new_count)
        yield Hunk.of(old_start, old_count, new_start, new_count, self._lines)
        self._lines = []
