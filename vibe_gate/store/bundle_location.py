"""Where a bundle is that is read. Every byte of a bundle is somebody else's.

Nothing is followed out of the folder that the user named, documents and lines have a largest size,
and what a sealed run vouches for is compared while it is read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

from msgspec import Struct, convert

from vibe_gate.domain import paths
from vibe_gate.domain.document import first_mistake, parse_object
from vibe_gate.domain.event import MAX_EVENTS, Event
from vibe_gate.errors import IntegrityError, StorageError
from vibe_gate.store import bundle_names
from vibe_gate.store.folder import Folder
from vibe_gate.store.ndjson_log import MAX_DOCUMENT_BYTES, Lock, read_lines
from vibe_gate.store.patch_files import open_patch, read_patch_lines

S = TypeVar("S")
T = TypeVar("T")

BundleState = Literal["sealed", "running", "incomplete"]
Record = dict[str, Any]
_ReadLines = Callable[[Folder, str, Callable[[bytes], object]], Iterator[bytes]]
Reload = Callable[[], Record]
"""Reads a line of a log again, whole. StorageError; IntegrityError if it is another one now."""


class BundleLocation(Struct, frozen=True):
    """A bundle's folder."""

    root: Path
    """The run's folder as the user named it."""
    inside: str
    """Which folder of it: "" for the run's own, or `nodes/<node id>/<turn>`."""
    digests: Mapping[str, str] | None
    """The sha-256 of the bundle's own files by name, if a sealed run vouches for them; None if
    nothing does.
    """

    @property
    def directory(self) -> Path:
        """For people and messages; nothing is opened through it."""
        if self.inside:
            return self.root / self.inside
        return self.root

    def folder(self) -> Folder:
        """The bundle's folder, open. StorageError."""
        try:
            return open_bundle_folder(self.root).below(self.inside)
        except OSError as error:
            raise unreadable_bundle_error(self.directory, error) from error

    def path(self, name: str) -> Path:
        """For people and messages."""
        return self.directory / name

    def has(self, name: str) -> bool:
        """Whether anything has that name."""
        return self.folder().has(name)

    def document(self, name: str, parse: Callable[[bytes], T]) -> T:
        """A whole small file as `parse` understands it. StorageError, IntegrityError."""
        try:
            data = read_whole_file(self.folder(), name)
        except OSError as error:
            raise unreadable_bundle_error(self.path(name), error) from error
        except ValueError as error:
            raise corrupt_bundle_error(self.path(name), str(error)) from error
        self.compare(name, hashlib.sha256(data).hexdigest())
        return self.parsed(name, data, parse)

    def parsed(self, name: str, data: S, parse: Callable[[S], T]) -> T:
        """What `parse` makes of data of the file `name`. IntegrityError if it does not understand
        them.
        """
        try:
            return parse(data)
        except (ValueError, RecursionError, AttributeError, TypeError) as error:
            raise corrupt_bundle_error(self.path(name), refusal_reason(error)) from error

    def lines(self, name: str) -> Iterator[tuple[int, bytes]]:
        """The whole lines of a log with their offsets, streamed; compared with the seal after the
        last one.

        A torn last line is left out; a log that was not begun has no lines.
        StorageError, IntegrityError.
        """
        return self._compared_lines(name, read_lines)

    def patch_lines(self, name: str) -> Iterator[bytes]:
        """The lines of a patch, however it is stored; otherwise as `lines`."""
        for _, line in self._compared_lines(name, read_patch_lines):
            yield line

    def open_patch(self, name: str) -> BinaryIO:
        """The text of a patch, not compared with the seal. StorageError; reading may raise
        NOT_A_GZIP and OSError.
        """
        try:
            return open_patch(self.folder(), name)
        except OSError as error:
            raise unreadable_bundle_error(self.path(name), error) from error

    def _compared_lines(self, name: str, read: _ReadLines) -> Iterator[tuple[int, bytes]]:
        sha256 = hashlib.sha256()
        offset = 0
        try:
            for line in read(self.folder(), name, sha256.update):
                yield offset, line
                offset += len(line)
        except FileNotFoundError as error:
            if self.digests is not None and name in self.digests:
                raise corrupt_bundle_error(self.path(name), "it is missing") from error
            return
        except OSError as error:
            raise unreadable_bundle_error(self.path(name), error) from error
        except ValueError as error:
            raise corrupt_bundle_error(self.path(name), str(error)) from error
        self.compare(name, sha256.hexdigest())

    def records(self, name: str) -> Iterator[tuple[Record, Reload]]:
        """The lines of a log as objects, each with the way to read it again. Errors as of
        `lines`.
        """
        for offset, line in self.lines(name):
            record = self.parsed(name, line, parse_object)
            yield record, partial(self._reload, name, offset, len(line), hash(line))

    def _reload(self, name: str, offset: int, size: int, line_hash: int) -> Record:
        line = self.read_at(name, offset, size)
        if hash(line) != line_hash:
            reason = f"the line at byte {offset} changed since it was read"
            raise corrupt_bundle_error(self.path(name), reason)
        return self.parsed(name, line, parse_object)

    def read_at(self, name: str, offset: int, size: int) -> bytes:
        """Bytes of a file, not compared with the seal. StorageError."""
        try:
            with open(self.folder().reading(name), "rb") as file:
                return os.pread(file.fileno(), size, offset)
        except OSError as error:
            raise unreadable_bundle_error(self.path(name), error) from error

    def compare(self, name: str, digest: str) -> None:
        """IntegrityError if a sealed run vouches for other bytes."""
        if self.digests is None or self.digests.get(name) == digest:
            return
        is_sealed = name in self.digests
        reason = "it was changed after sealing" if is_sealed else "it was added after sealing"
        raise corrupt_bundle_error(self.path(name), reason)

    def state(self) -> BundleState:
        """As `read_bundle_state`. StorageError."""
        return read_bundle_state(self.folder(), open_bundle_folder(self.root))

    def bare(self) -> BundleLocation:
        """The run's own folder, with nobody to vouch for what is read."""
        return BundleLocation(self.root, "", None)

    def events(self) -> Iterator[Event]:
        """A run's events. StorageError; IntegrityError for a line that is not an event, and for too
        many of them.
        """
        try:
            yield from parse_events(line for _, line in self.lines(bundle_names.EVENTS))
        except ValueError as error:
            raise corrupt_bundle_error(self.path(bundle_names.EVENTS), str(error)) from error


def locate_bundle(directory: Path) -> BundleLocation:
    """The bundle in `directory`: a run's, or a turn's. A turn is read through its run if it lies in
    one.

    StorageError: there is no bundle.
    """
    absolute = Path(os.path.abspath(directory))  # noqa: PTH100 - resolve would follow links
    if bundle_names.is_turn("/".join(absolute.parts[-3:])):
        run = absolute.parents[2]
        if os.path.lexists(run / bundle_names.RUN):
            locate_turn = turn_locator(_locate_run(run))
            return locate_turn(absolute.parent.name, absolute.name)
    return _locate_run(absolute)


def turn_locator(run: BundleLocation) -> Callable[[str, str], BundleLocation]:
    """Gives the locations of a run's turns by node id and turn; what the run vouches for is read
    once for all of them.

    The names come from a log, so they are checked before they become folders: IntegrityError.
    """
    run_digests = _read_digests(run) if run.digests is not None else None

    def locate_turn(node_id: str, turn: str) -> BundleLocation:
        inside = f"nodes/{node_id}/{turn}"
        if not bundle_names.is_turn(inside):
            reason = "it names a node or turn that cannot be a folder"
            raise corrupt_bundle_error(run.path(bundle_names.EVENTS), reason)
        turn_digests = None
        if run_digests is not None:
            turn_digests = _digests_in_folder(run_digests, f"{inside}/")
        return BundleLocation(run.root, inside, turn_digests)

    return locate_turn


def _locate_run(root: Path) -> BundleLocation:
    bare = BundleLocation(root, "", None)
    folder = bare.folder()
    bundle_files = (bundle_names.RUN, bundle_names.SUMMARY, bundle_names.EVENTS)
    if not any(folder.has(name) for name in bundle_files):
        place = _quote_path(root)
        raise StorageError(f"{place} is not a bundle: neither a run's folder nor a turn's.")
    if not folder.has(bundle_names.SUMMARY) or not folder.has(bundle_names.RUN):
        return bare
    return BundleLocation(root, "", _digests_in_folder(_read_digests(bare), ""))


def _read_digests(run: BundleLocation) -> dict[str, str]:
    document = run.bare().document(bundle_names.SUMMARY, parse_object)
    return take_digests(run, document)


def take_digests(run: BundleLocation, summary: dict[str, Any]) -> dict[str, str]:
    """Take the digests by name out of the document of a run's summary. IntegrityError: it has
    none.
    """
    digests = summary.pop("digests", None)
    if not isinstance(digests, dict):
        raise corrupt_bundle_error(run.path(bundle_names.SUMMARY), "it vouches for no files")
    return {str(name): str(digest) for name, digest in digests.items()}


def _digests_in_folder(digests: Mapping[str, str], folder: str) -> dict[str, str]:
    """Of the files that lie directly in the folder ("", or with a slash at its end)."""
    folder_digests = {}
    for name, digest in digests.items():
        base = name.removeprefix(folder)
        if name.startswith(folder) and "/" not in base:
            folder_digests[base] = digest
    return folder_digests


def read_object(folder: Folder, name: str) -> dict[str, Any]:
    """A JSON document. OSError, ValueError."""
    return parse_object(read_whole_file(folder, name))


def read_whole_file(folder: Folder, name: str) -> bytes:
    """A whole file that is no larger than a document may be. OSError; ValueError: it is larger."""
    data = folder.read(name, MAX_DOCUMENT_BYTES)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"it is larger than {MAX_DOCUMENT_BYTES:,} bytes")
    return data


def parse_events(lines: Iterable[bytes]) -> Iterator[Event]:
    """The events of a run's log. ValueError as of `parse_run_event`."""
    for number, line in enumerate(lines, start=1):
        try:
            document = parse_object(line)
        except ValueError as error:
            raise ValueError(f"entry {number}: {refusal_reason(error)}") from error
        yield parse_run_event(document, number)


def parse_run_event(document: Record, number: int) -> Event:
    """The event that a line of a run's log has.

    ValueError, with the number of the line, if it is not one, and behind more than any run has.
    """
    if number > MAX_EVENTS:
        raise ValueError(f"it has more than {MAX_EVENTS:,} events")
    try:
        event = convert(document, Event)
    except ValueError as error:
        raise ValueError(f"entry {number}: {refusal_reason(error)}") from error
    if event.seq != number:
        raise ValueError(f"entry {number}: it has seq {event.seq}")
    return event


def read_bundle_state(bundle: Folder, run: Folder | None = None) -> BundleState:
    """`sealed` has a summary, `running` a living writer, `incomplete` neither. OSError.

    `run`: the folder of the run that the bundle of a turn lies in.
    """
    if bundle.has(bundle_names.SUMMARY):
        return "sealed"
    state = read_unsealed_state(run or bundle)
    # It may have been sealed before the lock was tried.
    if state == "incomplete" and bundle.has(bundle_names.SUMMARY):
        return "sealed"
    return state


def read_unsealed_state(run: Folder) -> Literal["running", "incomplete"]:
    """Of a run without a summary: whether its writer lives. OSError."""
    if Lock.is_held(run):
        return "running"
    return "incomplete"


def open_bundle_folder(root: Path) -> Folder:
    """The folder itself, which may be no link. StorageError."""
    try:
        return Folder.at(root.parent).folder(root.name)
    except OSError as error:
        place = _quote_path(root)
        raise StorageError(f"{place} cannot be opened: {error.strerror}.") from error
    except ValueError as error:  # "/", or a NUL
        place = _quote_path(root)
        raise StorageError(f"{place} cannot be opened: no bundle can have that name.") from error


def refusal_reason(error: Exception) -> str:
    """Why a document was refused, in a few words."""
    is_not_json = isinstance(error, (json.JSONDecodeError, UnicodeDecodeError))
    if is_not_json or not isinstance(error, ValueError):
        return "it is not a document of vibe-gate"
    return first_mistake(error)


def corrupt_bundle_error(path: Path, reason: str) -> IntegrityError:
    """The bundle is not what was written, for a reason in a few words."""
    place = _quote_path(path)
    return IntegrityError(f"{place} is corrupt: {reason}. Do not rely on this bundle.")


def unreadable_bundle_error(path: Path, error: OSError) -> StorageError:
    """The bundle cannot be read."""
    return StorageError(f"{_quote_path(path)} cannot be read: {error.strerror or error}.")


def _quote_path(path: Path) -> str:
    return paths.quote(str(path))
