"""Receipts in git notes: the optional way by which they travel. Light, for `post-commit` passes through here."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_gate.errors import StorageError

if TYPE_CHECKING:
    from vibe_gate.adapters.git import Repository

NOTES = "vibe-gate"
"""The notes' ref, `refs/notes/vibe-gate`: one receipt a line."""

MAX_EARLIER = 4
"""Reviews of one tree, before the one that decides, whose receipts are shared, too."""

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
    """The same for a run about a tree that has become a commit since. Whoever reads a note checks what it says.

    The last reviews of the same tree go with it: the one in which a judge was asked counts for more than a later one
    that knew the answer.
    """
    if not run_id or not is_wanted(repository):
        return ""
    folder = repository.root / ".vibe-artifacts" / f"tree-{tree}"
    with suppress(OSError):
        earlier = sorted(bundle for bundle in folder.iterdir() if bundle.name < run_id)
        for bundle in earlier[-MAX_EARLIER:]:
            share(repository, commit, _receipt(bundle))
    try:
        raw = _receipt(folder / run_id)
    except OSError as error:
        return f"receipt.json of the run {run_id} cannot be read: {error.strerror}."
    return share(repository, commit, raw)


def _receipt(bundle: Path) -> bytes:
    with open(os.open(bundle / "receipt.json", _READ), "rb") as opened:
        return opened.read(_LARGEST)
