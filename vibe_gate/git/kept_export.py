"""The export that a clone keeps from one judged review to the next, so that only what differs is
written.

It lies among the workspaces as `kept-export`, goes with them when nobody used it for a while, and
may be deleted at any time. Nothing of it is believed: when the judges have answered, all its bytes
are compared with the tree.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from vibe_gate.domain.upkeep import WORKSPACE_DAYS
from vibe_gate.errors import InfrastructureError
from vibe_gate.git import workspace
from vibe_gate.git.repository_place import RepositoryPlace

NAME = "kept-export"

LEAST_FREE = 1 << 30
"""Bytes that stay free on the disk, else the export is not kept."""

_NARROWING = (".git", ".ignore", ".rgignore")
"""Names in a folder above that make programs which search leave files out."""


@contextmanager
def hold_kept_export(place: RepositoryPlace) -> Iterator[Path | None]:
    """Its folder, for this process alone in this block; None if another process has it, or if none
    can be made where programs that search find all of it.

    On a disk that is nearly full nothing stays in it.
    """
    folder = workspace.workspaces_folder(place) / NAME
    lock = _lock_kept_export(place, folder)
    if lock is None:
        yield None
        return
    try:
        yield folder
        disk = os.fstatvfs(lock)
        if disk.f_bavail * disk.f_frsize < LEAST_FREE:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def kept_export_size(place: RepositoryPlace) -> int:
    """Bytes of the files in it."""
    size = 0
    for folder, _, names in os.walk(workspace.workspaces_folder(place) / NAME):
        for name in names:
            with suppress(FileNotFoundError):  # a review may be under way
                size += os.lstat(f"{folder}/{name}").st_size
    return size


def _lock_kept_export(place: RepositoryPlace, folder: Path) -> int | None:
    """A descriptor that holds the folder, which is made if it is missing; None if it cannot be had."""
    is_elsewhere = folder.parent == workspace.workspaces_folder_in_repository(place)
    if is_elsewhere or _is_narrowed(folder) or folder.is_symlink():
        return None
    try:
        workspace.make_workspaces_folder(place, folder.parent)
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
            _remove_unused(place, folder)
        os.utime(folder)  # from now on it is in use
        lock = workspace.lock_folder(folder)
    except (OSError, InfrastructureError):
        return None
    if not folder.exists():  # it was removed before it was locked
        os.close(lock)
        return None
    return lock


def _remove_unused(place: RepositoryPlace, new_folder: Path) -> None:
    """Delete what nobody used for a while, also of repositories that are gone: who only reviews
    never cleans.
    """
    now = datetime.fromtimestamp(new_folder.stat().st_mtime, UTC)
    workspace.remove_old_workspaces(place, now - timedelta(days=WORKSPACE_DAYS), dry_run=False)


def _is_narrowed(folder: Path) -> bool:
    """Whether a folder above has what makes programs that search leave files out."""
    for ancestor in folder.parents:
        for name in _NARROWING:
            if os.path.lexists(ancestor / name):
                return True
    return False
