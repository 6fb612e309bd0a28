"""Tidies a store and moves what is corrupt aside. Nothing is deleted, and no seal is made or changed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from vibe_gate.domain.bundles import STORE, Provenance, RunEntry
from vibe_gate.domain.upkeep import WRONG, Mended, Problem, Repaired
from vibe_gate.errors import StorageError
from vibe_gate.store import names
from vibe_gate.store.checking import verify
from vibe_gate.store.folder import Folder
from vibe_gate.store.log import Lock
from vibe_gate.store.runs import open_store_folder


def repair(root: Path, provenance: Provenance, runs: Collection[RunEntry] | None = None) -> Repaired:
    """Repair the store below `root`, or only some of its runs.

    StorageError if something cannot be read or moved; what was done until then is right, and repairing again goes on.
    """
    found = verify(root, provenance, runs)
    store = open_store_folder(root)
    if store is None:
        return Repaired((), found)
    work = _Work(store, f"{names.QUARANTINE}/{names.stamp(provenance.now)}")
    try:
        work.put_aside(found.problems)
        work.tidy(found.problems)
    except OSError as error:
        raise StorageError(f"{error.filename or STORE}: {error.strerror}; the repair stopped there.") from error
    return Repaired(tuple(work.done), verify(root, provenance, runs), work.quarantine if work.done else "")


class _Work:
    """`quarantine` is the folder in which everything keeps the place that it had in the store."""

    def __init__(self, store: Folder, quarantine: str) -> None:
        self.done: list[Mended] = []
        self.quarantine = quarantine
        self._store = store
        self._left: set[str] = set()  # runs and places that are moved, foreign or cannot be read

    def put_aside(self, problems: Collection[Problem]) -> None:
        """What is wrong, a run as a whole. What cannot be read now may be read tomorrow, and stays."""
        wrong = {
            problem.run or problem.place: problem for problem in reversed(list(problems)) if problem.state in WRONG
        }
        unreadable = {problem.run or problem.place for problem in problems if problem.what == "unreadable"}
        self._left = unreadable | wrong.keys()
        for place, problem in wrong.items():
            if place not in unreadable and not self._is_running(problem.run):
                self._move(place)
                whole = ", the whole run" if problem.run else ""
                self.done.append(Mended(problem, f"moved to quarantine{whole}"))

    def tidy(self, problems: Collection[Problem]) -> None:
        """Temporary files."""
        for problem in problems:
            is_left = (problem.run or problem.place) in self._left or self._is_running(problem.run)
            if problem.what == "temporary" and not is_left:
                self._move(problem.place)
                self.done.append(Mended(problem, "moved to quarantine"))

    def _is_running(self, run: str) -> bool:
        return bool(run) and Lock.is_held(self._store.below(run))

    def _move(self, place: str) -> None:
        parent, _, name = place.rpartition("/")
        self._store.below(parent).move(name, self._aside(parent), name)

    def _aside(self, parent: str) -> Folder:
        return self._store.below(f"{self.quarantine}/{parent}", create=True)
