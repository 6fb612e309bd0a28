"""`vibe-gate resume`: killed at any request, a run goes on to the same graph and tree; ended turns
are paid once.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import CommandResult, begun, vibe_gate
from test_workflows import FIX
from wire import answering
from working import FIXED, WORSE, WorkingRepo, pid_of_agents, says, writes

from vibe_gate.domain.begun_run import BegunRun, resume_request
from vibe_gate.domain.bundles import RunEntry
from vibe_gate.errors import IntegrityError, UsageError
from vibe_gate.run.resume import kept_run

THREE = """\
from vibe_gate import workflow

@workflow("three")
async def steps(wf):
    look = await wf.stage("look", agent="reviewer", prompt="Look.")
    first = await wf.stage("first", agent="fixer", prompt="Write.", context=[look])
    await wf.stage("second", agent="fixer", prompt="Write more.", context=[first])
    assert (await wf.judge(first, rubrics=["clean"])).passed
"""

pytestmark = pytest.mark.usefixtures("quick_agents")

SCRIPTS = {
    "fix": [writes("src/load.py", WORSE.format(1)), writes("src/load.py", FIXED)],
    "three": [(says("Look here: sk-ant-api03-a-secret-0123456789abcdefghij"),), writes("src/load.py", FIXED),
              writes("src/more.py", "X = 1\n")],
}  # fmt: skip
"""What the model says in each turn of the two workflows."""


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> WorkingRepo:
    return WorkingRepo(tmp_path / "repo", environ, fix=FIX, three=THREE)


def kill_at(at: int, repo: WorkingRepo, workflow: str) -> None:
    """Kill `run WORKFLOW` when its agent asks for the `at`-th time."""
    steps = [step for turn in SCRIPTS[workflow] for step in turn]

    def kill(request: Any) -> Any:
        os.kill(pid_of_agents(repo), signal.SIGKILL)
        running.wait()
        return steps[at - 1](request) if callable(steps[at - 1]) else steps[at - 1]

    with answering(*steps[: at - 1], kill) as model:
        environ = {**repo.environ, **model.environ}
        running = begun("run", workflow, cwd=repo.path, environ=environ)
        running.communicate(timeout=60)
    assert running.returncode == -signal.SIGKILL


def remaining_steps(workflow: str, at: int) -> list[Any]:
    """The model's steps from the turn on that was cut."""
    turns, step_count = SCRIPTS[workflow], 0
    for number, turn in enumerate(turns):
        step_count += len(turn)
        if at <= step_count:
            return [step for remaining_turn in turns[number:] for step in remaining_turn]
    raise AssertionError(at)


def shape(repo: WorkingRepo, document: dict[str, Any]) -> tuple[Any, ...]:
    """What must be as if nothing had happened: nodes, edges, trees, patch, outcome."""
    bundle = repo.path / document["bundle"]
    graph = json.loads((bundle / "graph.json").read_text())
    nodes = {
        node["id"]: [node.get(name) for name in ("kind", "status", "outcome", "after")]
        for node in graph["nodes"]
    }
    facts = [document[name] for name in ("outcome", "rubrics", "agent_authored")]
    return nodes, sorted(graph["edges"]), (bundle / "made.patch").read_bytes(), facts


@pytest.mark.slow
@pytest.mark.parametrize(("workflow", "points"), [("fix", (1, 4)), ("three", (5,))])
def test_killed_at_any_request_it_goes_on_to_the_same_end(repo, workflow, points):
    with answering(*(step for turn in SCRIPTS[workflow] for step in turn)) as model:
        uninterrupted = repo.run(workflow, "--json", model=model.environ)
    assert uninterrupted.code == 0, uninterrupted.err
    before = repo.state()
    for at in points:
        kill_at(at, repo, workflow)
        steps = remaining_steps(workflow, at)
        with answering(*steps) as model:
            resumption = vibe_gate(
                "resume", "--json", cwd=repo.path, environ={**repo.environ, **model.environ}
            )
            assert len(model.script.requests) == len(steps), at  # no ended turn is asked for again
        assert (resumption.code, repo.state()) == (0, before), resumption.err
        assert shape(repo, resumption.json) == shape(repo, uninterrupted.json), at
        assert resumption.json["cost"]["usd"] >= uninterrupted.json["cost"]["usd"] > 0
    verified = vibe_gate("bundles", "verify", cwd=repo.path, environ=repo.environ)
    assert verified.code == 0, verified.out
    second_resumption = vibe_gate("resume", cwd=repo.path, environ=repo.environ)
    assert (second_resumption.code, "No run to resume" in second_resumption.err) == (2, True)


@pytest.mark.slow
def test_who_resumes_a_run_that_lives_is_told_its_process(repo):
    def resumed_meanwhile(request: Any) -> Any:
        tried.append(vibe_gate("resume", cwd=repo.path, environ=environ))
        return says("Done.")

    tried: list[CommandResult] = []
    with answering(resumed_meanwhile) as model:
        environ = {**repo.environ, **model.environ}
        assert (
            vibe_gate(
                "run", "--agent", "reviewer", "--prompt", "Look.", cwd=repo.path, environ=environ
            ).code
            == 0
        )
    (first,) = tried
    assert first.code == 3 and "is being written by another process" in first.err


def test_a_run_that_waits_goes_on_when_a_person_approves(repo):
    argv = ("run", "--agent", "fixer", "--prompt", "Go.", "--interactive", "--apply")
    vibe_gate(*argv, cwd=repo.path, environ=repo.environ)
    with answering(*writes("src/load.py", FIXED)) as model:
        environ = {**repo.environ, **model.environ}
        assert vibe_gate(*argv, cwd=repo.path, environ=environ).code == 3
        waiting = vibe_gate("resume", cwd=repo.path, environ=environ)
        assert waiting.code == 3 and "vibe-gate: blocked: fixer." in waiting.err
        assert "1 older run did not end" in " ".join(waiting.err.split())
        wrong = vibe_gate("resume", "--approve", "fixr", cwd=repo.path, environ=environ)
        assert (wrong.code, "waiting: fixer" in wrong.err) == (2, True)
        resumption = vibe_gate("resume", "--approve", "fixer", cwd=repo.path, environ=environ)
    assert resumption.code == 0, resumption.out + resumption.err
    assert resumption.out.splitlines()[-1] == "applied   to the working tree", (
        resumption.out + resumption.err
    )
    assert (repo.path / "src/load.py").read_text() == FIXED


@pytest.mark.slow
def test_a_person_can_deny_it_or_ask_nobody_any_more(repo):
    argv = ("run", "--agent", "fixer", "--prompt", "Go.", "--interactive")
    assert vibe_gate(*argv, cwd=repo.path, environ=repo.environ).code == 3
    denied = vibe_gate("resume", "--deny", "fixer", "--json", cwd=repo.path, environ=repo.environ)
    assert (denied.code, denied.json["outcome"]) == (3, "inconclusive")
    assert vibe_gate(*argv, cwd=repo.path, environ=repo.environ).code == 3
    with answering(*writes("src/load.py", FIXED)) as model:
        resumption = vibe_gate(
            "resume", "--auto", "--json", cwd=repo.path, environ={**repo.environ, **model.environ}
        )
    assert resumption.code == 0, resumption.err
    log = (repo.path / resumption.json["bundle"] / "events.ndjson").read_text()
    assert '"run.mode_changed"' in log


def edits(run_document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of a field, and run.json with another value in it."""
    for name in run_document["request"]:
        for value in (
            [1],
            {"a": [1]},
            *(["abc"] if name in ("deadline_s", "max_cost_usd", "selection") else []),
        ):
            yield (
                f"request.{name}",
                {**run_document, "request": {**run_document["request"], name: value}},
            )
    yield (
        "request.model",
        {
            **run_document,
            "request": {**run_document["request"], "model": "--dangerously-skip-permissions"},
        },
    )
    for name in ("mode", "workflow", "prompt", "change", "definitions", "request"):
        yield name, {**run_document, name: [5]}
    yield "mode", {**run_document, "mode": "lax"}


def test_a_record_of_a_begun_run_that_is_damaged_is_refused_with_the_name_of_what_is_wrong(repo):
    assert repo.run("--agent", "fixer", "--prompt", "Go.", "--interactive").code == 3
    (path,) = repo.path.glob(".vibe-artifacts/*/*/run.json")
    entry = RunEntry(path.parent.name, path.parent.parent.name, "incomplete")
    run_document = json.loads(path.read_text())
    assert kept_run(entry, run_document, BegunRun("", resume_request(run_document))).prompt == "Go."
    for name, edited in edits(run_document):
        with pytest.raises(UsageError) as refused:
            kept_run(entry, edited, BegunRun("", resume_request(edited)))
        assert f"its record in state.db is wrong ({name}" in str(refused.value)
    with pytest.raises(IntegrityError):
        kept_run(entry, run_document, BegunRun("", "not JSON"))


def test_a_change_of_the_files_stops_it_and_is_named(repo):
    argv = ("run", "--agent", "fixer", "--prompt", "Go.", "--interactive")
    assert vibe_gate(*argv, cwd=repo.path, environ=repo.environ).code == 3
    repo.write("src/new.py", "Y = 2\n")
    resumption = vibe_gate("resume", "--auto", cwd=repo.path, environ=repo.environ)
    assert (resumption.code, "Bring its commit and files back" in resumption.err) == (3, True), (
        resumption.err
    )


def test_a_review_is_not_resumed(repo):
    vibe_gate("review", cwd=repo.path, environ=repo.environ)
    resumption = vibe_gate("resume", cwd=repo.path, environ=repo.environ)
    assert resumption.code == 2


CHANGING = """\
import os
from pathlib import Path
from vibe_gate import Agent, workflow

@workflow("changing")
async def steps(wf):
    system_prompt, prompt = Path(os.environ["ASKED"]).read_text().split("|")
    look = await wf.stage("look", agent=Agent(id="looker", system_prompt=system_prompt), prompt=prompt)
    await wf.stage("write", agent="fixer", prompt="Write.", context=[look])
"""


@pytest.mark.slow
def test_another_agent_or_prompt_or_definition_than_the_first_time_stops_it_and_is_named(
    repo, tmp_path
):
    repo.write(".vibe-gate/workflows/changing.py", CHANGING)
    repo.commit("A workflow that reads what it asks")
    repo.write("src/load.py", WORSE.format(2))
    repo.commit("Change")
    question_file = tmp_path / "asked"
    question_file.write_text("You look.|Look.")
    environ = {**repo.environ, "ASKED": str(question_file)}
    with answering(says("Fine.")) as model:
        environ |= model.environ
        run = ("run", "changing", "HEAD~1..HEAD", "--definitions", "worktree", "--interactive")
        assert vibe_gate(*run, cwd=repo.path, environ=environ).code == 3
        assert vibe_gate("resume", "--approve", "look", cwd=repo.path, environ=environ).code == 3
        assert len(model.script.requests) == 1
    for text, name in {"You look.|Look again.": "prompt", "You look away.|Look.": "agent"}.items():
        question_file.write_text(text)
        resumption = vibe_gate("resume", cwd=repo.path, environ=environ)
        sentence = f"The stage look cannot give its recorded result, as this differs from the first time: {name}."
        assert (resumption.code, sentence in " ".join(resumption.err.split())) == (3, True), (
            resumption.err
        )
    question_file.write_text("You look.|Look.")
    source = (repo.path / ".vibe-gate/agents/fixer.toml").read_text()
    repo.write(".vibe-gate/agents/fixer.toml", source.replace("You repair.", "You destroy."))
    resumption = vibe_gate("resume", cwd=repo.path, environ=environ)
    assert (
        resumption.code == 3
        and "began with other definitions: .vibe-gate/agents/fixer.toml differs" in resumption.err
    )
    repo.write(".vibe-gate/agents/fixer.toml", source)
    resumption = vibe_gate("resume", "--deny", "write", "--json", cwd=repo.path, environ=environ)
    assert (resumption.code, resumption.json["outcome"]) == (3, "inconclusive"), resumption.err
