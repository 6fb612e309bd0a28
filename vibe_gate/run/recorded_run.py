"""What a run and its repeat are compared by, read from their bundles alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from vibe_gate.domain.document import read
from vibe_gate.domain.event import EndedStage, Event, Node, collect_ended_stages, fold_events
from vibe_gate.domain.leaving import may_leave
from vibe_gate.domain.replayed import RubricChoice, compare_with_replay
from vibe_gate.domain.run_comparison import (
    RecordedRun,
    RecordedStage,
    RunComparison,
    RunUse,
    compare_with_repeat,
)
from vibe_gate.domain.summary import Cost
from vibe_gate.run.stage_result import model_use_in
from vibe_gate.store.run_result import RunResult

_STAGE_KINDS = ("stage", "gate")
"""Of nodes; the others are a gate's checks and judges."""

_GRAPH_EVENTS = ("node.", "edge.", "turn.")
"""How the types of events begin that say which stages ran."""


async def compare_bundles(run: RunResult, repeat: RunResult) -> RunComparison:
    """A sealed run against its repeat. StorageError, IntegrityError: a bundle cannot be read."""
    row = compare_with_replay(run.summary, repeat.summary, RubricChoice(), ())
    return compare_with_repeat(await _recorded_run(run), await _recorded_run(repeat), row.changes)


class _RunLogs(Struct):
    """What of a run's logs is compared."""

    events: list[Event] = field(default_factory=list)
    """Those of its graph."""

    messages: dict[str, str] = field(default_factory=dict)
    """By the folder of a turn, what its agent said last."""


async def _recorded_run(result: RunResult) -> RecordedRun:
    summary = result.summary
    logs = await _read_logs(result)
    ended_stages = collect_ended_stages(logs.events, Cost()).stages
    stages = []
    for node in fold_events(logs.events).nodes:
        if node.kind in _STAGE_KINDS:
            stages.append(_recorded_stage(node, ended_stages.get(node.id), logs.messages))
    return RecordedRun(
        run_id=summary.run_id,
        bundle=summary.bundle,
        workflow=summary.workflow,
        outcome=summary.outcome,
        stages=tuple(stages),
        calls=Counter(call.name for call in result.tools.all()),
        patch=result.made_patch,
        use=await _use_in(result),
        is_private=not may_leave(result.run_document.get("shown")),
    )


async def _read_logs(result: RunResult) -> _RunLogs:
    logs = _RunLogs()
    async for event in result.timeline.events():
        if event.source == "run" and event.type.startswith(_GRAPH_EVENTS):
            logs.events.append(read(Event, event.load()))
        elif event.source == "sdk" and event.type == "result":
            logs.messages[event.turn] = _last_words(event.load())
    return logs


def _last_words(end: Mapping[str, Any]) -> str:
    """What the agent said last, or the answer with which it filled a schema."""
    answer = end.get("structured_output")
    if answer is not None:
        return json.dumps(answer, indent=1, sort_keys=True, ensure_ascii=False)
    return str(end.get("result") or "")


def _recorded_stage(
    node: Node, ended_stage: EndedStage | None, messages: Mapping[str, str]
) -> RecordedStage:
    """`ended_stage`: how the turn of its agent ended; None of rubrics, or without a turn."""
    question = tree = message = ""
    if ended_stage is not None:
        question = f"{ended_stage.digest} {ended_stage.prompt}"
        tree = ended_stage.before
        message = messages.get(ended_stage.turn, "")
    return RecordedStage(
        node=node.id,
        outcome=node.outcome or node.status.lower(),
        reason=node.reason,
        agent=node.agent,
        question=question,
        before=tree,
        message=message,
    )


async def _use_in(result: RunResult) -> RunUse:
    use = await model_use_in(result)
    summary = result.summary
    return RunUse(
        turns=len(result.turns()),
        answers=use.answers,
        tokens=use.tokens,
        usd=use.usd,
        is_recorded=bool(use.answers) and summary.cost.basis == "none",
        is_exact=use.is_exact,
        duration_ms=summary.duration_ms,
        models=use.models,
    )
