"""Repairs what can be repaired and moves the rest aside. Nothing is deleted, and no seal is made or changed."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from vibe_gate.domain.bundles import STORE, Provenance, RunEntry
from vibe_gate.domain.event import MAX_PARTS, Event, fold
from vibe_gate.domain.upkeep import WRONG, Mended, Problem, ProblemKind, Repaired
from vibe_gate.errors import StorageError
from vibe_gate.store import names
from vibe_gate.store.bundle import parse_events, read_object
from vibe_gate.store.checking import verify
from vibe_gate.store.consistency import sessions_document
from vibe_gate.store.contents import digest_of
from vibe_gate.store.folder import Folder, let_go, temporary_name
from vibe_gate.store.log import MAX_DOCUMENT_BYTES, Lock, encode_document, lines, whole_lines
from vibe_gate.store.runs import open_store_folder

_PASSES = 10
"""Mending one thing may show another; beyond this something undoes what is done."""


def repair(root: Path, provenance: Provenance, runs: Collection[RunEntry] | None = None) -> Repaired:
    """Repair the store below `root`, or only some of its runs.

    StorageError if something cannot be read or moved; what was done until then is right, and repairing again goes on.
    """
    found = verify(root, provenance, runs)
    store = open_store_folder(root)
    if store is None:
        return Repaired((), found)
    work = _Work(store, provenance)
    try:
        for _ in range(_PASSES):
            if not work.mend(found.problems):
                break
            found = verify(root, provenance, runs)
        work.put_aside(found.problems)
    except OSError as error:
        raise StorageError(f"{error.filename or STORE}: {error.strerror}; the repair stopped there.") from error
    left = verify(root, provenance, runs)
    return Repaired(tuple(work.done), left, work.quarantine.place if work.quarantine.is_used else "")


class _Work:
    def __init__(self, store: Folder, provenance: Provenance) -> None:
        self.done: list[Mended] = []
        self.quarantine = _Quarantine(store, f"{names.QUARANTINE}/{names.stamp(provenance.now)}")
        self._store = store
        self._mended: set[Problem] = set()  # what comes back after it was mended is put aside
        self._menders: dict[ProblemKind, Callable[[Problem], str]] = {
            "temporary": self._take,
            "entry": self._take,
            "torn": self._cut,
            "graph": self._rebuild,
            "digest": self._rebuild,
        }

    def mend(self, problems: Sequence[Problem]) -> bool:
        """What can be mended in its place; whether anything was."""
        before = len(self.done)
        left = _left_alone(problems)
        for problem in problems:
            mender = None if problem in self._mended else self._menders.get(problem.what)
            if mender is None or problem.run in left:
                continue
            with self._alone(problem.run) as alone:
                done = mender(problem) if alone else ""
            if done:
                self.done.append(Mended(problem, done))
                self._mended.add(problem)
        return len(self.done) > before

    def put_aside(self, problems: Sequence[Problem]) -> None:
        """What is still wrong, a run as a whole. What cannot be read now may be read tomorrow, and stays."""
        unreadable = _unreadable(problems)
        wrong = {problem.run or problem.place: problem for problem in reversed(problems) if problem.state in WRONG}
        for place, problem in wrong.items():
            if place in unreadable:
                continue
            with self._alone(problem.run) as alone:
                if alone:
                    self.quarantine.take(place)
                    self.done.append(
                        Mended(problem, "moved to quarantine" + (", the whole run" if problem.run else ""))
                    )

    @contextlib.contextmanager
    def _alone(self, run: str) -> Iterator[bool]:
        """Whether nobody writes the run, and nobody may begin to while it is mended."""
        folder = self._store.below(run)
        if not run or folder.has(names.SUMMARY):
            yield True
            return
        try:
            lock = Lock(folder)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def _take(self, problem: Problem) -> str:
        if not self._has(problem.place):
            return ""  # two problems were one
        self.quarantine.take(problem.place)
        return "moved to quarantine"

    def _has(self, place: str) -> bool:
        parent, _, name = place.rpartition("/")
        return self._store.below(parent).has(name)

    def _cut(self, problem: Problem) -> str:
        if problem.state != "untidy":
            return ""
        parent, _, name = problem.place.rpartition("/")
        descriptor = self._store.below(parent).appending(name)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            whole, _ = whole_lines(descriptor, size)
            self.quarantine.keep(f"{problem.place}.torn", os.pread(descriptor, size - whole, whole))
            os.ftruncate(descriptor, whole)
        finally:
            let_go(descriptor)
        return f"the torn {size - whole:,} bytes cut and kept in quarantine"

    def _rebuild(self, problem: Problem) -> str:
        """graph.json and sessions.json follow from the events; of a sealed run only if its seal says so too."""
        parent, _, name = problem.place.rpartition("/")
        if parent != problem.run:
            return ""
        folder = self._store.below(problem.run)
        data = _rebuilt(folder, name)
        if data is None or (folder.has(names.SUMMARY) and _vouched(folder, name) != digest_of(data)):
            return ""
        if folder.has(name):
            if folder.read(name, MAX_DOCUMENT_BYTES) == data:
                return ""  # two problems were one
            self.quarantine.take(problem.place)
        folder.place(name, data)
        return "made again from the events"


def _left_alone(problems: Sequence[Problem]) -> set[str]:
    """Foreign runs, and what cannot be read: nobody can say what is wrong with it."""
    strange = {problem.run for problem in problems if problem.state == "foreign"}
    return strange | _unreadable(problems)


def _unreadable(problems: Sequence[Problem]) -> set[str]:
    return {problem.run or problem.place for problem in problems if problem.what == "unreadable"}


def _rebuilt(bundle: Folder, name: str) -> bytes | None:
    """The bytes of graph.json or sessions.json; None for another file, or if the events do not tell. OSError."""
    try:
        if name == names.GRAPH:
            return fold(parse_events(lines(bundle, names.EVENTS))).to_json().encode()
        if name == names.SESSIONS:
            return encode_document(sessions_document(_completed(parse_events(lines(bundle, names.EVENTS)))))
    except (FileNotFoundError, ValueError):
        pass
    return None


def _completed(events: Iterator[Event]) -> list[tuple[str, str]]:
    """Node and session of every turn, in the order in which the turns were opened. ValueError: they are too many."""
    session_of: dict[tuple[str, str], str] = {}
    for event in events:
        turn = (event.node_id or "", str(event.data.get("turn")))
        if event.type == "turn.started":
            session_of.setdefault(turn, "")
        elif event.type == "turn.completed" and turn in session_of:
            session_of[turn] = str(event.data.get("session_id", ""))
        if len(session_of) > MAX_PARTS:
            raise ValueError(f"more than {MAX_PARTS:,} turns")
    return [(node_id, session) for (node_id, _), session in session_of.items()]


def _vouched(bundle: Folder, name: str) -> str:
    """The sha-256 that the summary has for a file; "" if it has none or is not a summary. OSError."""
    try:
        digests = read_object(bundle, names.SUMMARY).get("digests")
    except ValueError:
        return ""
    return str(digests.get(name, "")) if isinstance(digests, dict) else ""


class _Quarantine:
    """`quarantine/<time of the repair>/`, in which everything keeps the place that it had in the store."""

    def __init__(self, store: Folder, place: str) -> None:
        self.place = place
        self.is_used = False
        self._store = store

    def take(self, place: str) -> None:
        """Move what is at `place` (relative to the store). OSError."""
        parent, _, name = place.rpartition("/")
        into = self._folder(parent)
        if place != names.QUARANTINE:  # that made room for itself
            self._store.below(parent).move(name, into, _free(into, name))

    def keep(self, place: str, data: bytes) -> None:
        """Bytes that were at `place`. OSError."""
        parent, _, name = place.rpartition("/")
        into = self._folder(parent)
        into.write(_free(into, name), data)

    def _folder(self, parent: str) -> Folder:
        self.is_used = True
        try:
            self._store.folder(names.QUARANTINE, create=True)
        except NotADirectoryError:
            # Whatever is in its place (a repository may have committed a link) is the first to go there.
            aside = temporary_name()
            self._store.move(names.QUARANTINE, self._store, aside)
            into = self._store.below(self.place, create=True)
            self._store.move(aside, into, names.QUARANTINE)
        return self._store.below(f"{self.place}/{parent}", create=True)


def _free(folder: Folder, name: str) -> str:
    return f"{name}{temporary_name()}" if folder.has(name) else name
