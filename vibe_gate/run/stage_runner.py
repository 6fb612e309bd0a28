"""Carrying out stages: an agent's turn or a gate, each a node of the run's graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager

from msgspec.structs import replace

from vibe_gate.context.facts import Facts
from vibe_gate.context.listeners import Listeners
from vibe_gate.context.model_access import ModelAccess
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.context.world import RunContext
from vibe_gate.domain.agent import Agent
from vibe_gate.domain.document import plain
from vibe_gate.domain.event import Earlier, EndedStage, NodeConfig
from vibe_gate.domain.leaving import PRIVATE, SHARED, may_leave
from vibe_gate.domain.provenance import hints_of_run
from vibe_gate.domain.rubric import Claim, Rubric
from vibe_gate.domain.summary import AgentAuthored, LeftAlone, Summary
from vibe_gate.domain.verdict import short
from vibe_gate.domain.wire import end_kind
from vibe_gate.errors import UsageError
from vibe_gate.gate.fixing import left_alone_in, without_touched_files
from vibe_gate.git import Repository
from vibe_gate.judging.repeats import leave_out_repeats
from vibe_gate.judging.run_verdict import RunVerdict
from vibe_gate.report.round import Round, answered_by, next_round
from vibe_gate.report.round_record import record_round
from vibe_gate.run.agent_approval import DENIAL, Approve, ask_approval
from vibe_gate.run.agent_setup import AgentSetups
from vibe_gate.run.agent_turns import AgentTurns, TrustedFiles, prompt_digest
from vibe_gate.run.handed_over import turns_of_other_runs
from vibe_gate.run.kept_session import restore_files_of_session, session_before
from vibe_gate.run.repair_brief import (
    RepairBrief,
    RepairSource,
    brief_for_context,
    brief_for_repair,
)
from vibe_gate.run.repeated_run import RepeatedRun
from vibe_gate.run.resume import restore_result
from vibe_gate.run.review import reach_verdict
from vibe_gate.run.run_documents import summary_of
from vibe_gate.run.run_tree import RunTree, RunTrees
from vibe_gate.run.stage_graph import StageGraph
from vibe_gate.run.stage_request import StageRequest
from vibe_gate.run.stage_result import StageResult
from vibe_gate.sessions import SessionMeta

_NO_CASSETTE = (
    "A cassette would keep the sessions that the agent is shown, which stay in this clone: "
    "leave out --wire record."
)


class Stages:
    """Runs the stages of one run."""

    def __init__(
        self,
        facts: Facts,
        run: RunContext,
        repository: Repository,
        request: ReviewRequest,
        listeners: Listeners,
        *,
        approve: Approve | None,
        files: Mapping[str, bytes],
        repeated: RepeatedRun | None,
    ) -> None:
        """`approve`: None if nobody is to be asked; `files` as of TrustedFiles; `repeated`: the run
        that this one is a repeat of.
        """
        self.facts = facts
        self.run = run
        self.graph = StageGraph(run.record, listeners)
        """What has run."""
        self.trees = RunTrees(repository, facts.change, run.record.run_id)
        """The files."""
        self.model = ModelAccess(run, request, facts.gate)
        """The way to the model."""
        trusted_files = TrustedFiles(facts, repository, files)
        self.turns = AgentTurns(facts, run, self.model, trusted_files, repository.root, listeners)
        self.setups = AgentSetups(facts, request, run.record, repository.root, repeated)
        """What is loaded of the project's own Claude Code."""
        self._request = request
        self._progress = listeners.progress
        self._approve = approve
        self.repair: RepairSource | None = None
        """What agents that write repair; None if the run is no repair."""
        self._rounds: dict[str, Round] = {}
        """By the gate's node."""

    @contextmanager
    def open(self) -> Iterator[None]:
        """Carry stages out in this block; afterwards workspaces stay only as far as somebody goes
        on from them.
        """
        has_ended = False
        try:
            yield
            has_ended = True
        finally:
            with closing(self.model):
                for problem in self.trees.close(has_ended=has_ended):
                    self._progress("workspace", problem)

    async def run_gate_stage(
        self, id: str, rubrics: tuple[Rubric, ...], after: Iterable[str], tree: RunTree
    ) -> StageResult:
        """Checks and judges of the change as it is now."""
        node = self.graph.add_node(id, after, kind="gate")
        async with tree.reading():
            config = NodeConfig(rubrics=tuple(rubric.id for rubric in rubrics))
            self.graph.mark_running(node, config)
            facts = self._facts_now(node, rubrics, tree)
            self.graph.add_edge(node, facts.checks_node)
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
            self._record_round(node, verdict, summary)
            result = StageResult(
                id=id,
                node=node,
                outcome=verdict.outcome,
                before=tree.now,
                after=tree.now,
                verdict=verdict,
                lacks="nothing" if summary.extent == "nothing" else "",
            )
        return self._end_stage(result, "DONE")

    def _record_round(self, node: str, verdict: RunVerdict, summary: Summary) -> None:
        """Write down what became of the findings of the last gate before it that asked one of its
        rubrics.
        """
        rubric_ids = {rubric.id for rubric in verdict.rubrics}
        earlier_gate = self.graph.last_gate_before(node, rubric_ids)
        earlier_state = self._rounds[earlier_gate].state if earlier_gate else None
        redact = self.run.redactor.text
        # A placeholder may be longer than what it stands for.
        findings = [
            replace(finding, message=short(redact(finding.message))) for finding in verdict.findings
        ]
        current_round = next_round(
            earlier_state,
            findings,
            verdict.facts.change.after,
            touched=lambda _: True,
            blocking=lambda _: True,
            answered=answered_by(summary, earlier_state),
        )
        self._rounds[node] = current_round
        record = plain(record_round(current_round, earlier_gate))
        self.run.record.event("gate.decided", node, **record)

    def _facts_now(self, node: str, rubrics: tuple[Rubric, ...], tree: RunTree) -> Facts:
        """The facts of the change as agents left it, with what they left alone as a claim."""
        agents = self.graph.agents_before(node)
        claims = self.facts.claims
        left_alone = "\n".join(note.text for note in self.left_alone(agents))
        if left_alone:
            claims += (Claim("left_alone", left_alone, is_private=self.turns.private),)
        return replace(
            self.facts,
            change=tree.current,
            rubrics=rubrics,
            claims=claims,
            authored=self.authors_of(tree),
            stage=node,
            agents=agents,
        )

    def left_alone(self, nodes: Collection[str] | None = None) -> list[LeftAlone]:
        """What the agents at these nodes say they left alone, and no later one of them touched; None:
        all agents. Each text once.
        """
        notes: dict[str, LeftAlone] = {}
        results = [result for result in self.graph.results if nodes is None or result.node in nodes]
        patches = [result.patch.decode("utf-8", "replace") for result in results]
        for number, result in enumerate(results, start=1):
            note = without_touched_files(left_alone_in(result.message), patches[number:])
            text = self.public_words(note, result.patch)
            if text:
                notes[text] = LeftAlone(node=result.node, text=text)
        return list(notes.values())

    def public_words(self, text: str, patch: bytes) -> str:
        """What an agent said, without secrets and without what it repeats of the sessions that it
        was shown. `patch`: what it changed.
        """

        def change_texts() -> Iterator[str]:
            yield self.trees.own.repository.patch(self.facts.change).decode("utf-8", "replace")
            yield patch.decode("utf-8", "replace")

        prompts: list[str] = []
        if self.repair:
            for material in self.repair.sessions:
                prompts += material.prompts
        public_text = self.run.redactor.text(text)
        if prompts:
            return leave_out_repeats(public_text, prompts, change_texts)
        return public_text

    def authors_of(self, tree: RunTree) -> AgentAuthored:
        """Who wrote the change as it is now: an agent, if one of the run added to it."""
        authors = self.facts.authored
        if not tree.is_changed:
            return authors
        hints = (*authors.hints, *hints_of_run(tree.writers))
        return AgentAuthored(decision=True, hints=hints)

    async def run_agent_stage(self, request: StageRequest) -> StageResult:
        """One turn of an agent: its recorded one if the run is gone on with, else a new one, if the
        person who is asked lets it begin.
        """
        agent = request.agent
        node = self._add_agent_node(request)
        tree = self.trees.of(request.workspace)
        earlier_run = self.run.record.earlier or Earlier()
        ended_stage = earlier_run.stages.get(node)
        session = self._session_to_go_on(request, tree, is_recorded=ended_stage is not None)
        handed_turns = turns_of_other_runs(request.context, self.run.record.run_id)
        await tree.hand_over(tuple(handed_turns))
        setup = self.setups.setup_of(agent, request.prompt, tree)
        prompt = prompt_digest(request, self.run.redactor.text, setup)
        if ended_stage is not None:
            return await self._restore_stage(node, request, ended_stage, tree, prompt)
        if setup is not None:
            self.setups.require_trusted_files(agent, setup, tree)
        if not self._is_approved(node, request):
            return self._end_stage(_denied_result(node, request), "CANCELLED")

        def began(before: str) -> None:
            # Another stage may have written while this one waited for the workspace.
            if setup is not None:
                self.setups.require_trusted_files(agent, setup, tree)
            config = self.turns.config_of(request)
            self.graph.mark_running(node, config, before=before, prompt=prompt)
            self._progress(node, f"agent {agent.id}")

        def brief() -> RepairBrief:
            if self.repair is None or not agent.writes:
                return brief_for_context(request.context)
            return brief_for_repair(self.repair, request.context, tree, self.graph.results)

        result = await self.turns.run_stage(node, request, tree, session, brief, began, setup)
        return self._end_stage(_with_lack(result, agent), _node_status(result))

    async def _restore_stage(
        self,
        node: str,
        request: StageRequest,
        ended_stage: EndedStage,
        tree: RunTree,
        prompt: str,
    ) -> StageResult:
        """End the stage with its recorded turn. `prompt`: the digest of what it would be asked."""
        agent = request.agent
        async with tree.reading():
            result = await restore_result(
                request.id,
                node,
                agent.id,
                (agent.digest, prompt),
                ended_stage,
                tree,
                self.run.record.directory,
            )
        return self._end_stage(_with_lack(result, agent), _node_status(result), "recorded")

    def _add_agent_node(self, request: StageRequest) -> str:
        """The node of an agent's stage. UsageError: the agent may not be run as it is defined."""
        agent = request.agent
        if agent.writes and agent.level == "none":
            raise UsageError(
                f'The agent {agent.id} has tools that write, so its isolation cannot be "none".'
            )
        return self.graph.add_node(request.id, request.after, **self._fields_of_agent(agent))

    def _fields_of_agent(self, agent: Agent) -> dict[str, str]:
        """What node.added says of a stage of this agent."""
        return {"kind": "stage", "agent": agent.id, "digest": agent.digest}

    def _is_approved(self, node: str, request: StageRequest) -> bool:
        """Whether the agent may begin. ApprovalNeeded: nobody is there to be asked."""
        if self._approve is None:
            return True
        usd = self.model.cost.usd
        return ask_approval(
            self._approve, self.run.record, node, request.agent, request.prompt, usd
        )

    def plan_stage(self, id: str, needs: Iterable[str], agent: Agent | None, prompt: str) -> None:
        """Write down that a stage is to come, of the agent or, without one, of rubrics; `needs`:
        stages that must end before. UsageError: its set-up cannot be loaded.
        """
        if agent is not None and agent.setup != "none":
            setup = self.setups.setup_of(agent, prompt, self.trees.own)
            # A stage that is resumed may have ended before files were changed.
            if setup is not None and self.run.record.earlier is None:
                self.setups.require_trusted_files(agent, setup, self.trees.own)
        fields = self._fields_of_agent(agent) if agent else {"kind": "gate"}
        self.graph.plan_stage(id, needs, **fields)

    def skip_stage(self, id: str, after: Iterable[str], reason: str, kind: str) -> StageResult:
        """A stage that is not run."""
        return self.graph.skip_stage(id, after, reason, kind)

    def _session_to_go_on(
        self, request: StageRequest, tree: RunTree, *, is_recorded: bool
    ) -> SessionMeta | None:
        """The session to go on with, after its files are there. UsageError, StorageError.

        `is_recorded`: this run's turn of it had ended when the run died.
        """
        if not request.resume:
            return None
        sessions, meta = session_before(self.run, request.resume)
        resumed_run = self.run.record.run_id if is_recorded else ""
        problem = restore_files_of_session(sessions, meta, tree, resumed_run)
        if problem:
            self.turns.notes.append(problem)
        self.show_session(PRIVATE if meta.private else SHARED)
        return meta

    def show_session(self, visibility: str) -> None:
        """Note that an agent is shown sessions, PRIVATE or SHARED: the run then stays in this clone
        if they must.

        UsageError: they must, and a cassette would take them out of it.
        """
        visibilities = {"session": visibility}
        if may_leave(visibilities):
            return
        if self.model.wire.mode == "record":
            raise UsageError(_NO_CASSETTE)
        self.run.record.add_to_run_document(shown=visibilities)
        self.turns.private = True

    def _end_stage(self, result: StageResult, status: str, remark: str = "") -> StageResult:
        usd = self.model.spent_by(result.node)
        return self.graph.end_stage(result, status, usd, remark)


def _denied_result(node: str, request: StageRequest) -> StageResult:
    return StageResult(
        id=request.id,
        node=node,
        outcome="inconclusive",
        reason=DENIAL,
        agent=request.agent.id,
    )


def _with_lack(result: StageResult, agent: Agent) -> StageResult:
    """The result with what it lacks: an agent that is to edit files and leaves them as they were
    has done nothing.
    """
    if agent.edits and not result.changed:
        return replace(result, lacks="unchanged")
    return result


def _node_status(result: StageResult) -> str:
    """Of an agent's node."""
    if result.outcome == "pass":
        return "DONE"
    if end_kind(result.status) == "stopped":
        return "CANCELLED"
    return "ERROR"
