"""Lines of a version of a file, traced back through the states that captured writes left and found: pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from vibe_gate.domain.matching import as_kept, as_new, matches
from vibe_gate.store.captured import FileState, KeptWrite

Loose: TypeAlias = Callable[[Iterable[int]], Mapping[int, tuple[int, int]]]


class AgentWrite(Struct, frozen=True):
    """A write, and whose it is."""

    agent: str
    session: str
    write: KeptWrite

    @property
    def at(self) -> float:
        """Seconds since 1970."""
        return self.write.at.timestamp()


class TracedState(Struct, frozen=True):
    """A file's lines as a write left them, or the last one of which that is known, and of each the write that brought
    it, None for those of others. `write` is the one that is asked about."""

    write: AgentWrite
    lines: FileState = ()
    owners: tuple[AgentWrite | None, ...] = ()
    brought: frozenset[int] = frozenset()


class Chain(Struct, frozen=True):
    """The writes of one file in one place, oldest first, each with whose lines it left, and their times.

    `forms`: by digest the writes that brought the line, or brackets of it in the form that formatters do not change,
    by their number, rising.
    """

    states: tuple[TracedState, ...]
    times: tuple[float, ...]
    forms: Mapping[int, Sequence[int]]


def chained(writes: Iterable[AgentWrite]) -> Chain:
    """The chain of these writes, which are the oldest first."""
    states: list[TracedState] = []
    forms: dict[int, list[int]] = defaultdict(list)
    for each in writes:
        state = _after(states[-1] if states else None, each)
        for digest in state.brought | each.write.joined:
            forms[digest].append(len(states))
        states.append(state)
    return Chain(tuple(states), tuple(state.write.at for state in states), forms)


def _after(last: TracedState | None, each: AgentWrite) -> TracedState:
    """Whose the lines are that a write left. What it found there, and none before it left, was typed in between."""
    left, before = each.write.left, each.write.before
    if left is None:
        return TracedState(each) if last is None else TracedState(each, last.lines, last.owners)
    if before is None and last is not None and last.write.write.left is not None:
        before = last.lines
    if before is None:
        return TracedState(each, left, _owners(last, left), frozenset(left))
    found, came = _owners(last, before), matches(before, left)
    kept = enumerate(as_kept(left, came))
    origins = (at if at >= 0 else each.write.same.get(to, -1) for to, at in kept)
    owners = tuple([found[at] if at >= 0 else each for at in origins])
    return TracedState(each, left, owners, frozenset(left[to] for to, at in enumerate(came) if at < 0))


def _owners(known: TracedState | None, lines: FileState) -> tuple[AgentWrite | None, ...]:
    """Of each line, after the state that is known, the write that brought it."""
    if known is None:
        return (None,) * len(lines)
    if known.lines == lines:
        return known.owners
    return tuple([known.owners[at] if at >= 0 else None for at in as_new(lines, matches(known.lines, lines))])


class Version(Struct, frozen=True):
    """A version of the file: its lines, its blob id, and when it may have been made (seconds since 1970), the likeliest
    first."""

    lines: FileState
    blob: str
    moments: tuple[float, ...]

    @property
    def latest(self) -> float:
        """No later write can be in it."""
        return max(self.moments)


def written(chain: Chain, version: Version, wanted: Collection[int], loose: Loose) -> dict[int, AgentWrite]:
    """By line (from 0) of those wanted the write that brought it. `loose`: of numbers of lines, by loose digest the
    span that has it."""
    found: dict[int, AgentWrite] = {}
    forms = {digest: span for digest, span in loose(wanted).items() if digest in chain.forms}
    left = set(wanted) if forms or any(version.lines[line] in chain.forms for line in wanted) else set()
    for start in _starts(chain, version) if left else ():
        owners = _owners(chain.states[start], version.lines)
        found |= {line: owner for line in left if (owner := owners[line]) is not None}
        left -= found.keys()
        if start + 1 < len(chain.states) and chain.times[start + 1] < version.latest:
            # What the next write found there, and no write until then has left, was typed in between.
            came = matches(chain.states[start + 1].write.write.before or (), version.lines)
            left -= {line for line in left if came[line] >= 0}
    return found | dict(_in_another_form(chain, version, left, forms))


def _starts(chain: Chain, version: Version) -> Iterator[int]:
    """The writes after which the version may have been made, the likeliest first, each once."""
    known = range(bisect_left(chain.times, version.latest))
    exact = [number for number in known if version.blob in chain.states[number].write.write.blobs]
    at_moments = (bisect_left(chain.times, moment) - 1 for moment in version.moments)
    return iter(dict.fromkeys(number for number in (*exact[-1:], *at_moments) if number >= 0))


def _in_another_form(
    chain: Chain, version: Version, wanted: Collection[int], forms: Mapping[int, tuple[int, int]]
) -> Iterator[tuple[int, AgentWrite]]:
    """Lines that a formatter made of those that a write brought: of the last such write before the version."""
    until = bisect_left(chain.times, version.latest)
    found: list[tuple[int, int, int]] = []
    for digest, (first, last) in forms.items():
        for number in reversed(chain.forms[digest]) if first in wanted else ():
            # The very line is no other form of it: by its place it is somebody else's.
            is_other = digest in chain.states[number].write.write.joined or version.lines[first] != digest
            if number < until and (is_other or last - first > 1):
                found.append((number, first, last))
                break
    for number, first, last in sorted(found, reverse=True):
        yield from ((line, chain.states[number].write) for line in range(first, last) if line in wanted)


def is_untold(chain: Chain, since: float, until: float) -> bool:
    """Whether a write within this time is known, but not what it left."""
    within = chain.states[bisect_left(chain.times, since) : bisect_left(chain.times, until)]
    return any(each.write.write.left is None for each in within)
