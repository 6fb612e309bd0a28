"""Workers of a Dask cluster, for what local processes do too (`batch.carry_out_tasks`). The only
importer of distributed.

Dask hands tasks out, hands those of a dead worker out again, and has a dashboard. What it does not
know is here: what a worker needs before its first task (`WorkerSetup`), that each task runs in a
process of its own, and that the scheduler may come back. Whoever reaches a port of Dask's runs anything
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

from vibe_gate.domain.escape import counted
from vibe_gate.errors import GateError, InfrastructureError, UsageError
from vibe_gate.run.batch import Workers
from vibe_gate.run.cluster_repository import (
    CommandRepository,
    RepositoryTask,
    SentRepository,
    TaskResult,
    WorkerRepository,
    carry_out_in_copy,
)
from vibe_gate.sandbox.task_process import TaskProcess
from vibe_gate.version import __version__

R = TypeVar("R")

PATIENCE_S = 60
"""Seconds in which a scheduler and its first worker have to be there, at the start and after a
restart.
"""

TASKS_A_THREAD = 2
"""Tasks for each thread of the workers: so none waits for its next, and workers that come later
find some.
"""

_POLL_S = 0.1
"""Seconds between two looks whether the scheduler is back."""

_WHOLE, _CORE = "vibe-gate", "vibe-gate-core"

_CONNECTED, _CONNECTING = "running", "connecting"
"""What Dask calls the states of a client."""


@contextmanager
def cluster_workers(
    address: str,
    jobs: int,
    setup: WorkerSetup,
    command_repository: CommandRepository,
    place_of_stored_run: Callable[[Any], str],
    tell: Callable[[str], object],
    *,
    patience_s: float = PATIENCE_S,
) -> Iterator[Workers]:
    """The workers of the scheduler at `address`; "local": `jobs` threads of this process, in its
    own repository.

    UsageError: an address that is none, a worker that cannot be used. InfrastructureError: no
    scheduler, or no worker.

    Args:
        address: Of the scheduler, or "local".
        jobs: Threads of this process, if it is local.
        setup: What each worker is given.
        command_repository: Where the runs go that tasks make.
        place_of_stored_run: The place of the run that a task needs there, "" for none.
        tell: Hears sentences for people.
        patience_s: Seconds in which a scheduler and its first worker have to be there.
    """
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters of it is told here
    with ExitStack() as stack:
        scheduler: object = address
        if address == "local":
            scheduler = stack.enter_context(_start_local_cluster(jobs))
        client = _connect(scheduler, patience_s)
        stack.callback(client.close)
        executor = _DaskExecutor(
            client, setup, command_repository, place_of_stored_run, tell, patience_s
        )
        stack.callback(executor.release_workers)
        yield Workers(executor, executor.prepare_workers() * TASKS_A_THREAD)


def _start_local_cluster(jobs: int) -> distributed.LocalCluster:
    """A scheduler and workers in this process: code that a command runs cannot reach them, nor can
    other users.
    """
    local_cluster = distributed.LocalCluster(
        n_workers=jobs,
        threads_per_worker=1,
        processes=False,  # a task has its own all the same
        protocol="inproc://",
        memory_limit=0,  # tasks take none of this process's
        dashboard_address="127.0.0.1:0",
        worker_dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )
    local_cluster.sync(_close_ports, local_cluster)
    return local_cluster


async def _close_ports(local_cluster: distributed.LocalCluster) -> None:
    """Stop listening for HTTP, which Dask always does."""
    for node in (local_cluster.scheduler, *local_cluster.workers.values()):
        node.http_server.stop()
        node.services.pop("dashboard")


def _connect(address: object, patience_s: float) -> distributed.Client:
    """A client of the scheduler. UsageError, InfrastructureError."""
    if str(address).startswith("tls://"):
        _require_certificates()
    try:
        return distributed.Client(address, timeout=patience_s, set_as_default=False)
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
        reason = "Dask has no certificates"
    except OSError as error:
        reason = f"Dask's certificates cannot be read ({error.strerror})"
    raise UsageError(
        f"--cluster tls://: {reason}; name their files in its settings (distributed.comm.tls)."
    )


class _DaskExecutor(Executor):
    """Hands tasks to the workers, and takes in what comes back. BrokenExecutor: the scheduler of
    the task is gone.
    """

    def __init__(
        self,
        client: distributed.Client,
        setup: WorkerSetup,
        command_repository: CommandRepository,
        place_of_stored_run: Callable[[Any], str],
        tell: Callable[[str], object],
        patience_s: float,
    ) -> None:
        self._client = client
        self._setup = setup
        self._command_repository = command_repository
        self._place_of_stored_run = place_of_stored_run
        self._tell = tell
        self._patience_s = patience_s
        self._sent: set[distributed.Future] = set()
        """What has been submitted and has not ended."""
        self._is_disconnected = False

    def prepare_workers(self) -> int:
        """Check every worker, and give it what it needs; the number of their threads."""
        try:
            self._client.wait_for_workers(1, timeout=self._patience_s)
        except TimeoutError:
            address = self._client.scheduler.address
            raise InfrastructureError(
                f"No worker at {address}; start one with `dask worker {address}`."
            ) from None
        self._require_fit()
        self._client.register_plugin(self._setup)
        threads = self._client.nthreads()
        thread_count: int = sum(threads.values())
        workers = counted(len(threads), "worker")
        sentence = f"Cluster: {workers}, {counted(thread_count, 'task')} at a time."
        if "dashboard" in self._client.scheduler_info()["services"]:
            sentence += f" Dashboard: {self._client.dashboard_link}"
        self._tell(sentence)
        return thread_count

    def _require_fit(self) -> None:
        """UsageError with a sentence for each worker that cannot be used."""
        versions = self._installed_versions()
        reasons = {worker: _reason_of_version(version) for worker, version in versions.items()}
        workers_of_version = [worker for worker, reason in reasons.items() if not reason]
        if workers_of_version:  # others may not know what this is
            unfitness = self._client.run(
                self._setup.unfit, workers=workers_of_version, on_error="return"
            )
            reasons |= _without_lost(unfitness)
        sentences = []
        for worker, reason in reasons.items():
            if reason:
                sentences.append(f"The worker {worker} cannot be used: {reason}.")
        if sentences:
            raise UsageError("\n".join(sorted(sentences)))

    def _installed_versions(self) -> dict[str, Any]:
        """By worker, the version that is installed there, or why that cannot be said.

        Asked of the standard library: a worker without vibe-gate cannot run anything of it.
        """
        find_version = importlib.metadata.version
        versions = self._client.run(find_version, _WHOLE, on_error="return")
        lacking = []
        for worker, version in versions.items():
            if isinstance(version, importlib.metadata.PackageNotFoundError):
                lacking.append(worker)
        if lacking:
            versions |= self._client.run(find_version, _CORE, workers=lacking, on_error="return")
        return _without_lost(versions)

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:  # noqa: ANN401 (as an Executor has it)
        if self._is_disconnected or self._client.status != _CONNECTED:
            self._reconnect()
        future: Future[R] = Future()
        future.set_running_or_notify_cancel()
        (task,) = args
        try:
            stored = self._archive_for(task)
        except GateError as error:
            future.set_exception(error)
            return future
        sent = self._client.submit(_carry_out, self._setup.name, fn, task, stored, pure=False)
        self._sent.add(sent)
        sent.add_done_callback(partial(self._pass_on_end, future))
        return future

    def _archive_for(self, task: object) -> bytes:
        """The archive of the stored run that a task needs there, b"" for none. GateError."""
        if not self._setup.sends_repository:
            return b""
        place = self._place_of_stored_run(task)
        if not place:
            return b""
        return self._command_repository.archive_run(place)

    def _pass_on_end(self, future: Future[Any], sent: distributed.Future) -> None:
        """Hand on how a task ended. Dask calls this in a thread of its own, for one task after the
        other.
        """
        self._sent.discard(sent)
        try:
            task_result = sent.result()
        except distributed.KilledWorker as error:
            future.set_exception(BrokenExecutor(str(error)))
            return
        except Exception as error:  # noqa: BLE001  as every executor does
            if sent.status == "error":
                future.set_exception(error)
                return
            # It was cancelled with its scheduler, or has ended and cannot be fetched any more.
            self._is_disconnected = True
            future.set_exception(BrokenExecutor("the scheduler is gone"))
            return
        try:
            future.set_result(self._command_repository.store_result(task_result))
        except Exception as error:  # noqa: BLE001  as every executor does
            future.set_exception(error)

    def _reconnect(self) -> None:
        """Wait for the scheduler, which knows nothing of us any more. InfrastructureError if it
        stays away.
        """
        self._tell("The scheduler is gone; waiting for it and its workers.")
        latest = time.monotonic() + self._patience_s
        while time.monotonic() < latest and self._client.status in (_CONNECTED, _CONNECTING):
            if self._client.status == _CONNECTED:
                # A connection that is lost is noticed late, a worker that is gone as well.
                with suppress(OSError, distributed.CancelledError):
                    self._is_disconnected = False
                    self.prepare_workers()
                    return
            time.sleep(_POLL_S)
        raise InfrastructureError(
            "The scheduler did not come back. The same command goes on from there."
        )

    def release_workers(self) -> None:
        """Cancel what runs, and take back what the workers were given."""
        with suppress(Exception):  # a scheduler that is gone has nothing of ours
            self._client.cancel(list(self._sent), force=True)
            self._client.run(_mark_ended, self._setup.name)
            self._client.unregister_worker_plugin(self._setup.name)


def _without_lost(answers: dict[str, Any]) -> dict[str, Any]:
    """The answers of workers without those that could not be reached: they are gone, or will be
    checked when they are back.
    """
    return {worker: answer for worker, answer in answers.items() if not isinstance(answer, OSError)}


def _reason_of_version(version: object) -> str:
    """Why a worker that answers so about its version cannot be used, "" if it can."""
    if isinstance(version, importlib.metadata.PackageNotFoundError):
        return "vibe-gate is not installed"
    if version == __version__:
        return ""
    return f"vibe-gate {version} is installed, here it is {__version__}"


# At a worker


class WorkerSetup(distributed.WorkerPlugin):  # type: ignore[misc]
    """What a worker has for the tasks of one command: the repository, and a process for each of its
    threads.
    """

    def __init__(
        self,
        sent_repository: SentRepository | None,
        open_repository: Callable[[SentRepository], WorkerRepository],
        unfit: Callable[[], str],
    ) -> None:
        """What is called at a worker is a function of a module, or a `partial` of one.

        Args:
            sent_repository: None: the tasks' repository is on the worker's machine, where the
                tasks say.
            open_repository: Called at a worker; makes the copy there.
            unfit: Called at a worker; says why it cannot be used, as a clause, or "".
        """
        self.name = f"vibe-gate-{secrets.token_hex(8)}"  # two commands may use a cluster at once
        self.unfit = unfit
        self.has_ended = False
        """Whether the command has ended."""
        self.sends_repository = sent_repository is not None
        self._sent_repository = sent_repository
        self._open_repository = open_repository

    async def setup(self, worker: distributed.Worker) -> None:
        """Check the worker and unpack. Raises if it cannot be used, so that one which comes later
        does not join.
        """
        self._thread = threading.local()
        self._processes_at_work: dict[Any, TaskProcess] = {}
        """By the key of the task."""
        self._processes: list[TaskProcess] = []
        self._repository: WorkerRepository | None = None
        self._failure: GateError | None = None
        """Why the worker cannot be used."""
        self._is_ready = False
        reason = self.unfit()
        if reason:
            self._failure = UsageError(f"This worker cannot be used: {reason}.")
            raise self._failure
        if self._sent_repository:
            self._repository = await asyncio.to_thread(self._open_repository, self._sent_repository)
            self._sent_repository = None  # it may be large
        self._is_ready = True

    async def teardown(self, worker: distributed.Worker) -> None:
        """End the processes: one that has a task ends it first."""
        for process in self._processes:
            process.end_after_task()
        if self._repository:
            await asyncio.to_thread(self._repository.close, delete=self.has_ended)

    def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:  # noqa: ANN401 (as Dask has it)
        """End a task that is not wanted any more: its command was interrupted, or is gone."""
        if start != "executing" or finish not in ("released", "cancelled"):
            return
        process = self._processes_at_work.get(key)
        if process is not None:
            process.end()

    def carry_out(
        self, do: Callable[[Any], R], task: RepositoryTask, stored: bytes
    ) -> TaskResult[R]:
        """Carry out a task in the process of this thread."""
        if self._failure is not None:
            raise self._failure
        if not self._is_ready:
            raise BrokenExecutor("the worker is not prepared yet")
        process = self._process_of_thread()
        key = distributed.get_worker().get_current_task()
        self._processes_at_work[key] = process
        try:
            if self._repository is None:
                return TaskResult(process.carry_out(do, task))
            do_in_copy = partial(carry_out_in_copy, do, self._repository.root, stored=stored)
            return process.carry_out(do_in_copy, task)
        finally:
            del self._processes_at_work[key]

    def _process_of_thread(self) -> TaskProcess:
        """The process of this thread, started for its first task."""
        process: TaskProcess | None = getattr(self._thread, "process", None)
        if process is None:
            process = TaskProcess(self._repository.lock if self._repository else None)
            self._thread.process = process
            self._processes.append(process)
        return process


def _mark_ended(setup: str, dask_worker: distributed.Worker) -> None:
    dask_worker.plugins[setup].has_ended = True


def _carry_out(
    setup: str, do: Callable[[Any], R], task: RepositoryTask, stored: bytes
) -> TaskResult[R]:
    """The task of Dask. BrokenExecutor: the scheduler is a new one, and has not heard of `setup`."""
    worker_setup: WorkerSetup | None = distributed.get_worker().plugins.get(setup)
    if worker_setup is None:
        raise BrokenExecutor("the worker is not prepared yet")
    return worker_setup.carry_out(do, task, stored)
