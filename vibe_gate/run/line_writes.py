"""Lines of a version of a file, traced back through the states that captured writes left and found:
pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from vibe_gate.domain.matching import as_kept, as_new, matches, new_runs
from vibe_gate.store.stored_writes import DigestedLines, StoredWrite

Loose: TypeAlias = Callable[[Iterable[int]], Mapping[int, tuple[int, int]]]


class AgentWrite(Struct, frozen=True):
    """A write, and whose it is."""

    agent: str
    session: str
    write: StoredWrite

    @property
    def at(self) -> float:
        """Seconds since 1970."""
        return self.write.at.timestamp()


class TracedState(Struct, frozen=True):
    """A file's lines as a write left them, or the last one of which that is known, and of each the
    write that brought it, None for those of others. `write` is the one that is asked about.
    """

    write: AgentWrite
    lines: DigestedLines = ()
    owners: tuple[AgentWrite | None, ...] = ()
    brought: frozenset[int] = frozenset()


class Chain:
    """The writes of one file in one place, oldest first, and their times. Whose lines each left is
    worked out when it is asked for: of a line in an early commit nothing later is.
    """

    def __init__(self, writes: Iterable[AgentWrite]) -> None:
        self.writes = tuple(writes)
        self.times = tuple(each.at for each in self.writes)
        self._states: list[TracedState] = []
        self._forms: dict[int, list[int]] = defaultdict(list)

    def state(self, number: int) -> TracedState:
        """What the write with this number left."""
        for each in self.writes[len(self._states) : number + 1]:
            state = _after(self._states[-1] if self._states else None, each)
            for digest in state.brought | each.write.joined:
                self._forms[digest].append(len(self._states))
            self._states.append(state)
        return self._states[number]

    def forms(self, until: int) -> Mapping[int, Sequence[int]]:
        """By digest the writes that brought the line, or brackets of it in the form that formatters
        do not change, by their number, rising: at least those before `until`.
        """
        if until:
            self.state(until - 1)
        return self._forms


def _after(last: TracedState | None, each: AgentWrite) -> TracedState:
    """Whose the lines are that a write left. What it found there, and none before it left, was
    typed in between.
    """
    left, before = each.write.left, each.write.before
    if left is None:
        return TracedState(each) if last is None else TracedState(each, last.lines, last.owners)
    if before is None and last is not None and last.write.write.left is not None:
        before = last.lines
    if before is None:
        return TracedState(each, left, _owners(last, left), frozenset(left))
    found, came = _owners(last, before), matches(before, left)
    origins = as_kept(left, came)
    for to, at in each.write.same.items():
        if 0 <= to < len(left) and origins[to] < 0 <= at:
            origins[to] = at
    brought = frozenset(digest for start, end in new_runs(came) for digest in left[start:end])
    return TracedState(each, left, _picked(found, each, origins), brought)


def _owners(known: TracedState | None, lines: DigestedLines) -> tuple[AgentWrite | None, ...]:
    """Of each line, after the state that is known, the write that brought it."""
    if known is None:
        return (None,) * len(lines)
    if known.lines == lines:
        return known.owners
    return _picked(known.owners, None, as_new(lines, matches(known.lines, lines)))


def _picked(
    owners: tuple[AgentWrite | None, ...], other: AgentWrite | None, origins: Iterable[int]
) -> tuple[AgentWrite | None, ...]:
    """Of each line the owner of the line that it was; `other` if it was none (-1)."""
    return tuple(map((*owners, other).__getitem__, origins))


class Version(Struct, frozen=True):
    """A version of the file: its lines, its blob id, and when it may have been made (seconds since
    1970), the likeliest first.
    """

    lines: DigestedLines
    blob: str
    moments: tuple[float, ...]

    @property
    def latest(self) -> float:
        """No later write can be in it."""
        return max(self.moments)


def written(
    chain: Chain, version: Version, wanted: Collection[int], loose: Loose
) -> dict[int, AgentWrite]:
    """By line (from 0) of those wanted the write that brought it. `loose`: of numbers of lines, by
    loose digest the span that has it.
    """
    found: dict[int, AgentWrite] = {}
    known = chain.forms(bisect_left(chain.times, version.latest))
    forms = {digest: span for digest, span in loose(wanted).items() if digest in known}
    left = set(wanted) if forms or any(version.lines[line] in known for line in wanted) else set()
    for start in _starts(chain, version) if left else ():
        owners = _owners(chain.state(start), version.lines)
        found |= {line: owner for line in left if (owner := owners[line]) is not None}
        left -= found.keys()
        if start + 1 < len(chain.times) and chain.times[start + 1] < version.latest:
            # What the next write found there, and no write until then has left, was typed in
            # between.
            came = matches(chain.writes[start + 1].write.before or (), version.lines)
            left -= {line for line in left if came[line] >= 0}
    return found | dict(_in_another_form(chain, version, left, forms))


def _starts(chain: Chain, version: Version) -> Iterator[int]:
    """The writes after which the version may have been made, the likeliest first, each once."""
    known = range(bisect_left(chain.times, version.latest))
    exact = [number for number in known if version.blob in chain.writes[number].write.blobs]
    at_moments = (bisect_left(chain.times, moment) - 1 for moment in version.moments)
    return iter(dict.fromkeys(number for number in (*exact[-1:], *at_moments) if number >= 0))


def _in_another_form(
    chain: Chain, version: Version, wanted: Collection[int], forms: Mapping[int, tuple[int, int]]
) -> Iterator[tuple[int, AgentWrite]]:
    """Lines that a formatter made of those that a write brought: of the last such write before the
    version.
    """
    until = bisect_left(chain.times, version.latest)
    known = chain.forms(until)
    found: list[tuple[int, int, int]] = []
    for digest, (first, last) in forms.items():
        for number in reversed(known[digest]) if first in wanted else ():
            # The very line is no other form of it: by its place it is somebody else's.
            is_other = digest in chain.writes[number].write.joined or version.lines[first] != digest
            if number < until and (is_other or last - first > 1):
                found.append((number, first, last))
                break
    for number, first, last in sorted(found, reverse=True):
        yield from ((line, chain.writes[number]) for line in range(first, last) if line in wanted)


def is_untold(chain: Chain, since: float, until: float) -> bool:
    """Whether a write within this time is known, but not what it changed: what it left, or what it
    found.
    """
    for number in range(bisect_left(chain.times, since), bisect_left(chain.times, until)):
        write = chain.writes[number].write
        if write.left is None:
            return True
        if write.before is None and (number == 0 or chain.writes[number - 1].write.left is None):
            return True
    return False
