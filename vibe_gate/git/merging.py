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

_FAVORS = {"": MergeFavor.NORMAL, "ours": MergeFavor.OURS, "theirs": MergeFavor.THEIRS}


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

    def replay(self, source: str, before: str, *, back: bool = False, option: str = "") -> str:
        """The tree after `source`'s change is applied to the tree `before`, or reverted (`back`).

        `option`: as with `-X`, which side has lines in conflict: "ours" or "theirs".
        """

        def merge() -> pygit2.Index:
            old_tree, new_tree = self._trees_of(source)
            if back:
                old_tree, new_tree = new_tree, old_tree
            favor = _FAVORS[option]
            return self._repository.merge_trees(old_tree, before, new_tree, favor=favor)

        return self._write_tree(merge)

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
        except (pygit2.GitError, KeyError, ValueError, IntegrityError):
            return ""
