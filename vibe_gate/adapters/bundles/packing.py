"""Contents on their way into the store: few are stored as they come, what comes after them in batches by threads.

A content of a batch waits here until it is stored; then `done` is called, in the order in
which contents came. What a kill takes with it was not named yet.

How much work goes into packing hangs on the size of the run: a few files are packed
small, and of thousands all but the first are packed fast (docs/decisions/0007).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from vibe_gate.adapters.bundles.folder import Folder
from vibe_gate.adapters.bundles.objects import Objects, name_of

if TYPE_CHECKING:
    from vibe_gate.adapters.bundles.crew import Crew, Work

_BATCH = 16
_BATCH_BYTES = 262_144
"""Contents and bytes that are stored in one go: one by one, handing over would cost as much as storing."""

_MOST_WAITING = 64
_MOST_BYTES = 32_000_000
"""What waits at most: three of the largest contents that are kept."""

_ALONE = 64
_ALONE_BYTES = 524_288
"""A run with no more has no threads: loading and starting them takes longer than it saves."""

_PACKED_SMALL = 128
"""Contents of a run that are packed with full effort: the two sides of 64 files."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A content that is to be stored under `name`, shown in `into`, and then told of."""

    name: str
    data: bytes
    into: Folder
    fast: bool
    done: Callable[[str], None]


class Packing:
    """Stores contents. Not safe for several threads."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._batch: list[Waiting] = []
        self._batch_bytes = 0
        self._handed: deque[tuple[list[Waiting], Work]] = deque()
        self._waiting = self._waiting_bytes = 0  # of those that were handed over
        self._seen = self._seen_bytes = self._to_pack = 0
        self._crew: Crew | None = None

    def put(self, data: bytes, into: Folder, done: Callable[[str], None]) -> str:
        """Store `data` (redacted) and show it in `into`, soon; the name that it will have. OSError, of others' too.

        `done` is called with that name once it is stored.
        """
        name = name_of(data)
        self._to_pack += name.endswith(".gz")
        self._seen += 1
        self._seen_bytes += len(data)
        one = Waiting(name, data, into, self._to_pack > _PACKED_SMALL, done)
        if self._seen <= _ALONE and self._seen_bytes <= _ALONE_BYTES:
            self._store(one)
            return name
        self._batch.append(one)
        self._batch_bytes += len(data)
        if len(self._batch) >= _BATCH or self._batch_bytes >= _BATCH_BYTES:
            self._hand_over()
            self._collect(_MOST_WAITING, _MOST_BYTES)
        return name

    def settle(self) -> None:
        """Everything that was put is stored when this returns. OSError."""
        if self._crew is None:
            batch, self._batch, self._batch_bytes = self._batch, [], 0
            for one in batch:
                self._store(one)
        elif self._batch:
            self._hand_over()
        self._collect(0, 0)

    def close(self) -> None:
        """Nothing is stored any more; what waits is dropped."""
        self._batch.clear()
        self._handed.clear()
        if self._crew is not None:
            self._crew.close()
            self._crew = None

    def _store(self, one: Waiting) -> None:
        self._objects.put(one.data, one.into, one.name)
        one.done(one.name)

    def _hand_over(self) -> None:
        if self._crew is None:  # loaded by runs that need it: a person's commit waits for every module
            self._crew = import_module("vibe_gate.adapters.bundles.crew").Crew(self._objects)
        batch, self._batch = self._batch, []
        self._waiting += len(batch)
        self._waiting_bytes += self._batch_bytes
        self._batch_bytes = 0
        self._handed.append((batch, self._crew.store(batch)))

    def _collect(self, number: int, size: int) -> None:
        while self._handed and (self._waiting > number or self._waiting_bytes > size):
            batch, work = self._handed[0]
            work.result()
            self._handed.popleft()
            self._waiting -= len(batch)
            self._waiting_bytes -= sum(len(one.data) for one in batch)
            for one in batch:
                one.done(one.name)
