"""Workers of a Dask cluster, for what local processes do too (`batch.carry_out_tasks`). The only
importer of distributed.

Dask hands tasks out, hands those of a dead worker out again, and has a dashboard. What it does not
know is here: what a worker needs before its first task (`Outfit`), that each task runs in a process
of its own, and that the scheduler may come back. Whoever reaches a port of Dask's runs anything
there, as the user who started it: so "local" has no port, and a review that runs code of its change
wants TLS (`gate.chosen.refuse_code`).
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import distributed
from distributed.comm import CommClosedError

from vibe_gate.domain.escape import counted
from vibe_gate.errors import GateError, InfrastructureError, UsageError
from vibe_gate.run.batch import Workers
from vibe_gate.run.cluster_repository import (
    Delivery,
    Home,
    Parcel,
    RepositoryTask,
    Unpacked,
    deliver,
)
from vibe_gate.sandbox.task_process import TaskProcess
from vibe_gate.version import __version__

R = TypeVar("R")

PATIENCE_S = 60
"""Seconds in which a scheduler and its first worker have to be there, at the start and after a
restart.
"""

_QUEUED = 2
"""Tasks for each thread of the workers: so none waits for its next, and workers that come later
find some.
"""

_PACKAGE = "vibe-gate"


@contextmanager
def cluster_workers(
    address: str,
    jobs: int,
    outfit: Outfit,
    home: Home,
    about: Callable[[Any], str],
    tell: Callable[[str], object],
) -> Iterator[Workers]:
    """The workers of the scheduler at `address`; "local": `jobs` threads of this process, in its
    own repository.

    `about`: the place of the stored run that a task needs there, "" for none. `tell` hears
    sentences for people. UsageError: an address that is none, a worker that cannot be used.
    InfrastructureError: no scheduler, or no worker.
    """
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters of it is told here
    with ExitStack() as stack:
        client = _client(
            stack.enter_context(_without_ports(jobs)) if address == "local" else address
        )
        stack.callback(client.close)
        executor = _DaskExecutor(client, outfit, home, about, tell)
        stack.callback(executor.leave)
        yield Workers(executor, executor.equip() * _QUEUED)


def _without_ports(jobs: int) -> distributed.LocalCluster:
    """A scheduler and workers in this process: code that a command runs cannot reach them, nor can
    other users.
    """
    made = distributed.LocalCluster(
        n_workers=jobs,
        threads_per_worker=1,
        processes=False,  # a task has its own all the same
        protocol="inproc://",
        memory_limit=0,  # tasks take none of this process's
        dashboard_address="127.0.0.1:0",
        worker_dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )
    made.sync(_close_pages, made)
    return made


async def _close_pages(made: distributed.LocalCluster) -> None:
    """Stop listening for HTTP, which Dask always does."""
    for node in (made.scheduler, *made.workers.values()):
        node.http_server.stop()
        node.services.pop("dashboard")


def _client(address: object) -> distributed.Client:
    if str(address).startswith("tls://"):
        _require_certificates()
    try:
        return distributed.Client(address, timeout=PATIENCE_S, set_as_default=False)
    except OSError as error:
        raise InfrastructureError(
            f"No Dask scheduler answers at {address}; start one with `dask scheduler`."
        ) from error


def _require_certificates() -> None:
    """UsageError without certificates for tls://: a client that has none does not end for two
    minutes.
    """
    try:
        if distributed.Security().get_connection_args("client").get("ssl_context"):
            return
        why = "Dask has no certificates"
    except OSError as error:
        why = f"Dask's certificates cannot be read ({error.strerror})"
    raise UsageError(
        f"--cluster tls://: {why}; name their files in its settings (distributed.comm.tls)."
    )


class _DaskExecutor(Executor):
    """Hands tasks to the workers, and takes in what comes back. BrokenExecutor: the scheduler of
    the task is gone.
    """

    def __init__(
        self,
        client: distributed.Client,
        outfit: Outfit,
        home: Home,
        about: Callable[[Any], str],
        tell: Callable[[str], object],
    ) -> None:
        self._client = client
        self._outfit = outfit
        self._home = home
        self._about = about
        self._tell = tell
        self._sent: set[distributed.Future] = set()
        self._lost = False

    def equip(self) -> int:
        """Check every worker, and give it what it needs; the number of their threads."""
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE_S)
        except TimeoutError:
            address = self._client.scheduler.address
            raise InfrastructureError(
                f"No worker at {address}; start one with `dask worker {address}`."
            ) from None
        self._require_fit()
        self._client.register_plugin(self._outfit)
        threads = self._client.nthreads()
        what = (
            f"{counted(len(threads), 'worker')}, {counted(sum(threads.values()), 'task')} at a time"
        )
        has_page = "dashboard" in self._client.scheduler_info()["services"]
        self._tell(f"Cluster: {what}." + f" Dashboard: {self._client.dashboard_link}" * has_page)
        return sum(threads.values())

    def _require_fit(self) -> None:
        """UsageError with a sentence for each worker that cannot be used."""
        versions = self._client.run(importlib.metadata.version, _PACKAGE, on_error="return")
        reasons = {worker: _other_version(found) for worker, found in versions.items()}
        same = [worker for worker, why in reasons.items() if not why]
        if same:  # others may not know what this is
            reasons |= self._client.run(self._outfit.unfit, workers=same, on_error="return")
        if sentences := [
            f"The worker {worker} cannot be used: {why}." for worker, why in reasons.items() if why
        ]:
            raise UsageError("\n".join(sorted(sentences)))

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:  # noqa: ANN401 (as an Executor has it)
        if self._lost:
            self._reconnect()
        future: Future[R] = Future()
        future.set_running_or_notify_cancel()
        (task,) = args
        try:
            place = self._about(task) if self._outfit.travels else ""
            stored = self._home.send(place) if place else b""
        except GateError as error:
            future.set_exception(error)
            return future
        sent = self._client.submit(_carry_out, self._outfit.name, fn, task, stored, pure=False)
        self._sent.add(sent)
        sent.add_done_callback(partial(self._ended, future))
        return future

    def _ended(self, future: Future[Any], sent: distributed.Future) -> None:
        """Hand on how a task ended. Dask calls this in a thread of its own, for one task after the
        other.
        """
        self._sent.discard(sent)
        try:
            future.set_result(self._home.take_in(sent.result()))
        except (distributed.CancelledError, CommClosedError):
            self._lost = True
            future.set_exception(BrokenExecutor("the scheduler is gone"))
        except distributed.KilledWorker as error:
            future.set_exception(BrokenExecutor(str(error)))
        except Exception as error:  # noqa: BLE001  as every executor does
            future.set_exception(error)

    def _reconnect(self) -> None:
        """Wait for the scheduler, which knows nothing of us any more. InfrastructureError if it
        stays away.
        """
        self._tell("The scheduler is gone; waiting for it and its workers.")
        latest = time.monotonic() + PATIENCE_S
        while self._client.status == "connecting" and time.monotonic() < latest:
            time.sleep(0.1)
        if self._client.status != "running":
            raise InfrastructureError(
                "The scheduler did not come back. The same command goes on from there."
            )
        self._lost = False
        self.equip()

    def leave(self) -> None:
        """Cancel what runs, and take back what the workers were given."""
        with suppress(Exception):  # a scheduler that is gone has nothing of ours
            self._client.cancel(list(self._sent), force=True)
            self._client.run(_end, self._outfit.name)
            self._client.unregister_worker_plugin(self._outfit.name)


def _other_version(found: object) -> str:
    """Why a worker that answers so about its version cannot be used."""
    if isinstance(found, importlib.metadata.PackageNotFoundError):
        return "vibe-gate is not installed"
    return (
        "" if found == __version__ else f"vibe-gate {found} is installed, here it is {__version__}"
    )


# At a worker


class Outfit(distributed.WorkerPlugin):  # type: ignore[misc]
    """What a worker has for the tasks of one command: the repository, and a process for each of its
    threads.
    """

    def __init__(
        self, parcel: Parcel | None, unpack: Callable[[Parcel], Unpacked], unfit: Callable[[], str]
    ) -> None:
        """`parcel` None: the tasks' repository is on the worker's machine, where the tasks say.

        Called at a worker, so functions of a module, or `partial`s of them: `unpack`, and `unfit`,
        which says why the worker cannot be used, as a clause.
        """
        self.name = f"vibe-gate-{secrets.token_hex(8)}"  # two commands may use a cluster at once
        self.unfit = unfit
        self.is_over = False  # the command has ended
        self.travels = parcel is not None
        self._parcel = parcel
        self._unpack = unpack

    async def setup(self, worker: distributed.Worker) -> None:
        """Check the worker and unpack. Raises if it cannot be used, so that one which comes later
        does not join.
        """
        self._thread = threading.local()
        self._children: dict[Any, TaskProcess] = {}  # by the key of the task
        self._all: list[TaskProcess] = []
        self._unpacked: Unpacked | None = None
        if why := self.unfit():
            raise UsageError(f"This worker cannot be used: {why}.")
        if self._parcel:
            self._unpacked = await asyncio.to_thread(self._unpack, self._parcel)
            self._parcel = None  # it may be large

    async def teardown(self, worker: distributed.Worker) -> None:
        """Let the processes go: one that has a task ends it."""
        for child in self._all:
            child.end_after_task()
        if self._unpacked:
            await asyncio.to_thread(self._unpacked.close, delete=self.is_over)

    def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:  # noqa: ANN401 (as Dask has it)
        """End a task that is not wanted any more: its command was interrupted, or is gone."""
        if (
            start == "executing"
            and finish in ("released", "cancelled")
            and (child := self._children.get(key))
        ):
            child.end()

    def carry_out(self, do: Callable[[Any], R], task: RepositoryTask, stored: bytes) -> Delivery[R]:
        """Carry out a task in the process of this thread."""
        child = getattr(self._thread, "child", None)
        if child is None:
            child = self._thread.child = TaskProcess(
                self._unpacked.lock if self._unpacked else None
            )
            self._all.append(child)
        key = distributed.get_worker().get_current_task()
        self._children[key] = child
        try:
            if self._unpacked is None:
                return Delivery(child.carry_out(do, task))
            return child.carry_out(partial(deliver, do, self._unpacked.root, stored=stored), task)
        finally:
            del self._children[key]


def _end(outfit: str, dask_worker: distributed.Worker) -> None:
    dask_worker.plugins[outfit].is_over = True


def _carry_out(
    outfit: str, do: Callable[[Any], R], task: RepositoryTask, stored: bytes
) -> Delivery[R]:
    """The task of Dask."""
    return distributed.get_worker().plugins[outfit].carry_out(do, task, stored)  # type: ignore[no-any-return]
