"""Share receipts in git notes, if the user wants that. Imports little: `post-commit` runs this."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vibe_gate.errors import StorageError

if TYPE_CHECKING:
    from vibe_gate.git import Repository

NOTES = "vibe-gate"
"""The notes' ref, `refs/notes/vibe-gate`: one receipt a line."""

_LARGEST = 4 << 20
"""Bytes of a receipt that is read."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def are_notes_wanted(repository: Repository) -> bool:
    """Whether `git config vibe-gate.receipts` says `notes`."""
    return repository.config("vibe-gate.receipts") == "notes"


def share_receipt(repository: Repository, commit: str, raw: bytes) -> str:
    """Add a receipt to the commit's git note if that is wanted; return why that failed, or ""."""
    if not are_notes_wanted(repository):
        return ""
    old = repository.note(NOTES, commit)
    try:
        if raw.strip() not in old.split(b"\n"):
            repository.add_note(NOTES, commit, old + raw)
    except StorageError as error:
        return str(error)
    return ""


def share_run(repository: Repository, run_id: str, tree: str, commit: str) -> str:
    """Add the receipt of a run about a tree that became this commit; return why that failed, or
    "".
    """
    if not run_id or not are_notes_wanted(repository):
        return ""
    place = repository.store_root / ".vibe-artifacts" / f"tree-{tree}" / run_id / "receipt.json"
    try:
        with open(os.open(place, _READ), "rb") as opened:
            raw = opened.read(_LARGEST)
    except OSError as error:
        return f"Cannot read receipt.json of run {run_id}: {error.strerror}."
    return share_receipt(repository, commit, raw)
