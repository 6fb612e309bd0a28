"""What a turn made of its workspace, from the trees before and after it: what the agent did by Bash
is in it, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.change import LARGEST_CONTENT, Change, FileDiff, FileVersion, Side
from vibe_gate.domain.turn import (
    MAX_CHAIN_FILES,
    ChainChange,
    ChainStep,
    Content,
    TurnChain,
    TurnChange,
    TurnFile,
    TurnGit,
    step_patch_name,
)

if TYPE_CHECKING:
    from vibe_gate.agent import TurnRecord
    from vibe_gate.git import Workspace


KEPT_BEFORE = "-before"
"""Ends the name under which the tree before a turn is kept."""


class TreeStep(Struct, frozen=True):
    """What a turn made of the files of a run."""

    stage: str
    """The id of its stage."""

    test_id: str
    """`<run id>/<node id>/<turn>`."""

    before: str
    """A tree id."""

    after: str
    """A tree id."""

    is_of_other_run: bool = False
    """Whether its patch was handed over."""


def kept_turn_name(place: str) -> str:
    """The name under which a workspace keeps the tree of a turn; `place`: `<node id>/<turn>`."""
    return place.replace(".", "_")  # a ref's name has rules about dots


class TurnChanges:
    """What one turn makes of the workspace: `TurnRequest.change`, called when the session has
    ended.

    Afterwards `after` is the tree that the turn left, kept in the workspace under the turn's name,
    and `change` what it made of `before`, which is kept, too.
    """

    def __init__(
        self,
        workspace: Workspace,
        before: str,
        *,
        stage: str = "",
        start: str = "",
        steps: Sequence[TreeStep] = (),
        writes: bool = True,
    ) -> None:
        """`steps`: what was done before this turn, of the stage `stage`, since the tree `start`.

        `writes`: False of an agent that only reads, in an export.
        """
        self.before = before
        self.after = before
        self.change: Change | None = None
        self._workspace = workspace
        self._stage = stage
        self._start = start
        self._steps = steps
        self._writes = writes

    def __call__(self, record: TurnRecord) -> TurnChange:
        """Take the tree; write down the contents of what differs."""
        workspace = self._workspace
        if self._writes:
            self.after = workspace.tree()
        self.change = workspace.change(self.before, self.after)
        if record.relative and self._writes:
            name = kept_turn_name(record.relative.removeprefix("nodes/"))
            workspace.keep(f"{name}{KEPT_BEFORE}", self.before)
            workspace.keep(name, self.after)
        # Contents come before the patch: of a secret whose name is on another line they alone teach
        # the redactor.
        files = tuple(self._file(file, record) for file in self.change.files)
        states = TurnGit(before=workspace.state(self.before), after=workspace.state(self.after))
        patch = workspace.repository.patch(self.change) if files else b""
        return TurnChange(
            before=self.before,
            after=self.after,
            patch=patch,
            git=states,
            files=files,
            chain=self._chain(record) if self._steps else None,
        )

    def _chain(self, record: TurnRecord) -> ChainChange:
        """The turns before this one, and what all of them changed together."""
        steps = []
        patches = []
        for step in self._steps:
            listed: dict[str, Any] = {}
            if step.is_of_other_run:
                listed, patch = self._recorded(step.before, step.after, record)
                patches.append(patch)
                listed["patch"] = step_patch_name(len(patches))
            steps.append(ChainStep(stage=step.stage, test_id=step.test_id, **listed))
        listed, patch = self._recorded(self._start, self.after, record)
        chain = TurnChain(stage=self._stage, steps=tuple(steps), **listed)
        return ChainChange(chain, patch, tuple(patches))

    def _recorded(
        self, before: str, after: str, record: TurnRecord
    ) -> tuple[dict[str, Any], bytes]:
        """What differs between two trees, with its contents kept, as of ListedFiles; and its
        patch.
        """
        change = self._workspace.change(before, after)
        files = [self._file(file, record) for file in change.files[:MAX_CHAIN_FILES]]
        more_files = max(0, len(change.files) - MAX_CHAIN_FILES) or None
        patch = self._workspace.repository.patch(change) if files else b""
        return {"files": tuple(files), "more_files": more_files}, patch

    def _file(self, file: FileDiff, record: TurnRecord) -> TurnFile:
        repository = self._workspace.repository

        def content(side: Side, version: FileVersion | None) -> Content | None:
            if version is None:
                return None
            if version.size > LARGEST_CONTENT:
                return Content(sha256=repository.digest(version), size=version.size)
            return record.keep_content(side, repository.read(version))

        return TurnFile(
            path=file.shown_path,
            old_path=None if file.old_path is None else paths.quote(file.old_path),
            change_type=file.change_type,
            before=content("before", file.before),
            after=content("after", file.after),
            added=file.added,
            deleted=file.deleted,
        )
