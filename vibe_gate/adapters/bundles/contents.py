"""The `files/before` and `files/after` of a bundle, of a run's and of a turn's alike."""

from __future__ import annotations

from dataclasses import dataclass

from vibe_gate.adapters.bundles.folder import Folder
from vibe_gate.adapters.bundles.objects import LARGEST_CONTENT, Objects, digest_of
from vibe_gate.adapters.bundles.redactor import Redactor
from vibe_gate.domain.change import Side


@dataclass(frozen=True, slots=True)
class Kept:
    """A content of a bundle. `name` is its file relative to the bundle, "" where it was too large to keep.

    `sha256` and `size` are those of the redacted bytes; of the bytes themselves
    where they were too large, for those are neither redacted nor written.
    """

    sha256: str
    size: int
    name: str


def keep(objects: Objects, redact: Redactor, bundle: Folder, side: Side, data: bytes) -> Kept:
    """Store one side of a file in a bundle. OSError."""
    if len(data) > LARGEST_CONTENT:
        return Kept(digest_of(data), len(data), "")
    safe = redact.data(data)
    folder = bundle.folder("files", create=True).folder(side, create=True)
    return Kept(digest_of(safe), len(safe), f"files/{side}/{objects.put(safe, folder)}")
