"""What an agent's run did, rebuilt from its bundle alone: `read_bundle(directory)` gives a `RunResult`.

A bundle is a whole run's folder (`.vibe-artifacts/<key>/<run id>`) or one turn's in it
(`nodes/<node id>/turn-001`), sealed or not, here or copied anywhere. Opening reads the
summary and keeps five numbers of it; everything else is read when it is asked for,
compared with the run's seal and with the hashes of the contents, and not kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from vibe_gate.domain import tolerant_reading
from vibe_gate.domain.change import ChangeType
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.turn import (
    FileStats,
    GitState,
    HookCaptureStatus,
    TurnGit,
    TurnMetrics,
    TurnSummary,
    TurnTodo,
    todos_after,
)
from vibe_gate.errors import StorageError
from vibe_gate.secrets import scan
from vibe_gate.secrets.placeholders import as_bytes_seen, replaced
from vibe_gate.store import calls, changed, names, remarks
from vibe_gate.store.calls import CapturedCall, Tools
from vibe_gate.store.changed import FileChange, Files
from vibe_gate.store.log import Lock
from vibe_gate.store.messages import Messages
from vibe_gate.store.place import Place, json_object, locate, open_folder, turns_of
from vibe_gate.store.reading import RunState, read_summary
from vibe_gate.store.redactor import Redactor
from vibe_gate.store.remarks import Annotation, Attachment
from vibe_gate.store.timeline import Timeline

Letter = Literal["A", "M", "D", "R", "T"]
_LETTERS: dict[ChangeType, Letter] = {
    "added": "A", "modified": "M", "deleted": "D", "renamed": "R", "type_changed": "T",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NameStatus:
    """One line of `git diff --name-status`: A, M, D, R or T (type changed); paths as shown."""

    path: str
    change: Letter
    old_path: str | None


class Git:
    """The repository before and after, as far as the bundle tells."""

    __slots__ = ("_files", "_states")

    def __init__(self, states: Callable[[], TurnGit], files: Files) -> None:
        self._states = states
        self._files = files

    @property
    def before(self) -> GitState | None:
        """HEAD and whether anything was uncommitted, None where it is not known."""
        return self._states().before

    @property
    def after(self) -> GitState | None:
        """The same afterwards."""
        return self._states().after

    @property
    def changed_count(self) -> int:
        """How many files changed."""
        return self._files.stats().total

    def diff_summary(self) -> list[NameStatus]:
        """What changed, as `git diff --name-status` says it."""
        return [NameStatus(file.path, _LETTERS[file.change_type], file.old_path) for file in self._files.changed()]


class RunResult:
    """One run or one turn, read from its bundle; open one with `read_bundle`.

    Every member raises StorageError where the bundle cannot be read, and
    IntegrityError, which names the file, where it is not what was written.
    All texts in a bundle are untrusted: a model, a tool or a repository wrote them.
    """

    __slots__ = ("_clock", "_known", "_place", "_redact", "state")

    def __init__(self, place: Place, redact: Redactor, clock: Callable[[], datetime]) -> None:
        self._place = place
        self._redact = redact
        self._clock = clock
        self.state: RunState = _state(place)
        """`sealed`, `running` (its writer lives) or `incomplete`."""
        self._known: TurnMetrics | None = None
        if self.complete:
            self._known = _metrics_of_run(self._run_summary()) if self._is_run else self._turn_summary().metrics

    def __repr__(self) -> str:
        return f"<RunResult {self.state} {str(self.bundle_dir)!r}>"

    @property
    def bundle_dir(self) -> Path:
        """Where the bundle lies, absolute."""
        return self._place.directory

    @property
    def complete(self) -> bool:
        """Whether the bundle was sealed. Of one that was not, everything is what was recorded until now."""
        return self.state == "sealed"

    @property
    def summary(self) -> Summary:
        """The verdict of a sealed run, after every file of it was compared with the seal.

        StorageError: the run is not finished, so there is no verdict, or this is one turn of a run.
        """
        if not self._is_run:
            raise StorageError("A turn has no verdict of its own; open its run.")
        return read_summary(self._place.root)

    @property
    def metrics(self) -> TurnMetrics:
        """Tokens, USD, milliseconds, tool calls, changed files; None is "not known"."""
        if self._known is None:
            return self._metrics_so_far()
        if self._is_run and self._known.tool_calls is None:
            counts = [turn.metrics.tool_calls or 0 for turn in self.turns()]
            self._known = self._known.model_copy(update={"tool_calls": sum(counts)})
        return self._known

    @property
    def messages(self) -> Messages:
        """The conversation, turn after turn: heads with `role`, `summary`, `ts` and `load()`."""
        return Messages(self._turn_places)

    @property
    def todos(self) -> list[TurnTodo]:
        """The agents' own lists as they stood at the end, turn after turn."""
        if self._is_run:
            return [todo for turn in self.turns() for todo in turn.todos]
        return list(self._turn_summary().todos) if self.complete else self._todos_so_far()

    @property
    def git(self) -> Git:
        """The repository before and after, and what changed between."""
        return Git(self._states, self.files)

    @property
    def files(self) -> Files:
        """A run's reviewed change; what the agent changed during a turn."""
        return Files(self._changed, self._file_stats)

    @property
    def tools(self) -> Tools:
        """The tool calls that hooks saw."""
        return Tools(self._calls)

    @property
    def timeline(self) -> Timeline:
        """The run's events, the SDK's and the hooks', merged by time."""
        return Timeline(self._place, self._is_run)

    @property
    def hook_capture_status(self) -> HookCaptureStatus:
        """Whether hooks saw every tool call start and end, and what is missing; of a run, over all its turns."""
        if self._is_run:
            return self._capture_of_turns()
        return self._turn_summary().hook_capture_status if self.complete else calls.capture_so_far(self._place)

    def turns(self) -> list[RunResult]:
        """The turns of a run in the order in which they started; of a turn itself, none."""
        if not self._is_run:
            return []
        return [RunResult(place, self._redact, self._clock) for place in self._turn_places()]

    def annotate(self, message: str, type: str = "notice", attachment: Attachment | None = None) -> None:
        """Append a remark to the run's `annotations.ndjson`. No seal covers it and none is broken by it.

        It is redacted first. UsageError: longer than 10,000 characters, or more than
        10,000,000 bytes attached.
        """
        remarks.annotate(self._place, self._redact, self._clock, (message, type), attachment)

    def annotations(self) -> list[Annotation]:
        """The remarks, oldest first; a run's include those on its turns."""
        return list(remarks.remarks_on(self._place))

    @property
    def _is_run(self) -> bool:
        return not self._place.inside and self._place.has(names.RUN)

    def _run_summary(self) -> Summary:
        bare = Place(self._place.root, "", None)  # nobody vouches for the summary itself
        return bare.document(names.SUMMARY, _parse_run)

    def _turn_summary(self) -> TurnSummary:
        return self._place.document(names.SUMMARY, _parse_turn)

    def _turn_places(self) -> list[Place]:
        if not self._is_run:
            return [self._place]
        place = turns_of(self._place)
        return [place(node_id, turn) for node_id, turn in _turns_started(self._place)]

    def _states(self) -> TurnGit:
        if not self.complete:
            return TurnGit()
        if not self._is_run:
            return self._turn_summary().git or TurnGit()
        change = self._run_summary().change
        after = GitState(head=change.head_commit or change.base_commit, dirty=not change.head_commit)
        return TurnGit(before=GitState(head=change.base_commit, dirty=False), after=after)

    def _changed(self) -> list[FileChange]:
        if not self.complete:
            return changed.of_unfinished(self._place)
        if self._is_run:
            return changed.of_run(self._place, self._run_summary().change.files)
        return changed.of_turn(self._place, self._turn_summary().files)

    def _file_stats(self) -> FileStats:
        if self.complete and not self._is_run:
            return self._turn_summary().file_stats
        kinds = [file.change_type for file in self._changed()]
        counted = {kind: kinds.count(kind) for kind in ("added", "deleted", "renamed")}
        return FileStats(**counted, modified=len(kinds) - sum(counted.values()), total=len(kinds))

    def _calls(self) -> list[CapturedCall]:
        if self._is_run:
            found = [call for turn in self.turns() for call in turn._calls()]
            return sorted(found, key=lambda call: call.started_at)
        missing = self._turn_summary().hook_capture_status.missing_events if self.complete else None
        return calls.calls_of(self._place, missing)

    def _capture_of_turns(self) -> HookCaptureStatus:
        found = [(turn._place.inside, turn.hook_capture_status) for turn in self.turns()]
        return HookCaptureStatus(
            complete=self.complete and all(status.complete for _, status in found),
            missing_events=tuple(f"{turn}: {event}" for turn, status in found for event in status.missing_events),
            warnings=tuple(f"{turn}: {warning}" for turn, status in found for warning in status.warnings),
        )

    def _metrics_so_far(self) -> TurnMetrics:
        if not self._is_run:
            tokens, usd = _usage(self._place)
            return TurnMetrics(total_tokens=tokens, total_cost_usd=usd, tool_calls=len(self._calls()))
        turns = [turn.metrics for turn in self.turns()]
        tokens_known = [turn.total_tokens for turn in turns if turn.total_tokens is not None]
        usd_known = [turn.total_cost_usd for turn in turns if turn.total_cost_usd is not None]
        return TurnMetrics(
            total_tokens=sum(tokens_known) if tokens_known else None,
            total_cost_usd=sum(usd_known) if usd_known else None,
            tool_calls=sum(turn.tool_calls or 0 for turn in turns),
            files_changed=len(self._changed()),
        )

    def _todos_so_far(self) -> list[TurnTodo]:
        todos: list[TurnTodo] = []
        for event in _events(self._place, "todo"):
            todos = todos_after(todos, event)
        return todos


def _state(place: Place) -> RunState:
    if place.has(names.SUMMARY):
        return "sealed"
    if Lock.is_held(open_folder(place.root)):
        return "running"
    return "sealed" if place.has(names.SUMMARY) else "incomplete"  # it may have been sealed between two looks


def _parse_run(data: bytes) -> Summary:
    document = json_object(data)
    document.pop("digests", None)
    document.pop("redacted", None)
    return tolerant_reading.read(Summary, document)


def _parse_turn(data: bytes) -> TurnSummary:
    return tolerant_reading.read(TurnSummary, json_object(data))


def _metrics_of_run(summary: Summary) -> TurnMetrics:
    """Without the tool calls: they are counted in the turns, when they are asked for."""
    return TurnMetrics(
        total_tokens=summary.cost.input_tokens + summary.cost.output_tokens,
        total_cost_usd=summary.cost.usd,
        duration_ms=summary.duration_ms,
        files_changed=len(summary.change.files),
    )


def _turns_started(run: Place) -> list[tuple[str, str]]:
    return [(str(event.get("node_id")), str(event["data"].get("turn"))) for event in _events(run, "turn.started")]


def _events(place: Place, type: str) -> Iterator[dict[str, Any]]:
    """Events of one type, `data` of a run's event being an object."""
    mark = json.dumps(type).encode()
    for _, line in place.lines(names.EVENTS):
        if mark in line:
            event = place.parsed(names.EVENTS, line, json_object)
            if event.get("type") == type and isinstance(event.get("data", {}), dict):
                yield {"data": {}} | event


_MOST_USD = 1e12
"""What is said to cost more was not counted by anybody, and may be no finite number."""


def _usage(turn: Place) -> tuple[int | None, float | None]:
    """Tokens and USD as the last usage event has them: each tells the whole session."""
    tokens, usd = None, None
    for event in _events(turn, "usage"):
        match event:
            case {"tokens": {"input": int(used), "output": int(made)}}:
                tokens = used + made
        cost = event.get("cost")
        usd = float(cost) if isinstance(cost, (int, float)) and 0 <= cost < _MOST_USD else usd
    return tokens, usd


def _without_secrets(text: str) -> str:
    return replaced(text, scan.find(text))


class KnownFormats:
    """Redacts secrets of known formats; who knows the environment's secrets hands in `secrets.redaction.Redactor`."""

    def text(self, text: str, /) -> str:
        """`text` without secrets."""
        return as_bytes_seen(text, _without_secrets)

    def data(self, data: bytes, /) -> bytes:
        """Bytes of any encoding without secrets."""
        return _without_secrets(data.decode("latin-1")).encode("latin-1")

    def value(self, value: Any, /) -> Any:  # noqa: ANN401 - any JSON
        """JSON without secrets."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.value(name): self.value(item) for name, item in value.items()}
        return [self.value(item) for item in value] if isinstance(value, (list, tuple)) else value


_NOW = partial(datetime.now, UTC)


def read_bundle(
    directory: Path | str, *, redact: Redactor | None = None, clock: Callable[[], datetime] = _NOW
) -> RunResult:
    """The run or the turn whose bundle is `directory`, from disk alone.

    `redact` and `clock` are for annotations: what is written passes through the one
    (secrets of known formats unless given) and is dated by the other.
    StorageError: there is no bundle. IntegrityError: its summary is not what was written.
    """
    return RunResult(locate(Path(directory)), redact or KnownFormats(), clock)
