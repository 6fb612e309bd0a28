"""Stages that have not begun stand in the graph from the start: READY, and what becomes of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from command import begun, vibe_gate
from scripted_messages_api import Hang, MessagesRequest, Turn
from wire import answering
from working import FIXED, WorkingRepo, pid_of_agents, says, writes

from vibe_gate.context.listeners import Listeners, StageStep
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.event import fold_events
from vibe_gate.run.run_request import RunRequest
from vibe_gate.run.walk import walk_workflow
from vibe_gate.store.bundle_location import parse_events
from vibe_gate.store.run_result import read_bundle

pytestmark = pytest.mark.usefixtures("quick_agents")

FLOW = """\
schema = 1
id = "flow"
[[stage]]
id = "review"
rubrics = ["clean"]
[[stage]]
id = "fix"
needs = ["review"]
when = "review.failed"
agent = "fixer"
prompt = "Repair."
[[stage]]
id = "praise"
needs = ["review"]
when = "review.passed"
agent = "reviewer"
prompt = "Praise."
[[stage]]
id = "publish"
needs = ["fix"]
agent = "reviewer"
prompt = "Tell."
"""

TOLD = """\
schema = 1
id = "told"
[[stage]]
id = "first"
rubrics = ["clean"]
[[stage]]
id = "second"
needs = ["first"]
when = "first.failed"
rubrics = ["clean"]
"""

HELD = """\
import asyncio

from vibe_gate import workflow

@workflow("held")
async def steps(wf):
    one = wf.stage("one", agent="fixer", prompt="Write.", after=())
    two = wf.stage("two", agent="fixer", prompt="Write.", after=())
    await asyncio.gather(one, two)
"""


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> WorkingRepo:
    return WorkingRepo(tmp_path / "repo", environ, flow=FLOW, held=HELD)


def statuses(repo: WorkingRepo) -> dict[str, str]:
    """The nodes of the newest run as `viz --json` has them."""
    nodes = vibe_gate("viz", "--json", cwd=repo.path, environ=repo.environ).json["graph"]["nodes"]
    return {node["id"]: node["status"] for node in nodes}


def viz(repo: WorkingRepo, *argv: str) -> str:
    return vibe_gate("viz", *argv, cwd=repo.path, environ=repo.environ).out


def seen_by(look: Callable[[], None], step: Any) -> Callable[[MessagesRequest], Turn]:
    """A step of the model that calls `look` while the run goes on."""

    def answer(request: MessagesRequest) -> Turn:
        look()
        return step

    return answer


def bundle_of(repo: WorkingRepo) -> Path:
    (events,) = repo.path.glob(".vibe-artifacts/*/*/events.ndjson")
    return events.parent


def assert_graph_is_the_fold(bundle: Path) -> None:
    lines = (bundle / "events.ndjson").read_bytes().splitlines(keepends=True)
    graph = fold_events(parse_events(lines))
    assert (bundle / "graph.json").read_text() == graph.to_json()


def test_stages_behind_needs_and_conditions_are_ready_before_they_begin(repo):
    looks: list[tuple[dict[str, str], str]] = []
    first, second = writes("src/load.py", FIXED)
    look = seen_by(lambda: looks.append((statuses(repo), viz(repo, "--layout", "list"))), first)
    with answering(look, second, says("Told.")) as model:
        run = repo.run("flow", "--json", model=model.environ)
    ((nodes, drawing),) = looks
    assert nodes == {
        "review": "DONE",
        "fix": "RUNNING",
        "praise": "SKIPPED",
        "publish": "READY",
        "review-checks": "DONE",
    }
    assert [line.split() for line in drawing.splitlines() if "READY" in line] == [
        ["READY", "publish", "stage", "reviewer", "<-", "fix"]
    ]
    assert run.code == 3, run.err
    bundle = bundle_of(repo)
    graph = json.loads((bundle / "graph.json").read_text())
    edges = [edge for edge in graph["edges"] if edge[1] in ("fix", "praise", "publish")]
    assert sorted(edges) == [["fix", "publish"], ["review", "fix"], ["review", "praise"]]
    assert_graph_is_the_fold(bundle)


def test_whoever_hears_of_a_run_is_told_which_stages_are_to_come_and_have_ended(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    repo = WorkingRepo(tmp_path / "repo", environ, told=TOLD)
    repo.commit("Change", **{"src/load.py": "x = 1\n"})
    steps: list[StageStep] = []
    walk = walk_workflow(
        RunRequest(review=ReviewRequest(Selection("commit", "HEAD")), workflow="told"),
        start=repo.path,
        environment=read_environment(repo.environ),
        clock=lambda: datetime.now(UTC),
        listeners=Listeners(tick=steps.append),
    )
    asyncio.run(walk)
    assert [f"{step.node} {step}" for step in steps] == [
        "first ready",
        "second ready",
        "first ended",
        "second ended",
    ]


def test_the_first_events_of_a_run_are_its_stages(repo):
    with answering(*writes("src/load.py", FIXED), says("Told.")) as model:
        repo.run("flow", model=model.environ)
    lines = (bundle_of(repo) / "events.ndjson").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    of_nodes = [event for event in events if event["type"].startswith("node.")]
    begun = [(event["node_id"], event["data"].get("status")) for event in of_nodes[:8]]
    names = ["review", "fix", "praise", "publish"]
    assert begun == [(name, status) for name in names for status in (None, "READY")]
    assert [event["data"]["needs"] for event in of_nodes[:8:2]] == [
        [],
        ["review"],
        ["review"],
        ["fix"],
    ]


def test_the_end_of_a_run_says_which_stages_were_skipped(repo):
    with answering(*writes("src/load.py", FIXED), says("Told.")) as model:
        run = repo.run("flow", model=model.environ)
    assert "stage     praise: skipped: not review.passed" in run.out


@pytest.mark.slow
def test_a_run_that_its_deadline_ends_cancels_what_had_not_begun(repo):
    with answering(Hang()) as model:
        run = repo.run("flow", "--deadline", "5", model=model.environ)
    assert run.code in (1, 3), run.err
    assert "stage     publish: " in run.out
    assert not {"READY", "RUNNING"} & set(statuses(repo).values())
    assert_graph_is_the_fold(bundle_of(repo))


@pytest.mark.slow
def test_a_killed_run_keeps_its_ready_stages_and_resumes_to_the_same_graph(repo):
    def kill() -> None:
        os.kill(pid_of_agents(repo), signal.SIGKILL)
        running.wait()

    steps = writes("src/load.py", FIXED)
    with answering(seen_by(kill, steps[0])) as model:
        environ = {**repo.environ, **model.environ}
        running = begun("run", "flow", cwd=repo.path, environ=environ)
        running.communicate(timeout=60)
    graph_lines = viz(repo)
    assert "incomplete" in graph_lines and "READY" in graph_lines and "RUNNING" not in graph_lines
    with answering(*steps, says("Told.")) as model:
        resumption = vibe_gate("resume", cwd=repo.path, environ={**repo.environ, **model.environ})
    assert resumption.code == 3, resumption.err
    assert statuses(repo) == {
        "review": "DONE",
        "fix": "DONE",
        "praise": "SKIPPED",
        "publish": "DONE",
        "review-checks": "DONE",
    }
    assert_graph_is_the_fold(bundle_of(repo))


@pytest.mark.slow
def test_a_python_stage_that_waits_for_the_workspace_is_ready(repo):
    looks: list[dict[str, str]] = []
    first, second = writes("src/load.py", FIXED)
    look = seen_by(lambda: looks.append(statuses(repo)), first)
    with answering(look, second, says("Done.")) as model:
        repo.run("held", model=model.environ)
    assert looks == [{"one": "RUNNING", "two": "READY"}]


@pytest.mark.slow
def test_watch_tells_of_stages_that_have_not_begun_and_draws_the_end(repo):
    def watch() -> None:
        watcher = begun("viz", "--watch", cwd=repo.path, environ=repo.environ)
        watchers.append(watcher)
        lines.extend(iter(watcher.stdout.readline, "review-checks: DONE\n"))

    watchers: list[subprocess.Popen[str]] = []
    lines: list[str] = []
    first, second = writes("src/load.py", FIXED)
    with answering(seen_by(watch, first), second, says("Told.")) as model:
        repo.run("flow", model=model.environ)
    drawing, _ = watchers[0].communicate(timeout=60)
    assert {"publish: READY\n", "fix: RUNNING\n", "praise: SKIPPED\n"} <= set(lines)
    assert "DONE" in drawing and "incomplete" not in drawing


def test_the_page_of_a_run_draws_what_has_not_begun(repo, tmp_path):
    def report() -> None:
        argv = ("report", "-o", str(tmp_path / "page.html"))
        pages.append(vibe_gate(*argv, cwd=repo.path, environ=repo.environ).code)

    pages: list[int] = []
    first, second = writes("src/load.py", FIXED)
    with answering(seen_by(report, first), second, says("Told.")) as model:
        repo.run("flow", model=model.environ)
    assert pages == [0]
    assert "READY" in (tmp_path / "page.html").read_text()


def test_a_bundle_of_stages_that_never_began_has_no_agents_of_theirs(repo):
    with answering(*writes("src/load.py", FIXED), says("Told.")) as model:
        repo.run("flow", model=model.environ)
    graph = read_bundle(bundle_of(repo)).graph()
    assert {node.id for node in graph.nodes if node.agent and not node.has_begun} == {"praise"}
