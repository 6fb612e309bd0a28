"""What agents did, held against a rubric: in a workflow, and in a review of what a captured session
wrote.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from command import vibe_gate
from scripted_messages_api import ToolUse, Turn
from wire import answering
from working import FIXED, WorkingRepo, writes

CRITERIA = {
    "tools": 'check = "tools-only"\noptions = { tools = ["Write", "Task*"] }',
    "used": 'check = "tool-used"\noptions = { tool = "Write" }',
    "cost": 'check = "cost-under"\noptions = { max_usd = 4 }',
    "todos": 'check = "todos-completed"',
    "log": 'check = "no-errors-in-logs"',
    "capture": 'check = "complete-capture"',
}
CONDUCT = 'schema = 1\nid = "conduct"\n' + "".join(
    f'[[criterion]]\nid = "{name}"\nkind = "check"\n{check}\n' for name, check in CRITERIA.items()
)
WORKFLOW = """\
schema = 1
id = "{id}"
[[stage]]
id = "before"
rubrics = ["conduct"]
[[stage]]
id = "fix"
needs = ["before"]
agent = "fixer"
prompt = "Repair."
[[stage]]
id = "after"
needs = ["fix"]
when = "{when}"
rubrics = ["conduct"]
"""


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> WorkingRepo:
    workflows = {
        id: WORKFLOW.format(id=id, when=when)
        for id, when in (("well", "fix.passed"), ("cut", "fix.error"))
    }
    repo = WorkingRepo(tmp_path / "repo", environ, **workflows)
    repo.git("stash", "-q")
    repo.write(".vibe-gate/rubrics/conduct.toml", CONDUCT)
    repo.commit("Conduct")
    repo.git("stash", "pop", "-q")
    return repo


def outcomes(result) -> dict[str, str]:
    (rubric,) = result.json["rubrics"]
    return {criterion["id"]: criterion["outcome"] for criterion in rubric["criteria"]}


@pytest.mark.slow
def test_a_gate_looks_at_the_turns_of_the_agents_before_it(repo):
    shell = ToolUse("Bash", {"command": "echo 'ERROR: no luck'"})
    todo = ToolUse("TaskCreate", {"subject": "Test it", "description": "all of it"})
    with answering(Turn(shell), Turn(todo), *writes("src/load.py", FIXED)) as model:
        run = repo.run("well", "--json", model=model.environ)
    assert outcomes(run) == {
        "tools": "fail", "used": "pass", "cost": "pass", "todos": "fail", "log": "fail", "capture": "pass",
    }, run.err  # fmt: skip
    assert {finding["message"] for finding in run.json["findings"]} == {
        "fix used Bash", "fix: pending: Test it", "fix: ERROR: no luck"
    }  # fmt: skip
    assert "Capture incomplete" not in run.err


@pytest.mark.slow
def test_what_hooks_did_not_see_is_said_and_can_be_demanded(repo):
    with answering(Turn(ToolUse("Bash", {"command": "kill -9 $PPID"}))) as model:
        review = ("review", "--workflow", "cut", "--markdown", "told.md")
        result = vibe_gate(*review, cwd=repo.path, environ={**repo.environ, **model.environ})
    assert "- Capture incomplete: fix: no PostToolUse `toolu" in (repo.path / "told.md").read_text()
    assert "note    Capture incomplete: fix: no PostToolUse toolu_" in result.out, (
        result.out + result.err
    )
    assert "✗ capture        fail     fix: no PostToolUse toolu_" in result.out


@pytest.mark.slow
def test_who_kills_the_gate_is_looked_at_when_the_run_is_resumed(repo):
    kill = "echo ERROR; kill -9 $(sed -n 's/^PPid:\\t*//p' /proc/$PPID/status)"
    with answering(Turn(ToolUse("Bash", {"command": kill}))) as model:
        environ = {**repo.environ, **model.environ}
        killed = vibe_gate("run", "well", cwd=repo.path, environ=environ)
        assert killed.code == -signal.SIGKILL
    with answering(*writes("src/load.py", FIXED)) as model:
        resumption = vibe_gate(
            "resume", "--json", cwd=repo.path, environ={**repo.environ, **model.environ}
        )
    messages = {finding["message"] for finding in resumption.json["findings"]}
    assert resumption.code == 1 and "fix, cut off used Bash" in messages, resumption.err
    assert any(message.endswith("cut off: the process that ran it ended") for message in messages)


def session(repo: WorkingRepo, *events: dict) -> None:
    """Leave the events of a session as capture does."""
    spool = repo.path / ".git/vibe-gate/captures/5e551011-0000"
    spool.mkdir(parents=True)
    lines = [
        json.dumps({"ts": 1767323045678, "event": {"session_id": "5e551011-0000", **event}})
        for event in events
    ]
    (spool / "events.ndjson").write_text("".join(line + "\n" for line in lines))


def call_event(tool: str, tool_input: dict, answer: dict) -> dict:
    fields = {"hook_event_name": "PostToolUse", "tool_name": tool, "tool_use_id": f"toolu_{tool}"}
    return {**fields, "tool_input": tool_input, "tool_response": answer}


def test_a_review_looks_at_the_captured_session_that_wrote_the_change(repo):
    review = ("review", "--rubric", "conduct", "--json")
    todo = {"content": "Test it", "status": "in_progress"}
    written = (repo.path / "src/load.py").read_text()
    assert set(outcomes(vibe_gate(*review, cwd=repo.path, environ=repo.environ)).values()) == {
        "not_applicable"
    }
    session(
        repo,
        call_event("Write", {"file_path": str(repo.path / "src/load.py"), "content": written}, {}),
        call_event("Bash", {"command": "true"}, {}),
        call_event("TodoWrite", {"todos": [{"content": "Plan", "status": "pending"}]}, {}),
        {**call_event("TodoWrite", {"todos": [todo]}, {}), "tool_use_id": "toolu_2"},
    )
    result = vibe_gate(*review, cwd=repo.path, environ=repo.environ)
    nothing = dict.fromkeys(("used", "cost", "log", "capture"), "not_applicable")
    assert outcomes(result) == {"tools": "fail", "todos": "fail", **nothing}, result.err
    assert {finding["message"] for finding in result.json["findings"]} == {
        "Claude Code session 5e551011 used Bash",
        "Claude Code session 5e551011 used TodoWrite",
        "Claude Code session 5e551011: in progress: Test it",
    }
    (capture_folder,) = (repo.path / ".vibe-artifacts/captures").glob("claude_*")
    (capture_folder / "meta.json").unlink()
    assert outcomes(vibe_gate(*review, cwd=repo.path, environ=repo.environ))["todos"] == "abstain"
