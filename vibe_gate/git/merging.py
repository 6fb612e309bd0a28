"""Merges, picks and reverts made again by libgit2, in memory, without attributes and merge
drivers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pygit2
from pygit2.enums import MergeFavor

from vibe_gate.domain.change import EMPTY_TREE
from vibe_gate.errors import IntegrityError
from vibe_gate.git.object_store import Objects

_UNMERGEABLE = (pygit2.GitError, KeyError, ValueError, IntegrityError)
"""What libgit2's functions raise of what they cannot merge."""


class Merging:
    """The trees that merging gives by itself, without attributes and merge drivers.

    What libgit2 merges in another way than git, or not at all, is not taken for git's own work: ""
    then.
    """

    def __init__(self, objects: Objects) -> None:
        self._repository = objects.database.repository

    def merge_parents(self, parents: Sequence[str], *, prefers_first: bool = False) -> str:
        """The tree that two commits make together; "" of more than two. `prefers_first`: lines in
        conflict are the first's.
        """
        if len(parents) != 2:
            return ""
        first, other = parents
        favor = MergeFavor.OURS if prefers_first else MergeFavor.NORMAL
        return self._write_tree(lambda: self._repository.merge_commits(first, other, favor=favor))

    def replay(self, source: str, before: str) -> str:
        """The tree after `source`'s change is applied to the tree `before`; "" if that leaves
        conflicts.
        """
        return self._write_tree(lambda: self._merge_change(source, before, MergeFavor.NORMAL))

    def is_replay(self, source: str, before: str, after: str, *, back: bool = False) -> bool:
        """Whether `source`'s change, applied to the tree `before` or reverted there (`back`), gives
        the tree `after`.

        Also with `-X ours` or `-X theirs`: each line in conflict is then of one of the two sides.
        No tree is written for it, as that reads the header of each file in it.
        """
        try:
            after_tree = self._repository[after].peel(pygit2.Tree)
            for favor in (MergeFavor.NORMAL, MergeFavor.OURS, MergeFavor.THEIRS):
                index = self._merge_change(source, before, favor, back=back)
                if index.conflicts is not None:
                    continue
                if len(index.diff_to_tree(after_tree, context_lines=0)) == 0:
                    return True
                if favor == MergeFavor.NORMAL:
                    return False  # without a conflict no side can be preferred
        except _UNMERGEABLE:
            return False
        return False

    def _merge_change(
        self, source: str, before: str, favor: MergeFavor, *, back: bool = False
    ) -> pygit2.Index:
        """The index that applying `source`'s change to the tree `before` leaves."""
        old_tree, new_tree = self._trees_of(source)
        if back:
            old_tree, new_tree = new_tree, old_tree
        return self._repository.merge_trees(old_tree, before, new_tree, favor=favor)

    def _trees_of(self, commit_id: str) -> tuple[str, str]:
        """The tree before a commit, the empty tree of a first one, and its own."""
        commit = self._repository[commit_id].peel(pygit2.Commit)
        if not commit.parents:
            return EMPTY_TREE, str(commit.tree_id)
        return str(commit.parents[0].tree_id), str(commit.tree_id)

    def _write_tree(self, merge: Callable[[], pygit2.Index]) -> str:
        """The tree that a merge leaves; "" if it has conflicts, or libgit2 cannot do it."""
        try:
            index = merge()
            if index.conflicts is not None:
                return ""
            return str(index.write_tree(self._repository))
        except _UNMERGEABLE:
            return ""
