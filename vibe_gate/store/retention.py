"""What stays and what goes: bundles by their recorded age and by free disk, contents by their link count.

A bundle is first renamed into `trash/`, so that nobody ever sees half of one, and
then removed. `.vibe-keep` in a run's folder, or in its key's, keeps it. A run whose
lock is held is being written and is left alone. So is whatever git tracks, and every
foreign run: a repository may have committed files under any of these names.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from vibe_gate.domain.gate import Retention
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.store import index
from vibe_gate.store.captured import Session, spent
from vibe_gate.store.due import CLEANED, is_due
from vibe_gate.store.index import Entry
from vibe_gate.store.indexing import entries, store_at
from vibe_gate.store.leftovers import sweep, tidy_index, tidy_store, unused
from vibe_gate.store.names import SHELF
from vibe_gate.store.provenance import Provenance
from vibe_gate.store.tracked import may_be_tracked

KEEP = ".vibe-keep"

_FIRST_YEAR, _LAST_YEAR = 1970, 9000
"""Between them every time that is asked for below can be computed."""

_FOR_EVER = 365_000
"""Days, a thousand years: what is to stay longer stays; dates end before a million years do."""

TRASH = "trash"
MB = 1_000_000

FRESH = timedelta(hours=1)
"""A full disk takes no run that is younger: whoever waits for its verdict must be able to look at it."""

UNKNOWN = f"git may track files of {index.STORE}: nothing is deleted unless it is said which (`provenance`)"

_TRASHED = re.compile(r"([0-9]{8}T[0-9]{9}Z-[0-9a-f]{8}|[\w-]+_[0-9]{8}_[0-9]{6}_[\w-]+)\.[0-9a-f]{8}", re.ASCII)
"""A run, or a session."""
_READ_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LOCK_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What a cleaning did, or would do. `deleted` are run ids, oldest first; `errors` sentences.

    `sessions` are the names of captured sessions that went with them.
    """

    deleted: tuple[str, ...] = ()
    freed_mb: float = 0.0
    errors: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()


def clean(
    root: Path, rules: Retention, now: datetime, dry_run: bool = False, provenance: Provenance | None = None
) -> Cleaned:
    """Delete the runs below `root` that `rules` give up, then the contents that nobody shows any more.

    Ages are counted from the time in the run id. Of what is left, the oldest go while
    less than `min_free_disk_mb` is free. Captured sessions go by age, when nobody needs
    them (`captured.spent`). With `dry_run` nothing is deleted, and
    `freed_mb` is what would be. Foreign runs stay, and whatever git tracks; without
    `provenance` everything stays where git's index may name the store, and `errors`
    says so. StorageError if the store cannot be read.
    """
    with store_at(root) as store:
        if store is None:
            return Cleaned()
        if provenance is None and may_be_tracked(os.fspath(root)):
            return Cleaned(errors=(UNKNOWN,))
        known = provenance or Provenance(now)
        if dry_run:
            plan = _plan(store, root, rules, (now, known))
            gone = tuple(session.name for session in plan.sessions)
            return Cleaned(tuple(entry.run_id for entry in plan.doomed), _mb(plan.freed), tuple(plan.errors), gone)
        with _alone(store):
            _empty_trash(store, known)
            tidy_index(store, now, known)
            tidy_store(store, now, known)
            return _carry_out(store, root, _plan(store, root, rules, (now, known)))


def clean_bundles(
    root: Path,
    *,
    now: datetime,
    max_age_days: float = 30,
    min_free_disk_mb: float = 1000,
    dry_run: bool = False,
    provenance: Provenance | None = None,
) -> Cleaned:
    """`clean` for scripts: the limits are arguments, by default those of a gate without `[retention]`.

    UsageError: a limit that is no number from 0 on, or a `now` that is no datetime with a time zone, or of no year
    from 1970 to 9000.
    """
    if not isinstance(now, datetime) or now.utcoffset() is None or not _FIRST_YEAR <= now.year <= _LAST_YEAR:
        raise UsageError(f"now is a datetime with a time zone, not {now!r:.60}.")
    try:
        rules = Retention(max_age_days=max_age_days, min_free_disk_mb=min_free_disk_mb)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise UsageError(f"{first['loc'][0]}: {first['msg']}.") from error
    return clean(root, rules, now, dry_run, provenance)


def clean_if_due(
    root: Path, rules: Retention, now: datetime, tracked: Callable[[], Collection[str]] | None = None
) -> Cleaned | None:
    """`clean` if the last cleaning is a day ago or more; None if it was not due.

    `tracked` says what git tracks of the store; it is asked only if it is due. For
    after a review, never before one: creating files right after a mass delete is
    30-40 times slower on ext4 for a minute.
    """
    with store_at(root) as store:
        if store is None or not is_due(store, now):
            return None
        known = None if tracked is None else Provenance(now, tracked())
        if known is not None and known.tracks(f"{index.FOLDER}/{CLEANED}"):
            return None  # when the last one was is not ours to write down
        with contextlib.suppress(FileExistsError):
            os.mkdir(index.FOLDER, 0o700, dir_fd=store)
        folder = os.open(index.FOLDER, _READ_DIRECTORY, dir_fd=store)
        try:  # said before it is done: of several reviews that end at once, one cleans
            _write(folder, CLEANED, f"{now.astimezone(UTC).isoformat()}\n".encode())
        finally:
            os.close(folder)
    return clean(root, rules, now, provenance=known)


def keep(root: Path, entry: Entry, off: bool = False) -> None:
    """Protect one run from cleaning, or with `off` do so no longer. StorageError."""
    with store_at(root) as store:
        if store is None:
            raise StorageError(f"There is no {index.STORE} here.")
        run = _run(store, entry)
        try:
            if off:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(KEEP, dir_fd=run)
            elif not _has(run, KEEP):
                _write(run, KEEP, b"")
        finally:
            os.close(run)


def is_kept(root: Path, entry: Entry) -> bool:
    """Whether cleaning leaves the run alone for good. StorageError."""
    with store_at(root) as store:
        return store is not None and _is_kept(store, entry)


def recorded_at(run_id: str) -> datetime | None:
    """When the run began, by its id; None where the id holds no date."""
    try:
        return datetime.strptime(run_id[:18], "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC)
    except ValueError:
        return None


@dataclass(slots=True)
class Links:
    """Links counted by file, so that what only they show can be told from what others show too."""

    counts: Counter[tuple[int, int]] = field(default_factory=Counter)
    apparent: int = 0
    disk: int = 0
    own: int = 0

    def add(self, about: os.stat_result, is_content: bool) -> None:
        """Count one link. A content's last link but one leaves only the object, which goes with it."""
        self.apparent += about.st_size
        place = (about.st_dev, about.st_ino)
        self.disk += 0 if place in self.counts else about.st_size
        self.counts[place] += 1
        others = about.st_nlink - self.counts[place]
        if others == (1 if is_content and about.st_nlink > 1 else 0):
            self.own += about.st_size


def measure(folder: int, name: str, *counters: Links) -> None:
    """Count every regular file below `name` in an open folder; links are not followed. OSError."""
    for path, _, files, opened in os.fwalk(name, dir_fd=folder, follow_symlinks=False, onerror=_raise):
        is_content = path.rpartition("/")[2] in {"before", "after"}
        for file in files:
            about = os.stat(file, dir_fd=opened, follow_symlinks=False)
            if stat.S_ISREG(about.st_mode):
                for links in counters:
                    links.add(about, is_content)


@dataclass(frozen=True, slots=True)
class KeyUsage:
    """Bytes of one key's bundles: as they appear, and what deleting all of them would free."""

    key: str
    runs: int
    apparent: int
    alone: int


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes of a store. `apparent` counts each bundle as if it stood alone, `shared` is what links save of that.

    `keys` the largest first; `besides` what else lies in the store, by folder (objects
    that no bundle shows, quarantine, sessions, index, trash); `disk` is all of it, each file once.
    """

    keys: tuple[KeyUsage, ...]
    besides: dict[str, int]
    apparent: int
    shared: int
    disk: int


def usage(root: Path) -> Usage:
    """What the store below `root` takes. StorageError."""
    found = entries(root)
    with store_at(root) as store:
        if store is None:
            return Usage((), {}, 0, 0, 0)
        runs = Counter(entry.key for entry in found)
        total, keys = Links(), []
        for key, number in runs.items():
            links = Links()
            measure(store, key, links, total)
            keys.append(KeyUsage(key, number, links.apparent, links.own))
        apparent, shared, disk, besides = total.apparent, total.apparent - total.disk, total.disk, {}
        for folder in sorted(index.OWN_FOLDERS):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                measure(store, folder, total)
                besides[folder] = total.disk - disk
                disk = total.disk
    keys.sort(key=lambda key: (-key.apparent, key.key))
    return Usage(tuple(keys), {name: size for name, size in besides.items() if size}, apparent, shared, disk)


@dataclass(slots=True)
class _Plan:
    doomed: list[Entry]
    freed: int
    errors: list[str]
    now: datetime
    known: Provenance
    sessions: list[Session] = field(default_factory=list)


def _plan(store: int, root: Path, rules: Retention, moment: tuple[datetime, Provenance]) -> _Plan:
    now, known = moment
    links = Links()
    free = _free(store) + sum(size for _, _, size in unused(store, now, known))
    plan = _Plan([], 0, [], now, known)
    found = entries(root)
    oldest = timedelta(days=min(rules.max_age_days, _FOR_EVER))
    for entry in reversed(found):  # the oldest first
        if known.tracks(f"{entry.key}/{entry.run_id}"):
            continue
        began = recorded_at(entry.run_id)
        if began is None:
            plan.errors.append(f"{entry.run_id}: its id holds no date, so its age is not known")
            continue
        aged = now - began > oldest
        pressed = now - began > FRESH and free + links.own < rules.min_free_disk_mb * MB
        if not (aged or pressed) or entry.state == "running" or _is_kept(store, entry):
            continue
        try:
            measure(store, f"{entry.key}/{entry.run_id}", links)
        except FileNotFoundError:
            continue  # removed meanwhile
        except OSError as error:
            plan.errors.append(_sentence(entry, error))
            continue
        plan.doomed.append(entry)
    going = {entry.place for entry in plan.doomed}
    told = [entry.place for entry in found if entry.author == "agent"]
    stay, go = [place for place in told if place not in going], [place for place in told if place in going]
    old = spent(root, now - oldest, now, stay, go)
    plan.sessions = [session for session in old if not known.tracks(f"{SHELF}/{session.name}")]
    plan.freed = links.own + sum(session.size for session in plan.sessions)
    return plan


def _carry_out(store: int, root: Path, plan: _Plan) -> Cleaned:
    deleted: list[str] = []
    freed = 0
    errors = list(plan.errors)
    for entry in plan.doomed:
        try:
            name = _into_trash(store, entry)
            if name is None:
                continue  # somebody is writing it, keeps it, or was faster
            deleted.append(entry.run_id)
            freed += _remove(store, name)
        except OSError as error:
            errors.append(_sentence(entry, error))
    gone: list[str] = []
    for session in plan.sessions:
        try:
            freed += _remove(store, _trashed(store, SHELF, session.name))
            gone.append(session.name)
        except OSError as error:
            errors.append(f"{SHELF}/{session.name}: {error.strerror}")
    for key in {entry.key for entry in plan.doomed}:
        with contextlib.suppress(OSError):  # other runs are in it
            os.rmdir(key, dir_fd=store)
    if not any(entry.state == "running" for entry in entries(root)):
        freed += sweep(store, plan.now, plan.known, errors)
    return Cleaned(tuple(deleted), _mb(freed), tuple(errors), tuple(gone))


def _into_trash(store: int, entry: Entry) -> str | None:
    """Take the run out of sight, under its own lock; its name in the trash, None if it is not ours to take."""
    try:
        run = _run(store, entry)
    except FileNotFoundError:
        return None
    try:
        lock = os.open(".lock", _LOCK_FILE, 0o600, dir_fd=run)
    finally:
        os.close(run)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _take(store, entry)
    except (BlockingIOError, FileNotFoundError):
        return None
    finally:
        os.close(lock)


def _take(store: int, entry: Entry) -> str | None:
    return None if _is_kept(store, entry) else _trashed(store, entry.key, entry.run_id)


def _trashed(store: int, parent: str, name: str) -> str:
    """Move `parent/name` into the trash; its name there. OSError."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(TRASH, 0o700, dir_fd=store)
    trashed = f"{name}.{secrets.token_hex(4)}"
    trash = os.open(TRASH, _READ_DIRECTORY, dir_fd=store)
    folder = os.open(parent, _READ_DIRECTORY, dir_fd=store)
    try:
        os.rename(name, trashed, src_dir_fd=folder, dst_dir_fd=trash)
    finally:
        os.close(folder)
        os.close(trash)
    return trashed


def _remove(store: int, name: str) -> int:
    """Remove one folder of the trash; the bytes that only it held."""
    trash = os.open(TRASH, _READ_DIRECTORY, dir_fd=store)
    try:
        size = 0
        for _, _, files, opened in os.fwalk(name, dir_fd=trash, follow_symlinks=False, onerror=_raise):
            stats = [os.stat(file, dir_fd=opened, follow_symlinks=False) for file in files]
            size += sum(about.st_size for about in stats if about.st_nlink == 1)
        shutil.rmtree(name, dir_fd=trash)
        return size
    finally:
        os.close(trash)


def _empty_trash(store: int, known: Provenance) -> None:
    """Finish what a cleaner began that died."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for name in index.names_in(store, TRASH):
            if _TRASHED.fullmatch(name) and not known.tracks(f"{TRASH}/{name}"):
                with contextlib.suppress(OSError):
                    _remove(store, name)


@contextlib.contextmanager
def _alone(store: int) -> Iterator[None]:
    """One cleaner at a time: what the first has in the trash is no left-over. The second waits."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(index.FOLDER, 0o700, dir_fd=store)
    folder = os.open(index.FOLDER, _READ_DIRECTORY, dir_fd=store)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # gone with the process, whatever it dies of
        yield
    finally:
        os.close(folder)


def _run(store: int, entry: Entry) -> int:
    key = os.open(entry.key, _READ_DIRECTORY, dir_fd=store)
    try:
        return os.open(entry.run_id, _READ_DIRECTORY, dir_fd=key)
    finally:
        os.close(key)


def _is_kept(store: int, entry: Entry) -> bool:
    return any(_has(store, f"{folder}/{KEEP}") for folder in (entry.key, f"{entry.key}/{entry.run_id}"))


def _write(folder: int, name: str, data: bytes) -> None:
    descriptor = os.open(name, _WRITE_FILE, 0o600, dir_fd=folder)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def _has(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _free(store: int) -> int:
    disk = os.statvfs(store)
    return disk.f_bavail * disk.f_frsize


def _sentence(entry: Entry, error: OSError) -> str:
    return f"{entry.run_id}: {error.strerror}"


def _mb(size: int) -> float:
    return round(size / MB, 3)


def _raise(error: OSError) -> None:
    raise error
