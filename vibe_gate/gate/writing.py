"""Putting the starters into a working tree: never over a file, never through a symbolic link."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vibe_gate.domain import paths
from vibe_gate.errors import InfrastructureError, UsageError
from vibe_gate.gate.reading import FOLDER, GATE_PATH
from vibe_gate.gate.starters import STARTERS

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class Plan:
    """What `init` would do: starters to write, and definitions that are there already. Paths from the root."""

    missing: tuple[str, ...]
    present: tuple[str, ...]


def plan_starters(root: Path) -> Plan:
    """Which starters to write below `root`.

    Where a gate of one's own has begun (a gate.toml that is not the starter, or
    another rubric), none: a rubric or a gate.toml more would change what it demands.
    """
    _refuse_links(root)
    present = [path for path in STARTERS if os.path.lexists(root / path)]
    rubrics = sorted(f"{FOLDER}/rubrics/{path.name}" for path in (root / FOLDER / "rubrics").glob("*.toml"))
    others = [path for path in rubrics if path not in STARTERS]
    if others or (GATE_PATH in present and not _is_starter(root / GATE_PATH)):
        return Plan((), (*present, *others))
    return Plan(tuple(path for path in STARTERS if path not in present), tuple(present))


def write_starter(root: Path, path: str) -> None:
    """Write one starter. Raises UsageError at a symbolic link or a file in the way, InfrastructureError if it fails."""
    *folders, name = path.split("/")
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            inner = _enter(folder, handle)
            os.close(handle)
            handle = inner
        _write(handle, name, STARTERS[path].encode())
    except FileExistsError:
        raise UsageError(f"{path} has just appeared; it is left as it is.") from None
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise _in_the_way(path) from None
        raise InfrastructureError(f"{path} could not be written: {error.strerror}.") from error
    finally:
        os.close(handle)


def _enter(folder: str, parent: int) -> int:
    with suppress(FileExistsError):
        os.mkdir(folder, dir_fd=parent)
    return os.open(folder, _DIRECTORY, dir_fd=parent)  # a symbolic link is ENOTDIR here


def _write(folder: int, name: str, content: bytes) -> None:
    with open(os.open(name, _NEW_FILE, 0o666, dir_fd=folder), "wb") as file:
        try:
            file.write(content)
            file.flush()
        except OSError:
            os.unlink(name, dir_fd=folder)  # half a starter would look like one that the user cut
            raise


def _refuse_links(root: Path) -> None:
    for folder in (FOLDER, f"{FOLDER}/rubrics"):
        place = root / folder
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            raise _in_the_way(folder)


def _in_the_way(path: str) -> UsageError:
    return UsageError(f"{paths.quote(path)}: a symbolic link or a file stands where a folder belongs; move it away.")


def _is_starter(place: Path) -> bool:
    return place.is_file() and not place.is_symlink() and place.read_bytes() == STARTERS[GATE_PATH].encode()
