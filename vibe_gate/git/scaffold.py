"""A small repository made from contents in memory: what `vibe-gate demo` walks through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pygit2


@dataclass(frozen=True, slots=True)
class Draft:
    """A commit to be made: its message, author, time (seconds since 1970, UTC) and all files, by path."""

    message: str
    author: str
    email: str
    time: int
    files: Mapping[str, bytes]


def make_repository(path: Path, drafts: Sequence[Draft]) -> list[str]:
    """A new repository at `path` with these commits on branch main, checked out; returns their ids.

    The same drafts give the same ids. The template directory and hooks of the user's git are left out.
    """
    repository = pygit2.init_repository(str(path), initial_head="main", template_path="")
    made: list[str] = []
    for draft in drafts:
        index = pygit2.Index()
        for name, content in draft.files.items():
            index.add(pygit2.IndexEntry(name, repository.create_blob(content), pygit2.enums.FileMode.BLOB))
        who = pygit2.Signature(draft.author, draft.email, draft.time, 0)
        tree = index.write_tree(repository)
        commit = repository.create_commit("refs/heads/main", who, who, draft.message, tree, made[-1:])
        made.append(str(commit))
    repository.checkout("refs/heads/main", strategy=pygit2.enums.CheckoutStrategy.FORCE)
    repository.free()
    return made
