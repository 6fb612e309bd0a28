"""The store of a working tree, open for writing: runs begin in it, and go on in it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vibe_gate.domain import unredacted_fields
from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.document import iso
from vibe_gate.errors import GateError, StorageError
from vibe_gate.store import bundle_names
from vibe_gate.store.contents import CountingRedactor
from vibe_gate.store.folder import Folder
from vibe_gate.store.ndjson_log import Lock, encode_line
from vibe_gate.store.recording_status import RecordingStatus, explain_recording_failure
from vibe_gate.store.run_recorder import Clock, RunParts, RunRecorder
from vibe_gate.store.run_reopening import reopen_run
from vibe_gate.store.store_folder import store_folder

if TYPE_CHECKING:
    from vibe_gate.domain.gate import Retention
    from vibe_gate.domain.upkeep import Cleaned

CLEAN_EVERY = timedelta(days=1)
"""How often a store is cleaned after a review."""

_IDS_TRIED = 1000  # runs of one change in one millisecond; beyond that something else is wrong


def open_store(
    root: Path,
    redact: CountingRedactor,
    clock: Clock,
    tracked: Callable[[], Collection[str]] = tuple,
) -> Store:
    """The store below `root`, the top of the working tree; made on first use, ignoring itself.

    `tracked` asks git which files of the store it tracks; it is called if there is a store already.
    If the store cannot be written (read-only, full, tracked by git, or a link or .gitignore that a
    hostile repository has committed in its place), it opens all the same, and its runs are
    unrecorded: nothing in a repository may keep a verdict from being reported.
    """
    try:
        return Store(root, store_folder(root, tracked), redact, clock)
    except (OSError, StorageError) as error:
        return Store(root, explain_recording_failure(error), redact, clock)


class Store:
    """Begins runs. Safe for several processes at once."""

    def __init__(
        self, root: Path, folder: Folder | str, redact: CountingRedactor, clock: Clock
    ) -> None:
        """`folder`: the store's, or the sentence that says why nothing can be written."""
        self.root = root
        self._folder = folder
        self._redact = redact
        self._clock = clock

    def begin(self, key: str, now: datetime, fields: Mapping[str, Any]) -> RunRecorder:
        """Start a run of the change `key` (commit, or `tree-<tree>`): its folder, run.json,
        run.created.

        `fields` are what run.json says besides schema, run_id, key and created_at. A run that cannot
        be recorded begins all the same, with `lost` set. What interrupts it, its deadline for one,
        is raised.
        """
        if not bundle_names.is_key(bundle_names.require_folder_name(key, "the key of a change")):
            raise ValueError(f"{key!r} is a name of the store itself")
        try:
            recorder = self._begin(self._opened(), key, now, fields)
        # As in RecordingStatus: a run that cannot be recorded is no failure.
        except Exception as error:
            if isinstance(error, GateError) and not isinstance(error, StorageError):
                raise  # the run's deadline, say
            run_id = bundle_names.make_run_id(now, key.encode(), 0)
            return RunRecorder(
                self.root, key, run_id, None, RecordingStatus(explain_recording_failure(error))
            )
        recorder.event("run.created", key=key)
        return recorder

    def reopen(self, key: str, run_id: str, spent_usd: float = 0.0) -> RunRecorder:
        """Go on with a run whose writer died, in its own bundle; `earlier` of what comes back says
        what it came to.

        `spent_usd` is what the run cost until now: what its turns do not account for is its cut
        turns'. UsageError: the run is sealed. StorageError: its writer lives, or it cannot be
        written. IntegrityError: its log is corrupt.
        """
        return reopen_run(
            self.root, self._opened(), key, run_id, self._redact, self._clock, spent_usd
        )

    def captures(self) -> Folder | None:
        """The folder of captured sessions, made if it is missing; None if nothing can be
        written.
        """
        try:
            return self._opened(bundle_names.CAPTURES)
        except StorageError:
            return None

    def sessions(self) -> Folder:
        """The folder of our agents' conversations, made if it is missing. StorageError if nothing
        can be written.
        """
        return self._opened(bundle_names.CONVERSATIONS)

    def _opened(self, name: str = "") -> Folder:
        """The store's folder, or the folder `name` in it, made if it is missing. StorageError."""
        if isinstance(self._folder, str):
            raise StorageError(self._folder)
        try:
            return self._folder.below(name, create=True)
        except OSError as error:
            raise StorageError(f"{STORE}/{name} cannot be used: {error.strerror}.") from error

    def clean_if_due(self, rules: Retention) -> Cleaned | None:
        """Delete what `rules` give up, if that was not done for a day; None if it was not due.

        For after a review, never before one: creating files right after a mass delete is 30-40
        times slower on ext4 for a minute. StorageError.
        """
        if isinstance(self._folder, str) or not self._is_due(self._folder):
            return None
        from vibe_gate.store.store_cleaning import clean_store

        try:  # noted before it is done: of several reviews that end at once, one cleans
            self._folder.place(bundle_names.CLEANED, f"{iso(self._clock())}\n".encode())
        except OSError as error:
            raise StorageError(f"{STORE} cannot be cleaned: {error.strerror}.") from error
        return clean_store(self.root, rules, self._clock())

    def _is_due(self, folder: Folder) -> bool:
        try:
            last = datetime.fromisoformat(folder.read(bundle_names.CLEANED, 64).decode().strip())
            age = self._clock() - last
        except (OSError, ValueError, TypeError):
            return True
        # A time to come is of another clock.
        return age < timedelta() or age >= CLEAN_EVERY

    def _begin(
        self, store: Folder, key: str, now: datetime, fields: Mapping[str, Any]
    ) -> RunRecorder:
        redact = self._redact.part()
        safe = unredacted_fields.redacted(dict(fields), unredacted_fields.ABOUT, redact.value)
        run_id, folder, lock = _claim_run(store, key, now, encode_line(safe))
        head = {"schema": 1, "run_id": run_id, "key": key, "created_at": iso(now)}
        folder.place(bundle_names.RUN, encode_line(head | safe | head))
        parts = RunParts(folder, redact, self._clock, lock)
        return RunRecorder(self.root, key, run_id, parts, RecordingStatus())


def _claim_run(store: Folder, key: str, now: datetime, seed: bytes) -> tuple[str, Folder, Lock]:
    """A new run's folder under its lock. OSError."""
    for attempt in range(_IDS_TRIED):
        run_id = bundle_names.make_run_id(now, key.encode() + b" " + seed, attempt)
        # Another run has that id, or a cleaner takes the folder, or the key's, before it is locked.
        with contextlib.suppress(FileExistsError, FileNotFoundError, BlockingIOError):
            runs = store.folder(key, create=True)
            folder = runs.make(run_id)
            lock = Lock(folder)
            if runs.has(run_id):
                return run_id, folder, lock
            lock.release()
    raise OSError(f"{_IDS_TRIED} runs of {key} began in one millisecond")
