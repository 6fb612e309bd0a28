"""Receipts in git notes: the optional way by which they travel. Light, for `post-commit` passes through here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vibe_gate.errors import StorageError

if TYPE_CHECKING:
    from vibe_gate.adapters.git import Repository

NOTES = "vibe-gate"
"""The notes' ref, `refs/notes/vibe-gate`: one receipt a line."""

_LARGEST = 4 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def is_wanted(repository: Repository) -> bool:
    """Whether `git config vibe-gate.receipts` says `notes`."""
    return repository.config("vibe-gate.receipts") == "notes"


def share(repository: Repository, commit: str, raw: bytes) -> str:
    """Add a receipt to the commit's git note, if that is wanted; why it could not be, as a sentence."""
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
    """The same for a run about a tree that has become a commit since. Whoever reads a note checks what it says."""
    if not run_id or not is_wanted(repository):
        return ""
    file = repository.root / ".vibe-artifacts" / f"tree-{tree}" / run_id / "receipt.json"
    try:
        with open(os.open(file, _READ), "rb") as opened:
            raw = opened.read(_LARGEST)
    except OSError as error:
        return f"{file.name} of the run {run_id} cannot be read: {error.strerror}."
    return share(repository, commit, raw)
