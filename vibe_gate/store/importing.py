"""Runs out of an archive: read without trust into a place aside, verified there, then moved in whole."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from vibe_gate.domain import paths
from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.store import manifest, names
from vibe_gate.store.archive import Distinct, Member, members, refused, shown, twice
from vibe_gate.store.audit import audit
from vibe_gate.store.durable import make_durable
from vibe_gate.store.export import CONTENTS, require_readable
from vibe_gate.store.flaws import WRONG
from vibe_gate.store.folder import CANNOT_LINK, Folder, let_go, temporary_name, write_all
from vibe_gate.store.hashes import Hashes
from vibe_gate.store.layout import is_object, part_of, walk
from vibe_gate.store.log import Lock
from vibe_gate.store.manifest import Manifest, RunInArchive
from vibe_gate.store.objects import LARGEST_CONTENT, Objects, decode, digest_of, encode, suffix_of
from vibe_gate.store.place import MAX_DOCUMENT_BYTES
from vibe_gate.store.provenance import Provenance
from vibe_gate.store.reading import begins
from vibe_gate.store.store import store_folder

MAX_LOG_BYTES = 2 << 30
_GZIP_OVERHEAD = 1024

_LIMITS = {"document": MAX_DOCUMENT_BYTES, "attached": LARGEST_CONTENT, "mark": 0}
"""Bytes of a file by its part; of logs and texts MAX_LOG_BYTES."""

_LATER = frozenset({names.ANNOTATIONS, names.KEEP, names.LOCK})
"""What may come and go after a run has ended: two runs are the same without regard to it."""


@dataclass(frozen=True, slots=True)
class Imported:
    """`<key>/<run id>` of what is new, and of what was here already with the same content."""

    runs: tuple[str, ...]
    already: tuple[str, ...]


def import_bundles(root: Path, archive: Path, provenance: Provenance) -> Imported:
    """Bring the runs of an archive into the store below `root`: all, or none where anything is wrong.

    UsageError: there is no such file. IntegrityError: the archive is refused, or has
    another run under the id of one that is here. StorageError.
    """
    try:
        file = archive.open("rb")
    except OSError as error:
        raise UsageError(f"{paths.quote(str(archive))} cannot be read: {error.strerror}.") from error
    try:
        with file, _aside(store_folder(root)) as (store, stage):
            wanted = _Reading(file, stage).runs()
            _verify(stage, wanted, provenance)
            return _move_in(store, stage, wanted)
    except OSError as error:
        raise StorageError(f"The import stopped, and can be begun again: {error.strerror or error}.") from error


@contextlib.contextmanager
def _aside(store: Folder) -> Iterator[tuple[Folder, Folder]]:
    """The store, and a folder in it that is locked while it is used and gone afterwards."""
    name = temporary_name()
    stage = store.make(name)
    lock = Lock(stage)
    try:
        yield store, stage
    finally:
        store.discard(name)
        lock.release()


class _Reading:
    """The archive into the folder aside: `objects/` as in a store, and `runs/<key>/<run id>/`."""

    def __init__(self, file: BinaryIO, stage: Folder) -> None:
        self._members = members(file)
        self._stage = stage
        self._distinct = Distinct()
        self._shelves = stage.folder(names.OBJECTS, create=True)
        self._kept: set[str] = set()
        self._begun: set[str] = set()

    def runs(self) -> tuple[RunInArchive, ...]:
        wanted = self._manifest().runs
        runs = {f"{run.key}/{run.run_id}": run for run in wanted}
        for place, run in runs.items():
            for name in run.contents:
                self._add(f"{place}/{name}")
        if len(runs) != len(wanted):
            raise refused("it names a run twice")
        needed = {name.rpartition("/")[2] for run in wanted for name in run.contents}
        for member in self._members:
            key, _, rest = member.name.partition("/")
            run_id, _, name = rest.partition("/")
            if key == CONTENTS:
                self._content(member, rest, needed)
            elif f"{key}/{run_id}" in runs:
                self._file(member, f"{key}/{run_id}", name)
            else:
                raise refused(f"{shown(member.name)} belongs to no run that it names")
        missing = next(iter(sorted(needed - self._kept)), None)
        if missing is not None:
            raise refused(f"the content {missing} is not in it")
        for place, run in runs.items():
            if not self._begun.issuperset({f"{place}/{names.RUN}", f"{place}/{names.EVENTS}"}):
                raise refused(f"the run {place} has no {names.RUN} or no {names.EVENTS} in it: it never began")
            for name in run.contents:
                self._show(f"runs/{place}", name)
        return wanted

    def _manifest(self) -> Manifest:
        first = next(self._members, None)
        if first is None or first.name != manifest.NAME:
            raise refused(f"it does not begin with {manifest.NAME}, so it is no export of vibe-gate")
        try:
            return manifest.parse(first.read(manifest.MAX_BYTES))
        except ValueError as error:
            raise refused(str(error)) from error

    def _content(self, member: Member, name: str, needed: set[str]) -> None:
        """A content, packed as it will be stored; its hash is that of its bytes, whatever the archive says."""
        if not is_object(name):
            raise refused(f"{shown(member.name)} is no name of a content")
        raw = member.read(LARGEST_CONTENT + (_GZIP_OVERHEAD if name.endswith(".gz") else 0))
        data = decode(name, raw, LARGEST_CONTENT)
        if data is None or digest_of(data) != name[:64]:
            raise refused(f"the bytes of {name} are not those that its name says")
        stored = digest_of(data) + suffix_of(data)
        if name not in {stored, stored.removesuffix(".gz")}:
            raise refused(f"{name} should be called {stored}")
        if stored not in needed or stored in self._kept:
            raise refused(f"the content {name} is shown by no run, or in it twice")
        shelf = self._shelves.folder(stored[:2], create=True)
        shelf.write(stored, raw if name == stored else encode(stored, data))
        self._kept.add(stored)

    def _file(self, member: Member, place: str, name: str) -> None:
        part = part_of(name)
        if part is None or part == "content" or name == names.LOCK:
            raise refused(f"{shown(member.name)} is no file of a bundle")
        limit = _LIMITS.get(part, MAX_LOG_BYTES)
        if member.size > limit:
            raise refused(f"{member.name} is larger than {limit:,} bytes")
        self._add(f"{place}/{name}")
        if name in {names.RUN, names.EVENTS} and member.size:
            self._begun.add(f"{place}/{name}")
        parent, _, base = f"runs/{place}/{name}".rpartition("/")
        descriptor = self._stage.below(parent, create=True).appending(base)
        try:
            for number, chunk in enumerate(member.chunks()):
                if name == names.EVENTS and number == 0 and not begins(chunk):
                    raise refused(f"{place}: its {names.EVENTS} does not begin with run.created")
                write_all(descriptor, chunk)
        finally:
            let_go(descriptor)

    def _add(self, name: str) -> None:
        if not self._distinct.add(name):
            raise refused(twice(name))

    def _show(self, place: str, name: str) -> None:
        parent, _, base = f"{place}/{name}".rpartition("/")
        shelf, into = self._shelves.folder(base[:2]), self._stage.below(parent, create=True)
        try:
            shelf.link(base, into, base)
        except OSError as error:
            if error.errno not in CANNOT_LINK:
                raise
            into.write(base, shelf.read(base))


def _verify(stage: Folder, wanted: tuple[RunInArchive, ...], provenance: Provenance) -> None:
    hashes = Hashes(stage)
    runs = stage.folder("runs")
    for run in wanted:
        foreign = provenance.foreign(run.key, run.run_id)
        if foreign:
            raise refused(f"{run.key}/{run.run_id}: {foreign}")
        folder = runs.folder(run.key).folder(run.run_id)
        flaws = audit(folder, run.key, run.run_id, hashes)
        require_readable(flaws)
        for flaw in flaws:
            if flaw.state in WRONG or flaw.what == "torn":
                raise refused(f"{paths.quote(flaw.place)}: {flaw.why}")


def _move_in(store: Folder, stage: Folder, wanted: tuple[RunInArchive, ...]) -> Imported:
    runs = stage.folder("runs")
    keys = store.folders()
    folded = {key.casefold() for key in keys}
    for run in wanted:
        if run.key.casefold() in folded and run.key not in keys:
            raise refused(f"its key {run.key} is here in other case")
    already = [run for run in wanted if _is_here(store, runs, run)]
    new = [run for run in wanted if run not in already]
    objects = Objects(store)
    for run in new:
        folder = runs.folder(run.key).folder(run.run_id)
        for entry in walk(folder):
            if part_of(entry.name) == "content":
                objects.adopt(entry.folder, entry.base)
        make_durable(folder)
    for run in new:
        key = store.folder(run.key, create=True)
        if key.has(run.run_id):
            raise _other(run)  # it came meanwhile
        runs.folder(run.key).move(run.run_id, key, run.run_id)
        key.sync()
    store.sync()
    return Imported(tuple(map(_place, new)), tuple(map(_place, already)))


def _is_here(store: Folder, runs: Folder, run: RunInArchive) -> bool:
    """Whether the same run is in the store; IntegrityError where another one has its id."""
    try:
        key = store.folder(run.key)
        if not key.has(run.run_id):
            return False
        here = key.folder(run.run_id)
    except FileNotFoundError:
        return False
    if _fingerprint(here) != _fingerprint(runs.folder(run.key).folder(run.run_id)):
        raise _other(run)
    return True


def _fingerprint(bundle: Folder) -> dict[str, str]:
    """sha-256 by name. Of contents that of what they hold: how they were packed says nothing."""
    found = {}
    for entry in walk(bundle):
        part = part_of(entry.name)
        if entry.name in _LATER or part == "attached" or entry.is_temporary:
            continue
        with open(entry.folder.reading(entry.base), "rb") as file:
            if part == "content" and entry.base.endswith(".gz"):
                raw = file.read(LARGEST_CONTENT + _GZIP_OVERHEAD)
                found[entry.name] = digest_of(decode(entry.base, raw, LARGEST_CONTENT) or b"")
            else:
                found[entry.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _other(run: RunInArchive) -> IntegrityError:
    return refused(f"another run is here as {_place(run)}, with other content; `bundles verify` looks at it")


def _place(run: RunInArchive) -> str:
    return f"{run.key}/{run.run_id}"
