"""`vibe_gate.judge`: what an agent left, held against a rubric, or put to one agent with a form."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from pydantic import BaseModel
from scripted_messages_api import ToolUse, Turn
from wire import answering
from working import FIXED, WORSE, WorkingRepo, says, writes

from vibe_gate import (
    Agent,
    AgentFailed,
    Criterion,
    GatewayError,
    Rubric,
    RunResult,
    Summary,
    UsageError,
    judge,
    run_agent,
)

FIXER = Agent(id="fixer", system_prompt="You repair.", tools=("Read", "Write"))
NO_TODO = Rubric(
    id="no-todo",
    criterion=[
        Criterion(
            id="no-todo",
            kind="check",
            check="forbidden-pattern",
            options={"pattern": "TODO"},
            must=True,
        )
    ],
)


class Score(BaseModel):
    passed: bool
    score: int


@pytest.fixture
def repo(
    tmp_path: Path,
    environ: dict[str, str],
    quick_agents: None,
    monkeypatch: pytest.MonkeyPatch,
) -> WorkingRepo:
    repo = WorkingRepo(tmp_path / "repo", environ)
    monkeypatch.chdir(repo.path)
    monkeypatch.setenv("PATH", environ["PATH"])
    return repo


@pytest.fixture
def fixed(repo: WorkingRepo, monkeypatch: pytest.MonkeyPatch) -> RunResult:
    """The result of an agent that took the TODO out."""
    return run_fixer(monkeypatch, FIXED)


def run_fixer(monkeypatch: pytest.MonkeyPatch, text: str) -> RunResult:
    async def main() -> RunResult:
        return await run_agent(FIXER, "Repair it.")

    with answering(*writes("src/load.py", text)) as model:
        for name, value in model.environ.items():
            monkeypatch.setenv(name, value)
        return asyncio.run(main())


def test_a_rubric_of_checks_judges_the_files_that_the_agent_left_without_a_model(
    repo, fixed, monkeypatch
):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    before = repo.state()
    summary = asyncio.run(judge(fixed, NO_TODO))
    assert isinstance(summary, Summary)
    assert (summary.passed, summary.outcome, repo.state()) == (True, "pass", before)
    assert asyncio.run(judge(fixed, "clean")).passed


def test_a_fail_is_a_value_with_its_findings(repo, monkeypatch):
    summary = asyncio.run(judge(run_fixer(monkeypatch, WORSE.format("again")), NO_TODO))
    assert (summary.passed, summary.outcome) == (False, "fail")
    assert [finding.path for finding in summary.findings] == ["src/load.py"]


@pytest.mark.slow
def test_an_agent_fills_the_model_that_is_given(repo, fixed, monkeypatch):
    with answering(Turn(ToolUse("StructuredOutput", {"passed": True, "score": 3}))) as model:
        for name, value in model.environ.items():
            monkeypatch.setenv(name, value)
        filled = asyncio.run(judge(fixed, None, "Give a score.", answer=Score))
    assert filled == Score(passed=True, score=3)
    assert "Give a score." in model.script.requests[0].all_text
    with answering(says("I would rather not.")) as model:
        for name, value in model.environ.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(AgentFailed) as caught:
            asyncio.run(judge(fixed, None, "Give a score.", answer=Score))
    assert caught.value.result.complete


def test_what_cannot_be_judged_is_refused_before_a_model_is_asked(repo, fixed, monkeypatch):
    question = Criterion(id="reads", kind="judge", question="Does load read the file?")
    without_paths = Criterion(id="place", kind="check", check="only-paths")
    refused = {
        "judge takes a rubric": lambda: judge(fixed),
        "takes a rubric and no instructions": lambda: judge(fixed, NO_TODO, "Look."),
        "judge asks nothing": lambda: judge(fixed, NO_TODO, answer=Score),
        "There is no rubric 'clen'; did you mean 'clean'": lambda: judge(fixed, "clen"),
        "context is what stages or agents gave": lambda: judge("fixed", NO_TODO),
        "is a number above zero": lambda: judge(fixed, NO_TODO, max_cost_usd=0),
        "The rubric p .*paths": lambda: judge(fixed, Rubric(id="p", criterion=[without_paths])),
    }
    bundles = sorted(repo.path.glob(".vibe-artifacts/*/*/run.json"))
    for message, ask in refused.items():
        with pytest.raises(UsageError, match=message):
            asyncio.run(ask())
    assert sorted(repo.path.glob(".vibe-artifacts/*/*/run.json")) == bundles
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    with pytest.raises(GatewayError, match="No credentials"):
        asyncio.run(judge(fixed, Rubric(id="q", criterion=[question])))
    repo.write("src/load.py", "other = 1\n")
    with pytest.raises(UsageError, match=r"does not apply to src/load\.py"):
        asyncio.run(judge(fixed, NO_TODO))
