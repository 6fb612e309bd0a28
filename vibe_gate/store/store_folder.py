"""The folder `.vibe-artifacts` itself: opened to be read, or made to be written, unless git tracks
what is in it.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from vibe_gate.domain.bundles import STORE
from vibe_gate.errors import StorageError
from vibe_gate.store import bundle_names
from vibe_gate.store.folder import Folder

_IGNORE_BYTES = 64  # of the store's own .gitignore, which has one line


def open_store_folder(root: Path) -> Folder | None:
    """The store's folder; None if there is none. StorageError."""
    try:
        return Folder.at(root).folder(STORE)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise unreadable_store_error(error) from error


def unreadable_store_error(error: Exception) -> StorageError:
    """The store cannot be read or written."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return StorageError(f"{STORE} cannot be read or written: {reason}.")


def store_folder(root: Path, tracked: Callable[[], Collection[str]] = tuple) -> Folder:
    """The store's folder, made if it is missing, ignoring itself. OSError; StorageError: nothing
    may be written.
    """
    if (root / STORE).exists():
        require_untracked(tracked())
    try:
        folder = Folder.at(root).folder(STORE, create=True)
    except NotADirectoryError as error:
        obstacle = "a symbolic link" if (root / STORE).is_symlink() else "not a directory"
        raise StorageError(
            f"{STORE} is {obstacle}, so nothing is written there. Remove it (`git rm {STORE}` if it is committed) "
            "and run this again."
        ) from error
    if not folder.has(bundle_names.IGNORE):
        folder.place(bundle_names.IGNORE, b"*\n")
    elif not _ignores_itself(folder):
        raise StorageError(
            f"{STORE}/{bundle_names.IGNORE} lets git track bundles, which hold what was reviewed, so nothing is written. "
            "Make it one line, `*`, and run this again."
        )
    return folder


def require_untracked(tracked: Collection[str]) -> None:
    """StorageError if git tracks files of the store: a review changes no file of the repository."""
    if tracked:
        count = f"{len(tracked)} file{'' if len(tracked) == 1 else 's'}"
        raise StorageError(
            f"git tracks {count} in {STORE}, so nothing is written there. Run `git rm -r --cached {STORE}`."
        )


def _ignores_itself(folder: Folder) -> bool:
    """Whether git leaves out all of the store; the .gitignore itself may be tracked, as some do."""
    try:
        data = folder.read(bundle_names.IGNORE, _IGNORE_BYTES)
    except OSError:
        return False  # git reads no link, and neither does this
    return len(data) <= _IGNORE_BYTES and set(data.split()) in ({b"*"}, {b"*", b"!.gitignore"})


@contextlib.contextmanager
def lock_store(store: Folder) -> Iterator[None]:
    """One process at a time moves or deletes whole runs of a store: a second one waits for the
    first.
    """
    fcntl.flock(store.fileno(), fcntl.LOCK_EX)  # gone with the process, however it ends
    try:
        yield
    finally:
        fcntl.flock(store.fileno(), fcntl.LOCK_UN)
