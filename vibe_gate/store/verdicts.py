"""Verdicts already paid for, kept in the common git directory: `<common dir>/vibe-gate/verdicts/`.

One file a question, named by the question's key, so that every worktree of the
repository finds it. An entry is a cache: whoever can write the git directory can
write entries, which is why a verdict that must bind is decided in CI. Damaged or
foreign entries are misses; where none can be written, the question is paid for again.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

SCHEMA = 1

MAX_AGE = timedelta(days=90)
"""An older verdict is asked again: models change behind their names."""

MAX_ENTRIES = 5_000
"""Entries beyond this go, oldest first; at a few KB each, some tens of MB at most."""

MAX_BYTES = 4_000_000
"""A larger entry is not ours."""


_OURS = re.compile(r"[0-9a-f]{64}\.json|\.[0-9a-f]{64}\.json\.[0-9a-f]{8}|\.[0-9a-f]{64}\.asking")


class VerdictCache:
    """The entries of one repository. No method raises where files cannot be read or written."""

    def __init__(self, common_dir: Path) -> None:
        self._folder = common_dir / "vibe-gate" / "verdicts"
        self._claims: dict[str, int] = {}

    def get(self, key: str, now: datetime) -> dict[str, Any] | None:
        """The verdict kept under `key` (64 hex digits), or None."""
        try:
            descriptor = os.open(self._path(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return None
                entry = json.loads(file.read(MAX_BYTES))
            fresh = now - datetime.fromisoformat(entry["created_at"]) <= MAX_AGE
            mine = entry["schema"] == SCHEMA and entry["key"] == key
            verdict = entry["verdict"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
            return None
        return verdict if fresh and mine and isinstance(verdict, dict) else None

    def put(self, key: str, verdict: dict[str, Any], now: datetime) -> str:
        """Keep a verdict; the entry appears whole or not at all. "", or why it could not be kept."""
        entry = {"schema": SCHEMA, "key": key, "created_at": now.isoformat(), "verdict": verdict}
        target = self._path(key)
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(entry), encoding="utf-8")
            part.replace(target)
        except OSError as error:
            _gone(part)
            return f"{error.strerror}: {self._folder}"
        return ""

    def claim(self, keys: Iterable[str], now: datetime, until: datetime) -> bool:
        """Be the only one who asks these questions, all or none; False if a living process asks one of them."""
        for key in sorted(keys):
            path = self._folder / f".{key}.asking"
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                descriptor = _lock(path)
            except OSError:
                continue  # nobody can be kept from asking here
            if descriptor is None:
                self.release(keys)
                return False
            self._claims[key] = descriptor
        return True

    def release(self, keys: Iterable[str]) -> None:
        """Let others ask these questions."""
        for key in keys:
            descriptor = self._claims.pop(key, None)
            if descriptor is not None:
                _gone(self._folder / f".{key}.asking")
                os.close(descriptor)

    def prune(self, now: datetime) -> int:
        """Remove what is too old or too much, by the files' own times; returns how many went."""
        found = []
        with suppress(OSError), os.scandir(self._folder) as entries:
            # Behind a link lies somebody else's, and what bears another name is not ours either.
            for entry in entries if not self._folder.is_symlink() else ():
                with suppress(FileNotFoundError):  # another process removed it
                    if _OURS.fullmatch(entry.name):
                        found.append((entry.stat(follow_symlinks=False).st_mtime, entry))
        newest_first = sorted(found, key=lambda pair: -pair[0])
        oldest = (now - MAX_AGE).timestamp()
        gone = 0
        for place, (written, entry) in enumerate(newest_first):
            if place >= MAX_ENTRIES or written < oldest:
                gone += _gone(Path(entry.path))
        return gone

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def _gone(path: Path) -> bool:
    """Remove a file, if that can be; whatever lies in the place of the folder costs no verdict."""
    with suppress(OSError):
        path.unlink()
        return True
    return False


def _lock(path: Path) -> int | None:
    """The locked file, which ends with this process; None if another holds it. OSError."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_ino == path.stat().st_ino:
                return descriptor
        except FileNotFoundError:  # whoever held it took the file away: there is a new one to be locked
            pass
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
