"""What scripts write with vibe_gate's names, for type checkers alone: `nox -s types` and .ci/run
run them on it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel

import vibe_gate
from vibe_gate import (
    Agent,
    AgentExecution,
    AgentFailed,
    Criterion,
    GateError,
    Review,
    Rubric,
    RunResult,
    Summary,
    Workflow,
    WorkflowContext,
    WorkflowRun,
)


async def reviews() -> None:
    review: Review = await vibe_gate.review()
    await vibe_gate.review("HEAD~1")
    await vibe_gate.review("main...feature", rubrics=["quality"], judge=False, repository=Path())
    await vibe_gate.review(
        staged=True, max_cost_usd=0.5, deadline_s=60, base="origin/main", definitions="worktree"
    )
    await vibe_gate.review(
        commit="HEAD", progress=lambda stage, text: print(stage, text), environ={}
    )
    passed: bool = review.passed
    code: int = review.exit_code
    summary: Summary = review.summary
    notes: tuple[str, ...] = review.notes
    places: list[tuple[str, int, str]] = [
        (finding.path, finding.line, finding.message) for finding in review.findings
    ]
    bundle: RunResult | None = review.bundle
    print(passed, code, summary, notes, places, bundle, review.outcome == "inconclusive")


def wrong_words() -> None:
    vibe_gate.review_sync(stagd=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    vibe_gate.review_sync(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    vibe_gate.review_sync(rubrics="safety")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    vibe_gate.review_sync("HEAD~1", True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    vibe_gate.find_bundles(comit="")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def without_a_loop() -> None:
    review: Review = vibe_gate.review_sync("HEAD~1", judge=False)
    print(review.outcome == "pass")


async def agents() -> None:
    fixer = Agent(id="fixer", system_prompt="You repair.", tools=("Read", "Edit"))
    execution: AgentExecution = vibe_gate.run_agent(fixer, "Repair it.", max_cost_usd=0.5)
    execution.watch(lambda event: print(event.kind))
    result: RunResult = await execution
    vibe_gate.expect(result).not_.to_have_used_tool("Bash")
    status: str = result.status
    error: str = result.error
    print(status, error)
    try:
        checked: RunResult = (await execution).raise_for_status()
        print(checked.metrics)
    except AgentFailed as failed:
        print(failed.status, failed.result)
    run: WorkflowRun = await vibe_gate.run_workflow(
        "review-and-fix", "main..", model="claude-sonnet-5", apply=True
    )
    print(run.passed, run.outcome, run.review.findings, run.patch)


def bundles() -> None:
    for run in vibe_gate.find_bundles(
        outcome="fail", path="src/**", since=datetime.now(UTC), limit=3
    ):
        result = vibe_gate.read_bundle(run)
        print(result.complete, [file.path for file in result.files.filter("src/**")])
    try:
        vibe_gate.read_bundle("nowhere")
    except GateError as error:
        print(error.exit_code)


QUALITY = Rubric(
    id="quality",
    criterion=(
        Criterion(id="reads", kind="judge", question="Does load read the file?", must=True),
        Criterion(
            id="no-todo", kind="check", check="forbidden-pattern", options={"pattern": "TODO"}
        ),
    ),
)


@vibe_gate.workflow("nightly", timeout=60)
async def nightly(wf: WorkflowContext) -> None:
    fixed = await wf.stage("fix", agent="fixer", prompt="Repair it.")
    verdict = await wf.judge(fixed, rubrics=[QUALITY])
    print(verdict.passed, len(wf.files.all_changed()))


class Score(BaseModel):
    passed: bool
    score: int


async def chains() -> None:
    first: RunResult = await vibe_gate.run_agent("reviewer", "Look.", model="claude-haiku-4-5")
    second = await vibe_gate.run_agent("fixer", "Repair it.", context=[first])
    paths: list[str] = [file.path for file in second.chain.files.changed()]
    by_stage: int = len(second.chain.by_stage("fixer"))
    patch: bytes = second.chain.turns[0].patch()
    summary: Summary = await vibe_gate.judge(second, QUALITY)
    passed: bool = summary.passed
    filled: Score = await vibe_gate.judge(second, "quality", "Give a score.", answer=Score)
    second.annotate("Judged.", "note")
    vibe_gate.expect(second).to_have_changed_files(["src/**"])
    vibe_gate.expect(second).to_use_only_tools("Read", ["Edit"])
    print(
        paths,
        by_stage,
        patch,
        passed,
        filled.score,
        vibe_gate.clean_bundles(max_age_days=7).deleted,
    )


async def wrong_chains() -> None:
    await vibe_gate.run_agent("fixer", "Go.", context="text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def workflows() -> None:
    plan: Workflow = nightly
    run: WorkflowRun = await vibe_gate.run_workflow(plan)
    print(run.passed)
