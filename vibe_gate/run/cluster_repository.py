"""What travels between a command and the workers of a cluster: the repository there, each run back.

    repository, state.db -> Parcel -> a repository of the worker's machine -> Delivery -> this store

A worker's machine has one repository for a command, whatever processes work there: what one of them
was answered, the next one knows, also after a process was killed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Collection
from contextlib import suppress
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

_ABANDONED_S, _PATIENCE_S = 86_400, 5
_ARCHIVE = "run.tar.gz"

T = TypeVar("T", bound=RepositoryTask)
R = TypeVar("R")


class Parcel(Struct, frozen=True):
    """A repository, and its state.db: overrides, labels, answers, records of git's hooks."""

    copy: RepositoryCopy
    state: bytes

    @property
    def name(self) -> str:
        """The same for the same content."""
        content = hashlib.sha256(
            repr((self.copy.links, self.copy.settings, self.copy.has_files)).encode()
        )
        for part in (self.copy.bundle, self.state):
            content.update(hashlib.sha256(part).digest())
        return content.hexdigest()[:16]


class Delivery(Struct, Generic[R], frozen=True):
    """A task's result, and the archive of the run that it made; b"" if it made none."""

    result: R
    archive: bytes = b""


def parcel_of(repository: Repository, *, files: bool) -> Parcel:
    """What workers need; with `files` those of the working tree, too. UsageError,
    InfrastructureError.
    """
    with open_state(repository.common_dir) as state:
        return Parcel(repository.copy(files=files), state.file.copied())


# At a worker


class Unpacked:
    """The parcel's repository on this machine, in a folder that only this user may read.

    `root` is its top; whoever has a shared lock of the file `lock` uses it.
    """

    def __init__(self, parcel: Parcel, environment: Environment) -> None:
        """InfrastructureError if it cannot be made."""
        self._parcel = parcel
        self._environment = environment
        try:
            place = _own_folder(Path(tempfile.gettempdir(), f"vibe-gate-cluster-{os.getuid()}"))
            self._folder = place / parcel.name
            self.root = self._folder / "repository"
            self.lock = place / f"{parcel.name}.lock"
            self._descriptor = os.open(
                self.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
            self._hold()
            _remove_abandoned(place)
        except OSError as error:
            raise InfrastructureError(
                f"no repository could be made for the tasks: {error}."
            ) from error

    def _hold(self) -> None:
        """Have the folder ready, and a shared lock of it.

        Nobody waits for the lock alone: whoever has made the folder keeps it shared as long as the
        command takes.
        """
        while True:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
            if (self._folder / "ready").exists():
                return
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not (self._folder / "ready").exists():
                    self._make()
            except BlockingIOError:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
                time.sleep(random.uniform(0.02, 0.1))  # noqa: S311  so that two do not meet again

    def _make(self) -> None:
        shutil.rmtree(
            self._folder, ignore_errors=True
        )  # of a worker that was killed while it made it
        self.root.mkdir(0o700, parents=True)
        self._parcel.copy.write(self.root, self._environment)
        with (
            open_repository(self.root, self._environment) as repository,
            open_state(repository.common_dir) as state,
        ):
            if self._parcel.state:
                state.file.begin_with(self._parcel.state)
        (self._folder / "ready").touch()

    def close(self, *, delete: bool) -> None:
        """Let go of the folder. `delete`: the command has ended, so delete it when all others have
        let go, which takes them a moment.
        """
        latest = time.monotonic() + _PATIENCE_S if delete else 0
        while time.monotonic() < latest:
            with suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(self._folder, ignore_errors=True)
                break
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            time.sleep(0.05)
        os.close(self._descriptor)


def _remove_abandoned(place: Path) -> None:
    """Delete what no process uses and a command left that could not end: a scheduler may come back
    within a day.

    The locks stay: a process may be about to take one.
    """
    for ready in place.glob("*/ready"):
        with suppress(OSError), ready.parent.with_suffix(".lock").open("rb") as lock:
            if time.time() - ready.stat().st_mtime > _ABANDONED_S:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(ready.parent, ignore_errors=True)


def _own_folder(folder: Path) -> Path:
    """The folder, made if it is missing. OSError if others may write into it."""
    folder.mkdir(0o700, exist_ok=True)
    found = folder.lstat()
    if (
        found.st_uid != os.getuid()
        or not folder.is_dir()
        or folder.is_symlink()
        or found.st_mode & 0o077
    ):
        raise PermissionError(f"{folder} is not this user's alone; delete it")
    return folder


def deliver(do: Callable[[T], R], root: Path, task: T, stored: bytes) -> Delivery[R]:
    """Carry out the task in the repository at `root`. The run that it makes is packed, and goes
    with the result.

    `stored`: the archive of the stored run that it is about; b"" for none.
    """
    if stored:
        _import(root, Provenance(_LATER), stored)
    result = do(replace(task, root=root))  # type: ignore[type-var]  # tasks are Structs
    match result:
        case object(bundle=str(bundle)) if bundle:
            archive = _export(root, Provenance(_LATER), bundle)
            shutil.rmtree(
                root / bundle, ignore_errors=True
            )  # ten thousand runs do not fill the disk
            return Delivery(result, archive)
        case _:
            return Delivery(result)


# At home


class Home(Struct, frozen=True):
    """The repository whose command this is, `root` its top. `tracked`: what git tracks of its
    store.
    """

    root: Path
    tracked: Collection[str]
    state: CloneState
    now: Callable[[], datetime]

    def send(self, place: str) -> bytes:
        """The archive of the stored run at `<key>/<run id>`, which a task is about. IntegrityError,
        StorageError.
        """
        return _export(self.root, Provenance(self.now(), self.tracked), f"{STORE}/{place}")

    def take_in(self, delivery: Delivery[R]) -> R:
        """Bring the run that a task made into the store, and count what it cost on this day. It is
        there already if it was made on this machine. IntegrityError, StorageError.
        """
        if not delivery.archive:
            return delivery.result
        _import(self.root, Provenance(self.now(), self.tracked), delivery.archive)
        match delivery.result:
            case object(bundle=str(bundle)) as result:
                run_id = bundle.rpartition("/")[2]
                self.state.begun.note_run(run_id)  # a worker began it for this clone
                usd = getattr(result, "usd", None)
                if isinstance(usd, float):
                    self.state.spending.add(usd, run_id, self.now())
            case _:
                pass
        return delivery.result


def _export(root: Path, provenance: Provenance, bundle: str) -> bytes:
    _, key, run_id = bundle.split("/")
    with scratch.private_folder("run") as folder:
        export_runs(root, provenance, [RunEntry(run_id, key)], folder / _ARCHIVE)
        return (folder / _ARCHIVE).read_bytes()


def _import(root: Path, provenance: Provenance, archive: bytes) -> None:
    with scratch.private_folder("run") as folder:
        (folder / _ARCHIVE).write_bytes(archive)
        import_runs(root, provenance, folder / _ARCHIVE)
