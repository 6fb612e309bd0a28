"""Looks for intact bytes of a content that was lost: its object, other bundles' copies, the repository."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from vibe_gate.domain import paths
from vibe_gate.store import names
from vibe_gate.store.flaws import Flaw
from vibe_gate.store.folder import NO_FILE, Folder
from vibe_gate.store.hashes import fault
from vibe_gate.store.layout import part_of, walk
from vibe_gate.store.log import lines
from vibe_gate.store.objects import LARGEST_CONTENT, digest_of, read_content
from vibe_gate.store.place import MAX_DOCUMENT_BYTES
from vibe_gate.store.reading import list_runs
from vibe_gate.store.strict import parse_object

Elsewhere = Callable[[str, str], bytes | None]
"""The redacted content of a path (as git knows it) in a tree, by the tree's id; None where it is not to be had."""


_DIGEST = re.compile(rb'"([0-9a-f]{64})"')
_MOST_ORIGINS = 20
"""Places that are asked for one content: the first that the repository still has is enough."""


def nowhere(tree: str, path: str) -> bytes | None:
    """Knows nothing."""


class Twins:
    """`wanted` are the hashes that will be asked for: the store is walked once for all of them.

    Nothing is taken from `foreign` runs (`<key>/<run id>`).
    """

    def __init__(self, root: Path, store: Folder, elsewhere: Elsewhere) -> None:
        self.wanted: Collection[str] = ()
        self.foreign: Collection[str] = ()
        self.unsure = False  # something could not be read that may be a copy: it may be read tomorrow
        self._root = root
        self._store = store
        self._elsewhere = elsewhere
        self._copies: dict[str, list[str]] | None = None
        self._origins: dict[str, list[tuple[str, str]]] | None = None

    def forget(self, foreign: Collection[str]) -> None:
        """Look anew at what is asked next: the store has changed."""
        self.foreign = foreign
        self._copies = self._origins = None

    def find(self, flaw: Flaw) -> bytes | None:
        """The content that should be at the flaw's place; None: it is nowhere, or `unsure`."""
        digest = flaw.place.rpartition("/")[2][:64]
        for place in self._places(digest):
            parent, _, name = place.rpartition("/")
            with self._passing_over():
                data = self.intact(self._store.below(parent), name)
                if data is not None:
                    return data
        for data in self._from_elsewhere(digest):
            if data is not None and len(data) <= LARGEST_CONTENT and digest_of(data) == digest:
                return data
        return None

    @contextlib.contextmanager
    def _passing_over(self) -> Iterator[None]:
        """Whatever is strange about one run ends no look at the others."""
        try:
            yield
        except OSError as error:
            self.unsure = self.unsure or error.errno not in NO_FILE

    @staticmethod
    def intact(folder: Folder, name: str) -> bytes | None:
        """The content of a file, if it is what its name says. OSError."""
        return None if fault(folder, name) else read_content(folder, name, LARGEST_CONTENT)

    def _places(self, digest: str) -> list[str]:
        if self._copies is None:
            self._copies = {}
            for place in self._walked():
                self._copies.setdefault(place.rpartition("/")[2][:64], []).append(place)
        return self._copies.get(digest, [])

    def _walked(self) -> Iterator[str]:
        for digest in self.wanted:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                shelf = f"{names.OBJECTS}/{digest[:2]}"
                here = self._store.below(shelf).files()
                yield from (f"{shelf}/{name}" for name in here if name.startswith(digest))
        for run in list_runs(self._root):
            place = f"{run.key}/{run.run_id}"
            if place not in self.foreign:
                with self._passing_over():
                    for entry in walk(self._store.below(place)):
                        if entry.base[:64] in self.wanted and part_of(entry.name) == "content":
                            yield f"{place}/{entry.name}"

    def _from_elsewhere(self, digest: str) -> Iterator[bytes | None]:
        """What the changes of the runs that kept this content say where it came from."""
        if self._origins is None:
            self._origins = {}
            for found, tree, path in self._told():
                origins = self._origins.setdefault(found, [])
                if len(origins) < _MOST_ORIGINS:
                    origins.append((tree, path))
        for tree, path in self._origins.get(digest, ()):
            yield self._elsewhere(tree, paths.unquote(path))

    def _told(self) -> Iterator[tuple[str, str, str]]:
        """Hash, tree and path of every wanted content that a run kept of its change; each log is read once."""
        for run in list_runs(self._root):
            place = f"{run.key}/{run.run_id}"
            if place in self.foreign:
                continue
            with self._passing_over(), contextlib.suppress(ValueError):
                folder = self._store.below(place)
                change = parse_object(folder.read(names.RUN, MAX_DOCUMENT_BYTES)).get("change")
                for digest, side, path in _kept(folder, self.wanted):
                    tree = change.get(side) if isinstance(change, dict) else None
                    if isinstance(tree, str):
                        yield digest, tree, path


def _kept(bundle: Folder, wanted: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Hash, side and path of everything wanted that the run kept."""
    for line in lines(bundle, names.EVENTS):
        if not any(digest.decode() in wanted for digest in _DIGEST.findall(line)):
            continue
        match parse_object(line).get("data"):
            case {"sha256": str(digest), "side": str(side), "path": str(path)} if digest in wanted:
                yield digest, side, path
