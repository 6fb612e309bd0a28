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

    def merged(self, parents: Sequence[str], *, ours: bool = False) -> str:
        """The tree that two commits make together; "" of more than two. `ours`: lines in conflict
        are the first's.
        """
        if len(parents) != 2:
            return ""
        first, other = parents
        favor = MergeFavor.OURS if ours else MergeFavor.NORMAL
        return self._tree(lambda: self._repository.merge_commits(first, other, favor=favor))

    def replayed(self, source: str, before: str, *, back: bool = False, option: str = "") -> str:
        """The tree after `source`'s change is applied to the tree `before`, or reverted (`back`).

        `option`: as with `-X`, which side has lines in conflict: "ours" or "theirs".
        """

        def merge() -> pygit2.Index:
            commit = self._repository[source].peel(pygit2.Commit)
            old = str(commit.parents[0].tree_id) if commit.parents else EMPTY_TREE
            base, other = (str(commit.tree_id), old) if back else (old, str(commit.tree_id))
            return self._repository.merge_trees(base, before, other, favor=_FAVORS[option])

        return self._tree(merge)

    def _tree(self, merge: Callable[[], pygit2.Index]) -> str:
        try:
            merged = merge()
            return "" if merged.conflicts is not None else str(merged.write_tree(self._repository))
        except (pygit2.GitError, KeyError, ValueError, IntegrityError):
            return ""
