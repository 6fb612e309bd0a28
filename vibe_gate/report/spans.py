"""A run as a trace: the run, its nodes, turns, requests to the model and tool calls as spans.

Names of attributes are those of OpenTelemetry's conventions for generative AI, and `vibe_gate.*`
for what these have no name for. Ids are hashes of the run's id, so that the same bundle gives the
same trace wherever and whenever it is read.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from vibe_gate.domain.document import read_text_of
from vibe_gate.domain.escape import safe
from vibe_gate.domain.event import Node
from vibe_gate.domain.span import SpanEvent, Trace, TraceSpan
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.wire import end_kind
from vibe_gate.report.node_stays import NodeStay, read_stays
from vibe_gate.report.span_attributes import (
    MAX_COUNT,
    MAX_NAME,
    MAX_PARTS,
    build_message,
    content_text,
    limit_number,
    message_parts,
    plain_attributes,
    provider_of_model,
    text_part,
    token_attributes,
    verdict_attributes,
)
from vibe_gate.report.text_graph import graph_of
from vibe_gate.report.turns import model_of, sum_tokens, turn_tokens
from vibe_gate.report.waits import find_waits
from vibe_gate.store.run_result import RunResult

if TYPE_CHECKING:
    from vibe_gate.store.bundle_events import CapturedCall, TimelineEvent

MAX_MS = MAX_COUNT // 1_000_000
"""Of a time, so that its nanoseconds are a number of 64 bits."""

_TELLING = frozenset(
    {"node.added", "node.status", "edge.added", "turn.started", "turn.completed", "verdict.decided"}
)

_UNDECIDED = ("inconclusive", "error")

Data = Mapping[str, Any]
"""The data of an event."""


async def trace_of(result: RunResult, *, contents: bool = False) -> Trace:
    """The trace of a run. Prompts, answers, arguments and results of tools, and reasons only with
    `contents`.

    StorageError; IntegrityError: the bundle is not what was sealed.
    """
    summary = None
    if result.complete:
        summary = result.summary
    graph = graph_of(result, summary)
    events = await _read_events(result)
    spans = _Spans(read_text_of(result.run_document, "run_id"), contents)
    spans.add_run(result, summary, events)
    nodes = {node.id: node for node in graph.nodes}
    spans.add_nodes(nodes, graph.edges, read_stays(events.run))
    for turn in result.turns():
        place = turn.bundle_dir.relative_to(result.bundle_dir).as_posix()
        node_id = place.split("/")[1]
        node = nodes.get(node_id) or Node(id=node_id, kind="")
        spans.add_turn(turn, events.times_of_turn(place, node), events.by_turn[place])
    return Trace(_digest(spans.run_id, 32), tuple(spans.spans))


class _RunEvents:
    """What a trace takes of the timeline of a run; times are milliseconds since 1970."""

    def __init__(self) -> None:
        self.run: list[tuple[TimelineEvent, Data]] = []
        """The run's own events that say when something began or ended, with their data."""
        self.by_turn: dict[str, list[TimelineEvent]] = defaultdict(list)
        """The events of agents, by the folder of their turn."""
        self.turn_starts: dict[str, int] = {}
        """When each turn began, by its folder."""
        self.turn_ends: dict[str, tuple[int, Data]] = {}
        """When each turn ended, by its folder, with what turn.completed says of it."""
        self.start = 0
        self.end = 0

    def decided_at(self) -> int:
        """When the verdict was reached; the end without one."""
        for event, _ in self.run:
            if event.type == "verdict.decided":
                return event.ts
        return self.end

    def times_of_turn(self, place: str, node: Node) -> _TurnTimes:
        """When the turn began and ended; as the run if it does not say so."""
        start = self.turn_starts.get(place, self.start)
        end, completed = self.turn_ends.get(place, (self.end, {}))
        return _TurnTimes(place, node, start, end, completed)


async def _read_events(result: RunResult) -> _RunEvents:
    events = _RunEvents()
    async for event in result.timeline.events():
        if event.source == "sdk":
            events.by_turn[event.turn].append(event)
        elif event.source == "run":
            events.start = events.start or event.ts
            events.end = max(events.end, event.ts)
            if event.type not in _TELLING:
                continue
            data = event.load().get("data")
            if not isinstance(data, dict):
                data = {}
            events.run.append((event, data))
            if event.type == "turn.started":
                events.turn_starts[event.turn] = event.ts
            elif event.type == "turn.completed":
                events.turn_ends[event.turn] = (event.ts, data)
    return events


def _digest(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


class _TurnTimes(Struct, frozen=True):
    """When a turn was held."""

    place: str
    """Its folder in the bundle."""
    node: Node
    start: int
    end: int
    completed: Data
    """What turn.completed says of it; nothing of a turn that did not end."""


class _ModelAnswer(Struct):
    """One answer of the model, as its messages and its usage came."""

    number: int
    """Of its first event in the turn."""
    start: int
    end: int
    model: str = ""
    usage: Data = {}
    parts: list[dict[str, Any]] = []


class _Spans:
    """The spans of one run, in the order in which they are added."""

    def __init__(self, run_id: str, contents: bool) -> None:
        self.run_id = run_id
        self.spans: list[TraceSpan] = []
        self._has_contents = contents
        self._nodes: Mapping[str, Node] = {}

    def _id(self, *place: str) -> str:
        return _digest("\0".join((self.run_id, *place)), 16)

    def _add(
        self,
        place: Sequence[str],
        above: Sequence[str] | None,
        name: str,
        times: tuple[int, int],
        *,
        attributes: Mapping[str, Any],
        contents: Mapping[str, object],
        error: str = "",
        **fields: Any,  # noqa: ANN401 - of several types
    ) -> None:
        """`place` names the span among those of the run, `above` its parent (None of the run
        itself).

        `times`: start and end in ms. `contents`: the attributes that are contents. `fields`:
        further fields of a TraceSpan.
        """
        start = limit_number(times[0], MAX_MS)
        end = max(start, limit_number(times[1], MAX_MS))
        parent = ""
        if above is not None:
            parent = self._id(*above)
        error = safe(error)[:MAX_NAME]
        all_attributes = plain_attributes(attributes) | self._content_attributes(contents)
        if error:
            all_attributes["error.type"] = error
        span = TraceSpan(
            id=self._id(*place),
            parent=parent,
            name=safe(name).rstrip()[:MAX_NAME],
            start=start,
            end=end,
            attributes=all_attributes,
            error=error,
            **fields,
        )
        self.spans.append(span)

    def _content_attributes(self, contents: Mapping[str, object]) -> dict[str, Any]:
        """What was said, as text; nothing unless it was asked for."""
        if not self._has_contents:
            return {}
        attributes = {}
        for name, value in contents.items():
            if value not in ("", None, []):
                attributes[name] = content_text(value)
        return attributes

    def add_run(self, result: RunResult, summary: Summary | None, events: _RunEvents) -> None:
        """The run itself, with its verdict's criteria as events."""
        if summary:
            workflow = summary.workflow
        else:
            workflow = read_text_of(result.run_document, "workflow")
        attributes = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": workflow,
            # What the conventions say of workflows since 0.1.0 of their own repository.
            "gen_ai.agent.name": workflow,
            "vibe_gate.run.id": self.run_id,
            "vibe_gate.run.key": read_text_of(result.run_document, "key"),
            "vibe_gate.run.state": result.state,
        }
        error: str = result.state
        evaluations: tuple[SpanEvent, ...] = ()
        if summary is not None:
            attributes |= verdict_attributes(summary)
            error = ""
            if summary.outcome in _UNDECIDED:
                error = summary.outcome
            decided_at = limit_number(events.decided_at(), MAX_MS)
            evaluations = tuple(self._evaluations(summary, decided_at))
        self._add(
            (),
            None,
            f"invoke_workflow {workflow}",
            (events.start, events.end),
            attributes=attributes,
            error=error,
            events=evaluations,
            contents={"vibe_gate.prompt": read_text_of(result.run_document, "prompt")},
        )

    def _evaluations(self, summary: Summary, decided_at: int) -> Iterator[SpanEvent]:
        """An event for each rubric, and for each of its criteria."""
        for rubric in summary.rubrics:
            attributes: dict[str, Any] = {
                "gen_ai.evaluation.name": rubric.id,
                "gen_ai.evaluation.score.label": rubric.outcome,
                "gen_ai.evaluation.score.value": rubric.score,
            }
            yield SpanEvent("gen_ai.evaluation.result", decided_at, attributes)
            for criterion in rubric.criteria:
                attributes = {
                    "gen_ai.evaluation.name": f"{rubric.id}/{criterion.id}",
                    "gen_ai.evaluation.score.label": criterion.outcome,
                    "vibe_gate.criterion.kind": criterion.kind,
                    "vibe_gate.criterion.decided_by": criterion.decided_by,
                }
                contents = {"gen_ai.evaluation.explanation": criterion.reason}
                attributes |= self._content_attributes(contents)
                yield SpanEvent("gen_ai.evaluation.result", decided_at, attributes)

    def add_nodes(
        self,
        nodes: Mapping[str, Node],
        edges: Iterable[tuple[str, str]],
        stays: Mapping[str, NodeStay],
    ) -> None:
        """Checks, judges, gates and stages; those that had to end first are linked."""
        self._nodes = nodes
        sources: dict[str, list[str]] = defaultdict(list)
        for source, target in edges:
            sources[target].append(source)
        for node in nodes.values():
            self._add_node(node, stays[node.id], sources[node.id])

    def _add_node(self, node: Node, stay: NodeStay, sources: Iterable[str]) -> None:
        attributes = {
            "gen_ai.agent.name": node.agent,
            "vibe_gate.node.id": node.id,
            "vibe_gate.node.kind": node.kind,
            "vibe_gate.node.status": node.status,
            "vibe_gate.outcome": node.outcome,
            "vibe_gate.cost.usd": node.usd,
        }
        name = node.id
        if node.kind not in ("", node.id):
            name = f"{node.kind} {node.id}"
        error = ""
        if node.status in ("ERROR", "CANCELLED", "incomplete"):
            error = node.status
        linked_ids = []
        for source in sources:
            if source != stay.within:
                linked_ids.append(self._id("node", source))
        self._add(
            ("node", node.id),
            self._place_of_node(stay.within),
            name,
            (stay.start, stay.end),
            attributes=attributes,
            error=error,
            after=tuple(linked_ids),
            contents={"vibe_gate.reason": node.reason},
        )

    def _place_of_node(self, node_id: str | None) -> tuple[str, ...]:
        """The place of a node; that of the run, if it has no such node."""
        if node_id is None or node_id not in self._nodes:
            return ()
        return ("node", node_id)

    def add_turn(
        self, turn: RunResult, times: _TurnTimes, timeline: Iterable[TimelineEvent]
    ) -> None:
        """A turn of an agent or a judge, with its requests and its calls of tools."""
        events = [(event.ts, event.load()) for event in timeline]
        agent = times.node.agent or times.node.id
        status = read_text_of(times.completed, "status") or turn.state
        error = ""
        if end_kind(status) not in ("finished", "stopped"):
            error = status
        messages = []
        for text in _prompts(events)[:MAX_PARTS]:
            messages.append(build_message("user", [text_part(text)]))
        self._add(
            (times.place,),
            self._place_of_node(times.node.id),
            f"invoke_agent {agent}",
            (times.start, times.end),
            attributes=_turn_attributes(turn, times, agent, status, events),
            error=error,
            contents={"gen_ai.input.messages": messages},
        )
        for message_id, answer in _answers_by_message(events, times.start).items():
            self._add_request(times.place, message_id, answer)
        self._add_calls(times.place, turn.tools.all())

    def _add_request(self, place: str, message_id: str, answer: _ModelAnswer) -> None:
        """A request to the model, which ended with its answer."""
        messages = []
        if answer.parts:
            kinds = {part["type"] for part in answer.parts}
            finish_reason = "stop"
            if "tool_call" in kinds:
                finish_reason = "tool_call"
            message = build_message("assistant", answer.parts)
            messages.append(message | {"finish_reason": finish_reason})
        attributes = token_attributes(sum_tokens([answer.usage])) | {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider_of_model(answer.model),
            "gen_ai.request.model": answer.model,
            "gen_ai.response.model": answer.model,
            "gen_ai.response.id": message_id,
        }
        self._add(
            (place, "request", str(answer.number)),
            (place,),
            f"chat {answer.model}",
            (answer.start, answer.end),
            attributes=attributes,
            is_request=True,
            contents={"gen_ai.output.messages": messages},
        )

    def _add_calls(self, place: str, calls: Sequence[CapturedCall]) -> None:
        """The calls of tools; those of a subagent are below the call that started it."""
        places: dict[str, tuple[str, ...]] = {"": (place,)}
        for call in calls:
            number = call.hook_ref.pre
            if call.hook_ref.pre is None:
                number = call.hook_ref.post
            call_place = (place, "tool", str(number))
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call.name,
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.id": call.tool_use_id,
                "vibe_gate.tool.state": call.state,
                "vibe_gate.subagent": call.agent_id,
            }
            contents: dict[str, object] = {}
            if self._has_contents:  # else it need not be read
                contents["gen_ai.tool.call.arguments"] = call.input()
                contents["gen_ai.tool.call.result"] = call.response()
            end = call.started_at
            if call.ended_at is not None:
                end = call.ended_at
            error = ""
            if not call.ok:
                error = call.state
            self._add(
                call_place,
                places.get(call.parent_tool_use_id, (place,)),
                f"execute_tool {call.name}",
                (call.started_at, end),
                attributes=attributes,
                error=error,
                contents=contents,
            )
            places.setdefault(call.tool_use_id, call_place)


def _turn_attributes(
    turn: RunResult,
    times: _TurnTimes,
    agent: str,
    status: str,
    events: Sequence[tuple[int, Data]],
) -> dict[str, Any]:
    session_events = [data for _, data in events]
    model = model_of(session_events)
    metrics = turn.metrics
    waited_ms = sum(end - start for start, end in find_waits(events))
    return token_attributes(turn_tokens(session_events)) | {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent,
        "gen_ai.conversation.id": read_text_of(times.completed, "session_id"),
        "gen_ai.provider.name": provider_of_model(model),
        "gen_ai.request.model": model,
        "vibe_gate.turn": times.place,
        "vibe_gate.turn.status": status,
        "vibe_gate.tool_calls": metrics.tool_calls,
        "vibe_gate.files_changed": metrics.files_changed,
        "vibe_gate.waited_ms": waited_ms or None,
        "vibe_gate.cost.usd": metrics.total_cost_usd,
        "vibe_gate.cost.basis": metrics.cost_basis,
    }


def _prompts(events: Iterable[tuple[int, Data]]) -> list[str]:
    """What the user's side of the conversation said."""
    prompts = []
    for _, data in events:
        text = read_text_of(data, "content")
        if text and data.get("role") == "user":
            prompts.append(text)
    return prompts


def _answers_by_message(events: Iterable[tuple[int, Data]], start: int) -> dict[str, _ModelAnswer]:
    """The model's answers by message id. Each began when the last thing happened before its first
    word.
    """
    answers: dict[str, _ModelAnswer] = {}
    for number, (ts, data) in enumerate(events):
        message_id = read_text_of(data, "message_id")
        if message_id:
            answer = answers.setdefault(message_id, _ModelAnswer(number, start, ts, parts=[]))
            answer.end = ts
            answer.model = answer.model or read_text_of(data, "model")
            if data.get("type") == "usage":
                answer.usage = data
            else:
                answer.parts += message_parts(data)
        start = ts
    return answers
