"""Contents that are packed in threads while others are written: compression lets other threads run.

A content waits here until it is packed; it is written, and `done` is called, in the
order in which they came. What a kill takes with it was neither written nor named.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from vibe_gate.adapters.bundles.folder import Folder
from vibe_gate.adapters.bundles.objects import Objects, encode, name_of

_THREADS = 2
_MOST_WAITING = 32
_MOST_BYTES = 32_000_000
"""What waits at most: three of the largest contents that are kept."""

_WORTH_A_THREAD = 16_384
"""Bytes: packing fewer takes less time than handing them over (measured by bench/storage.py)."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    name: str
    data: bytes
    into: Folder
    packed: Future[bytes] | None
    done: Callable[[str], None]


class Packing:
    """Stores contents, `ahead` of them those that take long to pack. Not safe for several threads."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._pool: ThreadPoolExecutor | None = None

    def put(self, data: bytes, into: Folder, done: Callable[[str], None]) -> str:
        """Store `data` (redacted) and show it in `into`, soon; the name that it will have. OSError, of others' too.

        `done` is called with that name once it is stored.
        """
        name = name_of(data)
        packed = None
        if name.endswith(".gz") and len(data) >= _WORTH_A_THREAD and not self._objects.has(name):
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, "vibe-gate-packing")
            packed = self._pool.submit(encode, name, data)
        self._waiting.append(_Waiting(name, data, into, packed, done))
        self._bytes += len(data)
        self._settle_to(_MOST_WAITING if self._pool else 0)
        return name

    def settle(self) -> None:
        """Everything that was put is stored when this returns. OSError."""
        self._settle_to(0)

    def close(self) -> None:
        """Nothing is stored any more; what waits is dropped."""
        self._waiting.clear()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _settle_to(self, number: int) -> None:
        while len(self._waiting) > number or self._bytes > _MOST_BYTES:
            one = self._waiting.popleft()
            self._bytes -= len(one.data)
            packed = None if one.packed is None else one.packed.result()
            self._objects.put(one.data, one.into, one.name, packed)
            one.done(one.name)
