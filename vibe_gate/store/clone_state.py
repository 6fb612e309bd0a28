"""What several processes share, `<common git dir>/vibe-gate/state.db`, as one value:
`open_state`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

from vibe_gate.store.answer_cache import AnswerCache
from vibe_gate.store.database.applied_lines import AppliedLines
from vibe_gate.store.database.begun_runs import BegunRuns
from vibe_gate.store.database.captured_blobs import CapturedBlobs, LineKey, WorktreeTops
from vibe_gate.store.database.day_spending import DaySpending
from vibe_gate.store.database.hook_records import HookRecords
from vibe_gate.store.database.label_table import LabelTable
from vibe_gate.store.database.override_table import OverrideTable
from vibe_gate.store.database.run_index import RunIndex
from vibe_gate.store.database.state_file import FOLDER, PATIENCE_S, StateFile

if TYPE_CHECKING:
    pass


def open_state(common_dir: str | os.PathLike[str], patience_s: float = PATIENCE_S) -> CloneState:
    """The shared state of the repository with this common git directory. Nothing is opened before
    it is asked.

    A file that is locked is waited for as long as `patience_s`.
    """
    return CloneState(os.fspath(common_dir), patience_s)


class CloneState:
    """The tables. Threads may share it; close it, or use it as a context manager.

    Only records, overrides and labels that are not written raise; for all else `problem` says that
    this process writes nothing there.
    """

    def __init__(self, common_dir: str, patience_s: float) -> None:
        self.file = StateFile(os.path.join(common_dir, FOLDER), patience_s)
        self.hook_records = HookRecords(self.file)
        self.overrides = OverrideTable(self.file)
        self.labels = LabelTable(self.file)
        self.answers = AnswerCache(self.file)
        self.spending = DaySpending(self.file)
        self.begun = BegunRuns(self.file)
        self.captured_blobs = CapturedBlobs(self.file)
        self.worktree_tops = WorktreeTops(self.file)
        self.line_key = LineKey(self.file)
        self.applied_lines = AppliedLines(self.file)

    @property
    def folder(self) -> str:
        """`<common git dir>/vibe-gate`."""
        return self.file.folder

    @property
    def problem(self) -> str:
        """What is wrong with the file, as a sentence for people; "" as long as nothing is."""
        return self.file.problem

    def run_index(self, store: str | os.PathLike[str]) -> RunIndex:
        """The index of the runs below `store`, the absolute path of a `.vibe-artifacts`."""
        return RunIndex(self.file, os.fsdecode(store).encode("utf-8", "backslashreplace").decode())

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
