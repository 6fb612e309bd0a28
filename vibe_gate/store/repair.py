"""Heals what can be healed and puts the rest aside. Nothing is deleted, and no seal is made or changed."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from vibe_gate.errors import StorageError
from vibe_gate.store import names
from vibe_gate.store.flaws import WRONG, Flaw, What
from vibe_gate.store.folder import Folder, let_go
from vibe_gate.store.log import Lock, whole_lines
from vibe_gate.store.objects import Objects, digest_of
from vibe_gate.store.provenance import Provenance
from vibe_gate.store.quarantine import Quarantine
from vibe_gate.store.reading import RunView
from vibe_gate.store.rebuilt import rebuilt, vouched
from vibe_gate.store.twins import Elsewhere, Twins, nowhere
from vibe_gate.store.verify import Verified, open_store_folder, verify_bundles


@dataclass(frozen=True, slots=True)
class Mended:
    """One thing that was done: about which flaw, and what, in a few words."""

    flaw: Flaw
    done: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """`left` is what the store still has; `quarantine` is where things were put, relative to it, "" if nowhere.

    `refused` are places, relative to the store, that git tracks: nothing was done about them.
    """

    mended: tuple[Mended, ...]
    left: Verified
    quarantine: str
    refused: tuple[str, ...] = ()


def repair_bundles(
    root: Path,
    provenance: Provenance,
    now: datetime,
    runs: Sequence[RunView] | None = None,
    elsewhere: Elsewhere = nowhere,
) -> Repaired:
    """Repair the store below `root`, or only some of its runs.

    `elsewhere` may know a content that the store has lost: the repository has it for
    a committed change. StorageError where something cannot be read or moved; what was
    done until then is right, and repairing again goes on.
    """
    found = verify_bundles(root, provenance, runs)
    try:
        store = open_store_folder(root)
        if store is None:
            return Repaired((), found, "")
        work = _Work(root, store, now, elsewhere, provenance)
        flaws = found.flaws
        for _ in range(_PASSES):
            if not work.heal(flaws):
                break
            flaws = verify_bundles(root, provenance, _remaining(runs)).flaws
        work.put_aside(flaws)  # nothing of it could be healed
    except OSError as error:
        raise StorageError(f"{error.filename or names.STORE}: {error.strerror}; the repair stopped there.") from error
    left = verify_bundles(root, provenance, _remaining(runs))
    return Repaired(
        tuple(work.done), left, work.quarantine.place if work.quarantine.is_used else "", tuple(sorted(work.refused))
    )


def _remaining(runs: Sequence[RunView] | None) -> Sequence[RunView] | None:
    return None if runs is None else [run for run in runs if run.directory.exists()]


def _unreadable(flaws: Sequence[Flaw]) -> set[str]:
    """Runs and other places of which nobody can say what is wrong with them."""
    return {flaw.run or flaw.place for flaw in flaws if flaw.what == "unreadable"}


class _Work:
    def __init__(self, root: Path, store: Folder, now: datetime, elsewhere: Elsewhere, known: Provenance) -> None:
        self.done: list[Mended] = []
        self.refused: set[str] = set()
        self._healed: set[Flaw] = set()  # what comes back after it was healed is put aside
        self.quarantine = Quarantine(store, now, known.tracks)
        self._known = known
        self._store = store
        self._objects = Objects(store, known.tracks)
        self._twins = Twins(root, store, elsewhere)
        self._healers: dict[What, Callable[[Flaw], str]] = {
            "temporary": self._take,
            "entry": self._take,
            "object": self._object,
            "content": self._content,
            "missing": self._content,
            "unlinked": self._relink,
            "torn": self._cut,
            "graph": self._rebuild,
            "digest": self._rebuild,
        }

    def heal(self, flaws: Sequence[Flaw]) -> bool:
        """What can be healed in its place; whether anything was."""
        before = len(self.done)
        foreign = {flaw.run for flaw in flaws if flaw.state == "foreign"}
        self._twins.wanted = {flaw.place.rpartition("/")[2][:64] for flaw in flaws if flaw.what in _OF_CONTENTS}
        self._twins.forget(foreign)
        left = foreign | _unreadable(flaws)
        for flaw in sorted(flaws, key=lambda flaw: _FIRST.get(flaw.what, len(_FIRST))):
            healer = None if flaw in self._healed else self._healers.get(flaw.what)
            if healer is None or flaw.run in left or self._refuses(flaw.place):
                continue
            with self._alone(flaw.run) as alone:
                done = healer(flaw) if alone else ""
            if done:
                self.done.append(Mended(flaw, done))
                self._healed.add(flaw)
        return len(self.done) > before

    def put_aside(self, flaws: Sequence[Flaw]) -> None:
        """What is still wrong: whole runs, for a bundle that is not whole is none; and objects.

        What cannot be read now may be read tomorrow, and stays.
        """
        unreadable = _unreadable(flaws)
        wrong = [flaw for flaw in flaws if flaw.state in WRONG and (flaw.run or flaw.place) not in unreadable]
        if self._twins.unsure:
            wrong = [flaw for flaw in wrong if flaw.what not in _OF_CONTENTS]
        for place in dict.fromkeys(flaw.run or flaw.place for flaw in wrong):
            if self._refuses(place):
                continue
            first = next(flaw for flaw in wrong if (flaw.run or flaw.place) == place)
            with self._alone(first.run) as alone:
                if alone:
                    self.quarantine.take(place)
                    self.done.append(Mended(first, "moved to quarantine" + (", the whole run" if first.run else "")))

    def _refuses(self, place: str) -> bool:
        """Whether git tracks anything at or in that place: it is the repository's, and stays as it is."""
        if not self._known.tracks(place):
            return False
        self.refused.add(place)
        return True

    @contextlib.contextmanager
    def _alone(self, run: str) -> Iterator[bool]:
        """Whether nobody writes the run, and nobody may begin to while it is mended."""
        if not run:
            yield True
            return
        folder = self._store.below(run)
        if folder.has(names.SUMMARY):
            yield True
            return
        try:
            lock = Lock(folder)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def _take(self, flaw: Flaw) -> str:
        self.quarantine.take(flaw.place)
        return "moved to quarantine"

    def _object(self, flaw: Flaw) -> str:
        data = self._twins.find(flaw)
        if data is None:
            return ""  # put aside at the end, when its bundles have been looked at
        self.quarantine.take(flaw.place)
        self._objects.keep(data)
        return "moved to quarantine, and written anew from an intact copy"

    def _content(self, flaw: Flaw) -> str:
        data = self._twins.find(flaw)
        if data is None:
            return ""
        parent, _, name = flaw.place.rpartition("/")
        folder = self._store.below(parent, create=True)
        if folder.has(name):
            if self._twins.intact(folder, name) is not None:
                return ""  # mended with another flaw
            self.quarantine.take(flaw.place)
        self._objects.put(data, folder)
        return "written anew from an intact copy"

    def _relink(self, flaw: Flaw) -> str:
        parent, _, name = flaw.place.rpartition("/")
        folder = self._store.below(parent)
        data = self._twins.intact(folder, name)
        return "linked to its object" if data is not None and self._objects.replace(data, folder) else ""

    def _cut(self, flaw: Flaw) -> str:
        if flaw.state != "untidy":
            return ""
        parent, _, name = flaw.place.rpartition("/")
        folder = self._store.below(parent)
        if folder.status(name).st_nlink > 1:  # no log of ours has a second name: what that names must not be cut too
            data = folder.read(name)
            self.quarantine.take(flaw.place)
            folder.place(name, data, durable=True)
        descriptor = folder.appending(name)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            whole, _ = whole_lines(descriptor, size)
            self.quarantine.keep(f"{flaw.place}.torn", os.pread(descriptor, size - whole, whole))
            os.ftruncate(descriptor, whole)
        finally:
            let_go(descriptor)
        return f"the torn {size - whole:,} bytes cut and kept in quarantine"

    def _rebuild(self, flaw: Flaw) -> str:
        """graph.json and sessions.json follow from the events; of a sealed run only if its seal says so too."""
        parent, _, name = flaw.place.rpartition("/")
        if parent != flaw.run:
            return ""
        folder = self._store.below(flaw.run)
        data = rebuilt(folder, name)
        if data is None or (folder.has(names.SUMMARY) and vouched(folder, name) != digest_of(data)):
            return ""
        if folder.has(name):
            if folder.read(name) == data:
                return ""  # two flaws were one
            self.quarantine.take(flaw.place)
        folder.place(name, data, durable=True)
        return "made again from the events"


_PASSES = 10
"""Healing one thing may show another; beyond this something undoes what is done."""

_FIRST: dict[What, int] = {"entry": 0, "object": 1}
"""What is in the way goes first, then come the objects: the bundles' contents link to them."""

_OF_CONTENTS = frozenset({"object", "content", "missing"})
