"""The stores that linked worktrees kept, taken over into the one of all working trees."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from vibe_gate.domain import paths
from vibe_gate.domain.escape import counted
from vibe_gate.errors import StorageError
from vibe_gate.git import Repository
from vibe_gate.store.clone_state import CloneState
from vibe_gate.store.worktree_move import move_worktree_store


def move_worktree_stores(repository: Repository, state: CloneState, now: datetime) -> None:
    """Move what linked worktrees keep into the store of all; the repository's remarks say what was
    moved.

    Where the worktrees are is noted, too: paths of captured writes are below them.
    """
    tops = repository.linked_tops()
    if not tops:
        return
    names = []
    for top in tops:
        names += [os.fspath(top), os.fspath(top.resolve())]
    state.worktree_tops.note(names)
    for top in repository.worktrees_with_stores():
        try:
            moved = move_worktree_store(
                top, repository.store_root, repository.tracked_in_store(), state
            )
        except StorageError as error:
            repository.add_remark(str(error))
            continue
        source = paths.quote(os.path.relpath(top, repository.root))
        if moved.left:
            repository.add_remark(_remark_of_left(moved.left, source))
        parts = [counted(moved.runs, "run")] if moved.runs else []
        parts += [counted(moved.sessions, "session")] if moved.sessions else []
        if parts:
            target = paths.quote(os.fspath(repository.store_root))
            repository.add_remark(f"Moved {' and '.join(parts)} of worktree {source} to {target}.")


def _remark_of_left(reasons: Sequence[str], worktree: str) -> str:
    """What stays in a worktree, and why."""
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(Counter(reasons).items()))
    items = f"{len(reasons)} runs and sessions stay"
    if len(reasons) == 1:
        items = "1 run or session stays"
    return (
        f"{items} in worktree {worktree} ({counts}); `git worktree remove` would delete what stays there. "
        "The next command tries again."
    )
