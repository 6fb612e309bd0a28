"""The stores that linked worktrees kept, taken over into the one of all working trees."""

from __future__ import annotations

import os
from datetime import datetime

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import Provenance
from vibe_gate.domain.escape import counted
from vibe_gate.errors import StorageError
from vibe_gate.git import Repository
from vibe_gate.store import Bundles, State, captured


def take_over_stores(repository: Repository, state: State, now: datetime) -> None:
    """Move what linked worktrees keep into the store of all; the repository's remarks say what was moved.

    Where the worktrees are is noted, too: paths of captured writes are below them.
    """
    tops = repository.linked_tops()
    if not tops:
        return
    names = (os.fspath(path) for top in tops for path in (top, top.resolve()))
    captured.note_worktree_tops(state.file, names)
    for top in repository.worktrees_with_stores():
        bundles = Bundles(repository.store_root, Provenance(now, repository.tracked_in_store()))
        try:
            moved = bundles.take_over(top, state)
        except StorageError as error:
            repository.add_remark(str(error))
            continue
        parts = [counted(moved.runs, "run")] if moved.runs else []
        parts += [counted(moved.sessions, "session")] if moved.sessions else []
        if parts:
            source = paths.quote(os.path.relpath(top, repository.root))
            target = paths.quote(os.fspath(repository.store_root))
            repository.add_remark(f"Moved {' and '.join(parts)} of worktree {source} to {target}.")
