"""What an agent's run did, rebuilt from its bundle alone: `read_bundle(directory)` gives a
`RunResult`.

A bundle is a whole run's folder (`.vibe-artifacts/<key>/<run id>`) or one turn's in it
(`nodes/<node id>/turn-001`), sealed or not, here or copied anywhere. Opening looks at the summary;
everything is read on request, compared with the run's seal and with the hashes of the contents, and
not kept.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.change import LARGEST_CONTENT, SIDES, ChangeType
from vibe_gate.domain.document import decode_document, parse_object, read
from vibe_gate.domain.event import Graph, fold_events
from vibe_gate.domain.session_record import CapturedRecord
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.turn import GitState, TurnGit, TurnTodo
from vibe_gate.domain.wire import end_kind
from vibe_gate.errors import AgentFailed, StorageError, UsageError
from vibe_gate.store import bundle_names, changed_files
from vibe_gate.store.bundle_events import (
    CapturedCall,
    Message,
    Timeline,
    Tools,
    calls_of,
    messages_of,
)
from vibe_gate.store.bundle_location import (
    BundleLocation,
    BundleState,
    corrupt_bundle_error,
    locate_bundle,
    open_bundle_folder,
    turn_locator,
)
from vibe_gate.store.bundle_seal import read_sealed_summary, read_summary
from vibe_gate.store.changed_files import EditingCalls, Files
from vibe_gate.store.contents import TextRedactor, sha256_of
from vibe_gate.store.folder import Folder
from vibe_gate.store.ndjson_log import Log
from vibe_gate.store.turn_chain import ResultChain, chain_of_turn, read_stored_patch
from vibe_gate.store.turn_summary import (
    HookCaptureStatus,
    TurnMetrics,
    TurnSummary,
    apply_todo_event,
)

Letter = Literal["A", "M", "D", "R", "T"]
_LETTERS: dict[ChangeType, Letter] = {
    "added": "A",
    "modified": "M",
    "deleted": "D",
    "renamed": "R",
    "type_changed": "T",
}

MAX_MESSAGE_CHARACTERS = 10_000
"""Of an annotation."""

_TOO_LARGE = f"An attachment has at most {LARGEST_CONTENT:,} bytes, placeholders included."

_NOW = partial(datetime.now, UTC)


class NameStatus(Struct, frozen=True):
    """One line of `git diff --name-status`: A, M, D, R or T (type changed); paths as shown."""

    path: str
    change: Letter
    old_path: str | None


class Attachment(Struct, frozen=True):
    """What an annotation shows beside its message."""

    body: bytes
    """Redacted before it is kept."""
    content_type: str = "text/plain"

    @classmethod
    def from_file(cls, path: Path | str, content_type: str | None = None) -> Attachment:
        """The bytes of a file; None: its type is guessed from its name.

        UsageError: it cannot be read, or has more than 10,000,000 bytes.
        """
        try:
            with Path(path).open("rb") as file:
                body = file.read(LARGEST_CONTENT + 1)
        except (OSError, ValueError) as error:  # a NUL in the name
            reason = error.strerror if isinstance(error, OSError) else error
            raise UsageError(f"{paths.quote(str(path))} cannot be attached: {reason}.") from error
        if len(body) > LARGEST_CONTENT:
            raise UsageError(_TOO_LARGE)
        if content_type is None:
            content_type = _guess_content_type(Path(path).name)
        return cls(body, content_type)


def _guess_content_type(name: str) -> str:
    """The media type of a file of that name; of a compressed one, that of any bytes."""
    media_type, compression = mimetypes.guess_type(name)
    if media_type is None or compression is not None:
        return "application/octet-stream"
    return media_type


class Annotation(Struct, frozen=True):
    """One remark."""

    message: str
    type: str
    ts: int
    """Milliseconds since 1970."""
    turn: str
    """The folder of the turn in its run, "" of a remark on the run."""
    attachment: Mapping[str, Any] | None
    """`content_type`, `sha256`, `size` and `name`, the file below the run's folder."""


class Git(Struct, frozen=True):
    """The repository before and after (HEAD, and whether anything was uncommitted); None if it is
    not known.
    """

    before: GitState | None
    after: GitState | None
    _files: Files

    @property
    def changed_count(self) -> int:
        """How many files changed."""
        return self._files.stats().total

    def diff_summary(self) -> list[NameStatus]:
        """What changed, as `git diff --name-status` says it."""
        return [
            NameStatus(file.path, _LETTERS[file.change_type], file.old_path)
            for file in self._files.changed()
        ]


def _read_session_record(data: bytes) -> CapturedRecord:
    return decode_document(CapturedRecord, data)


def read_bundle(
    directory: Path | str | RunEntry,
    *,
    redact: TextRedactor | None = None,
    clock: Callable[[], datetime] = _NOW,
) -> RunResult:
    """The run or the turn whose bundle is `directory`, from disk alone.

    An entry of `find_bundles` stands for its `bundle`, a folder below the current one.
    `redact` and `clock` are for annotations: what is written passes through the one (without
    it nothing can be annotated) and is dated by the other.
    StorageError: there is no bundle. IntegrityError: its summary is not what was written.
    """
    folder = directory.bundle if isinstance(directory, RunEntry) else directory
    return RunResult(locate_bundle(Path(folder)), redact, clock)


def read_ended_turn(
    directory: Path, *, redact: TextRedactor, clock: Callable[[], datetime], unrecorded: str
) -> RunResult:
    """As `read_bundle`, of a turn whose run has ended in this process.

    `unrecorded`: why the run could not be recorded wholly, as a sentence, or "".
    """
    return RunResult(locate_bundle(directory), redact, clock, unrecorded)


class RunResult:
    """One run or one turn, read from its bundle; open one with `read_bundle`.

    Every member raises StorageError if the bundle cannot be read, and
    IntegrityError, which names the file, if it is not what was written.
    All texts in a bundle are untrusted: a model, a tool or a repository wrote them.
    """

    __slots__ = ("_bundle", "_clock", "_redact", "_unrecorded", "state")

    def __init__(
        self,
        bundle: BundleLocation,
        redact: TextRedactor | None,
        clock: Callable[[], datetime],
        unrecorded: str = "",
    ) -> None:
        self._unrecorded = unrecorded
        self._bundle = bundle
        self._redact = redact
        self._clock = clock
        self.state: BundleState = bundle.state()
        """`sealed`, `running` (its writer lives) or `incomplete`."""
        if self.complete:
            _ = self._run_summary() if self.is_run else self._turn_summary()

    def __repr__(self) -> str:
        return f"<RunResult {self.state} {str(self.bundle_dir)!r}>"

    @property
    def bundle_dir(self) -> Path:
        """Where the bundle is, absolute."""
        return self._bundle.directory

    @property
    def complete(self) -> bool:
        """Whether the bundle was sealed. Of one that was not, everything is what was recorded until
        now.
        """
        return self.state == "sealed"

    @property
    def status(self) -> str:
        """How the agent's session ended: done, answered, timeout, budget, max_turns, refused,
        max_tokens, api_error ...

        Of a run: of the first of its turns that did not end well, else "done". Of a bundle that is
        not sealed: `state`.
        """
        if not self.complete:
            return self.state
        failed_turn = self._failed_turn()
        if failed_turn is not None:
            return failed_turn.status
        if self.is_run:
            return "done"
        return self._turn_summary().status

    @property
    def error(self) -> str:
        """Why the session did not end well, as a sentence; "" if it did."""
        if not self.complete:
            bundle = "run" if self.is_run else "turn"
            if self._unrecorded:
                return f"The {bundle} ended, but not all of it was recorded. {self._unrecorded}"
            return f"The {bundle} is {self.state}: it did not end."
        failed_turn = self._failed_turn()
        if failed_turn is None:
            return ""
        return failed_turn.detail or f"The session ended as {failed_turn.status}."

    def raise_for_status(self) -> Self:
        """Raise AgentFailed if the session did not end well; else give this result back."""
        if error := self.error:
            raise AgentFailed(error, self.status, self)
        return self

    def _failed_turn(self) -> TurnSummary | None:
        """The summary of the first turn whose session did not end well; earlier versions wrote no
        status.
        """
        for turn in self.turns() if self.is_run else [self]:
            if not turn.complete:
                continue
            summary = turn._turn_summary()
            if summary.status and end_kind(summary.status) != "finished":
                return summary
        return None

    @property
    def summary(self) -> Summary:
        """The verdict of a sealed run, after every file of it was compared with the seal and the
        receipt.

        StorageError: the run is not finished, so there is no verdict, or this is one turn of a run.
        """
        if not self.is_run:
            raise StorageError(
                "A turn has no verdict of its own; open its run for one. A turn has metrics, "
                "status, files, todos, tools, messages and git."
            )
        return read_sealed_summary(self._bundle)

    @property
    def session_record(self) -> CapturedRecord | None:
        """What the captured sessions ran that wrote the change; None if there are none."""
        bundle = self._bundle.bare()
        if not self.is_run or not bundle.has(bundle_names.SESSION_RECORD):
            return None
        return bundle.document(bundle_names.SESSION_RECORD, _read_session_record)

    @property
    def run_document(self) -> dict[str, Any]:
        """run.json: prompt, workflow, mode, change, budgets, versions, definitions."""
        return self._bundle.bare().document(bundle_names.RUN, parse_object)

    def graph(self) -> Graph:
        """The run's graph, folded from its events; its verdict only if the run is sealed.
        IntegrityError also if they give more than any run's.
        """
        try:
            graph = fold_events(self._bundle.bare().events())
            if self.complete:
                return graph
            return replace(graph, verdict=None)
        except ValueError as error:
            raise corrupt_bundle_error(
                self._bundle.path(bundle_names.EVENTS), str(error)
            ) from error

    @property
    def metrics(self) -> TurnMetrics:
        """Tokens, USD, milliseconds, tool calls, changed files; None is "not known", as most is
        until the seal.
        """
        if self.complete and not self.is_run:
            return self._turn_summary().metrics
        calls = len(self.tools.all())
        if not self.complete:
            return TurnMetrics(tool_calls=calls)
        summary = self._run_summary()
        return TurnMetrics(
            total_tokens=summary.cost.input_tokens + summary.cost.output_tokens,
            total_cost_usd=summary.cost.usd,
            cost_basis=summary.cost.basis,
            duration_ms=summary.duration_ms,
            tool_calls=calls,
            files_changed=len(summary.change.files),
        )

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation, turn after turn: heads with `role`, `summary`, `ts` and `load()`."""
        messages: list[Message] = []
        for turn in self._turn_bundles():
            messages += messages_of(turn)
        return tuple(messages)

    @property
    def todos(self) -> list[TurnTodo]:
        """The agents' own lists at the end, turn after turn."""
        if self.is_run:
            run_todos: list[TurnTodo] = []
            for turn in self.turns():
                run_todos += turn.todos
            return run_todos
        if self.complete:
            return list(self._turn_summary().todos)
        todos: list[TurnTodo] = []
        for event, _ in self._bundle.records(bundle_names.EVENTS):
            if event.get("type") == "todo":
                todos = apply_todo_event(todos, event)
        return todos

    @property
    def git(self) -> Git:
        """The repository before and after, and what changed between."""
        if not self.complete:
            return Git(None, None, Files())
        if not self.is_run:
            turn_git = self._turn_summary().git or TurnGit()
            return Git(turn_git.before, turn_git.after, self.files)
        change = self._run_summary().change
        before = GitState(head=change.base_commit, dirty=False)
        after = GitState(
            head=change.head_commit or change.base_commit, dirty=not change.head_commit
        )
        return Git(before, after, self.files)

    @property
    def files(self) -> Files:
        """A run's reviewed change; what the agent changed during a turn. None until the seal."""
        if not self.complete:
            return Files()
        calls = EditingCalls(lambda: self.tools)
        if self.is_run:
            return changed_files.files_of_run(self._bundle, self._run_summary().change.files, calls)
        return changed_files.files_of_turn(self._bundle, self._turn_summary(), calls)

    @property
    def made_patch(self) -> bytes:
        """What a run's agents changed, as `git apply` takes it; b"" if they changed nothing."""
        if not self.is_run:
            return b""
        return read_stored_patch(self._bundle.bare(), bundle_names.MADE_PATCH)

    @property
    def change_patch(self) -> bytes:
        """The reviewed change of a run, redacted, as `git apply` takes it, whether it is stored as
        change.patch or change.patch.gz; b"" if there is none. StorageError, IntegrityError.
        """
        if not self.is_run:
            return b""
        return read_stored_patch(self._bundle, bundle_names.PATCH)

    @property
    def chain(self) -> ResultChain:
        """What the agent changed together with those whose files it began with; of a run, the
        longest chain of its turns. StorageError: it is not finished.
        """
        if not self.complete:
            raise StorageError(f"{self.error} What it changed is not known yet.")
        if not self.is_run:
            calls = EditingCalls(lambda: self.tools)
            return chain_of_turn(self._bundle, self._turn_summary(), calls)
        chains = [turn.chain for turn in self.turns() if turn.complete]
        changing_chains = [chain for chain in chains if chain.files.changed_count]
        if not chains:
            return ResultChain((), Files(), self._bundle, bundle_names.CHAIN_PATCH)
        return max(reversed(changing_chains or chains), key=lambda chain: len(chain.turns))

    def content(self, sha256: str) -> bytes:
        """A stored content by its sha-256 in hex, of either side; a run's turns are looked through,
        too.

        StorageError: the bundle has none of that hash. IntegrityError: its bytes have another.
        """
        if changed_files.SHA256.fullmatch(sha256) is not None:
            for bundle in (self._bundle, *self._turn_bundles()):
                for side in SIDES:
                    content = changed_files.open_stored_content(bundle, side, sha256)
                    if content is not None:
                        with content:
                            return content.read()
        raise StorageError(f"The bundle has no content with the hash {sha256[:64]!r}.")

    @property
    def tools(self) -> Tools:
        """The tool calls that hooks saw."""
        if self.is_run:
            calls: list[CapturedCall] = []
            for turn in self.turns():
                calls += turn.tools.all()
            return Tools(tuple(sorted(calls, key=lambda call: call.started_at)))
        missing_events = None
        if self.complete:
            missing_events = self._turn_summary().hook_capture_status.missing_events
        return Tools(tuple(calls_of(self._bundle, missing_events)))

    @property
    def timeline(self) -> Timeline:
        """The run's events, the SDK's and the hooks', merged by time."""
        return Timeline(self._bundle, self.is_run)

    @property
    def hook_capture_status(self) -> HookCaptureStatus:
        """Whether hooks saw every tool call start and end, and what is missing; of a run, over all
        its turns.
        """
        if self.is_run:
            return self._run_capture_status()
        if self.complete:
            return self._turn_summary().hook_capture_status
        warning = self._unrecorded or "the turn is not finished"
        return HookCaptureStatus(complete=False, warnings=(warning,))

    def _run_capture_status(self) -> HookCaptureStatus:
        complete = self.complete
        missing_events: list[str] = []
        warnings: list[str] = []
        more_missing_events = more_warnings = 0
        for turn in self.turns():
            status = turn.hook_capture_status
            place = turn._bundle.inside
            complete = complete and status.complete
            missing_events += [f"{place}: {event}" for event in status.missing_events]
            warnings += [f"{place}: {warning}" for warning in status.warnings]
            more_missing_events += status.more_missing_events or 0
            more_warnings += status.more_warnings or 0
        return HookCaptureStatus(
            complete=complete,
            missing_events=tuple(missing_events),
            warnings=tuple(warnings),
            more_missing_events=more_missing_events or None,
            more_warnings=more_warnings or None,
        )

    def turns(self) -> list[RunResult]:
        """The turns of a run in the order in which they started; of a turn itself, none."""
        if not self.is_run:
            return []
        return [RunResult(bundle, self._redact, self._clock) for bundle in self._turn_bundles()]

    def log(self, node: str = "") -> str:
        """The readable transcript: a turn's, or those of all turns of a run (of one node), each
        under its folder.
        """
        if self.is_run:
            transcripts = []
            for turn in self.turns():
                place = turn._bundle.inside
                if not node or place.split("/")[1] == node:
                    transcripts.append(f"==== {place}\n{turn.log()}")
            return "".join(transcripts)
        if not self._bundle.has(bundle_names.TURN_LOG):
            return ""
        return self._bundle.document(bundle_names.TURN_LOG, bytes.decode)

    def annotate(
        self, message: str, type: str = "notice", attachment: Attachment | None = None
    ) -> None:
        """Append a remark to the run's `annotations.ndjson`. No seal covers it and none is broken
        by it.

        It is redacted first. UsageError: longer than 10,000 characters, more than
        10,000,000 bytes attached, or the bundle was read without `redact`.
        """
        if self._redact is None:
            raise UsageError(
                "Pass `redact` to read_bundle to annotate: what is written is redacted first."
            )
        if not (isinstance(message, str) and isinstance(type, str)):
            raise UsageError(
                f"An annotation's message and type are texts, not {message!r:.40} and {type!r:.40}."
            )
        if len(message) > MAX_MESSAGE_CHARACTERS:
            raise UsageError(
                f"An annotation has at most {MAX_MESSAGE_CHARACTERS:,} characters; attach the rest."
            )
        record = {
            "ts": bundle_names.to_milliseconds(self._clock()),
            "type": self._redact.text(type),
            "message": self._redact.text(message),
            "turn": self._bundle.inside,
        }
        try:
            _append_annotation(self._bundle, record, attachment, self._redact)
        except OSError as error:
            raise StorageError(
                f"The annotation was not written: {error.strerror or error}."
            ) from error

    def annotations(self) -> list[Annotation]:
        """The remarks, oldest first; a run's include those on its turns."""
        return list(_read_annotations(self._bundle))

    @property
    def is_run(self) -> bool:
        """Whether this is a whole run's bundle, and not one turn's."""
        return not self._bundle.inside and (
            self._bundle.has(bundle_names.RUN) or self._bundle.has(bundle_names.GRAPH)
        )

    def _run_summary(self) -> Summary:
        return self._bundle.bare().document(
            bundle_names.SUMMARY, lambda data: read_summary(parse_object(data))
        )

    def _turn_summary(self) -> TurnSummary:
        return self._bundle.document(
            bundle_names.SUMMARY, lambda data: read(TurnSummary, parse_object(data))
        )

    def _turn_bundles(self) -> list[BundleLocation]:
        if not self.is_run:
            return [self._bundle]
        locate_turn = turn_locator(self._bundle)
        begun_turns: dict[tuple[str, str], None] = {}
        for event in self._bundle.events():
            if event.type == "turn.started":
                begun_turns[str(event.node_id), str(event.data["turn"])] = None
        return [locate_turn(node, name) for node, name in begun_turns]


# Annotations are beside the sealed files, those on a turn in its run's folder, too: no seal covers
# them.


def _append_annotation(
    bundle: BundleLocation,
    record: dict[str, Any],
    attachment: Attachment | None,
    redact: TextRedactor,
) -> None:
    folder = open_bundle_folder(bundle.root)
    if attachment is not None:
        record["attachment"] = _place_attachment(folder, attachment, redact)
    log = Log(folder, bundle_names.ANNOTATIONS, first=0)
    try:
        log.append(lambda seq: {"seq": seq} | record)
    finally:
        log.close()


def _place_attachment(
    folder: Folder, attachment: Attachment, redact: TextRedactor
) -> dict[str, Any]:
    """Keep an attachment below the run's folder; what the annotation says of it. UsageError: it is
    too large. OSError.
    """
    body = attachment.body
    if len(body) <= LARGEST_CONTENT:
        body = redact.data(body)
    if len(body) > LARGEST_CONTENT:
        raise UsageError(_TOO_LARGE)
    sha256 = sha256_of(body)
    folder.folder(bundle_names.ATTACHED, create=True).place(sha256, body)
    return {
        "content_type": redact.text(attachment.content_type),
        "sha256": sha256,
        "size": len(body),
        "name": f"{bundle_names.ATTACHED}/{sha256}",
    }


def _read_annotations(bundle: BundleLocation) -> Iterator[Annotation]:
    for record, _ in bundle.bare().records(bundle_names.ANNOTATIONS):
        match record:
            case {"message": str(message), "type": str(type), "ts": int(ts), "turn": str(turn)}:
                if bundle.inside in {"", turn}:
                    yield Annotation(message, type, ts, turn, _attachment_of(record))


def _attachment_of(record: Mapping[str, Any]) -> dict[str, Any] | None:
    attachment = record.get("attachment")
    return attachment if isinstance(attachment, dict) else None
