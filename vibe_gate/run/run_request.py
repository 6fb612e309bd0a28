"""What a face asks of the walk of a workflow, and the plan that it means."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.agent import Agent, Isolation
from vibe_gate.domain.change import Change
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.workflow import WorkflowDefinition
from vibe_gate.gate.chosen import agent_named, rubrics_for, workflow_named
from vibe_gate.gate.fixing import FIX
from vibe_gate.run.agent_turns import isolation_of
from vibe_gate.run.repeated_run import RepeatedRun
from vibe_gate.run.resume import REVIEW_FIELDS, RUN_FIELDS, KeptAgentRun, KeptRun
from vibe_gate.run.schedule import run_stages_of_file
from vibe_gate.run.stage_request import StageRequest
from vibe_gate.run.stage_result import StageResult
from vibe_gate.run.workflow_plan import Plan, Workflow, load_workflow
from vibe_gate.run.workflow_steps import WorkflowContext


class RunRequest(Struct, frozen=True, kw_only=True):
    """What a face asks for: a workflow of the gate, one agent of it, or what a function makes of
    it.
    """

    review: ReviewRequest

    workflow: str = ""
    """The id of a workflow of the gate."""

    agent: str = ""
    """The id of an agent of the gate, in place of a workflow."""

    prompt: str = ""
    """What that agent is asked."""

    session: str = ""
    """The session that the agent goes on with."""

    plan: Callable[[Gate], Plan] | None = None
    """Makes the plan, in place of a workflow and an agent."""

    gate: Gate | None = None
    """In force in place of the one at the trusted revision."""

    model: str | None = None
    """For stages that name none."""

    interactive: bool = False
    """Whether a person is asked before each agent."""

    apply: bool = False
    """Put what the agents changed into the working tree, if the run passes and nothing of it steers
    agents or decides about a gate.
    """

    reviewing: bool = False
    """Whether the verdict is about the change as it was given, whatever agents made of it."""

    resumed: KeptRun | None = None
    """The run that is gone on with."""

    repeated: RepeatedRun | None = None
    """The run that is carried out again, as a new one."""

    fix: str = ""
    """The id of a stored run, whose change and rubrics it is about."""

    def as_kept(self) -> dict[str, Any]:
        """A KeptRequest as it is written."""
        limits = {name: getattr(self.review, name) for name in REVIEW_FIELDS}
        fields = {name: getattr(self, name) for name in RUN_FIELDS}
        return {"selection": asdict(self.review.selection), **limits, **fields}


def make_plan(request: RunRequest, gate: Gate, change: Change) -> Plan:
    """What the request means. UsageError, DefinitionError."""
    if request.plan is not None:
        return request.plan(gate)
    if request.agent:
        plan_agent = one_agent(
            request.agent, request.prompt, model=request.model, resume=request.session
        )
        return plan_agent(gate)
    rubrics = rubrics_for(gate, change, request.review.rubrics) if request.workflow == FIX else ()
    rubric_ids = [rubric.id for rubric in rubrics]
    return _plan_of_workflow(workflow_named(gate, request.workflow, rubric_ids), gate)


def _plan_of_workflow(definition: WorkflowDefinition, gate: Gate) -> Plan:
    if definition.file is None:
        plan = replace(plan_of(load_workflow(definition), gate), path=definition.path)
        agents = gate.agents
    else:
        agent_ids = [rule.agent for rule in definition.file.stage if rule.agent]
        plan = Plan(
            id=definition.id,
            steps=partial(run_stages_of_file, definition.file),
            timeout_s=definition.file.timeout_s,
            asks_agents=bool(agent_ids),
        )
        agents = tuple(agent_named(gate, agent_id) for agent_id in agent_ids)
    return replace(
        plan,
        prompt=f"workflow: {definition.id}",
        isolation=_weakest_isolation(agents, gate),
        files=dict(definition.files),
    )


def plan_of(workflow: Workflow, gate: Gate) -> Plan:
    """The plan of a workflow in Python, whose agents may be any of the gate's."""
    return Plan(
        id=workflow.id,
        steps=workflow.steps,
        timeout_s=workflow.timeout_s,
        defaults=workflow.defaults,
        prompt=f"workflow: {workflow.id}",
        isolation=_weakest_isolation(gate.agents, gate),
    )


def one_agent(
    agent: Agent | str,
    prompt: str,
    **fields: Any,  # noqa: ANN401  of StageRequest
) -> Callable[[Gate], Plan]:
    """One agent on its own, of the gate if an id names it."""

    def plan_of_agent(gate: Gate) -> Plan:
        definition = agent if isinstance(agent, Agent) else agent_named(gate, agent)
        stage_request = StageRequest(id=definition.id, agent=definition, prompt=prompt, **fields)

        async def steps(wf: WorkflowContext) -> StageResult:
            return await wf.stages.run_agent_stage(stage_request)

        return Plan(
            id=definition.id,
            steps=steps,
            prompt=prompt,
            isolation=isolation_of(definition, gate),
            agent_run=_kept_agent_run(agent, stage_request),
            asks_agents=True,
        )

    return plan_of_agent


def _kept_agent_run(agent: Agent | str, request: StageRequest) -> KeptAgentRun | None:
    """What the agent can be asked again with; None if results of other runs, a session or another
    repository are part of it. `agent`: itself, or the id of one of the gate.
    """
    if request.context or request.resume or request.workspace:
        return None
    return KeptAgentRun(
        agent=agent,
        schema=None if request.schema is None else dict(request.schema),
        model=request.model,
        timeout_s=request.timeout_s,
        max_cost_usd=request.max_cost_usd,
    )


def _weakest_isolation(agents: Iterable[Agent], gate: Gate) -> Isolation:
    """The weakest level in which one of them writes; "none" if none does."""
    levels = {isolation_of(agent, gate) for agent in agents}
    if "clone" in levels:
        return "clone"
    if "sandbox" in levels:
        return "sandbox"
    return "none"
