"""Merges: whether one adds nothing to what its parents say."""

from __future__ import annotations

import pygit2

from vibe_gate.adapters.git.revisions import Revisions
from vibe_gate.adapters.git.store import Store


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
