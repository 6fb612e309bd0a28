"""What the seal of a run vouches for: its digests, its summary, its receipt.

Digests alone do not tell a forged summary: whoever changes it can compute them anew. The receipt
does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vibe_gate.domain import paths, receipt
from vibe_gate.domain.bundles import impossible
from vibe_gate.domain.document import parse_object
from vibe_gate.domain.event import fold_events
from vibe_gate.domain.summary import Summary, decode_summary
from vibe_gate.domain.upkeep import SealedDocuments
from vibe_gate.errors import StorageError
from vibe_gate.store import bundle_names
from vibe_gate.store.bundle_location import (
    BundleLocation,
    corrupt_bundle_error,
    parse_events,
    read_bundle_state,
    read_object,
    take_digests,
)
from vibe_gate.store.folder import Folder
from vibe_gate.store.ndjson_log import read_lines
from vibe_gate.store.patch_files import digest_sealed_file

_CHANGED = "it was changed after sealing"
_ADDED = "it was added after sealing"


def read_summary(document: Mapping[str, Any]) -> Summary:
    """A run's summary.json as a model. ValueError, also for an exit code that no review writes."""
    not_in_model = {"digests", "redacted"}
    fields = {name: value for name, value in document.items() if name not in not_in_model}
    summary = decode_summary(fields)
    require_possible_exit_code(summary)
    return summary


def require_possible_exit_code(summary: Summary) -> None:
    """ValueError: an exit code that no review of this outcome writes."""
    problem = impossible(summary.outcome, summary.exit_code)
    if problem:
        raise ValueError(problem)


def digest_vouched_files(bundle: Folder) -> dict[str, str]:
    """sha-256 by name relative to the bundle: the run's own files, and every file of every turn but
    its contents.

    Contents under `files/` are named by their hash. OSError.
    """
    digests = {}
    for entry in bundle_names.walk_bundle(bundle):
        if entry.is_vouched:
            digest = digest_sealed_file(entry.folder, entry.name, entry.base)
            digests[entry.sealed_name] = digest
    return digests


def digest_file(folder: Folder, name: str) -> str:
    """sha-256 in hex of a regular file, streamed. OSError."""
    with open(folder.reading(name), "rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_seal_fault(entry: bundle_names.Entry, sealed_digest: str | None) -> str:
    """What is wrong with a file whose sha-256 should be `sealed_digest` (None: it should not be
    there); "" if nothing.

    OSError.
    """
    if sealed_digest is None:
        return _ADDED
    if digest_sealed_file(entry.folder, entry.name, entry.base) == sealed_digest:
        return ""
    return _CHANGED


def find_receipt_fault(raw: bytes, document: Mapping[str, Any], files: Mapping[str, str]) -> str:
    """What is wrong with receipt.json; "" if nothing. Signatures are not checked.

    `document` is the summary as it is stored, without `digests`; `files` the digests without the
    receipt's own.
    """
    try:
        return receipt.contradiction(receipt.parse(raw).receipt, document, files)
    except (ValueError, RecursionError) as error:
        first_line = str(error).partition("\n")[0]
        return f"it is not a receipt: {first_line}"
    except (KeyError, TypeError):
        return "its receipt vouches for another summary"


def read_sealed_summary(run: BundleLocation) -> Summary:
    """The summary of a sealed run, after every file and the receipt were compared.

    StorageError: the run is not sealed, or cannot be read. IntegrityError.
    """
    sealed = read_sealed_documents(run)
    if sealed.receipt is not None:
        fault = find_receipt_fault(sealed.receipt, sealed.document, sealed.digests)
        if fault:
            raise corrupt_bundle_error(run.bare().path(bundle_names.RECEIPT), fault)
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
    receipt_digest = files.pop(bundle_names.RECEIPT, None)
    if receipt_digest is not None:
        raw = run.read(bundle_names.RECEIPT, receipt.MAX_BYTES)
        if hashlib.sha256(raw).hexdigest() != receipt_digest:
            raise ValueError(f"{bundle_names.RECEIPT} was changed after sealing")
        fault = find_receipt_fault(raw, document, files)
        if fault:
            raise ValueError(fault)
    return read_summary(document)


def rebuild_graph(run: Folder, digests: Mapping[str, str]) -> bytes | None:
    """graph.json as the run's events give it; None if that is not what was sealed. OSError."""
    if not run.has(bundle_names.EVENTS):
        return None
    if digest_file(run, bundle_names.EVENTS) != digests.get(bundle_names.EVENTS):
        return None
    try:
        events = parse_events(read_lines(run, bundle_names.EVENTS))
        data = fold_events(events).to_json().encode()
    except ValueError:
        return None
    is_as_sealed = hashlib.sha256(data).hexdigest() == digests.get(bundle_names.GRAPH)
    return data if is_as_sealed else None


def read_sealed_documents(run: BundleLocation) -> SealedDocuments:
    """A sealed run's documents as they are stored, after every file was compared. StorageError,
    IntegrityError.
    """
    bare = run.bare()
    folder = bare.folder()
    _require_sealed(bare.root, folder)
    document = bare.document(bundle_names.SUMMARY, parse_object)
    digests = take_digests(bare, document)
    try:
        missing_names = _compare_files(bare, folder, digests)
        raw_receipt = None
        if bundle_names.RECEIPT in digests:
            raw_receipt = folder.read(bundle_names.RECEIPT, receipt.MAX_BYTES)
        # A lost graph is no loss if the events give it, byte for byte: `bundles repair` writes it
        # again.
        if bundle_names.GRAPH in missing_names and rebuild_graph(folder, digests) is not None:
            missing_names.remove(bundle_names.GRAPH)
    except OSError as error:
        place = Path(error.filename or bare.root)
        raise corrupt_bundle_error(place, error.strerror or "it cannot be read") from error
    if missing_names:
        raise corrupt_bundle_error(bare.path(min(missing_names)), "it is missing")
    bare.parsed(bundle_names.SUMMARY, document, read_summary)
    digests.pop(bundle_names.RECEIPT, None)
    return SealedDocuments(document, digests, raw_receipt)


def _require_sealed(root: Path, folder: Folder) -> None:
    """StorageError: the run has no outcome. OSError."""
    state = read_bundle_state(folder)
    if state == "sealed":
        return
    description = "is incomplete: it ended before its verdict"
    if state == "running":
        description = "is still running"
    place = paths.quote(str(root))
    raise StorageError(f"The run in {place} {description}; there is no outcome to show.")


def _compare_files(run: BundleLocation, folder: Folder, digests: Mapping[str, str]) -> set[str]:
    """Compare every file of the run with its digest; the names of those that are not there.
    OSError, IntegrityError.
    """
    missing_names = set(digests)
    for entry in bundle_names.walk_bundle(folder):
        missing_names.discard(entry.sealed_name)
        if entry.is_vouched:
            fault = find_seal_fault(entry, digests.get(entry.sealed_name))
        elif entry.is_temporary or (entry.is_file and entry.part is not None):
            fault = ""
        else:
            fault = "no bundle has a file of that name"
        if fault:
            raise corrupt_bundle_error(run.path(entry.name), fault)
    return missing_names
