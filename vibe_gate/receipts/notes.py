"""Receipts in git notes: the optional way by which they travel. Light, for `post-commit` passes through here."""

from __future__ import annotations

import importlib
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
"""Reviews of one tree, before the one that decides, whose receipts are shared, too."""

_LOOKED_AT = 50
"""Folders beside the run's own, the newest: anybody can lay more there."""

_LARGEST = 4 << 20
_LARGEST_EARLIER = 256 << 10
"""Bytes; together they must not make the note too large to be read."""

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
    that knew the answer. Its own goes first, and of what else lies there only what is a receipt of this tree.
    """
    if not run_id or not is_wanted(repository):
        return ""
    folder = repository.root / ".vibe-artifacts" / f"tree-{tree}"
    try:
        raw = _receipt(folder / run_id, _LARGEST)
    except OSError as error:
        return f"receipt.json of the run {run_id} cannot be read: {error.strerror}."
    if unshared := share(repository, commit, raw):
        return unshared
    for earlier in _earlier(folder, run_id, tree):
        share(repository, commit, earlier)
    return ""


def _earlier(folder: Path, run_id: str, tree: str) -> list[bytes]:
    """The receipts of the last reviews of the tree before this run, oldest first."""
    with suppress(OSError):
        bundles = sorted((bundle for bundle in folder.iterdir() if bundle.name < run_id), reverse=True)
        found = (_of_tree(bundle, tree) for bundle in bundles[:_LOOKED_AT])
        return list(islice(filter(None, found), MAX_EARLIER))[::-1]
    return []


def _of_tree(bundle: Path, tree: str) -> bytes:
    """A bundle's receipt; b"" where it is none, or of another tree: anybody can write there, and a note has limits."""
    with suppress(OSError, ValueError):
        raw = _receipt(bundle, _LARGEST_EARLIER + 1)
        # Only here: most commits have one review, and receipts take long to load.
        said = importlib.import_module("vibe_gate.domain.receipt").parse(raw).receipt
        if len(raw) <= _LARGEST_EARLIER and raw.find(b"\n") == len(raw) - 1 and said.after == tree:
            return raw
    return b""


def _receipt(bundle: Path, limit: int) -> bytes:
    with open(os.open(bundle / "receipt.json", _READ), "rb") as opened:
        return opened.read(limit)
