"""Which bundles are deleted: by their recorded age, and the oldest while the disk is too full.

A run is first renamed into `trash/`, so that nobody ever sees half of one, and then removed.
`.vibe-keep` in its folder, or in its key's, keeps it. A run whose lock is held is being written and
is left alone; so is a foreign one.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from vibe_gate.domain.bundles import STORE, Provenance, RunEntry
from vibe_gate.domain.document import FIRST_YEAR, LAST_YEAR, first_mistake, read
from vibe_gate.domain.gate import Retention
from vibe_gate.domain.upkeep import Cleaned, KeyUsage, StoreUsage
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.store import bundle_names
from vibe_gate.store.bundle_listing import bare_entries, is_kept, require_time
from vibe_gate.store.bundle_location import read_bundle_state
from vibe_gate.store.captures import MAX_AGE, read_meta
from vibe_gate.store.folder import Folder
from vibe_gate.store.ndjson_log import Lock
from vibe_gate.store.store_folder import lock_store, open_store_folder, require_untracked

MB = 1_000_000

FRESH = timedelta(hours=1)
"""A full disk takes no run that is younger: whoever waits for its verdict must be able to look at
it.
"""

_FOR_EVER = 365_000
"""Days, a thousand years: what is to stay longer stays; dates end before a million years do."""


def clean_bundles(
    root: Path | str = ".",
    *,
    now: datetime | None = None,
    max_age_days: float = 30,
    min_free_disk_mb: float = 1000,
    dry_run: bool = False,
    provenance: Provenance | None = None,
) -> Cleaned:
    """Delete the runs below `root` that are too old, or the oldest while the disk is too full.

    `root`: the top of the working tree. `now`: by whose clock they are old; None: the system's.
    The limits are by default those of a gate without `[retention]`. With `provenance`, foreign runs
    stay. UsageError: a limit that is not a number from 0 on, a `now` without a time zone, before
    1970 or after 9000. StorageError: the store cannot be read, or git tracks files of it.
    """
    if now is None:
        now = datetime.now(UTC)
    require_time("now", now)
    if not FIRST_YEAR <= now.year <= LAST_YEAR:
        raise UsageError(f"now is a time from {FIRST_YEAR} to {LAST_YEAR}, not {now}.")
    limits = {"max_age_days": max_age_days, "min_free_disk_mb": min_free_disk_mb}
    for name, limit in limits.items():
        if isinstance(limit, float) and not math.isfinite(limit):
            raise UsageError(f"{name} is a finite number, not {limit}.")
    try:
        rules = read(Retention, limits)
    except ValueError as error:
        raise UsageError(f"{first_mistake(error)}.") from error
    return clean_store(Path(root), rules, now, dry_run, provenance)


def clean_store(
    root: Path,
    rules: Retention,
    now: datetime,
    dry_run: bool = False,
    provenance: Provenance | None = None,
) -> Cleaned:
    """Delete the runs below `root` that `rules` give up. With `dry_run` only say which.

    Ages are counted from the time in the run id. Of what is left, the oldest go while less than
    `min_free_disk_mb` is free. Captured sessions go by age alone, a month later. With `provenance`,
    foreign runs stay. StorageError: the store cannot be read, or `provenance` says that git tracks
    files of it.
    """
    if provenance is not None and not dry_run:
        require_untracked(provenance.tracked)
    store = open_store_folder(root)
    if store is None:
        return Cleaned()
    try:
        with lock_store(store):
            if not dry_run:
                _empty_trash(store)
            cleaning = _Cleaning(store, rules, now, provenance or Provenance(now), dry_run)
            cleaning.clean_runs()
            cleaning.clean_captures()
            return cleaning.result()
    except OSError as error:
        raise StorageError(f"{STORE} cannot be cleaned: {error.strerror}.") from error


class _Cleaning:
    """One cleaning of a store: what was deleted until now."""

    def __init__(
        self, store: Folder, rules: Retention, now: datetime, provenance: Provenance, dry_run: bool
    ) -> None:
        self._store = store
        self._provenance = provenance
        self._now = now
        self._dry_run = dry_run
        self._max_age = timedelta(days=min(rules.max_age_days, _FOR_EVER))
        self._min_free_bytes = rules.min_free_disk_mb * MB
        disk = os.statvfs(store.fileno())
        self._free_bytes = disk.f_bavail * disk.f_frsize
        self._deleted_bytes = 0
        self._run_ids: list[str] = []
        self._captures: list[str] = []
        self._errors: list[str] = []

    def result(self) -> Cleaned:
        """What was deleted, and what could not be."""
        return Cleaned(
            tuple(self._run_ids),
            round(self._deleted_bytes / MB, 3),
            tuple(self._errors),
            tuple(self._captures),
        )

    def clean_runs(self) -> None:
        """Delete runs, the oldest first. OSError."""
        for entry in reversed(bare_entries(self._store)):
            began_at = bundle_names.parse_run_time(entry.run_id)
            if began_at is None:
                reason = "its id holds no date, so its age is not known"
                self._errors.append(f"{entry.run_id}: {reason}")
                continue
            if not self._is_due(self._now - began_at):
                continue
            if self._provenance.foreign(entry.key, entry.run_id):
                continue
            with self._noting_errors(entry.run_id):
                size = _delete_run(self._store, entry, self._dry_run)
                if size is not None:
                    self._run_ids.append(entry.run_id)
                    self._deleted_bytes += size

    def _is_due(self, age: timedelta) -> bool:
        """Whether a run of this age is too old, or the disk too full for it."""
        if age > self._max_age:
            return True
        is_disk_full = self._free_bytes + self._deleted_bytes < self._min_free_bytes
        return is_disk_full and age > FRESH

    def clean_captures(self) -> None:
        """Delete captured sessions when every run that may name them is too old as well.
        OSError.
        """
        oldest = self._now - self._max_age - MAX_AGE
        for name, size in _captured_before(self._store, oldest):
            with self._noting_errors(f"{bundle_names.CAPTURES}/{name}"):
                if not self._dry_run:
                    _trash(self._store, self._store.folder(bundle_names.CAPTURES), name)
                self._captures.append(name)
                self._deleted_bytes += size

    @contextlib.contextmanager
    def _noting_errors(self, name: str) -> Iterator[None]:
        """What cannot be deleted is said, and the rest is still cleaned; what is gone meanwhile is
        no error.
        """
        try:
            yield
        except FileNotFoundError:
            pass
        except OSError as error:
            self._errors.append(f"{name}: {error.strerror}")


def _captured_before(store: Folder, before: datetime) -> Iterator[tuple[str, int]]:
    """Captured sessions that were last added to before then and are not kept, with their sizes in
    bytes.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        captures = store.folder(bundle_names.CAPTURES)
        for name in captures.folders():
            with contextlib.suppress(OSError, ValueError):  # its age is not known
                session = captures.folder(name)
                if read_meta(session).updated_at < before and not session.has(bundle_names.KEEP):
                    yield name, captures.size(name)


def _delete_run(store: Folder, entry: RunEntry, dry_run: bool) -> int | None:
    """Remove the run under its own lock; how many bytes it had, None if somebody writes or keeps
    it. With `dry_run` it stays. OSError.
    """
    key = store.folder(entry.key)
    bundle = key.folder(entry.run_id)
    if is_kept(store, entry) or read_bundle_state(bundle) == "running":
        return None
    size = key.size(entry.run_id)
    if dry_run:
        return size
    try:
        lock = Lock(bundle)
    except BlockingIOError:
        return None
    try:
        _trash(store, key, entry.run_id)
    finally:
        lock.release()
    with contextlib.suppress(OSError):  # other runs are in it
        os.rmdir(entry.key, dir_fd=store.fileno())
    return size


def _trash(store: Folder, parent: Folder, name: str) -> None:
    """Take `parent/name` out of sight by one rename, then remove it. OSError."""
    trash = store.folder(bundle_names.TRASH, create=True)
    name_in_trash = f"{name}.{secrets.token_hex(4)}"
    parent.move(name, trash, name_in_trash)
    trash.remove_folder(name_in_trash)


def _empty_trash(store: Folder) -> None:
    """Finish what a cleaner or an import began that died."""
    with contextlib.suppress(OSError):
        trash = store.folder(bundle_names.TRASH)
        for name in trash.folders():
            with contextlib.suppress(OSError):
                if not Lock.is_held(trash.folder(name)):
                    trash.remove_folder(name)


def measure_store(root: Path) -> StoreUsage:
    """What the store below `root` takes, by key and by other folder. StorageError."""
    store = open_store_folder(root)
    if store is None:
        return StoreUsage((), {}, 0)
    try:
        run_counts = Counter(entry.key for entry in bare_entries(store))
        keys = [KeyUsage(key, count, store.size(key)) for key, count in run_counts.items()]
        size_by_folder = {}
        for name in store.folders():
            if name not in bundle_names.OWN_FOLDERS:
                continue
            size = store.size(name)
            if size:
                size_by_folder[name] = size
    except OSError as error:
        raise StorageError(f"{STORE} cannot be read: {error.strerror}.") from error
    keys.sort(key=lambda key: (-key.size, key.key))
    total_size = sum(key.size for key in keys) + sum(size_by_folder.values())
    return StoreUsage(tuple(keys), size_by_folder, total_size)
