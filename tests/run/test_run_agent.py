"""`vibe_gate.run_agent`: started at once, awaited, watched, stopped."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import subprocess
from pathlib import Path

import pytest
from command import vibe_gate
from scripted_messages_api import ToolUse, Turn
from wire import answering
from working import FIXED, WorkingRepo, says, writes

from vibe_gate import Agent, AgentFailed, RunResult, StorageError, UsageError, run_agent

FIXER = Agent(id="fixer", system_prompt="You repair.", tools=("Read", "Write"))


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> WorkingRepo:
    repo = WorkingRepo(tmp_path / "repo", environ)
    monkeypatch.chdir(repo.path)
    return repo


@pytest.fixture
def quick(quick_agents: None, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the quick stand-in for the CLI in this process."""
    monkeypatch.setenv("PATH", environ["PATH"])


def serve(monkeypatch: pytest.MonkeyPatch, model) -> None:
    for name, value in model.environ.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("quick")
def test_an_agent_is_awaited_and_its_result_read_from_its_bundle(repo, monkeypatch):
    async def main() -> RunResult:
        return await run_agent(FIXER, "Take the TODO out.")

    with answering(*writes("src/load.py", FIXED)) as model:
        serve(monkeypatch, model)
        result = asyncio.run(main())
    assert [file.path for file in result.files.changed()] == ["src/load.py"]
    assert result.tools.used("Write") == 1
    assert result.git.changed_count == 1
    (call,) = result.files.changed()[0].calls
    assert call.input()["content"] == FIXED


@pytest.mark.usefixtures("quick")
def test_what_the_run_notes_is_logged(repo, monkeypatch, caplog):
    async def main() -> RunResult:
        return await run_agent(FIXER, "/look at it")

    with answering(says("Seen.")) as model:
        serve(monkeypatch, model)
        asyncio.run(main())
    (record,) = [record for record in caplog.records if record.name == "vibe_gate"]
    assert record.levelname == "WARNING"
    assert "The prompt of fixer begins with /look, which is sent as text" in record.getMessage()


@pytest.mark.usefixtures("quick")
def test_a_model_is_asked_in_place_of_the_agents_own_and_the_result_takes_remarks(
    repo, monkeypatch
):
    secret = f"ghp_{'a1B2c3D4e5F6' * 3}"

    async def main() -> RunResult:
        return await run_agent(FIXER, "Take the TODO out.", model="claude-haiku-4-5")

    with answering(*writes("src/load.py", FIXED)) as model:
        serve(monkeypatch, model)
        result = asyncio.run(main())
    assert {request.body["model"] for request in model.script.requests} == {"claude-haiku-4-5"}
    result.annotate(f"It wrote {secret}.", "note")
    (remark,) = result.annotations()
    assert (remark.type, secret in remark.message) == ("note", False)
    with pytest.raises(UsageError, match="model: '-x' is not the name of a language model"):
        run_agent(FIXER, "Go.", model="-x")


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_two_agents_are_gathered_and_a_result_is_handed_over(repo, monkeypatch):
    async def main() -> list[RunResult]:
        first = await run_agent(FIXER, "Look.")
        executions = (run_agent(FIXER, "Say it.", context=first), run_agent(FIXER, "Say it, too."))
        return list(await asyncio.gather(*executions))

    with answering(says("It is broken."), says("One."), says("Two.")) as model:
        serve(monkeypatch, model)
        results = asyncio.run(main())
    assert len({result.bundle_dir for result in results}) == 2
    assert sum("| It is broken." in request.all_text for request in model.script.requests) == 1


@pytest.mark.slow
def test_a_watcher_that_raises_stops_the_agent_after_the_first_of_three_writes(repo, monkeypatch):
    paths = ["src/one.py", "db/two.py", "src/three.py"]
    message = Turn(*(ToolUse("Write", {"file_path": path, "content": "x = 1\n"}) for path in paths))

    def forbid(event) -> None:
        if event.kind == "tool.started" and str(event.input.get("file_path", "")).find("db/") >= 0:
            raise PermissionError("db is frozen")

    async def main() -> None:
        await run_agent(FIXER, "Write three files.").watch(forbid)

    with (
        answering(message, says("Done.")) as model,
        pytest.raises(PermissionError, match="db is frozen") as caught,
    ):
        serve(monkeypatch, model)
        asyncio.run(main())
    result = caught.value.result
    assert [file.path for file in result.files.changed()] == ["src/one.py"]
    assert "src/one.py" in result.files.changed()[0].patch()
    assert result.metrics.total_cost_usd > 0
    assert result.complete


@pytest.mark.slow
def test_neither_this_process_nor_one_it_started_shows_the_key_to_an_agent(repo, monkeypatch):
    observations = []

    def look(event) -> None:
        if event.kind == "tool.started":
            dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)  # PR_GET_DUMPABLE
            below = subprocess.run(
                ["pgrep", "-P", str(os.getpid())], capture_output=True, text=True
            ).stdout.split()
            pids_with_key = [
                pid for pid in below if b"sk-ant-real" in Path(f"/proc/{pid}/environ").read_bytes()
            ]
            has_children = len(below) >= 1  # the agent's program at least
            observations.append((dumpable, has_children, pids_with_key))

    async def main() -> None:
        await run_agent(FIXER, "Take the TODO out.").watch(look)

    with answering(*writes("src/load.py", FIXED)) as model:
        serve(monkeypatch, model)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-real")
        asyncio.run(main())
    assert observations == [(0, True, [])]


@pytest.mark.slow
def test_an_agent_is_aborted_from_outside(repo, monkeypatch, caplog):
    async def main() -> RunResult:
        nobody_waits = run_agent("no-such-agent", "Go.")
        nobody_waits.abort("enough")
        execution = run_agent(FIXER, "Go on for ever.")
        execution.watch(
            lambda event: execution.abort("enough") if event.kind == "tool.ended" else None
        )
        del nobody_waits
        return await execution

    steps = (
        lambda request: Turn(
            ToolUse("Write", {"file_path": f"n{len(request.messages)}.py", "content": "x\n"})
        ),
    )
    with answering(*steps, repeat_last=True) as model:
        serve(monkeypatch, model)
        result = asyncio.run(main())
    assert result.complete and len(result.files.changed()) == 1
    gc.collect()
    assert "never retrieved" not in caplog.text


@pytest.mark.usefixtures("quick")
def test_a_turn_that_could_not_be_recorded_wholly_says_why_and_a_warning_does(
    repo, monkeypatch, caplog
):
    def spoil(event) -> None:
        if event.kind == "tool.ended":
            (turn,) = repo.path.glob(".vibe-artifacts/*/*/nodes/fixer/turn-001")
            (turn / "turn.patch/in the way").mkdir(parents=True)

    async def main() -> RunResult:
        return await run_agent(FIXER, "Take the TODO out.").watch(spoil)

    with answering(*writes("src/load.py", FIXED)) as model:
        serve(monkeypatch, model)
        result = asyncio.run(main())
    (warning,) = result.hook_capture_status.warnings
    assert warning.startswith("Unrecorded: ") and ": Is a directory. Free space" in warning
    assert result.error == f"The turn ended, but not all of it was recorded. {warning}"
    assert f"vibe-gate: {warning}" in caplog.text
    assert result.messages


@pytest.mark.slow
def test_what_hooks_did_not_see_is_a_warning_and_the_run_shows_it_later(repo, monkeypatch, caplog):
    shell = Agent(id="shell", tools=("Bash",))

    async def main() -> RunResult:
        return await run_agent(shell, "Go.")

    with answering(Turn(ToolUse("Bash", {"command": "kill -9 $PPID"}))) as model:
        serve(monkeypatch, model)
        result = asyncio.run(main())
    assert result.hook_capture_status.missing_events
    assert "vibe-gate: Capture incomplete: shell: no PostToolUse toolu_" in caplog.text
    listing = vibe_gate("bundles", "show", cwd=repo.path, environ=repo.environ)
    assert "Capture incomplete: shell: no PostToolUse toolu_" in listing.out, listing.err


@pytest.mark.usefixtures("quick")
def test_a_time_that_is_used_up_before_the_session_began_is_a_timeout(repo, monkeypatch):
    async def main() -> None:
        await run_agent(FIXER, "Go.", timeout_s=0.01)

    with answering() as model, pytest.raises(AgentFailed, match="before the agent's") as caught:
        serve(monkeypatch, model)
        asyncio.run(main())
    assert (caught.value.status, model.script.requests) == ("timeout", [])


@pytest.mark.usefixtures("quick")
def test_a_store_that_is_a_file_is_named_with_what_to_do(repo, monkeypatch):
    repo.write(".vibe-artifacts", "mine\n")

    async def main() -> None:
        await run_agent(FIXER, "Take the TODO out.")

    sentence = r"\.vibe-artifacts is not a directory.* Remove it .* and run this again\."
    with (
        answering(*writes("src/load.py", FIXED)) as model,
        pytest.raises(StorageError, match=sentence) as caught,
    ):
        serve(monkeypatch, model)
        asyncio.run(main())
    assert "review again" not in str(caught.value)


def test_without_an_event_loop_it_says_what_to_do(repo):
    with pytest.raises(UsageError, match="async def"):
        run_agent(FIXER, "Go.")
