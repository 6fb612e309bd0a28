"""A workbench: one repository on disk, driven by the real git program."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

from repos import committed_id

from vibe_gate.domain.environment import read_environment
from vibe_gate.git import Repository, open_repository

Fingerprint = dict[bytes, tuple[object, ...]]


class Bench:
    """One repository on disk, driven by the git program."""

    def __init__(self, root: Path, environ: Mapping[str, str]) -> None:
        self.root = root
        self.environ = dict(environ)

    def git(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        ok: bool = True,
        stdin: bytes = b"",
    ) -> str:
        result = subprocess.run(
            ["git", *arguments],
            cwd=self.root,
            env={**self.environ, **(env or {})},
            input=stdin,
            capture_output=True,
            check=False,
        )
        assert not ok or result.returncode == 0, result.stderr.decode()
        return result.stdout.decode("utf-8", "surrogateescape").strip()

    def write(self, path: str | bytes, content: bytes | str = b"") -> Path:
        target = self.root / os.fsdecode(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def commit(self, message: str = "change", **files: str) -> str:
        for path, content in files.items():
            self.write(path, content)
        self.git("add", "-A")
        report = self.git("-c", "core.abbrev=40", "commit", "--allow-empty", "-m", message)
        return committed_id(report)

    def open(self, start: Path | None = None, **environ: str) -> Repository:
        return open_repository(start or self.root, read_environment({**self.environ, **environ}))

    def snapshot(self) -> str:
        with self.open() as repository:
            return repository.snapshot()


def fingerprint(root: Path) -> Fingerprint:
    """Every path below root, .git included: kind, mode, size, time of change, content.

    But for the times of objects and shared indexes: git renews those that it would write and finds,
    so that they last.
    """
    entries: Fingerprint = {}
    for folder, _, files in os.walk(os.fsencode(root)):
        for path in [folder, *(folder + b"/" + name for name in files)]:
            status = os.lstat(path)
            content = b""
            if stat.S_ISREG(status.st_mode) and status.st_size < 1 << 24:
                content = hashlib.sha256(Path(os.fsdecode(path)).read_bytes()).digest()
            time = (
                0 if b"/.git/objects/" in path or b"/sharedindex." in path else status.st_mtime_ns
            )
            entries[path] = (status.st_mode, status.st_size, time, status.st_ino, content)
    return entries
