"""Changes: which two trees a selection means, and what differs between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from vibe_gate.domain import patch_text, paths
from vibe_gate.domain.change import EMPTY_TREE, Change, ChangeKind, FileChange, Selection
from vibe_gate.git import diff
from vibe_gate.git.diff import Trees
from vibe_gate.git.objects import Objects
from vibe_gate.git.revisions import Revisions


class Ends(NamedTuple):
    """Between what a change lies. A commit is "" if there is none on that side.

    `alone`: what differs is one commit's change, made or about to be made.
    """

    kind: ChangeKind
    trees: Trees
    base_commit: str
    head_commit: str
    alone: bool


class Changes:
    """Finds changes. `snapshot` gives the working tree's tree, `staged` the index's."""

    def __init__(
        self, revisions: Revisions, objects: Objects, snapshot: Callable[[], str], staged: Callable[[], str]
    ) -> None:
        self._revisions = revisions
        self._objects = objects
        self._snapshot = snapshot
        self._staged = staged
        self._latest: tuple[Trees, bytes] | None = None

    def find(self, selection: Selection) -> Change:
        """The change that was asked for, with its files. RevisionError: no such revision, or history cut short."""
        ends = self._ends(selection)
        found = diff.compare(self._objects, [ends.trees])[ends.trees]
        self._latest = ends.trees, found.patch
        return _change(ends, found)

    def of_commits(self, commits: Sequence[str]) -> dict[str, Change]:
        """The change of each commit against its first parent, in a few processes however many there are."""
        ends = {commit: self._commit(commit) for commit in commits}
        found = diff.compare(self._objects, [one.trees for one in ends.values()])
        return {commit: _change(one, found[one.trees]) for commit, one in ends.items()}

    def patch(self, change: Change) -> bytes:
        """The change as `git apply` takes it, binary files included."""
        if not any(file.binary for file in change.files):
            return self._text_patch(change)
        return diff.full_patch(self._objects, Trees(change.before, change.after))

    def file_patch(self, change: Change, file: FileChange) -> str:
        """One file's section of the patch for people: what cannot be seen is escaped, binary files are only named."""
        sections = patch_text.split_patch(self._text_patch(change))
        return patch_text.visible(sections.get(paths.encode(file.path), b""))

    def _text_patch(self, change: Change) -> bytes:
        trees = Trees(change.before, change.after)
        if self._latest is None or self._latest[0] != trees:
            self._latest = trees, diff.compare(self._objects, [trees])[trees].patch
        return self._latest[1]

    def _ends(self, selection: Selection) -> Ends:
        if selection.kind == "worktree":
            return self._worktree(selection.left or "HEAD")
        if selection.kind == "staged":
            head = self._revisions.head()
            return Ends("staged", Trees(self._revisions.tree_of(head), self._staged()), head, "", alone=True)
        if selection.kind == "commit":
            return self._commit(self._revisions.resolve(selection.left))
        right = self._revisions.resolve(selection.right)
        if selection.left == EMPTY_TREE:  # from nothing: a first push
            return self._range("", right)
        left = self._revisions.resolve(selection.left)
        if selection.kind == "merge_base":
            shown = f"{selection.left or 'HEAD'}...{selection.right or 'HEAD'}"
            left = self._revisions.merge_base(left, right, shown)
        return self._range(left, right)

    def _worktree(self, left: str) -> Ends:
        head = self._revisions.head()
        after = self._snapshot()
        base = head if left == "HEAD" else self._revisions.resolve(left)
        clean = bool(head) and after == self._revisions.tree_of(head)
        alone = base == head or (clean and self._revisions.parents(head)[:1] == [base])
        return Ends("worktree", Trees(self._revisions.tree_of(base), after), base, head if clean else "", alone)

    def _commit(self, commit: str) -> Ends:
        parent = self._revisions.first_parent(commit)
        trees = Trees(self._revisions.tree_of(parent), self._revisions.tree_of(commit))
        return Ends("commit", trees, parent, commit, alone=True)

    def _range(self, left: str, right: str) -> Ends:
        trees = Trees(self._revisions.tree_of(left), self._revisions.tree_of(right))
        alone = (self._revisions.parents(right) or [""])[0] == left
        return Ends("range", trees, left, right, alone)


def _change(ends: Ends, found: diff.Diff) -> Change:
    return Change(
        kind=ends.kind,
        before=ends.trees.before,
        after=ends.trees.after,
        base_commit=ends.base_commit,
        head_commit=ends.head_commit,
        patch_id=found.patch_id if ends.alone else "",
        range_patch_id=found.patch_id,
        files=found.files,
    )
