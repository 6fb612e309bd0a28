"""What a turn made of its workspace, from the trees before and after it: what the agent did by Bash
is in it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_gate.domain import paths
from vibe_gate.domain.change import LARGEST_CONTENT, Change, FileDiff, FileVersion
from vibe_gate.domain.turn import Content, TurnChange, TurnFile, TurnGit

if TYPE_CHECKING:
    from vibe_gate.agent import TurnRecord
    from vibe_gate.git import Workspace


class TurnChanges:
    """What one turn makes of the workspace: `TurnRequest.change`, called when the session has
    ended.

    Afterwards `after` is the tree that the turn left, kept in the workspace under the turn's name,
    and `change` what it made of `before`.
    """

    def __init__(self, workspace: Workspace, before: str) -> None:
        self.before = before
        self.after = before
        self.change: Change | None = None
        self._workspace = workspace

    def __call__(self, record: TurnRecord) -> TurnChange:
        """Take the tree; write down the contents of what differs."""
        workspace = self._workspace
        self.after = workspace.tree()
        self.change = workspace.change(self.before, self.after)
        if record.relative:
            name = record.relative.removeprefix("nodes/").replace(
                ".", "_"
            )  # a ref's name has rules about dots
            workspace.keep(name, self.after)
        # Contents come before the patch: of a secret whose name is on another line they alone teach
        # the redactor.
        files = tuple(self._file(file, record) for file in self.change.files)
        states = TurnGit(before=workspace.state(self.before), after=workspace.state(self.after))
        patch = workspace.repository.patch(self.change) if files else b""
        return TurnChange(
            before=self.before, after=self.after, patch=patch, git=states, files=files
        )

    def _file(self, file: FileDiff, record: TurnRecord) -> TurnFile:
        repository = self._workspace.repository

        def content(version: FileVersion | None) -> Content | None:
            if version is None:
                return None
            if version.size > LARGEST_CONTENT:
                return Content(sha256=repository.digest(version), size=version.size)
            return record.keep_content(repository.read(version))

        return TurnFile(
            path=file.shown_path,
            old_path=None if file.old_path is None else paths.quote(file.old_path),
            change_type=file.change_type,
            before=content(file.before),
            after=content(file.after),
            added=file.added,
            deleted=file.deleted,
        )
