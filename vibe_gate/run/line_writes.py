"""Lines of a version of a file, traced back through the states that captured writes left and found: pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct

from vibe_gate.domain.matching import as_kept, as_new, matches
from vibe_gate.store.captured import FileState, KeptWrite

MAX_WRITES_BACK = 200
"""Writes before a version that are asked whether it has their lines in another form."""


class AgentWrite(Struct, frozen=True):
    """A write, and whose it is. `brought`: digests of the lines that were not there before."""

    agent: str
    session: str
    write: KeptWrite
    brought: frozenset[int]

    @classmethod
    def of(cls, agent: str, session: str, write: KeptWrite) -> AgentWrite:
        """The write of a session."""
        left = write.left or ()
        came = matches(write.before or (), left)
        brought = frozenset(digest for digest, at in zip(left, came, strict=True) if at < 0)
        return cls(agent, session, write, brought)

    @property
    def at(self) -> float:
        """Seconds since 1970."""
        return self.write.at.timestamp()


Chain: TypeAlias = Sequence[AgentWrite]
"""The writes of one file in one place, oldest first."""


class Version(Struct, frozen=True):
    """A version of the file: its lines, its blob id, and when it may have been made (seconds since 1970), the likeliest
    first. `loose`: by loose digest the lines (from, to) that have it."""

    lines: FileState
    blob: str
    moments: tuple[float, ...]
    loose: Mapping[int, tuple[int, int]] = MappingProxyType({})

    @property
    def latest(self) -> float:
        """No later write can be in it."""
        return max(self.moments)


def written(chain: Chain, version: Version, wanted: Collection[int]) -> dict[int, AgentWrite]:
    """By line (from 0) of those wanted the write that brought it."""
    found: dict[int, AgentWrite] = {}
    left = set(wanted)
    for start in _starts(chain, version):
        found |= _traced(chain[: start + 1], version.lines, left)
        left -= found.keys()
        if start + 1 < len(chain) and chain[start + 1].at < version.latest:
            # What the next write found there, and no write until then has left, was typed in between.
            before = chain[start + 1].write.before or ()
            came = matches(before, version.lines)
            left -= {line for line in left if came[line] >= 0}
    return found | dict(_in_another_form(chain, version, left))


def _starts(chain: Chain, version: Version) -> Iterator[int]:
    """The writes after which the version may have been made, the likeliest first, each once."""
    known = [number for number, each in enumerate(chain) if each.at < version.latest]
    exact = [number for number in known if version.blob in chain[number].write.blobs]
    at_moments = (
        max((number for number in known if chain[number].at < moment), default=-1) for moment in version.moments
    )
    return iter(dict.fromkeys(number for number in (*exact[-1:], *at_moments) if number >= 0))


def _traced(chain: Chain, lines: FileState, wanted: Iterable[int]) -> dict[int, AgentWrite]:
    """The same, of a version made after the last write of the chain."""
    found: dict[int, AgentWrite] = {}
    at = {line: line for line in wanted}  # line of the version -> its line in the state that is looked at
    state = lines
    for number in range(len(chain) - 1, -1, -1):
        each = chain[number]
        if not at:
            break
        left, before = each.write.left, _found_by(chain, number)
        if left is None:
            continue
        at = _back(left, state, at, as_new)
        state = left
        if before is None:
            continue
        came = _back(before, state, at, as_kept) | {
            line: each.write.same[now] for line, now in at.items() if now in each.write.same
        }
        found |= dict.fromkeys(at.keys() - came.keys(), each)
        at, state = came, before
    return found


def _found_by(chain: Chain, number: int) -> FileState | None:
    """The file as the write found it; if that is not told, as the one before left it."""
    before = chain[number].write.before
    return chain[number - 1].write.left if before is None and number else before


def _back(
    old: FileState,
    new: FileState,
    at: Mapping[int, int],
    doubtful: Callable[[FileState, Sequence[int]], Sequence[int]],
) -> dict[int, int]:
    """The lines that were there in the state before, by their number there; `doubtful` decides where that is open."""
    if old == new:
        return dict(at)
    came = doubtful(new, matches(old, new))
    return {line: came[now] for line, now in at.items() if came[now] >= 0}


def _in_another_form(chain: Chain, version: Version, wanted: Collection[int]) -> Iterator[tuple[int, AgentWrite]]:
    """Lines that a formatter made of those that a write brought."""
    left = {digest: span for digest, span in version.loose.items() if span[0] in wanted}
    for each in reversed([each for each in chain if each.at < version.latest][-MAX_WRITES_BACK:]):
        if not left:
            return
        for digest in left.keys() & (each.write.joined | each.brought):
            first, last = left[digest]
            # The very line is no other form of it: by its place it is somebody else's.
            if last - first > 1 or digest in each.write.joined or version.lines[first] != digest:
                del left[digest]
                yield from ((line, each) for line in range(first, last) if line in wanted)


def is_untold(chain: Chain, since: float, until: float) -> bool:
    """Whether a write within this time is known, but not what it left."""
    return any(each.write.left is None and since <= each.at < until for each in chain)
