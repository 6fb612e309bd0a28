"""Whether contents are what their names say; a content that many bundles show is read once."""

from __future__ import annotations

import contextlib
import os

from vibe_gate.store import names
from vibe_gate.store.folder import Folder
from vibe_gate.store.layout import is_object
from vibe_gate.store.objects import LARGEST_CONTENT, digest_of, read_content, suffix_of

_MANY_LINKS = 30_000
"""Names of one file; file systems allow 32,000 or more, and beyond that the store keeps copies."""


class Hashes:
    """Remembers by inode, size and ctime, for as long as one look at a store takes.

    `store` is the folder whose `objects` the contents are links to; None: a bundle
    from elsewhere, whose contents are nobody's links.
    """

    def __init__(self, store: Folder | None) -> None:
        self._store = store
        self._known: dict[tuple[str, int, int, int, int], str] = {}
        self._objects: dict[str, os.stat_result | None] = {}

    def fault(self, folder: Folder, name: str, status: os.stat_result) -> str:
        """What is wrong with the content `name`, in a few words; "" where nothing is. OSError."""
        key = (name, status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)
        if key not in self._known:
            self._known[key] = fault(folder, name)
        return self._known[key]

    def apart(self, name: str, status: os.stat_result) -> str:
        """Why a content of a bundle is not its object, in a few words; "" where it is."""
        if self._store is None:
            return ""
        if name not in self._objects:
            self._objects[name] = self._status(name)
        known = self._objects[name]
        if known is None:
            return "its object is missing"
        if (known.st_dev, known.st_ino) == (status.st_dev, status.st_ino) or known.st_nlink > _MANY_LINKS:
            return ""
        return "it is a copy of its object, not a link to it"

    def _status(self, name: str) -> os.stat_result | None:
        assert self._store is not None
        with contextlib.suppress(OSError):
            return self._store.folder(names.OBJECTS).folder(name[:2]).status(name)
        return None


def fault(folder: Folder, name: str) -> str:
    """What is wrong with the content `name`, read now. OSError."""
    if not is_object(name):
        return "its name is no content's"
    data = read_content(folder, name, LARGEST_CONTENT)
    if data is None:
        return "it cannot be unpacked"
    if digest_of(data) != name[:64]:
        return "its bytes are not those that its name says"
    if suffix_of(data) != name[64:]:
        return f"its name ends with {name[64:]}, not with {suffix_of(data)}"
    return ""
