"""Match the lines of two versions of a text, in order: lines that are there once on both sides are
matched first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import NamedTuple

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


class _Gap(NamedTuple):
    """Lines of both texts that may be matched with each other; the last ones are not in it."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int

    @property
    def size(self) -> int:
        """How many lines of it can be matched at most."""
        return min(self.old_end - self.old_start, self.new_end - self.new_start)

    @property
    def is_small(self) -> bool:
        """Whether it may be matched block by block."""
        return max(self.old_end - self.old_start, self.new_end - self.new_start) <= MAX_GAP


def match_lines(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[int]:
    """For each line of `new` the index of its line in `old`, or -1. Indices rise."""
    matching = _Matching(old, new)
    gaps = [_Gap(0, len(old), 0, len(new))]
    while gaps:  # no recursion: the parts of a long file nest deeply
        gaps += matching.match_gap(gaps.pop())
    return matching.old_indices


class _Matching:
    """Two texts, and which of their lines are matched until now."""

    def __init__(self, old: Sequence[Hashable], new: Sequence[Hashable]) -> None:
        self._old = tuple(old)
        self._new = tuple(new)
        self.old_indices = [-1] * len(new)
        """For each new line the index of the old one, or -1."""

    def match_gap(self, gap: _Gap) -> list[_Gap]:
        """Match what begins and ends alike, then the lines that are unique; returns the gaps
        between them.
        """
        gap = self._match_ends(gap)
        if not gap.size:
            return []
        anchors = self._anchors(gap)
        if anchors:
            return self._match_anchors(anchors, gap)
        if gap.is_small:
            self._match_blocks(gap)
        return []

    def _match_ends(self, gap: _Gap) -> _Gap:
        """Match the first and last lines that are equal; returns what is between them."""
        old_start, old_end, new_start, new_end = gap
        count = self._count_equal(old_start, new_start, gap.size)
        self._pair(old_start, new_start, count)
        gap = _Gap(old_start + count, old_end, new_start + count, new_end)
        while gap.size and self._old[gap.old_end - 1] == self._new[gap.new_end - 1]:
            count = self._count_equal_before(gap.old_end, gap.new_end, gap.size)
            old_end = gap.old_end - count
            new_end = gap.new_end - count
            self._pair(old_end, new_end, count)
            gap = gap._replace(old_end=old_end, new_end=new_end)
        return gap

    def _match_blocks(self, gap: _Gap) -> None:
        """Match the longest equal blocks, as difflib finds them."""
        old_lines = self._old[gap.old_start : gap.old_end]
        new_lines = self._new[gap.new_start : gap.new_end]
        matcher = SequenceMatcher(None, old_lines, new_lines, autojunk=False)
        for old_offset, new_offset, count in matcher.get_matching_blocks():
            self._pair(gap.old_start + old_offset, gap.new_start + new_offset, count)

    def _match_anchors(self, anchors: Sequence[tuple[int, int]], gap: _Gap) -> list[_Gap]:
        """Match these lines and what follows them alike; returns the gaps between them."""
        old_start, old_end, new_start, new_end = gap
        gaps = []
        for old_index, new_index in [*anchors, (old_end, new_end)]:
            if old_index < old_start:
                continue  # it is matched with the lines above it
            if old_start < old_index and new_start < new_index:
                gaps.append(_Gap(old_start, old_index, new_start, new_index))
            most = min(old_end - old_index, new_end - new_index)
            count = self._count_equal(old_index, new_index, most)
            self._pair(old_index, new_index, count)
            old_start = old_index + count
            new_start = new_index + count
        return gaps

    def _pair(self, old_index: int, new_index: int, count: int) -> None:
        """Match so many lines from there on."""
        self.old_indices[new_index : new_index + count] = range(old_index, old_index + count)

    def _count_equal(self, old_index: int, new_index: int, most: int) -> int:
        """How many lines are equal from there on."""
        count = 0
        while count < most and self._old[old_index + count] == self._new[new_index + count]:
            count += self._equal_step(old_index + count, new_index + count, most - count)
        return count

    def _equal_step(self, old_index: int, new_index: int, most: int) -> int:
        """How many lines are equal from there on at least: twice as many each time."""
        step = 1
        while 2 * step <= most:
            old_lines = self._old[old_index : old_index + 2 * step]
            new_lines = self._new[new_index : new_index + 2 * step]
            if old_lines != new_lines:
                break
            step *= 2
        return step

    def _count_equal_before(self, old_end: int, new_end: int, most: int) -> int:
        """How many lines before these are equal at least, the last of which are."""
        step = 1
        while 2 * step <= most:
            old_lines = self._old[old_end - 2 * step : old_end]
            new_lines = self._new[new_end - 2 * step : new_end]
            if old_lines != new_lines:
                break
            step *= 2
        return step

    def _anchors(self, gap: _Gap) -> list[tuple[int, int]]:
        """The longest rising sequence of lines that are there once on both sides, each as (old,
        new).
        """
        old_unique = _unique_indices(self._old, gap.old_start, gap.old_end)
        new_unique = _unique_indices(self._new, gap.new_start, gap.new_end)
        pairs = []
        for line, new_index in new_unique.items():
            if line in old_unique:
                pairs.append((old_unique[line], new_index))
        if pairs == sorted(pairs):
            return pairs
        return _longest_rising(pairs)


def _unique_indices(lines: Sequence[Hashable], start: int, end: int) -> dict[Hashable, int]:
    """The lines that are there once, each with its index, in order."""
    part = lines[start:end]
    counts = Counter(part)
    return {line: index for index, line in enumerate(part, start) if counts[line] == 1}


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
    """As `match_lines`, of lines of text, white space aside, and with what `reshaped` finds. Indices
    need not rise.
    """
    old_indices = match_lines(bare(old), bare(new))
    for new_index, old_index in reshaped(old, new, old_indices).items():
        old_indices[new_index] = old_index
    return old_indices


def bare(lines: Sequence[str]) -> list[str]:
    """The lines without white space."""
    return ["".join(line.split()) for line in lines]


def reshaped(old: Sequence[str], new: Sequence[str], old_indices: Sequence[int]) -> dict[int, int]:
    """Of lines that `match_lines` left alone, white space aside, the old line that each was: it was
    moved, or a formatter broke it up or joined it.
    """
    if -1 not in old_indices or len(set(old_indices) - {-1}) == len(old):
        return {}
    old_by_new = {}
    for gap in _replaced_lines(old_indices, len(old)):
        old_lines = bare(old[gap.old_start : gap.old_end])
        new_lines = bare(new[gap.new_start : gap.new_end])
        for new_offset, old_offset in _reformatted(old_lines, new_lines):
            old_by_new[gap.new_start + new_offset] = gap.old_start + old_offset
    old_by_new.update(_moved(old, new, old_indices))
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


def _replaced_lines(old_indices: Sequence[int], old_length: int) -> Iterator[_Gap]:
    """Where lines were replaced by others."""
    for start, end in new_runs(old_indices):
        old_start = old_indices[start - 1] + 1 if start else 0
        old_end = old_indices[end] if end < len(old_indices) else old_length
        if old_start < old_end:
            yield _Gap(old_start, old_end, start, end)


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
        new_lines = bare(new[start:end])
        for offset in range(len(new_lines) - MOVED + 1):
            block = tuple(new_lines[offset : offset + MOVED])
            if block in lost_blocks:
                for step in range(MOVED):
                    yield start + offset + step, lost_blocks[block] + step


def _lost_blocks(old: Sequence[str], old_indices: Sequence[int]) -> dict[tuple[str, ...], int]:
    """Blocks of old lines that are nowhere in the new text, each with the index of its first."""
    lost = sorted(set(range(len(old))).difference(old_indices))
    lost_lines = bare([old[index] for index in lost])
    blocks = {}
    for number in range(len(lost) - MOVED + 1):
        index = lost[number]
        if lost[number + MOVED - 1] != index + MOVED - 1:
            continue  # they do not stand together
        block = tuple(lost_lines[number : number + MOVED])
        if sum(map(len, block)) >= MOVED * SHORTEST:
            blocks[block] = index
    return blocks
