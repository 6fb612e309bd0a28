"""THE WALK of a workflow: a change comes in, stages run, a verdict and a patch go out. Read review.py first.

    request -> Change -> Gate at the trusted revision -> plan: TOML, Python, one agent
            -> bundle -> stages, each a node -> outcome of the last ones -> Summary, sealed -> applied, if wanted

A stage is an agent's turn or a gate (checks, then judges, as in a review). Agents that write share one workspace; the
user's files are touched by `--apply` alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from vibe_gate.domain.agent import Agent, Isolation
from vibe_gate.domain.change import Change
from vibe_gate.domain.gate import Budget, Gate
from vibe_gate.domain.upkeep import WORKSPACE_DAYS
from vibe_gate.domain.verdict import RunOutcome
from vibe_gate.errors import GateError, StorageError
from vibe_gate.gate import chosen, trusted
from vibe_gate.git import open_repository
from vibe_gate.run.conclusion import WorkflowRun, concluded
from vibe_gate.run.deadline import GRACE_S, Deadline
from vibe_gate.run.prompts import StageRequest
from vibe_gate.run.resume import KeptRun, told
from vibe_gate.run.review import Begun, Progress, ReviewRequest, World, begin, keep_contents, recording
from vibe_gate.run.schedule import scheduled
from vibe_gate.run.stages import Approve, Stages, held_in
from vibe_gate.run.workflow import Defaults, Plan, Workflow, load, place_of
from vibe_gate.store import open_state


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What a face asks for: the workflow `workflow` of the gate, its agent `agent`, or what `plan` makes of the gate.

    The agent is asked `prompt`, and goes on with the session `session` if that is given. `gate`: in force in place of
    the one at the trusted revision. `model` is for stages that name none. `interactive`: a person is asked before each
    agent. `apply`: put what the agents changed into the working tree, if the run passes and nothing of it steers agents
    or decides about a gate. `reviewing`: the verdict is about the change as it was given, whatever agents made of it.
    `resumed`: the run that is gone on with.
    """

    review: ReviewRequest
    workflow: str = ""
    agent: str = ""
    prompt: str = ""
    session: str = ""
    plan: Callable[[Gate], Plan] | None = None
    gate: Gate | None = None
    model: str | None = None
    interactive: bool = False
    apply: bool = False
    reviewing: bool = False
    resumed: KeptRun | None = None


async def run_workflow(
    request: RunRequest,
    *,
    start: Path,
    environ: Mapping[str, str],
    clock: Callable[[], datetime],
    progress: Progress,
    tick: Progress | None = None,
    approve: Approve | None = None,
    began: Callable[[str], object] | None = None,
) -> WorkflowRun:
    """Run a workflow about a change of the repository around `start`.

    `tick` hears of every step of an agent; `approve` asks a person; `began` is told the run's id. Raises GateError:
    UsageError and its kinds for what cannot be understood, GatewayError without a way to the model, ApprovalNeeded.
    """
    with open_repository(start, environ) as repository:
        world = World(repository, environ, clock, open_state(repository.common_dir), time.monotonic())
        progress("change", "reading the change")
        with Deadline(world.began, request.review.deadline_s or Budget().deadline_s).interrupting(grace_s=0):
            change = repository.change(request.review.selection)
            base, definitions = request.review.base, request.review.definitions
            gate = request.gate or trusted.gate_for(repository, change, base=base, definitions=definitions)
            plan = _plan(request, gate)
            begun = _begun(request, plan, change, gate, world)
        if began is not None:
            began(begun.run.record.run_id)
        await asyncio.sleep(0)  # from here on an event loop is needed (faces.progress)
        stages = Stages(
            begun,
            repository,
            request.review,
            progress=progress,
            tick=tick,
            approve=(approve or (lambda *_: None)) if request.interactive else None,
            files=plan.files,
        )
        with recording(begun), stages.open():
            keep_contents(repository, change, begun.run, named=False)
            problem = await _carried_out(plan, stages, request)
            progress("seal", "writing the verdict")
            done = concluded(plan.id, stages, problem, reviewing=request.reviewing)
        repository.remove_old_workspaces(clock() - timedelta(days=WORKSPACE_DAYS))
        if not request.apply or done.patch is None or done.steers or done.review.summary.exit_code:
            return done
        try:
            repository.apply(done.made, stages.tree.start, done.patch)
        except GateError as error:
            return replace(done, unapplied=error)
        return replace(done, applied=True)


def _begun(request: RunRequest, plan: Plan, change: Change, gate: Gate, world: World) -> Begun:
    """The run, with a new bundle, or with that of the run that is gone on with."""
    mode = "interactive" if request.interactive else "auto"
    asked = told(request)
    about = {"workflow": plan.id, "mode": mode, "prompt": plan.prompt, "isolation": plan.isolation, "request": asked}
    if request.plan is not None:
        del about["request"]  # an agent of a script, which nobody could give again
    resumed = request.resumed
    if resumed is not None:
        resumed.require_same(change, gate)
    begun = begin(
        request.review, change, gate, (), world, deadline_s=plan.timeout_s, about=about,
        resume=resumed.run_id if resumed else "",
    )  # fmt: skip
    if resumed is not None and resumed.mode != mode:
        begun.run.record.event("run.mode_changed", mode=mode)
    return begun


def one_agent(
    agent: Agent | str,
    prompt: str,
    *,
    patch: bytes = b"",
    **how: Any,  # noqa: ANN401  fields of StageRequest
) -> Callable[[Gate], Plan]:
    """One agent on its own, of the gate if an id names it; `patch` is put into the files before it begins."""

    def plan(gate: Gate) -> Plan:
        found = agent if isinstance(agent, Agent) else chosen.agent_named(gate, agent)
        asked = StageRequest(id=found.id, agent=found, prompt=prompt, **how)
        steps, isolation = (lambda wf: wf.stages.agent(asked)), held_in(found, gate)
        return Plan(id=found.id, steps=steps, prompt=prompt, isolation=isolation, patch=patch)

    return plan


def _plan(request: RunRequest, gate: Gate) -> Plan:
    """What the request means. UsageError, DefinitionError."""
    if request.plan is not None:
        return request.plan(gate)
    if request.agent:
        return one_agent(request.agent, request.prompt, model=request.model, resume=request.session)(gate)
    found, agents = chosen.workflow_named(gate, request.workflow), gate.agents
    if found.file is None:
        plan = load(found)
    else:
        plan = Plan(id=found.id, steps=partial(scheduled, found.file), timeout_s=found.file.timeout_s)
        agents = tuple(chosen.agent_named(gate, rule.agent) for rule in found.file.stage if rule.agent)
    isolation, files = _isolation(agents, gate), dict(found.files)
    return replace(plan, prompt=f"workflow: {found.id}", isolation=isolation, files=files)


def _isolation(agents: Iterable[Agent], gate: Gate) -> Isolation:
    """The weakest level in which one of them writes; "none" if none does."""
    levels = {held_in(agent, gate) for agent in agents} - {"none"}
    return "clone" if "clone" in levels else "sandbox" if levels else "none"


async def _carried_out(plan: Plan, stages: Stages, request: RunRequest) -> tuple[RunOutcome, str] | None:
    """Run the steps; what went wrong outside of every stage: the deadline, or an error of a Python workflow."""
    defaults = Defaults(request.model or plan.defaults.model, plan.defaults.workspace)
    deadline = stages.run.deadline
    try:
        async with asyncio.timeout(deadline.left() + GRACE_S):
            stages.tree.put(plan.patch)
            await plan.steps(Workflow(stages, defaults))
    except TimeoutError as error:
        return ("inconclusive", deadline.reached) if not deadline.left() else ("error", repr(error))
    except GateError as error:
        if not (request.session and isinstance(error, StorageError)) or request.resumed is not None:
            raise
        return "error", str(error)  # another process has the session: this run has ended, and is not resumed
    except Exception as error:
        if not plan.path:
            raise
        return "error", stages.run.redactor.text(place_of(error, plan.path))
    return None
