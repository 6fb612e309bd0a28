"""A log as pieces of whole lines, compared with its seal as they pass: hashing runs beside decoding.

Hashing and reading let other threads run, decoding does not. So a whole block is handed
to the thread that hashes, which needs a moment to begin and a moment to end, and finds
both while the next block is read; and a buffer is used again only two blocks later. That
the decoding thread reads is what lets the hashing one in: where the other one read, each
waited for its turn. What is asked of that are a few C calls, nothing of `concurrent.futures`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from vibe_gate.store.folder import let_go
from vibe_gate.store.place import MAX_LINE_BYTES, Place, corrupt, unreadable

BLOCK = 1 << 20
"""Bytes hashed at once."""

SLICE = 1 << 18
"""Bytes read and handed out at once: they are still in the processor's cache when they are decoded."""

_BUFFERS = 3
"""Of a log: one is read into, one is hashed, one waits for its turn."""


class Reader:
    """The thread that hashes the logs that are read together. Leaving waits for what it was asked."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # A timeline that is never closed must not keep the process from ending.
        self._thread = threading.Thread(target=self._work, name="vibe-gate-timeline", daemon=True)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._asked.put(None)
        self._thread.join()

    def ask(self, work: Callable[[], None]) -> None:
        """Have this done, after what was asked before; it raises nothing."""
        self._asked.put(work)

    def _work(self) -> None:
        while work := self._asked.get():
            work()


class Blocks:
    """One log being read."""

    def __init__(self, place: Place, name: str, reader: Reader) -> None:
        self._place = place
        self._name = name
        self._reader = reader
        self._seen = hashlib.sha256() if place.digests is not None else None
        self._hashed: deque[tuple[bytearray, SimpleQueue[None]]] = deque()
        # Buffers of our own: fresh memory for every block would cost more than reading it.
        self._buffer = bytearray(BLOCK)
        self._filled = 0
        self._start = 0
        self._rest: list[bytes] = []
        try:
            self._descriptor = place.open(name)
        except OSError as error:
            raise unreadable(place.path(name), error) from error
        self._begun = self._descriptor is not None

    def close(self) -> None:
        """No more is read."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            let_go(descriptor)

    async def next(self) -> bytes | memoryview | None:
        """Whole lines, to be decoded before more are asked for; None after the last. A torn last line is left out.

        StorageError; IntegrityError: a line is too long, or the log, now that all of it was seen, was altered.
        """
        while self._descriptor is not None:
            end = self._buffer.rfind(b"\n", self._start, self._filled) + 1
            if end:
                return self._whole(end)
            if self._filled == BLOCK:
                await self._turn_over()
            if not self._read(self._descriptor):
                self._end()
        return None

    def _whole(self, end: int) -> bytes | memoryview:
        """What was read up to `end`; a line that began in another block comes alone."""
        start = self._start
        if self._rest:
            end = self._buffer.find(b"\n", start, end) + 1
        self._start = end
        lines = memoryview(self._buffer)[start:end]
        if not self._rest:
            return lines
        rest, self._rest = self._rest, []
        return b"".join([*rest, lines])

    def _read(self, descriptor: int) -> int:
        try:
            size = os.readv(descriptor, [memoryview(self._buffer)[self._filled : self._filled + SLICE]])
        except OSError as error:
            raise unreadable(self._place.path(self._name), error) from error
        self._filled += size
        return size

    async def _turn_over(self) -> None:
        if self._start < BLOCK:
            self._rest.append(bytes(memoryview(self._buffer)[self._start :]))
            if sum(map(len, self._rest)) > MAX_LINE_BYTES:
                raise corrupt(self._place.path(self._name), f"a line is longer than {MAX_LINE_BYTES:,} bytes")
        self._hash()
        if self._seen is not None:
            self._buffer = self._unused()
        self._start = self._filled = 0
        await asyncio.sleep(0)  # others have their turn, too

    def _hash(self) -> None:
        if self._seen is not None and self._filled:
            update, data, done = self._seen.update, memoryview(self._buffer)[: self._filled], SimpleQueue[None]()
            self._reader.ask(lambda: done.put(update(data)))
            self._hashed.append((self._buffer, done))

    def _unused(self) -> bytearray:
        """A buffer that is hashed; to wait for one takes less than to read another."""
        if len(self._hashed) < _BUFFERS:
            return bytearray(BLOCK)
        buffer, done = self._hashed.popleft()
        done.get()
        return buffer

    def _end(self) -> None:
        self.close()
        self._hash()
        while self._hashed:
            self._hashed.popleft()[1].get()
        if self._begun and self._seen is not None:
            self._place.compare(self._name, self._seen.hexdigest())
