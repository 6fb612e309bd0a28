"""The writes that agents made of one file: of all that captured sessions and our own agents wrote,
those at paths that may be the file's.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from vibe_gate.domain.escape import expression
from vibe_gate.run.line_writes import AgentWrite, Chain, Version
from vibe_gate.store.applied_writes import applied_writes
from vibe_gate.store.captured_writes import CapturedWrites, writes_in
from vibe_gate.store.clone_state import CloneState
from vibe_gate.store.stored_writes import DigestedLines, LineDigests

_WORKTREE = expression(r"(?:^|/)worktrees/[^/]+/")


class AgentWrites:
    """The writes of a file that has had these names in the repository, out of the stores of these
    working trees.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        state: CloneState,
        digests: LineDigests,
        names: Collection[str],
    ) -> None:
        self._roots, self._state, self._digests, self._names = roots, state, digests, set(names)
        self._bases = {name.rpartition("/")[2] for name in names}

    @cached_property
    def sessions(self) -> tuple[CapturedWrites, ...]:
        """Every captured session, with what it wrote to paths of such a name."""
        return writes_in(self._roots, self._digests, self._has_such_name)

    @cached_property
    def applied(self) -> tuple[CapturedWrites, ...]:
        """Those of our own agents; where sessions of others are not captured, they make nothing a
        person's.
        """
        return applied_writes(self._state, self._digests, self._has_such_name)

    def _has_such_name(self, path: str) -> bool:
        return path.rpartition("/")[2] in self._bases

    @cached_property
    def _all_chains(self) -> dict[str, Chain]:
        """By path as agents gave it the writes there."""
        every = _by_path((*self.sessions, *self.applied))
        return {place: Chain(writes) for place, writes in every.items()}

    def chains(self, names: Collection[str]) -> list[Chain]:
        """Those of the writes at paths that may be one of these names."""
        return [
            chain for place, chain in self._all_chains.items() if self._names_of(place) & set(names)
        ]

    def _names_of(self, place: str) -> set[str]:
        """What the path may be in the repository."""
        names = set(_below_tops(place, self._former_tops))
        for root in self._root_paths:
            if place.startswith(root + "/"):
                inside = place[len(root) + 1 :]
                return {inside, _WORKTREE.split(inside)[-1], *names}
        if names:
            return names
        return {name for top in self._gone_tops for name in _ends(place, top)} | {
            *_WORKTREE.split(place)[1:][-1:]
        }

    @cached_property
    def _former_tops(self) -> frozenset[str]:
        """Where linked worktrees are or were."""
        return self._state.worktree_tops.all()

    @cached_property
    def _gone_tops(self) -> set[str]:
        """Where sessions began; it may have been in a working tree that is gone, or was moved."""
        return {session.cwd for session in self.sessions if session.cwd.strip("/")}

    @cached_property
    def _root_paths(self) -> list[str]:
        both = {os.fspath(root) for root in self._roots} | {
            os.path.realpath(root) for root in self._roots
        }
        return sorted(both, key=len, reverse=True)

    def like(
        self, lines: Sequence[str], state: DigestedLines, wanted: Iterable[int]
    ) -> Chain | None:
        """The writes of the file that has most of these lines, by another name; None if none has
        half of them.
        """
        known = {state[line] for line in wanted if len("".join(lines[line].split())) > 8}
        if not known:
            return None
        shared = [
            (len(known.intersection(some[-1].write.left or ())), some)
            for some in self._other_writes.values()
        ]
        most, best = max(shared, key=lambda each: each[0], default=(0, []))
        return Chain(best) if most > len(known) / 2 else None

    @cached_property
    def _other_writes(self) -> dict[str, list[AgentWrite]]:
        own = {place for place in self._all_chains if self._names_of(place) & self._names}
        others = writes_in(self._roots, self._digests, lambda path: path not in own)
        return {
            place: writes for place, writes in _by_path(others).items() if self._names_of(place)
        }


def _below_tops(place: str, tops: Collection[str]) -> Iterator[str]:
    """What a path is below each of the folders that it is in."""
    for at, char in enumerate(place):
        if char == "/" and place[:at] in tops:
            yield place[at + 1 :]


def _ends(place: str, top: str) -> Iterator[str]:
    """The ends of a path below `top` that have all of it that is below."""
    if place.startswith(top + "/"):
        parts = place.split("/")
        yield from ("/".join(parts[start:]) for start in range(top.count("/") + 2))


def _by_path(sessions: Iterable[CapturedWrites]) -> dict[str, list[AgentWrite]]:
    writes: dict[str, list[AgentWrite]] = defaultdict(list)
    for session in sessions:
        for write in session.writes:
            writes[write.path].append(AgentWrite(session.agent, session.session, write))
    return {place: sorted(some, key=lambda each: each.at) for place, some in writes.items()}


def closeness(chain: Chain, version: Version) -> tuple[bool, int]:
    """How near the states of a chain come to a version: whether it is one of them, and lines in
    common.
    """
    known = [each for each in chain.writes if each.at < version.latest]
    is_exact = any(version.blob in each.write.blobs for each in known)
    return is_exact, len(
        set(version.lines).intersection(known[-1].write.left or ())
    ) if known else 0
