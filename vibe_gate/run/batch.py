"""Many tasks, one result each: in this process, in worker processes, or wherever an executor takes
them.

Nothing here knows what a task is. What is done already is found by its record in the store, so that
a batch that was killed at any point goes on with the same command.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for_end
from types import FrameType
from typing import Any, Generic, TypeVar

from msgspec import Struct

from vibe_gate.domain.escape import safe
from vibe_gate.errors import INTERRUPTED, GateError

T = TypeVar("T")
R = TypeVar("R")

ATTEMPTS = 2
"""Workers that a task may cost: one that died may have been killed for another's sake, a second one
was not.
"""

SOON_USED_UP = 0.001
"""USD: with less than this no conversation is begun."""

_STARTS = multiprocessing.get_context("spawn")  # a fork would share git's pipes and SQLite's locks
_SAFE_PATH = "PYTHONSAFEPATH"
"""With this variable Python imports nothing from the current folder, which may be the reviewed
repository.
"""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_POLL_S = 0.05
"""Seconds between two looks whether the task that is interrupted has ended."""


class Workers(Struct, frozen=True):
    """Who carries tasks out."""

    executor: Executor
    """Of a worker that died, its future raises `BrokenExecutor`."""

    at_once: int
    """How many tasks it takes at once."""


class TaskEnd(Struct, Generic[T, R], frozen=True):
    """How a task ended."""

    task: T
    """As it was handed out."""

    result: R | None

    why: str = ""
    """What happened to a task without a result, as a sentence."""


class _Attempt(Struct, Generic[T], frozen=True):
    """A task that a worker is given."""

    task: T

    number: int = 1
    """How many workers were given the task, this one included."""


def carry_out_tasks(
    tasks: Iterable[T],
    do: Callable[[T], R],
    workers: Workers,
    ready: Callable[[T], T | None] = lambda task: task,
) -> Iterator[TaskEnd[T, R]]:
    """The ends of the tasks, as they come; tasks begin in their order.

    `do` is a function of a module, and tasks and results can be pickled: they may travel. It raises
    nothing that it can say in its result. `ready` gives a task as it is handed out (with its part
    of a budget, say), or None if it has to wait until another one has ended; of several that run,
    one ends. A worker that dies costs its own task alone, which is done once more.
    """
    new_attempts = map(_Attempt, tasks)
    waiting_attempts = deque[_Attempt[T]]()
    running: dict[Future[R], _Attempt[T]] = {}
    while True:
        while len(running) < workers.at_once:
            attempt = waiting_attempts.popleft() if waiting_attempts else next(new_attempts, None)
            if attempt is None:
                break
            task = attempt.task if attempt.number > 1 else ready(attempt.task)
            if task is None:
                waiting_attempts.append(attempt)
                break
            running[workers.executor.submit(do, task)] = _Attempt(task, attempt.number)
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            attempt = running.pop(future)
            error = future.exception()
            if error is None:
                yield TaskEnd(attempt.task, future.result())
            elif _has_lost_worker(error) and attempt.number < ATTEMPTS:
                waiting_attempts.append(_Attempt(attempt.task, attempt.number + 1))
            else:
                yield TaskEnd(attempt.task, None, _describe_error(error))


def _has_lost_worker(error: BaseException) -> bool:
    return isinstance(error, (BrokenExecutor, KeyboardInterrupt))


def _describe_error(error: BaseException) -> str:
    if _has_lost_worker(error):
        return f"The process that worked on it died, {ATTEMPTS} times (killed, or out of memory)."
    if isinstance(error, GateError):
        return safe(str(error))
    return f"internal error: {type(error).__name__}: {safe(str(error))}"


@contextmanager
def local_workers(jobs: int) -> Iterator[Workers]:
    """Workers on this machine: this process for one job, else a process each.

    If the block is left by an exception, Ctrl-C say, each ends its task as a single run ends at
    Ctrl-C; at a second Ctrl-C they are killed.
    """
    if jobs == 1:
        yield Workers(_InThisProcess(), 1)
        return
    executor = _WorkerProcesses(jobs)
    try:
        yield Workers(executor, jobs)
    except BaseException:
        executor.stop()
        raise
    executor.shutdown()


class _InThisProcess(Executor):
    """Carries a task out when it is submitted. What interrupts it is raised at once."""

    def submit(self, fn: Callable[..., R], /, *args: object, **kwargs: object) -> Future[R]:
        future: Future[R] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  as every executor does
            future.set_exception(error)
        return future


class _WorkerProcesses(Executor):
    """Processes, each a pool of its own: so one that dies takes no other task with it."""

    def __init__(self, jobs: int) -> None:
        self._pools = [_new_pool() for _ in range(jobs)]
        self._latest: list[Future[Any] | None] = [None] * jobs

    def submit(self, fn: Callable[..., R], /, *args: object, **kwargs: object) -> Future[R]:
        """Hand a task to a process that has none, a new one in place of one that died."""
        number = self._find_idle_pool()
        latest = self._latest[number]
        error = latest.exception() if latest is not None else None
        if error is not None and _has_lost_worker(error):
            self._pools[number].shutdown(wait=False)
            self._pools[number] = _new_pool()
        try:
            future = self._submit_to(number, fn, *args)
        except BrokenExecutor:  # it died while it had nothing to do
            self._pools[number] = _new_pool()
            future = self._submit_to(number, fn, *args)
        self._latest[number] = future
        return future

    def _find_idle_pool(self) -> int:
        """The number of a pool that has no task. There is one: no more are handed out at once."""
        for number, latest in enumerate(self._latest):
            if latest is None or latest.done():
                return number
        raise AssertionError("more tasks at once than processes")

    def _submit_to(self, number: int, fn: Callable[..., R], *args: object) -> Future[R]:
        # A process is started with these signals blocked, until it knows what to do about them.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            with _safe_path():
                return self._pools[number].submit(_interruptible, fn, *args)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for pool in self._pools:
            pool.shutdown(wait, cancel_futures=cancel_futures)

    def stop(self) -> None:
        """Interrupt what runs, and wait for it; a second Ctrl-C kills it."""
        try:
            for process in multiprocessing.active_children():
                process.terminate()
            self.shutdown(cancel_futures=True)
        except KeyboardInterrupt:
            for process in multiprocessing.active_children():
                process.kill()
            raise


def _new_pool() -> ProcessPoolExecutor:
    before = os.environ.get(_SAFE_PATH)
    with _safe_path():  # begins a process that counts semaphores
        return ProcessPoolExecutor(1, _STARTS, _worker_began, (before,))


@contextmanager
def _safe_path() -> Iterator[None]:
    """Have processes that begin in this block import nothing from the current folder."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        _restore_safe_path(before)


def _restore_safe_path(before: str | None) -> None:
    """Commands of the gate have the variable as whoever runs us has it."""
    if before is None:
        del os.environ[_SAFE_PATH]
    else:
        os.environ[_SAFE_PATH] = before


# In a worker's process


class _Interruption:
    """Ctrl-C and SIGTERM in a worker: the task that runs is interrupted, once; between tasks there
    is nothing to do.
    """

    def __init__(self) -> None:
        self.has_task = False
        self.is_requested = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        is_first = not self.is_requested
        self.is_requested = True
        if self.has_task and is_first:
            raise KeyboardInterrupt


_interruption = _Interruption()


def _worker_began(safe_path: str | None) -> None:
    _restore_safe_path(safe_path)
    for signal_number in _SIGNALS:
        signal.signal(signal_number, _interruption)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Interrupt the task when whoever gave it was killed: nobody waits for its end."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for_end([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    while _interruption.has_task:
        time.sleep(_POLL_S)
    os._exit(INTERRUPTED)


def _interruptible(do: Callable[..., R], *args: object) -> R:
    _interruption.has_task = True
    try:
        if _interruption.is_requested:
            raise KeyboardInterrupt
        return do(*args)
    finally:
        _interruption.has_task = False


# A budget that several share


class SharedLimit:
    """USD that are left for reviews that run side by side; each reserves what it may cost at
    most.
    """

    def __init__(self, usd: float) -> None:
        self._unreserved_usd = usd
        self._running = 0

    def reserve(self, max_usd: float) -> float | None:
        """What the next review may cost: `max_usd`, or when none runs that could leave some over,
        what is left.

        None: it has to wait until another one is released.
        """
        if self._unreserved_usd < max_usd and self._running:
            return None
        limit = min(max_usd, self._unreserved_usd)
        self._unreserved_usd -= limit
        self._running += 1
        return limit

    def release(self, limit: float, usd: float) -> None:
        """The review that reserved `limit` cost `usd`."""
        self._unreserved_usd += limit - usd
        self._running -= 1
