"""The repository under review: revisions to trees, trees to changes, and the working tree as one.

Nothing of the user's is written: new objects go to a scratch store that `close` deletes.
Replace refs and grafts are ignored on purpose. They are local sleight of hand that shows
other commits than those that are pushed, and could hide a change from its review.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_gate.adapters import git as rooms
from vibe_gate.adapters.git import detect, index, snapshot, status
from vibe_gate.adapters.git.detect import Place
from vibe_gate.adapters.git.export import Export, export
from vibe_gate.adapters.git.index import Flags
from vibe_gate.adapters.git.status import Walk
from vibe_gate.adapters.git.store import Store
from vibe_gate.adapters.git.tree import Entry, Tree, overlay
from vibe_gate.domain import paths
from vibe_gate.domain.change import EMPTY_TREE, SUBMODULE_MODE, Change, ChangeKind, FileChange, FileVersion, Selection
from vibe_gate.errors import RevisionError

if TYPE_CHECKING:
    from types import TracebackType

_FULL_ID = re.compile(r"[0-9a-f]{40}\Z")
_DEFAULT_BRANCHES = ("main", "master")


class Repository:
    """One repository, open. Use as a context manager, or call `close`.

    root: top of the working tree. git_dir: this worktree's own; common_dir: shared between
    linked worktrees. All absolute.
    """

    def __init__(self, place: Place, early: tuple[Walk, Flags] | None = None) -> None:
        self.root: Path = place.root
        self.git_dir: Path = place.git_dir
        self.common_dir: Path = place.common_dir
        self._place = place
        self._early = early
        self._store = Store(place)

    def __enter__(self) -> Repository:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Delete what was written aside. Trees of this repository cannot be read any more."""
        if self._early is not None:
            status.forget(self._early[0])
            self._early = None
        self._store.close()

    def change(self, selection: Selection) -> Change:
        """The change that was asked for, with its files. RevisionError: no such revision, or history cut short."""
        if selection.kind == "worktree":
            return self._worktree_change(selection.left or "HEAD")
        if selection.kind == "staged":
            head = self._head()
            before = self._tree_of(head)
            after = self._staged_tree(before)
            return self._change("staged", (before, after), (head, ""), self._patch_id(before, after))
        if selection.kind == "commit":
            return self._commit_change(self.resolve(selection.left))
        left, right = self.resolve(selection.left), self.resolve(selection.right)
        if selection.kind == "merge_base":
            left = self._merge_base(left, right, selection)
        return self._range_change(left, right)

    def resolve(self, revision: str) -> str:
        """The commit id of anything that `git rev-parse` takes for one; "" is HEAD. RevisionError."""
        revision = revision or "HEAD"
        if revision.startswith("-") or "\0" in revision:
            raise RevisionError(f"{paths.quote(revision)} is not a revision.")
        if revision == "HEAD" and not self._head():
            raise RevisionError("HEAD has no commit yet: make the first commit, or review what is staged.")
        named = self._place.git.run("rev-parse", "--verify", "--end-of-options", revision)
        if named.code:
            raise RevisionError(self._no_revision(revision))
        commit = self._place.git.run("rev-parse", "--verify", "--end-of-options", f"{named.line}^{{commit}}")
        if commit.code:
            raise RevisionError(f"{paths.quote(revision)} names no commit: give a commit, branch or tag.")
        return commit.line

    def tree(self, treeish: str) -> Tree:
        """The tree of a commit id or tree id (also one of ours), or of any revision. RevisionError."""
        name = treeish if _FULL_ID.match(treeish) else self.resolve(treeish)
        if not self._store.contains(name):
            raise RevisionError(f"there is no object {name} in this repository.")
        kind, data = self._store.read(name)
        while kind == "tag":
            name = data[7:47].decode("ascii")
            kind, data = self._store.read(name)
        if kind == "commit":
            return Tree(self._store, data[5:45].decode("ascii"))
        if kind == "tree":
            return Tree(self._store, name)
        raise RevisionError(f"{name} is a {kind}, not a commit or tree.")

    def read(self, version: FileVersion) -> bytes:
        """Content of one side of a file; of a submodule the line that git's diffs show for it."""
        if version.mode == SUBMODULE_MODE:
            return b"Subproject commit %s\n" % version.blob.encode()
        return self._store.read(version.blob)[1]

    def snapshot(self) -> str:
        """Tree id of the working tree, untracked files that are not ignored included (see `snapshot.take`)."""
        return self._take()[1]

    def index_tree(self) -> str:
        """Tree id that `git commit` would make of the index that git means here (GIT_INDEX_FILE in a hook)."""
        return self._staged_tree(self._tree_of(self._head()))

    def patch(self, change: Change) -> bytes:
        """The change as a patch that `git apply` accepts, binary files included."""
        return rooms.patch.unified(self._store.repository, change.before, change.after)

    def file_patch(self, file: FileChange) -> str:
        """Unified text of one file's change, for people."""
        return rooms.patch.file_text(self._store.repository, file)

    def export(self, tree: str, destination: Path) -> Export:
        """Write a tree out as plain files below `destination` (empty, or not there yet)."""
        return export(self._store, self.tree(tree), destination)

    def config(self, name: str) -> str | None:
        """One value of git's configuration, from every scope, as it stood when the repository was opened."""
        return self._place.settings.value(name)

    def upstream_base(self) -> str | None:
        """Merge base of HEAD with the remote's default branch, where HEAD's branch has an upstream."""
        branch = self._place.git.run("symbolic-ref", "--quiet", "HEAD").line.removeprefix("refs/heads/")
        remote = self.config(f"branch.{branch}.remote")
        if not branch or remote is None or remote == "." or self.config(f"branch.{branch}.merge") is None:
            return None
        default = self._default_branch(remote)
        if default is None:
            return None
        base = self._place.git.run("merge-base", "HEAD", default)
        return base.line.split("\n")[0] or None

    def _default_branch(self, remote: str) -> str | None:
        """The remote's HEAD where it is known; else its main or master, for remotes that were added by hand."""
        start = f"refs/remotes/{remote}"
        known = self._place.git.run("symbolic-ref", "--quiet", f"{start}/HEAD")
        if not known.code:
            return known.line
        guesses = (f"{start}/{name}" for name in _DEFAULT_BRANCHES)
        return next(
            (name for name in guesses if not self._place.git.run("show-ref", "--verify", "-q", name).code), None
        )

    def _worktree_change(self, left: str) -> Change:
        head, after = self._take()
        if left == "HEAD":
            base, before = head, self._tree_of(head)
        else:
            base = self.resolve(left)
            before = self._tree_of(base)
        clean = bool(head) and after == self._tree_of(head)
        own = self._patch_id(before, after) if base == head else ""
        if clean and base != head and self._parents(head)[:1] == [base]:
            own = self._patch_id(before, after)
        return self._change("worktree", (before, after), (base, head if clean else ""), own)

    def _commit_change(self, commit: str) -> Change:
        parent = next(iter(self._parents(commit)), "")
        if parent and not self._store.contains(parent):
            raise RevisionError(
                f"the history ends at {commit[:12]} (a shallow clone), so its change cannot be seen: "
                "run `git fetch --deepen=1`, or `git fetch --unshallow` for all of it."
            )
        before, after = self._tree_of(parent), self._tree_of(commit)
        return self._change("commit", (before, after), (parent, commit), self._patch_id(before, after))

    def _range_change(self, left: str, right: str) -> Change:
        before, after = self._tree_of(left), self._tree_of(right)
        single = self._parents(right)[:1] == [left]
        return self._change("range", (before, after), (left, right), self._patch_id(before, after) if single else "")

    def _change(self, kind: ChangeKind, trees: tuple[str, str], commits: tuple[str, str], patch_id: str) -> Change:
        before, after = trees
        return Change(
            kind=kind,
            before=before,
            after=after,
            base_commit=commits[0],
            head_commit=commits[1],
            patch_id=patch_id,
            range_patch_id=patch_id or self._patch_id(before, after),
            files=() if before == after else rooms.diff.files(self._store.repository, before, after),
        )

    def _patch_id(self, before: str, after: str) -> str:
        return "" if before == after else rooms.patch.patch_id(self._store.repository, before, after)

    def _merge_base(self, left: str, right: str, selection: Selection) -> str:
        found = self._place.git.run("merge-base", left, right)
        if found.code:
            shown = paths.quote(f"{selection.left or 'HEAD'}...{selection.right or 'HEAD'}")
            more = " This clone is shallow: `git fetch --unshallow` may bring it." if self._place.shallow else ""
            raise RevisionError(f"{shown} has no merge base: the two share no history here.{more}")
        return found.line.split("\n")[0]

    def _no_revision(self, revision: str) -> str:
        said = f"{paths.quote(revision)} names no revision here."
        if self._place.shallow:
            return f"{said} This clone is shallow: run `git fetch --deepen=50`, or `git fetch --unshallow`."
        return f"{said} `git log --oneline --all` shows what there is."

    def _head(self) -> str:
        """HEAD's commit id, "" on an unborn branch."""
        return self._place.git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}").line

    def _tree_of(self, commit: str) -> str:
        return snapshot.tree_of(self._store, commit) if commit else EMPTY_TREE

    def _parents(self, commit: str) -> list[str]:
        """As the commit itself says: neither grafts nor a shallow boundary can shorten it."""
        header = self._store.read(commit)[1].partition(b"\n\n")[0]
        return [line[7:].decode("ascii") for line in header.split(b"\n") if line.startswith(b"parent ")]

    def _staged_tree(self, base: str) -> str:
        edits = {
            found.path: None if found.entry is None else Entry(*found.entry)
            for found in index.staged(self._place.git, base)
        }
        return overlay(self._store, Tree(self._store, base), edits)

    def _take(self) -> tuple[str, str]:
        early, self._early = self._early, None  # good for one snapshot; later ones look anew
        if early is None:
            early = status.begin(self._place), detect.read_index(self._place)
        self._store.start()
        return snapshot.take(self._place, self._store, *early)
