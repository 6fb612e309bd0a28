"""Events of a run: the only truth of its graph (`events.ndjson` of a bundle)."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import Field, model_validator

from vibe_gate.domain.model import Model

EventType = Literal[
    "run.created", "run.mode_changed", "run.completed", "node.added", "node.removed", "node.status", "edge.added",
    "turn.started", "turn.completed", "artifact.written", "log.mark", "verdict.decided", "budget.reached",
    "override.recorded",
]  # fmt: skip

MAX_EVENTS = 500_000
"""Of one run's log. A review of 80,000 files, the largest that can be sealed, leaves some 160,000: two contents of
each. What reads a log keeps the name of each content, so a longer one would take what memory its writer likes."""

NodeStatus = Literal["IDLE", "READY", "RUNNING", "BLOCKED", "DONE", "ERROR", "SKIPPED", "CANCELLED"]

NODE_STATUSES: tuple[str, ...] = get_args(NodeStatus)

_NEEDS: dict[str, tuple[str, ...]] = {
    "node.added": ("kind",),
    "node.status": ("status",),
    "edge.added": ("from", "to"),
    "turn.started": ("turn",),
    "turn.completed": ("turn",),
}
"""Texts that `data` must carry, by type: what the fold into a graph reads."""


class Event(Model):
    """One line of events.ndjson. `seq` counts from 1 without gaps; `ts` is ISO 8601 in UTC, with milliseconds."""

    seq: int = Field(ge=1)
    ts: str
    type: EventType
    run_id: str
    node_id: str | None = None
    data: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _says_what_its_type_means(self) -> Event:
        missing = [name for name in _NEEDS.get(self.type, ()) if not isinstance(self.data.get(name), str)]
        if missing:
            raise ValueError(f"{self.type} needs the text {' and '.join(missing)} in its data")
        if self.type == "node.status" and self.data["status"] not in NODE_STATUSES:
            raise ValueError(f"{self.data['status']!r} is no status of a node")
        if self.type.startswith(("node.", "turn.")) and self.node_id is None:
            raise ValueError(f"{self.type} needs a node_id")
        return self
