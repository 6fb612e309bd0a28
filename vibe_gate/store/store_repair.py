"""Tidies a store and moves what is corrupt aside. Nothing is deleted, and no seal is made or
changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from vibe_gate.domain.bundles import STORE, Provenance, RunEntry
from vibe_gate.domain.upkeep import WRONG, Mended, Problem, Repaired
from vibe_gate.errors import StorageError
from vibe_gate.store import bundle_names
from vibe_gate.store.bundle_location import read_object
from vibe_gate.store.bundle_seal import rebuild_graph
from vibe_gate.store.folder import Folder
from vibe_gate.store.ndjson_log import Lock
from vibe_gate.store.store_audit import verify_store
from vibe_gate.store.store_folder import open_store_folder, require_untracked


def repair_store(
    root: Path, provenance: Provenance, runs: Collection[RunEntry] | None = None
) -> Repaired:
    """Repair the store below `root`, or only some of its runs.

    StorageError if something cannot be read or moved, or git tracks files of the store; what was
    done until then is right, and repairing again goes on.
    """
    require_untracked(provenance.tracked)
    audit = verify_store(root, provenance, runs)
    store = open_store_folder(root)
    if store is None:
        return Repaired((), audit)
    quarantine = f"{bundle_names.QUARANTINE}/{bundle_names.format_stamp(provenance.now)}"
    try:
        mended = tuple(_rebuild_graphs(store, audit.problems, quarantine))
        if mended:
            audit = verify_store(root, provenance, runs)
        moved = tuple(_move_to_quarantine(store, audit.problems, quarantine))
    except OSError as error:
        raise StorageError(
            f"{error.filename or STORE}: {error.strerror}; the repair stopped there."
        ) from error
    has_moved = bool(moved) or (store.path / quarantine).is_dir()
    new_audit = verify_store(root, provenance, runs)
    return Repaired(mended + moved, new_audit, quarantine if has_moved else "")


def _rebuild_graphs(
    store: Folder, problems: Sequence[Problem], quarantine: str
) -> Iterator[Mended]:
    """Write a lost or damaged graph.json again, if the run's events give the bytes that were
    sealed. OSError.
    """
    for problem in problems:
        is_of_graph = bool(problem.run) and problem.place == f"{problem.run}/{bundle_names.GRAPH}"
        if problem.state not in WRONG or not is_of_graph:
            continue
        run = store.below(problem.run)
        if Lock.is_held(run):
            continue
        data = _sealed_graph(run)
        if data is None:
            continue
        if run.has(bundle_names.GRAPH):
            folder = store.below(f"{quarantine}/{problem.run}", create=True)
            run.move(bundle_names.GRAPH, folder, bundle_names.GRAPH)
        run.place(bundle_names.GRAPH, data)
        yield Mended(problem, f"made again from {bundle_names.EVENTS}")


def _sealed_graph(run: Folder) -> bytes | None:
    """The bytes that the run's seal names, made of its events; None if they cannot be made.
    OSError.
    """
    try:
        digests = read_object(run, bundle_names.SUMMARY).get("digests")
    except ValueError:
        return None
    if not isinstance(digests, dict):
        return None
    return rebuild_graph(run, digests)


def _move_to_quarantine(
    store: Folder, problems: Sequence[Problem], quarantine: str
) -> Iterator[Mended]:
    """Move temporary files and what is wrong, a run as a whole, to the place in `quarantine` that
    it had. OSError.

    What cannot be read now may be read tomorrow, and stays.
    """
    unreadable_places = {
        problem.run or problem.place for problem in problems if problem.what == "unreadable"
    }
    for place, problem in _places_to_move(problems).items():
        if (problem.run or place) in unreadable_places:
            continue
        if problem.run and Lock.is_held(store.below(problem.run)):
            continue
        parent, _, name = place.rpartition("/")
        store.below(parent).move(name, store.below(f"{quarantine}/{parent}", create=True), name)
        extent = ", the whole run" if place == problem.run else ""
        yield Mended(problem, f"moved to quarantine{extent}")


def _places_to_move(problems: Sequence[Problem]) -> dict[str, Problem]:
    """Runs and other places that are wrong, with the first problem of each, and temporary files of
    what is not.
    """
    places: dict[str, Problem] = {}
    for problem in reversed(problems):
        if problem.state in WRONG:
            places[problem.run or problem.place] = problem
    wrong_places = frozenset(places)
    for problem in problems:
        if problem.what == "temporary" and (problem.run or problem.place) not in wrong_places:
            places[problem.place] = problem
    return places
