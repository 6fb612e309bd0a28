"""New repositories, made by libgit2 without the templates, hooks and settings of the user's git."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pygit2
from msgspec import Struct
from pygit2.enums import CheckoutStrategy, FileMode, ObjectType

from vibe_gate.git.object_store import Objects, alternates_entry


class Draft(Struct, frozen=True):
    """A commit to be made: its message, author, time (seconds since 1970, UTC) and all files, by
    path.
    """

    message: str
    author: str
    email: str
    time: int
    files: Mapping[str, bytes]


def make_repository(path: Path, drafts: Sequence[Draft]) -> list[str]:
    """A new repository at `path` with these commits on branch main, checked out; returns their ids.

    The same drafts give the same ids. The template directory and hooks of the user's git are left
    out.
    """
    repository = pygit2.init_repository(str(path), initial_head="main", template_path="")
    commits: list[str] = []
    for draft in drafts:
        index = pygit2.Index()
        for name, content in draft.files.items():
            index.add(pygit2.IndexEntry(name, repository.create_blob(content), FileMode.BLOB))
        author = pygit2.Signature(draft.author, draft.email, draft.time, 0)
        tree = index.write_tree(repository)
        commit = repository.create_commit(
            "refs/heads/main", author, author, draft.message, tree, commits[-1:]
        )
        commits.append(str(commit))
    repository.checkout("refs/heads/main", strategy=CheckoutStrategy.FORCE)
    repository.free()
    return commits


def commit_trees(path: Path, objects: Objects, trees: Sequence[str]) -> None:
    """Make a repository at `path` with a commit of each tree on branch main; nothing is checked
    out.

    It borrows the trees from `objects`, and is of use while these are open. Nothing is signed
    there.
    """
    repository = pygit2.init_repository(str(path), initial_head="main", template_path="")
    repository.config["user.signingkey"] = ""
    repository.write(ObjectType.TREE, b"")
    borrowed = [os.fspath(objects.folder / "objects"), *objects.alternates]
    for folder in borrowed:
        repository.odb.add_disk_alternate(folder)
    author = pygit2.Signature("vibe-gate", "vibe-gate@localhost", 0, 0)
    commits: list[str] = []
    for tree in trees:
        commit = repository.create_commit(
            "refs/heads/main", author, author, "Change\n", tree, commits[-1:]
        )
        commits.append(str(commit))
    repository.free()
    entries = "".join(f"{alternates_entry(folder)}\n" for folder in borrowed)
    (path / ".git/objects/info/alternates").write_bytes(os.fsencode(entries))
