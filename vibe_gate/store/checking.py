"""Everything that is wrong with a store, in one go. Reads only; what runs or is unfinished is not wrong."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vibe_gate.domain import model, receipt
from vibe_gate.domain.bundles import STORE, Provenance, RunEntry, began, is_run_id
from vibe_gate.domain.event import Event, fold
from vibe_gate.domain.model import parse_object
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.turn import TurnSummary
from vibe_gate.domain.upkeep import Problem, ProblemKind, ProblemState, Verified
from vibe_gate.errors import StorageError
from vibe_gate.store import consistency, names
from vibe_gate.store.bundle import parse_events, read_object, reason
from vibe_gate.store.captures import EVENTS, META, read_meta
from vibe_gate.store.consistency import digest
from vibe_gate.store.contents import LARGEST_CONTENT, content_fault
from vibe_gate.store.folder import TEMPORARY, Folder
from vibe_gate.store.log import MAX_DOCUMENT_BYTES, Lock, lines, whole_lines
from vibe_gate.store.names import Entry, part_of, walk
from vibe_gate.store.runs import entries, open_store_folder

MAX_PROBLEMS = 20_000
"""Of one run; a small archive can name half a million contents that are not in it."""


def verify(root: Path, provenance: Provenance, runs: Collection[RunEntry] | None = None) -> Verified:
    """Check the store below `root`: all of it, or some of its runs only. StorageError if it cannot be read."""
    store = open_store_folder(root)
    if store is None:
        return Verified(0, 0, ())
    found: list[Problem] = []
    count = contents = 0
    try:
        if runs is None:
            found += [*_top(store), *_keys(store), *_captured(store)]
        for entry in entries(root) if runs is None else runs:
            checked = _checked(store, entry, provenance)
            if checked is not None:
                count, contents = count + 1, contents + checked.contents
                found += checked.problems
        if runs is None:
            found += _tracked(store, found, provenance)
    except OSError as error:
        raise StorageError(f"{error.filename or STORE} cannot be read: {error.strerror}.") from error
    return Verified(count, contents, tuple(sorted(found, key=lambda problem: (problem.place, problem.what))))


def _captured(store: Folder) -> Iterator[Problem]:
    """What is wrong with the captured sessions of a store, whole sessions as their place. OSError."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        captures = store.folder(names.CAPTURES)
        for name, status in captures.entries():
            place = f"{names.CAPTURES}/{name}"
            if name.startswith(TEMPORARY):
                yield Problem("untidy", "temporary", place, "it is temporary, and nobody finished it")
            elif not stat.S_ISDIR(status.st_mode):
                yield Problem("corrupt", "entry", place, "it is not a captured session")
            elif why := _why_unreadable(captures, name):
                yield Problem("corrupt", "sessions", place, why)


def _why_unreadable(captures: Folder, name: str) -> str:
    """Why a captured session cannot be read; "" if it can. What its writer has not finished yet is none of it."""
    try:
        session = captures.folder(name)
        finished = read_meta(session).bytes if session.has(META) else 0
        size = session.status(EVENTS).st_size if session.has(EVENTS) else 0
    except ValueError as error:
        return f"{META}: {reason(error)}"
    except FileNotFoundError:
        return ""  # cleaned meanwhile
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return f"{EVENTS} is shorter than {META} says" if size < finished else ""


def _checked(store: Folder, entry: RunEntry, provenance: Provenance) -> Audit | None:
    """None: the run was removed meanwhile."""
    audit = Audit(entry.key, entry.run_id)
    try:
        key = store.folder(entry.key)
        audit.check(key.folder(entry.run_id))
        key.status(entry.run_id)
    except FileNotFoundError:
        return None
    except OSError as error:
        audit.problems = [
            Problem("corrupt", "unreadable", entry.place, f"cannot be read: {error.strerror}", entry.place)
        ]
    foreign = provenance.foreign(entry.key, entry.run_id)
    is_running = [problem.state for problem in audit.problems[:1]] == ["running"]
    if foreign and not (is_running and not provenance.tracked):
        audit.problems.append(Problem("foreign", "run", entry.place, foreign, entry.place))
    return audit


def _top(store: Folder) -> Iterator[Problem]:
    for name, status in store.entries():
        is_folder = stat.S_ISDIR(status.st_mode)
        if name.startswith(TEMPORARY):
            yield Problem("untidy", "temporary", name, "unfinished file of a writer that ended")
        elif not is_folder and (not stat.S_ISREG(status.st_mode) or name in names.OWN_FOLDERS):
            yield Problem("corrupt", "entry", name, "not a folder or file of a store")


def _keys(store: Folder) -> Iterator[Problem]:
    for key in filter(names.is_key, store.folders()):
        for name, status in store.folder(key).entries():
            is_mark = name == names.KEEP and stat.S_ISREG(status.st_mode)  # keeps every run of the key
            if not is_mark and not (stat.S_ISDIR(status.st_mode) and is_run_id(name)):
                yield Problem("corrupt", "entry", f"{key}/{name}", "not a run")


def _tracked(store: Folder, found: list[Problem], provenance: Provenance) -> Iterator[Problem]:
    """What git tracks of the store besides whole runs, which are foreign."""
    runs = {problem.place.casefold() for problem in found if problem.state == "foreign"}
    rest = [path for path in provenance.tracked if "/".join(path.casefold().split("/")[1:3]) not in runs]
    present = [path for path in rest if _is_there(store, path.split("/")[1:])]
    if present:
        why = f"git tracks {len(present)} of its files, and they are not runs; `git rm -r --cached {STORE}`"
        yield Problem("untidy", "tracked", "", why)


def _is_there(store: Folder, parts: list[str]) -> bool:
    with contextlib.suppress(OSError):
        return store.below("/".join(parts[:-1])).has(parts[-1]) if parts else True
    return False


class Audit:
    """Everything that is wrong with one run: its seal, its logs, its documents, its contents.

    `problems` are in the order of the files; `contents` counts the contents that were hashed.
    """

    def __init__(self, key: str, run_id: str) -> None:
        self.problems: list[Problem] = []
        self.contents = 0
        self._key = key
        self._run_id = run_id
        self._run = f"{key}/{run_id}"
        self._sealed = False
        self._summary: Summary | None = None
        self._document: dict[str, Any] = {}  # the summary without its digests
        self._vouched: dict[str, Any] = {}
        self._there: set[str] = set()
        self._log = _LogOfRun()

    def check(self, bundle: Folder) -> None:
        """Look at the run in `bundle`; a running one is left alone. OSError."""
        if not bundle.has(names.SUMMARY) and Lock.is_held(bundle):
            self._say("running", "run", "", "it is still running")
            return
        self._sealed = bundle.has(names.SUMMARY)  # asked again: it may have been sealed just now
        with self._reading(""):
            self._there.update(entry.name for entry in walk(bundle))
        if not self._sealed:
            self._say("incomplete", "run", "", "it ended before its verdict")
        elif names.SUMMARY in bundle.files():
            with self._reading(names.SUMMARY):
                self._check_summary(bundle)
        with self._reading(names.EVENTS):
            self._check_events(bundle)
        with self._reading(""):
            for entry in walk(bundle):
                with self._reading(entry.name):
                    self._check_entry(entry)
        self._check_references()

    @contextlib.contextmanager
    def _reading(self, name: str, what: ProblemKind = "document") -> Iterator[None]:
        """What cannot be read is a problem like others, and the rest is still checked."""
        try:
            yield
        except OSError as error:
            self._say("corrupt", "unreadable", name, f"cannot be read: {error.strerror}")
        except ValueError as error:
            self._say("corrupt", what, name, reason(error))

    def _say(self, state: ProblemState, what: ProblemKind, name: str, why: str) -> None:
        problem = Problem(state, what, f"{self._run}/{name}" if name else self._run, why, self._run)
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)
        elif len(self.problems) == MAX_PROBLEMS:
            more = f"it has more than {MAX_PROBLEMS:,} problems"
            self.problems.append(Problem("corrupt", "run", self._run, more, self._run))

    def _check_summary(self, bundle: Folder) -> None:
        self._document = read_object(bundle, names.SUMMARY)
        vouched = self._document.pop("digests", None)
        if isinstance(vouched, dict):
            self._vouched = vouched
        else:
            self._say("corrupt", "document", names.SUMMARY, "it vouches for no files")
        summary = consistency.read_summary(self._document)
        if (summary.run_id, summary.key) != (self._run_id, self._key):
            raise ValueError("it belongs to another run")
        self._summary = summary

    def _check_events(self, bundle: Folder) -> None:
        """The run's own log: numbers, types, and what it says about artifacts and turns."""
        if names.EVENTS not in bundle.files():
            if self._summary:
                self._say("corrupt", "document", names.SUMMARY, f"it has a verdict, and there is no {names.EVENTS}")
            return
        self._log.is_whole = False
        with self._reading(names.EVENTS, "log"):
            self._log.graph = fold(self._events(bundle)).to_json().encode()
            if self._summary and not self._log.has_ended:
                raise ValueError(consistency.NOT_ENDED)
            self._log.is_whole = True

    def _events(self, bundle: Folder) -> Iterator[Event]:
        for event in parse_events(lines(bundle, names.EVENTS)):
            why = "it belongs to another run" if event.run_id != self._run_id else ""
            if self._summary:
                why = why or consistency.contradicted(event, self._summary)
            if why or (why := self._log.add(event)):
                raise ValueError(f"entry {event.seq}: {why}")
            yield event

    def _check_entry(self, entry: Entry) -> None:
        if entry.is_temporary:
            self._say("untidy", "temporary", entry.name, "unfinished file of a writer that ended")
        elif not entry.is_file:
            self._say("corrupt", "entry", entry.name, "not a regular file or folder of a bundle")
        elif entry.part == "content":
            self.contents += 1
            if why := content_fault(entry.folder, entry.base):
                self._say("corrupt", "content", entry.name, why)
        elif entry.part == "attached":
            if digest(entry.folder, entry.base) != entry.base:
                self._say("corrupt", "entry", entry.name, "its bytes do not match the hash in its name")
        elif entry.part is None and entry.name not in self._vouched:
            self._say("corrupt", "entry", entry.name, "no bundle has a file of that name")
        elif entry.part != "mark":
            if self._vouched and names.is_vouched(entry.name):
                self._compare(entry)
            if entry.part == "log":
                self._check_log(entry)
            turn, _, base = entry.name.rpartition("/")
            if turn:
                self._log.turns[turn] = self._log.turns.get(turn, False) or base == names.SUMMARY
            if turn and base == names.SUMMARY:
                self._check_turn(entry)
            elif not turn and base in _LOOKS:
                _LOOKS[base](self, entry)

    def _compare(self, entry: Entry) -> None:
        expected = self._vouched.get(entry.name)
        if expected is None:
            self._say("corrupt", "digest", entry.name, "it was added after sealing")
        elif expected != digest(entry.folder, entry.base):
            self._say("corrupt", "digest", entry.name, "it was changed after sealing")

    def _check_log(self, entry: Entry) -> None:
        """Its numbers, those of the run's own events being checked already, and its end."""
        with self._reading(entry.name, "log"):
            if entry.name != names.EVENTS:
                _check_numbers(lines(entry.folder, entry.base))
            elif not self._log.is_whole:
                return
            if torn := _torn_bytes(entry.folder, entry.base):
                state: ProblemState = "corrupt" if self._sealed and names.is_vouched(entry.name) else "untidy"
                self._say(state, "torn", entry.name, f"its last line is torn: {torn:,} bytes without an end")

    def _check_about(self, entry: Entry) -> None:
        document = read_object(entry.folder, entry.base)
        if (document.get("run_id"), document.get("key")) != (self._run_id, self._key):
            raise ValueError("it belongs to another run")
        if began(self._run_id) != document.get("created_at"):
            raise ValueError("its created_at is not the time in the run's id")

    def _check_patch(self, entry: Entry) -> None:
        if self._log.patch and not self._sealed and self._log.patch != digest(entry.folder, entry.base):
            self._say("corrupt", "digest", entry.name, "it is not what the events say was written")

    def _check_receipt(self, entry: Entry) -> None:
        read_object(entry.folder, entry.base)
        if self._summary is None:
            return
        files = {name: found for name, found in self._vouched.items() if name != names.RECEIPT}
        raw = entry.folder.read(entry.base, receipt.MAX_BYTES)
        if why := consistency.receipt_fault(raw, self._document, files):
            raise ValueError(why)

    def _check_graph(self, entry: Entry) -> None:
        if self._log.graph not in {None, entry.folder.read(entry.base, MAX_DOCUMENT_BYTES)}:
            self._say("corrupt", "graph", entry.name, "it is not the fold of the events")

    def _check_sessions(self, entry: Entry) -> None:
        read_object(entry.folder, entry.base)

    def _check_turn(self, entry: Entry) -> None:
        summary = model.read(TurnSummary, read_object(entry.folder, entry.base))
        turn = entry.name.rpartition("/")[0]
        if summary.test_id != f"{self._run_id}/{turn.removeprefix('nodes/')}":
            raise ValueError("it belongs to another turn")
        for file in summary.files:
            for side, content in (("before", file.before), ("after", file.after)):
                if content is not None and content.size <= LARGEST_CONTENT:
                    self._log.contents.add(f"{turn}/files/{side}/{content.sha256}")

    def _check_references(self) -> None:
        """What the logs and the summaries say is there must be there, and nothing else."""
        for name in sorted(set(self._vouched) - self._there):
            self._say("corrupt", "digest", name, "it is missing, and the summary vouches for it")
        contents = {_unsuffixed(name): name for name in self._there if part_of(name) == "content"}
        for name in sorted(self._log.contents - contents.keys()):
            self._say("corrupt", "missing", name, "it was kept, and is missing")
        for name in sorted(self._log.documents - self._there - set(self._vouched)):
            self._say("corrupt", "digest", name, "it was written, and is missing")
        for turn, ended in sorted(self._log.turns.items()):
            if not ended and turn in self._log.completed:
                self._say("corrupt", "turn", f"{turn}/{names.SUMMARY}", "it is missing, and the turn was completed")
            elif not ended and self._sealed:
                self._say("incomplete", "turn", turn, "the turn has no summary: its session did not end")
        if self._sealed and self._log.is_whole:
            for bare in sorted(contents.keys() - self._log.contents):
                turn = bare.partition("/files/")[0] if bare.startswith("nodes/") else ""
                if not turn or self._log.turns.get(turn, True):  # a turn that did not end cannot name its contents
                    self._say("corrupt", "entry", contents[bare], "it was added after sealing")
        if not self._sealed and self._log.graph and names.GRAPH not in self._there:
            self._say("untidy", "graph", names.GRAPH, "it is missing; the events give it")


@dataclass(slots=True)
class _LogOfRun:
    """What the run's own log says must be there. `turns`: by folder, whether the turn has a summary."""

    is_whole: bool = True
    has_ended: bool = False
    graph: bytes | None = None
    patch: str = ""
    contents: set[str] = field(default_factory=set)  # without suffixes
    documents: set[str] = field(default_factory=set)
    turns: dict[str, bool] = field(default_factory=dict)
    completed: set[str] = field(default_factory=set)

    def add(self, event: Event) -> str:
        """Take an event in; why no bundle has it, "" if one may."""
        if event.type == "artifact.written":
            name = event.data.get("artifact")
            part = part_of(name) if isinstance(name, str) else None
            if part == "content":
                self.contents.add(_unsuffixed(str(name)))
            elif part is not None:
                self.documents.add(str(name))
            if name == names.PATCH:
                self.patch = str(event.data.get("sha256"))
        elif event.type == "run.completed":
            self.has_ended = True
        elif event.type in {"turn.started", "turn.completed"}:
            turn = f"nodes/{event.node_id}/{event.data['turn']}"
            if not names.is_turn(turn):
                return "it names a turn that no bundle has"
            self.turns.setdefault(turn, False)
            if event.type == "turn.completed":
                self.completed.add(turn)
        return ""


_LOOKS: dict[str, Callable[[Audit, Entry], None]] = {
    names.RUN: Audit._check_about,
    names.PATCH: Audit._check_patch,
    names.GRAPH: Audit._check_graph,
    names.SESSIONS: Audit._check_sessions,
    names.RECEIPT: Audit._check_receipt,
}


def _torn_bytes(folder: Folder, name: str) -> int:
    """The length of the log's last line if it has no end. OSError."""
    with open(folder.reading(name), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        return size - whole_lines(file.fileno(), size)[0]


def _check_numbers(log: Iterable[bytes]) -> None:
    """ValueError for the first line whose `seq` does not count on from 0."""
    for number, line in enumerate(log):
        try:
            seq = parse_object(line).get("seq")
        except ValueError as error:
            raise ValueError(f"entry {number}: {error}") from error
        if seq != number:
            raise ValueError(f"entry {number}: it has seq {str(seq)[:20]}")


def _unsuffixed(content: str) -> str:
    """The place of a content by its hash alone, as turns' summaries have it; a node's id may have dots."""
    return content[: content.rindex("/") + 65]
