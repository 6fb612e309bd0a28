"""The writes that agents made of one file: of all that captured sessions and our own agents wrote,
those at paths that may be the file's.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property

from vibe_gate.domain.escape import expression
from vibe_gate.run.line_writes import AgentWrite, Chain, Version
from vibe_gate.store.applied_writes import applied_writes
from vibe_gate.store.captured_writes import CapturedWrites, WritingSessions
from vibe_gate.store.clone_state import CloneState
from vibe_gate.store.stored_writes import DigestedLines, LineDigests

_WORKTREE = expression(r"(?:^|/)worktrees/[^/]+/")
"""Where programs put linked worktrees: the rest of a path is one in the repository."""

_TELLING_LETTERS = 9
"""Letters of a line, white space aside, by which files are compared: shorter ones are
everywhere.
"""


class AgentWrites:
    """The writes of a file that has had these names in the repository."""

    def __init__(
        self,
        captured_sessions: WritingSessions,
        state: CloneState,
        digests: LineDigests,
        names: Collection[str],
    ) -> None:
        self._captured_sessions = captured_sessions
        self._state = state
        self._digests = digests
        self._names = set(names)
        self._file_names = {_file_name(name) for name in names}

    @cached_property
    def sessions(self) -> tuple[CapturedWrites, ...]:
        """Every captured session, with what it wrote to paths of such a name."""
        return self._captured_sessions.writes_to(self._has_such_name, self._digests)

    @cached_property
    def applied(self) -> tuple[CapturedWrites, ...]:
        """Those of our own agents; where sessions of others are not captured, they make nothing a
        person's.
        """
        return applied_writes(self._state, self._digests, self._has_such_name)

    def _has_such_name(self, path: str) -> bool:
        return _file_name(path) in self._file_names

    @cached_property
    def _all_chains(self) -> dict[str, Chain]:
        """By path as agents gave it the writes there."""
        writes_by_path = _writes_by_path((*self.sessions, *self.applied))
        return {path: Chain(writes) for path, writes in writes_by_path.items()}

    def chains_at(self, names: Collection[str]) -> list[Chain]:
        """Those of the writes at paths that may be one of these names."""
        chains = []
        for path, chain in self._all_chains.items():
            if not self._possible_names(path).isdisjoint(names):
                chains.append(chain)
        return chains

    def _possible_names(self, path: str) -> set[str]:
        """What the path, as an agent gave it, may be in the repository."""
        names = set(_names_below_tops(path, self._former_tops))
        for root in self._root_paths:
            if path.startswith(root + "/"):
                name = path[len(root) + 1 :]
                return {name, _WORKTREE.split(name)[-1], *names}
        if names:
            return names
        for top in self._missing_tops:
            names.update(_possible_endings(path, top))
        if _WORKTREE.search(path):
            names.add(_WORKTREE.split(path)[-1])
        return names

    @cached_property
    def _former_tops(self) -> frozenset[str]:
        """Where linked worktrees are or were."""
        return self._state.worktree_tops.all()

    @cached_property
    def _missing_tops(self) -> set[str]:
        """Where sessions began; it may have been in a working tree that is gone, or was moved."""
        return {session.cwd for session in self.sessions if session.cwd.strip("/")}

    @cached_property
    def _root_paths(self) -> list[str]:
        """The working trees as they are named, and without links; the longest path first."""
        root_paths: set[str] = set()
        for root in self._captured_sessions.roots:
            root_paths |= {os.fspath(root), os.path.realpath(root)}
        return sorted(root_paths, key=len, reverse=True)

    def similar_chain(
        self, lines: Sequence[str], state: DigestedLines, numbers: Iterable[int]
    ) -> Chain | None:
        """The writes of the file that has most of these lines, by another name; None if none has
        half of them.

        `lines` are the texts of a version, `state` their digests; only lines of some length count.
        """
        digests: set[int] = set()
        for number in numbers:
            if len("".join(lines[number].split())) >= _TELLING_LETTERS:
                digests.add(state[number])
        if not digests:
            return None
        most_shared = 0
        best_writes: list[AgentWrite] = []
        for writes in self._writes_of_others.values():
            shared = len(digests.intersection(writes[-1].write.final_lines or ()))
            if shared > most_shared:
                most_shared = shared
                best_writes = writes
        if most_shared <= len(digests) / 2:
            return None
        return Chain(best_writes)

    @cached_property
    def _writes_of_others(self) -> dict[str, list[AgentWrite]]:
        """By path the captured writes of other files of the repository."""
        paths_of_file: set[str] = set()
        for path in self._all_chains:
            if not self._possible_names(path).isdisjoint(self._names):
                paths_of_file.add(path)
        sessions = self._captured_sessions.writes_to(
            lambda path: path not in paths_of_file, self._digests
        )
        writes_by_path = _writes_by_path(sessions)
        return {
            path: writes for path, writes in writes_by_path.items() if self._possible_names(path)
        }


def _file_name(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def _names_below_tops(path: str, tops: Collection[str]) -> Iterator[str]:
    """What a path is below each of the folders that it is in."""
    for position, char in enumerate(path):
        if char == "/" and path[:position] in tops:
            yield path[position + 1 :]


def _possible_endings(path: str, top: str) -> Iterator[str]:
    """The ends of a path below `top` that have all of it that is below."""
    if not path.startswith(top + "/"):
        return
    parts = path.split("/")
    for start in range(top.count("/") + 2):
        yield "/".join(parts[start:])


def _writes_by_path(
    sessions: Iterable[CapturedWrites],
) -> dict[str, list[AgentWrite]]:
    """By path as agents gave it the writes there, oldest first."""
    writes_by_path: dict[str, list[AgentWrite]] = defaultdict(list)
    for session in sessions:
        for write in session.writes:
            agent_write = AgentWrite(session.agent, session.session, write)
            writes_by_path[write.path].append(agent_write)
    for writes in writes_by_path.values():
        writes.sort(key=lambda agent_write: agent_write.at)
    return dict(writes_by_path)


def chain_closeness(chain: Chain, version: Version) -> tuple[bool, int]:
    """How near the states of a chain come to a version: whether it is one of them, and lines in
    common.
    """
    earlier_writes = chain.writes[: chain.count_before(version.latest)]
    if not earlier_writes:
        return False, 0
    is_exact = any(version.blob in agent_write.write.blobs for agent_write in earlier_writes)
    last_lines = earlier_writes[-1].write.final_lines or ()
    return is_exact, len(set(version.lines).intersection(last_lines))
