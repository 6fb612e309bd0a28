"""Quoted lines with what stands around them, as rows for a second look. Pure but for the reading of
files that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise

from vibe_gate.domain import escape, paths
from vibe_gate.domain.change import Change, Side
from vibe_gate.domain.verdict import CheckedEvidence
from vibe_gate.judging.evidence import changed_lines, find_changed_file

LINES_AROUND = 25
"""Lines before and after a quoted line: most functions, whole."""

MAX_FUNCTION = 120
"""Lines of a function that is shown whole; of a longer one only what stands next to the line."""

MAX_SHOWN = 24_000
"""Characters of all surroundings in one conversation: about 8,000 tokens, less than the rounds in
which they would be read.
"""

MAX_ROW = 400
"""Characters of one row: code is narrower, and data is not read by eye."""

EnclosingLines = Callable[[Side, str, int], tuple[int, int] | None]
"""First and last line of what encloses a line of a file: of a function, with its decorators. None if
that is not known.
"""

FileLines = Mapping[Side, Callable[[str], bytes | None]]
"""By side, what gives the content at a path of that tree; None without a file."""


def find_no_enclosing_lines(side: Side, path: str, line: int) -> None:
    """Know of no function: then as many lines are shown before and after each."""


def show_surroundings(
    quoted_lines: Iterable[CheckedEvidence],
    change: Change,
    read: FileLines,
    enclosing_lines: EnclosingLines = find_no_enclosing_lines,
) -> str:
    """The rows of the files around these lines, up to MAX_SHOWN characters; "" if there are none.

    Lines that come later are left out first, and named at the end.
    """
    windows: dict[tuple[Side, str], set[int]] = {}
    texts: dict[tuple[Side, str], list[str]] = {}
    left_out: dict[str, None] = {}
    size = 0
    for evidence in quoted_lines:
        path = paths.unquote(evidence.path)
        file = (evidence.side, path)
        if file not in texts:
            content = read[evidence.side](path)
            texts[file] = [] if content is None else list(map(escape.show, escape.lines(content)))
        first, last = _choose_window(evidence, path, len(texts[file]), enclosing_lines)
        new_numbers = set(range(first, last + 1)) - windows.get(file, set())
        new_size = sum(_row_size(texts[file][number - 1]) for number in new_numbers)
        if size + new_size > MAX_SHOWN:
            left_out[f"{evidence.path}:{evidence.line}"] = None
            continue
        size += new_size
        windows.setdefault(file, set()).update(new_numbers)
    rows: list[str] = []
    for (side, path), numbers in windows.items():
        if numbers:
            rows += _show_file(side, path, sorted(numbers), texts[side, path], change)
    if left_out:
        rows.append(f"| not shown for length: what stands around {', '.join(left_out)}")
    return "\n".join(rows)


def _choose_window(
    evidence: CheckedEvidence, path: str, line_count: int, enclosing_lines: EnclosingLines
) -> tuple[int, int]:
    """The first and the last line to show, which stand in the file."""
    first = evidence.line - LINES_AROUND
    last = evidence.end_line + LINES_AROUND
    enclosing = enclosing_lines(evidence.side, path, evidence.line)
    if enclosing is not None and enclosing[1] - enclosing[0] < MAX_FUNCTION:
        first = min(enclosing[0], evidence.line - 10)
        last = max(enclosing[1], evidence.end_line + 10)
    return max(1, first), min(line_count, last)


def _row_size(text: str) -> int:
    return min(len(text), MAX_ROW) + len("123456 +|\n")


def _show_file(
    side: Side, path: str, numbers: list[int], texts: list[str], change: Change
) -> Iterator[str]:
    file = find_changed_file(path, side, change)
    changed_numbers = frozenset[int]() if file is None else changed_lines(file, side)
    sign = "+" if side == "after" else "-"
    yield f"| ==== {paths.quote(path)}, {side} the change"
    for last_number, number in pairwise((numbers[0], *numbers)):
        if number > last_number + 1:
            yield f"{'⋮':>6}"
        text = texts[number - 1]
        shown_text = text if len(text) <= MAX_ROW else text[: MAX_ROW - 1] + "…"
        yield f"{number:>6} {sign if number in changed_numbers else ' '}|{shown_text}"
