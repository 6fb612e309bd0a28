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
    """Nodes and results, each written down when it comes. `after`: by node, the nodes that it comes
    directly after.
    """

    def __init__(self, record: RunRecorder, progress: Progress) -> None:
        self.results: list[StageResult] = []
        self.after: dict[str, tuple[str, ...]] = {}
        self._times: Counter[str] = Counter()
        self._record, self._progress = record, progress

    def add(self, id: str, after: Iterable[str], **about: str) -> str:
        """A new node for the stage, after the nodes `after`; its id."""
        node = ""
        while not node or node in self.after:
            node = id + repeat_suffix(self._times[id])
            self._times[id] += 1
        self.after[node] = tuple(after)
        self._record.event("node.added", node, **about)
        for before in self.after[node]:
            self.edge(before, node)
        return node

    def edge(self, before: str, after: str) -> None:
        """Write down that one node comes after another."""
        self._record.event("edge.added", **{"from": before, "to": after})

    def began(self, node: str, **about: str) -> None:
        """The node is at work."""
        self._record.event("node.status", node, status="RUNNING", **about)

    def skipped(self, id: str, after: Iterable[str], why: str, kind: str) -> StageResult:
        """A stage that is not run."""
        node = self.add(id, after, kind=kind)
        self._record.event("node.status", node, status="SKIPPED", reason=why)
        self._progress(node, f"skipped: {why}")
        return StageResult(id=id, node=node, outcome="skipped", reason=why)

    def ended(self, result: StageResult, status: str, usd: float, how: str = "") -> StageResult:
        """The stage has ended, and cost `usd`."""
        self.results.append(result)
        trees = {"before": result.before, "after": result.after}
        self._record.event(
            "node.status",
            result.node,
            status=status,
            reason=result.reason,
            outcome=result.shown,
            **trees,
        )
        parts = [result.shown, how, f"${usd:.4f}" if usd else "", result.reason]
        self._progress(result.node, " · ".join(filter(None, parts)))
        return result

    def latest(self) -> tuple[str, ...]:
        """The nodes that have ended and that no other that has ended comes after, past those that
        were skipped, too.
        """
        ended = [result.node for result in self.results]
        passed = self.before(*ended)
        return tuple(node for node in ended if node not in passed)

    def before(self, *nodes: str) -> set[str]:
        """The nodes that any of these comes after, near and far."""
        passed: set[str] = set()
        waiting = [before for node in nodes for before in self.after[node]]
        while waiting:
            node = waiting.pop()
            if node not in passed:
                passed.add(node)
                waiting += self.after[node]
        return passed

    def last_gate(self, node: str, rubrics: Collection[str]) -> str:
        """The node of the last gate before this one that asked one of these rubrics; "" if none
        did.
        """
        before = self.before(node)
        asked = (
            one.node
            for one in reversed(self.results)
            if one.node in before
            and one.verdict
            and any(each.id in rubrics for each in one.verdict.rubrics)
        )
        return next(asked, "")

    def agents_before(self, node: str) -> dict[str, str]:
        """The agents' nodes that the node comes after, oldest first, each with its stage."""
        before = self.before(node)
        return {one.node: one.id for one in self.results if one.node in before and one.status}

    def unfinished(self, node: str, reason: str) -> None:
        """Say why a loop ended without passing, at the last node of its last iteration, which began
        with `node`.
        """
        at = max(
            at for at, one in enumerate(self.results) if node in (one.node, *self.before(one.node))
        )
        result = self.results[at]
        told = f"{reason}: {result.reason}" if result.reason else reason
        outcome = "inconclusive" if result.passed else result.outcome
        self.results[at] = replace(result, reason=told, outcome=outcome)
        self._record.event("node.status", result.node, status="DONE", reason=told, outcome=outcome)
