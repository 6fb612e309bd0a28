"""Whether cleaning is due, told without what cleans, which is loaded once a day; this is asked after every review."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_gate.errors import StorageError
from vibe_gate.store.index import FOLDER, STORE

if TYPE_CHECKING:
    from vibe_gate.domain.gate import Retention
    from vibe_gate.store.retention import Cleaned

CLEANED = "cleaned"

CLEAN_EVERY = timedelta(days=1)
"""How often `clean_if_due` cleans."""

_READ_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def clean_if_due(
    root: Path, rules: Retention, now: datetime, tracked: Callable[[], Collection[str]] | None = None
) -> Cleaned | None:
    """`retention.clean_if_due`, loaded only where it is due."""
    try:
        store = os.open(root / STORE, _READ_DIRECTORY)
        try:
            if not is_due(store, now):
                return None
        finally:
            os.close(store)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{STORE} cannot be read or written: {error.strerror}.") from error
    cleaned: Cleaned | None = import_module("vibe_gate.store.retention").clean_if_due(root, rules, now, tracked)
    return cleaned


def is_due(store: int, now: datetime) -> bool:
    """Whether the last cleaning of the store is a day ago or more."""
    try:
        folder = os.open(FOLDER, _READ_DIRECTORY, dir_fd=store)
        try:
            with open(os.open(CLEANED, _READ_FILE, dir_fd=folder), "rb") as file:
                last = datetime.fromisoformat(file.read(64).decode().strip())
        finally:
            os.close(folder)
        return not timedelta() <= now - last < CLEAN_EVERY  # a time to come was said by another clock
    except (FileNotFoundError, ValueError, TypeError):
        return True
