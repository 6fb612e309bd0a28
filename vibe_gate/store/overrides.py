"""What people let pass here: `<common git dir>/vibe-gate/overrides.ndjson`, one line an override, only appended to.

Shared by all worktrees of a repository and by nobody else: it does not travel, and CI
has none. Damaged and foreign lines are skipped: nothing passes by them.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from pydantic import ValidationError

from vibe_gate.domain.waiver import Override
from vibe_gate.errors import StorageError

NAME = "overrides.ndjson"

MAX_BYTES = 4_000_000
"""Read of the file, its end: some thousands of overrides."""


class Overrides:
    """The overrides of one repository."""

    def __init__(self, common_dir: Path) -> None:
        self.path = common_dir / "vibe-gate" / NAME

    def append(self, override: Override) -> None:
        """Add one: one write of a whole line under a lock. StorageError."""
        line = override.model_dump_json(by_alias=True).encode() + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self.path, flags, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                size = os.fstat(descriptor).st_size
                torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
                os.write(descriptor, b"\n" + line if torn else line)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StorageError(f"The override was not written: {self.path}: {error.strerror}.") from error

    def all(self) -> tuple[Override, ...]:
        """Every override, oldest first."""
        try:
            with open(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                file.seek(max(os.fstat(file.fileno()).st_size - MAX_BYTES, 0))
                lines = file.read().split(b"\n")
        except OSError:
            return ()
        return tuple(override for line in lines if (override := _parsed(line)) is not None)


def _parsed(line: bytes) -> Override | None:
    try:
        return Override.model_validate_json(line)
    except ValidationError:
        return None
