"""Lines of a version of a file, traced back through the states that captured writes left and found:
pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from vibe_gate.domain.matching import as_kept, as_new, match_lines, new_runs
from vibe_gate.store.stored_writes import DigestedLines, StoredWrite

LooseDigests: TypeAlias = Callable[[Iterable[int]], Mapping[int, tuple[int, int]]]
"""Of numbers of lines, by loose digest the span (from, to) that has it."""


class AgentWrite(Struct, frozen=True):
    """A write, and whose it is."""

    agent: str
    """A key of `AGENTS`."""

    session: str

    write: StoredWrite

    @property
    def at(self) -> float:
        """Seconds since 1970."""
        return self.write.at.timestamp()


class TracedState(Struct, frozen=True):
    """A file's lines as a write left them, and who brought each."""

    write: AgentWrite
    """The write that is asked about."""

    lines: DigestedLines = ()
    """What it left, or the last write before of which that is known."""

    owners: tuple[AgentWrite | None, ...] = ()
    """Of each line the write that brought it, None for those of others."""

    new_digests: frozenset[int] = frozenset()
    """The lines that the write brought."""


class Chain:
    """The writes of one file in one place, oldest first, and their times. Whose lines each left is
    worked out when it is asked for: of a line in an early commit nothing later is.
    """

    def __init__(self, writes: Iterable[AgentWrite]) -> None:
        self.writes = tuple(writes)
        self.times = tuple(agent_write.at for agent_write in self.writes)
        """Seconds since 1970."""
        self._states: list[TracedState] = []
        self._numbers_by_digest: dict[int, list[int]] = defaultdict(list)

    def state(self, number: int) -> TracedState:
        """What the write with this number left."""
        for agent_write in self.writes[len(self._states) : number + 1]:
            last_state = self._states[-1] if self._states else None
            state = _state_after(last_state, agent_write)
            for digest in state.new_digests | agent_write.write.joined:
                self._numbers_by_digest[digest].append(len(self._states))
            self._states.append(state)
        return self._states[number]

    def numbers_by_digest(self, until: int) -> Mapping[int, Sequence[int]]:
        """By digest the writes that brought the line, or brackets of it in the form that formatters
        do not change, by their number, rising: at least those before `until`.
        """
        if until:
            self.state(until - 1)
        return self._numbers_by_digest

    def count_before(self, moment: float) -> int:
        """How many writes are older than this moment, in seconds since 1970."""
        return bisect_left(self.times, moment)


def _state_after(last_state: TracedState | None, agent_write: AgentWrite) -> TracedState:
    """Whose the lines are that a write left. What it found there, and none before it left, was
    typed in between.
    """
    write = agent_write.write
    after = write.final_lines
    if after is None:
        if last_state is None:
            return TracedState(agent_write)
        return TracedState(agent_write, last_state.lines, last_state.owners)
    before = write.before
    if before is None and last_state is not None and last_state.write.write.final_lines is not None:
        before = last_state.lines
    if before is None:
        return TracedState(agent_write, after, _owners_of(after, last_state), frozenset(after))
    old_numbers = match_lines(before, after)
    origins = as_kept(after, old_numbers)
    for number, old_number in write.same.items():
        if 0 <= number < len(after) and origins[number] < 0 <= old_number:
            origins[number] = old_number
    owners = _carry_owners(_owners_of(before, last_state), agent_write, origins)
    new_digests: set[int] = set()
    for start, end in new_runs(old_numbers):
        new_digests.update(after[start:end])
    return TracedState(agent_write, after, owners, frozenset(new_digests))


def _owners_of(lines: DigestedLines, state: TracedState | None) -> tuple[AgentWrite | None, ...]:
    """Of each line, some time after a state, the write that brought it."""
    if state is None:
        return (None,) * len(lines)
    if state.lines == lines:
        return state.owners
    return _carry_owners(state.owners, None, as_new(lines, match_lines(state.lines, lines)))


def _carry_owners(
    old_owners: tuple[AgentWrite | None, ...],
    owner_of_new: AgentWrite | None,
    origins: Iterable[int],
) -> tuple[AgentWrite | None, ...]:
    """Of each line the owner of the old line that it was, or of new lines (-1)."""
    return tuple(map((*old_owners, owner_of_new).__getitem__, origins))  # [-1] is the last


class Version(Struct, frozen=True):
    """A version of the file."""

    lines: DigestedLines

    blob: str
    """The id of its content."""

    moments: tuple[float, ...]
    """When it may have been made, in seconds since 1970, the likeliest first."""

    @property
    def latest(self) -> float:
        """No later write can be in it."""
        return max(self.moments)


def find_writes_of_lines(
    chain: Chain, version: Version, numbers: Collection[int], loose: LooseDigests
) -> dict[int, AgentWrite]:
    """Of these lines of the version (from 0), those that a write of the chain brought, with the
    write.
    """
    writes: dict[int, AgentWrite] = {}
    numbers_by_digest = chain.numbers_by_digest(chain.count_before(version.latest))
    spans: dict[int, tuple[int, int]] = {}
    for digest, span in loose(numbers).items():
        if digest in numbers_by_digest:
            spans[digest] = span
    if not spans and not any(version.lines[number] in numbers_by_digest for number in numbers):
        return {}
    open_numbers = set(numbers)
    for last_write in _possible_last_writes(chain, version):
        owners = _owners_of(version.lines, chain.state(last_write))
        for number in open_numbers:
            owner = owners[number]
            if owner is not None:
                writes[number] = owner
        open_numbers -= writes.keys()
        next_write = last_write + 1
        if next_write < len(chain.times) and chain.times[next_write] < version.latest:
            # What the next write found there, and no write until then has left, was typed in
            # between.
            old_numbers = match_lines(chain.writes[next_write].write.before or (), version.lines)
            open_numbers = {number for number in open_numbers if old_numbers[number] < 0}
    return writes | _writes_of_reformatted(chain, version, open_numbers, spans)


def _possible_last_writes(chain: Chain, version: Version) -> list[int]:
    """The writes after which the version may have been made, the likeliest first, each once."""
    candidates: list[int] = []
    for number in reversed(range(chain.count_before(version.latest))):
        if version.blob in chain.writes[number].write.blobs:
            candidates.append(number)
            break
    candidates += [chain.count_before(moment) - 1 for moment in version.moments]
    return [number for number in dict.fromkeys(candidates) if number >= 0]


def _writes_of_reformatted(
    chain: Chain,
    version: Version,
    numbers: Collection[int],
    spans: Mapping[int, tuple[int, int]],
) -> dict[int, AgentWrite]:
    """Of these lines those that a formatter made of lines that a write brought; where several
    writes did, the oldest of their last ones.

    `spans`: by loose digest the lines (from, to) of the version that have it.
    """
    matched_spans: list[tuple[int, int, int]] = []
    for digest, (first, end) in spans.items():
        if first not in numbers:
            continue
        write_number = _last_write_of_form(chain, version, digest, (first, end))
        if write_number is not None:
            matched_spans.append((write_number, first, end))
    writes: dict[int, AgentWrite] = {}
    for write_number, first, end in sorted(matched_spans, reverse=True):
        for number in range(first, end):
            if number in numbers:
                writes[number] = chain.writes[write_number]
    return writes


def _last_write_of_form(
    chain: Chain, version: Version, digest: int, span: tuple[int, int]
) -> int | None:
    """The last write before the version that brought lines of this loose digest in another form;
    None: no write did.
    """
    first, end = span
    write_count = chain.count_before(version.latest)
    for number in reversed(chain.numbers_by_digest(write_count)[digest]):
        # The very line is no other form of it: by its place it is somebody else's.
        is_joined = digest in chain.writes[number].write.joined
        is_other_form = is_joined or version.lines[first] != digest or end - first > 1
        if number < write_count and is_other_form:
            return number
    return None


def has_unread_write(chain: Chain, since: float, until: float) -> bool:
    """Whether a write within this time is known, but not what it changed: what it left, or what it
    found.
    """
    for number in range(chain.count_before(since), chain.count_before(until)):
        write = chain.writes[number].write
        if write.final_lines is None:
            return True
        is_before_known = number > 0 and chain.writes[number - 1].write.final_lines is not None
        if write.before is None and not is_before_known:
            return True
    return False
