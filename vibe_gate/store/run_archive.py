"""Runs into one archive and out of one: a tar.gz of run directories that `tar xzf` opens.

Reading trusts nothing. Only regular files with names that a bundle may have are taken (folders are
passed over), what is unpacked is counted as it comes, and every run is verified aside before it is
moved in.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import secrets
import tarfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import Provenance, RunEntry, is_run_id
from vibe_gate.domain.change import LARGEST_CONTENT
from vibe_gate.domain.upkeep import WRONG, Imported, Problem
from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.store import bundle_names
from vibe_gate.store.bundle_location import parse_events
from vibe_gate.store.bundle_names import part_of, walk_bundle
from vibe_gate.store.bundle_seal import digest_file
from vibe_gate.store.contents import GZIP_OVERHEAD
from vibe_gate.store.folder import (
    LOCK,
    Folder,
    close_descriptor,
    make_durable,
    temporary_name,
    write_all,
)
from vibe_gate.store.ndjson_log import MAX_DOCUMENT_BYTES, Lock, read_lines
from vibe_gate.store.store_audit import Audit, verify_store
from vibe_gate.store.store_folder import open_store_folder, store_folder

MAX_BYTES = 8 << 30
"""Unpacked, of a whole archive."""

MAX_RATIO = 200
"""Unpacked to packed bytes, above FREE_BYTES; gzip cannot pack logs and sources of real runs
further.
"""

FREE_BYTES = 64 << 20
MAX_MEMBERS = 500_000
MAX_HEADER = 4 << 10
"""Bytes of what stands before a file: its header, and the extended ones that say its name. Before
Python 3.11.10 `tarfile` takes seconds for a larger one that is made for it (CVE-2024-6232).
"""

MAX_LOG_BYTES = 2 << 30

_LIMITS = {
    "document": MAX_DOCUMENT_BYTES,
    "content": LARGEST_CONTENT + GZIP_OVERHEAD,
    "attached": LARGEST_CONTENT,
}
"""Bytes of a file by its part; a mark is empty, logs and texts have at most MAX_LOG_BYTES."""

_LEVEL = 6
_CHUNK = 1 << 17
_NOT_AN_ARCHIVE = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError)


def export_runs(
    root: Path, provenance: Provenance, runs: Collection[RunEntry], target: Path
) -> int:
    """Write `runs` into the new file `target`, oldest first, each verified before; returns its size
    in bytes.

    Equal runs give equal bytes. UsageError: a run is being written or never began, or `target`
    exists. IntegrityError: a run is corrupt or foreign. StorageError.
    """
    target_name = paths.quote(str(target))
    oldest_first = sorted(runs, key=lambda run: (run.run_id, run.key))
    store = open_store_folder(root)
    if store is None or not oldest_first:
        raise UsageError(
            "There is no run to export; `vibe-gate bundles list` shows those that there are."
        )
    if os.path.lexists(target):
        raise UsageError(f"{target_name} exists already; name another file.")
    try:
        if not target.parent.is_dir():
            folder_name = paths.quote(str(target.parent))
            raise UsageError(f"{target_name} cannot be written: there is no folder {folder_name}.")
        _require_exportable(verify_store(root, provenance, oldest_first).problems)
        _require_ended(store, oldest_first)
    except OSError as error:
        raise StorageError(f"{target_name} was not written: {error}.") from error
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            _pack(store, oldest_first, file)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        temporary.rename(target)
    except FileNotFoundError as error:
        raise StorageError(
            f"{target_name} was not written: a run was removed meanwhile; export again."
        ) from error
    except (OSError, ValueError) as error:
        raise StorageError(f"{target_name} was not written: {error}.") from error
    finally:
        temporary.unlink(missing_ok=True)
    return size


def _require_exportable(problems: Collection[Problem]) -> None:
    """IntegrityError: something is corrupt or foreign. UsageError: a run is being written.
    StorageError.
    """
    corruption = _first_corruption(problems)
    if corruption:
        raise IntegrityError(f"{corruption}. It was not exported; `bundles verify` has more.")
    for problem in problems:
        if problem.state == "running":
            place = paths.quote(problem.place)
            raise UsageError(f"{place} is still running; export it when it has ended.")


def _require_ended(store: Folder, runs: Collection[RunEntry]) -> None:
    """UsageError: a run never began, or did not end. OSError."""
    for run in runs:
        if not _has_begun(store.below(run.place)):
            raise UsageError(f"{run.place} never began: there is nothing of it to export.")
    for run in runs:
        if not store.below(run.place).has(bundle_names.SUMMARY):
            raise UsageError(
                f"{run.place} did not end, and only runs that ended are exported; "
                "tar packs its folder."
            )


def _first_corruption(problems: Collection[Problem]) -> str:
    """The first place that is corrupt or foreign, and why; "" if none is. StorageError: one cannot
    be read.
    """
    for problem in sorted(problems, key=lambda problem: problem.what != "unreadable"):
        description = f"{paths.quote(problem.place)}: {problem.why}"
        if problem.what == "unreadable":
            raise StorageError(f"{description}. Nothing was done; try again.")
        if problem.state in WRONG:
            return description
    return ""


def _has_begun(bundle: Folder) -> bool:
    """Whether a run has its run.json, and a log whose first event is run.created. OSError."""
    try:
        first = next(parse_events(read_lines(bundle, bundle_names.EVENTS)), None)
    except (FileNotFoundError, ValueError):
        return False
    return bundle.has(bundle_names.RUN) and first is not None and first.type == "run.created"


def _pack(store: Folder, runs: Collection[RunEntry], file: BinaryIO) -> None:
    """OSError; ValueError: a file changed while it was read."""
    with (
        gzip.GzipFile(
            filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0
        ) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for run in runs:
            for entry in walk_bundle(store.below(run.place)):
                if (
                    entry.is_temporary
                    or entry.part is None
                    or entry.base in (LOCK, bundle_names.KEEP)
                ):
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
        raise UsageError(
            f"{paths.quote(str(archive))} cannot be read: {error.strerror}."
        ) from error
    try:
        with file, _aside(store_folder(root, lambda: provenance.tracked)) as (store, stage):
            runs = _unpack(file, stage)
            _verify(stage, runs, provenance)
            return _move_in(store, stage, runs)
    except OSError as error:
        raise StorageError(
            f"The import stopped, and can be begun again: {error.strerror or error}."
        ) from error


@contextlib.contextmanager
def _aside(store: Folder) -> Iterator[tuple[Folder, Folder]]:
    """The store, and a folder in its trash that is locked while it is used and gone afterwards."""
    trash = store.folder(bundle_names.TRASH, create=True)
    name = temporary_name()
    stage = trash.make(name)
    lock = Lock(stage)
    try:
        yield store, stage
    finally:
        with contextlib.suppress(OSError):
            trash.remove_folder(name)
        lock.release()


def _unpack(file: BinaryIO, stage: Folder) -> list[RunEntry]:
    """Write the archive's files at `<key>/<run id>/<name>` in `stage`; returns the runs.
    IntegrityError, OSError.
    """
    files_by_run: dict[tuple[str, str], set[str]] = {}
    folded_names: set[str] = set()
    try:
        stream = _Stream(file)
        for info in _read_members(stream):
            key, run_id, name = _parse_name(info)
            if info.name.casefold() in folded_names:
                raise _refusal(
                    f"{paths.quote(info.name)} is in it twice, or differs from another name only in case"
                )
            folded_names.add(info.name.casefold())
            if name != bundle_names.KEEP:  # what stays here is decided here
                files_by_run.setdefault((key, run_id), set()).add(name)
                _write_member(stage, info, stream)
    except _NOT_AN_ARCHIVE:
        raise _refusal("it is not a whole tar.gz") from None
    if not files_by_run:
        raise _refusal("it holds no runs")
    for (key, run_id), files in files_by_run.items():
        if not {bundle_names.RUN, bundle_names.EVENTS} <= files or not _has_begun(
            stage.below(f"{key}/{run_id}")
        ):
            raise _refusal(
                f"the run {key}/{run_id} has no {bundle_names.RUN}, or no {bundle_names.EVENTS} that begins"
            )
        if bundle_names.SUMMARY not in files:
            raise _refusal(
                f"the run {key}/{run_id} did not end, and only runs that ended are imported"
            )
    return [RunEntry(run_id, key, "incomplete") for key, run_id in sorted(files_by_run)]


def _parse_name(info: tarfile.TarInfo) -> tuple[str, str, str]:
    """Key, run id and name in the bundle. IntegrityError if it is not a file that a bundle may
    have.
    """
    key, _, name_below_key = info.name.partition("/")
    run_id, _, name = name_below_key.partition("/")
    is_in_run = bundle_names.is_key(key) and is_run_id(run_id)
    part = part_of(name)
    if not is_in_run or part is None or name == LOCK:
        raise _refusal(f"{paths.quote(info.name)} is not a file of a bundle")
    if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.issparse():
        raise _refusal(f"{info.name} is not a regular file")
    limit = 0 if part == "mark" else _LIMITS.get(part, MAX_LOG_BYTES)
    if not 0 <= info.size <= limit:
        raise _refusal(f"{info.name} is larger than {limit:,} bytes")
    return key, run_id, name


def _read_members(stream: _Stream) -> Iterator[tarfile.TarInfo]:
    """Everything but folders; `stream` stands before its bytes. Nothing but zeros may follow the
    last.
    """
    stream.expect(MAX_HEADER)
    with tarfile.open(fileobj=stream, mode="r:", encoding="utf-8", errors="strict") as tar:
        for _ in range(MAX_MEMBERS):
            info = tar.next()
            if info is None:
                break
            tar.members = []  # type: ignore[attr-defined]  # it would keep all of them
            if not info.isdir():
                yield info
            elif info.size:  # bytes that only a search for the next header would unpack
                raise _refusal(f"{paths.quote(info.name)} is a folder with content")
            stream.expect(MAX_HEADER)
        else:
            raise _refusal(f"it holds {MAX_MEMBERS:,} files and folders or more")
        stream.expect_rest()
        while data := stream.read(_CHUNK):
            if any(data):
                raise _refusal("it goes on after its end")


def _write_member(stage: Folder, info: tarfile.TarInfo, stream: _Stream) -> None:
    parent, _, base = info.name.rpartition("/")
    descriptor = stage.below(parent, create=True).appending(base)
    stream.expect(info.size)
    try:
        for remaining_size in range(info.size, 0, -_CHUNK):
            size = min(remaining_size, _CHUNK)
            chunk = stream.read(size)
            if len(chunk) < size:
                raise EOFError
            write_all(descriptor, chunk)
    finally:
        close_descriptor(descriptor)


class _Stream(gzip.GzipFile):
    """The unpacked bytes of an archive: never more at once than `expect` allows, nor in all than
    its size allows.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(fileobj=file, mode="rb")
        ratio_bytes = MAX_RATIO * os.fstat(file.fileno()).st_size
        self._max_bytes = min(MAX_BYTES, max(FREE_BYTES, ratio_bytes))
        self._expected = 0

    def expect(self, size: int) -> None:
        """Allow so many bytes from here on. IntegrityError if that would be too many in all: none
        of them is read.
        """
        if self.tell() + size > self._max_bytes:
            raise self._too_many()
        self._expected = size

    def expect_rest(self) -> None:
        """Allow all bytes that the archive may still have."""
        self._expected = MAX_BYTES

    def _too_many(self) -> IntegrityError:
        return _refusal(
            f"it unpacks to more than {self._max_bytes:,} bytes, which is too much for an archive of its size"
        )

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= self._expected:
            raise _refusal(f"it has a header of more than {MAX_HEADER:,} bytes")
        self._expected -= size
        data = super().read(size)
        if self.tell() > self._max_bytes:
            raise self._too_many()
        return data


def _verify(stage: Folder, runs: Collection[RunEntry], provenance: Provenance) -> None:
    for run in runs:
        if foreign := provenance.foreign(run.key, run.run_id):
            raise _refusal(f"{run.place}: {foreign}")
        audit = Audit(run.key, run.run_id)
        audit.check(stage.below(run.place))
        corruption = _first_corruption(audit.problems)
        if corruption:
            raise _refusal(corruption)


def _move_in(store: Folder, stage: Folder, runs: Collection[RunEntry]) -> Imported:
    keys = store.folders()
    folded_keys = {key.casefold() for key in keys}
    for run in runs:
        if run.key.casefold() in folded_keys and run.key not in keys:
            raise _refusal(f"its key {run.key} is here in other case")
    new_runs: list[RunEntry] = []
    new_places: list[str] = []
    present_places: list[str] = []
    for run in runs:
        if _is_here(store, stage, run):
            present_places.append(run.place)
        else:
            new_runs.append(run)
            new_places.append(run.place)
    for run in new_runs:
        make_durable(stage.below(run.place))
    for run in new_runs:
        key = store.folder(run.key, create=True)
        if key.has(run.run_id):
            raise _other_run_error(run)  # it came meanwhile
        stage.folder(run.key).move(run.run_id, key, run.run_id)
        key.sync()
    store.sync()
    return Imported(tuple(new_places), tuple(present_places))


def _is_here(store: Folder, stage: Folder, run: RunEntry) -> bool:
    """Whether the same run is in the store; IntegrityError if another one has its id."""
    try:
        stored_bundle = store.folder(run.key).folder(run.run_id)
    except FileNotFoundError:
        return False
    if _digest_documents(stored_bundle) != _digest_documents(stage.below(run.place)):
        raise _other_run_error(run)
    return True


def _digest_documents(bundle: Folder) -> list[str]:
    """sha-256 of the documents that say what the run is; the summary has the digests of all
    others.
    """
    names = (bundle_names.RUN, bundle_names.EVENTS, bundle_names.SUMMARY)
    return [digest_file(bundle, name) for name in names if bundle.has(name)]


def _other_run_error(run: RunEntry) -> IntegrityError:
    return _refusal(
        f"another run is here as {run.place}, with other content; `bundles verify` looks at it"
    )


def _refusal(reason: str) -> IntegrityError:
    return IntegrityError(f"The archive is refused: {reason}. Nothing was imported.")
