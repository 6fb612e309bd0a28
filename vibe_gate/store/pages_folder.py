"""A folder with the pages of many runs: an index, and a page of each run below `runs/`.

Nothing of others is written over: the folder was empty when the first page came, or has our mark.
Links below it are not followed.
"""

from __future__ import annotations

import os
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import STORE
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.store import bundle_names
from vibe_gate.store.folder import TEMPORARY, Folder
from vibe_gate.store.store_folder import store_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vibe_gate.domain.bundles import RunEntry
    from vibe_gate.store.worktree_bundles import Bundles

ALL = "all"
"""The folder of the pages of all runs, among the reports."""

INDEX = "index.html"
RUNS = "runs"
MARK = ".vibe-gate-site"

_DIGITS = 16
"""Hex digits of a run's place: whoever makes a bundle chooses its key, and of few digits finds one
that agrees.
"""


def open_pages(
    bundles: Bundles, path: Path | None = None, all_runs: Iterable[RunEntry] = ()
) -> PagesFolder:
    """A folder for the pages of many runs, made if it is missing; None: beside the runs,
    `reports/all`.

    `all_runs`: several may have one id. UsageError: it has files of others.
    StorageError.
    """
    try:
        if path is not None:
            path.mkdir(exist_ok=True)
            return PagesFolder(Folder.at(path), bundles.root, all_runs)
        store = store_folder(bundles.root, lambda: bundles.provenance.tracked)
        reports = store.folder(bundle_names.REPORTS, create=True)
        return PagesFolder(reports.folder(ALL, create=True), bundles.root, all_runs)
    except OSError as error:
        raise unwritable_pages_error(path or bundles.root / STORE, error) from error


class PagesFolder:
    """The folder, open. Methods raise StorageError if it cannot be read or written."""

    def __init__(self, folder: Folder, root: Path, all_runs: Iterable[RunEntry] = ()) -> None:
        """`root`: the working tree with the store; `all_runs`: several may have one id, for what is
        imported may have any. UsageError: there are files of others.
        """
        self._folder = folder
        self._root = root
        self._count_by_run_id = Counter(entry.run_id for entry in all_runs)
        try:
            if not folder.has(MARK):
                if any(not entry.name.startswith(TEMPORARY) for entry in folder.entries()):
                    raise UsageError(
                        f"{paths.quote(str(folder.path))} has files that vibe-gate did not write; name an empty "
                        "folder, or one that does not exist."
                    )
                folder.place(MARK, b"vibe-gate report --all writes here.\n")
            self._runs = folder.folder(RUNS, create=True)
            # Who may look into the folder may read the pages.
            self._mode = os.fstat(folder.fileno()).st_mode & 0o777
            os.fchmod(self._runs.fileno(), self._mode)
            self._pages = {
                entry.name: entry.stat(follow_symlinks=False).st_mtime_ns
                for entry in self._runs.entries()
            }
        except OSError as error:
            raise unwritable_pages_error(folder.path, error) from error

    @property
    def index(self) -> Path:
        """Where the index is, or will be."""
        return self._folder.path / INDEX

    @property
    def runs(self) -> Path:
        """The folder of the runs' pages."""
        return self._folder.path / RUNS

    def address_of(self, entry: RunEntry) -> str:
        """The address of the run's page from the index; "" if there is none."""
        name = self._name(entry)
        return f"{RUNS}/{name}" if name in self._pages else ""

    def is_current(self, entry: RunEntry) -> bool:
        """Whether the run has a page, and nothing was added to the run since."""
        written_ns = self._pages.get(self._name(entry))
        if written_ns is None:
            return False
        try:
            return written_ns >= os.lstat(self._root / entry.bundle).st_mtime_ns
        except OSError:
            return True

    def put_page(self, entry: RunEntry, text: str) -> None:
        """Write the run's page, whole or not at all."""
        name = self._name(entry)
        self._put(self._runs, name, text)
        self._pages[name] = self._runs.status(name).st_mtime_ns

    def put(self, name: str, text: str) -> None:
        """Write a page of that name below `runs`, whole or not at all."""
        self._put(self._runs, name, text)

    def put_index(self, text: str) -> None:
        """Write the index, whole or not at all."""
        self._put(self._folder, INDEX, text)

    def _name(self, entry: RunEntry) -> str:
        if self._count_by_run_id[entry.run_id] <= 1:
            return f"{entry.run_id}.html"
        place_digest = sha256(entry.place.encode()).hexdigest()[:_DIGITS]
        return f"{entry.run_id}-{place_digest}.html"

    def _put(self, folder: Folder, name: str, text: str) -> None:
        try:
            folder.place(name, text.encode("utf-8", "replace"))
            os.chmod(name, self._mode & 0o666, dir_fd=folder.fileno(), follow_symlinks=False)
        except OSError as error:
            raise unwritable_pages_error(folder.path, error) from error


def unwritable_pages_error(folder: Path, error: OSError) -> StorageError:
    """Nothing can be written there."""
    return StorageError(f"{paths.quote(str(folder))} cannot be read or written: {error.strerror}.")
