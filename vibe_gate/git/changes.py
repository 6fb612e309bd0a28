"""Changes: which two trees a selection means, and what differs between them."""

from __future__ import annotations

from collections.abc import Callable

from vibe_gate.domain.change import EMPTY_TREE, Change, ChangeKind, Selection
from vibe_gate.git import diff, patch
from vibe_gate.git.revisions import Revisions
from vibe_gate.git.store import Store


class Changes:
    """Finds changes. `take` gives HEAD's commit and the working tree's tree, `staged` the index's tree."""

    def __init__(
        self, revisions: Revisions, store: Store, take: Callable[[], tuple[str, str]], staged: Callable[[], str]
    ) -> None:
        self._revisions = revisions
        self._store = store
        self._take = take
        self._staged = staged

    def find(self, selection: Selection) -> Change:
        """The change that was asked for, with its files. RevisionError: no such revision, or history cut short."""
        if selection.kind == "worktree":
            return self._worktree(selection.left or "HEAD")
        if selection.kind == "staged":
            head = self._revisions.head()
            before, after = self._revisions.tree_of(head), self._staged()
            return self._change("staged", (before, after), (head, ""), alone=True)
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

    def _worktree(self, left: str) -> Change:
        head, after = self._take()
        base = head if left == "HEAD" else self._revisions.resolve(left)
        clean = bool(head) and after == self._revisions.tree_of(head)
        alone = base == head or (clean and self._revisions.parents(head)[:1] == [base])
        trees = self._revisions.tree_of(base), after
        return self._change("worktree", trees, (base, head if clean else ""), alone=alone)

    def _commit(self, commit: str) -> Change:
        parent = self._revisions.first_parent(commit)
        trees = self._revisions.tree_of(parent), self._revisions.tree_of(commit)
        return self._change("commit", trees, (parent, commit), alone=True)

    def _range(self, left: str, right: str) -> Change:
        trees = self._revisions.tree_of(left), self._revisions.tree_of(right)
        alone = (self._revisions.parents(right) or [""])[0] == left
        return self._change("range", trees, (left, right), alone=alone)

    def _change(self, kind: ChangeKind, trees: tuple[str, str], commits: tuple[str, str], *, alone: bool) -> Change:
        """`alone`: what differs is one commit's change, made or about to be made."""
        before, after = trees
        empty = before == after
        patch_id = "" if empty else patch.patch_id(self._store.database, before, after)
        return Change(
            kind=kind,
            before=before,
            after=after,
            base_commit=commits[0],
            head_commit=commits[1],
            patch_id=patch_id if alone else "",
            range_patch_id=patch_id,
            files=() if empty else diff.files(self._store.database, before, after),
        )
