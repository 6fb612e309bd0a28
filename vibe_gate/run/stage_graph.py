"""The graph of a workflow's run: which stages ran, after which others, and what they came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from msgspec.structs import replace

from vibe_gate.context.listeners import Progress
from vibe_gate.domain.node_names import repeat_suffix
from vibe_gate.run.stage_result import StageResult
from vibe_gate.store.run_recorder import RunRecorder


class StageGraph:
    """Nodes and results, each written down when it comes."""

    def __init__(self, record: RunRecorder, progress: Progress) -> None:
        self.results: list[StageResult] = []
        """Of the stages that have ended, in the order in which they did."""
        self._direct_predecessors: dict[str, tuple[str, ...]] = {}
        """By node the nodes that it comes directly after."""
        self._repeats: Counter[str] = Counter()
        """By stage how often a node was named after it."""
        self._record = record
        self._progress = progress

    def add_node(self, id: str, after: Iterable[str], **fields: str) -> str:
        """A new node for the stage, after the nodes `after`; its id. `fields`: of the event."""
        node = ""
        while not node or node in self._direct_predecessors:
            node = id + repeat_suffix(self._repeats[id])
            self._repeats[id] += 1
        self._direct_predecessors[node] = tuple(after)
        self._record.event("node.added", node, stage=id, **fields)
        for predecessor in self._direct_predecessors[node]:
            self.add_edge(predecessor, node)
        return node

    def add_edge(self, before: str, after: str) -> None:
        """Write down that one node comes after another."""
        self._record.event("edge.added", **{"from": before, "to": after})

    def mark_running(self, node: str, **fields: str) -> None:
        """The node is at work. `fields`: of the event."""
        self._record.event("node.status", node, status="RUNNING", **fields)

    def skip_stage(self, id: str, after: Iterable[str], reason: str, kind: str) -> StageResult:
        """A stage that is not run."""
        node = self.add_node(id, after, kind=kind)
        self._record.event("node.status", node, status="SKIPPED", reason=reason)
        self._progress(node, f"skipped: {reason}")
        return StageResult(id=id, node=node, outcome="skipped", reason=reason)

    def end_stage(
        self, result: StageResult, status: str, usd: float, remark: str = ""
    ) -> StageResult:
        """The stage has ended, and cost `usd`. `remark`: a word for people about how it came to
        that.
        """
        self.results.append(result)
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
        return result

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
