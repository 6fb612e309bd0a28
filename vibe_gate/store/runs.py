"""Runs of a store: what is there, as entries of a list that opens no bundle whose entry is known.

The index in the repository's state (`EntryCache`) is a cache of entries. Whether a folder or a summary changed is told
by its ctime, which no program can set; a ctime that was recent when it was seen is not believed later: a second
change could have had the same one. Without an index every summary is read.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import (
    MATCHES,
    OUTCOMES,
    STATES,
    STORE,
    Cleaned,
    Exported,
    Imported,
    Provenance,
    Repaired,
    RunEntry,
    StoreUsage,
    Verified,
    Wanted,
    is_run_id,
)
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.store import names
from vibe_gate.store.folder import Folder
from vibe_gate.store.log import MAX_DOCUMENT_BYTES, Lock

if TYPE_CHECKING:
    from vibe_gate.domain.gate import Retention

_RACY_NS = 50_000_000
"""A ctime that was younger when it was seen is not believed: five ticks of the slowest kernel clock."""

_LARGEST_NUMBER = 10**18
_STAMP = 18  # characters of a run id that are its time, to the millisecond
_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_CHOICES: dict[str, tuple[str, ...]] = {"outcome": (*OUTCOMES, "sealed", *STATES), "author": ("agent", "human")}

Row = tuple[str, str, int, str]
"""Run id, key, the ctime in ns of summary.json (0: not to be believed, or not sealed), and the entry as text."""


class EntryCache(Protocol):
    """A cache of entries, kept outside of the store; empty if it is missing or damaged."""

    def keys(self) -> Mapping[str, int]:
        """The keys' folders and their ctimes in ns when they were last listed."""

    def places(self) -> Collection[tuple[str, str]]:
        """Run id and key of every row."""

    def rows(self, limit: int = -1) -> Sequence[Row]:
        """The rows, newest first; `limit` of them, all if it is negative."""

    def update(self, keys: Mapping[str, int], rows: Iterable[Row], gone: Iterable[tuple[str, str]]) -> None:
        """Replace the keys, put rows, delete those of `gone` (run id and key)."""


class Bundles:
    """The recorded runs of one working tree: listed, found, checked, cleaned, moved.

    `provenance` tells foreign runs; where git tracks files of the store nothing is written. Methods raise
    StorageError if the store cannot be read or written.
    """

    def __init__(self, root: Path, provenance: Provenance, index: EntryCache | None = None) -> None:
        self.root = root
        self.provenance = provenance
        self._index = index

    def runs(self, limit: int | None = None) -> list[RunEntry]:
        """Every run, newest first, or the `limit` newest. Foreign runs have no outcome."""
        return _told_apart(entries(self.root, self._index, limit), self.provenance)

    def find(self, limit: int | None = None, **wanted: Unpack[Wanted]) -> list[RunEntry]:
        """The runs that are as `wanted`, newest first, at most `limit`. UsageError as of `find_bundles`."""
        return find_bundles(self.root, self.provenance, self._index, limit, **wanted)

    def is_kept(self, entry: RunEntry) -> bool:
        """Whether `.vibe-keep`, in the run's folder or its key's, protects the run from cleaning."""
        store = open_store_folder(self.root)
        try:
            return store is not None and is_kept(store, entry)
        except OSError as error:
            raise _unreadable(error) from error

    def keep(self, entry: RunEntry, off: bool = False) -> None:
        """Protect one run from cleaning, or with `off` stop to."""
        self._require_untracked()
        store = open_store_folder(self.root)
        if store is None:
            raise StorageError(f"There is no {STORE} in {paths.quote(str(self.root))}.")
        try:
            folder = store.below(entry.place)
            if off:
                folder.remove(names.KEEP)
            else:
                folder.place(names.KEEP, b"")
        except OSError as error:
            raise _unreadable(error) from error

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

    def export(self, runs: Collection[RunEntry], target: Path) -> Exported:
        """Write runs into one new archive, each verified before. UsageError, IntegrityError."""
        from vibe_gate.store.archive import export_runs

        return export_runs(self.root, self.provenance, runs, target)

    def import_archive(self, archive: Path) -> Imported:
        """Bring the runs of an archive into the store: all, or none if one is wrong. UsageError, IntegrityError."""
        from vibe_gate.store.archive import import_runs

        return import_runs(self.root, self.provenance, archive)

    def _require_untracked(self) -> None:
        from vibe_gate.store.recorder import require_untracked

        require_untracked(self.provenance.tracked)


def find_bundles(
    root: Path,
    provenance: Provenance | None = None,
    index: EntryCache | None = None,
    limit: int | None = None,
    **wanted: Unpack[Wanted],
) -> list[RunEntry]:
    """The runs below `root` (the top of the working tree) that are as `wanted`, newest first, at most `limit`.

    An empty id finds nothing. With `provenance`, runs that no review here wrote are "foreign" and have no outcome.
    StorageError: the store cannot be read. UsageError: a value that cannot be meant (a `since` that is not a datetime
    or has no time zone, an id that is not whole, an outcome or an author that no run can have). TypeError: an unknown
    word.
    """
    _check(wanted)
    found = _told_apart(entries(root, index, None if wanted else limit), provenance)
    return [entry for entry in found if _is_wanted(entry, wanted)][:limit]


def _check(wanted: Wanted) -> None:
    if unknown := wanted.keys() - Wanted.__annotations__.keys():
        raise TypeError(f"find_bundles() has no argument {sorted(unknown)[0]!r}")
    for name, value in wanted.items():
        if name != "since" and not isinstance(value, str):
            raise UsageError(f"{name} is a text, not {value!r:.40}.")
        if name in MATCHES and value and _ID.fullmatch(str(value)) is None:
            raise UsageError(f"{name} is a whole id of 40 or 64 hex digits, not {value!r:.80}.")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise UsageError(f"{name} is one of {', '.join(_CHOICES[name])}, not {value!r:.40}.")
    since = wanted.get("since")
    if "since" in wanted and (not isinstance(since, datetime) or since.utcoffset() is None):
        raise UsageError(f"since is a datetime with a time zone, not {since!r:.60}.")


def _told_apart(found: list[RunEntry], provenance: Provenance | None) -> list[RunEntry]:
    """The same runs, foreign ones without what they say of themselves."""
    if provenance is None:
        return found
    return [
        RunEntry(entry.run_id, entry.key, "foreign") if provenance.foreign(entry.key, entry.run_id) else entry
        for entry in found
    ]


def _is_wanted(entry: RunEntry, wanted: Wanted) -> bool:
    """Whether the run is as wanted. An unsealed run has no outcome, and of its change only the key is known."""
    return (
        ("run" not in wanted or entry.run_id == wanted["run"])
        and ("since" not in wanted or entry.run_id[:_STAMP] >= _stamp(wanted["since"]))
        and ("prefix" not in wanted or (wanted["prefix"] != "" and entry.run_id.startswith(wanted["prefix"])))
        and all(entry.is_about(match, wanted[match]) for match in MATCHES if match in wanted)
        and ("outcome" not in wanted or wanted["outcome"] in (entry.outcome, entry.state))
        and ("rubric" not in wanted or any(name == wanted["rubric"] for name, _ in entry.rubrics))
        and ("author" not in wanted or entry.author == wanted["author"])
        and ("path" not in wanted or _touches(entry, wanted["path"]))
    )


def _stamp(moment: datetime) -> str:
    """How the id of a run of that time begins."""
    try:
        utc = moment.astimezone(UTC)
    except OverflowError:  # in UTC it is before the first year, or after the last one
        return "" if moment.year < datetime.max.year else "~"
    return f"{utc.year:04d}{utc:%m%dT%H%M%S%f}"[:_STAMP]


def _touches(entry: RunEntry, glob: str) -> bool:
    return any(paths.matches(paths.unquote(path), (glob,)) for path in entry.paths)


def open_store_folder(root: Path) -> Folder | None:
    """The store's folder; None if there is none. StorageError."""
    try:
        return Folder.at(root).folder(STORE)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> StorageError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return StorageError(f"{STORE} cannot be read or written: {reason}.")


def is_kept(store: Folder, entry: RunEntry) -> bool:
    """Whether `.vibe-keep` protects the run. OSError."""
    key = store.folder(entry.key)
    return key.has(names.KEEP) or key.folder(entry.run_id).has(names.KEEP)


def entries(root: Path, index: EntryCache | None = None, limit: int | None = None) -> list[RunEntry]:
    """The runs below `root`, newest first, by a look at the store; the index is brought up to date. StorageError."""
    store = open_store_folder(root)
    if store is None:
        return []
    try:
        return _Look(store, index, limit).entries()
    except OSError as error:
        raise _unreadable(error) from error


class _Look:
    """One look at a store: keys whose folders changed are listed, runs that were not sealed before are read.

    What somebody changes inside a sealed bundle is not seen by a list; whoever reads the bundle compares digests.
    """

    def __init__(self, store: Folder, index: EntryCache | None, limit: int | None) -> None:
        self._store = store.fileno()
        self._index = index
        self._limit = limit
        self._believed = time.time_ns() - _RACY_NS  # the file system's clock is this one
        self._known_keys = {} if index is None else index.keys()
        rows = () if index is None else index.rows(-1 if limit is None else limit)
        self._rows = {(row[0], row[1]): row for row in rows}
        self._values = _values_of([row for row in rows if row[2]])
        self._known = set(self._rows) if index is None or limit is None else set(index.places())
        self._runs_of: dict[str, list[str]] = {}
        for run_id, key in self._known:
            self._runs_of.setdefault(key, []).append(run_id)
        self._keys: dict[str, int] = {}
        self._read_anew: set[str] = set()
        self._new: list[Row] = []

    def entries(self) -> list[RunEntry]:
        """The runs that are there, newest first. OSError."""
        places: list[tuple[str, str]] = []
        for key in os.listdir(self._store):  # noqa: PTH208  an open folder has no path
            if key in self._known_keys or names.is_key(key):
                with suppress(FileNotFoundError, NotADirectoryError):  # cleaned away meanwhile
                    places += [(run_id, key) for run_id in self._listed(key)]
        places.sort(reverse=True)
        found: dict[tuple[str, str], RunEntry] = {}
        for place in places:
            if len(found) == self._limit:
                break
            if entry := self._entry(*place):
                found[place] = entry
        self._keep(places, found)
        return list(found.values())

    def _listed(self, key: str) -> list[str]:
        about = os.stat(key, dir_fd=self._store, follow_symlinks=False)
        if not stat.S_ISDIR(about.st_mode):
            return []
        self._keys[key] = about.st_ctime_ns if about.st_ctime_ns < self._believed else 0
        if self._known_keys.get(key) == about.st_ctime_ns:
            return self._runs_of.get(key, [])
        folder = os.open(key, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._store)
        try:
            there = [name for name in os.listdir(folder) if is_run_id(name)]  # noqa: PTH208
        finally:
            os.close(folder)
        self._read_anew.add(key)
        for run_id in there:
            self._values.pop((run_id, key), None)  # it may be another one of that name
        return there

    def _entry(self, run_id: str, key: str) -> RunEntry | None:
        place = run_id, key
        if values := self._values.get(place):
            with suppress(ValueError, TypeError):  # a damaged row: the bundle tells
                *simple, rubrics, changed = values
                return RunEntry(run_id, key, "sealed", *simple, tuple(map(tuple, rubrics)), tuple(changed))  # type: ignore[call-arg]
        try:
            entry, seal = _read(Folder(os.dup(self._store), STORE), run_id, key)
        except (FileNotFoundError, NotADirectoryError):
            return None
        made = (run_id, key, seal if seal < self._believed else 0, _encoded(entry) if seal else "")
        if made != self._rows.get(place):
            self._new.append(made)
        return entry

    def _keep(self, places: Collection[tuple[str, str]], found: Mapping[tuple[str, str], RunEntry]) -> None:
        """Bring the index up to date. A changed key whose runs were not all read is listed again next time."""
        if self._index is None:
            return
        there = found.keys() if self._limit is None else set(places)
        for _, key in there - found.keys():
            if key in self._read_anew:
                self._keys[key] = 0
        gone = self._known - there
        if self._new or gone or self._keys != self._known_keys:
            self._index.update(self._keys, self._new, gone)


def _encoded(entry: RunEntry) -> str:
    return json.dumps([getattr(entry, name) for name in _FIELDS], separators=(",", ":"))


def _values_of(rows: Sequence[Row]) -> dict[tuple[str, str], Any]:
    """What the rows say, decoded at once, for that takes a third of the time; {} if one of them is damaged."""
    try:
        values = json.loads(f"[{','.join(row[3] for row in rows)}]")
    except (ValueError, TypeError):
        return {}
    same = len(values) == len(rows)
    return {(row[0], row[1]): value for row, value in zip(rows, values, strict=True)} if same else {}


_FIELDS = tuple(RunEntry.__annotations__)[3:]
"""What a verdict tells of a run, `rubrics` and `paths` last."""


def _read(store: Folder, run_id: str, key: str) -> tuple[RunEntry, int]:
    """The entry of one run, read from its bundle, and the ctime of its summary, 0 without one. FileNotFoundError."""
    from vibe_gate.domain.model import require_few  # a list of known runs does without pydantic

    bare = RunEntry(run_id, key, "corrupt")
    try:
        bundle = store.folder(key).folder(run_id)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError:
        return bare, 0
    try:
        with open(bundle.reading(names.SUMMARY), "rb") as file:
            seal = os.fstat(file.fileno()).st_ctime_ns
            data = file.read(MAX_DOCUMENT_BYTES)
        require_few(data)
        return _sealed(bare, json.loads(data)), seal
    except FileNotFoundError:
        store.folder(key).status(run_id)  # a cleaner may have it: what is missing is only the first that went
        return replace(bare, state="running" if Lock.is_held(bundle) else "incomplete"), 0
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return bare, 0


def _sealed(bare: RunEntry, document: dict[str, Any]) -> RunEntry:
    """What a list says of a sealed run. KeyError, TypeError, ValueError if that is not a summary of this run."""
    change, cost = document["change"], document["cost"]
    if (document["run_id"], document["key"], document["schema"]) != (bare.run_id, bare.key, 1):
        raise ValueError("the summary of another run")
    if document["outcome"] not in OUTCOMES:
        raise ValueError("no outcome")
    changed = dict.fromkeys(path for file in change["files"] for path in (file["path"], file["old_path"]) if path)
    return RunEntry(
        run_id=bare.run_id,
        key=bare.key,
        outcome=document["outcome"],
        exit_code=_number(document["exit_code"]),
        author="agent" if document["agent_authored"]["decision"] is True else "human",
        workflow=_text(document["workflow"]),
        before=_text(change["before"]),
        after=_text(change["after"]),
        base_commit=_text(change["base_commit"]),
        head_commit=_text(change["head_commit"]),
        patch_id=_text(change["patch_id"]),
        range_patch_id=_text(change["range_patch_id"]),
        files=len(change["files"]),
        added=_number(sum(file["added"] for file in change["files"])),
        deleted=_number(sum(file["deleted"] for file in change["files"])),
        findings=len(document["findings"]),
        cost_usd=_dollars(cost["usd"]),
        cost_basis=_text(cost["basis"]),
        duration_ms=_number(document["duration_ms"]),
        rubrics=tuple((_text(rubric["id"]), _text(rubric["outcome"])) for rubric in document["rubrics"]),
        paths=tuple(_text(path) for path in changed),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < _LARGEST_NUMBER:
        raise ValueError("no number")
    return value


def _dollars(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("no sum")
    return float(value)
