"""The writer of `.vibe-artifacts`: runs recorded as they go, sealed last."""

from __future__ import annotations

import errno
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from vibe_gate.domain import escape, receipt, unredacted_fields
from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.change import Side
from vibe_gate.domain.document import iso, parse_object, plain, require_few
from vibe_gate.domain.event import (
    MAX_EVENTS,
    MAX_LAST_MESSAGE,
    Earlier,
    Event,
    EventType,
    fold_events,
)
from vibe_gate.domain.session_record import CapturedRecord
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import GateError
from vibe_gate.store import bundle_names
from vibe_gate.store.bundle_location import parse_events
from vibe_gate.store.bundle_seal import digest_vouched_files, require_possible_exit_code
from vibe_gate.store.contents import (
    Contents,
    CountingRedactor,
    StoredFile,
    count_redactions,
    redact_patch,
    sha256_of,
)
from vibe_gate.store.folder import Folder, make_durable
from vibe_gate.store.ndjson_log import MAX_DOCUMENT_BYTES, Lock, Log, encode_line, read_lines
from vibe_gate.store.patch_files import place_patch
from vibe_gate.store.recording_status import RecordingStatus, never_fails
from vibe_gate.store.turn_recorder import TurnParts, TurnRecorder

if TYPE_CHECKING:
    from vibe_gate.store.run_result import RunResult

Clock = Callable[[], datetime]
Attest = Callable[[Mapping[str, Any], Mapping[str, str]], bytes]
"""Makes receipt.json from the sealed summary (redacted, without its digests) and the digests; must
not raise.
"""

_LOST_WHILE_SEALING = (
    "the deadline was reached, or git gave no answer, while the verdict was being written."
)

_LINES_AT_ONCE = 256  # of contents: so many files are in a killed run before its log names them


class RunParts:
    """What a recorded run holds open. `lock` says that the run is alive."""

    def __init__(self, folder: Folder, redact: CountingRedactor, clock: Clock, lock: Lock) -> None:
        self.folder = folder
        self.redact = redact
        self.clock = clock
        self.lock = lock
        self.log = Log(folder, bundle_names.EVENTS, first=1)
        self.contents = Contents(folder)


class RunRecorder:
    """Writes one run's bundle; a context manager that abandons what was not sealed.

    No method fails, however recording fails: from then on all of them do nothing, and `lost` says
    why. What interrupts the review, its deadline for one, passes through all but `seal`. Safe for
    several threads.
    """

    def __init__(
        self, root: Path, key: str, run_id: str, parts: RunParts | None, status: RecordingStatus
    ) -> None:
        self.run_id = run_id
        self.relative = f"{STORE}/{key}/{run_id}" if parts else ""
        self.directory = root / STORE / key / run_id
        self._parts = parts
        self._status = status
        self.earlier: Earlier | None = None
        """What a resumed run had come to."""
        self._nodes: set[str] = set()
        self._judge_nodes: set[str] = set()
        self._turns: list[TurnRecorder] = []
        self._turn_count_by_node: Counter[str] = Counter()
        self._prepared: list[Callable[[int], dict[str, Any]]] = []
        """Lines of contents that are kept, which go to the log with the next event."""

    @property
    def lost(self) -> str | None:
        """Why the run is not recorded, as a sentence; None while it is."""
        return self._status.lost

    def read(self) -> RunResult:
        """What is recorded until now. StorageError, IntegrityError."""
        from vibe_gate.store.run_result import read_bundle  # few reviews look back

        self._flush_safely()
        return read_bundle(self.directory)

    @never_fails
    def event(
        self,
        parts: RunParts,
        /,
        type: EventType,
        node_id: str | None = None,
        **data: Any,  # noqa: ANN401
    ) -> None:
        """Append one event to the run's log; node.added only once a node."""
        if type == "node.added":
            if node_id in self._nodes:
                return
            self._nodes.add(node_id or "")
            if data.get("kind") == "judge":
                self._judge_nodes.add(node_id or "")
        self._append(parts, type, node_id, data)

    @never_fails
    def keep_patch(self, parts: RunParts, data: bytes) -> None:
        """Keep the reviewed change as change.patch."""
        text = redact_patch(data, parts.redact.data)
        place_patch(parts.folder, bundle_names.PATCH, text)
        self._note_artifact(parts, bundle_names.PATCH, text)

    @never_fails
    def keep_agents_patch(self, parts: RunParts, data: bytes) -> None:
        """Keep what the run's agents changed as made.patch."""
        self._place(parts, bundle_names.MADE_PATCH, redact_patch(data, parts.redact.data))

    @never_fails
    def keep_output(self, parts: RunParts, data: bytes) -> None:
        """Keep what the commands of checks printed as checks.log."""
        self._place(parts, bundle_names.CHECKS_LOG, parts.redact.data(data))

    @never_fails
    def keep_session_record(self, parts: RunParts, record: CapturedRecord) -> None:
        """Keep what captured sessions ran as record.json."""
        own_fields = unredacted_fields.SESSION_RECORD
        document = unredacted_fields.redacted(plain(record), own_fields, parts.redact.value)
        self._place(parts, bundle_names.SESSION_RECORD, encode_line(document))

    @never_fails
    def keep_counterexample(self, parts: RunParts, name: str, test: bytes, printed: bytes) -> None:
        """Keep a test that a fail brought, and what its runs printed, as counterexamples/NAME and
        NAME.log.
        """
        folder = parts.folder.folder(bundle_names.COUNTEREXAMPLES, create=True)
        for file, data in ((name, test), (f"{name}.log", printed)):
            safe = parts.redact.data(data)
            folder.place(bundle_names.require_folder_name(file, "a test's name"), safe)
            artifact = {
                "artifact": f"{bundle_names.COUNTEREXAMPLES}/{file}",
                "sha256": sha256_of(safe),
                "size": len(safe),
            }
            self._append(parts, "artifact.written", None, artifact)

    @never_fails
    def keep_content(self, parts: RunParts, side: Side, data: bytes, path: str = "") -> str:
        """Keep one side of a changed file; `path` as shown (`paths.quote`) goes into the event log.

        Returns the sha-256 of what is stored, of the bytes themselves above the
        size limit (nothing is stored then), or None if the run is not recorded.
        """
        stored = parts.contents.keep(side, data, parts.redact)
        self._prepare_content(parts, side, stored, path)
        return stored.sha256

    @never_fails
    def keep_large_content(
        self, parts: RunParts, side: Side, sha256: str, size: int, path: str = ""
    ) -> None:
        """Name one side of a changed file that is above the size limit; `path` as of `keep_content`."""
        self._prepare_content(parts, side, StoredFile(sha256, size, ""), path)

    @never_fails
    def read_run_document(self, parts: RunParts) -> dict[str, Any]:
        """What run.json says; None if the run is not recorded."""
        return parse_object(parts.folder.read(bundle_names.RUN))

    @never_fails
    def add_to_run_document(self, parts: RunParts, /, **additions: Mapping[str, str]) -> None:
        """Add to objects of run.json what became known since the run began."""
        new_values = {name: dict(values) for name, values in additions.items() if values}
        if not new_values:
            return
        safe = unredacted_fields.redacted(new_values, unredacted_fields.ABOUT, parts.redact.value)
        document = parse_object(parts.folder.read(bundle_names.RUN))
        for name, values in safe.items():
            document[name] = document.get(name, {}) | values
        parts.folder.place(bundle_names.RUN, encode_line(document))

    @property
    def has_turns(self) -> bool:
        """Whether an agent or a judge had a turn."""
        return bool(self._turn_count_by_node)

    def turn(self, node_id: str) -> TurnRecorder:
        """Open the node's next turn, `nodes/<node id>/turn-001` and so on; appends turn.started."""
        bundle_names.require_folder_name(node_id, "a node id")
        self._turn_count_by_node[node_id] += 1
        number = self._turn_count_by_node[node_id]
        self._begin_turn(node_id, number)
        turn = self.begun_turn(node_id, number)
        return turn or TurnRecorder(self.run_id, node_id, number, None, self._status)

    def seal(self, summary: Summary, attest: Attest | None = None) -> Summary | None:
        """Append run.completed, write graph, sessions.json and the receipt, and summary.json last,
        durably.

        Returns the summary as it was written, without secrets; None if the run is not recorded.
        """
        with self._status.lock:
            try:
                written_summary = self._seal(summary, attest)
            except GateError:  # the verdict stands: it was decided before
                written_summary = None
                self._status.lost = _LOST_WHILE_SEALING
            self.close()
        return written_summary

    def abandon(self, reason: str) -> None:
        """Mark the run as ended without a verdict: run.completed with `incomplete`, and never a
        summary.
        """
        self._abandon(reason)
        self.close()

    def close(self) -> None:
        """Close the run's files and release its lock; nothing is written afterwards."""
        with self._status.lock:
            for turn in self._turns:
                turn.close()
            self._flush_safely()
            self._status.closed = True
            parts = self._parts
            self._parts = None
            if parts is not None:
                parts.log.close()
                parts.lock.release()

    def __enter__(self) -> RunRecorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status.closed:
            return
        if kind is None:
            self.abandon("the review ended without a verdict")
        elif kind is KeyboardInterrupt:
            self.abandon("interrupted")
        else:
            self.abandon(f"the review ended by {kind.__name__}")

    def _place(self, parts: RunParts, name: str, safe: bytes) -> None:
        parts.folder.place(name, safe)
        self._note_artifact(parts, name, safe)

    def _note_artifact(self, parts: RunParts, name: str, safe: bytes) -> None:
        artifact = {"artifact": name, "sha256": sha256_of(safe), "size": len(safe)}
        self._append(parts, "artifact.written", None, artifact)

    def _append(
        self, parts: RunParts, type: EventType, node_id: str | None, data: Mapping[str, Any]
    ) -> None:
        self._prepare(parts, type, node_id, data)
        self._flush(parts)

    def _flush(self, parts: RunParts) -> None:
        prepared = self._prepared
        self._prepared = []
        parts.log.append(*prepared)

    _flush_safely = never_fails(_flush)

    def _prepare_content(self, parts: RunParts, side: Side, stored: StoredFile, path: str) -> None:
        artifact = {
            "artifact": stored.name,
            "sha256": stored.sha256,
            "size": stored.size,
            "side": side,
            "path": path,
        }
        self._prepare(parts, "artifact.written", None, artifact)
        if len(self._prepared) >= _LINES_AT_ONCE:
            self._flush(parts)

    def _prepare(
        self, parts: RunParts, type: EventType, node_id: str | None, data: Mapping[str, Any]
    ) -> None:
        ts = iso(parts.clock())
        safe = unredacted_fields.redacted(
            data, unredacted_fields.EVENT.get(type, {}), parts.redact.value
        )

        def line(seq: int) -> dict[str, Any]:
            if seq > MAX_EVENTS:
                raise OSError(
                    errno.EFBIG, f"{bundle_names.EVENTS} would have more than {MAX_EVENTS:,} events"
                )
            event: dict[str, Any] = {"seq": seq, "ts": ts, "type": type, "run_id": self.run_id}
            if node_id is not None:
                event["node_id"] = node_id
            event["data"] = safe
            return event

        self._prepared.append(line)

    def go_on(self, earlier: Earlier, nodes: Iterable[str], turns: Mapping[str, int]) -> None:
        """Count on from the nodes and turns that a run had when it died."""
        self.earlier = earlier
        self._nodes |= set(nodes)
        self._turn_count_by_node.update(turns)

    @never_fails
    def _begin_turn(self, parts: RunParts, node_id: str, number: int) -> None:
        name = bundle_names.turn_folder_name(number)
        parts.folder.below(f"nodes/{node_id}", create=True).make(name)
        self._append(parts, "turn.started", node_id, {"turn": name})

    @never_fails
    def begun_turn(self, parts: RunParts, node_id: str, number: int) -> TurnRecorder:
        """The record of a turn that has begun; None if the run is not recorded any more."""
        name = bundle_names.turn_folder_name(number)
        folder = parts.folder.below(f"nodes/{node_id}/{name}")

        def note_completion(turn: TurnRecorder, completion: Mapping[str, Any]) -> None:
            # A judge may quote what it was shown for itself alone; its answer is in the votes.
            message = "" if node_id in self._judge_nodes else completion["message"]
            data = {"turn": name, "session_id": turn.session_id, **completion}
            # Half a secret is not found, so the message is redacted before it is cut.
            data["message"] = escape.shorten_text(parts.redact.text(message), MAX_LAST_MESSAGE)
            self._append(parts, "turn.completed", node_id, data)

        turn_parts = TurnParts(
            folder, parts.contents, parts.redact.part(), parts.clock, note_completion
        )
        turn = TurnRecorder(self.run_id, node_id, number, turn_parts, self._status)
        self._turns.append(turn)
        return turn

    @never_fails
    def _seal(self, parts: RunParts, summary: Summary, attest: Attest | None) -> Summary:
        completion = {
            "status": "completed",
            "outcome": summary.outcome,
            "exit_code": summary.exit_code,
        }
        self._append(parts, "run.completed", None, completion)
        written_summary = unredacted_fields.redacted_summary(summary, parts.redact.value)
        require_possible_exit_code(written_summary)
        document = plain(written_summary)
        events = list(parse_events(read_lines(parts.folder, bundle_names.EVENTS)))
        parts.folder.place(bundle_names.GRAPH, fold_events(events).to_json().encode())
        sessions = unredacted_fields.redacted(
            _list_sessions(events), unredacted_fields.SESSIONS, parts.redact.value
        )
        parts.folder.place(bundle_names.SESSIONS, encode_line(sessions))
        document["redacted"] = count_redactions(parts.redact)
        self._place_sealed_documents(parts, document, attest)
        return written_summary

    def _place_sealed_documents(
        self, parts: RunParts, document: dict[str, Any], attest: Attest | None
    ) -> None:
        """Write the receipt and, when all else is on the disk, summary.json."""
        digests = digest_vouched_files(parts.folder)
        if attest is not None:
            raw_receipt = attest(document, digests)
            _require_readable(bundle_names.RECEIPT, raw_receipt, receipt.MAX_BYTES)
            parts.folder.place(bundle_names.RECEIPT, raw_receipt)
            digests[bundle_names.RECEIPT] = sha256_of(raw_receipt)
        raw_summary = encode_line(document | {"digests": digests})
        _require_readable(bundle_names.SUMMARY, raw_summary, MAX_DOCUMENT_BYTES)
        parts.folder.place(
            bundle_names.SUMMARY, raw_summary, barrier=lambda: make_durable(parts.folder)
        )

    @never_fails
    def _abandon(self, parts: RunParts, reason: str) -> None:
        # An interrupt may come right after the seal: what is sealed must not be written to any
        # more.
        if not parts.folder.has(bundle_names.SUMMARY):
            self._append(parts, "run.completed", None, {"status": "incomplete", "reason": reason})


def _list_sessions(events: Iterable[Event]) -> dict[str, Any]:
    """sessions.json: the sessions of each node, in the order in which their turns ended."""
    nodes: dict[str, list[str]] = {}
    for event in events:
        if event.type == "turn.completed" and event.data.get("session_id"):
            nodes.setdefault(event.node_id or "", []).append(event.data["session_id"])
    return {"schema": 1, "nodes": nodes}


def _require_readable(name: str, data: bytes, limit: int) -> None:
    """OSError: readers would refuse the document, so the run is not sealed with it."""
    if b"\\ud" in data:  # readers refuse half a surrogate pair
        json.dumps(json.loads(data), ensure_ascii=False).encode()
    try:
        require_few(data)
    except ValueError as error:
        raise OSError(errno.EFBIG, f"{name} would be too large: {error}") from None
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"{name} would be larger than {limit:,} bytes")
