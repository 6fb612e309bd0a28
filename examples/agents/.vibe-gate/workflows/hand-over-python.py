"""A: one agent looks, another acts on what it said."""

from vibe_gate import workflow


@workflow("hand-over-python")
async def hand_over(wf):
    analysis = await wf.stage("analyse", agent="reviewer", prompt="What is wrong with src/load.py?")
    await wf.stage("fix", agent="fixer", prompt="Repair what the analysis names.", context=analysis)
