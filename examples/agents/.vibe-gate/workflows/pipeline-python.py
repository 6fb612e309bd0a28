"""B: stages one after the other in one workspace; what they change adds up."""

from vibe_gate import workflow


@workflow("pipeline-python", timeout=1200)
async def pipeline(wf):
    await wf.stage("first", agent="fixer", prompt="Write src/a.py.")
    await wf.stage("second", agent="fixer", prompt="Write src/b.py beside src/a.py.")
    changed = [file.path for file in wf.files.all_changed()]
    if changed != ["src/a.py", "src/b.py"]:
        raise ValueError(f"unexpected files: {changed}")
    if len(wf.tools.all()) < len(changed):
        raise ValueError("files changed without a tool")
