"""libgit2, through pygit2: merges without attributes and drivers, binary files compared as text, new repositories.

It sees a bare repository of our own with the objects, never the user's configuration, refs or index. Loading it
takes longer than most commands need altogether, so this module is imported where it is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import cast

import pygit2
from msgspec import Struct
from pygit2.enums import CheckoutStrategy, ConfigLevel, DiffOption, FileMode, MergeFavor, ObjectType

from vibe_gate.domain.change import EMPTY_TREE, Hunk, HunkLine, Origin
from vibe_gate.git.objects import Objects, alternates_entry

_CONTEXT_LINES = 3  # git's default
_USER_LEVELS = (ConfigLevel.PROGRAMDATA, ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL)
_FAVORS = {"": MergeFavor.NORMAL, "ours": MergeFavor.OURS, "theirs": MergeFavor.THEIRS}
_AS_TEXT = DiffOption.FORCE_TEXT | DiffOption.INDENT_HEURISTIC


def compare_as_text(old: bytes, new: bytes) -> tuple[Hunk, ...]:
    """The hunks between two contents, whatever bytes they hold, by git's own algorithm."""
    if old == new:
        return ()
    patch = pygit2.Patch.create_from(old, new, flag=_AS_TEXT, context_lines=_CONTEXT_LINES)
    return tuple(
        Hunk.of(
            hunk.old_start,
            hunk.old_lines,
            hunk.new_start,
            hunk.new_lines,
            (HunkLine(cast("Origin", line.origin), line.raw_content) for line in hunk.lines if line.origin in " +-"),
        )
        for hunk in patch.hunks
    )


class Merging:
    """The trees that merging gives by itself, without attributes and merge drivers.

    What libgit2 merges in another way than git, or not at all, is not taken for git's own work: "" then.
    """

    def __init__(self, objects: Objects) -> None:
        for level in _USER_LEVELS:
            pygit2.settings.search_path[level] = ""
        self._repository = pygit2.Repository(str(objects.folder))
        self._empty = str(self._repository.write(ObjectType.TREE, b""))  # which git knows without having it
        for path in objects.alternates:
            self._repository.odb.add_disk_alternate(path)

    def merged(self, parents: Sequence[str], *, ours: bool = False) -> str:
        """The tree that two commits make together; "" of more than two. `ours`: lines in conflict are the first's."""
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
            old = str(commit.parents[0].tree_id) if commit.parents else self._empty
            base, other = (str(commit.tree_id), old) if back else (old, str(commit.tree_id))
            return self._repository.merge_trees(base, before, other, favor=_FAVORS[option])

        return self._tree(merge)

    def tree_without(self, tree: str, file_paths: Collection[str]) -> str:
        """The tree without these files, as far as it has them."""
        index = self._index_of(tree)
        for path in file_paths:
            if path in index:
                index.remove(path)
        return str(index.write_tree(self._repository))

    def tree_with(self, tree: str, blobs: Mapping[str, str]) -> str:
        """The tree with other contents at these paths, where it has files."""
        index = self._index_of(tree)
        for path, blob in blobs.items():
            index.add(pygit2.IndexEntry(path, pygit2.Oid(hex=blob), index[path].mode))
        return str(index.write_tree(self._repository))

    def stand_in(self, blob: str) -> str:
        """A small binary blob that is written for this one, and for no other."""
        return str(self._repository.create_blob(b"\0" + bytes.fromhex(blob)))

    def _index_of(self, tree: str) -> pygit2.Index:
        index = pygit2.Index()
        if tree != EMPTY_TREE:  # which git knows without having it
            index.read_tree(self._repository[tree].peel(pygit2.Tree))
        return index

    def _tree(self, merge: Callable[[], pygit2.Index]) -> str:
        try:
            merged = merge()
            return "" if merged.conflicts is not None else str(merged.write_tree(self._repository))
        except (pygit2.GitError, KeyError, ValueError):
            return ""


class Draft(Struct, frozen=True):
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
    commits: list[str] = []
    for draft in drafts:
        index = pygit2.Index()
        for name, content in draft.files.items():
            index.add(pygit2.IndexEntry(name, repository.create_blob(content), FileMode.BLOB))
        who = pygit2.Signature(draft.author, draft.email, draft.time, 0)
        tree = index.write_tree(repository)
        commit = repository.create_commit("refs/heads/main", who, who, draft.message, tree, commits[-1:])
        commits.append(str(commit))
    repository.checkout("refs/heads/main", strategy=CheckoutStrategy.FORCE)
    repository.free()
    return commits


def commit_trees(path: Path, objects: Objects, trees: Sequence[str]) -> None:
    """Make a repository at `path` with a commit of each tree on branch main; nothing is checked out.

    It borrows the trees from `objects`, and is of use while these are open. Nothing is signed there.
    """
    repository = pygit2.init_repository(str(path), initial_head="main", template_path="")
    repository.config["user.signingkey"] = ""
    repository.write(ObjectType.TREE, b"")
    borrowed = [os.fspath(objects.folder / "objects"), *objects.alternates]
    for folder in borrowed:
        repository.odb.add_disk_alternate(folder)
    who, commits = pygit2.Signature("vibe-gate", "vibe-gate@localhost", 0, 0), list[str]()
    for tree in trees:
        commits.append(str(repository.create_commit("refs/heads/main", who, who, "Change\n", tree, commits[-1:])))
    repository.free()
    entries = "".join(f"{alternates_entry(folder)}\n" for folder in borrowed)
    (path / ".git/objects/info/alternates").write_bytes(os.fsencode(entries))
