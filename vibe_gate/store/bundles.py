"""The runs of one working tree, and everything that is done with them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_gate.domain.bundles import PRIVATE, STORE, RunEntry, is_run_id
from vibe_gate.domain.upkeep import BatchRun
from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.store import names
from vibe_gate.store.artifacts import open_store_folder, require_untracked, store_folder, unreadable
from vibe_gate.store.bundle import (
    BundleLocation,
    corrupt,
    documents_of,
    read_object,
    read_summary,
    reason,
    receipted_summary,
)
from vibe_gate.store.folder import Folder
from vibe_gate.store.runs import find_bundles, is_kept, read_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime
    from typing import Unpack

    from vibe_gate.domain.attempt import TestedRun
    from vibe_gate.domain.bundles import Provenance, Wanted
    from vibe_gate.domain.gate import Retention
    from vibe_gate.domain.summary import Summary
    from vibe_gate.domain.upkeep import Cleaned, Imported, Repaired, SealedDocuments, StoreUsage, Verified
    from vibe_gate.store.database.run_index import RunIndex
    from vibe_gate.store.extracts import Extracts
    from vibe_gate.store.pages import PagesFolder
    from vibe_gate.store.state import State
    from vibe_gate.store.takeover import TakenOver


ALL = "all"
"""The folder of the pages of all runs, among the reports."""


class Bundles:
    """The recorded runs of one working tree: listed, found, checked, cleaned, moved.

    `provenance` tells foreign runs; where git tracks files of the store nothing is written. Methods raise
    StorageError if the store cannot be read or written.
    """

    def __init__(self, root: Path, provenance: Provenance, index: RunIndex | None = None) -> None:
        self.root = root
        self.provenance = provenance
        self._index = index

    def runs(self) -> list[RunEntry]:
        """Every run but replays, newest first. Foreign runs have no outcome."""
        return self.find()

    def find(self, limit: int | None = None, *, replays: bool = False, **wanted: Unpack[Wanted]) -> list[RunEntry]:
        """The runs that are as `wanted`, newest first, at most `limit`; `replays`, UsageError as of `find_bundles`."""
        return find_bundles(self.root, self.provenance, self._index, limit, replays=replays, **wanted)

    def summary(self, entry: RunEntry) -> Summary | None:
        """The stored summary of a sealed run, believed as a list believes it; None if it cannot be read any more."""
        store = open_store_folder(self.root)
        try:
            return None if store is None else read_summary(read_object(store.below(entry.place), names.SUMMARY))
        except (OSError, ValueError):
            return None

    def one(self, key: str, run_id: str) -> RunEntry:
        """The run, without a look at others. UsageError: there is none."""
        store = open_store_folder(self.root)
        try:
            if store is not None:
                return read_entry(store.folder(key), RunEntry(run_id, key, "corrupt"))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise unreadable(error) from error
        raise UsageError(f"There is no run {run_id} of {key}.")

    def tested(self, entry: RunEntry) -> TestedRun | None:
        """What the run was for a test; None: it was no test's, or what says so cannot be read."""
        if not os.path.lexists(self.root / entry.bundle / names.ANNOTATIONS):
            return None  # most runs: ten thousand are asked at once
        from vibe_gate.store import tested

        store = open_store_folder(self.root)
        try:
            return None if store is None else tested.find(store.below(entry.place))
        except (OSError, ValueError):
            return None

    def note_test(self, entry: RunEntry, run: TestedRun, at: datetime) -> None:
        """Write into the run's annotations what it was for a test; `run` is redacted."""
        from vibe_gate.store import tested

        self._require_untracked()
        store = open_store_folder(self.root)
        if store is None:
            raise StorageError(f"There is no {STORE} here.")
        try:
            tested.write(store.below(entry.place), run, at)
        except OSError as error:
            raise unreadable(error) from error

    @contextmanager
    def extracts(self, form: int, make: Callable[[Summary], str]) -> Iterator[Extracts]:
        """Texts that `make` makes of summaries, each once: the index keeps them. `form` as of `Extracts`."""
        from vibe_gate.store.extracts import Extracts

        found = Extracts(self, self._index, form, make)
        yield found
        found.keep()

    def in_batch(self, key: str, batch: str) -> Iterator[BatchRun]:
        """The key's sealed runs that belong to this batch, newest first, each read as by `receipted`.

        Opens no other key's runs. Foreign ones are left out.
        """
        store = open_store_folder(self.root)
        try:
            runs = None if store is None else store.folder(key)
        except OSError:  # there is none of it
            return
        for name in reversed(runs.folders() if runs else []):
            if is_run_id(name) and not self.provenance.foreign(key, name) and runs and _is_of_batch(runs, name, batch):
                try:
                    yield BatchRun(self.receipted(RunEntry(name, key)))
                except (IntegrityError, StorageError) as error:
                    yield BatchRun(fault=str(error))

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Of several processes that do something about this key in such a block, one at a time does.

        The lock is the folder's, and ends with the process. If it cannot be made nobody waits.
        """
        with suppress(OSError, StorageError):
            folder = store_folder(self.root, lambda: self.provenance.tracked).folder(key, create=True)
            fcntl.flock(folder.fileno(), fcntl.LOCK_EX)
        yield  # the folder is closed, and its lock gone, when this is left

    def documents(self, entry: RunEntry) -> SealedDocuments:
        """A sealed run's summary, digests and receipt as they are stored, after every file was compared.

        StorageError: the run is not sealed, or cannot be read. IntegrityError: it is not what was sealed.
        """
        return documents_of(BundleLocation(self.root / entry.bundle, "", None))

    def receipted(self, entry: RunEntry) -> Summary:
        """The summary of a sealed run, if its receipt (a replay has none) and its place do not contradict it.

        Other files are not compared. Errors as of `documents`.
        """
        store = open_store_folder(self.root)
        if store is None:
            raise StorageError(f"There is no {STORE} here.")
        try:
            summary = receipted_summary(store.below(entry.place))
        except OSError as error:
            raise unreadable(error) from error
        except (ValueError, RecursionError) as error:
            raise corrupt(Path(entry.bundle), reason(error)) from error
        if (summary.run_id, summary.key) != (entry.run_id, entry.key):
            raise corrupt(Path(entry.bundle), "it belongs to another run")
        return summary

    def is_kept(self, entry: RunEntry) -> bool:
        """Whether `.vibe-keep`, in the run's folder or its key's, protects the run from cleaning."""
        store = open_store_folder(self.root)
        try:
            return store is not None and is_kept(store, entry)
        except OSError as error:
            raise unreadable(error) from error

    def stays(self, entry: RunEntry) -> bool:
        """Whether the run has what people asked an agent for, which may not leave this clone."""
        store = open_store_folder(self.root)
        try:
            shown = None if store is None else read_object(store.below(entry.place), names.RUN).get("shown")
        except (OSError, ValueError):  # whoever verifies it says so
            return False
        return isinstance(shown, dict) and PRIVATE in shown.values()

    def keep(self, entry: RunEntry, off: bool = False) -> None:
        """Protect one run from cleaning, or with `off` stop to."""
        self._require_untracked()
        store = open_store_folder(self.root)
        if store is None:
            raise StorageError(f"There is no {STORE} here.")
        try:
            folder = store.below(entry.place)
            if off:
                folder.remove(names.KEEP)
            else:
                folder.place(names.KEEP, b"")
        except OSError as error:
            raise unreadable(error) from error

    def usage(self) -> StoreUsage:
        """What the store takes on the disk."""
        from vibe_gate.store.gc import usage

        return usage(self.root)

    def clean(self, rules: Retention, dry_run: bool = False) -> Cleaned:
        """Delete the runs that `rules` give up; with `dry_run` only say which."""
        from vibe_gate.store.gc import clean

        if not dry_run:
            self._require_untracked()
        return clean(self.root, rules, self.provenance.now, dry_run, self.provenance)

    def verify(self, runs: Collection[RunEntry] | None = None) -> Verified:
        """Everything that is wrong with the store, or with some of its runs."""
        from vibe_gate.store.checking import verify

        return verify(self.root, self.provenance, runs)

    def repair(self, runs: Collection[RunEntry] | None = None) -> Repaired:
        """Repair the store, or some of its runs; what cannot be repaired is moved aside, nothing is deleted."""
        from vibe_gate.store.repair import repair

        self._require_untracked()
        return repair(self.root, self.provenance, runs)

    def take_over(self, top: Path, state: State) -> TakenOver:
        """Move what the linked worktree at `top` keeps into this store."""
        from vibe_gate.store.takeover import take_over_store

        self._require_untracked()
        return take_over_store(top, self.root, state)

    def export(self, runs: Collection[RunEntry], target: Path) -> int:
        """Write runs into one new archive, each verified before; its size in bytes. UsageError, IntegrityError."""
        from vibe_gate.store.archive import export_runs

        return export_runs(self.root, self.provenance, runs, target)

    def import_archive(self, archive: Path) -> Imported:
        """Bring the runs of an archive into the store: all, or none if one is wrong. UsageError, IntegrityError."""
        from vibe_gate.store.archive import import_runs

        return import_runs(self.root, self.provenance, archive)

    @property
    def reports(self) -> Path:
        """Where reports are kept, or will be."""
        return self.root / STORE / names.REPORTS

    def keep_report(self, name: str, data: bytes) -> Path:
        """Write a report beside the runs and return its path; one of that name is replaced. StorageError."""
        try:
            folder = Folder.at(self.root).folder(STORE).folder(names.REPORTS, create=True)
            folder.place(name, data)
        except (OSError, ValueError) as error:
            raise unreadable(error) from error
        return folder.path / name

    def pages(self, path: Path | None = None, known: Iterable[RunEntry] = ()) -> PagesFolder:
        """A folder for the pages of many runs, made if it is missing; None: beside the runs, `reports/all`.

        `known`: all runs, of which several may have one id. UsageError: it has files of others. StorageError.
        """
        from vibe_gate.store.pages import PagesFolder, unwritable

        try:
            if path is not None:
                path.mkdir(exist_ok=True)
                return PagesFolder(Folder.at(path), self.root, known)
            store = store_folder(self.root, lambda: self.provenance.tracked)
            reports = store.folder(names.REPORTS, create=True)
            return PagesFolder(reports.folder(ALL, create=True), self.root, known)
        except OSError as error:
            raise unwritable(path or self.root / STORE, error) from error

    def _require_untracked(self) -> None:
        require_untracked(self.provenance.tracked)


def _is_of_batch(runs: Folder, name: str, batch: str) -> bool:
    """Whether a sealed run says of itself that it belongs to the batch."""
    try:
        run = runs.folder(name)
        return run.has(names.SUMMARY) and read_object(run, names.RUN).get("batch") == batch
    except (OSError, ValueError):
        return False
