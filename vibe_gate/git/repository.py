"""The repository under review: revisions to trees, trees to changes, and the working tree as one.

Nothing of the user's is written: new objects go to a scratch folder that `close` deletes.
Replace refs and grafts are ignored on purpose (see `revisions`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType

from vibe_gate.domain import paths
from vibe_gate.domain.blame import BlamedLine, FileAt
from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.environment import Environment
from vibe_gate.errors import InfrastructureError, IntegrityError, StorageError, UsageError
from vibe_gate.git import (
    export,
    fetch,
    kept_export,
    origins,
    remote_notes,
    repository_copy,
    repository_place,
    workspace,
    worktrees,
)
from vibe_gate.git.diff import ChangeQueries
from vibe_gate.git.export import Export
from vibe_gate.git.fetch import Credentials
from vibe_gate.git.object_store import Objects
from vibe_gate.git.program import PATTERNS, Program
from vibe_gate.git.repository_copy import RepositoryCopy
from vibe_gate.git.repository_place import RepositoryPlace
from vibe_gate.git.workspace import Workspace
from vibe_gate.git.worktrees import StoreRoot

MAX_WORKTREES = 100
"""Working trees of one repository that are looked at."""


class Repository(ChangeQueries):
    """One repository, open. Use as a context manager, or call `close`.

    Its base classes answer about changes, revisions and notes, and git's hooks.
    """

    def __init__(self, place: RepositoryPlace) -> None:
        super().__init__(place, Objects(place.git, place.objects))
        self.environment: Environment = place.environment
        self.root: Path = place.root
        """The top of the working tree, absolute."""
        self.git_dir: Path = place.git_dir
        """This worktree's own, absolute."""
        self.common_dir: Path = place.common_dir
        """Shared between linked worktrees, absolute."""
        self._tracked_names: dict[tuple[str, tuple[int, ...]], frozenset[str]] = {}
        """The latest answer of `tracked`, by the folder and the version of the index."""

    def __enter__(self) -> Repository:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Delete what was written aside. Objects of this repository cannot be read any more."""
        self._objects.close()

    def tracked(self, folder: str) -> frozenset[str]:
        """What the index has in a folder of the root, or in its place; however its case.
        InfrastructureError.

        Git is asked anew when there is another index: it never writes into one.
        """
        question = folder, _version_of(self._place.index_file)
        if question not in self._tracked_names:
            self._tracked_names = {question: _tracked(self._git, folder)}
        return self._tracked_names[question]

    def counts(self, file: Path) -> bool:
        """Whether a file is untracked and not ignored, so that a snapshot of the working tree has
        it.
        """
        path = os.fspath(file.absolute())
        listing = self._git.run("ls-files", "-z", "--others", "--exclude-standard", "--", path)
        return bool(listing.out)

    # Trees

    def export(
        self,
        tree: str,
        destination: Path,
        only: Collection[str] | None = None,
        *,
        replace: bool = False,
        record: Path | None = None,
    ) -> Export:
        """Write a tree, or `only` these of its paths, out as plain files below `destination`
        (empty, or not there; with `replace` what is there and differs is replaced, as the `record`
        of an earlier export there allows).
        """
        wanted_tree = self.tree(tree)
        return export.export(
            self._objects, wanted_tree, destination, only, replace=replace, record=record
        )

    def kept_export(self) -> AbstractContextManager[Path | None]:
        """In the block, the folder of the export that this clone keeps, for this process alone;
        None if another has it or none can be kept.
        """
        return kept_export.hold_kept_export(self._place)

    def size_of_kept_export(self) -> int:
        """Bytes of the files of the export that this clone keeps."""
        return kept_export.kept_export_size(self._place)

    def is_clean_merge(self, commit: str) -> bool:
        """Whether a merge has the very tree that its two parents give by themselves, without a
        conflict.
        """
        return self._merging.merge_parents(self.parents(commit)) == self.tree_of(commit)

    # Lines

    def commit_on(self, tree: str, parent: str) -> str:
        """A commit of the tree on a parent ("": none), known to this object alone; its id.
        InfrastructureError.
        """
        return origins.commit_on(self._objects, tree, parent)

    def blamed(
        self,
        commit: str,
        path: str,
        spans: Sequence[tuple[int, int]] = (),
        *,
        since: float = 0.0,
    ) -> list[BlamedLine]:
        """The lines of a file in a commit with the commits that brought them, white space aside,
        through renames.

        `spans`: of these alone, each its first and last line. `since`, in seconds since 1970: what
        is older is followed no further. InfrastructureError.
        """
        return origins.blamed(self._objects, commit, path, spans, self._shallow, since)

    def history_of(self, commit: str, path: str) -> list[FileAt]:
        """The commits up to this one that changed the file, the newest first, through its
        renames.
        """
        return origins.history_of(self._objects, commit, path, self._shallow)

    # Repositories made of this one

    def with_trees(self, folder: Path, trees: Sequence[str]) -> Repository:
        """A new repository in `folder`, open: a commit of each tree on branch main, and nothing is
        checked out.

        It reads the trees from this one, and is of use while this one is open.
        """
        from vibe_gate.git import new_repository

        new_repository.commit_trees(folder, self._objects, trees)
        git = self._git.elsewhere(folder)
        return Repository(repository_place.find_repository(git, self.environment))

    def patched(self, tree: str, patch: bytes, *, reverse: bool = False) -> str:
        """The tree that a patch makes of another, or with `reverse` was made of, to be read while
        this repository is open; "" if it does not fit.
        """
        index = {"GIT_INDEX_FILE": os.fspath(self._objects.folder / "patched")}
        git = self._objects.bare
        if git.run("read-tree", tree, variables=index).code:
            return ""
        apply = ["apply", "--cached", "--whitespace=nowarn"]
        if reverse:
            apply.append("--reverse")
        if git.run(*apply, "-", stdin=patch, variables=index).code:
            return ""
        return git.run("write-tree", variables=index).line

    def copy(self, *, files: bool = False) -> RepositoryCopy:
        """All refs with their history, to be written elsewhere; with `files`, those of the working
        tree, too.

        UsageError: a shallow clone, or one without commits. InfrastructureError.
        """
        tree = self.snapshot() if files else ""
        return repository_copy.copy_repository(self._place, self._objects, tree)

    # Where agents write

    @property
    def workspaces(self) -> Path:
        """The folder of this repository's workspaces, each under its run's id."""
        return workspace.workspaces_folder(self._place)

    def workspace_of(self, run_id: str) -> Path:
        """The folder of a run's workspace, which may not be there yet."""
        return self.workspaces / run_id

    def workspace(self, folder: Path, tree: str) -> Workspace:
        """A new workspace with the files of `tree` in `folder`, which is not there yet."""
        return workspace.make_workspace(self, self._place, self._objects, folder, tree)

    def reopen_workspace(self, folder: Path) -> Workspace:
        """A workspace that an earlier process made. InfrastructureError if it is gone, or another
        process has it.
        """
        return Workspace(self, self._place, self._objects, folder)

    def remove_old_workspaces(self, before: datetime, *, dry_run: bool = False) -> list[str]:
        """Delete workspaces that were last used before then and that no process has open; their
        names.

        Those of repositories that are gone, too. A run that died leaves its own behind, for
        `resume`. With `dry_run` only say which.
        """
        return workspace.remove_old_workspaces(self._place, before, dry_run=dry_run)

    def apply(self, patch: bytes, expected: str, saved: Path) -> None:
        """Apply a patch to the working tree while its snapshot is `expected`; `saved` is where
        people find the patch.

        Index and HEAD stay; line endings and filters are the user's. IntegrityError if the working
        tree is another one. InfrastructureError if git refuses.
        """
        patch_name = paths.quote(str(saved))
        if self.snapshot() != expected:
            raise IntegrityError(
                "The working tree is not what the patch was made from, so nothing was applied. "
                f"The patch is {patch_name}; try `git apply -3 {patch_name}`."
            )
        answer = self._git.run(
            "-c", "apply.ignoreWhitespace=no", "apply", "--whitespace=nowarn", "-", stdin=patch
        )
        if patch and answer.code:
            raise InfrastructureError(
                f"git cannot apply the change, and changed nothing ({answer.complaint}). "
                f"See {patch_name}."
            )

    def keep_patch(self, name: str, patch: bytes) -> Path | None:
        """Write a patch into the git directory, for a run that cannot be recorded; None if that
        fails, too.
        """
        folder = self.common_dir / "vibe-gate"
        file = folder / f"made-{name}.patch"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            folder.mkdir(exist_ok=True)
            descriptor = os.open(file, flags, 0o600)
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(patch)
        except OSError:
            return None
        return file

    def remove_old_patches(self, before: datetime, *, dry_run: bool = False) -> list[str]:
        """Delete the patches of `keep_patch` that were written before that time; their names. With
        `dry_run` only say which.
        """
        names = []
        for file in sorted((self.common_dir / "vibe-gate").glob("made-*.patch")):
            with suppress(OSError):
                if file.lstat().st_mtime < before.timestamp():
                    if not dry_run:
                        file.unlink()
                    names.append(file.name)
        return names

    # Remotes, in CI

    def fetch(
        self, commits: Sequence[str], enough: Callable[[], bool], credentials: Credentials
    ) -> str:
        """Fetch commits by their ids, with history until `enough()`; "" or why that was not
        reached.
        """

        def is_enough() -> bool:
            self.forget()
            return enough()

        return fetch.fetch_commits(self._git, commits, is_enough, credentials)

    def fetch_branch(self, name: str, credentials: Credentials) -> str:
        """Fetch the remote's branch into its remote-tracking ref; "" or why that was not done."""
        reason = fetch.fetch_branch(self._git, name, credentials)
        self.forget()
        return reason

    def fetch_notes(self, ref: str, credentials: Credentials) -> None:
        """Fetch the git notes of `refs/notes/<ref>`, if the remote has them."""
        fetch.fetch_notes(self._git, ref, credentials)

    # Remotes, at a push

    def add_remote_notes(self, url: str, ref: str, lines: Mapping[str, Sequence[bytes]]) -> str:
        """Add lines to the notes of `refs/notes/<ref>` that a remote has, by the commit; why that
        failed, or "".

        Nothing else of this clone leaves, and what the remote has stays.
        """
        return remote_notes.add_lines(self._git, self._objects, url, ref, lines)

    # The store, and other working trees

    @property
    def worktree(self) -> str:
        """Git's own name of this linked worktree; "" in the main working tree."""
        return worktrees.worktree_name(self.git_dir, self.common_dir)

    @property
    def store_root(self) -> Path:
        """The folder whose `.vibe-artifacts` is the store of this working tree: one for all that
        are linked.
        """
        return self._store.root

    @property
    def store_remark(self) -> str:
        """Why this linked worktree keeps a store of its own; "" if it does not."""
        return self._store.remark

    @cached_property
    def _store(self) -> StoreRoot:
        store = worktrees.store_root_of(self._place)
        if store.remark:
            self.add_remark(store.remark)
        return store

    def tracked_in_store(self) -> frozenset[str]:
        """What git tracks in the store. InfrastructureError."""
        if self.store_root == self.root:
            return self.tracked(STORE)
        if self.store_root == self.common_dir:
            return frozenset()
        return _tracked(self._git.elsewhere(self.store_root), STORE)

    def linked_tops(self) -> list[Path]:
        """The tops of the linked worktrees."""
        return [worktree.top for worktree in worktrees.linked_worktrees(self.common_dir)]

    def worktrees_with_stores(self) -> list[Path]:
        """The tops of linked worktrees that have a store of their own, of which git tracks no file.

        None if this worktree cannot write the shared store.
        """
        if self._store.remark:
            return []
        return [top for top in self.linked_tops() if self._has_own_store(top)]

    def _has_own_store(self, top: Path) -> bool:
        if not os.path.lexists(top / STORE):
            return False
        if os.path.realpath(top) == os.path.realpath(self.store_root):
            return False
        return not worktrees.tracks_store(self._git.elsewhere(top))

    def capture_roots(self) -> tuple[Path, ...]:
        """The folders in whose stores captured sessions may lie: that of this working tree's store
        first, then the tops of all working trees.

        Not those that git tracks a file of: whoever commits there could invent sessions.
        """
        roots = dict.fromkeys((self.store_root, self.root, *self.other_worktrees()))
        return tuple(root for root in roots if not self._tracks_store(root))

    def _tracks_store(self, root: Path) -> bool:
        """Whether git tracks a file of the store in a folder, if there is one, or cannot say so."""
        if root == self.common_dir:
            return False
        if root != self.root:
            return worktrees.tracks_store(self._git.elsewhere(root))
        if not os.path.lexists(root / STORE):
            return False
        try:
            return bool(self.tracked(STORE))
        except InfrastructureError:
            return True

    def other_worktrees(self) -> list[Path]:
        """The tops of the other working trees of this repository, main and linked, that are still
        there.
        """
        tops = self.linked_tops()
        if self.worktree:
            main = worktrees.main_working_tree(self.common_dir, self._git)
            if main is not None:
                tops = [main, *tops]
        root = os.path.realpath(self.root)
        return [top for top in tops if os.path.realpath(top) != root][:MAX_WORKTREES]

    def open_worktree(self, root: Path) -> Repository:
        """Another working tree of this repository. UsageError if another repository is there by
        now.
        """
        worktree_place = repository_place.find_repository(
            self._git.elsewhere(root), self.environment
        )
        if worktree_place.common_dir.resolve() != self.common_dir.resolve():
            raise UsageError(f"{paths.quote(str(root))} is not a working tree of this repository.")
        return Repository(worktree_place)

    # Configuration

    def remote_url(self, remote: str) -> str:
        """The URL from which git fetches a remote, after `url.*.insteadOf`; "" without one. It may
        hold a password.
        """
        answer = self._git.run("remote", "get-url", "--", remote)
        return "" if answer.code else answer.line

    def config(self, name: str) -> str | None:
        """One value of git's configuration, from every scope, as it stood when the repository was
        opened.
        """
        return self._place.settings.value(name)

    def set_config(self, name: str, value: str) -> None:
        """Set one value of the configuration of this clone. StorageError."""
        answer = self._git.run("config", "--local", "--replace-all", name, value)
        if answer.code:
            raise StorageError(f"git config {name} cannot be written: {answer.complaint}")

    def trusted_config(self, name: str) -> str | None:
        """The same without what the repository's own configuration says: for what would be run or
        trusted.
        """
        return self._place.settings.trusted(name)


def _version_of(index: Path) -> tuple[int, ...]:
    """What differs after git has written an index; () if there is none."""
    try:
        status = index.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def _tracked(git: Program, folder: str) -> frozenset[str]:
    """The files below a folder of the top that git tracks, however its case."""
    pattern = f":(top,icase,literal){folder}"
    listing = git.run("ls-files", "-z", "--", pattern, variables=PATTERNS)
    if listing.code:
        raise InfrastructureError(f"git could not say whether {folder} is tracked: {listing.err}")
    return frozenset(paths.decode(name) for name in listing.out.split(b"\0") if name)
