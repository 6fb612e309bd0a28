"""What travels between a command and the workers of a cluster: the repository there, each run back.

    repository, state.db -> SentRepository -> a copy on the worker's machine
                         -> TaskResult -> the store of the command's repository

A worker's machine has one copy for a command, whatever processes work there: what one of them was
answered, the next one knows, also after a process was killed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate import scratch
from vibe_gate.domain.bundles import STORE, Provenance, RunEntry
from vibe_gate.domain.environment import Environment
from vibe_gate.errors import InfrastructureError
from vibe_gate.git import Repository, RepositoryCopy, open_repository
from vibe_gate.store.clone_state import CloneState, open_state
from vibe_gate.store.run_archive import export_runs, import_runs


class RepositoryTask(Protocol):
    """A task about the repository around `root`: a frozen Struct that can be pickled."""

    @property
    def root(self) -> Path:
        """Where the repository is, on the machine that has the task."""
        ...


_LATER = datetime(9000, 1, 1, tzinfo=UTC)
"""A run that this process has just made is not from the future."""

_ABANDONED_S = 86_400
"""Age of a copy that no process uses, after which it is deleted."""

CLOSING_PATIENCE_S = 5.0
"""Seconds in which other processes of a command that has ended close their copies."""

_POLL_S = 0.05
"""Seconds between two tries to have a copy alone."""

_ARCHIVE = "run.tar.xz"

T = TypeVar("T", bound=RepositoryTask)
R = TypeVar("R")


class SentRepository(Struct, frozen=True):
    """A repository as it is sent to workers."""

    copy: RepositoryCopy

    state: bytes
    """Its state.db: overrides, labels, answers, records of git's hooks."""

    @property
    def name(self) -> str:
        """The same for the same content."""
        fields = (self.copy.links, self.copy.settings, self.copy.has_files)
        digest = hashlib.sha256(repr(fields).encode())
        for part in (self.copy.bundle, self.state):
            digest.update(hashlib.sha256(part).digest())
        return digest.hexdigest()[:16]


class TaskResult(Struct, Generic[R], frozen=True):
    """A task's result, and the run that it made."""

    result: R

    archive: bytes = b""
    """Of the run; b"" if it made none."""


def pack_repository(repository: Repository, *, files: bool) -> SentRepository:
    """What workers need; with `files` those of the working tree, too. UsageError,
    InfrastructureError.
    """
    with open_state(repository.common_dir) as state:
        return SentRepository(repository.copy(files=files), state.file.copied())


# At a worker


class WorkerRepository:
    """The copy of a command's repository on this machine, in a folder that only this user may
    read.
    """

    def __init__(self, sent_repository: SentRepository, environment: Environment) -> None:
        """InfrastructureError if it cannot be made."""
        try:
            temporary_folder = Path(tempfile.gettempdir())
            copies = _make_private_folder(temporary_folder / f"vibe-gate-cluster-{os.getuid()}")
            self._folder = copies / sent_repository.name
            self.root = self._folder / "repository"
            """Its top."""
            self.lock = copies / f"{sent_repository.name}.lock"
            """A file: whoever has a shared lock of it uses the copy."""
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(self.lock, flags, 0o600)
            self._open_copy(sent_repository, environment)
            _remove_abandoned_copies(copies)
        except OSError as error:
            raise InfrastructureError(
                f"no repository could be made for the tasks: {error}."
            ) from error

    @property
    def _ready(self) -> Path:
        """The file that says that the copy is whole."""
        return self._folder / "ready"

    def _open_copy(self, sent_repository: SentRepository, environment: Environment) -> None:
        """Have the copy ready, and a shared lock of it.

        Nobody waits for the lock alone: whoever has made the copy keeps it shared as long as the
        command takes.
        """
        while True:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
            if self._ready.exists():
                return
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not self._ready.exists():
                    self._make_copy(sent_repository, environment)
            except BlockingIOError:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
                time.sleep(random.uniform(0.02, 0.1))  # noqa: S311  so that two do not meet again

    def _make_copy(self, sent_repository: SentRepository, environment: Environment) -> None:
        # A worker may have been killed while it made it.
        shutil.rmtree(self._folder, ignore_errors=True)
        self.root.mkdir(0o700, parents=True)
        sent_repository.copy.write(self.root, environment)
        with (
            open_repository(self.root, environment) as repository,
            open_state(repository.common_dir) as state,
        ):
            if sent_repository.state:
                state.file.begin_with(sent_repository.state)
        self._ready.touch()

    def close(self, *, delete: bool, patience_s: float = CLOSING_PATIENCE_S) -> None:
        """End the use of the copy. `delete`: the command has ended, so delete it when all others
        have closed it, which takes them a moment.
        """
        latest = time.monotonic() + patience_s if delete else 0
        while time.monotonic() < latest:
            with suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(self._folder, ignore_errors=True)
                break
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            time.sleep(_POLL_S)
        os.close(self._descriptor)


def _remove_abandoned_copies(copies: Path) -> None:
    """Delete what no process uses and a command left that could not end: a scheduler may come back
    within a day.

    The locks stay: a process may be about to take one.
    """
    for ready in copies.glob("*/ready"):
        with suppress(OSError), ready.parent.with_suffix(".lock").open("rb") as lock:
            if time.time() - ready.stat().st_mtime > _ABANDONED_S:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(ready.parent, ignore_errors=True)


def _make_private_folder(folder: Path) -> Path:
    """The folder, made if it is missing. OSError if others may write into it."""
    folder.mkdir(0o700, exist_ok=True)
    status = folder.lstat()
    is_folder = folder.is_dir() and not folder.is_symlink()
    if not is_folder or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{folder} is not this user's alone; delete it")
    return folder


def carry_out_in_copy(do: Callable[[T], R], root: Path, task: T, stored: bytes) -> TaskResult[R]:
    """Carry out the task in the repository at `root`. The run that it makes is packed, and goes
    with the result.

    `stored`: the archive of the stored run that it is about; b"" for none.
    """
    with _alone_with_task(root.parent, task):
        if stored:
            _import_run(root, Provenance(_LATER), stored)
        result = do(replace(task, root=root))  # type: ignore[type-var]  # tasks are Structs
        match result:
            case object(bundle=str(bundle)) if bundle:
                archive = _export_run(root, Provenance(_LATER), bundle)
                # Ten thousand runs do not fill the disk.
                shutil.rmtree(root / bundle, ignore_errors=True)
                return TaskResult(result, archive)
            case _:
                return TaskResult(result)


@contextmanager
def _alone_with_task(folder: Path, task: object) -> Iterator[None]:
    """Wait for a process that is at the same task, because its worker was killed: it removes its
    run when it has packed it, which this one would take for its own.
    """
    name = hashlib.sha256(repr(task).encode()).hexdigest()[:16]
    with (folder / f"{name}.task").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# At the command


class CommandRepository(Struct, frozen=True):
    """The repository whose command this is."""

    root: Path
    """Its top."""

    tracked: Collection[str]
    """What git tracks of its store."""

    state: CloneState

    now: Callable[[], datetime]

    def archive_run(self, place: str) -> bytes:
        """The archive of the stored run at `<key>/<run id>`, which a task is about. IntegrityError,
        StorageError.
        """
        return _export_run(self.root, self._provenance(), f"{STORE}/{place}")

    def store_result(self, task_result: TaskResult[R]) -> R:
        """Bring the run that a task made into the store, and count what it cost on this day. It is
        there already if it was made on this machine. IntegrityError, StorageError.
        """
        result = task_result.result
        if not task_result.archive:
            return result
        _import_run(self.root, self._provenance(), task_result.archive)
        match result:
            case object(bundle=str(bundle)):
                run_id = bundle.rpartition("/")[2]
                self.state.begun.note_run(run_id)  # a worker began it for this clone
                usd = getattr(result, "usd", None)
                if isinstance(usd, float):
                    self.state.spending.add(usd, run_id, self.now())
            case _:
                pass
        return result

    def _provenance(self) -> Provenance:
        return Provenance(self.now(), self.tracked)


def _export_run(root: Path, provenance: Provenance, bundle: str) -> bytes:
    _, key, run_id = bundle.split("/")
    with scratch.private_folder("run") as folder:
        archive = folder / _ARCHIVE
        export_runs(root, provenance, [RunEntry(run_id, key)], archive)
        return archive.read_bytes()


def _import_run(root: Path, provenance: Provenance, content: bytes) -> None:
    with scratch.private_folder("run") as folder:
        archive = folder / _ARCHIVE
        archive.write_bytes(content)
        import_runs(root, provenance, archive)
