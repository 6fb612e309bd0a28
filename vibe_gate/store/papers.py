"""A sealed run's papers, byte for byte: for whoever holds its receipt against them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vibe_gate.domain.receipt import MAX_BYTES
from vibe_gate.errors import StorageError
from vibe_gate.store import names
from vibe_gate.store.folder import Folder
from vibe_gate.store.reading import compare_seal


@dataclass(frozen=True, slots=True)
class Papers:
    """The summary as it is stored, without `digests`; those of the other files; receipt.json, None without one.

    Of a receipt that is too large to be one, `receipt` is the beginning: `domain.receipt.parse` refuses it.
    """

    document: Mapping[str, Any]
    files: Mapping[str, str]
    receipt: bytes | None


def read_papers(directory: Path) -> Papers:
    """The papers of the run in `directory`, after every digest was compared. StorageError, IntegrityError."""
    compare_seal(directory)
    try:
        folder = Folder.at(directory.parent).folder(directory.name)
        document = json.loads(folder.read(names.SUMMARY))
        receipt = folder.read(names.RECEIPT, MAX_BYTES) if folder.has(names.RECEIPT) else None
    except (OSError, ValueError) as error:
        raise StorageError(f"The run {directory.name} cannot be read: {error}.") from error
    files = document.pop("digests")
    files.pop(names.RECEIPT, None)
    return Papers(document, files, receipt)
