"""What a run's nodes did: turns, times, cost, findings, changed files; which of them took the time.
Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from vibe_gate.domain.event import Graph, Node
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
    """A node with all that is known of it.

    `findings` are indexes of the summary's; `told` is a gate's round, if the page has it; `usd` is
    None if not known.
    """

    node: Node
    time: NodeTime | None
    turns: tuple[TurnView, ...]
    usd: float | None
    findings: tuple[int, ...]
    told: RoundRecord | None = None

    @property
    def outcome(self) -> str:
        """How it came out, or else its status, in lower case."""
        return self.node.outcome or self.node.status.lower()

    @property
    def seconds(self) -> float | None:
        """From its start to its end; what it waited to start is apart."""
        return None if self.time is None else (self.time.end - self.time.start) / 1000

    @property
    def waited(self) -> float:
        """Seconds that it waited to start: for a free place, or until an agent's process ran."""
        return 0.0 if self.time is None else (self.time.start - self.time.added) / 1000

    @property
    def kind(self) -> str:
        """Of its cost: judge, second look, or agent."""
        if self.node.kind != "judge":
            return "agent"
        name = self.node.id
        return (
            "second look" if name.startswith(SECOND_LOOK) or f"-{SECOND_LOOK}" in name else "judge"
        )

    @property
    def files(self) -> list[tuple[str, FileView]]:
        """The files that its turns changed, each with its turn."""
        return [(turn.id, file) for turn in self.turns for file in turn.files]


def collect_stages(view: View) -> dict[str, Stage]:
    """The nodes of the graph, and whatever else had turns or cost something, by id."""
    turns: dict[str, list[TurnView]] = defaultdict(list)
    for turn in view.turns:
        turns[turn.node].append(turn)
    by_node = view.summary.cost.by_node if view.summary else {}
    is_paid = view.summary is None or not queries.is_from_recording(view.summary)
    found, told = _findings(view), gates_on_page(view)
    nodes = {node.id: node for node in view.graph.nodes}
    for name in [*by_node, *turns]:
        kind = turns[name][0].kind if turns.get(name) else ""
        nodes.setdefault(name, Node(id=name, kind=kind or "stage"))
    return {
        name: Stage(
            node,
            view.times.get(name),
            tuple(turns.get(name, ())),
            by_node.get(name, node.usd) if is_paid else None,
            tuple(found.get(name, ())),
            told.get(name),
        )
        for name, node in nodes.items()
    }


def _findings(view: View) -> dict[str, list[int]]:
    """Findings by the node that found them: of a judge by its votes, of a check if one node alone
    has checks.

    Of a gate those that were open when it decided.
    """
    found: dict[str, list[int]] = defaultdict(list)
    if view.summary is None:
        return found
    checks = checks_node(view.graph)
    for index, finding in enumerate(view.summary.findings):
        names: dict[str, None] = {}
        for _, criterion in queries.sources_of_finding(finding, view.summary):
            names |= {
                node_of_turn(vote.turn): None
                for vote in criterion.votes
                if queries.has_evidence(vote, finding)
            }
            if criterion.kind == "check":
                names[checks] = None
        for name in filter(None, names):
            found[name].append(index)
    if is_foldable(view.graph):  # each gate may have them all
        found |= _of_gates(
            view, {finding_identity(one): index for index, one in enumerate(view.summary.findings)}
        )
    return found


def _of_gates(view: View, indexes: Mapping[str, int]) -> dict[str, list[int]]:
    """The findings of each gate; those that it follows stand before it. `indexes` by identity."""
    found: dict[str, set[str]] = {}
    for name in (node.id for node in view.graph.nodes if node.id in view.gates):
        told = view.gates[name]
        gone = {one.fingerprint for one in (*told.fixed, *told.unanswered)}
        new = indexes.keys() & {one.fingerprint for one in told.new}
        found[name] = (found.get(told.after, set()) - gone) | new
    return {name: sorted(indexes[one] for one in own) for name, own in found.items()}


def find_critical_path(graph: Graph, times: Mapping[str, NodeTime]) -> list[str]:
    """The nodes that the run's end waited for, the first first: each is the last to end of those
    that the next follows.

    Empty if no time is known. Of nodes that end at once a stage counts before its own checks and
    judges.
    """
    before, kinds = predecessors_of(graph), {node.id: node.kind for node in graph.nodes}

    path: dict[str, None] = {}
    passed: set[str] = set()

    def last(names: Iterable[str]) -> str:
        """Of these; a node without a time, which was skipped, stands for what it comes after."""
        known, waiting = set[str](), list(names)
        while waiting:
            name = waiting.pop()
            if name in times and name not in path:
                known.add(name)
            elif name not in times and name not in passed:
                passed.add(name)
                waiting += before[name]
        return max(
            known, key=lambda name: (times[name].end, kinds[name] not in OWNED, name), default=""
        )

    name = last(name for name in before if name in times)
    while name:
        path[name] = None
        name = last(before[name])
    return list(path)[::-1]


def span_of_stages(times: Iterable[NodeTime]) -> tuple[int, int]:
    """From the first beginning to the last end."""
    known = list(times)
    return (min(each.added for each in known), max(each.end for each in known)) if known else (0, 0)


def time_taken(view: View) -> str:
    """How long the nodes took, from the first to the last, and the run with what it does before and
    after them.
    """
    begun, ended = span_of_stages(view.times.values())
    nodes, run = (ended - begun) / 1000, view.summary.duration_ms / 1000 if view.summary else 0.0
    shown = format_seconds(nodes)
    return (
        shown
        if run <= nodes or format_seconds(run) == shown
        else f"{shown} of the run's {format_seconds(run)}"
    )


def long_wait(stage: Stage) -> str:
    """What it waited to start, in words, if that is long."""
    return f"waited {format_seconds(stage.waited)} to start" if stage.waited >= LEAST_WAIT_S else ""


def format_seconds(value: float | None) -> str:
    """A time as people read it; "" if it is not known."""
    if value is None:
        return ""
    if value < 0.9995:
        return f"{value * 1000:.0f} ms"
    if value < 59.95:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def format_stage_dollars(usd: float) -> str:
    """A cost."""
    return f"${usd:.4f}"


def format_line_counts(files: Sequence[tuple[str, FileView]]) -> str:
    """How many lines were added and deleted."""
    return (
        f"+{sum(file.added for _, file in files):,} −{sum(file.deleted for _, file in files):,}"
        if files
        else ""
    )
