"""Where a repair puts what it takes out of the store: nothing is ever deleted."""

from __future__ import annotations

import errno
from collections.abc import Callable
from datetime import datetime

from vibe_gate.store import names
from vibe_gate.store.folder import Folder, temporary_name

_NO_FOLDER = frozenset({errno.ENOTDIR, errno.ELOOP})


class Quarantine:
    """`quarantine/<time of the repair>/`, in which everything keeps the place that it had in the store.

    `place` is that folder, relative to the store; it is made when something goes there, and `is_used` from then on.
    """

    def __init__(self, store: Folder, now: datetime, tracks: Callable[[str], bool]) -> None:
        self._tracks = tracks
        self._store = store
        self._time = names.stamp(now)
        self.is_used = False
        self.place = f"{names.QUARANTINE}/{self._time}"

    def take(self, place: str) -> None:
        """Move what is at `place` (relative to the store). OSError."""
        parent, _, name = place.rpartition("/")
        if place == names.QUARANTINE:
            self._folder("")  # makes room for itself
            return
        there = self._store.below(parent)
        into = self._folder(parent)
        there.move(name, into, _free(into, name))

    def keep(self, place: str, data: bytes) -> None:
        """Bytes that were at `place`. OSError."""
        parent, _, name = place.rpartition("/")
        into = self._folder(parent)
        into.write(_free(into, name), data)

    def _folder(self, parent: str) -> Folder:
        self.is_used = True
        try:
            folder = self._store.folder(names.QUARANTINE, create=True)
        except OSError as error:
            if error.errno not in _NO_FOLDER:
                raise
            # Whatever lies in its place (a repository may have committed a link) is the first to go there.
            if self._tracks(names.QUARANTINE):
                why = "git tracks what lies in its place: `git rm --cached` it first"
                raise OSError(errno.EPERM, why, f"{names.STORE}/{names.QUARANTINE}") from error
            aside = temporary_name()
            self._store.move(names.QUARANTINE, self._store, aside)
            folder = self._store.folder(names.QUARANTINE, create=True)
            self._store.move(aside, folder.folder(self._time, create=True), names.QUARANTINE)
        return folder.below(f"{self._time}/{parent}", create=True)


def _free(folder: Folder, name: str) -> str:
    return f"{name}{temporary_name()}" if folder.has(name) else name
