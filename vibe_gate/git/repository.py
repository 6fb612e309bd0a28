"""The repository under review: revisions to trees, trees to changes, and the working tree as one.

Nothing of the user's is written: new objects go to a scratch store that `close` deletes.
Replace refs and grafts are ignored on purpose (see `revisions`).
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_gate import git as rooms
from vibe_gate.domain import paths
from vibe_gate.domain.expressions import expression
from vibe_gate.errors import InfrastructureError, RevisionError
from vibe_gate.git import detect, history, index, snapshot, status, taken
from vibe_gate.git.detect import Place
from vibe_gate.git.export import Export, export
from vibe_gate.git.index import Flags
from vibe_gate.git.modes import SUBMODULE_MODE
from vibe_gate.git.revisions import Revisions
from vibe_gate.git.status import Walk
from vibe_gate.git.store import Store
from vibe_gate.git.tree import Entry, Tree, overlay

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from vibe_gate.domain.change import Change, FileChange, FileVersion, Selection
    from vibe_gate.domain.provenance import Commit

    # For types only: loading them would take as long as all else that a snapshot loads.
    from vibe_gate.git.fetching import Access
    from vibe_gate.git.hooks import Made

_FULL_ID = expression(r"[0-9a-f]{40}\Z")


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
        self._revisions = Revisions(place, self._store)

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
        return rooms.changes.Changes(self._revisions, self._store, self._take, self.index_tree).find(selection)

    def resolve(self, revision: str) -> str:
        """The commit id of anything that `git rev-parse` takes for one; "" is HEAD. RevisionError."""
        return self._revisions.resolve(revision)

    def resolve_shared(self, revision: str) -> str:
        """The same of what everybody is bound by: a name that begins with a remote's is that remote's branch only."""
        return self._revisions.resolve_shared(revision)

    def tree(self, treeish: str) -> Tree:
        """The tree of a commit id or tree id (also one of ours), or of any revision. RevisionError."""
        name = treeish if _FULL_ID.match(treeish) else self._revisions.resolve(treeish)
        found = self._store.find(name)
        if found is None:
            raise RevisionError(f"there is no object {name} in this repository.")
        kind, data = found.kind, found.data
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
        base = Tree(self._store, self._revisions.tree_of(self._revisions.head()))
        edits = {
            found.path: None if found.entry is None else Entry(*found.entry)
            for found in index.staged(self._place.git, base.id)
        }
        return overlay(self._store, base, edits)

    def tracked(self, folder: str) -> frozenset[str]:
        """What the index has in a folder of the root, or in its place; however its case. InfrastructureError."""
        listed = self._place.git.run("ls-files", "-z", "--", f":(top,icase,literal){folder}")
        if listed.code:
            raise InfrastructureError(f"git could not say whether {folder} is tracked: {listed.err}")
        return frozenset(paths.decode(name) for name in listed.out.split(b"\0") if name)

    def commits(self, change: Change) -> tuple[Commit, ...]:
        """The commits that a committed change is made of, newest first; () while it is uncommitted."""
        if not change.head_commit:
            return ()
        return rooms.authors.commits(self._place.git, self._store, change)

    def signed(self, commit: str) -> Commit:
        """One commit by its id, as people and agents signed it."""
        return rooms.authors.signed(self._store, commit)

    def draft(self, message: str) -> Commit:
        """The commit that git is about to make here, without an id, as its author and committer sign it."""
        return rooms.authors.draft(self._place.git, message)

    def unpushed(self, local: str, known: str, remote: str) -> Selection | None:
        """What a push of `local` brings to `remote`, whose ref is at `known` ("": a new ref); None: nothing new."""
        return rooms.hooks.unpushed(self._place.git, local, known, remote)

    def dropped(self, local: str, known: str) -> list[str] | None:
        """What a ref at `known` loses when it is set to `local`: each as id and title; None: not to be told here."""
        return rooms.hooks.dropped(self._place.git, local, known)

    def made(self) -> Made:
        """The commit at HEAD as a hook sees it that git runs after a commit. RevisionError without a commit."""
        return rooms.hooks.made(self._place, self.resolve("HEAD"))

    def made_alone(self, made: Made) -> bool:
        """Whether git made the commit by itself in what it says it was in the middle of: what it has must be the very
        outcome of a rebase's step, of a pick or of a revert."""
        if not made.during:
            return False
        if len(self.parents(made.commit)) > 1:
            return self.is_plain_merge(made.commit)
        sources = taken.replayed(self.git_dir, made.during, self.signed(made.commit).message)
        trees, back = (made.before, made.tree), made.during == "revert"
        look = rooms.merging.is_replay
        return any(look(self._revisions, self._store, source, trees, back=back) for source in sources)

    def hooks_folder(self) -> Path:
        """Where git looks for this repository's hooks: core.hooksPath, or `hooks` in the common folder."""
        return rooms.hooks.folder(self._place)

    def upstream(self) -> str | None:
        """The commit of the upstream that HEAD's branch has; None without one."""
        return self._revisions.upstream()

    def merge_base(self, left: str, right: str, shown: str) -> str:
        """Where `right` parted from `left`; `left` itself where merges crossed. RevisionError, naming `shown`."""
        return self._revisions.merge_base(left, right, shown)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences for people about how the commits of a change were found."""
        return tuple(self._revisions.remarks)

    def parents(self, commit: str) -> list[str]:
        """The ids of a commit's parents, as it says itself."""
        return self._revisions.parents(commit)

    def is_plain_merge(self, commit: str) -> bool:
        """Whether a merge has the very tree that its two parents give by themselves, without a conflict."""
        return rooms.merging.is_plain(self._revisions, self._store, commit)

    def span(self, base: str, head: str) -> tuple[str, ...]:
        """Ids of the commits that `head` has and `base` ("": nothing) has not, newest first. IntegrityError."""
        return history.span(self._place.git, base, head)

    def false_ends(self, base: str, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of a span's commits at which a shallow clone ends by its list alone: their parents are here."""
        if not self._place.shallow:
            return ()
        return history.false_ends(self._place.git, self._revisions, self._store, base, names)

    def has(self, commit: str) -> bool:
        """Whether the commit with this full id is here."""
        return rooms.fetching.has(self._place.git, commit)

    def bring(self, commits: Sequence[str], enough: Callable[[], bool], access: Access) -> str:
        """Fetch commits by their ids, with history until `enough()`; "" or why that was not reached (CI only)."""

        def is_enough() -> bool:
            self._revisions.forget()
            return enough()

        return rooms.fetching.bring(self._place.git, commits, is_enough, access)

    def bring_branch(self, name: str, access: Access) -> None:
        """Fetch the remote's branch into its remote-tracking ref, if the remote has it (CI only)."""
        rooms.fetching.bring_branch(self._place.git, name, access)
        self._revisions.forget()

    def bring_notes(self, ref: str, access: Access) -> None:
        """Fetch the git notes of `refs/notes/<ref>`, if the remote has them (CI only)."""
        rooms.fetching.bring_notes(self._place.git, ref, access)

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether the commit `new` has the commit `old` in its history."""
        return history.is_ancestor(self._place.git, old, new)

    def earlier(self, commit: str) -> tuple[str, ...]:
        """What this commit was here before it was amended or rebased, by HEAD's reflog: ids, the latest first."""
        return history.earlier(self._place.git, commit, self._reflog)

    @cached_property
    def _reflog(self) -> list[list[str]]:
        return history.reflog(self._place.git)

    def notes(self, ref: str) -> dict[str, bytes]:
        """The git notes of `refs/notes/<ref>` by the id of what they are on."""
        return history.notes(self._place.git, ref)

    def note(self, ref: str, about: str) -> bytes:
        """The git note of `refs/notes/<ref>` on one object, b"" without one."""
        return history.note(self._place.git, ref, about)

    def add_note(self, ref: str, about: str, text: bytes) -> None:
        """Put a git note on an object of the user's; no branch, index or working tree changes. StorageError."""
        history.add_note(self._place.git, ref, about, text)

    def patch(self, change: Change) -> bytes:
        """The change as a patch that `git apply` accepts, binary files included."""
        return rooms.patch.unified(self._store.database, change.before, change.after)

    def file_patch(self, file: FileChange) -> str:
        """Unified text of one file's change, for people."""
        return rooms.patch.file_text(self._store.database, file)

    def export(self, tree: str, destination: Path) -> Export:
        """Write a tree out as plain files below `destination` (empty, or not there yet)."""
        return export(self._store, self.tree(tree), destination)

    def config(self, name: str) -> str | None:
        """One value of git's configuration, from every scope, as it stood when the repository was opened."""
        return self._place.settings.value(name)

    def given(self, name: str) -> str | None:
        """The same without what the repository's own configuration says: for what would be run or trusted."""
        return self._place.settings.given(name)

    def upstream_base(self) -> str | None:
        """Merge base of HEAD with the remote's default branch (its tip without one); None where none is known here."""
        return self._revisions.upstream_base()

    def remote_default(self) -> str | None:
        """The commit id at the tip of that default branch."""
        return self._revisions.remote_default()

    def _take(self) -> tuple[str, str]:
        early, self._early = self._early, None  # good for one snapshot; later ones look anew
        if early is None:
            early = status.begin(self._place), detect.read_index(self._place)
        self._store.start()
        return snapshot.take(self._place, self._store, *early)
