"""Events of a run, and the graph that they fold into."""

from __future__ import annotations

import json
from collections.abc import Iterable
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


MAX_PARTS = 20_000
"""Nodes and edges that are added, turns that begin and end: a hundred judges of a hundred turns each. A node takes some
2 KB of memory and two bytes of an archive, so a log without this limit takes what memory its writer likes."""


class Node(Model):
    """One node: a set of checks, a stage or a judge's conversation."""

    id: str
    kind: str
    status: NodeStatus = "IDLE"
    reason: str = ""
    turns: tuple[str, ...] = ()


class Graph(Model):
    """Nodes and edges in the order in which they were added."""

    schema_: int = Field(default=1, alias="schema")
    run_id: str = ""
    nodes: tuple[Node, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> str:
        """The bytes of graph.json: ASCII, indented, with a final newline; equal graphs give equal text."""
        return json.dumps(self.model_dump(mode="json", by_alias=True), indent=2) + "\n"


_COUNTED = frozenset({"node.added", "edge.added", "turn.started", "turn.completed"})


def fold(events: Iterable[Event]) -> Graph:
    """The graph after all `events`. An event about a node that is not there changes nothing.

    ValueError: they add more than MAX_PARTS.
    """
    run_id = ""
    nodes: dict[str, Node] = {}
    edges: dict[tuple[str, str], None] = {}
    parts = 0
    for event in events:
        run_id = event.run_id
        parts += event.type in _COUNTED
        if parts > MAX_PARTS:
            raise ValueError(f"its graph has more than {MAX_PARTS:,} parts")
        if event.type == "edge.added":
            edges[(str(event.data["from"]), str(event.data["to"]))] = None
        elif event.node_id is None:
            continue
        elif event.type == "node.added":
            nodes[event.node_id] = Node(id=event.node_id, kind=str(event.data["kind"]))
        elif event.type == "node.removed":
            nodes.pop(event.node_id, None)
        elif event.node_id in nodes:
            nodes[event.node_id] = _step(nodes[event.node_id], event)
    kept = tuple(edge for edge in edges if edge[0] in nodes and edge[1] in nodes)
    return Graph(run_id=run_id, nodes=tuple(nodes.values()), edges=kept)


def _step(node: Node, event: Event) -> Node:
    if event.type == "node.status":
        return node.model_copy(update={"status": event.data["status"], "reason": str(event.data.get("reason", ""))})
    if event.type == "turn.started" and event.data["turn"] not in node.turns:
        return node.model_copy(update={"turns": (*node.turns, str(event.data["turn"]))})
    return node
