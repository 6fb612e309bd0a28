"""The store of one repository: `.vibe-artifacts` at its top."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from vibe_gate.domain import unredacted_fields
from vibe_gate.errors import StorageError
from vibe_gate.store import names
from vibe_gate.store.fate import Fate, sentence
from vibe_gate.store.folder import Folder
from vibe_gate.store.log import Lock, encode_document
from vibe_gate.store.objects import Objects
from vibe_gate.store.recorder import Clock, RunParts, RunRecorder
from vibe_gate.store.redactor import CountingRedactor

_IDS_TRIED = 1000  # runs of one change in one millisecond; beyond that something else is wrong

MAX_IGNORE_BYTES = 4096
"""Of the store's own list of what git is to leave out: one line."""

_TIMES_BEGUN = 10  # a cleaner takes a folder without a lock at most once in a cleaning


def open_store(root: Path, redact: CountingRedactor, clock: Clock) -> Store:
    """The store below `root`, the top of the working tree; made on first use, ignoring itself.

    Where it cannot be written (read-only, full, or a link or a .gitignore that a hostile
    repository has committed in its place), the store opens all the same, and its runs are
    unrecorded: nothing in a repository may keep a verdict from being said.
    """
    try:
        folder = store_folder(root)
    except StorageError as error:
        return Store(root, str(error), redact, clock)
    except OSError as error:
        return Store(root, sentence(error), redact, clock)
    return Store(root, folder, redact, clock)


class Store:
    """Where runs begin. Safe for several processes at once."""

    def __init__(self, root: Path, folder: Folder | str, redact: CountingRedactor, clock: Clock) -> None:
        """`folder` is the sentence that says why, where nothing can be written."""
        self._root = root
        self._folder = folder
        self._redact = redact
        self._clock = clock

    def begin(self, key: str, now: datetime, about: Mapping[str, Any]) -> RunRecorder:
        """Start a run of the change `key` (commit, or `tree-<tree>`): its folder, run.json, run.created.

        `about` is what run.json says besides schema, run_id, key and created_at. A
        run that cannot be recorded begins all the same, with `lost` set.
        """
        if names.is_own(names.as_folder_name(key, "the key of a change")):
            raise ValueError(f"{key!r} is a name of the store itself")
        if isinstance(self._folder, str):
            return self._unrecorded(key, now, self._folder)
        try:
            redact = self._redact.part()
            safe = unredacted_fields.redacted(dict(about), unredacted_fields.ABOUT, redact.value)
            recorder = self._begin(self._folder, key, now, redact, safe)
        except Exception as error:  # noqa: BLE001  as in `fate`: what cannot be recorded is no reason to fail
            return self._unrecorded(key, now, sentence(error))
        recorder.event("run.created", key=key)
        return recorder

    def sessions(self) -> Folder | None:
        """The folder of captured sessions, made where it is missing; None where nothing can be written."""
        if isinstance(self._folder, str):
            return None
        try:
            return self._folder.folder("sessions", create=True)
        except OSError:
            return None

    def _unrecorded(self, key: str, now: datetime, why: str) -> RunRecorder:
        return RunRecorder(self._root, key, names.run_id(now, key.encode(), 0), None, Fate(lost=why))

    def _begin(
        self, store: Folder, key: str, now: datetime, redact: CountingRedactor, safe: dict[str, Any]
    ) -> RunRecorder:
        run_id, folder, lock = _claim_run(store, key, now, encode_document(safe))
        store.touch()  # a list need not look into every key to know that one has a new run
        own = {"schema": 1, "run_id": run_id, "key": key, "created_at": names.iso(now)}
        folder.place(names.RUN, encode_document(own | safe | own))
        parts = RunParts(folder, Objects(store), redact, self._clock, lock)
        return RunRecorder(self._root, key, run_id, parts, Fate())


def _claim_run(store: Folder, key: str, now: datetime, seed: bytes) -> tuple[str, Folder, Lock]:
    """A new run's folder under its lock; begun again where a cleaner took the folder before it was locked."""
    for _ in range(_TIMES_BEGUN):
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            runs = store.folder(key, create=True)
            run_id, folder = _make_run(runs, key, now, seed)
            lock = Lock(folder)
            if runs.has(run_id):
                return run_id, folder, lock
            lock.release()
    raise OSError(errno.ENOENT, "the new run's folder is removed as soon as it is made", str(store.path / key))


def _make_run(runs: Folder, key: str, now: datetime, seed: bytes) -> tuple[str, Folder]:
    for attempt in range(_IDS_TRIED):
        run_id = names.run_id(now, key.encode() + b" " + seed, attempt)
        try:
            return run_id, runs.make(run_id)
        except FileExistsError:
            continue
    raise OSError(f"{_IDS_TRIED} runs of {key} began in one millisecond")


def store_folder(root: Path) -> Folder:
    """The store's folder, made where it is missing, ignoring itself. OSError, StorageError."""
    try:
        folder = Folder.at(root).folder(names.STORE, create=True)
    except NotADirectoryError as error:
        what = "a symbolic link" if (root / names.STORE).is_symlink() else "not a directory"
        raise StorageError(
            f"{names.STORE} is {what}, so nothing is written there: it may lead anywhere. "
            f"Remove it (`git rm {names.STORE}` if it is committed) and review again."
        ) from error
    if not folder.has(names.IGNORE):
        folder.place(names.IGNORE, b"*\n")
    elif not _ignores_itself(folder):
        raise StorageError(
            f"{names.STORE}/{names.IGNORE} lets git take up what is written beside it, so nothing is: bundles hold "
            "what was reviewed. It came with the repository, or was changed; make it one line, `*`, and review again."
        )
    return folder


def _ignores_itself(folder: Folder) -> bool:
    """Whether git leaves out all of the store; the file itself may be taken up, as some do."""
    try:
        lines = folder.read(names.IGNORE, MAX_IGNORE_BYTES)
    except OSError:
        return False  # git reads no link, and neither do we
    rules = {line.strip() for line in lines.splitlines() if line.strip() and not line.startswith(b"#")}
    takes = {rule for rule in rules if rule.startswith(b"!")}
    return len(lines) <= MAX_IGNORE_BYTES and b"*" in rules and takes <= {b"!.gitignore", b"!/.gitignore"}
