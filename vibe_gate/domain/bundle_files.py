"""What the files of a bundle hold that are written a member or a line at a time, by the names of
their members: JSON Schemas are made of these types, and bundles are held to them by the tests.

Fields may be added under the same `schema`, so a reader ignores what it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

from vibe_gate.domain.document import Count, Named, Usd
from vibe_gate.domain.event import EventType, Graph, NodeConfig, NodeStatus
from vibe_gate.domain.gate import Budget
from vibe_gate.domain.summary import CostBasis, Summary

Sha256 = str
"""In hex."""


class RunDocument(Struct, frozen=True, kw_only=True):
    """run.json: what a run is about, as it was when it began."""

    schema: Literal[1] = 1
    run_id: str
    key: str
    """The folder of the change: a commit, `tree-<tree>` or `replay-<run id>`."""
    created_at: str
    """ISO 8601 in UTC."""
    workflow: str | UnsetType = UNSET
    mode: str | UnsetType = UNSET
    """auto or interactive."""
    prompt: str | UnsetType = UNSET
    isolation: str | UnsetType = UNSET
    """The weakest of the run's agents: none, clone or sandbox."""
    budgets: Budget | UnsetType = UNSET
    change: Mapping[str, str] | UnsetType = UNSET
    """The ids of the change, and its `kind`: worktree, range, staged or commit."""
    trusted: Mapping[str, str] | UnsetType = UNSET
    """`revision` and `origin` of the gate."""
    definitions: Named[Sha256] | UnsetType = UNSET
    """Of the gate's files, by path."""
    setup: Named[Sha256] | UnsetType = UNSET
    """sha-256 of each part of the project's own Claude Code that was loaded for an agent, by path."""
    rubrics: Named[Sha256] | UnsetType = UNSET
    """Of the rubrics that are asked, by id."""
    versions: Named[str] | UnsetType = UNSET
    """Of vibe-gate and, when a model is asked, of the SDK and the agent's program."""
    questions: Named[str] | UnsetType = UNSET
    """The questions that have votes, by `RUBRIC/CRITERION`."""
    shown: Named[str] | UnsetType = UNSET
    """What models were shown of sessions, private or shared, by kind."""
    batch: str | UnsetType = UNSET
    replay_of: str | UnsetType = UNSET
    disputes: str | UnsetType = UNSET
    worktree: str | UnsetType = UNSET
    request: Mapping[str, Any] | UnsetType = UNSET
    """By what a workflow's run is resumed."""
    agent_run: Mapping[str, Any] | UnsetType = UNSET
    """By what one agent's run of a script is repeated."""


class RedactionCount(Struct, frozen=True, kw_only=True):
    """How many secrets were replaced in what the run wrote, in all and by kind."""

    count: Count = 0
    kinds: Named[Count] = {}


class SealedSummary(Summary, frozen=True, kw_only=True):
    """summary.json of a run: what `--json` prints, sealed."""

    redacted: RedactionCount | UnsetType = UNSET
    digests: Named[Sha256]
    """Of the bundle's files, by name."""


class GraphDocument(Graph, frozen=True, kw_only=True):
    """graph.json: the fold of the run's events."""

    schema: Literal[1] = 1


class SessionsDocument(Struct, frozen=True, kw_only=True):
    """sessions.json: the sessions of each node, in the order in which their turns ended."""

    schema: Literal[1] = 1
    nodes: Named[tuple[str, ...]] = {}


class AnnotationLine(Struct, frozen=True, kw_only=True):
    """A line of annotations.ndjson."""

    seq: Count
    ts: int
    """Milliseconds since 1970."""
    type: str
    message: str
    turn: str
    """The folder of the turn that it is about, "" of the run."""
    attachment: Mapping[str, Any] | UnsetType = UNSET
    """`content_type`, `sha256`, `size` and `name`."""


class TokenCounts(Struct, frozen=True, kw_only=True):
    """Tokens of an answer, or of several; of a `rest` they may be less than 0."""

    input: int
    """With those of the prompt cache."""
    output: int
    cache_read: int | UnsetType = UNSET
    cache_write: int | UnsetType = UNSET
    cache_write_1h: int | UnsetType = UNSET
    """Of what was written to the cache, what it keeps for an hour."""


class TurnEvent(Struct, frozen=True, kw_only=True):
    """A line of a turn's events.ndjson: one item of the agent's session."""

    seq: Count
    ts: int
    """Milliseconds since 1970."""
    type: str
    """message, usage, todo, system, result, or what a later version of the agent's program says."""
    role: str | UnsetType = UNSET
    """Of a message: system, user, assistant or tool."""
    content: Any = UNSET
    thinking: str | UnsetType = UNSET
    block: Any = UNSET
    """A part of a message of no known kind."""
    tool: str | UnsetType = UNSET
    tool_use_id: str | UnsetType = UNSET
    input: Any = UNSET
    """Of a call."""
    result: Any = UNSET
    """Of a call; of type `result` the session's last words."""
    is_error: bool | UnsetType = UNSET
    uuid: str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    message_id: str | UnsetType | None = UNSET
    tokens: TokenCounts | UnsetType = UNSET
    """Of usage."""
    cost: float | UnsetType = UNSET
    """Of usage, in US dollars."""
    basis: CostBasis | UnsetType = UNSET
    """Of usage."""
    total: Literal[True] | UnsetType = UNSET
    """Of the usage that the turn was charged."""
    rest: Literal[True] | UnsetType = UNSET
    """Of the usage by which the answers differ from the total."""
    waits: tuple[tuple[int, int], ...] | UnsetType = UNSET
    """Of the total: from and to, in milliseconds since 1970."""
    action: str | UnsetType = UNSET
    """Of a todo: add, update or set."""
    text: str | UnsetType = UNSET
    """Of a todo."""
    status: str | UnsetType = UNSET
    """Of a todo."""
    subtype: str | UnsetType = UNSET
    data: Any = UNSET
    """Of system."""
    left_out: str | UnsetType = UNSET
    """Why the rest of the event is not here."""


class HookEvent(Struct, frozen=True, kw_only=True):
    """A line of a turn's hooks.ndjson: a hook's input as the agent's program gave it."""

    seq: Count
    ts: int
    """Milliseconds since 1970."""
    hook: str
    tool_use_id: str
    """ "" of a hook that is about no call."""
    tool_name: str | UnsetType = UNSET
    tool_input: Any = UNSET
    tool_response: Any = UNSET
    error: Any = UNSET
    cwd: str | UnsetType = UNSET
    session_id: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    """Of the subagent in which it happened."""
    left_out: str | UnsetType = UNSET
    """Why the rest of the event is not here."""


class CapturedEventLine(Struct, frozen=True, kw_only=True):
    """A line of a captured session's events.jsonl."""

    ts: str
    """ISO 8601 in UTC."""
    type: str
    """The hook."""
    data: Mapping[str, Any]
    """Its input, or `left_out` with the reason why that is not here."""


class MessageLine(Struct, frozen=True, kw_only=True):
    """A line of a session's messages.jsonl: an entry of the Claude Agent SDK's transcript, whose
    members are the SDK's.
    """

    type: str | UnsetType = UNSET
    uuid: str | UnsetType = UNSET


class RunCreated(Struct, frozen=True, kw_only=True):
    """Of run.created."""

    key: str


class RunModeChanged(Struct, frozen=True, kw_only=True):
    """Of run.mode_changed."""

    mode: Literal["auto", "interactive"]


class RunCompleted(Struct, frozen=True, kw_only=True):
    """Of run.completed."""

    status: Literal["completed", "incomplete"]
    outcome: str | UnsetType = UNSET
    exit_code: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    """Why it is incomplete."""


class NodeAdded(Struct, frozen=True, kw_only=True):
    """Of node.added."""

    kind: str
    """checks, judge, gate or stage."""
    stage: str | UnsetType = UNSET
    """As the workflow calls it."""
    gate: str | UnsetType = UNSET
    """Of checks and judges in a workflow: the node of their stage."""
    agent: str | UnsetType = UNSET
    digest: Sha256 | UnsetType = UNSET
    needs: tuple[str, ...] | UnsetType = UNSET
    """Of a planned stage: the stages that must end before it."""
    config: NodeConfig | UnsetType = UNSET


class NodeStatusChanged(Struct, frozen=True, kw_only=True):
    """Of node.status."""

    status: NodeStatus
    reason: str | UnsetType = UNSET
    outcome: str | UnsetType = UNSET
    before: str | UnsetType = UNSET
    """A tree."""
    after: str | UnsetType = UNSET
    """A tree."""
    prompt: Sha256 | UnsetType = UNSET
    config: NodeConfig | UnsetType = UNSET
    """Of a stage that begins."""


class EdgeAdded(Struct, frozen=True, kw_only=True):
    """Of edge.added: ids of nodes."""

    source: str = field(name="from")
    target: str = field(name="to")


class TurnStarted(Struct, frozen=True, kw_only=True):
    """Of turn.started."""

    turn: str


class TurnCompleted(Struct, frozen=True, kw_only=True):
    """Of turn.completed."""

    turn: str
    status: str | UnsetType = UNSET
    session_id: str | UnsetType = UNSET
    usd: Usd | UnsetType = UNSET
    message: str | UnsetType = UNSET
    """The beginning of the agent's last message, or of its answer as JSON; "" of a judge, whose
    answers are the votes.
    """
    before: str | UnsetType = UNSET
    """A tree."""
    after: str | UnsetType = UNSET
    """A tree."""
    files: Count | UnsetType = UNSET
    added: Count | UnsetType = UNSET
    deleted: Count | UnsetType = UNSET


class ArtifactWritten(Struct, frozen=True, kw_only=True):
    """Of artifact.written."""

    artifact: str
    """Its name in the bundle, "" if only hash and size are kept."""
    sha256: Sha256
    size: Count
    side: Literal["before", "after"] | UnsetType = UNSET
    """Of a content."""
    path: str | UnsetType = UNSET
    """Of a content, as shown."""


class VerdictDecided(Struct, frozen=True, kw_only=True):
    """Of verdict.decided."""

    outcome: str
    exit_code: int
    rubrics: Named[str] | UnsetType = UNSET
    """By the rubric's id its outcome."""


class UnaskedLines(Struct, frozen=True, kw_only=True):
    """Lines that no judge was asked about."""

    path: str
    line: int
    end_line: int


class BudgetEvent(Struct, frozen=True, kw_only=True):
    """Of budget.reached."""

    limit_usd: float
    usd: float | UnsetType = UNSET
    not_asked: tuple[UnaskedLines, ...] = ()


EVENT_DATA: Mapping[EventType, type[Struct]] = {
    "run.created": RunCreated,
    "run.mode_changed": RunModeChanged,
    "run.completed": RunCompleted,
    "node.added": NodeAdded,
    "node.status": NodeStatusChanged,
    "edge.added": EdgeAdded,
    "turn.started": TurnStarted,
    "turn.completed": TurnCompleted,
    "artifact.written": ArtifactWritten,
    "verdict.decided": VerdictDecided,
    "budget.reached": BudgetEvent,
}
"""What `data` of an event holds; of the other types as their writer says."""
