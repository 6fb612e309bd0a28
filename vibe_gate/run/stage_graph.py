"""The graph of a workflow's run: which stages ran, after which others, and what they came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from msgspec.structs import replace

from vibe_gate.context.listeners import Listeners, StageStep
from vibe_gate.domain.document import plain
from vibe_gate.domain.event import NodeConfig
from vibe_gate.domain.node_names import repeat_suffix
from vibe_gate.run.stage_result import StageResult
from vibe_gate.store.run_recorder import RunRecorder


class StageGraph:
    """Nodes and results, each written down when it comes."""

    def __init__(self, record: RunRecorder, listeners: Listeners) -> None:
        self.results: list[StageResult] = []
        """Of the stages that have ended, in the order in which they did."""
        self._direct_predecessors: dict[str, tuple[str, ...]] = {}
        """By node the nodes that it comes directly after."""
        self._repeats: Counter[str] = Counter()
        """By stage how often a node was named after it."""
        self._planned: set[str] = set()
        """Nodes of stages that have not begun; each has its stage's id."""
        self._unended: dict[str, str] = {}
        """Nodes that have not ended, each with its status."""
        self.unrun: dict[str, str] = {}
        """Nodes that did not run, each with what became of it, in the order in which that was
        known.
        """
        self._record = record
        self._progress = listeners.progress
        self._tick = listeners.tick

    def plan_stage(self, id: str, needs: Iterable[str], **fields: str) -> None:
        """Write down a stage that has not begun, and the stages that must end before it. `fields`:
        of the event.
        """
        self._planned.add(id)
        self._record.event("node.added", id, stage=id, needs=list(needs), **fields)
        self._mark_ready(id)

    def add_node(self, id: str, after: Iterable[str], **fields: str) -> str:
        """The stage's planned node, or a new one, after the nodes `after`; its id. `fields`: of the
        event.
        """
        is_planned = id in self._planned
        node = self._place_node(id, after, fields)
        if not is_planned:
            self._mark_ready(node)
        return node

    def _place_node(self, id: str, after: Iterable[str], fields: Mapping[str, str]) -> str:
        node = self._name_node(id)
        self._direct_predecessors[node] = tuple(after)
        self._record.event("node.added", node, stage=id, **fields)
        for predecessor in self._direct_predecessors[node]:
            self.add_edge(predecessor, node)
        return node

    def _name_node(self, id: str) -> str:
        """The planned node of the stage; if it has begun or there is none, a name that no node
        has.
        """
        if id in self._planned:
            self._planned.remove(id)
            self._repeats[id] += 1
            return id
        node = ""
        while not node or node in self._direct_predecessors or node in self._planned:
            node = id + repeat_suffix(self._repeats[id])
            self._repeats[id] += 1
        return node

    def _mark_ready(self, node: str) -> None:
        """The node has not begun. One whose recorded result is given again does not begin."""
        self._unended[node] = "READY"
        earlier_run = self._record.earlier
        if earlier_run is not None and node in earlier_run.stages:
            return
        self._record.event("node.status", node, status="READY")
        self._tell(node, "ready")

    def _tell(self, node: str, kind: Literal["ready", "ended"]) -> None:
        if self._tick is not None:
            self._tick(StageStep(node=node, kind=kind))

    def add_edge(self, before: str, after: str) -> None:
        """Write down that one node comes after another."""
        self._record.event("edge.added", **{"from": before, "to": after})

    def mark_running(self, node: str, config: NodeConfig, **fields: str) -> None:
        """The node is at work, with this configuration. `fields`: of the event."""
        self._unended[node] = "RUNNING"
        self._record.event("node.status", node, status="RUNNING", config=plain(config), **fields)

    def skip_stage(self, id: str, after: Iterable[str], reason: str, kind: str) -> StageResult:
        """A stage that is not run."""
        node = self._place_node(id, after, {"kind": kind})
        self._unended.pop(node, None)
        self.unrun[node] = f"skipped: {reason}"
        self._record.event("node.status", node, status="SKIPPED", reason=reason)
        self._progress(node, f"skipped: {reason}")
        self._tell(node, "ended")
        return StageResult(id=id, node=node, outcome="skipped", reason=reason)

    def end_stage(
        self, result: StageResult, status: str, usd: float, remark: str = ""
    ) -> StageResult:
        """The stage has ended, and cost `usd`. `remark`: a word for people about how it came to
        that.
        """
        self.results.append(result)
        self._unended.pop(result.node, None)
        self._record.event(
            "node.status",
            result.node,
            status=status,
            reason=result.reason,
            outcome=result.displayed_outcome,
            before=result.before,
            after=result.after,
        )
        price = f"${usd:.4f}" if usd else ""
        parts = [result.displayed_outcome, remark, price, result.reason]
        self._progress(result.node, " · ".join(filter(None, parts)))
        self._tell(result.node, "ended")
        return result

    def cancel_unended(self) -> None:
        """The run has ended: so has every stage that had not, begun or not."""
        for node, status in self._unended.items():
            reason = "the run ended before it began"
            if status == "RUNNING":
                reason = "the run ended before it did"
            self.unrun[node] = f"cancelled: {reason}"
            self._record.event("node.status", node, status="CANCELLED", reason=reason)
        self._unended.clear()

    def latest_nodes(self) -> tuple[str, ...]:
        """The nodes that have ended and that no other that has ended comes after, past those that
        were skipped, too.
        """
        nodes = [result.node for result in self.results]
        earlier_nodes = self.nodes_before(*nodes)
        return tuple(node for node in nodes if node not in earlier_nodes)

    def nodes_before(self, *nodes: str) -> set[str]:
        """The nodes that any of these comes after, near and far."""
        earlier_nodes: set[str] = set()
        waiting: list[str] = []
        for node in nodes:
            waiting += self._direct_predecessors[node]
        while waiting:
            node = waiting.pop()
            if node not in earlier_nodes:
                earlier_nodes.add(node)
                waiting += self._direct_predecessors[node]
        return earlier_nodes

    def last_gate_before(self, node: str, rubric_ids: Collection[str]) -> str:
        """The node of the last gate before this one that asked one of these rubrics; "" if none
        did.
        """
        earlier_nodes = self.nodes_before(node)
        for result in reversed(self.results):
            if result.node not in earlier_nodes or result.verdict is None:
                continue
            if any(rubric.id in rubric_ids for rubric in result.verdict.rubrics):
                return result.node
        return ""

    def agents_before(self, node: str) -> dict[str, str]:
        """The agents' nodes that the node comes after, oldest first, each with its stage."""
        earlier_nodes = self.nodes_before(node)
        stages = {}
        for result in self.results:
            if result.node in earlier_nodes and result.status:
                stages[result.node] = result.id
        return stages

    def mark_unfinished(self, node: str, reason: str) -> None:
        """Say why a loop ended without passing, at the last node of its last iteration, which began
        with `node`.
        """
        position = self._last_result_of_iteration(node)
        result = self.results[position]
        whole_reason = f"{reason}: {result.reason}" if result.reason else reason
        outcome = "inconclusive" if result.passed else result.outcome
        self.results[position] = replace(result, reason=whole_reason, outcome=outcome)
        self._record.event(
            "node.status", result.node, status="DONE", reason=whole_reason, outcome=outcome
        )

    def _last_result_of_iteration(self, node: str) -> int:
        """Where the last result is that is of this node, or of one after it."""
        last = -1
        for position, result in enumerate(self.results):
            if result.node == node or node in self.nodes_before(result.node):
                last = position
        assert last >= 0, "an iteration has ended before it is marked"
        return last
