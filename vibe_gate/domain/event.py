"""Events of a run, and the graph that they fold into."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct, convert, to_builtins
from msgspec.structs import replace

from vibe_gate.domain.document import read_text_of
from vibe_gate.domain.summary import Cost

EventType = Literal[
    "run.created",
    "run.mode_changed",
    "run.completed",
    "node.added",
    "node.status",
    "edge.added",
    "turn.started",
    "turn.completed",
    "artifact.written",
    "log.mark",
    "gate.decided",
    "verdict.decided",
    "budget.reached",
    "override.recorded",
]

MAX_EVENTS = 500_000
"""Of one run's log. A review of 80,000 files leaves some 160,000:
two contents of each. What reads a log keeps the name of each content, so a longer one would take
what memory its writer likes.
"""

NodeStatus = Literal["IDLE", "READY", "RUNNING", "BLOCKED", "DONE", "ERROR", "SKIPPED", "CANCELLED"]

NODE_STATUSES: tuple[str, ...] = get_args(NodeStatus)

_WITHOUT_WORK = frozenset({"IDLE", "READY", "BLOCKED", "SKIPPED", "CANCELLED"})
"""Of a node without turns. READY: it is planned, or waits for its workspace; BLOCKED: it waits for a
person.
"""

_NEEDS: dict[str, tuple[str, ...]] = {
    "node.added": ("kind",),
    "node.status": ("status",),
    "edge.added": ("from", "to"),
    "turn.started": ("turn",),
    "turn.completed": ("turn",),
}
"""Texts that `data` must carry, by type: what the fold into a graph reads."""


_OF_A_NODE = frozenset({"node.added", "node.status", "turn.started", "turn.completed"})


_MANY = 1 << 53  # counts of files and lines are below it, so that every reader of JSON knows them


class Event(Struct, frozen=True, kw_only=True):
    """One line of events.ndjson. `seq` counts from 1 without gaps; `ts` is ISO 8601 in UTC, with
    milliseconds.

    `type` is an EventType, or one of a later version.
    """

    seq: Annotated[int, Meta(ge=1)]
    ts: str
    type: Annotated[str, Meta(pattern=r"^[a-z]+(\.[a-z_]+)+(?!\n)$", max_length=64)]
    run_id: str
    node_id: str | None = None
    data: dict[str, Any] = {}

    def __post_init__(self) -> None:
        """Require what its type needs, and no half of a surrogate pair outside of the data.
        ValueError.
        """
        try:
            "".join((self.ts, self.run_id, self.node_id or "")).encode()
        except UnicodeEncodeError:  # msgspec would hand on Python's words
            raise ValueError("it has half a surrogate pair") from None
        missing = [
            name for name in _NEEDS.get(self.type, ()) if not isinstance(self.data.get(name), str)
        ]
        if missing:
            raise ValueError(f"{self.type} needs the text {' and '.join(missing)} in its data")
        if self.type == "node.status" and self.data["status"] not in NODE_STATUSES:
            raise ValueError(f"{self.data['status']!r} is no status of a node")
        if self.type in _OF_A_NODE and self.node_id is None:
            raise ValueError(f"{self.type} needs a node_id")
        if self.type in ("node.added", "node.status"):
            _ = self.config
        if self.type == "verdict.decided":
            _ = self.verdict

    @property
    def config(self) -> NodeConfig | None:
        """Of node.added, and of node.status when a stage begins. ValueError: it is not a
        configuration.
        """
        config = self.data.get("config")
        return None if config is None else convert(config, NodeConfig)

    @property
    def verdict(self) -> DecidedVerdict | None:
        """Of verdict.decided; None of one that does not say what its rubrics came to. ValueError: it
        is none.
        """
        if "rubrics" not in self.data:
            return None
        return convert(self.data, DecidedVerdict)

    @property
    def output(self) -> NodeOutput | None:
        """Of turn.completed; None of one that does not say it. Numbers that are none are not
        known.
        """
        if not isinstance(self.data.get("message"), str):
            return None
        counts = {}
        for name in ("files", "added", "deleted"):
            count = self.data.get(name)
            if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < _MANY:
                counts[name] = count
        return NodeOutput(
            turn=self.data["turn"],
            status=read_text_of(self.data, "status"),
            message=read_text_of(self.data, "message")[:MAX_LAST_MESSAGE],
            **counts,
        )


class NodeConfig(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """With what a node is carried out."""

    model: str = ""
    """The first that is asked."""

    tools: tuple[str, ...] = ()

    disallowed_tools: tuple[str, ...] = ()

    mcp_servers: tuple[str, ...] = ()
    """Their names."""

    isolation: str = ""
    """none, clone or sandbox."""

    max_turns: int | None = None
    """Requests to the model in one turn."""

    max_cost_usd: float | None = None

    timeout_s: float | None = None

    rubrics: tuple[str, ...] = ()
    """Of a gate and of a judge: ids."""

    criteria: tuple[str, ...] = ()
    """Of checks and of a judge: `RUBRIC/CRITERION`."""


MAX_LAST_MESSAGE = 2_000
"""Characters of an agent's last words in the run's events and graph; its turn has them whole."""


class NodeOutput(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the last turn of a node ended."""

    turn: str
    """Its name: turn-001."""

    status: str = ""

    message: str = ""
    """The beginning of the agent's last message, or of its answer as JSON; "" of a judge, whose
    answers are the votes.
    """

    files: int | None = None
    """How many it changed; None of a turn without a workspace."""

    added: int | None = None
    """Lines, as `files`."""

    deleted: int | None = None
    """Lines, as `files`."""


MAX_PARTS = 20_000
"""Nodes and edges that are added, turns that begin and end: a hundred judges of a hundred turns
each. A node takes some 2 KB of memory and two bytes of an archive, so a log without this limit
takes what memory its writer likes.
"""


class Node(Struct, frozen=True):
    """One node: a set of checks, a gate, a stage or a judge's conversation."""

    id: str

    kind: str

    status: NodeStatus | Literal["incomplete"] = "IDLE"

    reason: str = ""

    turns: tuple[str, ...] = ()

    agent: str = ""

    digest: str = ""
    """That of its agent or rubric; "" if it is not known."""

    outcome: str = ""
    """How a stage came out; "" if it is not known."""

    after: str = ""
    """The tree that its last turn left; "" if it is not known."""

    usd: float | None = None
    """What its turns cost; None if it is not known."""

    stage: str = ""
    """The stage, as its workflow calls it; "" of checks and judges, and in a review."""

    gate: str = ""
    """Of checks and judges in a workflow: the node of their stage."""

    config: NodeConfig | None = None
    """With what it is carried out; None if nothing is known of it."""

    last: NodeOutput | None = None
    """How its last turn ended; None before that."""

    @property
    def has_begun(self) -> bool:
        """Whether it has been at work, whatever became of that."""
        return bool(self.turns) or self.status not in _WITHOUT_WORK


_ALWAYS = frozenset({"id", "kind", "status", "reason", "turns"})
"""Of a node in graph.json; the rest is there if it is known."""


class DecidedVerdict(Struct, frozen=True, kw_only=True):
    """What a run came to; a workflow's stages have outcomes of their own besides."""

    outcome: str

    exit_code: int

    rubrics: Mapping[str, str] = {}
    """By the rubric's id its outcome."""


class Graph(Struct, frozen=True):
    """Nodes and edges in the order in which they were added."""

    run_id: str = ""
    nodes: tuple[Node, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()
    verdict: DecidedVerdict | None = None
    """None until it is decided."""

    def to_json(self) -> str:
        """The bytes of graph.json: ASCII, indented, with a final newline; equal graphs give equal
        text.
        """
        document = {"schema": 1, "run_id": self.run_id}
        document["nodes"] = [_node_document(node) for node in self.nodes]
        document["edges"] = self.edges
        if self.verdict is not None:
            document["verdict"] = to_builtins(self.verdict)
        return json.dumps(document, indent=2) + "\n"

    def broken_off(self) -> Graph:
        """The graph of a run whose process has ended without a seal: what was running then is
        "incomplete".
        """
        nodes = []
        for node in self.nodes:
            if node.status == "RUNNING":
                nodes.append(replace(node, status="incomplete"))
            else:
                nodes.append(node)
        return replace(self, nodes=tuple(nodes))


def _node_document(node: Node) -> dict[str, Any]:
    """A node as graph.json has it."""
    document = {}
    for name, value in to_builtins(node).items():
        if name in _ALWAYS or value not in ("", None):
            document[name] = value
    return document


_COUNTED = frozenset({"node.added", "edge.added", "turn.started", "turn.completed"})


def fold_events(events: Iterable[Event]) -> Graph:
    """The graph after all `events`. An event about a node that is not there, or of a later version,
    changes nothing.

    ValueError: they add more than MAX_PARTS.
    """
    run_id = ""
    growing_nodes: dict[str, _GrowingNode] = {}
    edges: dict[tuple[str, str], None] = {}
    planned_edges: dict[str, list[str]] = {}
    parts = 0
    verdict: DecidedVerdict | None = None
    for event in events:
        run_id = event.run_id
        if event.type in _COUNTED:
            parts += 1
        if parts > MAX_PARTS:
            raise ValueError(f"its graph has more than {MAX_PARTS:,} parts")
        if event.type == "edge.added":
            edge = (str(event.data["from"]), str(event.data["to"]))
            edges[edge] = None
        elif event.type == "verdict.decided":
            verdict = event.verdict
        elif event.node_id is None:
            continue
        elif event.type == "node.added":
            growing_nodes[event.node_id] = _GrowingNode(event)
            planned_edges[event.node_id] = _needs_of(event.data)
            parts += len(planned_edges[event.node_id])
        elif event.node_id in growing_nodes:
            growing_nodes[event.node_id].add(event)
    nodes = tuple(growing_node.node() for growing_node in growing_nodes.values())
    all_edges = _with_planned_edges(edges, planned_edges)
    known_edges = tuple(edge for edge in all_edges if growing_nodes.keys() >= set(edge))
    return Graph(run_id, nodes, known_edges, verdict)


def _with_planned_edges(
    edges: Mapping[tuple[str, str], None], needs_by_node: Mapping[str, list[str]]
) -> list[tuple[str, str]]:
    """The edges, and those that nodes wait for to which no edge was added."""
    begun_nodes = {target for _, target in edges}
    all_edges = dict(edges)
    for node_id, needs in needs_by_node.items():
        if node_id not in begun_nodes:
            all_edges |= dict.fromkeys((need, node_id) for need in needs)
    return list(all_edges)


def _needs_of(fields: Mapping[str, Any]) -> list[str]:
    """The nodes that a planned stage waits for; when it begins, its edges say what it comes
    after.
    """
    needs = fields.get("needs")
    if not isinstance(needs, list):
        return []
    return [need for need in needs if isinstance(need, str)]


_TOO_MUCH_USD = 1e12  # no turn's cost, and sums of it stay numbers


class _GrowingNode:
    """A node while its events come."""

    def __init__(self, event: Event) -> None:
        self._fields: dict[str, Any] = {
            "id": event.node_id,
            "kind": event.data["kind"],
            "agent": read_text_of(event.data, "agent"),
            "digest": read_text_of(event.data, "digest"),
            "stage": read_text_of(event.data, "stage"),
            "gate": read_text_of(event.data, "gate"),
            "config": event.config,
        }
        self._turns: dict[str, None] = {}

    def add(self, event: Event) -> None:
        if event.type == "node.status":
            self._add_status(event.data)
            self._fields["config"] = event.config or self._fields["config"]
        elif event.type == "turn.started":
            self._turns[event.data["turn"]] = None
        elif event.type == "turn.completed":
            self._fields["last"] = event.output or self._fields.get("last")
            self._add_end_of_turn(event.data)

    def _add_status(self, fields: Mapping[str, Any]) -> None:
        self._fields["status"] = fields["status"]
        self._fields["reason"] = str(fields.get("reason", ""))
        self._set_text("outcome", fields)
        self._set_text("after", fields)

    def _add_end_of_turn(self, fields: Mapping[str, Any]) -> None:
        self._set_text("after", fields)
        usd = fields.get("usd")
        if isinstance(usd, (int, float)) and 0 <= usd < _TOO_MUCH_USD:
            self._fields["usd"] = self._fields.get("usd", 0.0) + usd

    def _set_text(self, name: str, fields: Mapping[str, Any]) -> None:
        """Take over a field of an event, if it has it."""
        text = read_text_of(fields, name)
        if text:
            self._fields[name] = text

    def node(self) -> Node:
        return Node(**self._fields, turns=tuple(self._turns))


class EndedStage(Struct, frozen=True):
    """An agent's stage whose turn had ended when its run died: what it was asked, and how that turn
    ended.
    """

    digest: str
    """Of its agent's definition."""

    prompt: str
    """The digest of its prompt."""

    before: str
    """A tree."""

    after: str
    """A tree."""

    status: str

    session_id: str

    turn: str
    """Its folder."""

    reason: str = ""


class Earlier(Struct, frozen=True):
    """What a run that is resumed had come to: its ended stages by node, the cost of its turns."""

    stages: Mapping[str, EndedStage] = MappingProxyType({})
    cost: Cost = Cost()


def collect_ended_stages(events: Iterable[Event], cost: Cost) -> Earlier:
    """What the events of a run say that a walk needs which goes on with it."""
    stages: dict[str, EndedStage] = {}
    prompts: dict[str, Mapping[str, Any]] = {}
    digests: dict[str, str] = {}
    for event in events:
        node = event.node_id or ""
        if event.type == "node.added":
            digests[node] = read_text_of(event.data, "digest")
        elif event.type == "node.status":
            if read_text_of(event.data, "prompt"):
                prompts[node] = event.data
            elif node in stages and not stages[node].reason:
                stages[node] = replace(stages[node], reason=read_text_of(event.data, "reason"))
        elif (
            event.type == "turn.completed"
            and node in prompts
            and event.data.get("status") != "interrupted"
        ):
            stages[node] = _ended_stage(node, digests.get(node, ""), prompts[node], event.data)
    return Earlier(stages, cost)


def _ended_stage(
    node: str, digest: str, prompt: Mapping[str, Any], end: Mapping[str, Any]
) -> EndedStage:
    """The stage of a node, by what the events say that begin and end its turn.

    `digest`: that of its agent.
    """
    before = read_text_of(prompt, "before")
    return EndedStage(
        digest=digest,
        prompt=read_text_of(prompt, "prompt"),
        before=before,
        after=read_text_of(end, "after") or before,
        status=read_text_of(end, "status"),
        session_id=read_text_of(end, "session_id"),
        turn=f"nodes/{node}/{read_text_of(end, 'turn')}",
    )
