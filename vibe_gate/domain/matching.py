"""Match the lines of two versions of a text, in order: lines that are there once on both sides are
matched first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate

from vibe_gate.domain.escape import expression

MAX_GAP = 400
"""Lines of a gap without a line that is there once on both sides; in a larger one only its ends are
matched.
"""

MAX_SPAN = 80
"""Lines of a bracket that a formatter may have broken up or joined."""

SHORTEST = 12
"""Characters, white space aside, of a text that does not stand everywhere."""

MOVED = 3
"""Lines that stand together in another place: fewer may have been typed again."""

_BRACKET = expression(r"[(\[{)\]}]")
_COMMA = expression(r",(?=[)\]}])|,\Z")


def matches(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[int]:
    """For each line of `new` the index of its line in `old`, or -1. Indices rise."""
    old, new = tuple(old), tuple(new)
    old_indices = [-1] * len(new)
    waiting = [(0, len(old), 0, len(new))]
    while waiting:  # no recursion: the parts of a long file nest deeply
        waiting += _match(old, new, *waiting.pop(), old_indices)
    return old_indices


def _match(
    old: tuple[Hashable, ...],
    new: tuple[Hashable, ...],
    low: int,
    high: int,
    start: int,
    end: int,
    old_indices: list[int],
) -> list[tuple[int, int, int, int]]:
    """Match what begins and ends alike, then the lines that are unique; returns the gaps between
    them.
    """
    alike = _alike(old, new, low, start, min(high - low, end - start))
    old_indices[start : start + alike] = range(low, low + alike)
    low, start = low + alike, start + alike
    while low < high and start < end and old[high - 1] == new[end - 1]:
        # As much of the end at once as is equal: twice as much each time, then one by one.
        size = 1
        while (
            2 * size <= min(high - low, end - start)
            and old[high - 2 * size : high] == new[end - 2 * size : end]
        ):
            size *= 2
        old_indices[end - size : end] = range(high - size, high)
        high, end = high - size, end - size
    if low == high or start == end:
        return []
    anchors = _anchors(old, new, low, high, start, end)
    if not anchors:
        if high - low <= MAX_GAP and end - start <= MAX_GAP:
            blocks = SequenceMatcher(
                None, old[low:high], new[start:end], autojunk=False
            ).get_matching_blocks()
            for at, to, size in blocks:
                old_indices[start + to : start + to + size] = range(low + at, low + at + size)
        return []
    gaps = []
    for at, to in [*anchors, (high, end)]:
        if at < low:
            continue  # it is matched with the lines above it
        if low < at and start < to:
            gaps.append((low, at, start, to))
        alike = _alike(old, new, at, to, min(high - at, end - to))
        old_indices[to : to + alike] = range(at, at + alike)
        low, start = at + alike, to + alike
    return gaps


def _alike(
    old: tuple[Hashable, ...], new: tuple[Hashable, ...], low: int, start: int, most: int
) -> int:
    """How many lines are equal from there on."""
    size = step = 0
    while size < most and old[low + size] == new[start + size]:
        step = 1
        while 2 * step <= most - size and (
            old[low + size : low + size + 2 * step] == new[start + size : start + size + 2 * step]
        ):
            step *= 2
        size += step
    return size


def _anchors(
    old: Sequence[Hashable], new: Sequence[Hashable], low: int, high: int, start: int, end: int
) -> list[tuple[int, int]]:
    """The longest rising sequence of lines that are there once on both sides, each as (old,
    new).
    """
    counts = Counter(old[low:high])
    once = {old[at]: at for at in range(low, high) if counts[old[at]] == 1}
    counts = Counter(new[start:end])
    pairs = [
        (once[line], to)
        for to, line in enumerate(new[start:end], start)
        if counts[line] == 1 and line in once
    ]
    if pairs == sorted(pairs):
        return pairs
    ends: list[int] = []  # by length, the least old index that such a sequence ends with
    last: list[int] = []  # its pair
    before = [-1] * len(pairs)
    for number, (at, _) in enumerate(pairs):
        length = bisect_left(ends, at)
        before[number] = last[length - 1] if length else -1
        ends[length : length + 1] = [at]
        last[length : length + 1] = [number]
    chosen = []
    number = last[-1] if last else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = before[number]
    return chosen[::-1]


def carried(old: Sequence[str], new: Sequence[str]) -> list[int]:
    """As `matches`, of lines of text, white space aside, and with what `reshaped` finds. Indices
    need not rise.
    """
    old_indices = matches(bare(old), bare(new))
    for to, at in reshaped(old, new, old_indices).items():
        old_indices[to] = at
    return old_indices


def bare(lines: Sequence[str]) -> list[str]:
    """The lines without white space."""
    return ["".join(line.split()) for line in lines]


def reshaped(old: Sequence[str], new: Sequence[str], came: Sequence[int]) -> dict[int, int]:
    """Of lines that `matches` left alone, white space aside, the old line that each was: it was
    moved, or a formatter broke it up or joined it.
    """
    if -1 not in came or len(set(came) - {-1}) == len(old):
        return {}
    old_by_new = dict(_moved(old, new, came))
    for low, high, start, end in _gaps(came, len(old)):
        reformatted = dict(_reformatted(bare(old[low:high]), bare(new[start:end])))
        old_by_new = {start + to: low + at for to, at in reformatted.items()} | old_by_new
    return old_by_new


def as_kept(new: Sequence[Hashable], came: Sequence[int]) -> list[int]:
    """The matches if each new line that may as well be the old one beside it is taken for that.

    Of `)` before which `x )` was inserted nobody can tell which one is new.
    """
    old_indices = list(came)
    for inserted, twin in _doubtful(new, came):
        old_indices[inserted] = came[twin]
    return old_indices


def as_new(new: Sequence[Hashable], came: Sequence[int]) -> list[int]:
    """The matches if each old line that may as well be the new one beside it is taken for new."""
    old_indices = list(came)
    for _, twin in _doubtful(new, came):
        old_indices[twin] = -1
    return old_indices


def _doubtful(new: Sequence[Hashable], came: Sequence[int]) -> Iterator[tuple[int, int]]:
    """New lines, and the equal old ones that could have been inserted in their place: a block may
    slide over them.
    """
    for start, end in new_runs(came):
        length = end - start
        for step in range(length):
            above, last = start - 1 - step, end - 1 - step
            if above < 0 or came[above] < 0 or new[above] != new[last]:
                break
            yield last, above
        for step in range(length):
            below, first = end + step, start + step
            if below >= len(new) or came[below] < 0 or new[below] != new[first]:
                break
            yield first, below


def new_runs(came: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where lines are new, from and to."""
    end, new_count = 0, came.count(-1)
    while new_count:
        start = came.index(-1, end)
        end = next((number for number in range(start, len(came)) if came[number] >= 0), len(came))
        new_count -= end - start
        yield start, end


def _gaps(old_indices: Sequence[int], length: int) -> Iterator[tuple[int, int, int, int]]:
    """Where lines were replaced by others: from and to in the old text, and in the new one."""
    for start, end in new_runs(old_indices):
        low = old_indices[start - 1] + 1 if start else 0
        high = old_indices[end] if end < len(old_indices) else length
        if low < high:
            yield low, high, start, end


def _reformatted(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """For lines of the new text the line of the old one that they say the same as, other than
    letter by letter.
    """
    spans = {loosened(old[a:b]): (a, b) for a, b in _spans(old)}
    for first, last in _spans(new):
        text = loosened(new[first:last])
        if len(text) >= SHORTEST and text in spans:
            a, b = spans[text]
            if old[a:b] != new[first:last]:
                yield from zip(
                    range(first, last), _by_offset(old[a:b], new[first:last], a), strict=True
                )


def _spans(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Every line, and every bracket over several of them; the larger ones first."""
    yield from sorted(brackets(lines), key=lambda span: span[0] - span[1])
    yield from ((at, at + 1) for at in range(len(lines)))


def _by_offset(old: Sequence[str], new: Sequence[str], first: int) -> Iterator[int]:
    ends = [*accumulate(map(len, old))]
    offset = 0
    for line in new:
        yield first + min(bisect_right(ends, offset), len(old) - 1)
        offset += len(line)


def brackets(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where a bracket is open from one line to another, as (first, last + 1), inner ones first."""
    opened: list[int] = []
    for number, line in enumerate(lines):
        for char in _BRACKET.findall(line):
            if char in "([{":
                opened.append(number)
            elif opened:
                first = opened.pop()
                if 0 < number - first < MAX_SPAN:
                    yield first, number + 1


def loosened(lines: Sequence[str]) -> str:
    """The lines as one, without what a formatter changes: white space, the kind of quotes, a last
    comma.
    """
    return _COMMA.sub("", "".join("".join(lines).split()).replace("'", '"'))


def _moved(
    old: Sequence[str], new: Sequence[str], old_indices: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Lines of the new text that stood elsewhere in the old one, three and more together."""
    lost = set(range(len(old))).difference(old_indices)
    lost_blocks = {}
    for at in sorted(lost):
        block = tuple(bare(old[at : at + MOVED]))
        if lost.issuperset(range(at, at + MOVED)) and sum(map(len, block)) >= MOVED * SHORTEST:
            lost_blocks[block] = at
    for start, end in new_runs(old_indices) if lost_blocks else ():
        for to in range(start, end - MOVED + 1):
            at = lost_blocks.get(tuple(bare(new[to : to + MOVED])), -1)
            if at >= 0:
                yield from ((to + step, at + step) for step in range(MOVED))
