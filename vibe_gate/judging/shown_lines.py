"""Quoted lines with what stands around them, the enclosing function if a parser knows it, as rows
for a second look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from vibe_gate.domain import escape, paths
from vibe_gate.domain.change import Change, Side
from vibe_gate.domain.verdict import CheckedEvidence
from vibe_gate.judging.evidence import changed_lines, find_changed_file
from vibe_gate.parsing import FileOutline, SourceFile, parse_files

LINES_AROUND = 25
"""Lines before and after a quoted line that no function of usual length encloses."""

LEAST_AROUND = 10
"""The same where one does, whether they belong to it or not."""

MAX_FUNCTION = 120
"""Lines of a function that is shown whole; of a longer one only what stands next to the line."""

MAX_PARSED = 12
"""Files of one conversation that are parsed, those quoted first: a hostile one takes three seconds.
Of the others plain lines are shown.
"""

MAX_SHOWN = 24_000
"""Characters of all surroundings in one conversation: about 8,000 tokens, less than the rounds in
which they would be read.
"""

MAX_ROW = 400
"""Characters of one row: code is narrower, and data is not read by eye."""

FileSide = tuple[Side, str]
"""A side of the change, and a path on it."""

FileLines = Mapping[Side, Callable[[str], bytes | None]]
"""By side, what gives the content at a path of that tree; None without a file."""


class _ShownFile(Struct, frozen=True):
    """A file that is quoted from."""

    texts: list[str]
    """Its lines, as they are shown."""

    outline: FileOutline | None
    """What it defines; None if that is not known."""


def show_surroundings(
    quoted_lines: Sequence[CheckedEvidence], change: Change, read: FileLines
) -> str:
    """The rows of the files around these lines, up to MAX_SHOWN characters; "" if there are none.

    Lines that come later are left out first, and named at the end.
    """
    files = _read_files(quoted_lines, change, read)
    windows: dict[FileSide, set[int]] = {}
    left_out: dict[str, None] = {}
    size = 0
    for evidence in quoted_lines:
        name = (evidence.side, paths.unquote(evidence.path))
        texts = files[name].texts
        first, last = _choose_window(evidence, files[name])
        new_numbers = set(range(first, last + 1)) - windows.get(name, set())
        new_size = sum(_row_size(texts[number - 1]) for number in new_numbers)
        if size + new_size > MAX_SHOWN:
            left_out[f"{evidence.path}:{evidence.line}"] = None
            continue
        size += new_size
        windows.setdefault(name, set()).update(new_numbers)
    rows: list[str] = []
    for name, numbers in windows.items():
        if numbers:
            rows += _show_file(name, sorted(numbers), files[name].texts, change)
    if left_out:
        rows.append(f"| not shown for length: what stands around {', '.join(left_out)}")
    return "\n".join(rows)


def _read_files(
    quoted_lines: Iterable[CheckedEvidence], change: Change, read: FileLines
) -> dict[FileSide, _ShownFile]:
    """By side and path, the files that are quoted from; one that cannot be read has no lines."""
    contents: dict[FileSide, bytes] = {}
    for evidence in quoted_lines:
        path = paths.unquote(evidence.path)
        if (evidence.side, path) not in contents:
            tree_path = _find_tree_path(path, evidence.side, change)
            contents[evidence.side, path] = read[evidence.side](tree_path) or b""
    sources = [SourceFile(path, content) for (_, path), content in contents.items()]
    outlines = parse_files(sources[:MAX_PARSED])
    outlines += [None] * (len(sources) - len(outlines))
    files = {}
    for (name, content), outline in zip(contents.items(), outlines, strict=True):
        files[name] = _ShownFile(list(map(escape.show, escape.lines(content))), outline)
    return files


def _find_tree_path(path: str, side: Side, change: Change) -> str:
    """The path in the tree of that side: before the change a renamed file had another one."""
    file = change.file(path)
    if file is None or side == "after":
        return path
    return file.old_name


def _choose_window(evidence: CheckedEvidence, file: _ShownFile) -> tuple[int, int]:
    """The first and the last line to show, which stand in the file."""
    first = evidence.line - LINES_AROUND
    last = evidence.end_line + LINES_AROUND
    definition = None if file.outline is None else file.outline.enclosing(evidence.line)
    if definition is None or definition.role == "value":
        return max(1, first), min(len(file.texts), last)
    if definition.length <= MAX_FUNCTION:
        first = min(definition.first, evidence.line - LEAST_AROUND)
        last = max(definition.last, evidence.end_line + LEAST_AROUND)
    return max(1, first), min(len(file.texts), last)


def _row_size(text: str) -> int:
    return min(len(text), MAX_ROW) + len("123456 +|\n")


def _show_file(
    name: FileSide, numbers: list[int], texts: list[str], change: Change
) -> Iterator[str]:
    side, path = name
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
