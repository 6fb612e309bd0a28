"""A TOML workflow: its stages started as soon as what they need has ended."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from vibe_gate.domain.workflow import StageRule, UntilRule, WorkflowFile
from vibe_gate.judging.votes import together
from vibe_gate.run.stage_result import StageResult
from vibe_gate.run.workflow_steps import Workflow


async def scheduled(file: WorkflowFile, wf: Workflow) -> None:
    """Run the stages; those that nothing lies between run in parallel, as far as the workspace
    allows.
    """
    ended: dict[str, asyncio.Future[StageResult]] = {}
    for rule in file.stage:
        ended[rule.id] = asyncio.get_running_loop().create_future()

    async def run(rule: StageRule) -> None:
        named = (*rule.needs, *rule.context, *(stage for stage, _ in rule.conditions))
        needed = {name: await ended[name] for name in dict.fromkeys(named)}
        ended[rule.id].set_result(await _stage(rule, needed, wf))

    await together(run(rule) for rule in file.stage)


async def _stage(rule: StageRule, needed: dict[str, StageResult], wf: Workflow) -> StageResult:
    after = [needed[name].node for name in rule.needs]
    if why := _why_not(rule, needed):
        return wf.stages.skip(rule.id, after, why, "stage" if rule.agent else "gate")
    context = [needed[name] for name in rule.context if needed[name].outcome != "skipped"]
    if rule.until is not None:
        return await _until(rule, rule.until, after, context, wf)
    return await _once(rule, after, context, wf)


def _why_not(rule: StageRule, needed: dict[str, StageResult]) -> str:
    """Why the stage is skipped, "" if it is not."""
    named = {stage for stage, _ in rule.conditions}
    well = sum(needed[name].passed or name in named for name in rule.needs)
    if well < rule.required:
        missing = [name for name in rule.needs if not needed[name].passed and name not in named]
        return f"{', '.join(missing)} did not pass"
    wrong = [
        f"{stage}.{what}" for stage, what in rule.conditions if not needed[stage].fulfils(what)
    ]
    return f"not {', '.join(wrong)}" if wrong else ""


async def _once(
    rule: StageRule, after: list[str], context: list[StageResult], wf: Workflow
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


async def _until(
    rule: StageRule, until: UntilRule, after: list[str], context: list[StageResult], wf: Workflow
) -> StageResult:
    """The stage, again and again, until its rubrics pass: each time it is told their last
    verdict.
    """
    verdicts: list[StageResult] = []

    async def body() -> StageResult:
        last = verdicts[-1:]
        return await _once(rule, [one.node for one in last] or after, [*context, *last], wf)

    async def passes(result: StageResult) -> bool:
        if not result.passed:
            return False
        judged = await wf.judge(result, until.rubrics, id=f"{rule.id}-until", after=[result.node])
        verdicts.append(judged)
        return judged.passed

    done = await wf.until(passes, body, max_iterations=until.max_iterations)
    last = done.last
    deciding = verdicts[-1] if verdicts and last.passed else last
    reason = (
        ""
        if done.converged
        else f"{done.reason} after {len(done.results)} of {until.max_iterations}"
    )
    return replace(
        last,
        node=deciding.node,
        outcome=deciding.outcome,
        reason=reason,
        before=done.results[0].before,
        verdict=deciding.verdict,
        lacks=deciding.lacks,
    )
