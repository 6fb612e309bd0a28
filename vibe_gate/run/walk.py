"""THE WALK of a workflow: a change comes in, stages run, a verdict and a patch go out. Read
review.py first.

    request -> Change -> Gate at the trusted revision -> plan: TOML, Python, one agent
            -> facts -> stages, each a node -> outcome of the last ones -> Summary, sealed -> applied, if wanted

A stage is an agent's turn or a gate (checks, then judges, as in a review). Agents that write share
one workspace; the user's files are touched by `--apply` alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from vibe_gate.context.deadline import GRACE_S, Deadline
from vibe_gate.context.facts import Facts
from vibe_gate.context.listeners import Meter, Progress
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.context.world import RunContext, World
from vibe_gate.domain.agent import Agent, Isolation
from vibe_gate.domain.change import Change, FileVersion
from vibe_gate.domain.environment import Environment
from vibe_gate.domain.gate import Budget, Gate
from vibe_gate.domain.upkeep import WORKSPACE_DAYS
from vibe_gate.domain.verdict import RunOutcome
from vibe_gate.errors import GateError, GatewayError, StorageError, UsageError
from vibe_gate.gate.chosen import agent_named, rubrics_for, workflow_named
from vibe_gate.gate.fixing import FIX
from vibe_gate.gate.trusted import gate_for
from vibe_gate.gateway import NO_CREDENTIALS, find_upstream
from vibe_gate.git import Repository, open_repository
from vibe_gate.run.agent_approval import Approve, leave_unanswered
from vibe_gate.run.agent_turns import isolation_of
from vibe_gate.run.conclusion import WorkflowRun, conclude_run
from vibe_gate.run.fact_finding import catch_up, facts_of
from vibe_gate.run.fix import Repair, how_it_was_made, patch_of, repair_of
from vibe_gate.run.replay import recall_answers
from vibe_gate.run.resume import LIMITS, OWN, KeptRun
from vibe_gate.run.run_bundle import keep_contents, open_run, recording, world_around
from vibe_gate.run.schedule import run_stages_of_file
from vibe_gate.run.stage_request import Material, StageRequest, found_by
from vibe_gate.run.stage_runner import Stages
from vibe_gate.run.team_store import share_answers
from vibe_gate.run.workflow_steps import Defaults, Plan, Workflow, load, place_of
from vibe_gate.store.applied_writes import AppliedWrite, note_applied


class RunRequest(Struct, frozen=True, kw_only=True):
    """What a face asks for: the workflow `workflow` of the gate, its agent `agent`, or what `plan`
    makes of the gate.

    The agent is asked `prompt`, and goes on with the session `session` if that is given. `gate`: in
    force in place of the one at the trusted revision. `model` is for stages that name none.
    `interactive`: a person is asked before each agent. `apply`: put what the agents changed into
    the working tree, if the run passes and nothing of it steers agents or decides about a gate.
    `reviewing`: the verdict is about the change as it was given, whatever agents made of it.
    `resumed`: the run that is gone on with. `fix`: the id of a stored run, whose change and rubrics
    it is about.
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
    fix: str = ""


async def run_workflow(
    request: RunRequest,
    *,
    start: Path,
    environ: Mapping[str, str],
    clock: Callable[[], datetime],
    progress: Progress,
    meter: Meter | None = None,
    tick: Progress | None = None,
    approve: Approve | None = None,
    began: Callable[[str], object] | None = None,
) -> WorkflowRun:
    """Run a workflow about a change of the repository around `start`.

    `meter` hears what it costs; `tick` hears of every step of an agent; `approve` asks a person;
    `began` is told the run's id. Raises GateError: UsageError and its kinds for what cannot be
    understood, GatewayError without a way to the model, ApprovalNeeded.
    """
    began_at = time.monotonic()
    with open_repository(start, environ) as repository:
        progress("change", "reading the change")
        with Deadline(began_at, request.review.deadline_s or Budget().deadline_s).interrupting(
            grace_s=0
        ):
            repair = repair_of(repository, request.fix, clock()) if request.fix else None
            if repair is None:
                change = repository.change(request.review.selection)
            else:
                change, request = (
                    repair.change,
                    replace(request, review=repair.review(request.review)),
                )
                _require_same_files(request, repair, repository)
            base, definitions = request.review.base, request.review.definitions
            gate = request.gate or gate_for(repository, change, base=base, definitions=definitions)
            plan = _plan(request, gate, change)
            if request.resumed is not None:
                request.resumed.require_same(change, gate)
            _require_model(request, plan, repository.environment)
            world = world_around(repository, clock)
            apart = share_answers(gate, request.review, repository, world)
            unread = catch_up(repository, world)
            # Which rubrics its gates ask is not known yet; what one of them may see is looked up.
            facts = facts_of(change, gate, gate.rubrics, request.review, repository, world, unread)
            facts = replace(facts, rubrics=())
            seconds = request.review.deadline_s or plan.timeout_s or gate.file.budget.deadline_s
            run = _opened(request, plan, facts, world, Deadline(began_at, seconds), meter)
        if began is not None:
            began(run.record.run_id)
        await asyncio.sleep(0)  # from here on an event loop is needed (faces.progress)
        asks = (approve or leave_unanswered) if request.interactive else None
        stages = Stages(
            facts,
            run,
            repository,
            request.review,
            progress=progress,
            tick=tick,
            approve=asks,
            files=plan.files,
        )
        with recording(run, facts), stages.open():
            keep_contents(repository, change, run, named=False)
            _set_background(request, repair, stages)
            problem = await _carried_out(plan, stages, request)
            if repair is not None and problem is None and _examined_nothing(stages):
                problem = (
                    "inconclusive",
                    f"No rubric of run {request.fix} applies to your files as they are now.",
                )
            progress("seal", "writing the verdict")
            workflow_run = conclude_run(
                plan.id,
                stages,
                problem,
                reviewing=request.reviewing,
                unshared_note=apart,
                applies=request.apply,
            )
            if workflow_run.applied:
                note_applied(run.state, [*_writes(stages)], clock(), run.redactor.value)
        repository.remove_old_workspaces(clock() - timedelta(days=WORKSPACE_DAYS))
        return workflow_run


def _require_model(request: RunRequest, plan: Plan, environment: Environment) -> None:
    """GatewayError: an agent of the plan could not ask its model, so no run is made that could not
    go on.

    A run that waits for a person first can be resumed when there is a key.
    """
    if not plan.asks_agents or request.interactive:
        return
    if request.review.wire.mode != "replay" and find_upstream(environment.variables) is None:
        raise GatewayError(NO_CREDENTIALS)


def _require_same_files(request: RunRequest, repair: Repair, repository: Repository) -> None:
    """UsageError: what the repair makes could not be put into the working tree, so that nothing is
    paid for that.
    """
    if request.apply and not repository.still_holds(repair.change.after):
        raise UsageError(
            f"--apply needs the files that run {request.fix} reviewed, and your working tree has others. Leave it out; "
            "`git apply -3` can merge the patch."
        )


def _examined_nothing(stages: Stages) -> bool:
    """Whether there were gates, and nothing that they ask applied to the change: for a repair that
    is no pass.
    """
    verdicts = [result.verdict for result in stages.graph.results if result.verdict]
    criteria = [
        one for verdict in verdicts for rubric in verdict.rubrics for one in rubric.criteria
    ]
    return bool(criteria) and not any(one.is_examined for one in criteria)


def _set_background(request: RunRequest, repair: Repair | None, stages: Stages) -> None:
    """Show the agents of a repair what is known of the change; take over what the run that is fixed
    was answered.
    """
    run, facts, repository = stages.run, stages.facts, stages.trees.own.repository
    if request.workflow != FIX or (
        repair is None and any(one.id == FIX for one in facts.gate.workflows)
    ):
        return
    sessions = [*how_it_was_made(repository, facts.change, run, request.fix)]
    if sessions:
        stages.keep_private()
    shown = [Material("The change under review", patch_of(repository, facts.change)), *sessions]
    if repair is not None:
        recall_answers(repair.run, repository, facts, run)
        stages.turns.notes += filter(None, [repair.remark])
        found = repair.run.summary
        text = "\n".join(found_by(found.rubrics, found.findings))
        shown.insert(0, Material(f"What run {request.fix} found", text))
    stages.turns.background = tuple(shown)


def _writes(stages: Stages) -> Iterator[AppliedWrite]:
    """What each agent wrote into the run's own files."""
    repository, before = stages.trees.own.repository, stages.trees.own.start
    for result in stages.graph.results:
        if not result.agent or not result.changed:
            continue
        with suppress(
            GateError
        ):  # in another repository, or in a clone that is gone: who wrote it is not known then
            change, before = repository.between(before, result.after), result.after
            for file in change.files:
                if file.after is not None and file.is_read:
                    old, new = (_text(repository, one) for one in (file.before, file.after))
                    path = str(repository.root / file.path)
                    yield AppliedWrite(
                        result.agent, result.session_id, path, old, new, file.after.blob
                    )


def _text(repository: Repository, version: FileVersion | None) -> str:
    return repository.read(version).decode("utf-8", "replace") if version else ""


def _opened(
    request: RunRequest,
    plan: Plan,
    facts: Facts,
    world: World,
    deadline: Deadline,
    meter: Meter | None,
) -> RunContext:
    """The run, with a new bundle, or with that of the run that is gone on with."""
    mode, resumed = "interactive" if request.interactive else "auto", request.resumed
    about: dict[str, Any] = {
        "workflow": plan.id,
        "mode": mode,
        "prompt": plan.prompt,
        "isolation": plan.isolation,
    }
    if request.plan is None:  # else an agent of a script, which nobody could give again
        about["request"] = _kept(request)
    run = open_run(
        facts, world, deadline, more=about, resume=resumed.run_id if resumed else "", meter=meter
    )
    if resumed is not None and resumed.mode != mode:
        run.record.event("run.mode_changed", mode=mode)
    return run


def _kept(request: RunRequest) -> dict[str, Any]:
    """A KeptRequest as it is written."""
    limits = {name: getattr(request.review, name) for name in LIMITS}
    own = {name: getattr(request, name) for name in OWN}
    return {"selection": asdict(request.review.selection), **limits, **own}


def one_agent(
    agent: Agent | str,
    prompt: str,
    *,
    patch: bytes = b"",
    **how: Any,  # noqa: ANN401  fields of StageRequest
) -> Callable[[Gate], Plan]:
    """One agent on its own, of the gate if an id names it; `patch` is put into the files before it
    begins.
    """

    def plan(gate: Gate) -> Plan:
        found = agent if isinstance(agent, Agent) else agent_named(gate, agent)
        asked = StageRequest(id=found.id, agent=found, prompt=prompt, **how)
        steps, isolation = (lambda wf: wf.stages.run_agent_stage(asked)), isolation_of(found, gate)
        return Plan(
            id=found.id,
            steps=steps,
            prompt=prompt,
            isolation=isolation,
            patch=patch,
            asks_agents=True,
        )

    return plan


def _plan(request: RunRequest, gate: Gate, change: Change) -> Plan:
    """What the request means. UsageError, DefinitionError."""
    if request.plan is not None:
        return request.plan(gate)
    if request.agent:
        return one_agent(
            request.agent, request.prompt, model=request.model, resume=request.session
        )(gate)
    rubrics = rubrics_for(gate, change, request.review.rubrics) if request.workflow == FIX else ()
    found, agents = workflow_named(gate, request.workflow, [one.id for one in rubrics]), gate.agents
    if found.file is None:
        plan = load(found)
    else:
        asks_agents = any(rule.agent for rule in found.file.stage)
        steps = partial(run_stages_of_file, found.file)
        plan = Plan(
            id=found.id, steps=steps, timeout_s=found.file.timeout_s, asks_agents=asks_agents
        )
        agents = tuple(agent_named(gate, rule.agent) for rule in found.file.stage if rule.agent)
    isolation, files = _isolation(agents, gate), dict(found.files)
    return replace(plan, prompt=f"workflow: {found.id}", isolation=isolation, files=files)


def _isolation(agents: Iterable[Agent], gate: Gate) -> Isolation:
    """The weakest level in which one of them writes; "none" if none does."""
    levels = {isolation_of(agent, gate) for agent in agents} - {"none"}
    return "clone" if "clone" in levels else "sandbox" if levels else "none"


async def _carried_out(
    plan: Plan, stages: Stages, request: RunRequest
) -> tuple[RunOutcome, str] | None:
    """Run the steps; what went wrong outside of every stage: the deadline, or an error of a Python
    workflow.
    """
    defaults = Defaults(request.model or plan.defaults.model, plan.defaults.workspace)
    deadline = stages.run.deadline
    try:
        async with asyncio.timeout(deadline.left() + GRACE_S):
            stages.trees.own.apply_patch(plan.patch)
            await plan.steps(Workflow(stages, defaults))
    except TimeoutError as error:
        return ("inconclusive", deadline.reached) if not deadline.left() else ("error", repr(error))
    except GateError as error:
        if not (request.session and isinstance(error, StorageError)) or request.resumed is not None:
            raise
        return "error", str(
            error
        )  # another process has the session: this run has ended, and is not resumed
    except Exception as error:
        if not plan.path:
            raise
        return "error", stages.run.redactor.text(place_of(error, plan.path))
    return None
