"""Agents that work: the real CLI changes files by its own tools, against a scripted model."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from pathlib import Path

import pytest
from bundle_words import KEY, START, Clock, OneSecretRedactor
from scripted_messages_api import Hang, ToolUse, Turn, Usage
from wire import Notes, answering, conversing, hold, session_in

from vibe_gate import agent
from vibe_gate.agent.allowed import refusal_of_call
from vibe_gate.domain.agent import PROTECTED
from vibe_gate.domain.model_wire import Wire
from vibe_gate.domain.turn import TurnChange, TurnFile
from vibe_gate.gateway import Gateway, find_upstream
from vibe_gate.store.store import open_store

pytestmark = pytest.mark.slow

TOOLS = ("Read", "Grep", "Glob", "Edit", "Write", "Bash", "TaskCreate", "TaskUpdate", "TaskList")
DONE = Turn("All done.")


def write(path: str, content: str = "x\n") -> ToolUse:
    return ToolUse("Write", {"file_path": path, "content": content})


def bash(command: str) -> ToolUse:
    return ToolUse("Bash", {"command": command})


def work_in(place: Path, base_url: str, environ, **changes):
    """A working session in a folder like a run's workspace, below a folder named .git."""
    tree = place / ".git" / "workspaces" / "tree"
    tree.mkdir(parents=True, exist_ok=True)
    defaults = {"folder": tree, "schema": None, "working": True, "tools": TOOLS, "prompt": "Work."}
    return session_in(place, base_url, environ, **(defaults | changes))


def tool_failures(notes: Notes) -> list[tuple[str, bool]]:
    """Each call's tool, and whether it failed."""
    return [(item["tool"], item["is_error"]) for item in notes.events if item.get("role") == "tool"]


def files(tree: Path) -> list[str]:
    return sorted(str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file())


# What a working agent may do.


def test_listed_tools_change_the_workspace_and_free_text_ends_it(tmp_path, environ):
    steps = [
        Turn("Now.", write("a.py", "x = 1\n"), write("d/b.py")),
        Turn(ToolUse("Read", {"file_path": "a.py"})),
        Turn(ToolUse("Edit", {"file_path": "a.py", "old_string": "1", "new_string": "2"})),
        Turn(bash("echo made > by-bash; cat a.py"), ToolUse("Grep", {"pattern": "x = 2"})),
        Turn("All done.\nTwo files."),
    ]
    with answering(*steps) as model:
        session = work_in(tmp_path, model.base_url, environ)
        ending, notes = hold(session)
    assert (ending.status, ending.text, ending.detail) == (
        "done",
        "All done.\nTwo files.",
        "All done. Two files.",
    )
    assert ending.answer is None and ending.cost.usd > 0
    assert (
        not any(is_error for _, is_error in tool_failures(notes)) and len(tool_failures(notes)) == 6
    )
    assert (
        files(session.turn.folder) == ["a.py", "by-bash", "d/b.py"]
        and (session.turn.folder / "a.py").read_text() == "x = 2\n"
    )
    assert "x = 2" in model.script.requests[4].all_text


def test_writes_outside_and_to_what_decides_are_refused(tmp_path, environ):
    with answering() as model:
        tree = work_in(tmp_path, model.base_url, environ).turn.folder
    for name in (".git/hooks", ".claude", ".vibe-gate", "sub/.git"):
        (tree / name).mkdir(parents=True)
    (tree / "up").symlink_to(tmp_path)
    (tree / "hooks").symlink_to(".git/hooks")
    paths = (
        "../out", str(tmp_path / "out"), "~/out", "up/out", ".git/hooks/pre-commit", "hooks/pre-commit", ".git/config",
        ".claude/settings.json", ".CLAUDE/x", ".vibe-gate/gate.toml", ".vibe-artifacts/x", "sub/.git/config",
    )  # fmt: skip
    with answering(Turn(*(write(path) for path in paths)), Turn(write("in.py")), DONE) as model:
        ending, notes = hold(work_in(tmp_path, model.base_url, environ))
    assert tool_failures(notes) == [("Write", True)] * len(paths) + [("Write", False)]
    assert len(ending.permission_denials) == len(paths)
    assert (
        files(tree) == ["in.py"]
        and files(tmp_path / "tree") == []
        and not (tmp_path / "out").exists()
    )


def test_what_is_disallowed_stays_so_and_what_is_not_listed_is_not_there(tmp_path, environ):
    calls = (
        bash("git push origin"),
        bash("echo made > ok"),
        ToolUse("NotebookEdit", {"notebook_path": "a.ipynb"}),
    )
    with answering(*(Turn(call) for call in calls), DONE) as model:
        session = work_in(tmp_path, model.base_url, environ, disallowed_tools=("Bash(git push *)",))
        _, notes = hold(session)
    assert [is_error for _, is_error in tool_failures(notes)] == [True, False, True]
    assert files(session.turn.folder) == ["ok"]


@pytest.mark.parametrize(
    ("tool", "allowed"),
    [("mcp__db__query", True), ("mcp__web__get", True), ("mcp__web__put", False), ("Edit", False)],
)
def test_tools_of_servers_are_listed_one_by_one_or_all(tmp_path, tool, allowed):
    listed = ("mcp__db", "mcp__web__get")
    assert (refusal_of_call(tool, {"path": "/etc"}, listed, tmp_path, PROTECTED) is None) is allowed


def test_a_working_agent_goes_on_after_an_answer_that_was_cut_and_may_be_asked_for_a_form(
    tmp_path, environ
):
    schema = session_in(tmp_path, "", environ).turn.schema
    with answering(
        Turn("Half an ans", stop_reason="max_tokens"), Turn(write("a.py")), {"ok": True}
    ) as model:
        session = work_in(tmp_path, model.base_url, environ, schema=schema)
        ending, _ = hold(session)
    assert (ending.status, ending.answer, files(session.turn.folder)) == (
        "answered",
        {"ok": True},
        ["a.py"],
    )


def test_a_subagent_is_held_by_the_same_guard(tmp_path, environ):
    ask = ToolUse(
        "Agent", {"subagent_type": "general-purpose", "description": "d", "prompt": "Write below."}
    )
    wrote = threading.Event()

    def step(request):
        """The agent ends after its subagent wrote, which may work beside it."""
        if "Write below." in json.dumps(request.messages[0]):
            if not request.tool_results:
                return Turn(write("../out"), write("in.py"))
            wrote.set()
        elif not request.tool_results:
            return Turn(ask)
        else:
            wrote.wait(60)
        return DONE

    with answering(step, repeat_last=True) as model:
        session = work_in(tmp_path, model.base_url, environ, tools=("Agent", "Write"))
        ending, _ = hold(session)
    assert ending.status == "done" and files(session.turn.folder) == ["in.py"]
    assert [denial["tool_name"] for denial in ending.permission_denials] == ["Write"]


def test_each_answer_says_what_it_used_and_todos_their_text(tmp_path, environ):
    update = ToolUse("TaskUpdate", {"taskId": "1", "status": "completed"})
    with answering(
        Turn(ToolUse("TaskCreate", {"subject": "One", "description": ""})), Turn(update), DONE
    ) as model:
        _, notes = hold(work_in(tmp_path, model.base_url, environ))
    used = [item["tokens"] for item in notes.events if item["type"] == "usage"]
    assert used == [{"input": 100, "output": 20, "cache_read": 0, "cache_write": 0}] * 3
    todos = [
        (item["action"], item["text"], item["status"])
        for item in notes.events
        if item["type"] == "todo"
    ]
    assert todos == [("add", "One", "pending"), ("update", "One", "completed")]
    assert all(
        "uuid" in item
        for item in notes.events
        if item["type"] == "message" and item["role"] != "user"
    )


def test_the_program_starts_behind_what_the_wall_gives(tmp_path, environ):
    with answering(Turn(bash("echo $BEHIND $HOME; id -un")), DONE) as model:
        session = work_in(
            tmp_path,
            model.base_url,
            environ,
            wall=lambda home, cli: ("/usr/bin/env", f"BEHIND={cli.name}"),
        )
        ending, _ = hold(session)
    assert model.script.requests[1].tool_results[0].text.startswith(f"claude {session.home}/home\n")
    assert ending.status == "done"


# Watched and stopped.


def test_a_watcher_hears_everything_in_order(tmp_path, environ):
    events = []
    update = ToolUse("TaskUpdate", {"taskId": "1", "status": "completed"})
    steps = (
        Turn(write("a.py"), write("/out")),
        Turn(ToolUse("TaskCreate", {"subject": "One", "description": ""})),
        Turn(update),
        Turn(bash("exit 3")),
        Turn(bash("git push")),
        DONE,
    )
    with answering(*steps) as model:
        session = work_in(
            tmp_path,
            model.base_url,
            environ,
            watch=events.append,
            disallowed_tools=("Bash(git push *)",),
        )
        hold(session)
    summaries = [
        (step.kind, step.tool or step.text, step.ok) for step in events if step.kind != "usage"
    ]
    assert summaries == [
        ("tool.started", "Write", None), ("tool.ended", "Write", True),
        ("tool.started", "Write", None), ("tool.ended", "Write", False),
        ("tool.started", "TaskCreate", None), ("tool.ended", "TaskCreate", True), ("todo", "One", None),
        ("tool.started", "TaskUpdate", None), ("tool.ended", "TaskUpdate", True), ("todo", "One", None),
        ("tool.started", "Bash", None), ("tool.ended", "Bash", False),
        ("tool.started", "Bash", None), ("tool.ended", "Bash", False),
    ]  # fmt: skip
    assert [step.tokens["output"] for step in events if step.kind == "usage"] == [20] * 6


@pytest.mark.parametrize("kind", ["tool.started", "tool.ended"])
def test_what_a_watcher_forbids_happens_no_further(tmp_path, environ, kind):
    def watch(step):
        if step.kind == kind and "db/" in step.input.get("file_path", ""):
            raise PermissionError("hands off db")

    session = None
    with answering(
        Turn(write("a.py"), write("db/b.py"), write("db/c.py")), Turn(write("d.py")), DONE
    ) as model:
        session = work_in(tmp_path, model.base_url, environ, watch=watch)
        ending, notes = hold(session)
    assert (ending.status, ending.detail) == ("aborted", "Its watcher stopped it: hands off db")
    assert isinstance(session.turn.stop.error, PermissionError) and ending.cost.usd > 0
    assert files(session.turn.folder) == ["a.py"] + ["db/b.py"] * (kind == "tool.ended")
    assert len(model.script.requests) == 1 and notes.events[-1]["type"] == "result"


def test_a_watcher_may_wait_and_may_stop_at_what_an_answer_used(tmp_path, environ):
    async def watch(step):
        await asyncio.sleep(0.01)
        assert step.kind != "usage", "too dear"

    with answering(Turn(bash("tail -f /dev/null")), DONE) as model:
        ending, _ = hold(work_in(tmp_path, model.base_url, environ, watch=watch))
    assert ending.status == "aborted" and ending.detail.startswith(
        "Its watcher stopped it: too dear"
    )
    assert len(model.script.requests) == 1


LONG = Turn(bash("echo $$ > pid; tail -f /dev/null"), write("b.py"))


async def run_interrupted(session, model, interrupt):
    """The end of the session; `interrupt(session, running)` is called during its second turn."""
    running = asyncio.create_task(conversing(session, Notes()))
    while len(model.script.requests) < 2:
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.7)
    await asyncio.to_thread(interrupt, session, running)
    return await asyncio.wait_for(running, 200)


def nothing_left(tree: Path) -> bool:
    """Whether the shell that wrote `pid` has ended."""
    pid = (tree / "pid").read_text().strip() if (tree / "pid").exists() else "0"
    deadline = time.monotonic() + 200
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("step", [LONG, Hang()])
def test_a_turn_is_stopped_from_outside(tmp_path, environ, step):
    with answering(Turn(write("a.py")), step) as model:
        session = work_in(tmp_path, model.base_url, environ)
        ending = asyncio.run(
            run_interrupted(session, model, lambda session, _: session.turn.stop.abort("Enough."))
        )
    assert (ending.status, ending.detail) == ("aborted", "Enough.")
    assert (
        "b.py" not in files(session.turn.folder)
        and ending.cost.usd > 0
        and nothing_left(session.turn.folder)
    )


def test_cancelling_and_the_clock_leave_no_command_running(tmp_path, environ):
    with answering(Turn(write("a.py")), LONG) as model, pytest.raises(asyncio.CancelledError):
        session = work_in(tmp_path, model.base_url, environ)
        asyncio.run(
            run_interrupted(
                session,
                model,
                lambda _, running: running.get_loop().call_soon_threadsafe(running.cancel),
            )
        )
    assert nothing_left(session.turn.folder)
    with answering(LONG) as model:
        ending, _ = hold(work_in(tmp_path, model.base_url, environ, timeout_s=4))
    assert ending.status == "timeout" and nothing_left(session.turn.folder)


# Held: recorded, paid for, sealed.


def run_recorded_turn(place: Path, model, environ, *, budget=1.0, **changes):
    """(its end, the run's folder, what was spent) of a working turn that is recorded, through a
    gateway.
    """
    homes = place / "homes"
    homes.mkdir()
    turn = work_in(place, "", environ, node="fix", homes=homes, **changes).turn
    environment = agent.agent_environment_from(environ)

    upstream = find_upstream(model.environ)
    with (
        open_store(place, OneSecretRedactor(), Clock()).begin(KEY, START, {}) as run,
        Gateway(upstream, Wire("live"), budget, str) as gateway,
    ):
        run.event("node.added", "fix", kind="stage")
        running = agent.run_turn(
            turn, record=run, gateway=gateway, environment=environment, redact=str
        )
        end = asyncio.run(running)
        folder, spent = run.directory, gateway.spent()
        events = [json.loads(line) for line in (folder / "events.ndjson").read_text().splitlines()]
    return (
        end,
        folder / end.folder,
        spent,
        [event["data"] for event in events if event["type"] == "node.status"],
    )


def added_files_in(tree: Path):
    def describe_change(record):
        sides = {
            path: record.keep_content("after", (tree / path).read_bytes()) for path in files(tree)
        }
        changed = tuple(
            TurnFile(path=path, change_type="added", after=content)
            for path, content in sides.items()
        )
        return TurnChange(patch=b"".join(path.encode() + b"\n" for path in sides), files=changed)

    return describe_change


def test_a_turn_that_its_watcher_stopped_is_sealed_with_what_came_before(tmp_path, environ):
    def watch(step):
        if step.input.get("file_path", "").endswith("db/b.py"):
            raise PermissionError("hands off db")

    tree = tmp_path / ".git" / "workspaces" / "tree"
    with answering(Turn(write("a.py"), write("db/b.py"), write("c.py")), DONE) as model:
        end, folder, spent, statuses = run_recorded_turn(
            tmp_path, model, environ, watch=watch, change=added_files_in(tree)
        )
    summary = json.loads((folder / "summary.json").read_text())
    assert (end.status, summary["status"], statuses[-1]["status"]) == (
        "aborted",
        "aborted",
        "CANCELLED",
    )
    assert (
        isinstance(end.error, PermissionError)
        and spent.usd == end.cost.usd == spent.by_node["fix"] > 0
    )
    assert (folder / "turn.patch").read_text() == "a.py\n" and summary["hookCaptureStatus"][
        "complete"
    ]
    assert (
        summary["fileStats"]["added"] == 1
        and len(list((folder.parents[2] / "files").glob("*/*"))) == 1
    )


def test_a_turn_that_was_stopped_before_it_began_asks_nothing(tmp_path, environ):
    stop = agent.Stop()
    stop.abort("Enough.")
    with answering(DONE) as model:
        turn = work_in(tmp_path, "", environ, stop=stop).turn
        end = asyncio.run(
            agent.run_turn(turn, record=None, gateway=None, environment=None, redact=str)
        )
    assert (end.status, end.detail, model.api.log) == ("aborted", "Enough.", [])


def test_a_home_that_cannot_be_written_is_an_end_with_its_name(tmp_path, environ):
    def delete(home, cli):
        shutil.rmtree(home)
        return ()

    with answering(DONE) as model:
        end, *_ = run_recorded_turn(tmp_path, model, environ, wall=delete)
    assert end.status == "died"
    assert "homes/" in end.detail and end.detail.endswith(
        "cannot be written: No such file or directory."
    )


def test_what_cannot_be_said_of_a_turn_leaves_it_sealed(tmp_path, environ):
    def fail_without_git(record):
        raise OSError("no git")

    with answering(DONE) as model, pytest.raises(OSError, match="no git"):
        run_recorded_turn(tmp_path, model, environ, change=fail_without_git)
    assert len(list(tmp_path.rglob("turn-001/summary.json"))) == 1


def test_a_session_has_a_ceiling_of_its_own_below_the_budget_of_the_run(tmp_path, environ):
    dear = Usage(input_tokens=1000, output_tokens=9_000)  # 0.092 USD
    with answering(*(Turn(bash("true"), usage=dear) for _ in range(3)), repeat_last=True) as model:
        end, _, spent, _ = run_recorded_turn(tmp_path, model, environ, max_cost_usd=0.19)
    assert (end.status, end.detail) == ("budget", "The budget of this session is reached.")
    assert 0.09 < spent.usd <= 0.19
