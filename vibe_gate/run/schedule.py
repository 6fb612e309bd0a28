"""A TOML workflow: its stages started as soon as what they need has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec.structs import replace

from vibe_gate.domain.workflow import StageRule, UntilRule, WorkflowFile
from vibe_gate.judging.votes import together
from vibe_gate.run.stage_result import StageResult, Until
from vibe_gate.run.workflow_steps import WorkflowContext


async def run_stages_of_file(file: WorkflowFile, wf: WorkflowContext) -> None:
    """Run the stages; those that nothing lies between run in parallel, as far as the workspace
    allows.
    """
    for rule in file.stage:
        wf.plan_stage(rule.id, rule.needs, rule.agent, rule.prompt or "")
    loop = asyncio.get_running_loop()
    results: dict[str, asyncio.Future[StageResult]] = {}
    for rule in file.stage:
        results[rule.id] = loop.create_future()

    async def run_when_needs_end(rule: StageRule) -> None:
        earlier_results: dict[str, StageResult] = {}
        for stage_id in _stages_before(rule):
            earlier_results[stage_id] = await results[stage_id]
        result = await _run_stage(rule, earlier_results, wf)
        results[rule.id].set_result(result)

    await together(run_when_needs_end(rule) for rule in file.stage)


def _stages_before(rule: StageRule) -> list[str]:
    """The ids of the stages that must end before, each once."""
    condition_ids = [stage_id for stage_id, _ in rule.conditions]
    return list(dict.fromkeys([*rule.needs, *rule.context, *condition_ids]))


async def _run_stage(
    rule: StageRule, earlier_results: Mapping[str, StageResult], wf: WorkflowContext
) -> StageResult:
    """Run the stage, once or until its rubrics pass, or skip it."""
    after = [earlier_results[stage_id].node for stage_id in rule.needs]
    reason = _reason_to_skip(rule, earlier_results)
    if reason:
        kind = "stage" if rule.agent else "gate"
        return wf.stages.skip_stage(rule.id, after, reason, kind)
    context = []
    for stage_id in rule.context:
        if earlier_results[stage_id].outcome != "skipped":
            context.append(earlier_results[stage_id])
    if rule.until is None:
        return await _run_once(rule, after, context, wf)
    return await _run_until(rule, rule.until, after, context, wf)


def _reason_to_skip(rule: StageRule, earlier_results: Mapping[str, StageResult]) -> str:
    """Why the stage is skipped, "" if it is not."""
    conditioned_ids = {stage_id for stage_id, _ in rule.conditions}
    failed_ids = []
    for stage_id in rule.needs:
        # What is demanded of a stage with a condition, the condition says.
        if not earlier_results[stage_id].passed and stage_id not in conditioned_ids:
            failed_ids.append(stage_id)
    if len(rule.needs) - len(failed_ids) < rule.required:
        return f"{', '.join(failed_ids)} did not pass"
    unmet_conditions = []
    for stage_id, condition in rule.conditions:
        if not earlier_results[stage_id].fulfils(condition):
            unmet_conditions.append(f"{stage_id}.{condition}")
    if not unmet_conditions:
        return ""
    return f"not {', '.join(unmet_conditions)}"


async def _run_once(
    rule: StageRule, after: list[str], context: list[StageResult], wf: WorkflowContext
) -> StageResult:
    return await wf.stage(
        rule.id,
        agent=rule.agent,
        rubrics=rule.rubrics,
        prompt=rule.prompt or "",
        prompt_file=rule.prompt_file,
        prompt_command=rule.prompt_command or (),
        images=rule.images,
        context=context,
        after=after,
    )


async def _run_until(
    rule: StageRule,
    until: UntilRule,
    after: list[str],
    context: list[StageResult],
    wf: WorkflowContext,
) -> StageResult:
    """The stage, again and again, until its rubrics pass: each time the agent has their verdicts
    until then.
    """
    verdicts: list[StageResult] = []

    async def run_iteration() -> StageResult:
        if not verdicts:
            return await _run_once(rule, after, context, wf)
        return await _run_once(rule, [verdicts[-1].node], [*context, *verdicts], wf)

    async def passes(result: StageResult) -> bool:
        if not result.passed:
            return False
        verdict = await wf.judge(result, until.rubrics, id=f"{rule.id}-until", after=[result.node])
        verdicts.append(verdict)
        return verdict.passed

    loop_end = await wf.until(passes, run_iteration, max_iterations=until.max_iterations)
    return _result_of_loop(loop_end, verdicts, until.max_iterations)


def _result_of_loop(
    loop_end: Until, verdicts: list[StageResult], max_iterations: int
) -> StageResult:
    """The loop as one stage: what its last iteration came to, decided by its rubrics if the agent
    got so far.
    """
    last = loop_end.last
    deciding = verdicts[-1] if verdicts and last.passed else last
    reason = ""
    if not loop_end.converged:
        reason = loop_end.why_unfinished(max_iterations)
    return replace(
        last,
        node=deciding.node,
        outcome=deciding.outcome,
        reason=reason,
        before=loop_end.results[0].before,
        verdict=deciding.verdict,
        lacks=deciding.lacks,
    )
