"""Everything that is wrong with one run: its seal, its logs, its documents, its contents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pydantic import ValidationError

from vibe_gate.domain import receipt, tolerant_reading
from vibe_gate.domain.event import MAX_EVENTS, Event
from vibe_gate.domain.graph import fold
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.turn import TurnSummary
from vibe_gate.store import agreement, names
from vibe_gate.store.digests import digest
from vibe_gate.store.flaws import Flaw, State, What
from vibe_gate.store.folder import Folder
from vibe_gate.store.hashes import Hashes
from vibe_gate.store.layout import Entry, is_turn, is_vouched, part_of, walk
from vibe_gate.store.log import Lock
from vibe_gate.store.objects import LARGEST_CONTENT
from vibe_gate.store.place import MAX_DOCUMENT_BYTES, MAX_LINE_BYTES
from vibe_gate.store.strict import parse_object

MAX_FLAWS = 20_000
"""Of one run; more are counted. A small archive can name half a million contents that are not in it, and `repair` heals
as many in each of its passes."""


def audit(bundle: Folder, key: str, run_id: str, hashes: Hashes) -> list[Flaw]:
    """The flaws of the run in `bundle`, in the order of its files. A running one is left alone. OSError."""
    sealed = bundle.has(names.SUMMARY)
    if not sealed and Lock.is_held(bundle):
        return [Flaw("running", "run", f"{key}/{run_id}", "it is still running", f"{key}/{run_id}")]
    return _Audit(bundle, key, run_id, hashes).flaws()


class _Audit:
    def __init__(self, bundle: Folder, key: str, run_id: str, hashes: Hashes) -> None:
        self._bundle = bundle
        self._key = key
        self._run_id = run_id
        self._run = f"{key}/{run_id}"
        self._hashes = hashes
        self._sealed = bundle.has(names.SUMMARY)  # asked again: it may have been sealed just now
        self._there: set[str] = set()
        self._found: list[Flaw] = []
        self._more = 0  # flaws that are only counted
        self._wrong_logs: set[str] = set()
        self._vouched: dict[str, Any] = {}
        self._contents: set[str] = set()
        self._shown: set[str] = set()  # of what the log names only what is there
        self._missing: set[str] = set()
        self._turns: dict[str, bool] = {}  # nodes/<id>/<turn> -> whether it has a summary
        self._completed: set[str] = set()
        self._graph: str | None = None
        self._patch = ""
        self._stored: dict[str, Any] = {}
        self._verdict: agreement.Verdict | None = None
        self._has_ended = False
        self._is_told = True  # whether the log says what must be there

    def flaws(self) -> list[Flaw]:
        self._guarded("", self._names)
        if names.SUMMARY in self._bundle.files():
            self._guarded(names.SUMMARY, self._summary)
        elif not self._sealed:
            self._say("incomplete", "run", "", "it ended before its verdict")
        if names.EVENTS in self._bundle.files():
            self._guarded(names.EVENTS, self._events)
        elif self._verdict:
            self._say("corrupt", "document", names.SUMMARY, f"it has a verdict, and there is no {names.EVENTS}")
        self._guarded("", self._walk)
        for name in sorted(set(self._vouched) - self._there):
            self._say("corrupt", "digest", name, "it is missing, and the summary vouches for it")
        self._references()
        self._turn_summaries()
        self._added_to_turns()
        if not self._sealed and self._graph is not None and names.GRAPH not in self._there:
            self._say("untidy", "graph", names.GRAPH, "it is missing; the events give it")
        if self._more:
            more = f"{self._more:,} more things are wrong with it than the first {MAX_FLAWS:,}"
            self._found.append(Flaw("corrupt", "run", self._run, more, self._run))
        return self._found

    def _names(self) -> None:
        self._there.update(entry.name for entry in walk(self._bundle))

    def _walk(self) -> None:
        for entry in walk(self._bundle):
            self._guarded(entry.name, partial(self._entry, entry))

    def _guarded(self, name: str, look: Callable[[], None]) -> None:
        """What cannot be read is a flaw like others, and the rest is still looked at."""
        try:
            look()
        except OSError as error:
            self._say("corrupt", "unreadable", name, f"it cannot be read: {error.strerror}")

    def _say(self, state: State, what: What, name: str, why: str) -> None:
        flaw = Flaw(state, what, f"{self._run}/{name}" if name else self._run, why, self._run)
        if what == "unreadable":  # never left out: it tells `repair` to leave the run alone
            self._found += [flaw] if flaw not in self._found else []
        elif len(self._found) < MAX_FLAWS:
            self._found.append(flaw)
        else:
            self._more += 1

    def _summary(self) -> None:
        document = self._document(self._bundle, names.SUMMARY, names.SUMMARY)
        if document is None:
            return
        vouched = document.pop("digests", None)
        self._stored = dict(document)
        document.pop("redacted", None)
        if isinstance(vouched, dict):
            self._vouched = vouched
        else:
            self._say("corrupt", "document", names.SUMMARY, "it vouches for no files")
        self._model(names.SUMMARY, lambda: self._summary_of(document))

    def _summary_of(self, document: dict[str, Any]) -> None:
        summary = tolerant_reading.read(Summary, document)
        if (summary.run_id, summary.key) != (self._run_id, self._key):
            raise ValueError("it belongs to another run")
        self._verdict = (summary.outcome, summary.exit_code)
        if why := agreement.impossible(self._verdict) or agreement.misnamed(summary):
            raise ValueError(why)

    def _events(self) -> None:
        """The run's own log: numbers, types, and what it says about artifacts and turns."""
        right = True

        def events() -> Iterator[Event]:
            nonlocal right
            for number, line in self._lines(self._bundle, names.EVENTS, first=1):
                try:
                    event = tolerant_reading.read_event(parse_object(line))
                except ValueError as error:
                    right = self._wrong_line(names.EVENTS, number, _reason(error))
                    continue
                if number > MAX_EVENTS:
                    raise ValueError(f"it has more than {MAX_EVENTS:,} events")
                if event.seq != number:
                    right = self._wrong_line(names.EVENTS, number, f"it has seq {event.seq}")
                elif event.run_id != self._run_id:
                    right = self._wrong_line(names.EVENTS, number, "it belongs to another run")
                if self._verdict and (why := agreement.contradicted(event, self._verdict)):
                    right = self._wrong_line(names.EVENTS, number, why)
                if why := self._note(event):
                    right = self._wrong_line(names.EVENTS, number, why)
                yield event

        try:
            graph = fold(events())
        except ValueError as error:  # what any run leaves is less, and what is held of a log is bounded by it
            self._wrong_line(names.EVENTS, 0, str(error))
            self._shown, self._missing, self._is_told = set(), set(), False
            return
        if self._verdict and not self._has_ended:
            right = self._wrong_line(names.EVENTS, 0, agreement.NOT_ENDED)
        if right and graph.run_id:
            self._graph = graph.to_json()

    def _note(self, event: Event) -> str:
        """Remember what must be there; only names that a bundle may have. Returns what is wrong with the event."""
        data = event.data
        if event.type == "artifact.written" and isinstance(name := data.get("artifact"), str):
            if name in self._there:
                self._shown.add(name)
            elif part_of(name) is not None and name not in self._missing:
                if len(self._missing) < MAX_FLAWS:
                    self._missing.add(name)
                else:
                    self._more += 1
            if name == names.PATCH:
                self._patch = str(data.get("sha256"))
        elif event.type == "run.completed":
            self._has_ended = True
        elif event.type in {"turn.started", "turn.completed"}:
            turn = f"nodes/{event.node_id}/{data['turn']}"
            if not is_turn(turn):
                return "it names a turn that no bundle has"
            if event.type == "turn.started":
                self._turns.setdefault(turn, False)
            else:
                self._completed.add(turn)
        return ""

    def _entry(self, entry: Entry) -> None:
        part = part_of(entry.name)
        if entry.is_temporary:
            self._say("untidy", "temporary", entry.name, "it is a temporary file that nobody finished")
        elif not entry.is_file:
            self._say("corrupt", "entry", entry.name, "it is no regular file and no folder of a bundle")
        elif part == "mark":
            return
        elif part is None and entry.name not in self._vouched:
            self._say("corrupt", "entry", entry.name, "no bundle has a file of that name")
        elif part == "content":
            self._content(entry)
        elif part == "attached":
            if digest(entry.folder, entry.base) != entry.base:
                self._say("corrupt", "entry", entry.name, "its bytes are not those that its name says")
        else:
            if self._vouched and is_vouched(entry.name):
                self._compare(entry)
            self._look_into(entry)

    def _content(self, entry: Entry) -> None:
        self._contents.add(entry.name)
        why = self._hashes.fault(entry.folder, entry.base, entry.status)
        if why:
            self._say("corrupt", "content", entry.name, why)
        elif self._sealed and self._is_told and entry.name.startswith("files/") and entry.name not in self._shown:
            self._say("corrupt", "entry", entry.name, "it was added after sealing")
        elif apart := self._hashes.apart(entry.base, entry.status):
            self._say("untidy", "unlinked", entry.name, apart)

    def _compare(self, entry: Entry) -> None:
        expected = self._vouched.get(entry.name)
        if expected is None:
            self._say("corrupt", "digest", entry.name, "it was added after sealing")
        elif expected != digest(entry.folder, entry.base):
            self._say("corrupt", "digest", entry.name, "it was changed after sealing")

    def _look_into(self, entry: Entry) -> None:
        turn, _, base = entry.name.rpartition("/")
        if base == names.ANNOTATIONS:
            self._numbered_log(entry)
        elif turn:
            self._turns.setdefault(turn, False)
            if base == names.SUMMARY:
                self._turns[turn] = True
                self._turn_summary(entry, turn)
            elif base in {names.EVENTS, names.HOOKS}:
                self._numbered_log(entry)
        elif base == names.RUN:
            self._about(entry)
        elif base == names.PATCH:
            if self._patch and not self._sealed and self._patch != digest(entry.folder, base):
                self._say("corrupt", "digest", entry.name, "it is not what the events say was written")
        elif base == names.GRAPH:
            self._compare_graph(entry)
        elif base == names.SESSIONS:
            self._document(entry.folder, base, entry.name)
        elif base == names.RECEIPT:
            self._receipt(entry)

    def _about(self, entry: Entry) -> None:
        document = self._document(entry.folder, entry.base, entry.name)
        if document is None:
            return
        if (document.get("run_id"), document.get("key")) != (self._run_id, self._key):
            self._say("corrupt", "document", entry.name, "it belongs to another run")
        elif names.began(self._run_id) != document.get("created_at"):
            self._say("corrupt", "document", entry.name, "its created_at is not the time in the run's id")

    def _receipt(self, entry: Entry) -> None:
        if self._document(entry.folder, entry.base, entry.name) is None or self._verdict is None:
            return
        files = {name: found for name, found in self._vouched.items() if name != names.RECEIPT}
        if why := agreement.receipt_fault(entry.folder.read(entry.base, receipt.MAX_BYTES), self._stored, files):
            self._say("corrupt", "document", entry.name, why)

    def _compare_graph(self, entry: Entry) -> None:
        if self._graph is not None and entry.folder.read(entry.base, MAX_DOCUMENT_BYTES) != self._graph.encode():
            self._say("corrupt", "graph", entry.name, "it is not the fold of the events")

    def _turn_summary(self, entry: Entry, turn: str) -> None:
        document = self._document(entry.folder, entry.base, entry.name)
        if document is not None:
            self._model(entry.name, lambda: self._turn_of(document, turn))

    def _turn_of(self, document: dict[str, Any], turn: str) -> None:
        summary = tolerant_reading.read(TurnSummary, document)
        _, node_id, number = turn.split("/")
        if summary.test_id != f"{self._run_id}/{node_id}/{number}":
            raise ValueError("it belongs to another turn")
        for file in summary.files:
            for side, content in (("before", file.before), ("after", file.after)):
                if content is not None and content.size <= LARGEST_CONTENT:
                    self._shown.add(f"{turn}/files/{side}/{content.sha256}")

    def _numbered_log(self, entry: Entry) -> None:
        for number, line in self._lines(entry.folder, entry.base, first=0, name=entry.name):
            try:
                seq = parse_object(line).get("seq")
            except ValueError as error:
                self._wrong_line(entry.name, number, _reason(error))
                continue
            if seq != number:
                self._wrong_line(entry.name, number, f"it has seq {str(seq)[:20]}")

    def _references(self) -> None:
        """What the logs and the turns' summaries say is there must be there."""
        there = self._there | {_unsuffixed(name) for name in self._contents}
        for name in sorted((self._shown | self._missing) - there):
            if part_of(name) == "content" or part_of(f"{name}.txt") == "content":
                self._say("corrupt", "missing", name, "it was kept, and is missing")
            elif part_of(name) is not None and name not in self._vouched:
                self._say("corrupt", "digest", name, "it was written, and is missing")

    def _added_to_turns(self) -> None:
        """Contents in a sealed run's turns that no turn's summary has; one that did not end has none to say so."""
        for name in sorted(self._contents if self._sealed and self._is_told else ()):
            turn, inside, _ = name.rpartition("/files/")
            if inside and self._turns.get(turn, True) and _unsuffixed(name) not in self._shown:
                self._say("corrupt", "entry", name, "it was added after sealing")

    def _turn_summaries(self) -> None:
        for turn, ended in sorted(self._turns.items()):
            if ended:
                continue
            if turn in self._completed:
                self._say("corrupt", "turn", f"{turn}/{names.SUMMARY}", "it is missing, and the turn was completed")
            elif self._sealed:
                self._say("incomplete", "turn", turn, "the turn has no summary: its session did not end")

    def _lines(self, folder: Folder, base: str, first: int, name: str = "") -> Iterator[tuple[int, bytes]]:
        """Numbered whole lines; a torn tail is told."""
        name = name or base
        with open(folder.reading(base), "rb") as file:
            number = first
            while line := file.readline(MAX_LINE_BYTES):
                if line.endswith(b"\n"):
                    yield number, line
                elif len(line) == MAX_LINE_BYTES:
                    self._wrong_line(name, number, f"it is longer than {MAX_LINE_BYTES:,} bytes")
                    return
                else:
                    state: State = "corrupt" if self._sealed and is_vouched(name) else "untidy"
                    self._say(state, "torn", name, f"its last line is torn: {len(line):,} bytes without an end")
                number += 1

    def _wrong_line(self, name: str, number: int, why: str) -> bool:
        """Tell it, one line a log: the rest is seldom better. Returns False."""
        if name not in self._wrong_logs:
            self._wrong_logs.add(name)
            self._say("corrupt", "log", name, f"entry {number}: {why}")
        return False

    def _document(self, folder: Folder, base: str, name: str) -> dict[str, Any] | None:
        try:
            with open(folder.reading(base), "rb") as file:
                data = file.read(MAX_DOCUMENT_BYTES + 1)
            if len(data) > MAX_DOCUMENT_BYTES:
                raise ValueError(f"it is larger than {MAX_DOCUMENT_BYTES:,} bytes")
            return parse_object(data)
        except ValueError as error:
            self._say("corrupt", "document", name, _reason(error))
        return None

    def _model(self, name: str, validate: Callable[[], None]) -> None:
        try:
            validate()
        except ValueError as error:
            self._say("corrupt", "document", name, _reason(error))


def _unsuffixed(content: str) -> str:
    """The place of a content by its hash alone, as turns' summaries have it; a node's id may have dots."""
    return content[: content.rindex("/") + 65]


def _reason(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"{where}: {first['msg']}" if where else first["msg"]
    return str(error)
