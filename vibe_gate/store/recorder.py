"""One run, written as it goes and sealed last."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from vibe_gate.domain import receipt, unredacted_fields
from vibe_gate.domain.change import Side
from vibe_gate.domain.event import MAX_EVENTS, Event, EventType
from vibe_gate.domain.graph import fold
from vibe_gate.domain.summary import Summary
from vibe_gate.store import agreement, names
from vibe_gate.store.binary import redact_sections
from vibe_gate.store.contents import Contents
from vibe_gate.store.digests import digests
from vibe_gate.store.durable import make_durable
from vibe_gate.store.fate import Fate
from vibe_gate.store.folder import Folder
from vibe_gate.store.log import Lock, Log, encode_document, lines
from vibe_gate.store.objects import Objects, digest_of
from vibe_gate.store.place import MAX_DOCUMENT_BYTES
from vibe_gate.store.rebuilt import sessions
from vibe_gate.store.redactor import CountingRedactor, tally
from vibe_gate.store.strict import require_few

if TYPE_CHECKING:
    from vibe_gate.store.turn import TurnRecorder

Clock = Callable[[], datetime]
Attest = Callable[[Mapping[str, Any], Mapping[str, str]], bytes]
"""Makes receipt.json from the sealed summary (redacted, without its digests) and the digests; must not raise."""


@dataclass(slots=True)
class RunParts:
    """What a recorded run holds open. `lock` says that the run is alive."""

    folder: Folder
    objects: Objects
    redact: CountingRedactor
    clock: Clock
    lock: Lock
    log: Log = field(init=False)
    contents: Contents = field(init=False)

    def __post_init__(self) -> None:
        self.log = Log(self.folder, names.EVENTS, first=1)
        self.contents = Contents(self.folder, self.objects, self.redact)


class RunRecorder:
    """Writes one run's bundle; a context manager that abandons what was not sealed.

    No method fails, whatever recording fails by: from then on all of them do nothing, and
    `lost` says why. Safe for several threads.
    """

    def __init__(self, root: Path, key: str, run_id: str, parts: RunParts | None, fate: Fate) -> None:
        self.run_id = run_id
        self.relative = f"{names.STORE}/{key}/{run_id}" if parts else ""
        self.directory = root / names.STORE / key / run_id
        self._maybe_parts = parts
        self._fate = fate
        self._turns: list[TurnRecorder] = []
        self._turns_of: dict[str, int] = {}

    @property
    def lost(self) -> str | None:
        """Why the run is not recorded, as a sentence; None while it is."""
        return self._fate.lost

    def event(self, type: EventType, node_id: str | None = None, **data: Any) -> None:  # noqa: ANN401
        """Append one event to the run's log."""
        self._fate.attempt(lambda: self._append(type, node_id, data), None)

    def patch(self, data: bytes) -> None:
        """Keep the reviewed change as change.patch."""
        self._fate.attempt(lambda: self._patch(data), None)

    def content(self, side: Side, data: bytes, path: str = "") -> str | None:
        """Keep one side of a changed file; `path` as shown (`paths.quote`) goes into the event log.

        Returns the sha-256 of what is stored, of the bytes themselves above the
        size limit (nothing is stored then), or None if the run is not recorded.
        """
        return self._fate.attempt(lambda: self._content(side, data, path), None)

    def turn(self, node_id: str) -> TurnRecorder:
        """Open the node's next turn, `nodes/<node id>/turn-001` and so on; says turn.started."""
        names.as_folder_name(node_id, "a node id")
        number = self._turns_of[node_id] = self._turns_of.get(node_id, 0) + 1
        dead: TurnRecorder = _turns().TurnRecorder(self.run_id, node_id, number, None, self._fate)
        return self._fate.attempt(lambda: self._turn(node_id, number), dead)

    def seal(self, summary: Summary, attest: Attest | None = None) -> None:
        """Say run.completed, fold the graph, write sessions.json and the receipt, and summary.json last, durably."""
        with self._fate.lock:
            self._fate.attempt(lambda: self._seal(summary, attest), None)
            self.close()

    def abandon(self, reason: str, status: str = "incomplete") -> None:
        """Mark the run as ended without a verdict: run.completed with `status`, and never a summary."""
        self._fate.attempt(lambda: self._abandon(reason, status), None)
        self.close()

    def close(self) -> None:
        """Let go of the run's files and of its lock; nothing is written afterwards."""
        with self._fate.lock:
            for turn in self._turns:
                turn.close()
            self._fate.closed = True
            parts, self._maybe_parts = self._maybe_parts, None
            if parts is not None:
                parts.log.close()
                parts.lock.release()

    def __enter__(self) -> RunRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._fate.closed:
            reason = "the review ended without a verdict" if kind is None else f"the review ended by {kind.__name__}"
            self.abandon("interrupted" if kind is KeyboardInterrupt else reason)

    @property
    def _parts(self) -> RunParts:
        assert self._maybe_parts is not None, "a run without files is lost or closed, and nothing is attempted"
        return self._maybe_parts

    def _append(self, type: EventType, node_id: str | None, data: Mapping[str, Any]) -> None:
        parts = self._parts
        safe = unredacted_fields.redacted(data, unredacted_fields.EVENT.get(type, {}), parts.redact.value)

        def line(seq: int) -> dict[str, Any]:
            if seq > MAX_EVENTS:
                raise OSError(errno.EFBIG, f"{names.EVENTS} would have more than {MAX_EVENTS:,} events")
            ts = names.iso(parts.clock())
            event = Event(seq=seq, ts=ts, type=type, run_id=self.run_id, node_id=node_id, data=safe)
            return event.model_dump(exclude_none=True) | {"data": safe}

        parts.log.append(line)

    def _patch(self, data: bytes) -> None:
        redact = self._parts.redact.data
        safe = redact(redact_sections(data, redact))
        self._parts.folder.place(names.PATCH, safe)
        self._append("artifact.written", None, _artifact(names.PATCH, digest_of(safe), len(safe)))

    def _content(self, side: Side, data: bytes, path: str) -> str:
        kept = self._parts.contents.keep(side, data)
        about = _artifact(kept.name, kept.sha256, kept.size) | {"side": side, "path": path}
        self._append("artifact.written", None, about)
        return kept.sha256

    def _turn(self, node_id: str, number: int) -> TurnRecorder:
        parts = self._parts
        name = names.turn(number)
        folder = parts.folder.folder("nodes", create=True).folder(node_id, create=True).make(name)
        self._append("turn.started", node_id, {"turn": name})
        redact = parts.redact.part()
        contents = Contents(folder, parts.objects, redact)
        turn_parts = _turns().TurnParts(folder, contents, redact, parts.clock, self._turn_completed)
        turn: TurnRecorder = _turns().TurnRecorder(self.run_id, node_id, number, turn_parts, self._fate)
        self._turns.append(turn)
        return turn

    def _turn_completed(self, turn: TurnRecorder, status: str) -> None:
        about = {"turn": names.turn(turn.number), "status": status, "session_id": turn.session_id}
        self._append("turn.completed", turn.node_id, about)

    def _seal(self, summary: Summary, attest: Attest | None) -> None:
        parts = self._parts
        for turn in self._turns:
            turn.flush()
        done = {"status": "completed", "outcome": summary.outcome, "exit_code": summary.exit_code}
        self._append("run.completed", None, done)
        document = unredacted_fields.summary(summary.model_dump(mode="json", by_alias=True), parts.redact.value)
        sealed = Summary.model_validate(document)
        parts.folder.place(names.GRAPH, fold(self._agreeing(sealed)).to_json().encode())
        safe = unredacted_fields.redacted(self._sessions(), unredacted_fields.SESSIONS, parts.redact.value)
        parts.folder.place(names.SESSIONS, encode_document(safe))
        document["redacted"] = tally(parts.redact)
        if attest is not None:
            vouching = _readable(names.RECEIPT, attest(document, digests(parts.folder)), receipt.MAX_BYTES)
            parts.folder.place(names.RECEIPT, vouching)
        document["digests"] = digests(parts.folder)
        whole = _readable(names.SUMMARY, encode_document(document), MAX_DOCUMENT_BYTES)
        parts.folder.place(names.SUMMARY, whole, durable=True, barrier=lambda: make_durable(parts.folder))

    def _agreeing(self, sealed: Summary) -> Iterator[Event]:
        """The run's events as readers take them. ValueError where they would find that the summary says otherwise."""
        verdict = (sealed.outcome, sealed.exit_code)
        why = agreement.impossible(verdict)
        for line in lines(self._parts.folder, names.EVENTS):
            event = Event.model_validate(json.loads(line))
            why = why or agreement.contradicted(event, verdict)
            if why:
                raise ValueError(why)
            yield event

    def _abandon(self, reason: str, status: str) -> None:
        # An interrupt may come right after the seal: what is sealed must not be written to any more.
        if not self._parts.folder.has(names.SUMMARY):
            self._append("run.completed", None, {"status": status, "reason": reason})

    def _sessions(self) -> dict[str, Any]:
        return sessions([(turn.node_id, turn.session_id) for turn in self._turns])


def _readable(name: str, data: bytes, limit: int) -> bytes:
    """The document, if readers take one of its size; OSError: a run that they would refuse is not sealed."""
    try:
        require_few(data)
    except ValueError as error:
        raise OSError(errno.EFBIG, f"{name} would be too large: {error}") from None
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"{name} would be larger than {limit:,} bytes")
    return data


def _artifact(name: str, sha256: str, size: int) -> dict[str, Any]:
    return {"artifact": name, "sha256": sha256, "size": size}


def _turns() -> ModuleType:
    # Loaded with the first session: most runs at a commit have none, and a turn's documents are the longest to load.
    return import_module("vibe_gate.store.turn")
