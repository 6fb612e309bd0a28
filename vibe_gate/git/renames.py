"""Which deleted file became which added file, decided as git 2.39 decides it.

Three passes, each on what the one before left over:

1. *identical*: the same object id; among several the one that kept its name, else the first;
2. *same name*: a file name that only one deleted and only one added file have, when they are at least
   halfway between similar enough and identical;
3. *similar*: for each added file the four most similar deleted files; the best pairs of all win.

Similarity is git's: the bytes of the spans (lines, cut at 64 bytes) that both have, over the size of the
larger file. Git compares every deleted file with every added one. Here an index from spans to deleted files
names the only ones that can be similar enough, so that thousands of renames stay cheap; the outcome is the
same, ties included, which the tests hold against git itself.

Where git differs on purpose: a `diff` attribute can make git count carriage returns differently (here only a
NUL byte makes a file binary), and git 2.44 and later also count a last line that has no newline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, Protocol, TypeVar

from vibe_gate.domain.expressions import expression
from vibe_gate.git.compiled import is_binary

MAX_SCORE = 60_000
MINIMUM_SCORE = 30_000  # git's default -M: half of the larger file is shared
BASENAME_SCORE = 45_000  # asked of files that kept their name: halfway from there to identical
CANDIDATES = 4  # deleted files that git remembers for each added one
IDENTICAL_TRIED = 100  # identical deleted files that git looks at for each added one

_TYPE_MASK = 0o170000
_REGULAR = 0o100000
_SPAN_BYTES = 64
_SPAN = expression(rb"[^\n]{0,63}\n|[^\n]{64}")  # what is left at the end without a newline counts for nothing
_HASH_BASE = 107_927  # git's table of spans; spans that share a hash count as one
_HASH_BATCH = 4_096  # spans hashed at once: 256 KiB, which stays in the processor's cache


class Entry(Protocol):
    """A file of a tree: path as bytes, object id in hex, mode."""

    @property
    def path(self) -> bytes: ...  # noqa: D102
    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def mode(self) -> int: ...  # noqa: D102


E = TypeVar("E", bound=Entry)


@dataclass(frozen=True, slots=True)
class Match:
    """Where an added file came from: an index into the deleted ones, and how similar it is, up to `MAX_SCORE`."""

    source: int
    score: int

    @property
    def percent(self) -> int:
        """The similarity index that git prints."""
        return self.score * 100 // MAX_SCORE


@dataclass(frozen=True, slots=True)
class _Print:
    """What git compares of a file: its size, and by hash the bytes in its spans."""

    size: int
    spans: dict[int, int]


def pair(deleted: Sequence[E], added: Sequence[E], read: Callable[[E], bytes]) -> dict[int, Match]:
    """The added files that are renames: index into `added` -> `Match`.

    Both sequences are sorted by path, as git's are: ties go to what comes first.
    `read` gives the content of regular files; nothing is read that was matched by id.
    """
    found = _identical(deleted, added)
    prints = _Prints(read)
    found |= _same_name(_left(deleted, _used(found)), _left(added, found), prints)
    found |= _similar(_left(deleted, _used(found)), _left(added, found), prints)
    return found


def _used(found: Mapping[int, Match]) -> set[int]:
    return {match.source for match in found.values()}


def _left(entries: Sequence[E], taken: Iterable[int]) -> dict[int, E]:
    gone = set(taken)
    return {index: entry for index, entry in enumerate(entries) if index not in gone}


def _identical(deleted: Sequence[E], added: Sequence[E]) -> dict[int, Match]:
    by_id: dict[str, dict[int, E]] = {}
    for source, entry in enumerate(deleted):
        by_id.setdefault(entry.id, {})[source] = entry
    found: dict[int, Match] = {}
    for target, entry in enumerate(added):
        same = by_id.get(entry.id)
        chosen = _choose_identical(entry, same) if same else None
        if same and chosen is not None:
            del same[chosen]
            found[target] = Match(chosen, MAX_SCORE)
    return found


def _choose_identical(entry: E, same: Mapping[int, E]) -> int | None:
    name = _basename(entry.path)
    fitting = 0
    first = None
    for source, other in same.items():
        if entry.mode != other.mode and not (_is_regular(entry) and _is_regular(other)):
            continue
        if _basename(other.path) == name:
            return source
        first = source if first is None else first
        fitting += 1
        if fitting == IDENTICAL_TRIED:
            break
    return first


def _same_name(deleted: Mapping[int, E], added: Mapping[int, E], prints: _Prints[E]) -> dict[int, Match]:
    target_of = _unique_names(added)
    both = [(source, target_of[name]) for name, source in _unique_names(deleted).items() if name in target_of]
    both = [(source, target) for source, target in both if _is_regular(deleted[source]) and _is_regular(added[target])]
    prints.take([deleted[source] for source, _ in both] + [added[target] for _, target in both])
    found = {}
    for source, target in both:
        score = _score(prints.of(deleted[source]), prints.of(added[target]), BASENAME_SCORE)
        if score >= BASENAME_SCORE:
            found[target] = Match(source, score)
    return found


def _unique_names(entries: Mapping[int, E]) -> dict[bytes, int]:
    times = Counter(_basename(entry.path) for entry in entries.values())
    names = ((_basename(entry.path), index) for index, entry in entries.items())
    return {name: index for name, index in names if times[name] == 1}


def _basename(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _is_regular(entry: Entry) -> bool:
    return (entry.mode & _TYPE_MASK) == _REGULAR


def _score(one: _Print, two: _Print, minimum: int) -> int:
    if not _sizes_allow(one.size, two.size, minimum):
        return 0
    fewer, more = (one.spans, two.spans) if len(one.spans) < len(two.spans) else (two.spans, one.spans)
    shared = sum(min(count, more[span]) for span, count in fewer.items() if span in more)
    return _scaled(shared, max(one.size, two.size))


def _sizes_allow(one: int, two: int, minimum: int) -> bool:
    larger = max(one, two)
    return min(one, two) > 0 and larger * (MAX_SCORE - minimum) >= abs(one - two) * MAX_SCORE


def _scaled(shared: int, larger: int) -> int:
    return int(shared * float(MAX_SCORE) / larger)  # in floating point, as git does, so that rounding agrees


_Key = tuple[int, bool]  # how git ranks the deleted files for one added file: score, then whether the name was kept


@dataclass(frozen=True, slots=True)
class _Tie:
    """Deleted files that fit one added file equally well; `cut` where git remembers only some of them."""

    key: _Key
    target: int
    sources: list[int]
    cut: bool


def _similar(deleted: Mapping[int, E], added: Mapping[int, E], prints: _Prints[E]) -> dict[int, Match]:
    sources = {source: entry for source, entry in deleted.items() if _is_regular(entry)}
    targets = {target: entry for target, entry in added.items() if _is_regular(entry)}
    if not sources or not targets:
        return {}
    prints.take([*sources.values(), *targets.values()])
    index = _Index({source: prints.of(entry) for source, entry in sources.items()})
    names = {source: _basename(entry.path) for source, entry in deleted.items()}

    def keys(target: int, scores: Mapping[int, int]) -> dict[int, _Key]:
        name = _basename(targets[target].path)
        return {source: (score, names[source] == name) for source, score in scores.items()}

    def every_key(target: int) -> dict[int, _Key]:
        scores = index.all_scores(prints.of(targets[target]))
        return keys(target, {source: scores.get(source, 0) for source in names})

    ties: list[_Tie] = []
    for target, entry in targets.items():
        ties += _ties(target, keys(target, index.similar(prints.of(entry))))
    return _take_best(ties, every_key)


def _take_best(ties: list[_Tie], every_key: Callable[[int], Mapping[int, _Key]]) -> dict[int, Match]:
    ties.sort(key=lambda tie: tie.key, reverse=True)  # stable: else in the order of the added files
    found: dict[int, Match] = {}
    used: set[int] = set()
    for tie in ties:
        free = [source for source in tie.sources if source not in used]
        if tie.target in found or not free:
            continue
        if tie.cut or len(free) > 1:
            free = [source for source in _remembered(tie, every_key(tie.target)) if source not in used]
        if free:
            found[tie.target] = Match(free[0], tie.key[0])
            used.add(free[0])
    return found


def _ties(target: int, keys: Mapping[int, _Key]) -> Iterator[_Tie]:
    held = 0
    ranked = sorted(keys, key=lambda source: keys[source], reverse=True)
    for key, group in groupby(ranked, key=lambda source: keys[source]):
        sources = list(group)
        held += len(sources)
        yield _Tie(key, target, sources, held > CANDIDATES)
        if held >= CANDIDATES:
            break


def _remembered(tie: _Tie, keys: Mapping[int, _Key]) -> list[int]:
    """Which of equals git remembers, in its order: that depends on all that it compared with this target before."""
    slots: list[tuple[_Key, int]] = []
    worst = (0, False)
    for source, key in keys.items():
        if len(slots) < CANDIDATES:
            slots.append((key, source))
        elif key > worst:
            slots[min(range(CANDIDATES), key=lambda slot: slots[slot][0])] = (key, source)
        else:
            continue
        worst = min(slot[0] for slot in slots)
    return [source for key, source in slots if key == tie.key]


class _Index:
    """From a span to the deleted files that have it.

    Most spans are in few files, some are in nearly all (a licence, blank lines). For each span the commonest
    count is its norm (mostly 0), and only the files that differ from the norm are listed.
    """

    def __init__(self, sources: Mapping[int, _Print]) -> None:
        self._sources = sources
        self._norms: dict[int, int] = {}
        self._others: dict[int, list[tuple[int, int]]] = {}  # span -> (source, its count), where not the norm
        for source, file in sources.items():
            for span, count in file.spans.items():
                self._others.setdefault(span, []).append((source, count))
        for span, holders in self._others.items():
            if 2 * len(holders) > len(sources):
                self._others[span] = self._against_norm(span, holders)

    def _against_norm(self, span: int, holders: list[tuple[int, int]]) -> list[tuple[int, int]]:
        norm, times = Counter(count for _, count in holders).most_common(1)[0]
        if times <= len(self._sources) - len(holders):
            return holders
        self._norms[span] = norm
        counts = ((source, file.spans.get(span, 0)) for source, file in self._sources.items())
        return [(source, count) for source, count in counts if count != norm]

    def similar(self, target: _Print) -> dict[int, int]:
        """The score of every source that reaches the minimum, in the order of the sources.

        Spans that few files differ in come first. As soon as what all files have by norm and what the spans
        still to come could add is under half of the target, the files not named yet cannot be similar enough.
        """
        spans = self._ordered(target)
        common = sum(min(count, norm) for _, _, count, norm in spans)
        rest = sum(count - min(count, norm) for _, _, count, norm in spans)
        extra: dict[int, int] = {}
        position = 0
        while position < len(spans) and (common + rest) * MAX_SCORE >= target.size * MINIMUM_SCORE:
            _, span, count, norm = spans[position]
            self._add(extra, span, count, norm)
            rest -= count - min(count, norm)
            position += 1
        if (common + rest) * MAX_SCORE >= target.size * MINIMUM_SCORE:
            return self._scores(target, common, extra, self._sources, MINIMUM_SCORE)
        possible = self._possible(target.size, common + rest, extra)
        later = spans[position:]
        if len(possible) * len(later) > sum(files for files, *_ in later):
            for _, span, count, norm in later:
                self._add(extra, span, count, norm)
        else:
            for source in possible:
                counts = self._sources[source].spans
                extra[source] += sum(
                    min(count, counts.get(span, 0)) - min(count, norm) for _, span, count, norm in later
                )
        return self._scores(target, common, extra, possible, MINIMUM_SCORE)

    def all_scores(self, target: _Print) -> dict[int, int]:
        """The score of every source, below the minimum too."""
        spans = self._ordered(target)
        extra: dict[int, int] = {}
        for _, span, count, norm in spans:
            self._add(extra, span, count, norm)
        return self._scores(target, sum(min(count, norm) for _, _, count, norm in spans), extra, self._sources, 0)

    def _ordered(self, target: _Print) -> list[tuple[int, int, int, int]]:
        """The target's spans that any source has: (files that differ from the norm, span, count, norm)."""
        others = self._others
        norms = self._norms
        known = [(span, count) for span, count in target.spans.items() if span in others]
        return sorted((len(others[span]), span, count, norms.get(span, 0)) for span, count in known)

    def _add(self, extra: dict[int, int], span: int, count: int, norm: int) -> None:
        """Add to each file that differs what it shares of the span more (or less) than the norm."""
        usual = min(count, norm)
        for source, other in self._others[span]:
            extra[source] = extra.get(source, 0) + (count if count < other else other) - usual

    def _possible(self, size: int, most: int, extra: Mapping[int, int]) -> list[int]:
        """The named sources that can still reach the minimum when they share `most` bytes besides `extra`."""
        sizes = ((source, self._sources[source].size, shared) for source, shared in extra.items())
        return sorted(
            source
            for source, other, shared in sizes
            if (most + shared) * MAX_SCORE >= (size if size > other else other) * MINIMUM_SCORE
        )

    def _scores(
        self, target: _Print, common: int, extra: Mapping[int, int], sources: Iterable[int], least: int
    ) -> dict[int, int]:
        found = {}
        size = target.size
        for source in sources:
            other = self._sources[source].size
            shared = common + extra.get(source, 0)
            larger = size if size > other else other
            if shared * MAX_SCORE >= larger * least and _sizes_allow(size, other, MINIMUM_SCORE):
                found[source] = _scaled(shared, larger)
        return found


class _Prints(Generic[E]):
    """The prints of files, each made once; contents are let go at once."""

    def __init__(self, read: Callable[[E], bytes]) -> None:
        self._read = read
        self._prints: dict[str, _Print] = {}
        self._hashes: dict[bytes, int] = {}

    def of(self, entry: E) -> _Print:
        """The print of a file that was taken."""
        return self._prints[entry.id]

    def take(self, entries: Iterable[E]) -> None:
        """Make the prints of these files."""
        new = {entry.id: entry for entry in entries if entry.id not in self._prints}
        counts: dict[str, tuple[int, Counter[bytes]]] = {}
        for identity, entry in new.items():
            content = self._read(entry)
            counts[identity] = (len(content), Counter(_SPAN.findall(_without_carriage_returns(content))))
        self._hash({span for _, spans in counts.values() for span in spans} - self._hashes.keys())
        for identity, (size, spans) in counts.items():
            self._prints[identity] = _Print(size, self._by_hash(spans))

    def _by_hash(self, spans: Counter[bytes]) -> dict[int, int]:
        hashes = self._hashes
        found: dict[int, int] = {}
        for span, times in spans.items():
            value = hashes[span]
            found[value] = found.get(value, 0) + len(span) * times
        return found

    def _hash(self, spans: set[bytes]) -> None:
        waiting = list(spans)
        for start in range(0, len(waiting), _HASH_BATCH):
            batch = waiting[start : start + _HASH_BATCH]
            self._hashes.update(zip(batch, span_hashes(batch), strict=True))


def _without_carriage_returns(content: bytes) -> bytes:
    return content if is_binary(content) else content.replace(b"\r\n", b"\n")


def span_hashes(spans: list[bytes]) -> list[int]:
    """Git's hash of each span of up to 64 bytes.

    Git holds two 32-bit words: for each byte it turns the 64 bits they make by seven and adds the byte. That
    is the value of the bytes as digits of base 128, modulo 2^64 - 1 (but for a carry between the words that
    git drops, about once in 16 million bytes; it only decides which spans share a hash). All spans are worked
    on at once, as lanes of one large integer: neighbours are joined, then pairs, then fours, and so on.
    """
    lanes = int.from_bytes(b"".join(span.rjust(_SPAN_BYTES, b"\0") for span in spans), "big")
    total = _SPAN_BYTES * len(spans)
    for width in (1, 2, 4, 8, 16, 32):
        low = int.from_bytes((b"\0" * width + b"\xff" * width) * (total // (2 * width)), "big")
        kept = lanes & low
        lanes = kept + ((lanes ^ kept) >> width)
    words = memoryview(lanes.to_bytes(total, "little")).cast("Q").tolist()
    sums = [sum(words[start : start + 8]) for start in range(0, len(words), 8)]
    values = [(total - 1) % (2**64 - 1) + 1 if total else 0 for total in reversed(sums)]  # turning ones keeps ones
    return [((value + (value >> 32) * 0x61) & 0xFFFFFFFF) % _HASH_BASE for value in values]
