"""D: the verdict decides which way to go."""

from vibe_gate import workflow


@workflow("routing-python")
async def routing(wf):
    review = await wf.stage(
        "review", agent="reviewer", prompt="What would you change in src/load.py?"
    )
    verdict = await wf.judge(review, rubrics=["clean"])
    if not verdict.passed:
        fixed = await wf.stage(
            "fix", agent="fixer", prompt="Repair what the judge found.", context=[review, verdict]
        )
        await wf.judge(fixed, rubrics=["clean"])
