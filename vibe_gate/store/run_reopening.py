"""A run whose writer died, opened again: torn lines cut, cut turns sealed as what they are,
counting goes on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from vibe_gate.domain.document import parse_object
from vibe_gate.domain.event import Event, earlier
from vibe_gate.domain.summary import Cost
from vibe_gate.domain.wire import ModelCost, SessionCost, TurnResult
from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.store import bundle_names
from vibe_gate.store.bundle_location import parse_events
from vibe_gate.store.contents import CountingRedactor, find_content_fault
from vibe_gate.store.folder import Folder
from vibe_gate.store.ndjson_log import Lock, read_lines
from vibe_gate.store.recording_status import RecordingStatus
from vibe_gate.store.run_recorder import RunParts, RunRecorder

CUT = "the process that ran it ended"


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
    (
        bundle_names.require_folder_name(key, "the key of a change"),
        bundle_names.require_folder_name(run_id, "a run id"),
    )
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
        return _gone_on(RunParts(folder, redact.part(), clock, lock), root, key, run_id, spent_usd)
    except BaseException as error:
        lock.release()
        if isinstance(error, OSError):
            raise StorageError(f"Run {run_id} cannot be written: {error.strerror}.") from error
        raise


def _gone_on(parts: RunParts, root: Path, key: str, run_id: str, spent_usd: float) -> RunRecorder:
    parts.log.cut()
    events = _events(parts.folder, run_id)
    kept = {event.data.get("artifact") for event in events}
    for entry in bundle_names.walk_bundle(parts.folder):
        if entry.is_temporary or (
            entry.part == "content" and entry.name not in kept and _is_torn(parts.folder, entry)
        ):
            entry.folder.remove(entry.base)
    added = {event.node_id or "": None for event in events if event.type == "node.added"}
    run = RunRecorder(root, key, run_id, parts, RecordingStatus())
    run.event("log.mark", mark="resumed")
    turns = list(_turns(parts.folder, events, run))
    cut = [turn for turn in turns if not turn.completed]
    left = max(0.0, spent_usd - sum(turn.usd for turn in turns if turn.completed))
    for turn in cut:
        turn.usd = left / len(cut)
        _sealed(run, turn)
    most: Counter[str] = Counter()
    for turn in turns:
        most[turn.node_id] = max(most[turn.node_id], turn.number)
    run.go_on(earlier(_events(parts.folder, run_id), _cost(turns)), added, most)
    if run.lost:
        raise StorageError(run.lost)
    return run


def _is_torn(folder: Folder, entry: bundle_names.Entry) -> bool:
    """Whether a killed writer left this content; what a finished turn names is not its."""
    turn = entry.name.partition("/files/")[0]
    is_done = bundle_names.is_turn(turn) and folder.below(turn).has(bundle_names.SUMMARY)
    return not is_done and bool(find_content_fault(entry.folder, entry.base))


def _events(folder: Folder, run_id: str) -> list[Event]:
    try:
        return list(parse_events(read_lines(folder, bundle_names.EVENTS)))
    except ValueError as error:
        raise IntegrityError(
            f"Run {run_id} cannot be resumed: {bundle_names.EVENTS} is corrupt: {error}."
        ) from error


class _RecordedTurn(Struct):
    """A turn as its folder has it; `by_model` are tokens of input and output."""

    node_id: str
    number: int
    completed: bool
    usd: float = 0.0
    basis: str = "none"
    session_id: str = ""
    hooks: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    by_model: dict[str, tuple[int, int]] = {}


def _turns(folder: Folder, events: list[Event], run: RunRecorder) -> Iterator[_RecordedTurn]:
    """Every turn that has a folder; one that was not said to have begun is said so now."""
    begun = {
        (event.node_id, event.data["turn"]) for event in events if event.type == "turn.started"
    }
    ended = {
        (event.node_id, event.data["turn"]): event.data
        for event in events
        if event.type == "turn.completed"
    }
    for node_id in folder.folder("nodes").folders() if folder.has("nodes") else ():
        for name in folder.below(f"nodes/{node_id}").folders():
            if not bundle_names.is_turn(f"nodes/{node_id}/{name}"):
                continue
            if (node_id, name) not in begun:
                run.event("turn.started", node_id, turn=name)
            data: Mapping[str, Any] = ended.get((node_id, name), {})
            turn = _RecordedTurn(node_id, int(name.removeprefix("turn-")), bool(data))
            _read(folder.below(f"nodes/{node_id}/{name}"), turn)
            usd = data.get("usd")
            turn.usd = float(usd) if isinstance(usd, (int, float)) else 0.0
            yield turn


def _read(folder: Folder, turn: _RecordedTurn) -> None:
    """What the turn's logs say; lines that are none are passed over, as the tokens of a cut turn
    are an estimate.
    """
    turn.events, turn.hooks = (
        _objects(folder, name) for name in (bundle_names.EVENTS, bundle_names.HOOKS)
    )
    turn.session_id = next(
        (str(hook["session_id"]) for hook in turn.hooks if hook.get("session_id")), ""
    )
    for event in turn.events:
        tokens = event.get("tokens")
        if event.get("type") != "usage" or not isinstance(tokens, dict):
            continue
        turn.basis = str(event.get("basis", turn.basis))
        if "basis" not in event:  # of one answer; the total of a turn names no model
            model = str(event.get("model") or "")
            before = turn.by_model.get(model, (0, 0))
            used, made = (
                value if isinstance(value := tokens.get(name), int) else 0
                for name in ("input", "output")
            )
            turn.by_model[model] = (before[0] + used, before[1] + made)


def _objects(folder: Folder, name: str) -> list[dict[str, Any]]:
    found = []
    if folder.has(name):
        for line in read_lines(folder, name):
            try:
                found.append(parse_object(line))
            except ValueError:
                continue
    return found


def _sealed(run: RunRecorder, turn: _RecordedTurn) -> None:
    record = run.begun_turn(turn.node_id, turn.number)
    if record is None:
        return
    used, made = _tokens([turn])
    cost = SessionCost(used, made, {next(iter(turn.by_model), ""): ModelCost(turn.usd, "known")})
    record.restore(turn.events, turn.hooks)
    record.seal(TurnResult("interrupted", None, CUT, cost=cost, session_id=turn.session_id))


def _tokens(turns: list[_RecordedTurn]) -> tuple[int, int]:
    """Of input and of output."""
    pairs = [pair for turn in turns for pair in turn.by_model.values()]
    return sum(used for used, _ in pairs), sum(made for _, made in pairs)


def _cost(turns: list[_RecordedTurn]) -> Cost:
    by_node: dict[str, float] = defaultdict(float)
    by_model: dict[str, float] = defaultdict(float)
    for turn in turns:
        by_node[turn.node_id] += turn.usd
        by_model[next(iter(turn.by_model), "")] += turn.usd
    used, made = _tokens(turns)
    bases = {turn.basis for turn in turns if turn.usd}
    return Cost(
        usd=round(sum((turn.usd for turn in turns), 0.0), 6),
        basis="unknown" if "unknown" in bases else "known" if bases else "none",
        input_tokens=used,
        output_tokens=made,
        by_node={name: usd for name, usd in by_node.items() if usd},
        by_model={name: usd for name, usd in by_model.items() if usd},
    )
