"""What git knows of commits that runs are about: titles, authors, days."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from vibe_gate.domain.bundles import RunEntry
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.git import commit_columns
from vibe_gate.secrets import Redactor

_IS_COMMIT = re.compile(r"[0-9a-f]{40}").fullmatch


def titles_by_key(runs: Sequence[RunEntry]) -> dict[str, str]:
    """The titles of the runs' commits, by key, without secrets.

    A commit that is not in the clone is left out. A tree has the title of the commit that it
    became, if that was not long ago.
    """
    columns = _columns_by_key(runs, "%s")
    return {key: title for key, (title,) in columns.items()}


def titles_and_authors_by_key(runs: Sequence[RunEntry]) -> tuple[dict[str, str], dict[str, str]]:
    """The titles of the runs' commits, and the names of their authors, each by key."""
    columns = _columns_by_key(runs, "%aN", "%s")
    titles = {key: title for key, (_, title) in columns.items()}
    authors = {key: author for key, (author, _) in columns.items()}
    return titles, authors


def days_and_authors_by_commit(commits: Iterable[str]) -> dict[str, tuple[str, str]]:
    """By commit, the day on which its author wrote it, and the author's name."""
    columns = commit_columns(Path.cwd(), read_process_environment(), ("%H", "%as", "%aN"), commits)
    return {commit: (day, author) for commit, (day, author) in columns.items()}


def _columns_by_key(runs: Sequence[RunEntry], *columns: str) -> dict[str, list[str]]:
    """These columns of git's log, by the key of a run: a commit, or `tree-` and a tree."""
    folder, environment = Path.cwd(), read_process_environment()
    keys = {run.key for run in runs}
    commits = {key for key in keys if _IS_COMMIT(key)}
    rows_by_commit = commit_columns(folder, environment, ("%H", *columns), commits)
    if commits == keys:
        return _redact_columns(rows_by_commit)
    rows_by_tree = commit_columns(folder, environment, ("tree-%T", *columns))
    return _redact_columns(rows_by_commit | rows_by_tree)


def _redact_columns(rows: Mapping[str, list[str]]) -> dict[str, list[str]]:
    redact = Redactor(read_process_environment().variables).text
    return {key: [redact(text) for text in row] for key, row in rows.items()}
