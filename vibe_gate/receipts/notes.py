"""Share receipts in git notes, if the user wants that. Imports little: `post-commit` runs this."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_gate.errors import StorageError

if TYPE_CHECKING:
    from vibe_gate.git import Repository

NOTES = "vibe-gate"
"""The notes' ref, `refs/notes/vibe-gate`: one receipt a line."""

MAX_EARLIER = 4
"""Earlier reviews of the same tree whose receipts are shared as well."""

_LOOKED_AT = 50
"""Folders beside the run's own that are read, the newest: anybody can add more."""

_LARGEST = 4 << 20
_LARGEST_EARLIER = 256 << 10
"""Bytes of the run's own receipt and of an earlier one: together they must not make the note too large to read."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def is_wanted(repository: Repository) -> bool:
    """Whether `git config vibe-gate.receipts` says `notes`."""
    return repository.config("vibe-gate.receipts") == "notes"


def share(repository: Repository, commit: str, raw: bytes) -> str:
    """Add a receipt to the commit's git note if that is wanted; return why that failed, or ""."""
    if not is_wanted(repository):
        return ""
    old = repository.note(NOTES, commit)
    try:
        if raw.strip() not in old.split(b"\n"):
            repository.add_note(NOTES, commit, old + raw)
    except StorageError as error:
        return str(error)
    return ""


def share_run(repository: Repository, run_id: str, tree: str, commit: str) -> str:
    """Add the receipt of a run about a tree that became this commit; return why that failed, or "".

    The last earlier reviews of the tree follow: one that asked a judge is worth more than a later one that found the
    answer in the cache. Readers of notes check what they say.
    """
    if not run_id or not is_wanted(repository):
        return ""
    folder = repository.root / ".vibe-artifacts" / f"tree-{tree}"
    try:
        raw = _receipt(folder / run_id, _LARGEST)
        names = sorted((one.name for one in folder.iterdir() if one.name < run_id), reverse=True)[:_LOOKED_AT]
    except OSError as error:
        return f"Cannot read receipt.json of run {run_id}: {error.strerror}."
    problem = share(repository, commit, raw)
    earlier = islice(filter(None, (_of_tree(folder / name, tree) for name in names)), MAX_EARLIER)
    for one in [] if problem else list(earlier)[::-1]:
        share(repository, commit, one)
    return problem


def _of_tree(bundle: Path, tree: str) -> bytes:
    """A bundle's receipt; b"" if it is not a receipt of this tree, or too large: anybody can write there."""
    from vibe_gate.domain.receipt import parse  # most commits have one review, and this import takes long

    with suppress(OSError, ValueError):
        raw = _receipt(bundle, _LARGEST_EARLIER + 1)
        if len(raw) <= _LARGEST_EARLIER and raw.find(b"\n") == len(raw) - 1 and parse(raw).receipt.after == tree:
            return raw
    return b""


def _receipt(bundle: Path, limit: int) -> bytes:
    with open(os.open(bundle / "receipt.json", _READ), "rb") as opened:
        return opened.read(limit)
