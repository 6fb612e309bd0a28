"""What nobody needs any more besides runs: objects without a bundle, and what processes left that died.

Only names that this store gives are taken, and nothing that git tracks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Iterator
from datetime import datetime

from vibe_gate.store import index
from vibe_gate.store.layout import is_object
from vibe_gate.store.names import LOCK, OBJECTS
from vibe_gate.store.provenance import Provenance

STALE_S = 86_400
"""What is temporary and older was left by a process that died."""

_TEMPORARY = re.compile(r"\.tmp-[0-9a-f]{1,64}")
_SHELF = re.compile(r"[0-9a-f]{2}")
_READ_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def tidy_index(store: int, now: datetime, known: Provenance) -> None:
    """Remove what listers left in the index that died."""
    with contextlib.suppress(OSError):
        folder = os.open(index.FOLDER, _READ_DIRECTORY, dir_fd=store)
        try:
            for name in _stale(folder, now):
                if not known.tracks(f"{index.FOLDER}/{name}"):
                    with contextlib.suppress(IsADirectoryError):
                        os.unlink(name, dir_fd=folder)
        finally:
            os.close(folder)


def tidy_store(store: int, now: datetime, known: Provenance) -> None:
    """Remove what writers and imports left beside the keys that died: a living one holds its folder's lock."""
    for name in _stale(store, now):
        if known.tracks(name):
            continue
        with contextlib.suppress(OSError):  # told by `verify`, and looked at again the next time
            if stat.S_ISDIR(os.stat(name, dir_fd=store, follow_symlinks=False).st_mode):
                _remove_folder(store, name)
            else:
                os.unlink(name, dir_fd=store)


def _remove_folder(store: int, name: str) -> None:
    folder = os.open(name, _READ_DIRECTORY, dir_fd=store)
    try:
        lock = os.open(LOCK, _LOCK_FILE, 0o600, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(name, dir_fd=store)
    finally:
        os.close(lock)


def _stale(folder: int, now: datetime) -> list[str]:
    found = []
    for name in os.listdir(folder):
        if _TEMPORARY.fullmatch(name):
            with contextlib.suppress(FileNotFoundError):
                if _is_old(os.stat(name, dir_fd=folder, follow_symlinks=False), now):
                    found.append(name)
    return found


def sweep(store: int, now: datetime, known: Provenance, errors: list[str]) -> int:
    """Remove the objects that no bundle links to; the bytes freed. Adds sentences to `errors`.

    A writer that is about to link one stores it anew where it is gone.
    """
    freed = 0
    for shelf, name, size in list(unused(store, now, known)):
        try:
            folder = _shelf(store, shelf)
            try:
                if _TEMPORARY.fullmatch(name) or os.stat(name, dir_fd=folder, follow_symlinks=False).st_nlink == 1:
                    os.unlink(name, dir_fd=folder)
                    freed += size
            finally:
                os.close(folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            errors.append(f"{OBJECTS}/{shelf}/{name}: {error.strerror}")
    return freed


def unused(store: int, now: datetime, known: Provenance) -> Iterator[tuple[str, str, int]]:
    """Shelf, name and size of every object that no bundle links to, and of temporary files left over."""
    try:
        shelves = index.names_in(store, OBJECTS)
    except (FileNotFoundError, NotADirectoryError):
        return
    for shelf in sorted(filter(_SHELF.fullmatch, shelves)):
        try:
            folder = _shelf(store, shelf)
        except OSError:
            continue  # no folder of ours
        try:
            for name in sorted(os.listdir(folder)):  # noqa: PTH208  an open folder has no path
                with contextlib.suppress(FileNotFoundError):
                    about = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    if _is_unused(shelf, name, about, now) and not known.tracks(f"{OBJECTS}/{shelf}/{name}"):
                        yield shelf, name, about.st_size if about.st_nlink == 1 else 0
        finally:
            os.close(folder)


def _is_unused(shelf: str, name: str, about: os.stat_result, now: datetime) -> bool:
    if not stat.S_ISREG(about.st_mode):
        return False
    if _TEMPORARY.fullmatch(name):
        return _is_old(about, now)
    return is_object(name) and name.startswith(shelf) and about.st_nlink == 1


def _is_old(about: os.stat_result, now: datetime) -> bool:
    return now.timestamp() - about.st_mtime > STALE_S


def _shelf(store: int, name: str) -> int:
    objects = os.open(OBJECTS, _READ_DIRECTORY, dir_fd=store)
    try:
        return os.open(name, _READ_DIRECTORY, dir_fd=objects)
    finally:
        os.close(objects)
