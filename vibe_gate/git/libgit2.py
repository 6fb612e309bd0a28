"""libgit2, through pygit2: merges without attributes and drivers, binary files compared as text, new repositories.

It sees a bare repository of our own with the objects, never the user's configuration, refs or index. Loading it
takes longer than most commands need altogether, so this module is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pygit2
from pygit2.enums import CheckoutStrategy, ConfigLevel, DiffOption, FileMode, ObjectType

from vibe_gate.domain.change import Hunk, HunkLine, Origin
from vibe_gate.git.objects import Objects
from vibe_gate.git.revisions import Revisions

_CONTEXT_LINES = 3  # git's default
_USER_LEVELS = (ConfigLevel.PROGRAMDATA, ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL)
_AS_TEXT = DiffOption.FORCE_TEXT | DiffOption.INDENT_HEURISTIC


def compare_as_text(old: bytes, new: bytes) -> tuple[Hunk, ...]:
    """The hunks between two contents, whatever bytes they hold, by git's own algorithm."""
    if old == new:
        return ()
    patch = pygit2.Patch.create_from(old, new, flag=_AS_TEXT, context_lines=_CONTEXT_LINES)
    return tuple(
        Hunk(
            hunk.old_start,
            hunk.old_lines,
            hunk.new_start,
            hunk.new_lines,
            tuple(
                HunkLine(cast("Origin", line.origin), line.raw_content) for line in hunk.lines if line.origin in " +-"
            ),
        )
        for hunk in patch.hunks
    )


class Merging:
    """Whether merges have exactly the tree that git makes of their parents."""

    def __init__(self, revisions: Revisions, objects: Objects) -> None:
        for level in _USER_LEVELS:
            pygit2.settings.search_path[level] = ""
        self._revisions = revisions
        self._repository = pygit2.Repository(str(objects.folder))
        self._repository.write(ObjectType.TREE, b"")  # the empty tree, which git knows without having it
        for path in objects.alternates:
            self._repository.odb.add_disk_alternate(path)

    def is_clean_merge(self, commit: str) -> bool:
        """Whether the merge has exactly the tree that its two parents give by themselves, without a conflict.

        Asked without attributes and merge drivers; what libgit2 merges in another way than git is not clean. So is a
        merge of more than two, and one whose parents are not all here.
        """
        parents = self._revisions.parents(commit)
        if len(parents) != 2:
            return False
        try:
            return self._tree(self._repository.merge_commits(parents[0], parents[1])) == self._revisions.tree_of(commit)
        except (pygit2.GitError, KeyError, ValueError):
            return False

    def _tree(self, merged: pygit2.Index) -> str | None:
        return None if merged.conflicts is not None else str(merged.write_tree(self._repository))


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
