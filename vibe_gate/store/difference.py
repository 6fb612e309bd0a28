"""Which lines differ between two contents, as hunks: from stored bytes alone, without git.

Contents are hostile, so nothing here is quadratic in them: lines that stand once on
both sides are anchors (patience diff), the gaps between anchors are compared anew,
and a gap without anchors is compared line by line only while it is small. What is
left is shown as replaced: more lines than git would show, and still a right patch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from vibe_gate.domain.change import Hunk, Line

CONTEXT_LINES = 3
BINARY_PREFIX = 8000
"""A NUL among the first 8,000 bytes makes a content binary, as git says."""

_SMALL = 40_000
"""Lines of one side times lines of the other up to which every pair may be compared; difflib can be cubic."""

_Block = tuple[int, int, int, int]
"""`before[a:b]` became `after[c:d]`."""


def is_binary(content: bytes) -> bool:
    """Whether git takes the content for binary."""
    return b"\0" in content[:BINARY_PREFIX]


def split(content: bytes) -> list[bytes]:
    """Lines with their endings, split at LF only; the last one may have none."""
    lines = [line + b"\n" for line in content.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def hunks(before: bytes, after: bytes) -> tuple[Hunk, ...]:
    """The changed lines with three lines of context, in order; () for equal contents."""
    old, new = split(before), split(after)
    return tuple(_hunk(old, new, group) for group in _groups(_blocks(old, new)))


def _blocks(old: list[bytes], new: list[bytes]) -> list[_Block]:
    numbers: dict[bytes, int] = {}
    a = [numbers.setdefault(line, len(numbers)) for line in old]
    b = [numbers.setdefault(line, len(numbers)) for line in new]
    found: list[_Block] = []
    gaps = [(0, len(a), 0, len(b))]
    while gaps:
        start, end, at, to = _trim(a, b, gaps.pop())
        if start == end or at == to:
            if start < end or at < to:
                found.append((start, end, at, to))
            continue
        anchors = _anchors(a[start:end], b[at:to])
        if anchors:
            edges = [(-1, -1), *anchors, (end - start, to - at)]
            for (left, low), (right, high) in pairwise(edges):
                gaps.append((start + left + 1, start + right, at + low + 1, at + high))
        elif (end - start) * (to - at) <= _SMALL:
            found += [(start + i, start + j, at + k, at + m) for i, j, k, m in _compare(a[start:end], b[at:to])]
        else:
            found.append((start, end, at, to))
    return sorted(found)


def _trim(a: list[int], b: list[int], gap: _Block) -> _Block:
    start, end, at, to = gap
    while start < end and at < to and a[start] == b[at]:
        start, at = start + 1, at + 1
    while start < end and at < to and a[end - 1] == b[to - 1]:
        end, to = end - 1, to - 1
    return start, end, at, to


def _anchors(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Places of lines that stand once on both sides; the longest run of them that keeps the order of both."""
    counts_a, counts_b = Counter(a), Counter(b)
    places = {line: place for place, line in enumerate(b) if counts_b[line] == 1}
    pairs = [(place, places[line]) for place, line in enumerate(a) if counts_a[line] == 1 and line in places]
    ends: list[int] = []  # by length of a run, the smallest place in b at which one ends
    last: list[int] = []  # and the pair that ends it
    before: list[int] = []  # by pair, the pair before it in its run
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [index]
    run: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        run.append(pairs[index])
        index = before[index]
    return run[::-1]


def _compare(a: Sequence[int], b: Sequence[int]) -> Iterator[_Block]:
    for tag, start, end, at, to in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag != "equal":
            yield start, end, at, to


def _groups(blocks: list[_Block]) -> Iterator[list[_Block]]:
    """Blocks whose contexts touch share a hunk."""
    group: list[_Block] = []
    for block in blocks:
        if group and block[0] - group[-1][1] > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _hunk(old: list[bytes], new: list[bytes], group: list[_Block]) -> Hunk:
    lead = min(CONTEXT_LINES, group[0][0])
    start, at = group[0][0] - lead, group[0][2] - lead
    end = min(len(old), group[-1][1] + CONTEXT_LINES)
    to = group[-1][3] + end - group[-1][1]
    lines: list[Line] = []
    position = start
    for first, behind, low, high in group:
        lines += [Line(" ", line) for line in old[position:first]]
        lines += [Line("-", line) for line in old[first:behind]]
        lines += [Line("+", line) for line in new[low:high]]
        position = behind
    lines += [Line(" ", line) for line in old[position:end]]
    return Hunk(start + (end > start), end - start, at + (to > at), to - at, tuple(lines))
