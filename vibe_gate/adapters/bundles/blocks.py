"""A log as pieces of whole lines, compared with its seal as they pass: hashing runs beside decoding.

Hashing and reading let other threads run, decoding does not. So a whole block is handed
to the thread that hashes, which needs a moment to begin and a moment to end, and finds
both while the next block is read; and a buffer is used again only two blocks later.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

from vibe_gate.adapters.bundles.folder import let_go
from vibe_gate.adapters.bundles.place import MAX_LINE_BYTES, Place, corrupt, unreadable

BLOCK = 1 << 20
"""Bytes hashed at once."""

SLICE = 1 << 18
"""Bytes read and handed out at once: they are still in the processor's cache when they are decoded."""

_BUFFERS = 3
"""Of a log: one is read into, one is hashed, one waits for its turn."""


class Blocks:
    """One log being read."""

    def __init__(self, place: Place, name: str, pool: ThreadPoolExecutor) -> None:
        self._place = place
        self._name = name
        self._pool = pool
        self._seen = hashlib.sha256() if place.digests is not None else None
        self._hashed: deque[tuple[bytearray, Future[None]]] = deque()
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
                await self._end()
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
            self._buffer = await self._unused()
        self._start = self._filled = 0
        await asyncio.sleep(0)  # others have their turn, too

    def _hash(self) -> None:
        if self._seen is not None and self._filled:
            done = self._pool.submit(self._seen.update, memoryview(self._buffer)[: self._filled])
            self._hashed.append((self._buffer, done))

    async def _unused(self) -> bytearray:
        if len(self._hashed) < _BUFFERS:
            return bytearray(BLOCK)
        buffer, done = self._hashed.popleft()
        if not done.done():
            await asyncio.wrap_future(done)
        return buffer

    async def _end(self) -> None:
        self.close()
        self._hash()
        while self._hashed:
            await asyncio.wrap_future(self._hashed.popleft()[1])
        if self._begun and self._seen is not None:
            self._place.compare(self._name, self._seen.hexdigest())
