"""How an agent's session ended, as its RunResult says it: nothing that failed looks fine."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from scripted_messages_api import ApiError, Hang, Text, ToolUse, Turn
from wire import answering
from working import FIXED, WorkingRepo, says, writes

from vibe_gate import Agent, AgentExecution, AgentFailed, RunResult, read_bundle, run_agent

FIXER = Agent(id="fixer", system_prompt="You repair.", tools=("Read", "Write"))
HURRIED = Agent(id="fixer", system_prompt="You repair.", tools=("Read", "Write"), max_turns=1)
LOOKS = Turn(ToolUse("Read", {"file_path": "src/load.py"}))
OVER = says("Over.")
CUT = Turn(Text("Well, let me"), stop_reason="max_tokens")

ENDS = {
    "timeout": (FIXER, [Hang()], {"timeout_s": 3.0}, "timeout"),
    "budget": (FIXER, [OVER], {"max_cost_usd": 1e-9}, "budget"),
    "refusal": (FIXER, [Turn(Text("No."), stop_reason="refusal"), OVER], {}, "refused"),
    "max_tokens": (FIXER, [CUT] * 12, {}, "max_tokens"),
    "a wrong key": (FIXER, [ApiError(401, "invalid x-api-key")], {}, "api_error"),
}


@pytest.fixture
def repo(
    tmp_path: Path,
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    quick_agents: None,
) -> WorkingRepo:
    repo = WorkingRepo(tmp_path / "repo", environ)
    monkeypatch.setenv("PATH", environ["PATH"])
    monkeypatch.chdir(repo.path)
    return repo


def wait_for(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], agent: Agent, **limits: float
) -> RunResult:
    """What awaiting the agent returns."""

    async def main() -> RunResult:
        return await run_agent(agent, "Take the TODO out.", **limits)

    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return asyncio.run(main())


def require_failed(result: RunResult, status: str) -> None:
    assert result.status == status
    assert len(result.error) > 10
    with pytest.raises(AgentFailed) as failed:
        result.raise_for_status()
    assert (str(failed.value), failed.value.status, failed.value.result) == (
        result.error,
        status,
        result,
    )
    run = read_bundle(result.bundle_dir.parents[2])
    assert (run.is_run, run.status, run.error) == (True, status, result.error)


@pytest.mark.parametrize("name", ENDS)
def test_each_way_in_which_an_agent_fails_is_told(repo, monkeypatch, name):
    agent, steps, limits, status = ENDS[name]
    with answering(*steps) as model:
        result = wait_for(monkeypatch, model.environ, agent, **limits)
    require_failed(result, status)


@pytest.mark.slow
@pytest.mark.usefixtures("real_cli")  # which counts the turns
def test_an_agent_that_had_its_turns_has_failed(repo, monkeypatch):
    with answering(LOOKS, LOOKS, OVER) as model:
        result = wait_for(monkeypatch, model.environ, HURRIED)
    require_failed(result, "max_turns")


def test_an_agent_whose_model_cannot_be_reached_has_failed(repo, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    environ = {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "sk-ant-nobody"}
    result = wait_for(monkeypatch, environ, FIXER, timeout_s=8)
    assert result.status in ("api_error", "timeout")
    require_failed(result, result.status)


@pytest.mark.slow
@pytest.mark.usefixtures("real_cli")  # which is interrupted
def test_an_agent_that_was_aborted_has_not_done_its_work(repo, monkeypatch):
    async def main() -> RunResult:
        execution: AgentExecution = run_agent(FIXER, "Take the TODO out.")
        execution.watch(lambda event: execution.abort("the file is frozen"))
        return await execution

    with answering(*writes("src/load.py", FIXED)) as model:
        for name, value in model.environ.items():
            monkeypatch.setenv(name, value)
        require_failed(asyncio.run(main()), "aborted")


def test_an_agent_that_ended_well_has_no_error(repo, monkeypatch):
    with answering(*writes("src/load.py", FIXED)) as model:
        result = wait_for(monkeypatch, model.environ, FIXER)
    assert (result.status, result.error) == ("done", "")
    assert result.raise_for_status() is result
    assert read_bundle(result.bundle_dir.parents[2]).raise_for_status().status == "done"


@pytest.mark.slow
def test_a_bundle_that_was_not_sealed_has_no_end(repo):
    assert repo.run("--agent", "fixer", "--prompt", "Go.", "--interactive").code == 3
    (path,) = repo.path.glob(".vibe-artifacts/*/*/run.json")
    result = read_bundle(path.parent)
    assert (result.status, "did not end" in result.error) == ("incomplete", True)
