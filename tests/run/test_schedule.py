"""Which stages of a TOML workflow run, when, and what becomes of the others."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from scripted_messages_api import MessagesRequest, Turn
from wire import answering
from working import CHECKED, FIXED, WorkingRepo, says, writes

pytestmark = pytest.mark.usefixtures("quick_agents")

KEPT = CHECKED.replace('"clean"', '"kept"').replace("TODO", "FIXME")
"""A rubric that passes where "clean" fails."""


def stage(name: str, does: str, needs: str = "", when: str = "", further_lines: str = "") -> str:
    """A stage in TOML: `does` is a rubric, or an agent that is told its stage's name."""
    work = (
        f'rubrics = ["{does}"]'
        if does in ("clean", "kept")
        else f'agent = "{does}"\nprompt = "Stage {name}."'
    )
    return f'[[stage]]\nid = "{name}"\n{work}\nneeds = {needs.split()}\nwhen = {when.split()}\n{further_lines}\n'


def workflow(*stages: str) -> str:
    return "".join(('schema = 1\nid = "flow"\n', *stages))


@pytest.fixture
def start(tmp_path: Path, environ: dict[str, str]):
    def write_repo(*stages: str) -> WorkingRepo:
        repo = WorkingRepo(tmp_path / "repo", environ, flow=workflow(*stages))
        repo.write(".vibe-gate/rubrics/kept.toml", KEPT)
        repo.write(
            ".vibe-gate/agents/editor.toml",
            'schema = 1\nid = "editor"\ntools = ["Read", "Write"]\n',
        )
        repo.git("add", ".vibe-gate")
        repo.git("commit", "-q", "-m", "Gate")
        return repo

    return write_repo


def reasons_of_skipped(repo: WorkingRepo, document: dict) -> dict[str, str]:
    """The nodes that did not run, each with the reason."""
    events = (repo.path / document["bundle"] / "events.ndjson").read_text().splitlines()
    status_events = [event for event in map(json.loads, events) if event["type"] == "node.status"]
    return {
        event["node_id"]: event["data"]["reason"]
        for event in status_events
        if event["data"]["status"] == "SKIPPED"
    }


def test_needs_joins_and_conditions_decide_which_stages_run(start):
    repo = start(
        stage("bad", "clean"),
        stage("good", "kept"),
        stage("all", "kept", "bad good"),
        stage("any", "kept", "bad good", further_lines='join = "any"'),
        stage("two", "kept", "bad good any", further_lines="join = 2"),
        stage("named", "kept", "bad good", "bad.failed"),
        stage("both", "kept", "bad good", "bad.failed good.inconclusive"),
        stage("after", "kept", "all", "all.skipped"),
        stage("far", "kept", "named", "bad.failed"),
        stage("none", "kept", "all both", further_lines='join = "any"'),
    )
    run = repo.run("flow", "--json")
    assert reasons_of_skipped(repo, run.json) == {
        "all": "bad did not pass",
        "both": "not good.inconclusive",
        "none": "all, both did not pass",
    }
    assert (run.code, run.json["outcome"]) == (
        1,
        "fail",
    )  # no later stage takes back what failed on these files


def test_what_a_stage_changed_decides_what_comes_next(start):
    repo = start(
        stage("edit", "editor"),
        stage("look", "kept", "edit", "edit.unchanged"),
        stage("check", "clean", "edit", "edit.changed"),
    )
    with answering(*writes("src/load.py", FIXED)) as model:
        run = repo.run("flow", "--json", model=model.environ)
    assert (run.code, reasons_of_skipped(repo, run.json)) == (0, {"look": "not edit.unchanged"}), (
        run.err
    )


@pytest.mark.slow
def test_an_agent_whose_session_breaks_ends_its_loop_with_an_error(start):
    repo = start(
        stage("edit", "editor", further_lines='until = { rubrics = ["clean"] }'),
        stage("tell", "kept", "edit", "edit.error"),
    )
    with answering() as model:  # every request is refused
        run = repo.run("flow", "--json", model=model.environ)
    assert (run.code, run.json["outcome"], reasons_of_skipped(repo, run.json)) == (0, "pass", {}), (
        run.err
    )
    assert len(model.script.unexpected) == 1


@pytest.mark.slow
def test_readers_wait_for_the_writer_before_run_at_the_same_time_and_the_next_writer_waits_for_both(
    start,
):
    met = threading.Barrier(2, timeout=250)
    order: list[str] = []

    def meets(request: MessagesRequest) -> Turn:
        met.wait()
        order.append("read")
        return says("Seen.")

    def writer(request: MessagesRequest) -> Turn:
        order.append("write")
        return says("Done.")

    prints = 'prompt_command = ["echo", "printed"]'
    repo = start(
        stage("first", "editor"),
        stage("a", "reviewer").replace('prompt = "Stage a."', prints),
        stage("b", "reviewer").replace('prompt = "Stage b."', prints),
        stage("edit", "editor", "first a b", further_lines='context = ["b"]'),
    )
    with answering(writer, meets, meets, writer) as model:
        run = repo.run("flow", "--json", model=model.environ)
    assert (run.code, order) == (0, ["write", "read", "read", "write"]), run.err
    assert [request.all_text.count("| printed") for request in model.script.requests] == [
        0,
        1,
        1,
        0,
    ]
    assert "From the stage b." in model.script.requests[-1].all_text
    assert "From the stage a." not in model.script.requests[-1].all_text
