"""The store of a linked worktree, moved into the store of all working trees before git removes the
worktree.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from vibe_gate.domain.bundles import STORE, is_run_id
from vibe_gate.errors import StorageError
from vibe_gate.store import bundle_names
from vibe_gate.store.captures import PATIENCE_S, SPOOLS
from vibe_gate.store.folder import LOCK, Folder
from vibe_gate.store.ndjson_log import Lock, hold_lock
from vibe_gate.store.store_folder import (
    lock_store,
    open_store_folder,
    require_untracked,
    store_folder,
)

if TYPE_CHECKING:
    from vibe_gate.store.clone_state import CloneState

_COPIED_BYTES = 1 << 20


class MovedItems(Struct, frozen=True):
    """What was moved out of a worktree's store."""

    runs: int = 0
    sessions: int = 0
    """Captured ones, and those of our own agents."""
    left: tuple[str, ...] = ()
    """Why runs and sessions stay there, a clause for each."""


def move_worktree_store(
    top: Path, root: Path, tracked: Collection[str], state: CloneState
) -> MovedItems:
    """Move all runs and sessions from the store in a linked worktree's `top` into the store in
    `root`.

    Nothing is replaced, no link is followed, and what a process is writing stays until the next
    time. A store that belongs to neither the user nor the owner of `root` stays as it is.
    StorageError: the store in `root` cannot be written, or git tracks files of it, which `tracked`
    lists.
    """
    require_untracked(tracked)
    source = open_store_folder(top)
    if source is None or os.fstat(source.fileno()).st_uid not in (os.geteuid(), root.stat().st_uid):
        return MovedItems()
    try:
        target = store_folder(root)
        with lock_store(target), _no_folding(state):
            return _moved(source, target)
    except OSError as error:
        raise StorageError(f"{top / STORE} could not be taken over: {error.strerror}.") from error


@contextlib.contextmanager
def _no_folding(state: CloneState) -> Iterator[None]:
    """Nobody writes captured sessions in this block. OSError."""
    spools = Path(state.folder) / SPOOLS
    if not spools.is_dir():
        yield
        return
    with hold_lock(Folder.at(spools).appending(LOCK), time.monotonic() + PATIENCE_S):
        yield


def _moved(source: Folder, target: Folder) -> MovedItems:
    runs = sessions = 0
    left_reasons = list[str]()
    for key in filter(bundle_names.is_key, source.folders()):
        moved, reasons = _move_runs(source.folder(key), target.folder(key, create=True), target)
        runs += moved
        left_reasons += reasons
        for folder in (source, target):  # one that is empty
            with contextlib.suppress(OSError):
                os.rmdir(key, dir_fd=folder.fileno())
    for name in (bundle_names.CAPTURES, bundle_names.CONVERSATIONS):
        if name in source.folders():
            moved, reasons = _move_sessions(
                source.folder(name), target.folder(name, create=True), target
            )
            sessions += moved
            left_reasons += reasons
    return MovedItems(runs, sessions, tuple(left_reasons))


_IS_WRITTEN = "being written"
_IS_THERE = "already there"


def _move_runs(source: Folder, target: Folder, store: Folder) -> tuple[int, list[str]]:
    """Move the runs of one key, and its mark that they are to be kept; how many, and why others
    stay.
    """
    moved = 0
    reasons = list[str]()
    if bundle_names.KEEP in source.files() and not target.has(bundle_names.KEEP):
        target.write(bundle_names.KEEP, b"")
    for run_id in filter(is_run_id, source.folders()):
        try:
            moved += _move_unused(source, run_id, target, run_id, store)
        except OSError as error:
            reasons.append(_reason_of(error))
    if not source.folders():
        source.remove(bundle_names.KEEP)
    return moved, reasons


def _move_sessions(source: Folder, target: Folder, store: Folder) -> tuple[int, list[str]]:
    """Move sessions; a captured one whose name is taken gets another. How many, and why others
    stay.
    """
    moved = 0
    reasons = list[str]()
    for name in source.folders():
        is_captured = source.path.name == bundle_names.CAPTURES
        new_name = f"{name}-{secrets.token_hex(4)}" if is_captured and target.has(name) else name
        try:
            moved += _move_unused(source, name, target, new_name, store)
        except OSError as error:
            reasons.append(_reason_of(error))
    return moved, reasons


def _reason_of(error: OSError) -> str:
    """Why a folder stays, as a clause."""
    if isinstance(error, BlockingIOError):
        return _IS_WRITTEN
    if isinstance(error, FileExistsError):
        return _IS_THERE
    return error.strerror or "cannot be moved"


def _move_unused(source: Folder, name: str, target: Folder, new_name: str, store: Folder) -> bool:
    """Move a folder; whether it was moved, False if another process did so.

    BlockingIOError if a process is writing it, FileExistsError if the target has such a folder,
    OSError.
    """
    if target.has(new_name):
        raise FileExistsError(new_name)
    try:
        folder = source.folder(name)
    except FileNotFoundError:
        return False
    is_locked = folder.has(LOCK)
    lock = Lock(folder)
    try:
        if not is_locked:
            folder.remove(LOCK)
        _move_folder(source, name, target, new_name, store)
    finally:
        lock.release()
    return True


def _move_folder(source: Folder, name: str, target: Folder, new_name: str, store: Folder) -> None:
    """Rename a folder, or copy it to another disk, whole or not at all. OSError."""
    try:
        source.move(name, target, new_name)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        trash, unfinished = (
            store.folder(bundle_names.TRASH, create=True),
            f"{new_name}.{secrets.token_hex(4)}",
        )
        _copy_files(source.folder(name), trash.make(unfinished))
        trash.move(unfinished, target, new_name)
        source.remove_folder(name)


def _copy_files(source: Folder, target: Folder) -> None:
    """Copy regular files and folders. OSError for anything else."""
    for entry in source.entries():
        if entry.is_dir(follow_symlinks=False):
            _copy_files(source.folder(entry.name), target.make(entry.name))
            continue
        with (
            open(source.reading(entry.name), "rb") as original,
            open(target.appending(entry.name), "ab") as copy,
        ):
            while chunk := original.read(_COPIED_BYTES):
                copy.write(chunk)
