"""The four patterns of composition and the two examples of the product's first design, written for
vitest then, and beside each the same in Python: no longer, and run; the longest against the real CLI.
"""

from __future__ import annotations

import asyncio
import inspect
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from forked import import_program
from scripted_messages_api import StepOrFunction, ToolUse, Turn
from wire import answering
from working import FIXED, WORSE, WorkingRepo, says, writes

from vibe_gate import (
    Agent,
    Criterion,
    Rubric,
    RunResult,
    WorkflowContext,
    WorkflowRun,
    judge,
    run_agent,
    run_workflow,
    workflow,
)

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

analyzer = Agent(id="analyzer", tools=("Read", "Write"))
reviewer = Agent(id="reviewer")
fixer = Agent(id="fixer", tools=("Read", "Write", "TaskCreate", "TaskUpdate"))
todo = {"pattern": "TODO"}
no_todo = Criterion(id="no-todo", kind="check", check="forbidden-pattern", options=todo, must=True)
rubric = Rubric(id="quality", criterion=[no_todo])

SEED_A = """
const analyze = await runAgent({ agent: analyzer, prompt: '/analyze' });
if (analyze.files.changedCount > 10) {
  await annotate('Large change set; running deep checks', 'note');
}
const fix = await runAgent({ agent: fixer, prompt: '/fix', context: analyze });
"""


async def explicit_handoff() -> RunResult:
    analyze = await run_agent(analyzer, "Analyze.")
    if analyze.files.changed_count > 10:
        analyze.annotate("Large change set; running deep checks", "note")
    return await run_agent(fixer, "Fix.", context=analyze)


SEED_B = """
const pipeline = runPipeline({ name: 'refactor' });
const s1 = await pipeline.stage('analyze', { agent: analyzer, prompt: '/analyze' });
const s2 = await pipeline.stage('fix', { agent: fixer, prompt: '/fix' });
pipeline.files.allChanged();   // cumulative
pipeline.tools.timeline();     // merged across stages
"""


@workflow("refactor")
async def pipeline(wf: WorkflowContext) -> None:
    await wf.stage("analyze", agent=analyzer, prompt="Analyze.")
    await wf.stage("fix", agent=fixer, prompt="Fix.")
    assert len(wf.files.all_changed()) == 2  # cumulative
    assert [call.stage for call in wf.tools.all()] == ["analyze", "fix"]  # merged across stages


SEED_C = """
const wf = runWorkflow({ workspace });
let pass = false, n = 0;
while (!pass && n++ < 4) {
  const attempt = await wf.stage('iterate', { agent: fixer, prompt: '/fix' });
  const evaln = await judge(attempt, { rubric, throwOnFail: false });
  pass = evaln.passed;
}
expect(pass).toBe(true);
"""


@workflow("loop")
async def loop_until(wf: WorkflowContext) -> None:
    passed, n = False, 0
    while not passed and n < 4:
        attempt, n = await wf.stage("iterate", agent=fixer, prompt="Fix."), n + 1
        passed = (await wf.judge(attempt, rubrics=[rubric])).passed
    assert passed


SEED_D = """
const result = await runAgent({ agent: reviewer, prompt: '/review' });
const evaln = await judge(result, { rubric: gate });
if (!evaln.passed) {
  await runAgent({ agent: fixer, prompt: '/fix', context: result });
}
"""


async def routing() -> RunResult:
    result = await run_agent(reviewer, "Review.")
    if not (await judge(result, rubric)).passed:
        result = await run_agent(fixer, "Fix.", context=result)
    return result


SEED_WORKFLOW = """
vibeWorkflow('iterative fix', async (wf) => {
  const analyze = await wf.stage('analyze', {
    agent: analyzer,
    prompt: '/analyze'
  });
  await wf.until(
    (latest) => latest.todos.every(t => t.status === 'completed'),
    async () => wf.stage('fix', { agent: fixer, prompt: '/fix' }),
    { maxIterations: 3 }
  );
  expect(wf.files.allChanged().length).toBeGreaterThan(0);
});
"""


@workflow("iterative-fix")
async def iterative_fix(wf: WorkflowContext) -> None:
    await wf.stage("analyze", agent=analyzer, prompt="Analyze.")
    await wf.until(
        lambda latest: latest.todos.all_completed,
        lambda: wf.stage("fix", agent=fixer, prompt="Fix."),
        max_iterations=3,
    )
    assert wf.files.all_changed()


SEED_TEST = """
vibeTest('benchmark sonnet correctness', async ({ runAgent, expect }) => {
  const res = await runAgent({ agent: sonnet, prompt: '/refactor src/index.ts' });
  expect(res).toHaveChangedFiles(['src/index.ts']);
  expect(res.metrics.totalCostUsd!).toBeLessThan(3);
});
"""
TEST = """
async def test_benchmark_sonnet_correctness(vibe, vibe_repo):
    res = await vibe.run(sonnet, "Refactor src/index.py")
    expect(res).to_have_changed_files(["src/index.py"])
    assert res.metrics.total_cost_usd < 3
"""
AROUND_TEST = """
from vibe_gate import Agent, expect

sonnet = Agent(id="sonnet", model="claude-sonnet-5", tools=("Read", "Write"))
"""

OURS: dict[str, tuple[str, str]] = {
    "A explicit handoff": (SEED_A, inspect.getsource(explicit_handoff).partition("\n")[2]),
    "B pipeline": (SEED_B, inspect.getsource(pipeline.steps).partition("None:\n")[2]),
    "C loop until": (SEED_C, inspect.getsource(loop_until.steps).partition("None:\n")[2]),
    "D routing": (SEED_D, inspect.getsource(routing).partition("\n")[2]),
    "vibeWorkflow": (SEED_WORKFLOW, inspect.getsource(iterative_fix.steps)),
    "vibeTest": (SEED_TEST, TEST),
}


@pytest.mark.parametrize("name", OURS)
def test_it_is_not_longer_than_it_was_meant_to_be(name):
    seed, ours = OURS[name]
    lines = [line for line in textwrap.dedent(ours).splitlines() if line.strip()]
    assert 0 < len(lines) <= len(seed.strip().splitlines())


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> WorkingRepo:
    repo = WorkingRepo(tmp_path / "repo", environ)
    monkeypatch.chdir(repo.path)
    return repo


@pytest.fixture
def quick(quick_agents: None, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The agents of this process are quick."""
    monkeypatch.setenv("PATH", environ["PATH"])


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a coroutine against a model that gives each of these answers once; what it returns."""

    def run(main: Callable[[], Awaitable[Any]], *answers: StepOrFunction) -> Any:
        with answering(*answers) as model:
            for name, value in model.environ.items():
                monkeypatch.setenv(name, value)
            result = asyncio.run(main())
            assert model.script.finished
            return result

    return run


NOTES = writes("notes.md", "The TODO in load.\n")


def test_explicit_handoff(repo, quick, play):
    fix = play(explicit_handoff, *NOTES, *writes("src/load.py", FIXED))
    assert [file.path for file in fix.files.changed()] == ["src/load.py"]
    assert [file.path for file in fix.chain.files.changed()] == ["notes.md", "src/load.py"]


def test_pipeline(repo, quick, play):
    finished: WorkflowRun = play(
        lambda: run_workflow(pipeline), *NOTES, *writes("src/load.py", FIXED)
    )
    assert finished.names == ("notes.md", "src/load.py")


def test_loop_until(repo, quick, play):
    attempts = (*writes("src/load.py", WORSE.format(1)), *writes("src/load.py", FIXED))
    finished: WorkflowRun = play(lambda: run_workflow(loop_until), *attempts)
    assert (finished.passed, [result.id for result in finished.results]) == (
        True,
        ["iterate", "iterate-judge"] * 2,
    )


def test_routing(repo, quick, play):
    result = play(routing, says("There is a TODO."), *writes("src/load.py", FIXED))
    assert [file.path for file in result.files.changed()] == ["src/load.py"]
    assert asyncio.run(judge(result, rubric)).passed


def test_the_workflow_of_the_first_design(repo, play):
    def task(tool: str, **fields: str) -> Turn:
        return Turn(ToolUse(tool, fields))

    started = task("TaskCreate", subject="Take the TODO out", description="In src/load.py")
    rounds = (
        *(started, *writes("src/load.py", WORSE.format(1))),
        *writes("src/load.py", FIXED),
    )
    finished: WorkflowRun = play(lambda: run_workflow(iterative_fix), *NOTES, *rounds)
    assert [result.id for result in finished.results] == ["analyze", "fix", "fix"]


def test_the_test_of_the_first_design(pytester, quick, monkeypatch):
    import_program()  # a pytest in process would forget what it imports
    pytester.makeini("[pytest]\nasyncio_mode = auto\n")
    pytester.makeconftest(
        "import pytest\n@pytest.fixture\ndef vibe_repo(vibe_repo):\n"
        "    vibe_repo.write('src/index.py', 'A = 1\\n')\n"
        "    vibe_repo.commit('First')\n    return vibe_repo\n"
    )
    pytester.makepyfile(test_benchmark=AROUND_TEST + TEST)
    with answering(*writes("src/index.py", "A = 2\n")) as model:
        for name, value in model.environ.items():
            monkeypatch.setenv(name, value)
        result = pytester.runpytest_inprocess("--vibe-wire", "live")
    result.assert_outcomes(passed=1)
