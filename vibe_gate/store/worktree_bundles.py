"""The runs of one working tree: listed, found, read. What else is done with them: gc, checking,
repair, archive.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_gate.domain.bundles import STORE, RunEntry, is_run_id
from vibe_gate.domain.leaving import may_leave
from vibe_gate.domain.upkeep import BatchRun
from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.store import bundle_names
from vibe_gate.store.bundle_listing import find_bundles, is_kept, read_entry
from vibe_gate.store.bundle_location import (
    BundleLocation,
    corrupt_bundle_error,
    read_object,
    refusal_reason,
)
from vibe_gate.store.bundle_seal import read_receipted_summary, read_sealed_documents, read_summary
from vibe_gate.store.folder import Folder
from vibe_gate.store.store_folder import (
    open_store_folder,
    require_untracked,
    store_folder,
    unreadable_store_error,
)

if TYPE_CHECKING:
    from typing import Unpack

    from vibe_gate.domain.bundles import Provenance, Wanted
    from vibe_gate.domain.summary import Summary
    from vibe_gate.domain.upkeep import SealedDocuments
    from vibe_gate.store.database.run_index import RunIndex


class Bundles:
    """The recorded runs of one working tree.

    `provenance` tells foreign runs; if git tracks files of the store nothing is written. `index`,
    if there is one, makes lists quick. Methods raise StorageError if the store cannot be read or
    written.
    """

    def __init__(self, root: Path, provenance: Provenance, index: RunIndex | None = None) -> None:
        self.root = root
        self.provenance = provenance
        self.index = index

    def find(
        self, limit: int | None = None, *, replays: bool = False, **conditions: Unpack[Wanted]
    ) -> list[RunEntry]:
        """The runs that meet all conditions, newest first, at most `limit`; all else as of
        `find_bundles`.
        """
        return find_bundles(
            self.root, self.provenance, self.index, limit, replays=replays, **conditions
        )

    def summary(self, entry: RunEntry) -> Summary | None:
        """The stored summary of a sealed run, believed as a list believes it; None if it cannot be
        read any more.
        """
        store = open_store_folder(self.root)
        if store is None:
            return None
        try:
            document = read_object(store.below(entry.place), bundle_names.SUMMARY)
            return read_summary(document)
        except (OSError, ValueError):
            return None

    def read_run(self, key: str, run_id: str) -> RunEntry:
        """The run, without a look at others. UsageError: there is none."""
        store = open_store_folder(self.root)
        try:
            if store is not None:
                return read_entry(store.folder(key), RunEntry(run_id, key, "corrupt"))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise unreadable_store_error(error) from error
        raise UsageError(f"There is no run {run_id} of {key}.")

    def in_batch(self, key: str, batch: str) -> Iterator[BatchRun]:
        """The key's sealed runs that belong to this batch, newest first, each read as by
        `receipted`.

        Opens no other key's runs. Foreign ones are left out.
        """
        store = open_store_folder(self.root)
        if store is None:
            return
        try:
            runs = store.folder(key)
        except OSError:  # there is none of it
            return
        for name in reversed(runs.folders()):
            if not is_run_id(name) or self.provenance.foreign(key, name):
                continue
            if not _is_of_batch(runs, name, batch):
                continue
            try:
                yield BatchRun(self.receipted(RunEntry(name, key)))
            except (IntegrityError, StorageError) as error:
                yield BatchRun(fault=str(error))

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Of several processes that do something about this key in such a block, one at a time
        does.

        The lock is the folder's, and ends with the process. If it cannot be made nobody waits.
        """
        with suppress(OSError, StorageError):
            folder = store_folder(self.root, lambda: self.provenance.tracked).folder(
                key, create=True
            )
            fcntl.flock(folder.fileno(), fcntl.LOCK_EX)
        yield  # the folder is closed, and its lock gone, when this is left

    def documents(self, entry: RunEntry) -> SealedDocuments:
        """A sealed run's summary, digests and receipt as they are stored, after every file was
        compared.

        StorageError: the run is not sealed, or cannot be read. IntegrityError: it is not what was
        sealed.
        """
        return read_sealed_documents(BundleLocation(self.root / entry.bundle, "", None))

    def receipted(self, entry: RunEntry) -> Summary:
        """The summary of a sealed run, if its receipt (a replay has none) and its place do not
        contradict it.

        Other files are not compared. Errors as of `documents`.
        """
        store = open_store_folder(self.root)
        if store is None:
            raise StorageError(f"There is no {STORE} here.")
        try:
            summary = read_receipted_summary(store.below(entry.place))
        except OSError as error:
            raise unreadable_store_error(error) from error
        except (ValueError, RecursionError) as error:
            raise corrupt_bundle_error(Path(entry.bundle), refusal_reason(error)) from error
        if (summary.run_id, summary.key) != (entry.run_id, entry.key):
            raise corrupt_bundle_error(Path(entry.bundle), "it belongs to another run")
        return summary

    def is_kept(self, entry: RunEntry) -> bool:
        """Whether `.vibe-keep`, in the run's folder or its key's, protects the run from
        cleaning.
        """
        store = open_store_folder(self.root)
        try:
            return store is not None and is_kept(store, entry)
        except OSError as error:
            raise unreadable_store_error(error) from error

    def may_leave(self, entry: RunEntry) -> bool:
        """Whether the run may leave this clone: no model was shown what people asked an agent for
        here.
        """
        store = open_store_folder(self.root)
        if store is None:
            return may_leave(None)
        try:
            document = read_object(store.below(entry.place), bundle_names.RUN)
        except (OSError, ValueError):  # whoever verifies it says so
            return True
        return may_leave(document.get("shown"))

    def keep(self, entry: RunEntry, off: bool = False) -> None:
        """Protect one run from cleaning, or with `off` stop to."""
        require_untracked(self.provenance.tracked)
        store = open_store_folder(self.root)
        if store is None:
            raise StorageError(f"There is no {STORE} here.")
        try:
            folder = store.below(entry.place)
            if off:
                folder.remove(bundle_names.KEEP)
            else:
                folder.place(bundle_names.KEEP, b"")
        except OSError as error:
            raise unreadable_store_error(error) from error

    @property
    def reports(self) -> Path:
        """Where reports are kept, or will be."""
        return self.root / STORE / bundle_names.REPORTS

    def keep_report(self, name: str, data: bytes) -> Path:
        """Write a report beside the runs and return its path; one of that name is replaced.
        StorageError.
        """
        try:
            folder = Folder.at(self.root).folder(STORE).folder(bundle_names.REPORTS, create=True)
            folder.place(name, data)
        except (OSError, ValueError) as error:
            raise unreadable_store_error(error) from error
        return folder.path / name


def _is_of_batch(runs: Folder, name: str, batch: str) -> bool:
    """Whether a sealed run says of itself that it belongs to the batch."""
    try:
        run = runs.folder(name)
        return (
            run.has(bundle_names.SUMMARY)
            and read_object(run, bundle_names.RUN).get("batch") == batch
        )
    except (OSError, ValueError):
        return False
