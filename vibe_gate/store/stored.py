"""One side of a changed file as a bundle keeps it: read whole or as a stream, and never without its hash."""

from __future__ import annotations

import hashlib
import io
import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from vibe_gate.domain.change import Side
from vibe_gate.errors import StorageError
from vibe_gate.store.objects import LARGEST_CONTENT
from vibe_gate.store.place import Place, corrupt, unreadable

_SUFFIXES = (".txt", ".txt.gz", ".bin", ".bin.gz")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PIECE = 1 << 16
_READ_GZIP = 31  # zlib's number for "gzip, largest window"


@dataclass(frozen=True, slots=True)
class StoredContent:
    """`sha256` (hex) and `size` (bytes) of one side, and the way to its bytes.

    They are those of the stored, redacted bytes; of the file's own where it was larger
    than 10,000,000 bytes, for then nothing else of it was kept (`kept` is false).
    """

    sha256: str
    size: int
    _place: Place
    _side: Side

    @property
    def kept(self) -> bool:
        """Whether the bundle has the bytes."""
        return self.size <= LARGEST_CONTENT

    def text(self) -> str:
        """The content as UTF-8; what is none becomes U+FFFD. StorageError, IntegrityError."""
        return self.bytes().decode("utf-8", "replace")

    def bytes(self) -> bytes:
        """The content, after its hash was compared. StorageError, IntegrityError."""
        with self.stream() as file:
            return file.read()

    def stream(self) -> BinaryIO:
        """The content as an open binary file, unpacked piece by piece; close it.

        What comes before the end is unverified: the read that would find the end
        raises IntegrityError where size or hash are not what they should be.
        StorageError: the bundle does not have the bytes, or they cannot be read.
        """
        if not self.kept:
            raise StorageError(
                f"{self.size:,} bytes are more than the {LARGEST_CONTENT:,} of which a bundle keeps the content."
            )
        path = self._place.path(f"files/{self._side}/{self.sha256}")
        if _SHA256.fullmatch(self.sha256) is None:
            raise corrupt(path, "its name is no sha-256")
        try:
            folder = self._place.folder().folder("files").folder(self._side)
            present = [suffix for suffix in _SUFFIXES if folder.has(self.sha256 + suffix)]
            if not present:
                raise corrupt(path, "it is missing")
            name = self.sha256 + present[0]
            raw = _Unpacking(folder.reading(name), path.with_name(name), self.sha256, self.size)
        except FileNotFoundError as error:
            raise corrupt(path, "it is missing") from error
        except OSError as error:
            raise unreadable(path, error) from error
        return io.BufferedReader(raw, _PIECE)


class _Unpacking(io.RawIOBase):
    """An object's file as the content it holds, never more of it than was announced."""

    def __init__(self, descriptor: int, path: Path, sha256: str, size: int) -> None:
        self._descriptor = descriptor
        self._path = path
        self._expected = sha256
        self._left = size
        self._seen = hashlib.sha256()
        self._gzip = zlib.decompressobj(_READ_GZIP) if path.name.endswith(".gz") else None
        self._packed = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        try:
            data = self._next(len(buffer))
        except OSError as error:
            raise unreadable(self._path, error) from error
        except zlib.error as error:
            raise corrupt(self._path, "it is no gzip") from error
        self._seen.update(data)
        self._left -= len(data)
        if self._left < 0:
            raise corrupt(self._path, "it is larger than the bundle says")
        if not data and (self._left or self._seen.hexdigest() != self._expected):
            raise corrupt(self._path, "its content is not what its name says")
        buffer[: len(data)] = data
        return len(data)

    def _next(self, most: int) -> bytes:
        if self._gzip is None:
            return os.read(self._descriptor, most)
        while not self._gzip.eof:
            piece = self._packed or os.read(self._descriptor, _PIECE)
            data = self._gzip.decompress(piece, most)
            self._packed = self._gzip.unconsumed_tail
            if data:
                return data
            if not piece:
                raise corrupt(self._path, "it ends in the middle")
        if self._gzip.unused_data or os.read(self._descriptor, 1):
            raise corrupt(self._path, "something follows its end")
        return b""

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()
