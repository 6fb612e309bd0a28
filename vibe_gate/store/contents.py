"""The `files/before` and `files/after` of a bundle, of a run's and of a turn's alike."""

from __future__ import annotations

from dataclasses import dataclass

from vibe_gate.domain.change import Side
from vibe_gate.store.folder import Folder
from vibe_gate.store.objects import LARGEST_CONTENT, Objects, digest_of, encode, encode_fast, name_of
from vibe_gate.store.redactor import Redactor

_PACKED_SMALL = 128
"""Contents of a bundle that are packed with full effort, the two sides of 64 files; then speed is worth more
(docs/decisions/0007)."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A content of a bundle. `name` is its file relative to the bundle, "" where it was too large to keep.

    `sha256` and `size` are those of the redacted bytes; of the bytes themselves
    where they were too large, for those are neither redacted nor written. What is too
    large only with its placeholders is not written either.
    """

    sha256: str
    size: int
    name: str


class Contents:
    """Keeps sides of files in one bundle."""

    def __init__(self, bundle: Folder, objects: Objects, redact: Redactor) -> None:
        self._bundle = bundle
        self._objects = objects
        self._redact = redact
        self._sides: dict[Side, Folder] = {}
        self._packed = 0

    def keep(self, side: Side, data: bytes) -> Kept:
        """Store one side of a file. OSError."""
        safe = self._redact.data(data) if len(data) <= LARGEST_CONTENT else data
        if len(safe) > LARGEST_CONTENT:
            return Kept(digest_of(safe), len(safe), "")
        if side not in self._sides:
            self._sides[side] = self._bundle.folder("files", create=True).folder(side, create=True)
        name = name_of(safe)
        self._packed += name.endswith(".gz")
        self._objects.put(safe, self._sides[side], name, encode if self._packed <= _PACKED_SMALL else encode_fast)
        return Kept(name.partition(".")[0], len(safe), f"files/{side}/{name}")
