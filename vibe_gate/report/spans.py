"""A run as a trace: the run, its nodes, turns, requests to the model and tool calls as spans.

Names of attributes are those of OpenTelemetry's conventions for generative AI, and `vibe_gate.*`
for what these have no name for. Ids are hashes of the run's id, so that the same bundle gives the
same trace wherever and whenever it is read.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from vibe_gate.domain.document import text_of
from vibe_gate.domain.escape import safe
from vibe_gate.domain.event import Node
from vibe_gate.domain.span import SpanEvent, Trace, TraceSpan
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.wire import end_kind
from vibe_gate.report.text_graph import graph_of
from vibe_gate.report.turns import model_of, sum_tokens, turn_tokens
from vibe_gate.report.waits import find_waits
from vibe_gate.store.run_result import RunResult

if TYPE_CHECKING:
    from vibe_gate.store.bundle_events import CapturedCall, TimelineEvent

MAX_NAME, MAX_CONTENT, MAX_PARTS = 200, 10_000, 10
"""Characters of a name, and with `contents` of one text; texts of one message: a span stays below
half a megabyte.
"""

MAX_COUNT = (1 << 63) - 1
MAX_MS = MAX_COUNT // 1_000_000
"""Of a time, so that its nanoseconds are a number of 64 bits."""

_TELLING = frozenset(
    {"node.added", "node.status", "edge.added", "turn.started", "turn.completed", "verdict.decided"}
)

_UNDECIDED = ("inconclusive", "error")

_PROVIDERS = (
    ("anthropic.claude", "aws.bedrock"),
    ("claude", "anthropic"),
    ("gemini", "gcp.gemini"),
)
"""Who serves a model, by what its name has; Vertex has an @ before the version. Open models are
anybody's.
"""

_TOKENS = {
    "input": "input",
    "output": "output",
    "cache_read": "cache_read.input",
    "cache_write": "cache_creation.input",
}
"""Kinds of tokens, as the conventions name them."""

Data = Mapping[str, Any]


async def trace_of(result: RunResult, *, contents: bool = False) -> Trace:
    """The trace of a run. Prompts, answers, arguments and results of tools, and reasons only with
    `contents`.

    StorageError; IntegrityError: the bundle is not what was sealed.
    """
    summary = result.summary if result.complete else None
    graph = graph_of(result, summary)
    own: list[tuple[TimelineEvent, Data]] = []
    by_turn: dict[str, list[TimelineEvent]] = defaultdict(list)
    first = last = 0
    async for event in result.timeline.events():
        if event.source == "sdk":
            by_turn[event.turn].append(event)
        elif event.source == "run":
            first, last = first or event.ts, max(last, event.ts)
            if event.type in _TELLING:
                data = event.load().get("data")
                own.append((event, data if isinstance(data, dict) else {}))
    spans = _Spans(text_of(result.about, "run_id"), contents)
    spans.run(
        result,
        summary,
        first,
        last,
        next((e.ts for e, _ in own if e.type == "verdict.decided"), last),
    )
    nodes = {node.id: node for node in graph.nodes}
    spans.nodes(nodes, graph.edges, _stays(own))
    started = {event.turn: event.ts for event, _ in own if event.type == "turn.started"}
    completed = {
        event.turn: (event.ts, data) for event, data in own if event.type == "turn.completed"
    }
    for turn in result.turns():
        place = turn.bundle_dir.relative_to(result.bundle_dir).as_posix()
        node_id = place.split("/")[1]
        node = nodes.get(node_id) or Node(id=node_id, kind="")
        ended, data = completed.get(place, (last, {}))
        spans.turn(
            turn, _TurnTimes(place, node, started.get(place, first), ended, data), by_turn[place]
        )
    return Trace(_digest(spans.run_id, 32), tuple(spans.made))


def _digest(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


class _Stay(Struct):
    """When a node ran, and within which node (None: the run itself). `number`: in the order in
    which they came.
    """

    number: int
    start: int
    end: int
    status: str = ""
    within: str | None = None


def _stays(events: Iterable[tuple[TimelineEvent, Data]]) -> dict[str, _Stay]:
    """Nodes by id. What comes after a node that still runs, or in one that does, is part of it: a
    gate's checks are.
    """
    stays: dict[str, _Stay] = {}
    within: dict[str, str] = {}
    for event, data in events:
        if event.type == "edge.added":
            source: str | None = text_of(data, "from")
            target = text_of(data, "to")
            while source is not None and (source not in stays or stays[source].status != "RUNNING"):
                source = within.get(source)
            if source is not None and (
                target not in stays or stays[source].number < stays[target].number
            ):
                within.setdefault(target, source)
        elif event.type != "verdict.decided":
            stay = stays.setdefault(event.node_id, _Stay(len(stays), event.ts, event.ts))
            status = text_of(data, "status") if event.type == "node.status" else ""
            if status == "RUNNING" and stay.status in ("", "IDLE", "READY", "BLOCKED"):
                stay.start = event.ts
            stay.status, stay.end = status or stay.status, event.ts
    for node_id, stay in stays.items():
        stay.within = within.get(node_id)
    return stays


class _TurnTimes(Struct, frozen=True):
    """A turn: its folder, its node, its times in ms, and what turn.completed says of it."""

    place: str
    node: Node
    start: int
    end: int
    completed: Data


class _ModelAnswer(Struct):
    """One answer of the model, as its messages and its usage came."""

    number: int
    start: int
    end: int
    model: str = ""
    usage: Data = {}
    parts: list[dict[str, Any]] = []


class _Spans:
    """The spans of one run, as they are made."""

    def __init__(self, run_id: str, contents: bool) -> None:
        self.run_id, self.made = run_id, list[TraceSpan]()
        self._contents = contents
        self._nodes: Mapping[str, Node] = {}

    def _id(self, *place: str) -> str:
        return _digest("\0".join((self.run_id, *place)), 16)

    def _add(
        self,
        place: Sequence[str],
        above: Sequence[str] | None,
        name: str,
        times: tuple[int, int],
        **more: Any,  # noqa: ANN401 - of several types
    ) -> None:
        """`place` names the span among those of the run, `above` its parent (None of the run
        itself).

        `times`: start and end in ms. `more`: `attributes`, `told` (those that are contents), and
        fields of a TraceSpan.
        """
        start = _within(times[0], MAX_MS)
        error = safe(more.pop("error", ""))[:MAX_NAME]
        attributes = _plain(more.pop("attributes")) | self._told(more.pop("told", {}))
        self.made.append(
            TraceSpan(
                id=self._id(*place),
                parent="" if above is None else self._id(*above),
                name=safe(name).rstrip()[:MAX_NAME],
                start=start,
                end=max(start, _within(times[1], MAX_MS)),
                attributes=attributes | ({"error.type": error} if error else {}),
                error=error,
                **more,
            )
        )

    def _told(self, contents: Mapping[str, object]) -> dict[str, Any]:
        """What was said, as text; nothing unless it was asked for."""
        given = contents if self._contents else {}
        return {name: _text(value) for name, value in given.items() if value not in ("", None, [])}

    def run(
        self, result: RunResult, summary: Summary | None, start: int, end: int, decided: int
    ) -> None:
        """The run itself, with its verdict's criteria as events."""
        about = result.about
        workflow = summary.workflow if summary else text_of(about, "workflow")
        attributes = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": workflow,
            "gen_ai.agent.name": workflow,  # what the conventions say of workflows since 0.1.0 of their own repository
            "vibe_gate.run.id": self.run_id,
            "vibe_gate.run.key": text_of(about, "key"),
            "vibe_gate.run.state": result.state,
        }
        error: str = result.state
        if summary is not None:
            attributes |= _verdict(summary)
            error = summary.outcome if summary.outcome in _UNDECIDED else ""
        self._add(
            (),
            None,
            f"invoke_workflow {workflow}",
            (start, end),
            attributes=attributes,
            error=error,
            events=()
            if summary is None
            else tuple(self._evaluations(summary, _within(decided, MAX_MS))),
            told={"vibe_gate.prompt": text_of(about, "prompt")},
        )

    def _evaluations(self, summary: Summary, at: int) -> Iterator[SpanEvent]:
        for rubric in summary.rubrics:
            about = {
                "gen_ai.evaluation.name": rubric.id,
                "gen_ai.evaluation.score.label": rubric.outcome,
            }
            yield SpanEvent(
                "gen_ai.evaluation.result",
                at,
                about | {"gen_ai.evaluation.score.value": rubric.score},
            )
            for one in rubric.criteria:
                about = {
                    "gen_ai.evaluation.name": f"{rubric.id}/{one.id}",
                    "gen_ai.evaluation.score.label": one.outcome,
                }
                about |= {
                    "vibe_gate.criterion.kind": one.kind,
                    "vibe_gate.criterion.decided_by": one.decided_by,
                }
                told = self._told({"gen_ai.evaluation.explanation": one.reason})
                yield SpanEvent("gen_ai.evaluation.result", at, {**about, **told})

    def nodes(
        self,
        nodes: Mapping[str, Node],
        edges: Iterable[tuple[str, str]],
        stays: Mapping[str, _Stay],
    ) -> None:
        """Checks, judges, gates and stages; those that had to end first are linked."""
        self._nodes = nodes
        before: dict[str, list[str]] = defaultdict(list)
        for source, target in edges:
            before[target].append(source)
        for node in nodes.values():
            stay = stays[node.id]
            attributes = {
                "gen_ai.agent.name": node.agent,
                "vibe_gate.node.id": node.id,
                "vibe_gate.node.kind": node.kind,
                "vibe_gate.node.status": node.status,
                "vibe_gate.outcome": node.outcome,
                "vibe_gate.cost.usd": node.usd,
            }
            self._add(
                ("node", node.id),
                self._of_node(stay.within),
                node.id if node.kind in ("", node.id) else f"{node.kind} {node.id}",
                (stay.start, stay.end),
                attributes=attributes,
                error=node.status if node.status in ("ERROR", "CANCELLED", "incomplete") else "",
                after=tuple(
                    self._id("node", source) for source in before[node.id] if source != stay.within
                ),
                told={"vibe_gate.reason": node.reason},
            )

    def _of_node(self, node_id: str | None) -> tuple[str, ...]:
        """The place of a node; that of the run, if it has no such node."""
        return ("node", node_id) if node_id is not None and node_id in self._nodes else ()

    def turn(self, turn: RunResult, about: _TurnTimes, events: Iterable[TimelineEvent]) -> None:
        """A turn of an agent or a judge, with its requests and its calls of tools."""
        said = [(event.ts, event.load()) for event in events]
        model = model_of(item for _, item in said)
        agent, metrics = about.node.agent or about.node.id, turn.metrics
        status = text_of(about.completed, "status") or turn.state
        attributes = _tokens(turn_tokens(item for _, item in said)) | {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent,
            "gen_ai.conversation.id": text_of(about.completed, "session_id"),
            "gen_ai.provider.name": provider_of_model(model),
            "gen_ai.request.model": model,
            "vibe_gate.turn": about.place,
            "vibe_gate.turn.status": status,
            "vibe_gate.tool_calls": metrics.tool_calls,
            "vibe_gate.files_changed": metrics.files_changed,
            "vibe_gate.waited_ms": sum(end - start for start, end in find_waits(said)) or None,
            "vibe_gate.cost.usd": metrics.total_cost_usd,
            "vibe_gate.cost.basis": metrics.cost_basis,
        }
        prompts = [
            item["content"]
            for _, item in said
            if item.get("role") == "user" and text_of(item, "content")
        ]
        self._add(
            (about.place,),
            self._of_node(about.node.id),
            f"invoke_agent {agent}",
            (about.start, about.end),
            attributes=attributes,
            error="" if end_kind(status) in ("finished", "stopped") else status,
            told={
                "gen_ai.input.messages": [
                    _message("user", [_said(prompt)]) for prompt in prompts[:MAX_PARTS]
                ]
            },
        )
        for request in _requests(said, about.start):
            self._request(about.place, *request)
        self._calls(about.place, turn.tools.all())

    def _request(self, place: str, message_id: str, request: _ModelAnswer) -> None:
        finish = (
            "tool_call" if any(part["type"] == "tool_call" for part in request.parts) else "stop"
        )
        said = (
            [_message("assistant", request.parts) | {"finish_reason": finish}]
            if request.parts
            else []
        )
        attributes = _tokens(sum_tokens([request.usage])) | {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider_of_model(request.model),
            "gen_ai.request.model": request.model,
            "gen_ai.response.model": request.model,
            "gen_ai.response.id": message_id,
        }
        self._add(
            (place, "request", str(request.number)),
            (place,),
            f"chat {request.model}",
            (request.start, request.end),
            attributes=attributes,
            is_request=True,
            told={"gen_ai.output.messages": said},
        )

    def _calls(self, place: str, calls: Sequence[CapturedCall]) -> None:
        places: dict[str, tuple[str, ...]] = {"": (place,)}
        for call in calls:
            number = call.hook_ref.pre if call.hook_ref.pre is not None else call.hook_ref.post
            own = (place, "tool", str(number))
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call.name,
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.id": call.tool_use_id,
                "vibe_gate.tool.state": call.state,
                "vibe_gate.subagent": call.agent_id,
            }
            given = {"arguments": call.input(), "result": call.response()} if self._contents else {}
            self._add(
                own,
                places.get(call.parent_tool_use_id, (place,)),
                f"execute_tool {call.name}",
                (call.started_at, call.started_at if call.ended_at is None else call.ended_at),
                attributes=attributes,
                error="" if call.ok else call.state,
                told={f"gen_ai.tool.call.{name}": value for name, value in given.items()},
            )
            places.setdefault(call.tool_use_id, own)


def _verdict(summary: Summary) -> dict[str, Any]:
    cost, change = summary.cost, summary.change
    return {
        "vibe_gate.outcome": summary.outcome,
        "vibe_gate.exit_code": summary.exit_code,
        "vibe_gate.findings": len(summary.findings),
        "vibe_gate.agent_authored": summary.agent_authored.decision,
        "vibe_gate.change.files": len(change.files),
        "vibe_gate.change.added": change.added,
        "vibe_gate.change.deleted": change.deleted,
        "vibe_gate.cost.usd": cost.usd,
        "vibe_gate.cost.basis": cost.basis,
        "vibe_gate.input_tokens": cost.input_tokens,
        "vibe_gate.output_tokens": cost.output_tokens,
        "vibe_gate.cache_read_tokens": cost.cache_read_tokens,
        "vibe_gate.answers.reused": summary.cache.hits,
        "vcs.ref.head.revision": change.head_commit,
        "vcs.ref.base.revision": change.base_commit,
    }


def _requests(said: Iterable[tuple[int, Data]], start: int) -> Iterator[tuple[str, _ModelAnswer]]:
    """The model's answers by message id. Each began when the last thing happened before its first
    word.
    """
    requests: dict[str, _ModelAnswer] = {}
    for number, (ts, item) in enumerate(said):
        if name := text_of(item, "message_id"):
            request = requests.setdefault(name, _ModelAnswer(number, start, ts, parts=[]))
            request.end = ts
            request.model = request.model or text_of(item, "model")
            if item.get("type") == "usage":
                request.usage = item
            else:
                request.parts += _parts(item)
        start = ts
    yield from requests.items()


def _parts(item: Data) -> Iterator[dict[str, Any]]:
    if text := text_of(item, "thinking"):
        yield {"type": "reasoning", "content": _cut(text)}
    if text := text_of(item, "content"):
        yield _said(text)
    if tool := text_of(item, "tool"):
        use = safe(text_of(item, "tool_use_id"))[:MAX_NAME]
        yield {
            "type": "tool_call",
            "id": use,
            "name": safe(tool)[:MAX_NAME],
            "arguments": _text(item.get("input")),
        }


def _said(text: str) -> dict[str, Any]:
    return {"type": "text", "content": _cut(text)}


def _message(role: str, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts[:MAX_PARTS])}


def _tokens(known: Mapping[str, int]) -> dict[str, Any]:
    return {f"gen_ai.usage.{_TOKENS[kind]}_tokens": count for kind, count in known.items()}


def provider_of_model(model: str) -> str:
    """Who serves the model, as the conventions name it, by the model's name; "" if that does not
    tell.
    """
    if "claude" in model and "@" in model:
        return "gcp.vertex_ai"
    return next((name for part, name in _PROVIDERS if part in model.lower()), "")


def _within(number: int, most: int) -> int:
    return min(max(number, 0), most)


def _cut(text: str) -> str:
    """The beginning, in characters that UTF-8 has."""
    whole = text.encode("utf-8", "replace").decode()
    return (
        whole
        if len(whole) <= MAX_CONTENT
        else f"{whole[:MAX_CONTENT]}… ({len(whole):,} characters)"
    )


def _text(value: object) -> str:
    if isinstance(value, list):  # messages, whose texts are cut
        return json.dumps(value, ensure_ascii=False)
    return _cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are known, in a form that every collector takes."""
    return {name: _value(value) for name, value in attributes.items() if value not in ("", None)}


def _value(value: str | int | float | bool) -> str | int | float | bool:
    if isinstance(value, str):
        return safe(value)[:MAX_NAME]
    return value if isinstance(value, (bool, float)) else _within(value, MAX_COUNT)
