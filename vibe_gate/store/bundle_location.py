"""Where a bundle is that is read, and what its seal vouches for. Every byte of a bundle is somebody
else's.

Nothing is followed out of the folder that the user named, documents and lines have a largest size,
and what a sealed run vouches for is compared while it is read. Digests alone do not tell a forged
summary: whoever changes it can compute them anew. The receipt does.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from msgspec import Struct, convert

from vibe_gate.domain import paths, receipt
from vibe_gate.domain.bundles import impossible
from vibe_gate.domain.document import first_mistake, parse_object, read
from vibe_gate.domain.event import MAX_EVENTS, Event, fold
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.upkeep import SealedDocuments
from vibe_gate.errors import IntegrityError, StorageError
from vibe_gate.store import bundle_names
from vibe_gate.store.folder import Folder
from vibe_gate.store.ndjson_log import MAX_DOCUMENT_BYTES, Lock, read_lines

S = TypeVar("S")
T = TypeVar("T")

BundleState = Literal["sealed", "running", "incomplete"]
Record = dict[str, Any]
Reload = Callable[[], Record]
"""Reads a line of a log again, whole. StorageError; IntegrityError if it is another one now."""


class BundleLocation(Struct, frozen=True):
    """A bundle's folder: `root` as the user named it, `inside` it "" or `nodes/<node id>/<turn>`.

    `digests` has the sha-256 of the bundle's own files by name, if a sealed run
    vouches for them; None if nothing does.
    """

    root: Path
    inside: str
    digests: Mapping[str, str] | None

    @property
    def directory(self) -> Path:
        """For people and messages; nothing is opened through it."""
        return self.root / self.inside if self.inside else self.root

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
            data = read_whole(self.folder(), name)
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
        seen = hashlib.sha256()
        offset = 0
        try:
            for line in read_lines(self.folder(), name, seen.update):
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
        self.compare(name, seen.hexdigest())

    def records(self, name: str) -> Iterator[tuple[Record, Reload]]:
        """The lines of a log as objects, each with the way to read it again. Errors as of
        `lines`.
        """
        for offset, line in self.lines(name):
            yield (
                self.parsed(name, line, parse_object),
                partial(self._again, name, offset, len(line), hash(line)),
            )

    def _again(self, name: str, offset: int, size: int, mark: int) -> Record:
        line = self.read_at(name, offset, size)
        if hash(line) != mark:
            raise corrupt_bundle_error(
                self.path(name), f"the line at byte {offset} changed since it was read"
            )
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
        if self.digests is not None and self.digests.get(name) != digest:
            known = name in self.digests
            raise corrupt_bundle_error(
                self.path(name),
                "it was changed after sealing" if known else "it was added after sealing",
            )

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
            return turn_locator(_run(run))(absolute.parent.name, absolute.name)
    return _run(absolute)


def turn_locator(run: BundleLocation) -> Callable[[str, str], BundleLocation]:
    """Gives the locations of a run's turns by node id and turn; what the run vouches for is read
    once for all of them.

    The names come from a log, so they are checked before they become folders: IntegrityError.
    """
    vouched = _vouched(run) if run.digests is not None else None

    def location(node_id: str, turn: str) -> BundleLocation:
        inside = f"nodes/{node_id}/{turn}"
        if not bundle_names.is_turn(inside):
            raise corrupt_bundle_error(
                run.path(bundle_names.EVENTS), "it names a node or turn that cannot be a folder"
            )
        return BundleLocation(
            run.root, inside, None if vouched is None else _below(vouched, inside + "/")
        )

    return location


def _run(root: Path) -> BundleLocation:
    bare = BundleLocation(root, "", None)
    folder = bare.folder()
    if not any(
        folder.has(name) for name in (bundle_names.RUN, bundle_names.SUMMARY, bundle_names.EVENTS)
    ):
        raise StorageError(f"{_shown(root)} is not a bundle: neither a run's folder nor a turn's.")
    if not folder.has(bundle_names.SUMMARY) or not folder.has(bundle_names.RUN):
        return bare
    return BundleLocation(root, "", _below(_vouched(bare), ""))


def _vouched(run: BundleLocation) -> dict[str, str]:
    return _digests(run, run.bare().document(bundle_names.SUMMARY, parse_object))


def _digests(run: BundleLocation, document: dict[str, Any]) -> dict[str, str]:
    """Take the digests out of a run's summary."""
    digests = document.pop("digests", None)
    if not isinstance(digests, dict):
        raise corrupt_bundle_error(run.path(bundle_names.SUMMARY), "it vouches for no files")
    return {str(name): str(digest) for name, digest in digests.items()}


def _below(digests: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Of the files that lie directly in the folder `prefix`."""
    own = (
        (name[len(prefix) :], digest) for name, digest in digests.items() if name.startswith(prefix)
    )
    return {name: digest for name, digest in own if "/" not in name}


def read_object(folder: Folder, name: str) -> dict[str, Any]:
    """A JSON document. OSError, ValueError."""
    return parse_object(read_whole(folder, name))


def read_whole(folder: Folder, name: str) -> bytes:
    """A whole file that is no larger than a document may be. OSError; ValueError: it is larger."""
    data = folder.read(name, MAX_DOCUMENT_BYTES)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"it is larger than {MAX_DOCUMENT_BYTES:,} bytes")
    return data


def parse_events(written: Iterable[bytes]) -> Iterator[Event]:
    """The events of a run's log.

    ValueError, with the number of the line, for one that is not an event, and for more than any run
    has.
    """
    for number, line in enumerate(written, start=1):
        if number > MAX_EVENTS:
            raise ValueError(f"it has more than {MAX_EVENTS:,} events")
        try:
            event = convert(parse_object(line), Event)
        except ValueError as error:
            raise ValueError(f"entry {number}: {refusal_reason(error)}") from error
        if event.seq != number:
            raise ValueError(f"entry {number}: it has seq {event.seq}")
        yield event


def read_summary(document: Mapping[str, Any]) -> Summary:
    """A run's summary.json as a model. ValueError, also for an exit code that no review writes."""
    known = {name: value for name, value in document.items() if name not in {"digests", "redacted"}}
    summary = read(Summary, known)
    require_possible_exit_code(summary)
    return summary


def require_possible_exit_code(summary: Summary) -> None:
    """ValueError: an exit code that no review of this outcome writes."""
    if why := impossible(summary.outcome, summary.exit_code):
        raise ValueError(why)


def digest_vouched_files(bundle: Folder) -> dict[str, str]:
    """sha-256 by name relative to the bundle: the run's own files, and every file of every turn but
    its contents.

    Contents under `files/` are named by their hash. OSError.
    """
    return {
        entry.name: digest_file(entry.folder, entry.base)
        for entry in bundle_names.walk_bundle(bundle)
        if entry.is_vouched
    }


def digest_file(folder: Folder, name: str) -> str:
    """sha-256 in hex of a regular file, streamed. OSError."""
    with open(folder.reading(name), "rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_seal_fault(entry: bundle_names.Entry, vouched: str | None) -> str:
    """What is wrong with a file whose sha-256 should be `vouched` (None: it should not be there);
    "" if nothing.

    OSError.
    """
    if vouched is None:
        return "it was added after sealing"
    return (
        "" if digest_file(entry.folder, entry.base) == vouched else "it was changed after sealing"
    )


def find_receipt_fault(raw: bytes, document: Mapping[str, Any], files: Mapping[str, str]) -> str:
    """What is wrong with receipt.json; "" if nothing. Signatures are not checked.

    `document` is the summary as it is stored, without `digests`; `files` the digests without the
    receipt's own.
    """
    try:
        return receipt.contradiction(receipt.parse(raw).receipt, document, files)
    except (ValueError, RecursionError) as error:
        return f"it is not a receipt: {str(error).partition(chr(10))[0]}"
    except (KeyError, TypeError):
        return "its receipt vouches for another summary"


def read_sealed_summary(run: BundleLocation) -> Summary:
    """The summary of a sealed run, after every file and the receipt were compared.

    StorageError: the run is not sealed, or cannot be read. IntegrityError.
    """
    sealed, bare = read_sealed_documents(run), run.bare()
    raw = sealed.receipt
    if raw is not None and (why := find_receipt_fault(raw, sealed.document, sealed.digests)):
        raise corrupt_bundle_error(bare.path(bundle_names.RECEIPT), why)
    return read_summary(sealed.document)


def read_receipted_summary(run: Folder) -> Summary:
    """The summary of a sealed run, after its receipt, if it has one, and run.json were compared,
    not the other files.

    For thousands of runs of which no other file is used. OSError; ValueError: why it is not what
    was sealed.
    """
    document = read_object(run, bundle_names.SUMMARY)
    files = document.pop("digests", None)
    if not isinstance(files, dict):
        raise ValueError(f"{bundle_names.SUMMARY} vouches for no files")
    if digest_file(run, bundle_names.RUN) != files.get(bundle_names.RUN):
        raise ValueError(f"{bundle_names.RUN} was changed after sealing")
    if (sealed := files.pop(bundle_names.RECEIPT, None)) is not None:
        raw = run.read(bundle_names.RECEIPT, receipt.MAX_BYTES)
        changed = hashlib.sha256(raw).hexdigest() != sealed
        if (
            why := f"{bundle_names.RECEIPT} was changed after sealing"
            if changed
            else find_receipt_fault(raw, document, files)
        ):
            raise ValueError(why)
    return read_summary(document)


def rebuild_graph(run: Folder, vouched: Mapping[str, str]) -> bytes | None:
    """graph.json as the run's events give it; None if that is not what was sealed. OSError."""
    if not run.has(bundle_names.EVENTS) or digest_file(run, bundle_names.EVENTS) != vouched.get(
        bundle_names.EVENTS
    ):
        return None
    try:
        data = fold(parse_events(read_lines(run, bundle_names.EVENTS))).to_json().encode()
    except ValueError:
        return None
    return data if hashlib.sha256(data).hexdigest() == vouched.get(bundle_names.GRAPH) else None


def read_sealed_documents(run: BundleLocation) -> SealedDocuments:
    """A sealed run's documents as they are stored, after every file was compared. StorageError,
    IntegrityError.
    """
    bare = run.bare()
    folder = bare.folder()
    if (state := read_bundle_state(folder)) != "sealed":
        what = (
            "is still running"
            if state == "running"
            else "is incomplete: it ended before its verdict"
        )
        raise StorageError(f"The run in {_shown(bare.root)} {what}; there is no outcome to show.")
    document = bare.document(bundle_names.SUMMARY, parse_object)
    files = _digests(bare, document)
    missing = dict(files)
    try:
        for entry in bundle_names.walk_bundle(folder):
            vouched = missing.pop(entry.name, None)
            if entry.is_vouched:
                why = find_seal_fault(entry, vouched)
            else:
                is_known = (entry.is_file and entry.part is not None) or entry.is_temporary
                why = "" if is_known else "no bundle has a file of that name"
            if why:
                raise corrupt_bundle_error(bare.path(entry.name), why)
        vouching = (
            folder.read(bundle_names.RECEIPT, receipt.MAX_BYTES)
            if bundle_names.RECEIPT in files
            else None
        )
        if bundle_names.GRAPH in missing and rebuild_graph(folder, files) is not None:
            del missing[
                bundle_names.GRAPH
            ]  # the events say the same, byte for byte; `bundles repair` writes it again
    except OSError as error:
        raise corrupt_bundle_error(
            Path(error.filename or bare.root), error.strerror or "it cannot be read"
        ) from error
    if missing:
        raise corrupt_bundle_error(bare.path(min(missing)), "it is missing")
    bare.parsed(bundle_names.SUMMARY, document, read_summary)
    files.pop(bundle_names.RECEIPT, None)
    return SealedDocuments(document, files, vouching)


def read_bundle_state(bundle: Folder, run: Folder | None = None) -> BundleState:
    """`sealed` has a summary, `running` a living writer, `incomplete` neither. OSError. `run`: that
    of a turn.
    """
    if not bundle.has(bundle_names.SUMMARY):
        if Lock.is_held(run or bundle):
            return "running"
        if not bundle.has(bundle_names.SUMMARY):  # it may have been sealed between two looks
            return "incomplete"
    return "sealed"


def open_bundle_folder(root: Path) -> Folder:
    """The folder itself, which may be no link. StorageError."""
    try:
        return Folder.at(root.parent).folder(root.name)
    except OSError as error:
        raise StorageError(f"{_shown(root)} cannot be opened: {error.strerror}.") from error
    except ValueError as error:  # "/", or a NUL
        raise StorageError(
            f"{_shown(root)} cannot be opened: no bundle can have that name."
        ) from error


def refusal_reason(error: Exception) -> str:
    """Why a document was refused, in a few words."""
    if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)) or not isinstance(
        error, ValueError
    ):
        return "it is not a document of vibe-gate"
    return first_mistake(error)


def corrupt_bundle_error(path: Path, why: str) -> IntegrityError:
    """The bundle is not what was written, `why` in a few words."""
    return IntegrityError(f"{_shown(path)} is corrupt: {why}. Do not rely on this bundle.")


def unreadable_bundle_error(path: Path, error: OSError) -> StorageError:
    """The bundle cannot be read."""
    return StorageError(f"{_shown(path)} cannot be read: {error.strerror or error}.")


def _shown(path: Path) -> str:
    return paths.quote(str(path))
