"""Files that the user names: whether one can be written, and a new one written whole."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from vibe_gate.domain import paths
from vibe_gate.errors import StorageError, UsageError


def describe_obstacle(target: Path) -> str:
    """Why no file can be at `target`, as a clause: its folder is missing, its name too long. "" if
    nothing is in the way.
    """
    folder_name = paths.quote(str(target.parent))
    try:
        folder_mode = target.parent.stat().st_mode
    except FileNotFoundError:
        return f"folder {folder_name} does not exist; create it first"
    except OSError as error:
        return f"folder {folder_name}: {error.strerror}"
    if not stat.S_ISDIR(folder_mode):
        return f"{folder_name} is not a folder"
    try:
        target.lstat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    return ""


def require_new_file(target: Path) -> None:
    """UsageError if something is at `target`, or no file can be there."""
    target_name = paths.quote(str(target))
    if os.path.lexists(target):
        raise UsageError(f"{target_name} exists already; name another file.")
    obstacle = describe_obstacle(target)
    if obstacle:
        raise UsageError(f"{target_name} cannot be written: {obstacle}.")


@contextlib.contextmanager
def create_whole(target: Path) -> Iterator[BinaryIO]:
    """A new file, which is at `target` once the block has ended without an exception.

    StorageError: it was not written, with the system's reason.
    """
    # The name is short: a target whose name has the longest possible length takes no suffix.
    temporary = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(target)
    except OSError as error:
        reason = error.strerror or error
        raise StorageError(f"{paths.quote(str(target))} was not written: {reason}.") from error
    finally:
        with contextlib.suppress(OSError):  # where nothing can be written, nothing can be deleted
            temporary.unlink(missing_ok=True)
