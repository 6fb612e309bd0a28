"""Columns of `git log` for lists of commits, where no repository is open, or none is there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from vibe_gate.domain.environment import Environment
from vibe_gate.git.program import Program

LATEST = ("--max-count=1000", "--reflog", "HEAD")
"""The newest commits of all that HEAD and branches were at."""


def commit_columns(
    folder: Path,
    environment: Environment,
    columns: Sequence[str],
    commits: Iterable[str] | None = None,
) -> dict[str, list[str]]:
    """By the first of the columns (`git log --format`) the others, of these commits or, with None,
    of the latest.

    Of commits with the same first column the newest. Empty outside of a repository. No name or
    title, whatever its author wrote, begins another column: git ends each with a NUL, which none of
    them can have.
    """
    options = LATEST
    if commits is not None:
        options = ("--no-walk=unsorted", "--ignore-missing", "--stdin")
    row_format = "%x00".join(columns)
    ids = "".join(f"{commit}\n" for commit in sorted(commits or ()))
    git = Program(folder, environment.variables)
    log = git.run("log", "-z", *options, f"--format={row_format}", "--", stdin=ids.encode())
    values = log.out.decode("utf-8", "replace").split("\0")[:-1]
    width = len(columns)
    rows: dict[str, list[str]] = {}
    for start in reversed(range(0, len(values), width)):  # so that the newest stays
        key, *other_columns = values[start : start + width]
        rows[key] = other_columns
    return rows
