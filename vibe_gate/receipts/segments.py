"""How `verify` cuts a range of commits into segments, each shown by one review. Pure.

A segment is a commit against its parents, or all commits between two whose trees one review compared. Where
segments follow each other without a gap or an overlap, every line that the range brings was in some review.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Segment:
    """The commits after `base`, up to and including `head`, that one review compared as a whole."""

    base: str
    head: str
    commits: frozenset[str]

    def __str__(self) -> str:
        return f"{self.base[:12]}..{self.head[:12]}"


@dataclass(frozen=True, slots=True)
class History:
    """The commits of a range with their `parents`, parents first, by id; `base` is where it begins ("": at nothing)."""

    parents: Mapping[str, Sequence[str]]
    base: str

    def segment(self, base: str, head: str) -> Segment | None:
        """The commits between two, if a review of one against the other is about all of them; else None.

        A segment has one way in and one way out. The review shows neither what two branches have in common
        (another way in, except from before the range) nor what a commit in the middle adds and a later one takes
        back, which a branch from that commit still has (another way out).
        """
        inside = self._between(base, head)
        middle = inside - {head}
        leaves = bool(middle) and any(
            not middle.isdisjoint(parents) for commit, parents in self.parents.items() if commit not in inside
        )
        return Segment(base, head, inside) if inside and not leaves else None

    def _between(self, base: str, head: str) -> frozenset[str]:
        """The commits that `head` has and `base` has not; none if they also come from elsewhere."""
        inside: set[str] = set()
        left = [head]
        while left:
            commit = left.pop()
            if commit == base or commit in inside:
                continue
            if commit in self.parents:
                inside.add(commit)
                left += self.parents[commit] or [""]
            elif base != self.base:  # before the range, or before a first commit
                return frozenset()
        return frozenset(inside)

    def precedes(self, parent: str, segment: Segment) -> bool:
        """Whether the segment begins where this parent of one of its merges was in already."""
        return segment.base == parent or (segment.base == self.base and parent not in self.parents)

    def cuts(self, alone: Set[str], segments: Iterable[Segment], unreviewed: Set[str]) -> set[str]:
        """The commits at which the range can be cut: reviewed segments lead from its base to each of them.

        `alone`: commits reviewed against every parent; `segments`: the longer ones with a review. Commits that
        are `unreviewed` count as cuts: they are reported themselves, and what follows them is not to blame.
        """
        found = {self.base}
        by_head: dict[str, list[Segment]] = {}
        for segment in segments:
            by_head.setdefault(segment.head, []).append(segment)
        for commit, parents in self.parents.items():
            follows = all(parent in found or parent not in self.parents for parent in parents)
            ends = any(segment.base in found for segment in by_head.get(commit, ()))
            if ends or commit in unreviewed or (commit in alone and follows):
                found.add(commit)
        return found
