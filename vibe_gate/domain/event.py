"""Events of a run: the only truth of its graph (`events.ndjson` of a bundle)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from vibe_gate.domain.model import Model

EventType = Literal[
    "run.created", "run.mode_changed", "run.completed", "node.added", "node.removed", "node.status", "edge.added",
    "turn.started", "turn.completed", "artifact.written", "log.mark", "verdict.decided", "budget.reached",
    "override.recorded",
]  # fmt: skip

NodeStatus = Literal["IDLE", "READY", "RUNNING", "BLOCKED", "DONE", "ERROR", "SKIPPED", "CANCELLED"]


class Event(Model):
    """One line of events.ndjson. `seq` counts from 1 without gaps; `ts` is ISO 8601 in UTC, with milliseconds."""

    seq: int
    ts: str
    type: EventType
    run_id: str
    node_id: str | None = None
    data: dict[str, Any] = Field(default_factory=dict)
