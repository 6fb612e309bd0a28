"""When the gate of a clone began, and what was there: written by `install git`, read by
pre-push.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from msgspec import Struct

from vibe_gate.errors import StorageError
from vibe_gate.git import Repository

GATE_START = "installed"
"""File in the state's folder: the second of the installation, then the tips of all refs, one a
line.
"""

_CONTENT = re.compile(r"(?P<second>[0-9]{1,12})\n(?P<tips>(?:[0-9a-f]{40}\n)*)")


class GateStart(Struct, frozen=True):
    """The moment from which the gate of a clone counts."""

    second: int
    """In seconds since 1970."""
    tips: tuple[str, ...]
    """The commits and tags that refs named then: what they reach is older than the gate."""


def record_gate_start(repository: Repository, second: int, *, has_hook_records: bool) -> None:
    """Write down that the gate begins now, unless it began before. StorageError."""
    path = _start_path(repository)
    if has_hook_records or os.path.lexists(path):
        return
    lines = [str(second), *repository.ref_tips()]
    content = "".join(f"{line}\n" for line in lines)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(content)
    except OSError as error:
        raise StorageError(f"{path} could not be written: {error.strerror}.") from error


def read_gate_start(repository: Repository) -> GateStart | None:
    """What `record_gate_start` wrote; None if it wrote nothing that can be read."""
    path = _start_path(repository)
    try:
        if path.is_symlink():
            return None
        match = _CONTENT.fullmatch(path.read_text("ascii"))
    except (OSError, UnicodeDecodeError):
        return None
    if match is None:
        return None
    return GateStart(int(match["second"]), tuple(match["tips"].split()))


def forget_gate_start(repository: Repository) -> None:
    """Delete what `record_gate_start` wrote. StorageError."""
    path = _start_path(repository)
    try:
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # there is more in it
            path.parent.rmdir()
    except OSError as error:
        raise StorageError(f"{path} could not be deleted: {error.strerror}.") from error


def _start_path(repository: Repository) -> Path:
    return repository.common_dir / "vibe-gate" / GATE_START
