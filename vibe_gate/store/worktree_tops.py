"""Where linked worktrees are or were: paths of captured writes lie below them when they are gone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

    from vibe_gate.store.state import StateFile

_TABLE = "CREATE TABLE IF NOT EXISTS worktree_tops (top TEXT PRIMARY KEY) WITHOUT ROWID"


def note_worktree_tops(file: StateFile, tops: Iterable[str]) -> None:
    """Remember the tops of linked worktrees."""
    new_tops = set(tops) - known_worktree_tops(file)

    def action(db: sqlite3.Connection) -> None:
        db.execute(_TABLE)
        db.executemany("INSERT OR IGNORE INTO worktree_tops VALUES (?)", [(top,) for top in sorted(new_tops)])

    if new_tops:
        file.change(action)


def known_worktree_tops(file: StateFile) -> frozenset[str]:
    """The tops of all linked worktrees that were ever noted."""
    if not file.read("SELECT 1 FROM sqlite_master WHERE name = 'worktree_tops'"):
        return frozenset()
    return frozenset(top for (top,) in file.read("SELECT top FROM worktree_tops"))
