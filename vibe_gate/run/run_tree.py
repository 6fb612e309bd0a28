"""The files that stages work on: a snapshot until an agent writes, then the run's one workspace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from vibe_gate.domain.change import Change, Selection
from vibe_gate.errors import InfrastructureError, RevisionError, UsageError
from vibe_gate.git import Repository, Workspace, open_repository


class RunTree:
    """One repository's files in a run. `start` is the tree it began with, `now` the one that the
    last writer left.

    `writers`: the ids of the run's agents that changed them.
    """

    def __init__(self, repository: Repository, change: Change, run_id: str) -> None:
        self.repository = repository
        self.change = change
        self.start = self.now = change.after
        self.writers: tuple[str, ...] = ()
        self._folder = repository.workspace_of(run_id)
        self._stale = False  # the workspace holds other files than `now`
        self._workspace: Workspace | None = None
        self._readers = 0
        self._writing = False
        self._free = asyncio.Condition()

    @property
    def written(self) -> bool:
        """Whether an agent left other files than there were."""
        return self.now != self.start

    @property
    def workspace(self) -> Workspace:
        """The workspace, made when it is first needed, or, of a run that is resumed, opened."""
        if self._workspace is None:
            reopened = self.repository.reopen_workspace(self._folder) if self.written else None
            self._workspace = reopened or self._new(self.start)
        return self._workspace

    def _new(self, tree: str) -> Workspace:
        """A new workspace, in place of what a turn left in it that was cut."""
        if self._folder.exists():
            self.repository.reopen_workspace(self._folder).remove()
        return self.repository.workspace(self._folder, tree)

    def put(self, patch: bytes) -> None:
        """Change the files by a patch before any agent works. UsageError: it does not fit them."""
        if not patch:
            return
        after = self.workspace.patched(self.now, patch)
        if not after:
            raise UsageError(
                "The patch does not fit the workspace: its files changed since the run that made it."
            )
        self.workspace.restore(after)
        self.now = after

    def begin_at(self, tree: str, run_id: str, known: Collection[str]) -> bool:
        """Begin with the tree that the run `run_id` left, or this one itself before it died;
        whether it is here.

        What agents change is then compared with the user's files, if these are one of the `known`
        trees; else with `tree`, so that no patch takes back what the user did meanwhile.
        """
        if tree == self.start:
            return True
        folder = self.repository.workspace_of(run_id)
        if not run_id or not folder.is_dir():
            return False
        try:
            earlier = self.repository.reopen_workspace(folder)
        except InfrastructureError:  # another process has it
            return False
        if folder == self._folder:
            self._workspace, self._stale = earlier, True
            self._begun_with(tree, known)
            return True
        try:
            self.repository.tree(tree)
            self._workspace = self._new(tree)
        except RevisionError:
            return False
        finally:
            earlier.close()
        self._begun_with(tree, known)
        return True

    def rebuild(
        self, tree: str, patches: Mapping[str, tuple[str, bytes]], known: Collection[str]
    ) -> bool:
        """Begin with a tree made by patches: each tree by the one before it, and what leads there;
        whether that works.

        A patch that redaction changed leads elsewhere.
        """
        workspace = self.workspace
        for after, (before, patch) in patches.items():
            if workspace.patched(before, patch) != after:
                return False
        try:
            self.repository.tree(tree)
        except RevisionError:
            return False
        workspace.restore(tree)
        self._begun_with(tree, known)
        return True

    def _begun_with(self, tree: str, known: Collection[str]) -> None:
        self.now = tree
        if self.start not in known:
            self.start = tree

    def left(self, after: str, agent: str, *, readable: bool) -> None:
        """The agent left this tree. Not `readable`: the workspace holds other files, and is made
        anew for the next.
        """
        if after != self.now and agent not in self.writers:
            self.writers += (agent,)
        self.now, self._stale = after, not readable

    @property
    def made(self) -> Change:
        """What the run's agents changed."""
        return self.workspace.change(self.start, self.now)

    @property
    def current(self) -> Change:
        """The change as it is now: the reviewed one, and what agents added to it."""
        return self.workspace.change(self.change.before, self.now) if self.written else self.change

    def leave(self, *, done: bool) -> str:
        """Let go of the workspace; it is kept if the run can be resumed, its trees if sessions go
        on from them.

        Returns why it could not be deleted, "" if it was: a process that an agent left may still
        write there.
        """
        if self._workspace is None:
            return ""
        try:
            if self.written or not done:
                self._workspace.close(files=not done)
            else:
                self._workspace.remove()
        except InfrastructureError as error:
            return str(error)
        return ""

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Path | None]:
        """Keep writers away."""
        async with self._free:
            await self._free.wait_for(lambda: not self._writing)
            self._readers += 1
        try:
            yield None
        finally:
            async with self._free:
                self._readers -= 1
                self._free.notify_all()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Path | None]:
        """Have the workspace alone; gives the folder to work in."""
        async with self._free:
            await self._free.wait_for(lambda: not self._writing and not self._readers)
            self._writing = True
        try:
            if self._stale and (self.written or self._workspace is not None):
                self.workspace.restore(self.now)
            self._stale = False
            yield self.workspace.root
        finally:
            async with self._free:
                self._writing = False
                self._free.notify_all()


class RunTrees:
    """The files of a run: those of its own repository (`own`), and of others that stages name as
    their workspace.
    """

    def __init__(self, repository: Repository, change: Change, run_id: str) -> None:
        self.own = RunTree(repository, change, run_id)
        self._by_root = {repository.root: self.own}
        self._run_id = run_id
        self._open = ExitStack()

    def of(self, workspace: Path | None) -> RunTree:
        """The files of that repository in this run; the run's own without one."""
        if workspace is None or workspace.resolve() in self._by_root:
            return self._by_root[workspace.resolve()] if workspace else self.own
        repository = self._open.enter_context(
            open_repository(workspace, self.own.repository.environment.variables)
        )
        if repository.root not in self._by_root:
            change = repository.change(Selection("worktree"))
            self._by_root[repository.root] = RunTree(repository, change, self._run_id)
        return self._by_root[repository.root]

    def now(self) -> tuple[str, ...]:
        """The trees as they are now: the run's own, then those of other repositories."""
        return tuple(tree.now for tree in self._by_root.values())

    def leave(self, *, done: bool) -> list[str]:
        """Let go of all of them, as RunTree.leave; why some could not be deleted."""
        with self._open:
            return [why for tree in self._by_root.values() if (why := tree.leave(done=done))]
