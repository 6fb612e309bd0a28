"""Everything that is wrong with a store, in one go. Reads only; what runs or is unfinished is not wrong."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vibe_gate.errors import StorageError
from vibe_gate.store import names
from vibe_gate.store.audit import audit
from vibe_gate.store.captured import flaws_of
from vibe_gate.store.flaws import WRONG, Flaw
from vibe_gate.store.folder import TEMPORARY, Folder
from vibe_gate.store.hashes import Hashes
from vibe_gate.store.log import Lock
from vibe_gate.store.provenance import Provenance
from vibe_gate.store.reading import RunView, list_runs


@dataclass(frozen=True, slots=True)
class Verified:
    """What was looked at and what was found; `runs` and `objects` are counts."""

    runs: int
    objects: int
    flaws: tuple[Flaw, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is corrupt or foreign."""
        return not any(flaw.state in WRONG for flaw in self.flaws)


def verify_bundles(root: Path, provenance: Provenance, runs: Sequence[RunView] | None = None) -> Verified:
    """Look at the store below `root`: at all of it, or at some of its runs only. StorageError if it cannot be read."""
    try:
        store = open_store_folder(root)
        if store is None:
            return Verified(0, 0, ())
        return _Look(store, provenance).verified(list_runs(root) if runs is None else runs, whole=runs is None)
    except OSError as error:
        raise StorageError(f"{error.filename or names.STORE} cannot be read: {error.strerror}.") from error


def open_store_folder(root: Path) -> Folder | None:
    """The store's folder; None where there is none. OSError, NotADirectoryError for a link in its place."""
    try:
        return Folder.at(root).folder(names.STORE)
    except FileNotFoundError:
        return None


class _Look:
    def __init__(self, store: Folder, provenance: Provenance) -> None:
        self._store = store
        self._provenance = provenance
        self._hashes = Hashes(store)
        self._objects = 0

    def verified(self, runs: Sequence[RunView], whole: bool) -> Verified:
        # What is temporary is looked for first and told last: whatever a living writer
        # had begun by then is gone when it is told, or the writer's run is running.
        top = list(self._top()) if whole else []
        found = [*self._keys(), *self._contents(), *flaws_of(self._store)] if whole else []
        count = 0
        for run in runs:
            flaws = self._run(run)
            count += flaws is not None
            found += flaws or []
        if whole:
            found += self._tracked(found)
        alive = any(flaw.state == "running" for flaw in found)
        told = [flaw for flaw in [*top, *found] if not self._is_in_use(flaw, alive)]
        return Verified(count, self._objects, tuple(sorted(told, key=lambda flaw: (flaw.place, flaw.what))))

    def _run(self, run: RunView) -> list[Flaw] | None:
        """None: it was removed meanwhile."""
        name = f"{run.key}/{run.run_id}"
        try:
            key = self._store.folder(run.key)
            flaws = audit(key.folder(run.run_id), run.key, run.run_id, self._hashes)
            key.status(run.run_id)
        except FileNotFoundError:
            return None
        except OSError as error:
            flaws = [Flaw("corrupt", "unreadable", name, f"it cannot be read: {error.strerror}", name)]
        foreign = self._provenance.foreign(run.key, run.run_id)
        is_here = flaws and flaws[0].state == "running" and not self._provenance.tracked
        if foreign and not is_here:
            flaws.append(Flaw("foreign", "run", name, foreign, name))
        return flaws

    def _top(self) -> Iterator[Flaw]:
        for name, status in self._store.entries():
            is_folder = stat.S_ISDIR(status.st_mode)
            if name.startswith(TEMPORARY):
                yield Flaw("untidy", "temporary", name, "it is temporary, and nobody finished it")
            elif not is_folder and (not stat.S_ISREG(status.st_mode) or name in names.OWN_FOLDERS):
                yield Flaw("corrupt", "entry", name, "it is no folder and no file of a store")

    def _keys(self) -> Iterator[Flaw]:
        for key in self._store.folders():
            if key in names.OWN_FOLDERS or key.startswith("."):
                continue
            for name, status in self._store.folder(key).entries():
                is_mark = name == names.KEEP and stat.S_ISREG(status.st_mode)  # keeps every run of the key
                if not is_mark and not (stat.S_ISDIR(status.st_mode) and names.is_run_id(name)):
                    yield Flaw("corrupt", "entry", f"{key}/{name}", "it is no run")

    def _contents(self) -> Iterator[Flaw]:
        if names.OBJECTS not in self._store.folders():
            return
        shelves = self._store.folder(names.OBJECTS)
        for shelf, status in shelves.entries():
            place = f"{names.OBJECTS}/{shelf}"
            if not (stat.S_ISDIR(status.st_mode) and len(shelf) == 2):
                yield self._stray(shelf, place)
                continue
            folder = shelves.folder(shelf)
            for name, own in folder.entries():
                if name.startswith(TEMPORARY):
                    yield self._stray(name, f"{place}/{name}")
                    continue
                self._objects += 1
                try:
                    why = self._hashes.fault(folder, name, own) if stat.S_ISREG(own.st_mode) else "it is no file"
                except FileNotFoundError:
                    continue  # cleaned meanwhile
                except OSError as error:
                    yield Flaw("corrupt", "unreadable", f"{place}/{name}", f"it cannot be read: {error.strerror}")
                    continue
                if not why and not name.startswith(shelf):
                    why = "it is on another's shelf"
                if why and folder.has(name):
                    yield Flaw("corrupt", "object", f"{place}/{name}", why)

    @staticmethod
    def _stray(name: str, place: str) -> Flaw:
        if name.startswith(TEMPORARY):
            return Flaw("untidy", "temporary", place, "it is temporary, and nobody finished it")
        return Flaw("corrupt", "entry", place, "it is no object")

    def _tracked(self, found: list[Flaw]) -> Iterator[Flaw]:
        """What git tracks of the store besides whole runs, which are told as foreign."""
        told = {flaw.place.casefold() for flaw in found if flaw.state == "foreign"}
        rest = [path for path in self._provenance.tracked if "/".join(path.casefold().split("/")[1:3]) not in told]
        present = sorted(path for path in rest if _is_there(self._store, path.split("/")[1:]))
        if present:
            why = f"git tracks {len(present)} of its files, and they are no runs; `git rm -r --cached {names.STORE}`"
            yield Flaw("untidy", "tracked", "", why)

    def _is_in_use(self, flaw: Flaw, alive: bool) -> bool:
        """Whether a living process may still want what is temporary, or is done with it meanwhile."""
        if flaw.what != "temporary" or flaw.run:
            return False
        place, _, name = flaw.place.rpartition("/")
        try:
            folder = self._store.below(place)
            is_folder = stat.S_ISDIR(folder.status(name).st_mode)
        except OSError:
            return True
        return Lock.is_held(folder.folder(name)) if is_folder else alive


def _is_there(store: Folder, parts: list[str]) -> bool:
    with contextlib.suppress(OSError):
        return store.below("/".join(parts[:-1])).has(parts[-1]) if parts else True
    return False
