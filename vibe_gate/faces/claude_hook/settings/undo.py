"""How to give back every byte of a settings file: what stood between its unchanged beginning and end."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vibe_gate.errors import StorageError


@dataclass(frozen=True, slots=True)
class Undo:
    """What makes the text before out of the text after, as long as nobody has edited it.

    `after` is the SHA-256 of the text after; `start` and `end` are letters at its
    beginning and end that were there before, `middle` is what stood between them. It is None
    where there was no file, and `folder` says that there was no folder either.
    """

    after: str
    start: int = 0
    end: int = 0
    middle: str | None = None
    folder: bool = False

    @classmethod
    def between(cls, before: str | None, after: str, folder: bool = False) -> Undo:
        """From the text before (None: no file) and after."""
        if before is None:
            return cls(_digest(after), folder=folder)
        start = _alike(before, after)
        end = _alike(before[start:][::-1], after[start:][::-1])
        return cls(_digest(after), start, end, before[start : len(before) - end])

    def fits(self, text: str) -> bool:
        """Whether the text is the one that was written."""
        return _digest(text) == self.after

    def before(self, text: str) -> str | None:
        """The text that was there before `text`, which must fit."""
        if self.middle is None:
            return None
        return text[: self.start] + self.middle + text[len(text) - self.end :]


def _alike(one: str, other: str) -> int:
    """How many letters at their beginnings are the same."""
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def regular_bytes(path: Path) -> bytes:
    """What a file holds; a pipe in its place keeps nobody waiting. OSError where it is no regular one."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
        return file.read()


class Undos:
    """One small file of them, by the path of the settings; it goes with the last of them."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def of(self, path: Path) -> Undo | None:
        """How to undo what was done to the settings there, if that is known."""
        try:
            return Undo(**self._all()[str(path)])
        except (KeyError, TypeError):
            return None

    def keep(self, path: Path, undo: Undo) -> None:
        """Remember it in the place of an earlier one. StorageError."""
        self._write(self._all() | {str(path): asdict(undo)})

    def forget(self, path: Path) -> None:
        """It is undone. StorageError."""
        known = self._all()
        if known.pop(str(path), None) is not None:
            self._write(known)

    def _all(self) -> dict[str, dict[str, Any]]:
        try:
            known = json.loads(regular_bytes(self._file))
        except (OSError, ValueError, RecursionError):
            return {}
        return {path: undo for path, undo in known.items() if isinstance(undo, dict)} if isinstance(known, dict) else {}

    def _write(self, known: dict[str, dict[str, Any]]) -> None:
        temporary = self._file.with_name(f".{self._file.name}.{secrets.token_hex(6)}")
        try:
            if not known:
                self._file.unlink(missing_ok=True)
                if not any(self._file.parent.iterdir()):
                    self._file.parent.rmdir()
                return
            self._file.parent.mkdir(exist_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(known, file)
            temporary.replace(self._file)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise StorageError(f"{self._file} cannot be written: {error.strerror or error}.") from error
