"""Threads that store batches of contents: packing and system calls let other threads run.

Where the system lets no more threads start, the caller stores them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING

from isal import isal_zlib

from vibe_gate.adapters.bundles.objects import Objects, encode

if TYPE_CHECKING:
    from vibe_gate.adapters.bundles.packing import Waiting

_THREADS = 2
_FAST_LEVEL = 2  # ISA-L's: five times as fast as libdeflate's 6, four points less saved (docs/decisions/0007)
_GZIP = 31  # zlib's number for "gzip, largest window"

Work = Future[None]


class Crew:
    """Two threads, or none, and what they store contents in."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._pool = ThreadPoolExecutor(_THREADS, "vibe-gate-storing")
        self._has_threads = _start(self._pool)

    def store(self, batch: Sequence[Waiting]) -> Work:
        """All of them, in their order, soon. `result()` waits, and raises what went wrong: OSError.

        Without threads they are stored when this returns, and it is raised here.
        """
        if self._has_threads:
            return self._pool.submit(self._store, batch)
        self._store(batch)
        done = Work()
        done.set_result(None)
        return done

    def close(self) -> None:
        """Wait for what is being stored; what was not begun never is."""
        self._pool.shutdown(cancel_futures=True)

    def _store(self, batch: Sequence[Waiting]) -> None:
        for one in batch:
            self._objects.put(one.data, one.into, one.name, encode_fast if one.fast else encode)


def _start(pool: ThreadPoolExecutor) -> bool:
    """Start all threads now: one that fails to start later would leave its batch to nobody. False: they cannot be."""
    started = Event()
    try:
        for _ in range(_THREADS):
            pool.submit(started.wait)  # keeps its thread busy, so that the next needs one of its own
    except RuntimeError:  # "can't start new thread": a limit of processes or of memory
        return False
    finally:
        started.set()
    return True


def encode_fast(name: str, data: bytes) -> bytes:
    """What `objects.encode` does, sooner and larger."""
    return bytes(isal_zlib.compress(data, _FAST_LEVEL, _GZIP)) if name.endswith(".gz") else data
