"""Merges, picks and reverts: whether one adds nothing to what it was made of."""

from __future__ import annotations

import pygit2

from vibe_gate.errors import GateError
from vibe_gate.git.revisions import Revisions
from vibe_gate.git.store import Store


def is_plain(revisions: Revisions, store: Store, commit: str) -> bool:
    """Whether the merge has exactly the tree that its two parents give by themselves, without a conflict.

    Asked of libgit2, without attributes and merge drivers; what it merges in another way than git does is not plain.
    So is a merge of more than two, and one whose parents are not all here.
    """
    parents = revisions.parents(commit)
    if len(parents) != 2:
        return False
    repository = store.repository
    try:
        merged = repository.merge_commits(parents[0], parents[1])
        return merged.conflicts is None and str(merged.write_tree(repository)) == revisions.tree_of(commit)
    except (pygit2.GitError, KeyError, ValueError):
        return False


def is_replay(revisions: Revisions, store: Store, source: str, trees: tuple[str, str], *, back: bool) -> bool:
    """Whether a tree before became the tree after by what commit `source` changed, taken over, or taken `back`.

    Asked as of a merge: exactly that, without a conflict. Of a merge any parent may be what it is held against.
    """
    before, after = trees
    repository = store.repository
    try:
        own = revisions.tree_of(source)
        for parent in (revisions.tree_of(name) for name in (revisions.parents(source) or [""])):
            old, new = (own, parent) if back else (parent, own)
            merged = repository.merge_trees(old, before, new)
            if merged.conflicts is None and str(merged.write_tree(repository)) == after:
                return True
    except (pygit2.GitError, KeyError, ValueError, GateError):
        return False
    return False
