"""A process of its own for the tasks of a thread, in a worker that is not ours.

A review must be in the main thread of its process, because a signal interrupts it at its deadline.
Tasks and results go through pipes as pickles, one at a time. A process whose worker was killed ends
its task before it ends: what the task was answered is kept then, and whoever does it again asks no
more.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn, TypeVar

from vibe_gate.errors import INTERRUPTED

T = TypeVar("T")
R = TypeVar("R")

GRACE_S = 10
"""Seconds that a task has to end its agents and to mark its run."""

_SIZE = 8
"""Bytes before each pickle that say how long it is."""


class TaskProcess:
    """The process. It is started with the first task, and again after it died."""

    def __init__(self, locked: Path | None = None) -> None:
        """`locked`: a folder of which the process holds a shared lock."""
        self._locked = locked
        self._process: subprocess.Popen[bytes] | None = None

    def carry_out(self, do: Callable[[T], R], task: T) -> R:
        """The result of `do(task)`, or what it raised. BrokenExecutor: the process died, or was
        ended.
        """
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _send(process.stdin, (do, task))
            result, error = pickle.loads(_receive(process.stdout))  # noqa: S301  of our own process
        except (OSError, EOFError) as broken:
            self.end()
            raise BrokenExecutor("the process of the task died") from broken
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    def end_after_task(self) -> None:
        """Have the process end, after its task if it has one."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def end(self) -> None:
        """End the process, its task as at Ctrl-C, or after a while the hard way."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.terminate()
            threading.Thread(target=_end, args=(process,), daemon=True).start()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            # A session of its own: Ctrl-C at the terminal reaches whoever began this, who then ends
            # it.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, *([self._locked] if self._locked else [])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        return self._process


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _send(pipe: IO[bytes], value: object) -> None:
    data = pickle.dumps(value)
    pipe.write(len(data).to_bytes(_SIZE) + data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes:
    """The next pickle; EOFError if there is none."""
    head = pipe.read(_SIZE)
    data = pipe.read(int.from_bytes(head))
    if len(head) < _SIZE or len(data) < int.from_bytes(head):
        raise EOFError
    return data


# In the process


def _serve(*locked: str) -> None:
    """Carry out the tasks of standard input. Programs that a task starts read nothing of it, and
    write to stderr.
    """
    task_fd = os.dup(0)
    result_fd = os.dup(1)
    with os.fdopen(task_fd, "rb") as tasks, os.fdopen(result_fd, "wb") as results:
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        pickles: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        signal.signal(signal.SIGTERM, _interrupt)
        for path in locked:
            fcntl.flock(os.open(path, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_SH)
        threading.Thread(target=_queue_tasks, args=(tasks, pickles), daemon=True).start()
        while task := pickles.get():
            with suppress(BrokenPipeError):  # the worker was killed
                _send(results, _result_of(task))


def _result_of(pickled: bytes) -> tuple[Any, BaseException | None]:
    """What the task gives, or what it raises."""
    try:
        do, task = pickle.loads(pickled)  # noqa: S301  of the process that started this one
        return do(task), None
    except Exception as error:  # noqa: BLE001  as every executor does
        return None, error


def _queue_tasks(tasks: IO[bytes], pickles: queue.SimpleQueue[bytes]) -> None:
    """Queue each task as it comes, and b"" when no more will."""
    with suppress(EOFError):
        while True:
            pickles.put(_receive(tasks))
    pickles.put(b"")


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    try:
        _serve(*sys.argv[1:])
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
