"""C: repair again and again until the rubric passes, three times at most."""

from vibe_gate import workflow


@workflow("loop-python")
async def loop(wf):
    async def attempt():
        fixed = await wf.stage("fix", agent="fixer", prompt="Take every TODO out of src/load.py.")
        return await wf.judge(fixed, rubrics=["clean"])

    done = await wf.until(lambda verdict: verdict.passed, attempt, max_iterations=3)
    if not done.converged:
        raise ValueError(f"no luck: {done.reason}")
