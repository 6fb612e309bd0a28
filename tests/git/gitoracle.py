"""What the git program says about a change, free of the configuration and attributes of its
repository.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TYPES = {b"A": "added", b"M": "modified", b"D": "deleted", b"R": "renamed", b"T": "type_changed"}


@dataclass(frozen=True)
class Said:
    """One row of `git diff`; `added` and `deleted` are None where git says binary."""

    type: str
    old_path: bytes | None
    path: bytes
    modes: tuple[int, int]
    added: int | None
    deleted: int | None


@dataclass(frozen=True)
class Oracle:
    """A repository asked as a bare one, so that .gitattributes and .gitmodules of a working tree
    have no say.
    """

    git_dir: Path
    environ: Mapping[str, str]

    def git(self, *arguments: str, stdin: bytes = b"", **extra: str) -> bytes:
        command = ["git", f"--git-dir={self.git_dir}", "-c", "core.bare=true", *arguments]
        result = subprocess.run(
            command, input=stdin, env={**self.environ, **extra}, capture_output=True, check=False
        )
        assert result.returncode == 0, (arguments, result.stderr)
        return result.stdout

    def diff(self, before: str, after: str, *options: str) -> bytes:
        always = ("--ignore-submodules=none", "-M", "-l0")
        return self.git("diff", *always, *options, before, after)

    def commits(self) -> list[str]:
        """Every commit whose parents are there; a shallow clone ends at others."""
        rows = [
            line.split()
            for line in self.git("log", "--all", "HEAD", "--format=%H").decode().splitlines()
        ]
        shallow_file = self.git_dir / "shallow"
        ends = set(shallow_file.read_text().split()) if shallow_file.exists() else set()
        return [row[0] for row in rows if row[0] not in ends]

    def changes(self, before: str, after: str) -> list[Said]:
        """`git diff --raw --numstat -z`: the same rows as --name-status, with modes, and the
        counts.
        """
        fields = iter(self.diff(before, after, "--raw", "--numstat", "-z").split(b"\0"))
        raw_rows = []
        field = next(fields)
        while field.startswith(b":"):
            old_mode, new_mode, _, _, status = field[1:].split()
            old_path = next(fields) if status[:1] == b"R" else None
            raw_rows.append(
                (TYPES[status[:1]], old_path, next(fields), (int(old_mode, 8), int(new_mode, 8)))
            )
            field = next(fields)
        rows = []
        for kind, old_path, path, modes in raw_rows:
            added, deleted, path_field = field.split(b"\t", 2)
            if not path_field:
                assert (next(fields), next(fields)) == (old_path, path)
            counts = (None, None) if added == b"-" else (int(added), int(deleted))
            rows.append(Said(kind, old_path, path, modes, *counts))
            field = next(fields, b"")
        return rows

    def text_counts(self, before: str, after: str, paths: list[bytes]) -> tuple[int, int]:
        """Lines that `git diff --text` adds and deletes in one file, binary or not."""
        names = [os.fsdecode(b":(top,literal)" + path) for path in paths]
        out = self.git("diff", "--text", "-M", "-l0", before, after, "--", *names)
        body = out[out.index(b"\n@@ ") :].split(b"\n")
        return sum(line[:1] == b"+" for line in body), sum(line[:1] == b"-" for line in body)
