"""Which commits some hook saw being made: of the others nobody can say who made them."""

from __future__ import annotations

from collections.abc import Iterable

from vibe_gate.domain.change import Selection
from vibe_gate.domain.provenance import Record
from vibe_gate.domain.receipt import exact
from vibe_gate.errors import GateError
from vibe_gate.git import Repository

MAX_EARLIER = 100
"""Earlier shapes of one commit that are looked at: each costs two diffs, and records can be written by anybody."""


class Seen:
    """What the hooks' records say of it.

    That a commit was rewritten counts for as much as the commit that it was: one that no hook saw, and one that
    made another change, leave it unseen.
    """

    def __init__(self, repository: Repository, records: Iterable[Record]) -> None:
        self._repository = repository
        self._commits: set[str] = set()
        self._before: dict[str, list[str]] = {}
        for record in records:
            if record.kind == "rewritten":
                self._before.setdefault(record.commit, []).append(record.old)
            elif record.kind == "unseen" or record.stage != "pre-push":
                self._commits.add(record.commit)

    def has(self, commit: str) -> bool:
        """Whether a hook saw this commit being made, or one with the same change that became it."""
        known, waiting = {commit}, [commit]
        while waiting:
            name = waiting.pop()
            if name in self._commits:
                return True
            for old in self._before.get(name, ()):
                if old not in known and len(known) < MAX_EARLIER and self._is_same(old, name):
                    known.add(old)
                    waiting.append(old)
        return False

    def _is_same(self, old: str, new: str) -> bool:
        try:
            one, other = (self._repository.change(Selection("commit", left=name)) for name in (old, new))
        except GateError:  # thrown away by now, or never there
            return False
        return (one.before, one.after) == (other.before, other.after) or exact(one) == exact(other)
