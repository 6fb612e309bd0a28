"""Runs into one archive and out of one: a tar.gz of run directories that `tar xzf` opens.

Reading trusts nothing. Only regular files with names that a bundle may have are taken (folders are passed over),
what is unpacked is counted as it comes, and every run is verified aside before it is moved in. The standard
library's `tarfile` would read extended headers of any size into memory, so its parser of one header is used alone.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import secrets
import tarfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import Provenance, RunEntry, is_run_id
from vibe_gate.domain.upkeep import WRONG, Exported, Imported, Problem
from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.store import names
from vibe_gate.store.bundle import parse_events
from vibe_gate.store.checking import Audit, verify
from vibe_gate.store.consistency import digest
from vibe_gate.store.contents import GZIP_OVERHEAD, LARGEST_CONTENT
from vibe_gate.store.folder import LOCK, Folder, let_go, make_durable, temporary_name, write_all
from vibe_gate.store.log import MAX_DOCUMENT_BYTES, Lock, lines
from vibe_gate.store.names import part_of, walk
from vibe_gate.store.recorder import store_folder
from vibe_gate.store.runs import open_store_folder

MAX_BYTES = 8 << 30
"""Unpacked, of a whole archive."""

MAX_RATIO = 200
"""Unpacked to packed bytes, above FREE_BYTES; gzip cannot pack logs and sources of real runs further."""

FREE_BYTES = 64 << 20
MAX_MEMBERS = 500_000
MAX_NAME = 512
MAX_LOG_BYTES = 2 << 30

_LIMITS = {"document": MAX_DOCUMENT_BYTES, "content": LARGEST_CONTENT + GZIP_OVERHEAD, "attached": LARGEST_CONTENT}
"""Bytes of a file by its part; a mark is empty, logs and texts have at most MAX_LOG_BYTES."""

_LEVEL = 6
_BLOCK = 512
_CHUNK = 1 << 17
_MAX_LONG = 4096  # bytes of a header that holds a long name
_KINDS = {b"1": "a link", b"2": "a link", b"3": "a device", b"4": "a device", b"6": "a pipe"}


def export_runs(root: Path, provenance: Provenance, runs: Collection[RunEntry], target: Path) -> Exported:
    """Write `runs` into the new file `target`, oldest first, each verified before; equal runs give equal bytes.

    UsageError: a run is being written or never began, or `target` exists. IntegrityError: a run is
    corrupt or foreign. StorageError.
    """
    shown = paths.quote(str(target))
    chosen = sorted(dict.fromkeys(runs), key=lambda run: (run.run_id, run.key))
    store = open_store_folder(root)
    if store is None or not chosen:
        raise UsageError("There is no run to export; `vibe-gate bundles list` shows those that there are.")
    if os.path.lexists(target):
        raise UsageError(f"{shown} exists already; name another file.")
    try:
        _require_sound(verify(root, provenance, chosen).problems)
        unbegun = next((run.place for run in chosen if not _has_begun(store.below(run.place))), None)
    except OSError as error:
        raise StorageError(f"{shown} was not written: {error}.") from error
    if unbegun is not None:
        raise UsageError(f"{unbegun} never began: there is nothing of it to export.")
    if not target.parent.is_dir():
        raise UsageError(f"{shown} cannot be written: there is no folder {paths.quote(str(target.parent))}.")
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            _pack(store, chosen, file)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        temporary.rename(target)
    except FileNotFoundError as error:
        raise StorageError(f"{shown} was not written: a run was removed meanwhile; export again.") from error
    except (OSError, ValueError) as error:
        raise StorageError(f"{shown} was not written: {error}.") from error
    finally:
        temporary.unlink(missing_ok=True)
    return Exported(len(chosen), size)


def _require_sound(problems: Collection[Problem]) -> None:
    _require_readable(problems)
    for problem in problems:
        if problem.state in WRONG:
            place = paths.quote(problem.place)
            raise IntegrityError(f"{place}: {problem.why}. It was not exported; `bundles verify` has more.")
        if problem.state == "running":
            raise UsageError(f"{paths.quote(problem.place)} is still running; export it when it has ended.")


def _require_readable(problems: Collection[Problem]) -> None:
    for problem in problems:
        if problem.what == "unreadable":
            raise StorageError(f"{paths.quote(problem.place)}: {problem.why}. Nothing was done; try again.")


def _has_begun(bundle: Folder) -> bool:
    """Whether a run has its run.json, and a log whose first event is run.created. OSError."""
    try:
        first = next(parse_events(lines(bundle, names.EVENTS)), None)
    except (FileNotFoundError, ValueError):
        return False
    return bundle.has(names.RUN) and first is not None and first.type == "run.created"


def _pack(store: Folder, runs: Collection[RunEntry], file: BinaryIO) -> None:
    """OSError; ValueError: a file changed while it was read."""
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for run in runs:
            for entry in walk(store.below(run.place)):
                if entry.is_temporary or entry.part is None or entry.base in (LOCK, names.KEEP):
                    continue
                with open(entry.folder.reading(entry.base), "rb") as content:
                    info = tarfile.TarInfo(f"{run.place}/{entry.name}")
                    info.size = os.fstat(content.fileno()).st_size
                    info.mode = 0o600
                    tar.addfile(info, content)


def import_runs(root: Path, provenance: Provenance, archive: Path) -> Imported:
    """Bring the runs of an archive into the store below `root`: all, or none if anything is wrong.

    UsageError: there is no such file. IntegrityError: the archive is refused, or has
    another run under the id of one that is here. StorageError.
    """
    try:
        file = archive.open("rb")
    except OSError as error:
        raise UsageError(f"{paths.quote(str(archive))} cannot be read: {error.strerror}.") from error
    try:
        with file, _aside(store_folder(root, lambda: provenance.tracked)) as (store, stage):
            runs = _Unpacking(stage).runs(file)
            _verify(stage, runs, provenance)
            return _move_in(store, stage, runs)
    except OSError as error:
        raise StorageError(f"The import stopped, and can be begun again: {error.strerror or error}.") from error


@contextlib.contextmanager
def _aside(store: Folder) -> Iterator[tuple[Folder, Folder]]:
    """The store, and a folder in its trash that is locked while it is used and gone afterwards."""
    trash = store.folder(names.TRASH, create=True)
    name = temporary_name()
    stage = trash.make(name)
    lock = Lock(stage)
    try:
        yield store, stage
    finally:
        with contextlib.suppress(OSError):
            trash.remove_folder(name)
        lock.release()


@dataclass(slots=True)
class _Unpacking:
    """The archive's files into the folder aside, at `<key>/<run id>/<name>`."""

    stage: Folder
    _seen: set[str] = field(default_factory=set)
    _runs: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def runs(self, file: BinaryIO) -> list[RunEntry]:
        """Write everything; the runs that it is. IntegrityError, OSError."""
        for name, size, chunks in _members(file):
            self._take(name, size, chunks)
        if not self._runs:
            raise _refused("it holds no runs")
        for (key, run_id), held in self._runs.items():
            if not {names.RUN, names.EVENTS} <= held or not _has_begun(self.stage.below(f"{key}/{run_id}")):
                raise _refused(f"the run {key}/{run_id} has no {names.RUN}, or no {names.EVENTS} that begins")
        return [RunEntry(run_id, key, "incomplete") for key, run_id in sorted(self._runs)]

    def _take(self, name: str, size: int, chunks: Iterator[bytes]) -> None:
        folded = name.casefold()
        if folded in self._seen:
            raise _refused(f"{paths.quote(name)} is in it twice, or differs from another name only in case")
        self._seen.add(folded)
        key, _, rest = name.partition("/")
        run_id, _, inside = rest.partition("/")
        part = part_of(inside)
        if not names.is_key(key) or not is_run_id(run_id) or part is None or inside == LOCK:
            raise _refused(f"{paths.quote(name)} is not a file of a bundle")
        if inside == names.KEEP:
            return  # what stays here is decided here
        limit = 0 if part == "mark" else _LIMITS.get(part, MAX_LOG_BYTES)
        if size > limit:
            raise _refused(f"{name} is larger than {limit:,} bytes")
        self._runs.setdefault((key, run_id), set()).add(inside)
        parent, _, base = name.rpartition("/")
        descriptor = self.stage.below(parent, create=True).appending(base)
        try:
            for chunk in chunks:
                write_all(descriptor, chunk)
        finally:
            let_go(descriptor)


def _members(file: BinaryIO) -> Iterator[tuple[str, int, Iterator[bytes]]]:
    """Name, size and pieces of each file of an archive, in its order; read the pieces before the next file.

    IntegrityError for whatever is not a whole and ordinary file.
    """
    stream = _Stream(file)
    long_name = ""
    entries = 0
    for _ in range(2 * MAX_MEMBERS):
        header = stream.read(_BLOCK)
        if not any(header):
            stream.end()
            return
        try:
            info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeDecodeError):
            raise _refused("it has a header that is not one of a tar of files") from None
        if info.type in _LONG_NAMES and 0 <= info.size <= _MAX_LONG:
            long_name = _LONG_NAMES[info.type](stream.read(info.size))
            stream.read(-info.size % _BLOCK)
            continue
        name, long_name = long_name or info.name, ""
        entries += 1
        if entries > MAX_MEMBERS:
            break
        _require_plain(name)
        if info.type == tarfile.DIRTYPE and info.size == 0:
            continue
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.size < 0:
            raise _refused(f"{paths.quote(name)} is {_KINDS.get(info.type, 'no file')}, and only files are taken")
        chunks = stream.chunks(info.size)
        yield name, info.size, chunks
        for _ in chunks:
            pass
        stream.read(-info.size % _BLOCK)
    raise _refused(f"it holds more than {MAX_MEMBERS:,} files and folders")


def _require_plain(name: str) -> None:
    if len(name) > MAX_NAME:
        raise _refused("it has a name that is too long")
    if name.startswith("/") or ".." in name.split("/"):
        raise _refused(f"{paths.quote(name)} leads out of the archive")


def _of_pax(records: bytes) -> str:
    """The long name in a pax header, which may hold nothing else."""
    length, _, record = records.partition(b" ")
    name, equals, value = record.partition(b"=")
    is_path = length == b"%d" % len(records) and name == b"path" and equals and value.endswith(b"\n")
    if not is_path or b"\0" in value:  # pax ends a name by its length: a NUL would be part of it
        raise _refused("it has a header that no export writes")
    return _decoded(value[:-1])


def _of_gnu(name: bytes) -> str:
    return _decoded(name.partition(b"\0")[0])


def _decoded(name: bytes) -> str:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        raise _refused("it has a name that is not UTF-8") from None


_LONG_NAMES = {tarfile.XHDTYPE: _of_pax, tarfile.GNUTYPE_LONGNAME: _of_gnu}


class _Stream:
    """The unpacked bytes of an archive, never more than its size allows."""

    def __init__(self, file: BinaryIO) -> None:
        packed = os.fstat(file.fileno()).st_size
        self._left = min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * packed))
        self._file = gzip.GzipFile(fileobj=file, mode="rb")

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes."""
        data = self._some(size)
        while len(data) < size:
            more = self._some(size - len(data))
            if not more:
                raise _refused("it ends too soon")
            data += more
        return data

    def chunks(self, size: int) -> Iterator[bytes]:
        """The next `size` bytes in pieces."""
        while size:
            chunk = self.read(min(size, _CHUNK))
            size -= len(chunk)
            yield chunk

    def end(self) -> None:
        """Nothing may follow but zeros, and the checksum of gzip."""
        while rest := self._some(_CHUNK):
            if any(rest):
                raise _refused("it goes on after its end")

    def _some(self, size: int) -> bytes:
        try:
            data = self._file.read(size)
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise _refused("it is not a whole tar.gz") from None
        self._left -= len(data)
        if self._left < 0:
            raise _refused("it unpacks to more bytes than an archive of its size may")
        return data


def _verify(stage: Folder, runs: Collection[RunEntry], provenance: Provenance) -> None:
    for run in runs:
        if foreign := provenance.foreign(run.key, run.run_id):
            raise _refused(f"{run.place}: {foreign}")
        audit = Audit(run.key, run.run_id)
        audit.check(stage.below(run.place))
        _require_readable(audit.problems)
        for problem in audit.problems:
            if problem.state in WRONG or problem.what == "torn":
                raise _refused(f"{paths.quote(problem.place)}: {problem.why}")


def _move_in(store: Folder, stage: Folder, runs: Collection[RunEntry]) -> Imported:
    keys = store.folders()
    folded = {key.casefold() for key in keys}
    for run in runs:
        if run.key.casefold() in folded and run.key not in keys:
            raise _refused(f"its key {run.key} is here in other case")
    already = [run for run in runs if _is_here(store, stage, run)]
    new = [run for run in runs if run not in already]
    for run in new:
        make_durable(stage.below(run.place))
    for run in new:
        key = store.folder(run.key, create=True)
        if key.has(run.run_id):
            raise _other(run)  # it came meanwhile
        stage.folder(run.key).move(run.run_id, key, run.run_id)
        key.sync()
    store.sync()
    return Imported(tuple(run.place for run in new), tuple(run.place for run in already))


def _is_here(store: Folder, stage: Folder, run: RunEntry) -> bool:
    """Whether the same run is in the store; IntegrityError if another one has its id."""
    try:
        here = store.folder(run.key).folder(run.run_id)
    except FileNotFoundError:
        return False
    if _fingerprint(here) != _fingerprint(stage.below(run.place)):
        raise _other(run)
    return True


def _fingerprint(bundle: Folder) -> dict[str, str]:
    """sha-256 by name, but for what may come after sealing. Contents have their hash in their names."""
    return {
        entry.name: "" if entry.part == "content" else digest(entry.folder, entry.base)
        for entry in walk(bundle)
        if entry.name not in names.LATER and entry.part != "attached" and not entry.is_temporary
    }


def _other(run: RunEntry) -> IntegrityError:
    return _refused(f"another run is here as {run.place}, with other content; `bundles verify` looks at it")


def _refused(why: str) -> IntegrityError:
    return IntegrityError(f"The archive is refused: {why}. Nothing was imported.")
