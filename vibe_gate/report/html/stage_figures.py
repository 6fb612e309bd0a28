"""What a run's nodes did: turns, times, cost, findings, changed files; which of them took the time.
Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from vibe_gate.domain.event import Graph, Node
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import Finding
from vibe_gate.report import queries
from vibe_gate.report.folds import OWNED, is_foldable
from vibe_gate.report.html.view import FileView, NodeTime, TurnView, View, gates_on_page
from vibe_gate.report.layers import predecessors_of
from vibe_gate.report.node_outcomes import checks_node, node_of_turn
from vibe_gate.report.reported_finding import finding_identity
from vibe_gate.report.round_record import RoundRecord

SECOND_LOOK = "second-look-"
"""How the name of a second look's node begins, or goes on after its stage
(`judging.second_look`).
"""

LEAST_WAIT_S = 1.0
"""A shorter wait to start is no news; the table has it."""


class Stage(Struct, frozen=True):
    """A node with all that is known of it."""

    node: Node
    time: NodeTime | None
    turns: tuple[TurnView, ...]
    usd: float | None
    """None if it is not known."""
    findings: tuple[int, ...]
    """Indexes of the summary's findings."""
    round: RoundRecord | None = None
    """Of a gate, if the page has it."""

    @property
    def outcome(self) -> str:
        """How it came out, or else its status, in lower case."""
        return self.node.outcome or self.node.status.lower()

    @property
    def seconds(self) -> float | None:
        """From its start to its end; what it waited to start is apart."""
        if self.time is None:
            return None
        return (self.time.end - self.time.start) / 1000

    @property
    def waited(self) -> float:
        """Seconds that it waited to start: for a free place, or until an agent's process ran."""
        if self.time is None:
            return 0.0
        return (self.time.start - self.time.added) / 1000

    @property
    def kind(self) -> str:
        """Of its cost: judge, second look, or agent."""
        if self.node.kind != "judge":
            return "agent"
        name = self.node.id
        if name.startswith(SECOND_LOOK) or f"-{SECOND_LOOK}" in name:
            return "second look"
        return "judge"

    @property
    def files(self) -> list[tuple[str, FileView]]:
        """The files that its turns changed, each with its turn."""
        files = []
        for turn in self.turns:
            files += [(turn.id, file) for file in turn.files]
        return files


def collect_stages(view: View) -> dict[str, Stage]:
    """The nodes of the graph, and whatever else had turns or cost something, by id."""
    turns: dict[str, list[TurnView]] = defaultdict(list)
    for turn in view.turns:
        turns[turn.node].append(turn)
    usd_by_node = {}
    if view.summary:
        usd_by_node = view.summary.cost.by_node
    is_paid = view.summary is None or not queries.is_from_recording(view.summary)
    nodes = {node.id: node for node in view.graph.nodes}
    for name in [*usd_by_node, *turns]:
        if name not in nodes:
            nodes[name] = Node(id=name, kind=_kind_of_turns(turns.get(name, ())))
    findings = _findings_by_node(view)
    rounds = gates_on_page(view)
    stages = {}
    for name, node in nodes.items():
        usd = None
        if is_paid:
            usd = usd_by_node.get(name, node.usd)
        stages[name] = Stage(
            node,
            view.times.get(name),
            tuple(turns.get(name, ())),
            usd,
            tuple(findings.get(name, ())),
            rounds.get(name),
        )
    return stages


def _kind_of_turns(turns: Sequence[TurnView]) -> str:
    """The kind of a node that the graph does not have."""
    if turns and turns[0].kind:
        return turns[0].kind
    return "stage"


def _findings_by_node(view: View) -> dict[str, list[int]]:
    """Findings by the node that found them: of a judge by its votes, of a check if one node alone
    has checks.

    Of a gate those that were open when it decided.
    """
    summary = view.summary
    if summary is None:
        return {}
    findings: dict[str, list[int]] = defaultdict(list)
    checks = checks_node(view.graph)
    for index, finding in enumerate(summary.findings):
        for name in _nodes_of_finding(finding, summary, checks):
            findings[name].append(index)
    if is_foldable(view.graph):  # each gate may have them all
        indexes = {}
        for index, finding in enumerate(summary.findings):
            indexes[finding_identity(finding)] = index
        findings |= _findings_by_gate(view, indexes)
    return findings


def _nodes_of_finding(finding: Finding, summary: Summary, checks: str) -> list[str]:
    """The nodes that found it; `checks`: that of the checks, "" if there are several."""
    names: dict[str, None] = {}
    for _, criterion in queries.sources_of_finding(finding, summary):
        for vote in criterion.votes:
            if queries.has_evidence(vote, finding):
                names[node_of_turn(vote.turn)] = None
        if criterion.kind == "check":
            names[checks] = None
    return [name for name in names if name]


def _findings_by_gate(view: View, indexes: Mapping[str, int]) -> dict[str, list[int]]:
    """The findings of each gate; those that it follows stand before it. `indexes` by identity."""
    open_findings: dict[str, set[str]] = {}
    for node in view.graph.nodes:
        if node.id not in view.gates:
            continue
        record = view.gates[node.id]
        closed = {finding.fingerprint for finding in (*record.fixed, *record.unanswered)}
        new = indexes.keys() & {finding.fingerprint for finding in record.new}
        open_findings[node.id] = (open_findings.get(record.after, set()) - closed) | new
    findings = {}
    for name, identities in open_findings.items():
        findings[name] = sorted(indexes[identity] for identity in identities)
    return findings


def find_critical_path(graph: Graph, times: Mapping[str, NodeTime]) -> list[str]:
    """The nodes that the run's end waited for, the first first: each is the last to end of those
    that the next follows.

    Empty if no time is known. Of nodes that end at once a stage counts before its own checks and
    judges.
    """
    before = predecessors_of(graph)
    kinds = {node.id: node.kind for node in graph.nodes}
    path: dict[str, None] = {}
    passed_over: set[str] = set()

    def last_to_end(names: Iterable[str]) -> str:
        """Of these; a node without a time, which was skipped, stands for what it comes after."""
        candidates: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in times:
                candidates.add(name)
            elif name not in passed_over:
                passed_over.add(name)
                waiting += before[name]
        return max(candidates - path.keys(), key=rank, default="")

    def rank(name: str) -> tuple[int, bool, str]:
        return times[name].end, kinds[name] not in OWNED, name

    node = last_to_end(name for name in before if name in times)
    while node:
        path[node] = None
        node = last_to_end(before[node])
    return list(path)[::-1]


def span_of_stages(times: Iterable[NodeTime]) -> tuple[int, int]:
    """From the first beginning to the last end."""
    times = list(times)
    if not times:
        return 0, 0
    return min(time.added for time in times), max(time.end for time in times)


def time_taken(view: View) -> str:
    """How long the nodes took, from the first to the last, and the run with what it does before and
    after them.
    """
    start, end = span_of_stages(view.times.values())
    node_seconds = (end - start) / 1000
    run_seconds = 0.0
    if view.summary:
        run_seconds = view.summary.duration_ms / 1000
    node_time, run_time = format_seconds(node_seconds), format_seconds(run_seconds)
    if run_seconds <= node_seconds or run_time == node_time:
        return node_time
    return f"{node_time} of the run's {run_time}"


def long_wait(stage: Stage) -> str:
    """What it waited to start, in words, if that is long."""
    if stage.waited < LEAST_WAIT_S:
        return ""
    return f"waited {format_seconds(stage.waited)} to start"


def format_seconds(value: float | None) -> str:
    """A time as people read it; "" if it is not known."""
    if value is None:
        return ""
    if value < 0.9995:
        return f"{value * 1000:.0f} ms"
    if value < 59.95:
        return f"{value:.1f} s"
    minutes, seconds = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60} h {minutes % 60} min"


def format_stage_dollars(usd: float) -> str:
    """A cost."""
    return f"${usd:.4f}"


def format_line_counts(files: Sequence[tuple[str, FileView]]) -> str:
    """How many lines were added and deleted."""
    if not files:
        return ""
    added = sum(file.added for _, file in files)
    deleted = sum(file.deleted for _, file in files)
    return f"+{added:,} −{deleted:,}"
