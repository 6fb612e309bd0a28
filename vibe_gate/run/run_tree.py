"""The files that stages work on: a snapshot until an agent writes, then the run's one workspace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from vibe_gate.domain import patch as patches
from vibe_gate.domain import paths
from vibe_gate.domain.agent import is_protected
from vibe_gate.domain.bundles import is_run_id
from vibe_gate.domain.change import Change, Selection
from vibe_gate.errors import InfrastructureError, RevisionError, UsageError
from vibe_gate.git import Repository, Workspace, open_repository
from vibe_gate.run.handed_over import HandedTurn
from vibe_gate.run.turn_changes import KEPT_BEFORE, TreeStep, kept_turn_name


class RunTree:
    """One repository's files in a run."""

    def __init__(self, repository: Repository, change: Change, run_id: str) -> None:
        self.repository = repository
        self.change = change
        """The reviewed one."""
        self.start = change.after
        """The tree that the run began with."""
        self.now = change.after
        """The tree that the last writer left."""
        self.steps: tuple[TreeStep, ...] = ()
        """What turns made of the files since `start`, those that were handed over first."""
        self.writers: tuple[str, ...] = ()
        """The ids of the run's agents that changed the files."""
        self.was_worked_in = False
        """Whether an agent that writes has had the workspace: it may hold files of its own that git
        ignores.
        """
        self._folder = repository.workspace_of(run_id)
        self._is_stale = False
        """Whether the workspace holds other files than `now`."""
        self._workspace: Workspace | None = None
        self._readers = 0
        self._is_written_to = False
        """Whether an agent that writes has the workspace."""
        self._access = asyncio.Condition()

    @property
    def is_changed(self) -> bool:
        """Whether an agent left other files than there were."""
        return self.now != self.start

    @property
    def workspace(self) -> Workspace:
        """The workspace, made when it is first needed, or, of a run that is resumed, opened."""
        if self._workspace is None:
            reopened = self.repository.reopen_workspace(self._folder) if self.is_changed else None
            self._workspace = reopened or self._make_workspace(self.start)
        return self._workspace

    def _make_workspace(self, tree: str) -> Workspace:
        """A new workspace, in place of what a turn left in it that was interrupted."""
        if self._folder.exists():
            self.repository.reopen_workspace(self._folder).remove()
        return self.repository.workspace(self._folder, tree)

    async def hand_over(self, turns: Collection[HandedTurn]) -> None:
        """Go on with the files that these turns of other runs left, each once.

        UsageError, before anything is changed: a patch does not apply to the files as they are, or
        changes what no agent may.
        """
        if not turns:
            return
        async with self.writing():
            steps = self.steps
            for turn in turns:
                if any(step.test_id == turn.test_id for step in steps):
                    continue
                before = steps[-1].after if steps else self.now
                steps = (*steps, self._step_of(turn, before, steps))
            if steps != self.steps:
                self.steps = steps
                self.now = steps[-1].after
                self._is_stale = True

    def _step_of(
        self, turn: HandedTurn, before: str, earlier_steps: Sequence[TreeStep]
    ) -> TreeStep:
        """What the turn makes of the tree `before`. UsageError."""
        turn = self._exact_turn(turn)
        if turn.is_redacted:
            raise UsageError(
                f"context: the patch of {turn.name} lacks what was redacted in its bundle (a secret, "
                "or a large binary file), so its files cannot be made again here."
            )
        workspace = self.workspace
        after = ""
        if turn.patch:
            after = workspace.patched(before, turn.patch)
        # The user may have applied it since.
        if not after and turn.patch and workspace.patched(before, turn.patch, reverse=True):
            after = before
        if not after:
            raise UsageError(self._misfit(turn, before, earlier_steps))
        change = workspace.change(before, after)
        for file in change.files:
            for path in dict.fromkeys((file.path, file.old_path or file.path)):
                if is_protected(path):
                    raise UsageError(
                        f"context: {turn.name} changed {paths.quote(path)}, "
                        "which no agent may hand over."
                    )
        return TreeStep(turn.stage, turn.test_id, before, after, is_of_other_run=True)

    def _exact_turn(self, turn: HandedTurn) -> HandedTurn:
        """The turn with its patch as it was made, if this clone still has the trees."""
        run_id, _, place = turn.test_id.partition("/")
        folder = self.repository.workspace_of(run_id)
        if not is_run_id(run_id) or folder == self._folder or not folder.is_dir():
            return turn
        try:
            workspace = self.repository.reopen_workspace(folder)
        except (
            InfrastructureError
        ):  # another process has it: the bundle's patch is the same, or said
            return turn
        try:
            name = kept_turn_name(place)
            before = workspace.kept_tree(f"{name}{KEPT_BEFORE}")
            after = workspace.kept_tree(name)
            if not before or not after:
                return turn
            patch = self.repository.patch(workspace.change(before, after))
        finally:
            workspace.close()
        return replace(turn, patch=patch, is_exact=True)

    def _misfit(self, turn: HandedTurn, before: str, earlier_steps: Sequence[TreeStep]) -> str:
        """Why the turn's patch does not apply: the first file that it does not fit, and which turn
        changed that before.
        """
        path = self._first_misfit(turn.patch, before)
        if not path:
            return f"context: the patch of {turn.name} is not one that git can apply."
        for step in reversed(earlier_steps):
            change = self.workspace.change(step.before, step.after)
            if any(path in (file.path, file.old_path) for file in change.files):
                return (
                    f"context: {step.stage} ({step.test_id}) and {turn.name} both changed "
                    f"{paths.quote(path)}, and their patches do not apply together. "
                    "Hand over one of them, or run one with the other as its context."
                )
        return (
            f"context: the patch of {turn.name} does not apply to {paths.quote(path)}, which has "
            "changed since. Run it again, or bring the file back."
        )

    def _first_misfit(self, patch: bytes, tree: str) -> str:
        """The first file whose section of the patch does not apply to the tree; "" if none is."""
        sections = list(patches.by_path(patch).items())
        fitting, failing = 0, len(sections)  # so many apply; with so many it does not
        if not sections:
            return ""
        while failing - fitting > 1:
            middle = (fitting + failing) // 2
            part = b"".join(section for _, section in sections[:middle])
            if self.workspace.patched(tree, part):
                fitting = middle
            else:
                failing = middle
        return sections[failing - 1][0]

    def begin_with_tree_of_run(
        self, tree: str, run_id: str, session_trees: Collection[str]
    ) -> bool:
        """Begin with the tree that the run `run_id` left, or this one itself before it died;
        whether it is here.

        What agents change is then compared with the user's files, if these are one of the trees of
        the session; else with `tree`, so that no patch takes back what the user did meanwhile.
        """
        if tree == self.start:
            return True
        folder = self.repository.workspace_of(run_id)
        if not run_id or not folder.is_dir():
            return False
        try:
            earlier_workspace = self.repository.reopen_workspace(folder)
        except InfrastructureError:  # another process has it
            return False
        if folder == self._folder:
            self._workspace = earlier_workspace
            self._is_stale = True
            self._begin_with(tree, session_trees)
            return True
        try:
            self.repository.tree(tree)
            self._workspace = self._make_workspace(tree)
        except RevisionError:
            return False
        finally:
            earlier_workspace.close()
        self._begin_with(tree, session_trees)
        return True

    def begin_with_patches(
        self,
        tree: str,
        patches: Mapping[str, tuple[str, bytes]],
        session_trees: Collection[str],
    ) -> bool:
        """Begin with a tree made by patches; whether that works.

        A patch that redaction changed leads elsewhere.

        Args:
            tree: The tree to begin with.
            patches: By tree the one before it, and the patch that leads from there.
            session_trees: As of `begin_with_tree_of_run`.
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
        self._begin_with(tree, session_trees)
        return True

    def _begin_with(self, tree: str, session_trees: Collection[str]) -> None:
        self.now = tree
        if self.start not in session_trees:
            self.start = tree

    def end_turn(
        self, after: str, agent: str, stage: str, test_id: str, *, is_readable: bool
    ) -> None:
        """The agent left this tree in the turn `test_id` of a stage. Not readable: the workspace
        holds other files, and is made anew for the next.
        """
        self.was_worked_in = True
        if after != self.now and agent not in self.writers:
            self.writers += (agent,)
        if after != self.now:
            self.steps += (TreeStep(stage, test_id, self.now, after),)
        self.now = after
        self._is_stale = not is_readable

    @property
    def agents_change(self) -> Change:
        """What the run's agents changed."""
        return self.workspace.change(self.start, self.now)

    @property
    def current(self) -> Change:
        """The change as it is now: the reviewed one, and what agents added to it."""
        if not self.is_changed:
            return self.change
        return self.workspace.change(self.change.before, self.now)

    def close(self, *, has_ended: bool) -> str:
        """Close the workspace; it is kept if the run can be resumed, its trees if sessions go on
        from them.

        Returns why it could not be deleted, "" if it was: a process that an agent left may still
        write there.
        """
        if self._workspace is None:
            return ""
        try:
            if self.is_changed or not has_ended:
                self._workspace.close(files=not has_ended)
            else:
                self._workspace.remove()
        except InfrastructureError as error:
            return str(error)
        return ""

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Path | None]:
        """Keep writers away."""
        async with self._access:
            await self._access.wait_for(lambda: not self._is_written_to)
            self._readers += 1
        try:
            yield None
        finally:
            async with self._access:
                self._readers -= 1
                self._access.notify_all()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Path | None]:
        """Have the workspace alone; gives the folder to work in."""
        async with self._access:
            await self._access.wait_for(lambda: not self._is_written_to and not self._readers)
            self._is_written_to = True
        try:
            if self._is_stale and (self.is_changed or self._workspace is not None):
                self.workspace.restore(self.now)
            self._is_stale = False
            yield self.workspace.root
        finally:
            async with self._access:
                self._is_written_to = False
                self._access.notify_all()


class RunTrees:
    """The files of a run: those of its own repository, and of others that stages name as their
    workspace.
    """

    def __init__(self, repository: Repository, change: Change, run_id: str) -> None:
        self.own = RunTree(repository, change, run_id)
        """Those of the run's own repository."""
        self._by_root = {repository.root: self.own}
        self._run_id = run_id
        self._open_repositories = ExitStack()

    def of(self, workspace: Path | None) -> RunTree:
        """The files of that repository in this run; the run's own without one."""
        if workspace is None:
            return self.own
        tree = self._by_root.get(workspace.resolve())
        if tree is not None:
            return tree
        repository = self._open_repositories.enter_context(
            open_repository(workspace, self.own.repository.environment)
        )
        if repository.root not in self._by_root:
            change = repository.change(Selection("worktree"))
            self._by_root[repository.root] = RunTree(repository, change, self._run_id)
        return self._by_root[repository.root]

    def now(self) -> tuple[str, ...]:
        """The trees as they are now: the run's own, then those of other repositories."""
        return tuple(tree.now for tree in self._by_root.values())

    def close(self, *, has_ended: bool) -> list[str]:
        """Close all of them, as RunTree.close; why some could not be deleted."""
        with self._open_repositories:
            problems = [tree.close(has_ended=has_ended) for tree in self._by_root.values()]
        return [problem for problem in problems if problem]
