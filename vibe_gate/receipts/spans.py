"""Which commits of a verified range a review of a part of it can speak for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Part:
    """Commits that were reviewed as a whole, from `base`, which is none of them, to `head`, which is one."""

    base: str
    head: str
    commits: frozenset[str]


@dataclass(frozen=True, slots=True)
class History:
    """The commits of a range with their `parents`, by id, and where the range begins ("": at nothing)."""

    parents: Mapping[str, Sequence[str]]
    base: str
    hidden: set[str] = field(default_factory=set)
    """Commits with something in their tree that no review showed, though each is reviewed; to be filled, parents first.

    What one of a range adds and a later one takes away, a review of the whole did not show. So a commit in the middle
    of a range is hidden, and what comes after it alone, however that was reviewed; the end of the range is not.
    """

    def part(self, base: str, head: str) -> Part | None:
        """The commits between two, where a review of the one against the other is about each of them; else None.

        From where the whole range begins: all that `head` has. From a commit of the range: only if all of them come
        after that one, and the whole range goes on from none of them but `head`. What a commit that does not come
        after it has in common with `base`, such a review did not show: two branches can have the same line from one
        hand, and a merge of both can take away what one brought. Nor did it show what one in the middle brings and
        a later one takes back: where a branch from the middle still has it, a merge of both takes it back there, too.
        """
        if head not in self.parents or not base or (base != self.base and base not in self.parents):
            return None
        inside: set[str] = set()
        left = [head]
        while left:
            name = left.pop()
            if name == base or name in inside:
                continue
            if name in self.parents:
                inside.add(name)
                left += self.parents[name] or [""]
            elif base != self.base:  # behind the range, or behind a first commit
                return None
        if not inside or (base != self.base and self._goes_on(inside, head)):
            return None
        return Part(base, head, frozenset(inside))

    def _goes_on(self, inside: set[str], head: str) -> bool:
        """Whether a commit that is not inside has a parent there other than `head`."""
        middle = inside - {head}
        return bool(middle) and any(
            not middle.isdisjoint(parents) for name, parents in self.parents.items() if name not in inside
        )

    def tells(self, part: Part, commit: str) -> bool:
        """Whether a review of the part says anything of the commit: what was hidden at its base, it did not show."""
        return commit in part.commits and part.base not in self.hidden

    def is_shown(self, commit: str, parts: Sequence[Part], *, own: bool) -> bool:
        """Whether nothing is hidden in a commit: it ends one of the `parts`, or its own change hides nothing.

        `parts`: those that passed and tell of the commit. `own`: whether its change passed by itself; that of a merge
        against every parent, for a range over it shows only what the end has left of it; of a merge as git
        makes it, against the first. By its own change it is shown only where nothing is hidden in any parent.
        """
        return (own and self.hidden.isdisjoint(self.parents[commit])) or any(commit == part.head for part in parts)
