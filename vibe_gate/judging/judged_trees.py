"""The trees of a change on disk, for judges to read: in the export that the clone keeps, if it can
be had, else in one of the run's own.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from msgspec import Struct

from vibe_gate.context.deadline import DeadlineReached
from vibe_gate.context.model_access import ModelAccess
from vibe_gate.domain.change import Change
from vibe_gate.errors import InfrastructureError
from vibe_gate.git import Export, Repository

AFTER, BEFORE = "after", "before"
"""Folders of the two trees, in the judges' working directory."""


class JudgedTrees(Struct, frozen=True):
    """The trees as they were written."""

    folder: Path
    """The judges' working directory: `after`, the whole tree after the change, and `before`, the
    changed files before.
    """

    after: Export

    before: Export

    def are_unchanged(self) -> bool:
        """The trees recomputed from disk equal those that were written, and nothing lies beside
        them.
        """
        are_trees = self.after.unchanged() and self.before.unchanged()
        return are_trees and not _others_in(self.folder)


@contextmanager
def hold_judged_trees(
    change: Change, repository: Repository, model: ModelAccess, folder: Path
) -> Iterator[JudgedTrees]:
    """Write the trees out, for the block; `folder` is for those that are the run's own. UsageError,
    for a tree that no checkout may hold. InfrastructureError.
    """
    # A cassette knows the run's own folder alone.
    is_live = model.wire.mode == "live"
    with repository.kept_export() if is_live else nullcontext() as kept_folder:
        trees = None
        if kept_folder is not None:
            trees = _update_kept_trees(change, repository, kept_folder)
        if trees is None:
            trees = _write_trees(change, repository, folder)
        yield trees


def _update_kept_trees(change: Change, repository: Repository, folder: Path) -> JudgedTrees | None:
    """The trees in the export that the clone keeps; None if the disk refuses."""
    trees = folder / "trees"
    try:
        _remove_others(trees)
        return _write_trees(change, repository, trees, folder / "tree")
    except DeadlineReached:
        raise
    except (OSError, InfrastructureError):  # a full disk, or something that cannot be replaced
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _remove_others(trees: Path) -> None:
    """Make the folder of the trees, and delete what else lies in it: a `.ignore` there would hide
    files from searches. No link is followed. OSError.
    """
    if trees.is_symlink():
        trees.unlink()
    trees.mkdir(mode=0o700, exist_ok=True)
    for other in _others_in(trees):
        if other.is_dir() and not other.is_symlink():
            shutil.rmtree(other)
        else:
            other.unlink()


def _others_in(trees: Path) -> list[Path]:
    """What lies beside the trees; nothing if there is no such folder. OSError."""
    if not trees.is_dir():
        return []
    return [path for path in trees.iterdir() if path.name not in (AFTER, BEFORE)]


def _write_trees(
    change: Change, repository: Repository, folder: Path, record: Path | None = None
) -> JudgedTrees:
    """The tree after the change, and of that before it the files that the change touches.

    `record`: of the folder in which earlier trees stand.
    """
    old_paths = {file.old_path or file.path for file in change.files if file.before}
    replace = record is not None
    after = repository.export(change.after, folder / AFTER, replace=replace, record=record)
    before = repository.export(change.before, folder / BEFORE, old_paths, replace=replace)
    return JudgedTrees(folder, after, before)
