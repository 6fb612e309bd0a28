"""Carrying out stages: an agent's turn or a gate, each a node of the run's graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager

from msgspec.structs import replace

from vibe_gate.context.facts import Facts
from vibe_gate.context.listeners import Progress
from vibe_gate.context.model_access import ModelAccess
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.context.world import RunContext
from vibe_gate.domain.agent import Agent
from vibe_gate.domain.document import plain
from vibe_gate.domain.event import Earlier
from vibe_gate.domain.leaving import PRIVATE
from vibe_gate.domain.provenance import hints_of_run
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import AgentAuthored, Summary
from vibe_gate.domain.verdict import short
from vibe_gate.domain.wire import end_kind
from vibe_gate.errors import UsageError
from vibe_gate.git import Repository
from vibe_gate.judging.verdict import RunVerdict
from vibe_gate.report.round import Round, answered_by, next_round
from vibe_gate.report.round_record import record_round
from vibe_gate.run.agent_approval import Approve, approved
from vibe_gate.run.agent_turns import AgentTurns, TrustedFiles, held_in, prompt_digest
from vibe_gate.run.kept_session import go_on, session_before
from vibe_gate.run.resume import given_again
from vibe_gate.run.review import reach_verdict
from vibe_gate.run.run_documents import summary_of
from vibe_gate.run.run_tree import RunTree, RunTrees
from vibe_gate.run.stage_graph import StageGraph
from vibe_gate.run.stage_request import StageRequest
from vibe_gate.run.stage_result import StageResult
from vibe_gate.sessions import SessionMeta

_NO_CASSETTE = "A cassette would keep the sessions that the agent is shown, which stay in this clone: leave out --wire record."


class Stages:
    """The stages of one run: `graph` says what has run, `trees` hold the files, `model` is the way
    to the model.
    """

    def __init__(
        self,
        facts: Facts,
        run: RunContext,
        repository: Repository,
        request: ReviewRequest,
        *,
        progress: Progress,
        tick: Progress | None,
        approve: Approve | None,
        files: Mapping[str, bytes],
    ) -> None:
        """`approve`: None if nobody is to be asked; `files` as of TrustedFiles."""
        self.facts, self.run = facts, run
        self.graph = StageGraph(run.record, progress)
        self.trees = RunTrees(repository, facts.change, run.record.run_id)
        self.model = ModelAccess(run, request, facts.gate)
        read, root = TrustedFiles(facts, repository, files), repository.root
        self.turns = AgentTurns(facts, run, self.model, read, root, progress, tick)
        self._request, self._progress, self._approve = request, progress, approve
        self._rounds: dict[str, Round] = {}
        """By the gate's node."""

    @contextmanager
    def open(self) -> Iterator[None]:
        """Carry stages out in this block; afterwards workspaces stay only as far as somebody goes
        on from them.
        """
        done = False
        try:
            yield
            done = True
        finally:
            with closing(self.model):
                for why in self.trees.leave(done=done):
                    self._progress("workspace", why)

    async def run_gate_stage(
        self, id: str, rubrics: tuple[Rubric, ...], after: Iterable[str], tree: RunTree
    ) -> StageResult:
        """Checks and judges of the change as it is now."""
        node = self.graph.add(id, after, kind="gate")
        self.graph.began(node)
        async with tree.reading():
            facts = self._facts_now(node, rubrics, tree)
            self.graph.edge(node, facts.checks_node)
            verdict = await reach_verdict(
                facts,
                self._request,
                tree.repository,
                self.run,
                lambda stage, text: self._progress(node, f"{stage}: {text}"),
                lambda change: (),  # whether the user's files changed is asked once, at the end
                self.model,
            )
            summary = summary_of(verdict, self.run)
            self._tell_round(node, verdict, summary)
            result = StageResult(
                id=id,
                node=node,
                outcome=verdict.outcome,
                before=tree.now,
                after=tree.now,
                verdict=verdict,
                lacks="nothing" if summary.extent == "nothing" else "",
            )
        return self._ended(result, "DONE")

    def _tell_round(self, node: str, verdict: RunVerdict, summary: Summary) -> None:
        """Write down what became of the findings of the last gate before it that asked one of its
        rubrics.
        """
        rubric_ids = {rubric.id for rubric in verdict.rubrics}
        last = self.graph.last_gate(node, rubric_ids)
        previous = self._rounds[last].state if last else None
        redact = self.run.redactor.text
        # A placeholder may be longer than what it stands for.
        findings = [
            replace(finding, message=short(redact(finding.message))) for finding in verdict.findings
        ]
        current_round = next_round(
            previous,
            findings,
            verdict.facts.change.after,
            touched=lambda _: True,
            blocking=lambda _: True,
            answered=answered_by(summary, previous),
        )
        self._rounds[node] = current_round
        self.run.record.event("gate.decided", node, **plain(record_round(current_round, last)))

    def _facts_now(self, node: str, rubrics: tuple[Rubric, ...], tree: RunTree) -> Facts:
        """The facts of the change as agents left it."""
        authored, agents = self.authored(tree), self.graph.agents_before(node)
        return replace(
            self.facts,
            change=tree.current,
            rubrics=rubrics,
            authored=authored,
            stage=node,
            agents=agents,
        )

    def authored(self, tree: RunTree) -> AgentAuthored:
        """Who wrote the change as it is now: an agent, if one of the run added to it."""
        before = self.facts.authored
        if not tree.written:
            return before
        return AgentAuthored(decision=True, hints=(*before.hints, *hints_of_run(tree.writers)))

    async def run_agent_stage(self, request: StageRequest) -> StageResult:
        """One turn of an agent."""
        agent, run = request.agent, self.run
        if agent.writes and agent.level == "none":
            raise UsageError(
                f'The agent {agent.id} has tools that write, so its isolation cannot be "none".'
            )
        node = self.graph.add(
            request.id,
            request.after,
            kind="stage",
            agent=agent.id,
            digest=agent.digest,
            isolation=held_in(agent, self.facts.gate),
        )
        tree = self.trees.of(request.workspace)
        recorded = (run.record.earlier or Earlier()).stages.get(node)
        session = self._session_to_go_on(request, tree, is_recorded=recorded is not None)
        prompt = prompt_digest(request, run.redactor.text)
        if recorded is not None:
            async with tree.reading():
                digests = agent.digest, prompt
                result = await given_again(
                    request.id, node, agent.id, digests, recorded, tree, run.record.directory
                )
            return self._ended(_with_lack(result, agent), _node_status(result), "recorded")
        if self._approve and not approved(
            self._approve, run.record, node, agent, request.prompt, self.model.cost.usd
        ):
            denied = StageResult(
                id=request.id,
                node=node,
                outcome="inconclusive",
                reason="a person denied it",
                agent=agent.id,
            )
            return self._ended(denied, "CANCELLED")

        def began(before: str) -> None:
            self.graph.began(node, before=before, prompt=prompt)
            self._progress(node, f"agent {agent.id}")

        result = await self.turns.run_stage(node, request, tree, session, began)
        return self._ended(_with_lack(result, agent), _node_status(result))

    def skip(self, id: str, after: Iterable[str], why: str, kind: str) -> StageResult:
        """A stage that is not run."""
        return self.graph.skipped(id, after, why, kind)

    def _session_to_go_on(
        self, request: StageRequest, tree: RunTree, *, is_recorded: bool
    ) -> SessionMeta | None:
        """The session to go on with, after its files are there. UsageError, StorageError.

        `is_recorded`: this run's turn of it had ended when the run died.
        """
        if not request.resume:
            return None
        sessions, meta = session_before(self.run, request.resume)
        note = go_on(sessions, meta, tree, self.run.record.run_id if is_recorded else "")
        if note:
            self.turns.notes.append(note)
        if meta.private:
            self.keep_private()
        return meta

    def keep_private(self) -> None:
        """Keep the run in this clone, as an agent is shown sessions that may not leave it.
        UsageError.
        """
        if self.model.wire.mode == "record":
            raise UsageError(_NO_CASSETTE)
        self.run.record.add_to_run_document(shown={"session": PRIVATE})
        self.turns.private = True

    def _ended(self, result: StageResult, status: str, how: str = "") -> StageResult:
        return self.graph.ended(result, status, self.model.spent_by(result.node), how)


def _with_lack(result: StageResult, agent: Agent) -> StageResult:
    """The result with what it lacks: an agent that is to edit files and leaves them as they were
    has done nothing.
    """
    return result if result.changed or not agent.edits else replace(result, lacks="unchanged")


def _node_status(result: StageResult) -> str:
    """Of an agent's node."""
    if result.outcome == "pass":
        return "DONE"
    return "CANCELLED" if end_kind(result.status) == "stopped" else "ERROR"
