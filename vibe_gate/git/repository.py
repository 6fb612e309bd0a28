"""The repository under review: revisions to trees, trees to changes, and the working tree as one.

Nothing of the user's is written: new objects go to a scratch folder that `close` deletes.
Replace refs and grafts are ignored on purpose (see `revisions`).
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_gate.domain import paths
from vibe_gate.domain.escape import expression
from vibe_gate.errors import InfrastructureError, RevisionError, UsageError
from vibe_gate.git import place
from vibe_gate.git.objects import Objects, Tree
from vibe_gate.git.place import Place
from vibe_gate.git.program import LOCAL
from vibe_gate.git.revisions import Revisions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from types import TracebackType

    from vibe_gate.domain.change import Change, FileDiff, FileVersion, Hunk, NamedLine, Selection
    from vibe_gate.git.diff import Changes
    from vibe_gate.git.export import Export
    from vibe_gate.git.fetch import Credentials
    from vibe_gate.git.hooks import HeadCommit
    from vibe_gate.git.libgit2 import Merging

_FULL_ID = expression(r"[0-9a-f]{40}\Z")


class Repository(Revisions):
    """One repository, open. Use as a context manager, or call `close`.

    Its base class answers about revisions, commits and notes. root: top of the working tree. git_dir: this
    worktree's own; common_dir: shared between linked worktrees. All absolute. What a method alone
    needs is imported by it: a snapshot must be quick, and most commands ask for little.
    """

    def __init__(self, found: Place) -> None:
        super().__init__(found, Objects(found.git, found.objects))
        self.root: Path = found.root
        self.git_dir: Path = found.git_dir
        self.common_dir: Path = found.common_dir

    def __enter__(self) -> Repository:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Delete what was written aside. Objects of this repository cannot be read any more."""
        self._objects.close()

    # What differs

    def change(self, selection: Selection) -> Change:
        """The change that was asked for, with its files. RevisionError: no such revision, or history cut short."""
        return self._changes.find(selection)

    def changes_of(self, commits: Sequence[str]) -> dict[str, Change]:
        """The change of each commit (full ids) against its first parent, in a few processes for all of them."""
        return self._changes.of_commits(commits)

    def patch(self, change: Change) -> bytes:
        """The change as a patch that `git apply` accepts, binary files included."""
        return self._changes.patch(change)

    def file_patch(self, change: Change, file: FileDiff) -> str:
        """One file's section of the patch for people: what cannot be seen is escaped, binary files are only named."""
        return self._changes.file_patch(change, file)

    def in_context(self, change: Change) -> dict[str, tuple[Hunk, ...]]:
        """By path, the change's hunks with the whole functions around them, or 10 lines; not of binary files."""
        from vibe_gate.git import context
        from vibe_gate.git.diff import Trees

        return context.in_context(self._objects, Trees(change.before, change.after))

    def search(self, tree: str, words: Sequence[str]) -> list[NamedLine]:
        """The lines of a tree's text files that hold one of the words as a whole word: some, if there are many."""
        from vibe_gate.git import context

        return context.search(self._objects, tree, words)

    # The working tree and the index

    def snapshot(self) -> str:
        """Tree id of the working tree, untracked files that are not ignored included (see `snapshot`)."""
        from vibe_gate.git import snapshot

        return snapshot.snapshot(self._place, self._objects)

    def index_tree(self) -> str:
        """Tree id that `git commit` would make of the index that git means here (GIT_INDEX_FILE in a hook)."""
        from vibe_gate.git import snapshot

        return snapshot.index_tree(self._place, self._objects)

    def tracked(self, folder: str) -> frozenset[str]:
        """What the index has in a folder of the root, or in its place; however its case. InfrastructureError."""
        listed = self._git.run("ls-files", "-z", "--", f":(top,icase,literal){folder}")
        if listed.code:
            raise InfrastructureError(f"git could not say whether {folder} is tracked: {listed.err}")
        return frozenset(paths.decode(name) for name in listed.out.split(b"\0") if name)

    # Objects

    def tree(self, treeish: str) -> Tree:
        """The tree of a commit id or tree id (also one of ours), or of any revision. RevisionError."""
        name = treeish if _FULL_ID.match(treeish) else self.resolve(treeish)
        found = self._objects.find(name)
        if found is None:
            raise RevisionError(f"there is no object {name} in this repository.")
        while found.kind == "tag":
            found = self._objects.read(found.data[7:47].decode("ascii"))
        if found.kind not in ("commit", "tree"):
            raise RevisionError(f"{found.id} is a {found.kind}, not a commit or tree.")
        return Tree(self._objects, found.id if found.kind == "tree" else found.data[5:45].decode("ascii"))

    def read(self, version: FileVersion) -> bytes:
        """Content of one side of a file; of a submodule the line that git's diffs show for it."""
        from vibe_gate.git import diff

        return diff.content_of(self._objects, version)

    def export(self, tree: str, destination: Path, only: Collection[str] | None = None) -> Export:
        """Write a tree, or `only` these of its paths, out as plain files below `destination` (empty, or not there)."""
        from vibe_gate.git import export

        return export.export(self._objects, self.tree(tree), destination, only)

    def is_clean_merge(self, commit: str) -> bool:
        """Whether a merge has the very tree that its two parents give by themselves, without a conflict."""
        return self._merging.merged(self.parents(commit)) == self.tree_of(commit)

    # Git's own hooks

    def hooks_folder(self) -> Path:
        """Where git looks for this repository's hooks: core.hooksPath, or `hooks` in the common folder."""
        from vibe_gate.git import hooks

        return hooks.hooks_folder(self._place)

    def head_commit(self) -> HeadCommit:
        """The commit at HEAD as a hook sees it that git runs after a commit. RevisionError without a commit."""
        from vibe_gate.git import hooks

        return hooks.head_commit(self._place, self.resolve("HEAD"))

    def source_commits(self, message: str = "") -> tuple[str, ...]:
        """Ids of the commits that the next one takes over (a pick's, a squashed branch's), as git notes them.

        `message` is that of a commit that was just made: of a squash git has forgotten all else by then.
        """
        from vibe_gate.git import hooks

        return hooks.source_commits(self.git_dir, message)

    def unpushed(self, local: str, known: str, remote: str) -> Selection | None:
        """What a push of `local` brings to `remote`, whose ref is at `known` ("": a new ref); None: nothing new."""
        from vibe_gate.git import hooks

        return hooks.unpushed(self._git, local, known, remote)

    # Remotes, in CI

    def fetch(self, commits: Sequence[str], enough: Callable[[], bool], credentials: Credentials) -> str:
        """Fetch commits by their ids, with history until `enough()`; "" or why that was not reached."""
        from vibe_gate.git import fetch

        def is_enough() -> bool:
            self.forget()
            return enough()

        return fetch.fetch(self._git, commits, is_enough, credentials)

    def fetch_branch(self, name: str, credentials: Credentials) -> None:
        """Fetch the remote's branch into its remote-tracking ref, if the remote has it."""
        from vibe_gate.git import fetch

        fetch.fetch_branch(self._git, name, credentials)
        self.forget()

    def fetch_notes(self, ref: str, credentials: Credentials) -> None:
        """Fetch the git notes of `refs/notes/<ref>`, if the remote has them."""
        from vibe_gate.git import fetch

        fetch.fetch_notes(self._git, ref, credentials)

    # Configuration and other working trees

    def config(self, name: str) -> str | None:
        """One value of git's configuration, from every scope, as it stood when the repository was opened."""
        return self._place.settings.value(name)

    def trusted_config(self, name: str) -> str | None:
        """The same without what the repository's own configuration says: for what would be run or trusted."""
        return self._place.settings.trusted(name)

    def other_worktrees(self) -> list[Path]:
        """The roots of the other working trees: the main one, and those that `git worktree add` linked to it."""
        return place.other_worktrees(self._place)

    def open_worktree(self, root: Path) -> Repository:
        """Another working tree of this repository. UsageError if there is another repository by now."""
        environ = {name: value for name, value in self._git.environ.items() if name not in LOCAL}
        found = place.find(root, environ)
        if found.common_dir.resolve() != self.common_dir.resolve():
            raise UsageError(f"{paths.quote(str(root))} is not a working tree of this repository.")
        return Repository(found)

    @cached_property
    def _changes(self) -> Changes:
        from vibe_gate.git.diff import Changes

        return Changes(self, self._objects, self.snapshot, self.index_tree)

    @cached_property
    def _merging(self) -> Merging:
        from vibe_gate.git.libgit2 import Merging

        return Merging(self._objects)
