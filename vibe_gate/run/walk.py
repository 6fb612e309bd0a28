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
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.agent import agent_environment_from, find_cli
from vibe_gate.context.deadline import GRACE_S, Deadline
from vibe_gate.context.facts import Facts
from vibe_gate.context.listeners import Listeners, Meter
from vibe_gate.context.world import RunContext, World
from vibe_gate.domain.document import plain
from vibe_gate.domain.environment import Environment
from vibe_gate.domain.gate import Budget
from vibe_gate.domain.leaving import PRIVATE
from vibe_gate.domain.upkeep import PATCH_DAYS, WORKSPACE_DAYS
from vibe_gate.domain.verdict import CriterionResult, RunOutcome
from vibe_gate.errors import AgentError, GateError, GatewayError, StorageError, UsageError
from vibe_gate.gate.fixing import FIX
from vibe_gate.gate.trusted import gate_for
from vibe_gate.gateway import NO_CREDENTIALS, find_upstream
from vibe_gate.git import Repository, open_repository
from vibe_gate.run.agent_approval import Approve, leave_unanswered
from vibe_gate.run.conclusion import WorkflowRun, collect_agent_writes, conclude_run
from vibe_gate.run.fact_finding import catch_up, facts_of
from vibe_gate.run.fix import Repair, how_it_was_made, repair_of
from vibe_gate.run.repair_brief import RepairSource
from vibe_gate.run.repeated_run import RunStart, prepare_repeat
from vibe_gate.run.replay import recall_answers
from vibe_gate.run.run_bundle import open_run, record_contents, record_run, world_around
from vibe_gate.run.run_request import RunRequest, make_plan
from vibe_gate.run.stage_runner import Stages
from vibe_gate.run.team_store import share_answers
from vibe_gate.run.workflow_plan import Plan, describe_error
from vibe_gate.run.workflow_steps import Defaults, WorkflowContext
from vibe_gate.store.applied_writes import note_applied


async def walk_workflow(
    request: RunRequest,
    *,
    start: Path,
    environment: Environment,
    clock: Callable[[], datetime],
    listeners: Listeners,
    approve: Approve | None = None,
    began: Callable[[str], object] | None = None,
) -> WorkflowRun:
    """Run a workflow about a change of the repository around `start`.

    `approve` asks a person; `began` is told the run's id. Raises GateError: UsageError and
    its kinds for what cannot be understood, GatewayError without a way to the model, ApprovalNeeded.
    """
    began_at = time.monotonic()
    with open_repository(start, environment) as repository:
        listeners.progress("change", "reading the change")
        reading_deadline = Deadline(began_at, request.review.deadline_s or Budget().deadline_s)
        with reading_deadline.interrupting(grace_s=0):
            prepared = _prepare_run(request, repository, began_at, clock, listeners.meter)
        run = prepared.run
        if began is not None:
            began(run.record.run_id)
        await asyncio.sleep(0)  # from here on an event loop is needed (faces.progress)
        if request.interactive:
            approve = approve or leave_unanswered
        else:
            approve = None
        stages = Stages(
            prepared.facts,
            run,
            repository,
            prepared.request.review,
            listeners,
            approve=approve,
            files=prepared.plan.files,
            repeated=request.repeated,
        )
        with record_run(run, prepared.facts), stages.open():
            record_contents(repository, prepared.facts.change, run, with_names=False)
            if prepared.facts.record is not None:
                run.record.keep_session_record(prepared.facts.record)
            _begin_repair(prepared, stages)
            if prepared.remark:
                stages.turns.notes.append(prepared.remark)
            problem = await _carry_out(prepared, stages)
            listeners.progress("seal", "writing the verdict")
            workflow_run = conclude_run(
                prepared.plan.id,
                stages,
                problem,
                reviewing=request.reviewing,
                counts=request.review.mode.counts,
                unshared_note=prepared.unshared_note,
                applies=request.apply,
            )
            if workflow_run.applied:
                writes = list(collect_agent_writes(stages))
                note_applied(run.state, writes, clock(), run.redactor.value)
        repository.remove_old_workspaces(clock() - timedelta(days=WORKSPACE_DAYS))
        repository.remove_old_patches(clock() - timedelta(days=PATCH_DAYS))
        return workflow_run


class _PreparedRun(Struct, frozen=True):
    """All that is known of a run before its first stage."""

    request: RunRequest
    """Of a repair with the rubrics of the run that is fixed."""

    repair: Repair | None

    plan: Plan

    facts: Facts

    run: RunContext

    unshared_note: str
    """Why no store is shared, as a sentence, or ""."""

    remark: str
    """A sentence about how a repeat differs from the run that it repeats, or ""."""


def _prepare_run(
    request: RunRequest,
    repository: Repository,
    began_at: float,
    clock: Callable[[], datetime],
    meter: Meter | None,
) -> _PreparedRun:
    """Read the change and the gate, and open the run's bundle.

    `began_at`: in seconds of the monotonic clock.
    """
    repair = repair_of(repository, request.fix, clock()) if request.fix else None
    if repair is not None:
        request = replace(request, review=repair.review(request.review))
        _require_same_files(request, repair, repository)
    start = _read_start(request, repair, repository)
    change, gate, review = start.change, start.gate, request.review
    plan = make_plan(request, gate, change)
    if request.resumed is not None:
        request.resumed.require_same(change, gate)
    _require_model(request, plan, repository.environment)
    world = world_around(repository, clock)
    unshared_note = share_answers(gate, review, repository, world)
    unread = catch_up(repository, world)
    # Which rubrics its gates ask is not known yet; what one of them may see is looked up.
    facts = facts_of(change, gate, gate.rubrics, review, repository, world, unread)
    facts = replace(facts, rubrics=())
    seconds = review.deadline_s or plan.timeout_s or gate.file.budget.deadline_s
    run = _open_run(request, plan, facts, world, Deadline(began_at, seconds), meter)
    return _PreparedRun(request, repair, plan, facts, run, unshared_note, start.remark)


def _read_start(request: RunRequest, repair: Repair | None, repository: Repository) -> RunStart:
    """The change and the gate: those of the run that is repeated, of a repair, or as they are
    now.
    """
    if request.repeated is not None:
        return prepare_repeat(repository, request.repeated)
    review = request.review
    change = repair.change if repair else repository.change(review.selection)
    gate = request.gate or gate_for(
        repository, change, base=review.base, definitions=review.definitions
    )
    return RunStart(change, gate)


def _require_model(request: RunRequest, plan: Plan, environment: Environment) -> None:
    """GatewayError, AgentError: an agent of the plan could not ask its model, or has no program, so
    no run is made that could not go on.

    A run that waits for a person first can be resumed when there is a key; a repeat waits for
    nobody.
    """
    if not plan.asks_agents or (request.interactive and request.repeated is None):
        return
    needs_credentials = request.review.wire.mode != "replay"
    lacks_credentials = needs_credentials and find_upstream(environment.variables) is None
    try:
        find_cli(agent_environment_from(environment.variables).search_path)
    except AgentError as error:
        if lacks_credentials:
            raise GatewayError(f"{NO_CREDENTIALS} {error}") from None
        raise
    if lacks_credentials:
        raise GatewayError(NO_CREDENTIALS)


def _require_same_files(request: RunRequest, repair: Repair, repository: Repository) -> None:
    """UsageError: what the repair makes could not be put into the working tree, so that nothing is
    paid for that.
    """
    if request.apply and not repository.still_holds(repair.change.after):
        raise UsageError(
            f"--apply needs the files that run {request.fix} reviewed, and your working tree has "
            "others. Leave it out; `git apply -3` can merge the patch."
        )


def _examined_nothing(stages: Stages) -> bool:
    """Whether there were gates, and nothing that they ask applied to the change: for a repair that
    is no pass.
    """
    criteria: list[CriterionResult] = []
    for result in stages.graph.results:
        if result.verdict is None:
            continue
        for rubric in result.verdict.rubrics:
            criteria += rubric.criteria
    return bool(criteria) and not any(criterion.is_examined for criterion in criteria)


def _begin_repair(prepared: _PreparedRun, stages: Stages) -> None:
    """Have the agents of a repair shown what is known of the change; take over what the run that is
    fixed was answered.
    """
    request, repair, facts, run = prepared.request, prepared.repair, stages.facts, stages.run
    has_workflow_of_that_name = any(workflow.id == FIX for workflow in facts.gate.workflows)
    if request.workflow != FIX or (repair is None and has_workflow_of_that_name):
        return
    repository = stages.trees.own.repository
    sessions = tuple(how_it_was_made(repository, facts.change, run, request.fix))
    if sessions:
        stages.show_session(PRIVATE)
    if repair is None:
        stages.repair = RepairSource(sessions=sessions)
        return
    recall_answers(repair.run, repository, facts, run)
    if repair.remark and request.repeated is None:
        stages.turns.notes.append(repair.remark)
    stages.repair = RepairSource(repair.findings(facts.gate), sessions)


def _open_run(
    request: RunRequest,
    plan: Plan,
    facts: Facts,
    world: World,
    deadline: Deadline,
    meter: Meter | None,
) -> RunContext:
    """The run, with a new bundle, or with that of the run that is gone on with."""
    mode = "interactive" if request.interactive else "auto"
    fields: dict[str, Any] = {
        "workflow": plan.id,
        "mode": mode,
        "prompt": plan.prompt,
        "isolation": plan.isolation,
        **request.review.mode.run_fields,
    }
    is_of_script = request.plan is not None
    if request.repeated is None and (plan.agent_run or not is_of_script):
        fields["request"] = request.as_kept()
    if is_of_script and plan.agent_run:
        fields["agent_run"] = plain(plan.agent_run)
    resumed = request.resumed
    resumed_id = resumed.run_id if resumed else ""
    run = open_run(facts, world, deadline, fields=fields, resume=resumed_id, meter=meter)
    if resumed is not None and resumed.mode != mode:
        run.record.event("run.mode_changed", mode=mode)
    return run


async def _carry_out(prepared: _PreparedRun, stages: Stages) -> tuple[RunOutcome, str] | None:
    """Run the steps; what went wrong outside of every stage, with the outcome of that; None if
    nothing did.
    """
    problem = await _run_steps(prepared.plan, stages, prepared.request)
    if problem is None and prepared.repair is not None and _examined_nothing(stages):
        fixed_id = prepared.request.fix
        reason = f"No rubric of run {fixed_id} applies to your files as they are now."
        return "inconclusive", reason
    return problem


async def _run_steps(
    plan: Plan, stages: Stages, request: RunRequest
) -> tuple[RunOutcome, str] | None:
    """Run the steps; what went wrong: the deadline, or an error of a Python workflow."""
    defaults = Defaults(request.model or plan.defaults.model, plan.defaults.workspace)
    deadline = stages.run.deadline
    try:
        async with asyncio.timeout(deadline.seconds_left() + GRACE_S):
            await stages.trees.own.hand_over(plan.handed_turns)
            await plan.steps(WorkflowContext(stages, defaults))
    except TimeoutError as error:
        if deadline.seconds_left():
            return "error", repr(error)
        return "inconclusive", deadline.reached
    except GateError as error:
        is_session_taken = bool(request.session) and isinstance(error, StorageError)
        if not is_session_taken or request.resumed is not None:
            raise
        # Another process has the session: this run has ended, and is not resumed.
        return "error", str(error)
    except Exception as error:
        if not plan.path:
            raise
        return "error", stages.run.redactor.text(describe_error(error, plan.path))
    return None
