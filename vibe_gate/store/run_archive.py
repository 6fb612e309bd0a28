"""Runs into one archive and out of one: a tar.xz of run directories that `tar xf` opens.

Files that a bundle has gzipped travel unpacked, under their names without `.gz`: xz then finds what
runs have in common. An import packs them again. Reading trusts nothing: only regular files with
names that a bundle may have are taken (folders are passed over), what is unpacked is counted as it
comes, and every run is verified aside before it is moved in.
"""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
from collections.abc import Collection, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, cast

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import Provenance, RunEntry, is_run_id
from vibe_gate.domain.change import LARGEST_CONTENT
from vibe_gate.domain.upkeep import WRONG, Imported, Problem
from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.store import bundle_names
from vibe_gate.store.bundle_location import parse_events
from vibe_gate.store.bundle_names import Entry, is_packed_patch, part_of, walk_bundle
from vibe_gate.store.bundle_seal import digest_file
from vibe_gate.store.contents import (
    COMPRESS_ABOVE,
    GZIP_OVERHEAD,
    NOT_A_GZIP,
    make_gzip_packer,
    open_gzip,
    read_content,
)
from vibe_gate.store.folder import (
    LOCK,
    Folder,
    close_descriptor,
    make_durable,
    temporary_name,
    write_all,
)
from vibe_gate.store.ndjson_log import MAX_DOCUMENT_BYTES, Lock, read_lines
from vibe_gate.store.new_file import create_whole, require_new_file
from vibe_gate.store.patch_files import is_patch_packed
from vibe_gate.store.store_audit import Audit, verify_store
from vibe_gate.store.store_folder import open_store_folder, store_folder

MAX_BYTES = 8 << 30
"""Unpacked, of a whole archive, gzips in it included."""

MAX_RATIO = 2_000
"""Unpacked to packed bytes, above FREE_BYTES: runs that each changed one line of the same large
file come to 1,000.
"""

MAX_UNPACKING_MEMORY = 128 << 20
"""Bytes; xz's highest level needs half of it."""

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

_PRESET = 1
_LONGEST_MATCH = 273
_SEARCHES = 8
"""With them, 300 runs are as small as at xz's default level, in a sixth of the time."""

_LEAST_WINDOW = 1 << 16
_LARGEST_WINDOW = 32 << 20
"""Bytes in which xz looks for what repeats: a change of a 10 MB file, before and after. Packing
takes eight times as much memory, unpacking once.
"""

_UNPACKED_TO_STORED = 4
"""At most, of sources and texts."""

_CHUNK = 1 << 17
_GZIP = b"\x1f\x8b"
_NOT_AN_ARCHIVE = (tarfile.TarError, EOFError, ValueError)


def export_runs(
    root: Path, provenance: Provenance, runs: Collection[RunEntry], target: Path
) -> int:
    """Write `runs` into the new file `target`, oldest first, each verified before; returns its size
    in bytes.

    Equal runs give equal bytes. UsageError: a run is being written or never began, `target`
    exists, or no file can be there. IntegrityError: a run is corrupt or foreign. StorageError.
    """
    target_name = paths.quote(str(target))
    oldest_first = sorted(runs, key=lambda run: (run.run_id, run.key))
    store = open_store_folder(root)
    if store is None or not oldest_first:
        raise UsageError(
            "There is no run to export; `vibe-gate bundles list` shows those that there are."
        )
    require_new_file(target)
    try:
        _require_exportable(verify_store(root, provenance, oldest_first).problems)
        _require_ended(store, oldest_first)
    except OSError as error:
        raise StorageError(f"{target_name} was not written: {error}.") from error
    with create_whole(target) as file:
        try:
            _pack(store, oldest_first, file)
        except FileNotFoundError as error:
            raise StorageError(
                f"{target_name} was not written: a run was removed meanwhile; export again."
            ) from error
        except ValueError as error:
            raise StorageError(f"{target_name} was not written: {error}.") from error
        return file.tell()


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
    lzma = _load_lzma()
    filters = [_lzma_filter(_stored_size(store, runs))]
    with (
        lzma.LZMAFile(file, "wb", format=lzma.FORMAT_XZ, filters=filters) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for run in runs:
            for entry in _list_members(store, run):
                _add_member(tar, run, entry)


def _list_members(store: Folder, run: RunEntry) -> Iterator[Entry]:
    """The files of a run that go into an archive. OSError."""
    for entry in walk_bundle(store.below(run.place)):
        stays = entry.base in (LOCK, bundle_names.KEEP)
        if not entry.is_temporary and entry.part is not None and not stays:
            yield entry


def _stored_size(store: Folder, runs: Collection[RunEntry]) -> int:
    """Bytes of the files that go into an archive, as they are stored. OSError."""
    size = 0
    for run in runs:
        for entry in _list_members(store, run):
            size += entry.folder.status(entry.base).st_size
    return size


def _lzma_filter(stored_size: int) -> dict[str, int]:
    """How xz packs runs of so many bytes. A larger window would be cleared, and not filled."""
    window = _LEAST_WINDOW
    while window < min(stored_size * _UNPACKED_TO_STORED, _LARGEST_WINDOW):
        window *= 2
    return {
        "id": _load_lzma().FILTER_LZMA2,
        "preset": _PRESET,
        "dict_size": window,
        "nice_len": _LONGEST_MATCH,
        "depth": _SEARCHES,
    }


def _add_member(tar: tarfile.TarFile, run: RunEntry, entry: Entry) -> None:
    """Add a file to an archive: unpacked, under the name that it has then. OSError, ValueError."""
    member = tarfile.TarInfo(f"{run.place}/{entry.name.removesuffix(bundle_names.PACKED)}")
    member.mode = 0o600
    if entry.part == "content":
        data = read_content(entry.folder, entry.base)
        if data is None:
            raise ValueError(f"{entry.name} cannot be unpacked")
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
        return
    with _open_member(entry) as file:
        member.size = file.seek(0, os.SEEK_END)
        file.seek(0)
        tar.addfile(member, file)


def _open_member(entry: Entry) -> BinaryIO:
    """OSError."""
    file: BinaryIO = open(entry.folder.reading(entry.base), "rb")  # noqa: SIM115 - the caller closes it
    return open_gzip(file) if is_packed_patch(entry.name) else file


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


def _unpack(file: io.BufferedReader, stage: Folder) -> list[RunEntry]:
    """Write the archive's files at `<key>/<run id>/<name>` in `stage`; returns the runs.
    IntegrityError, OSError.
    """
    files_by_run: dict[tuple[str, str], set[str]] = {}
    folded_names: set[str] = set()
    if file.peek(2).startswith(_GZIP):
        raise _refusal("it is packed by gzip, not by xz; export it again with this version")
    try:
        stream = _Stream(file)
        for info in _read_members(stream):
            key, run_id, name = _parse_name(info)
            is_packed_here = _is_packed_here(name, info.size)
            place = f"{info.name}{bundle_names.PACKED}" if is_packed_here else info.name
            if place.casefold() in folded_names:
                raise _refusal(
                    f"{paths.quote(info.name)} is in it twice, or differs from another name only in case"
                )
            folded_names.add(place.casefold())
            if name != bundle_names.KEEP:  # what stays here is decided here
                files_by_run.setdefault((key, run_id), set()).add(name)
                _write_member(stage, place, info.size, stream, pack=is_packed_here)
    except _NOT_AN_ARCHIVE:
        raise _refusal("it is not a whole tar.xz") from None
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
    with tarfile.open(
        fileobj=cast(BinaryIO, stream), mode="r:", encoding="utf-8", errors="strict"
    ) as tar:
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


def _is_packed_here(name: str, size: int) -> bool:
    """Whether a bundle has the file gzipped that an archive has as it is."""
    if name.endswith(bundle_names.PACKED):
        return False
    if part_of(name) == "content":
        return size > COMPRESS_ABOVE
    return is_patch_packed(size) and is_packed_patch(name + bundle_names.PACKED)


def _write_member(stage: Folder, place: str, size: int, stream: _Stream, *, pack: bool) -> None:
    parent, _, base = place.rpartition("/")
    descriptor = stage.below(parent, create=True).appending(base)
    stream.expect(size)
    packer = make_gzip_packer() if pack else None
    try:
        for remaining_size in range(size, 0, -_CHUNK):
            chunk_size = min(remaining_size, _CHUNK)
            chunk = stream.read(chunk_size)
            if len(chunk) < chunk_size:
                raise EOFError
            write_all(descriptor, packer.compress(chunk) if packer else chunk)
        if packer:
            write_all(descriptor, packer.flush())
    finally:
        close_descriptor(descriptor)
    if base.endswith(bundle_names.PACKED) and not pack:
        _count_unpacked(stage, place, stream)


def _count_unpacked(stage: Folder, place: str, stream: _Stream) -> None:
    """Count what a gzip of the archive holds, as far as it can be unpacked: verifying says what is
    wrong with it. IntegrityError, OSError.
    """
    parent, _, base = place.rpartition("/")
    packed_file = open(stage.below(parent).reading(base), "rb")  # noqa: SIM115 - closed with its content
    with contextlib.suppress(*NOT_A_GZIP), open_gzip(packed_file) as file:
        while piece := file.read(_CHUNK):
            stream.count(len(piece))


def _load_lzma() -> ModuleType:
    """The standard library's lzma. StorageError: this Python was built without it."""
    try:
        import lzma  # some builds of Python lack it, and most commands need none
    except ImportError as error:
        raise StorageError(
            "This Python was built without lzma, which archives of runs need: install "
            "liblzma-dev (xz-devel) and build Python again, or use another Python."
        ) from error
    return lzma


class _Stream:
    """The unpacked bytes of an archive, forwards only: never more at once than `expect` allows,
    nor in all than its size allows.
    """

    def __init__(self, file: BinaryIO) -> None:
        lzma = _load_lzma()
        self._file = file
        self._xz_error: type[Exception] = lzma.LZMAError
        self._unpacker: Any = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_UNPACKING_MEMORY)
        self._position = 0
        self._gzip_bytes = 0
        ratio_bytes = MAX_RATIO * os.fstat(file.fileno()).st_size
        self._max_bytes = min(MAX_BYTES, max(FREE_BYTES, ratio_bytes))
        self._expected = 0

    def tell(self) -> int:
        """How many bytes were read."""
        return self._position

    def seek(self, position: int) -> None:
        """Pass over bytes up to the position, as `tarfile` does to the end of a block."""
        self.read(position - self._position)

    def expect(self, size: int) -> None:
        """Allow so many bytes from here on. IntegrityError if that would be too many in all: none
        of them is read.
        """
        self._require_room(size)
        self._expected = size

    def expect_rest(self) -> None:
        """Allow all bytes that the archive may still have."""
        self._expected = MAX_BYTES

    def count(self, size: int) -> None:
        """Count so many bytes that a gzip in the archive unpacks to. IntegrityError if those are
        too many in all.
        """
        self._require_room(size)
        self._gzip_bytes += size

    def _require_room(self, size: int) -> None:
        """IntegrityError if so many more bytes are too many in all."""
        if self._position + self._gzip_bytes + size > self._max_bytes:
            raise _refusal(
                f"it unpacks to more than {self._max_bytes:,} bytes, which is too much for an archive of its size"
            )

    def read(self, size: int) -> bytes:
        """The next bytes, fewer at the end. IntegrityError; EOFError: the archive was cut."""
        if not 0 <= size <= self._expected:
            raise _refusal(f"it has a header of more than {MAX_HEADER:,} bytes")
        self._expected -= size
        data = b""
        while len(data) < size:
            piece = self._unpack(size - len(data))
            if not piece and self._unpacker.eof:
                break
            data += piece
        self._require_room(len(data))
        self._position += len(data)
        return data

    def _unpack(self, size: int) -> bytes:
        """At most so many of the next bytes. IntegrityError, EOFError."""
        if self._unpacker.eof:
            if self._unpacker.unused_data or self._file.read(1):
                raise _refusal("it goes on after its end")
            return b""
        packed = b""
        if self._unpacker.needs_input:
            packed = self._file.read(_CHUNK)
            if not packed:
                raise EOFError
        try:
            piece: bytes = self._unpacker.decompress(packed, size)
        except self._xz_error as error:
            if "Memory" in str(error):
                reason = f"it needs more than {MAX_UNPACKING_MEMORY:,} bytes of memory to unpack"
                raise _refusal(reason) from None
            raise EOFError from error
        return piece


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
