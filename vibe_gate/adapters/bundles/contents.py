"""The `files/before` and `files/after` of a bundle, of a run's and of a turn's alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vibe_gate.adapters.bundles.folder import Folder
from vibe_gate.adapters.bundles.objects import LARGEST_CONTENT, Objects, digest_of
from vibe_gate.adapters.bundles.packing import Packing
from vibe_gate.adapters.bundles.redactor import Redactor
from vibe_gate.domain.change import Side


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
        self._packing = Packing(objects)
        self._redact = redact
        self._sides: dict[Side, Folder] = {}

    def keep(self, side: Side, data: bytes, done: Callable[[Kept], None]) -> Kept:
        """Store one side of a file, soon; `done` is called once it is stored, in the order of the calls. OSError."""
        safe = self._redact.data(data) if len(data) <= LARGEST_CONTENT else data
        if len(safe) > LARGEST_CONTENT:
            self.settle()
            kept = Kept(digest_of(safe), len(safe), "")
            done(kept)
            return kept
        if side not in self._sides:
            self._sides[side] = self._bundle.folder("files", create=True).folder(side, create=True)

        def as_kept(stored: str) -> Kept:
            return Kept(stored.partition(".")[0], len(safe), f"files/{side}/{stored}")

        return as_kept(self._packing.put(safe, self._sides[side], lambda stored: done(as_kept(stored))))

    def settle(self) -> None:
        """Everything that was kept is stored when this returns. OSError."""
        self._packing.settle()

    def close(self) -> None:
        """Nothing is stored any more."""
        self._packing.close()
