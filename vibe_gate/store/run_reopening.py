"""A run whose writer died, opened again: torn lines cut, cut turns sealed as what they are,
counting goes on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from vibe_gate.domain.document import parse_object
from vibe_gate.domain.event import Event, collect_ended_stages
from vibe_gate.domain.summary import Cost, CostBasis
from vibe_gate.domain.turn import is_usage_total
from vibe_gate.domain.wire import ModelCost, SessionCost, TurnResult
from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.store import bundle_names
from vibe_gate.store.bundle_location import parse_events
from vibe_gate.store.contents import CountingRedactor, find_content_fault
from vibe_gate.store.folder import Folder
from vibe_gate.store.ndjson_log import Lock, read_lines
from vibe_gate.store.recording_status import RecordingStatus
from vibe_gate.store.run_recorder import RunParts, RunRecorder

INTERRUPTION = "the process that ran it ended"
"""Why a turn ended that was cut off."""


def reopen_run(
    root: Path,
    store: Folder,
    key: str,
    run_id: str,
    redact: CountingRedactor,
    clock: Callable[[], datetime],
    spent_usd: float,
) -> RunRecorder:
    """See Store.reopen."""
    bundle_names.require_folder_name(key, "the key of a change")
    bundle_names.require_folder_name(run_id, "a run id")
    try:
        folder = store.below(f"{key}/{run_id}")
        lock = Lock(folder)
    except BlockingIOError:
        raise StorageError(
            f"Run {run_id} is being written by another process; wait for its end."
        ) from None
    except OSError as error:
        raise StorageError(f"Run {run_id} cannot be opened: {error.strerror}.") from error
    try:
        if folder.has(bundle_names.SUMMARY):
            raise UsageError(f"Run {run_id} has ended; there is nothing to resume.")
        parts = RunParts(folder, redact.part(), clock, lock)
        return _continue_run(parts, root, key, run_id, spent_usd)
    except BaseException as error:
        lock.release()
        if isinstance(error, OSError):
            raise StorageError(f"Run {run_id} cannot be written: {error.strerror}.") from error
        raise


def _continue_run(
    parts: RunParts, root: Path, key: str, run_id: str, spent_usd: float
) -> RunRecorder:
    """Remove what is torn, seal the turns that were cut off, and count on."""
    parts.log.cut_torn_line()
    events = _read_events(parts.folder, run_id)
    _remove_torn_files(parts.folder, events)
    run = RunRecorder(root, key, run_id, parts, RecordingStatus())
    run.event("log.mark", mark="resumed")
    turns = list(_read_turns(parts.folder, events, run))
    _seal_cut_turns(run, turns, spent_usd)
    nodes = [event.node_id or "" for event in events if event.type == "node.added"]
    turn_counts: Counter[str] = Counter()
    for turn in turns:
        turn_counts[turn.node_id] = max(turn_counts[turn.node_id], turn.number)
    all_events = _read_events(parts.folder, run_id)
    run.go_on(collect_ended_stages(all_events, _cost_of(turns)), nodes, turn_counts)
    if run.lost:
        raise StorageError(run.lost)
    return run


def _remove_torn_files(folder: Folder, events: Iterable[Event]) -> None:
    """Remove temporary files, and contents that no event names and that are not whole. OSError."""
    named_files = {event.data.get("artifact") for event in events}
    for entry in bundle_names.walk_bundle(folder):
        is_unnamed_content = entry.part == "content" and entry.name not in named_files
        if entry.is_temporary or (is_unnamed_content and _is_torn(entry)):
            entry.folder.remove(entry.base)


def _is_torn(content: bundle_names.Entry) -> bool:
    """Whether a killed writer left it; what a finished turn names was whole before its summary."""
    return bool(find_content_fault(content.folder, content.base))


def _read_events(folder: Folder, run_id: str) -> list[Event]:
    try:
        return list(parse_events(read_lines(folder, bundle_names.EVENTS)))
    except ValueError as error:
        raise IntegrityError(
            f"Run {run_id} cannot be resumed: {bundle_names.EVENTS} is corrupt: {error}."
        ) from error


class _TurnLogs(Struct, frozen=True):
    """What the logs of a turn say, and the tokens that they count, an estimate of a cut turn."""

    session_id: str
    basis: str
    """The basis of its costs, "none" without any."""
    tokens_by_model: dict[str, tuple[int, int]]
    """Tokens of input and of output."""
    hooks: list[dict[str, Any]]
    events: list[dict[str, Any]]


class _RecordedTurn(Struct):
    """A turn as its folder has it."""

    node_id: str
    number: int
    is_completed: bool
    usd: float
    """Of a turn that was cut off, its share of what the run cost besides the completed ones."""
    logs: _TurnLogs

    @property
    def first_model(self) -> str:
        """The model of its first answer, "" without any."""
        return next(iter(self.logs.tokens_by_model), "")


def _read_turns(folder: Folder, events: list[Event], run: RunRecorder) -> Iterator[_RecordedTurn]:
    """Every turn that has a folder; one that was not said to have begun is said so now."""
    begun_turns = set()
    completions: dict[tuple[str | None, str], Mapping[str, Any]] = {}
    for event in events:
        if event.type == "turn.started":
            begun_turns.add((event.node_id, event.data["turn"]))
        elif event.type == "turn.completed":
            completions[event.node_id, event.data["turn"]] = event.data
    for node_id, name in _list_turns(folder):
        if (node_id, name) not in begun_turns:
            run.event("turn.started", node_id, turn=name)
        completion = completions.get((node_id, name), {})
        usd = completion.get("usd")
        yield _RecordedTurn(
            node_id=node_id,
            number=int(name.removeprefix("turn-")),
            is_completed=bool(completion),
            usd=float(usd) if isinstance(usd, (int, float)) else 0.0,
            logs=_read_logs(folder.below(f"nodes/{node_id}/{name}")),
        )


def _list_turns(folder: Folder) -> Iterator[tuple[str, str]]:
    """The node ids and names of all turns that have a folder."""
    if not folder.has("nodes"):
        return
    for node_id in folder.folder("nodes").folders():
        for name in folder.below(f"nodes/{node_id}").folders():
            if bundle_names.is_turn(f"nodes/{node_id}/{name}"):
                yield node_id, name


def _read_logs(folder: Folder) -> _TurnLogs:
    """What the turn's logs say; lines that are none are passed over."""
    events = _read_objects(folder, bundle_names.EVENTS)
    hooks = _read_objects(folder, bundle_names.HOOKS)
    session_ids = (str(hook["session_id"]) for hook in hooks if hook.get("session_id"))
    basis = "none"
    tokens_by_model: dict[str, tuple[int, int]] = {}
    for event in events:
        tokens = event.get("tokens")
        if event.get("type") != "usage" or not isinstance(tokens, dict):
            continue
        if is_usage_total(event):
            basis = str(event["basis"])
            continue
        model = str(event.get("model") or "")
        input_tokens, output_tokens = tokens_by_model.get(model, (0, 0))
        input_tokens += _token_count(tokens.get("input"))
        output_tokens += _token_count(tokens.get("output"))
        tokens_by_model[model] = input_tokens, output_tokens
    return _TurnLogs(next(session_ids, ""), basis, tokens_by_model, hooks, events)


def _token_count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _read_objects(folder: Folder, name: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    if not folder.has(name):
        return records
    for line in read_lines(folder, name):
        with suppress(ValueError):
            records.append(parse_object(line))
    return records


def _seal_cut_turns(run: RunRecorder, turns: list[_RecordedTurn], spent_usd: float) -> None:
    """Seal the turns that were cut off as that; they cost what the others do not account for."""
    cut_turns = [turn for turn in turns if not turn.is_completed]
    completed_usd = sum(turn.usd for turn in turns if turn.is_completed)
    unaccounted_usd = max(0.0, spent_usd - completed_usd)
    for turn in cut_turns:
        turn.usd = unaccounted_usd / len(cut_turns)
        _seal_cut_turn(run, turn)


def _seal_cut_turn(run: RunRecorder, turn: _RecordedTurn) -> None:
    recorder = run.begun_turn(turn.node_id, turn.number)
    if recorder is None:
        return
    input_tokens, output_tokens = _sum_tokens([turn])
    cost_by_model = {turn.first_model: ModelCost(turn.usd, "known")}
    result = TurnResult(
        "interrupted",
        None,
        INTERRUPTION,
        cost=SessionCost(input_tokens, output_tokens, cost_by_model),
        session_id=turn.logs.session_id,
    )
    recorder.restore(turn.logs.events, turn.logs.hooks)
    recorder.seal(result)


def _sum_tokens(turns: list[_RecordedTurn]) -> tuple[int, int]:
    """Tokens of input and of output."""
    input_sum = output_sum = 0
    for turn in turns:
        for input_tokens, output_tokens in turn.logs.tokens_by_model.values():
            input_sum += input_tokens
            output_sum += output_tokens
    return input_sum, output_sum


def _cost_of(turns: list[_RecordedTurn]) -> Cost:
    """What the turns cost together."""
    usd_sum = 0.0
    usd_by_node: dict[str, float] = defaultdict(float)
    usd_by_model: dict[str, float] = defaultdict(float)
    bases = set()
    for turn in turns:
        usd_sum += turn.usd
        usd_by_node[turn.node_id] += turn.usd
        usd_by_model[turn.first_model] += turn.usd
        if turn.usd:
            bases.add(turn.logs.basis)
    input_tokens, output_tokens = _sum_tokens(turns)
    return Cost(
        usd=round(usd_sum, 6),
        basis=_common_basis(bases),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        by_node={node: usd for node, usd in usd_by_node.items() if usd},
        by_model={model: usd for model, usd in usd_by_model.items() if usd},
    )


def _common_basis(bases: set[str]) -> CostBasis:
    if "unknown" in bases:
        return "unknown"
    if bases:
        return "known"
    return "none"
