"""Which deleted file became which added file: git's rename detection, decided as git 2.39 decides it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

MAX_SCORE = 60_000
MINIMUM_SCORE = 30_000  # git's default: half of the larger file is shared
BASENAME_SCORE = 45_000  # halfway from there to identical, asked of files that kept their name
CANDIDATES = 4  # sources that git remembers for each target
IDENTICAL_TRIED = 100  # identical sources that git looks at for each target
_TYPE_MASK = 0o170000
_REGULAR = 0o100000
_SPAN = re.compile(rb"[^\n]{0,63}\n|[^\n]{64}")
_HASH_BASE = 107_927
_BINARY_PROBE_BYTES = 8_000


class Entry(Protocol):
    """A file of a tree."""

    @property
    def path(self) -> bytes: ...  # noqa: D102
    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def mode(self) -> int: ...  # noqa: D102


E = TypeVar("E", bound=Entry)


@dataclass(frozen=True, slots=True)
class _Print:
    """A file as git compares it: its size, and the bytes that each span hash stands for."""

    size: int
    spans: dict[int, int]


def pair(deleted: Sequence[E], added: Sequence[E], read: Callable[[E], bytes]) -> dict[int, int]:
    """For each added file that is a rename: its index -> the index of the deleted file it came from."""
    sources = _identical(deleted, added)
    left = _left(deleted, sources)
    targets = [index for index in range(len(added)) if index not in sources]
    prints = _Prints(read)
    sources |= _same_name(deleted, added, left, targets, prints)
    left = _left(deleted, sources)
    targets = [index for index in targets if index not in sources]
    return sources | _similar(deleted, added, left, targets, prints)


def _left(deleted: Sequence[E], sources: dict[int, int]) -> list[int]:
    used = set(sources.values())
    return [index for index in range(len(deleted)) if index not in used]


def _identical(deleted: Sequence[E], added: Sequence[E]) -> dict[int, int]:
    by_id: dict[str, list[int]] = {}
    for index, entry in enumerate(deleted):
        by_id.setdefault(entry.id, []).append(index)
    used: set[int] = set()
    found: dict[int, int] = {}
    for target, entry in enumerate(added):
        best = None
        tried = 0
        for source in by_id.get(entry.id, ()):
            other = deleted[source]
            regular = _is_regular(other) and _is_regular(entry)
            if source in used or (not regular and other.mode != entry.mode):
                continue
            tried += 1
            if _basename(other.path) == _basename(entry.path):
                best = source
                break
            if best is None:
                best = source
            if tried == IDENTICAL_TRIED:
                break
        if best is not None:
            used.add(best)
            found[target] = best
    return found


def _same_name(deleted, added, left, targets, prints):
    source_of = _unique(deleted, left)
    target_of = _unique(added, targets)
    found = {}
    for name, source in source_of.items():
        target = target_of.get(name, -1)
        if (
            source >= 0
            and target >= 0
            and prints.score(deleted[source], added[target], BASENAME_SCORE) >= BASENAME_SCORE
        ):
            found[target] = source
    return found


def _unique(entries, indexes):
    found = {}
    for index in indexes:
        name = _basename(entries[index].path)
        found[name] = -1 if name in found else index
    return found


def _similar(deleted, added, left, targets, prints):
    ranked = []
    for target in targets:
        best = [None] * CANDIDATES
        for source in left:
            score = prints.score(deleted[source], added[target], MINIMUM_SCORE)
            key = (score, int(_basename(deleted[source].path) == _basename(added[target].path)))
            worst = 0
            for i in range(1, CANDIDATES):
                if _key(best[i]) < _key(best[worst]):
                    worst = i
            if best[worst] is None or _key(best[worst]) < key:
                best[worst] = (key, source)
        ranked += [(slot[0], target, slot[1]) for slot in best if slot]
    ranked.sort(key=lambda row: row[0], reverse=True)
    found = {}
    used = set()
    for (score, _), target, source in ranked:
        if score < MINIMUM_SCORE:
            break
        if target not in found and source not in used:
            found[target] = source
            used.add(source)
    return found


def _key(slot):
    return (-1, -1) if slot is None else slot[0]


def _basename(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _is_regular(entry) -> bool:
    return (entry.mode & _TYPE_MASK) == _REGULAR


class _Prints:
    def __init__(self, read):
        self._read = read
        self._prints = {}
        self._hashes = {}

    def score(self, one, two, minimum):
        if not (_is_regular(one) and _is_regular(two)):
            return 0
        a = self.of(one)
        b = self.of(two)
        larger = max(a.size, b.size)
        if larger * (MAX_SCORE - minimum) < (larger - min(a.size, b.size)) * MAX_SCORE or not b.size:
            return 0
        get = a.spans.get
        return int(sum(min(count, get(span, 0)) for span, count in b.spans.items()) * float(MAX_SCORE) / larger)

    def of(self, entry):
        if entry.id not in self._prints:
            self._prints[entry.id] = self._make(self._read(entry))
        return self._prints[entry.id]

    def _make(self, data):
        text = data if b"\0" in data[:_BINARY_PROBE_BYTES] else data.replace(b"\r\n", b"\n")
        spans = {}
        for span, count in Counter(_SPAN.findall(text)).items():
            value = self._hashes.get(span)
            if value is None:
                value = self._hashes[span] = _hash(span)
            spans[value] = spans.get(value, 0) + len(span) * count
        return _Print(len(data), spans)


def _hash(span: bytes) -> int:
    low = high = 0
    for byte in span:
        low, high = (
            (((low << 7) & 0xFFFFFFFF ^ (high >> 25)) + byte) & 0xFFFFFFFF,
            ((high << 7) & 0xFFFFFFFF) ^ (low >> 25),
        )
    return ((low + high * 0x61) & 0xFFFFFFFF) % _HASH_BASE
