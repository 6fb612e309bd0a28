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
        size = _alike_at_end(old, new, high, end, min(high - low, end - start))
        old_indices[end - size : end] = range(high - size, high)
        high, end = high - size, end - size
    if low == high or start == end:
        return []
    anchors = _anchors(old, new, low, high, start, end)
    if not anchors:
        if high - low <= MAX_GAP and end - start <= MAX_GAP:
            matcher = SequenceMatcher(None, old[low:high], new[start:end], autojunk=False)
            for old_offset, new_offset, size in matcher.get_matching_blocks():
                first_old, first_new = low + old_offset, start + new_offset
                old_indices[first_new : first_new + size] = range(first_old, first_old + size)
        return []
    gaps = []
    for old_index, new_index in [*anchors, (high, end)]:
        if old_index < low:
            continue  # it is matched with the lines above it
        if low < old_index and start < new_index:
            gaps.append((low, old_index, start, new_index))
        alike = _alike(old, new, old_index, new_index, min(high - old_index, end - new_index))
        old_indices[new_index : new_index + alike] = range(old_index, old_index + alike)
        low, start = old_index + alike, new_index + alike
    return gaps


def _alike(
    old: tuple[Hashable, ...], new: tuple[Hashable, ...], low: int, start: int, most: int
) -> int:
    """How many lines are equal from there on."""
    size = 0
    while size < most and old[low + size] == new[start + size]:
        size += _alike_step(old, new, low + size, start + size, most - size)
    return size


def _alike_step(
    old: tuple[Hashable, ...], new: tuple[Hashable, ...], low: int, start: int, most: int
) -> int:
    """How many lines are equal from there on at least: twice as many each time."""
    step = 1
    while 2 * step <= most and old[low : low + 2 * step] == new[start : start + 2 * step]:
        step *= 2
    return step


def _alike_at_end(
    old: tuple[Hashable, ...], new: tuple[Hashable, ...], high: int, end: int, most: int
) -> int:
    """The same before these lines."""
    step = 1
    while 2 * step <= most and old[high - 2 * step : high] == new[end - 2 * step : end]:
        step *= 2
    return step


def _anchors(
    old: Sequence[Hashable], new: Sequence[Hashable], low: int, high: int, start: int, end: int
) -> list[tuple[int, int]]:
    """The longest rising sequence of lines that are there once on both sides, each as (old,
    new).
    """
    old_unique = _unique_indices(old, low, high)
    new_unique = _unique_indices(new, start, end)
    pairs = []
    for line, new_index in new_unique.items():
        if line in old_unique:
            pairs.append((old_unique[line], new_index))
    if pairs == sorted(pairs):
        return pairs
    return _longest_rising(pairs)


def _unique_indices(lines: Sequence[Hashable], start: int, end: int) -> dict[Hashable, int]:
    """The lines that are there once, each with its index, in order."""
    counts = Counter(lines[start:end])
    return {line: index for index, line in enumerate(lines[start:end], start) if counts[line] == 1}


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest sequence of these pairs in which the first numbers rise."""
    ends: list[int] = []  # by length, the least old index that such a sequence ends with
    last_pairs: list[int] = []  # its pair
    previous_pairs = [-1] * len(pairs)
    for number, (old_index, _) in enumerate(pairs):
        length = bisect_left(ends, old_index)
        previous_pairs[number] = last_pairs[length - 1] if length else -1
        ends[length : length + 1] = [old_index]
        last_pairs[length : length + 1] = [number]
    chosen_pairs = []
    number = last_pairs[-1] if last_pairs else -1
    while number >= 0:
        chosen_pairs.append(pairs[number])
        number = previous_pairs[number]
    return chosen_pairs[::-1]


def carried(old: Sequence[str], new: Sequence[str]) -> list[int]:
    """As `matches`, of lines of text, white space aside, and with what `reshaped` finds. Indices
    need not rise.
    """
    old_indices = matches(bare(old), bare(new))
    for new_index, old_index in reshaped(old, new, old_indices).items():
        old_indices[new_index] = old_index
    return old_indices


def bare(lines: Sequence[str]) -> list[str]:
    """The lines without white space."""
    return ["".join(line.split()) for line in lines]


def reshaped(old: Sequence[str], new: Sequence[str], old_indices: Sequence[int]) -> dict[int, int]:
    """Of lines that `matches` left alone, white space aside, the old line that each was: it was
    moved, or a formatter broke it up or joined it.
    """
    if -1 not in old_indices or len(set(old_indices) - {-1}) == len(old):
        return {}
    old_by_new = {}
    for low, high, start, end in _gaps(old_indices, len(old)):
        pairs = _reformatted(bare(old[low:high]), bare(new[start:end]))
        for new_offset, old_offset in pairs:
            old_by_new[start + new_offset] = low + old_offset
    return old_by_new | dict(_moved(old, new, old_indices))


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


def new_runs(old_indices: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where lines are new, from and to."""
    end = 0
    new_count = old_indices.count(-1)
    while new_count:
        start = old_indices.index(-1, end)
        end = start
        while end < len(old_indices) and old_indices[end] < 0:
            end += 1
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
    old_spans = {loosened(old[first:end]): (first, end) for first, end in _spans(old)}
    for new_first, new_end in _spans(new):
        text = loosened(new[new_first:new_end])
        if len(text) < SHORTEST or text not in old_spans:
            continue
        old_first, old_end = old_spans[text]
        old_lines, new_lines = old[old_first:old_end], new[new_first:new_end]
        if old_lines != new_lines:
            old_offsets = _lines_by_offset(old_lines, new_lines)
            for new_index, offset in enumerate(old_offsets, new_first):
                yield new_index, old_first + offset


def _spans(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Every line, and every bracket over several of them; the larger ones first."""
    yield from sorted(brackets(lines), key=lambda span: span[0] - span[1])
    for index in range(len(lines)):
        yield index, index + 1


def _lines_by_offset(old: Sequence[str], new: Sequence[str]) -> Iterator[int]:
    """For each new line the index of the old one that has the character with which it begins."""
    old_ends = [*accumulate(map(len, old))]
    offset = 0
    for line in new:
        yield min(bisect_right(old_ends, offset), len(old) - 1)
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
    text = "".join("".join(lines).split())
    return _COMMA.sub("", text.replace("'", '"'))


def _moved(
    old: Sequence[str], new: Sequence[str], old_indices: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Lines of the new text that stood elsewhere in the old one, three and more together."""
    lost_blocks = _lost_blocks(old, old_indices)
    if not lost_blocks:
        return
    for start, end in new_runs(old_indices):
        for new_index in range(start, end - MOVED + 1):
            block = tuple(bare(new[new_index : new_index + MOVED]))
            if block in lost_blocks:
                for step in range(MOVED):
                    yield new_index + step, lost_blocks[block] + step


def _lost_blocks(old: Sequence[str], old_indices: Sequence[int]) -> dict[tuple[str, ...], int]:
    """Blocks of old lines that are nowhere in the new text, each with the index of its first."""
    lost = set(range(len(old))).difference(old_indices)
    blocks = {}
    for index in sorted(lost):
        if not lost.issuperset(range(index, index + MOVED)):
            continue
        block = tuple(bare(old[index : index + MOVED]))
        if sum(map(len, block)) >= MOVED * SHORTEST:
            blocks[block] = index
    return blocks
