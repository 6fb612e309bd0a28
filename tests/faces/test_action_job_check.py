"""What GitHub shows of a job before its verdict, and of a job that has none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from faces import events
from faces.jobs import FORBIDDEN, Project, make_project, todos
from repos import RUBRIC, SWALLOWS
from wire import KEY

from vibe_gate.domain.environment import read_environment
from vibe_gate.faces.action.job import run_job
from vibe_gate.faces.action.runner import Runner
from vibe_gate.report.comment import read_comment_state

ROOT = Path(__file__).resolve().parents[2]
GATE_STEP = next(
    step
    for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    if step.get("id") == "gate"
)

SLEEPS = """\
schema = 1
id = "quality"
[[criterion]]
id = "slow"
kind = "check"
command = ["sleep", "60"]
must = true
"""


def run_pull_job(
    project: Project,
    head: str,
    name: str = "pull_request",
    *,
    draft: bool = False,
    **variables: str,
) -> tuple[int, str]:
    """Run the job of this pull request here; its exit code and log."""
    log: list[str] = []
    project.check_out(head)
    environ = project.job(name, events.pull_request(project.main(), head, draft=draft), **variables)
    return run_job(
        Runner(read_environment(environ), project.checkout, lambda: datetime.now(UTC), log.append)
    ), "".join(log)


def check_requests(project: Project) -> list[str]:
    return [entry.method for entry in project.github.log if "/check-runs" in entry.path]


@pytest.fixture
def head(project: Project) -> str:
    """A pull request without a finding."""
    head = project.branch("topic", **{"src/b.py": "y = 2\n"})
    project.pull(head)
    return head


@pytest.mark.slow
def test_a_check_run_is_in_progress_until_the_job_completes_it_and_a_look_because_of_a_review_begins_none(
    project, head
):
    assert run_pull_job(project, head)[0] == 0
    assert check_requests(project) == ["POST", "PATCH"]
    [check] = project.github.check_runs
    assert (check.sent["status"], check.sent["conclusion"]) == ("completed", "success")
    run_pull_job(project, head, "pull_request_review")
    assert (
        check_requests(project)[2] == "POST" and len(project.github.check_runs) == 2
    )  # at once with its conclusion
    project.github.fail("POST", "/repos/{owner}/{repo}/check-runs", 502)
    assert run_pull_job(project, head)[0] == 0
    assert project.github.check_runs[-1].sent["conclusion"] == "success"


@pytest.mark.slow  # processes that the runner would cancel
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cancelled_job_completes_its_check_run(tmp_path, environ, github, number):
    project = make_project(tmp_path, environ, github, SLEEPS)
    head = project.branch("topic", **{"src/b.py": "y = 2\n"})
    project.pull(head)
    project.check_out(head)
    place = tmp_path / "place"
    place.mkdir()
    (place / "venv").symlink_to(sys.prefix)
    script = tmp_path / "step.sh"
    script.write_text(GATE_STEP["run"])
    environ = project.job("pull_request", events.pull_request(project.main(), head))
    environ |= {"VIBE_GATE_PLACE": str(place), "GITHUB_ACTION_PATH": str(ROOT), "BASH": "/bin/bash"}
    # As the runner starts a step's script; the runner signals this process, and no other.
    step = subprocess.Popen(["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", script], env=environ,
                            cwd=project.checkout, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        until = time.monotonic() + 200
        while not github.check_runs and time.monotonic() < until:
            time.sleep(0.02)
        assert github.check_runs[0].sent["status"] == "in_progress"
        os.kill(step.pid, number)
        assert step.wait(7) == 130, "before the runner's next signal"
    finally:
        step.kill()
        step.wait()
    assert github.check_runs[0].sent["conclusion"] == "cancelled"
    assert github.check_runs[0].sent["external_id"] == "vibe-gate:1 none 7"
    assert len(github.check_runs) == 1
    assert project.ours == []


@pytest.mark.slow
def test_a_job_that_cannot_run_says_so_in_place_of_the_verdict_that_stood(project, head):
    assert run_pull_job(project, head)[0] == 0
    assert project.ours[0].splitlines()[1].startswith("### vibe-gate: PASS")
    later = project.push("topic", **{"src/a.py": todos(1)})
    project.pull(later)
    code, log = run_pull_job(
        project, later, VIBE_GATE_INPUT_MODE="strict", VIBE_GATE_INPUT_ARTIFACT="all"
    )
    assert code == 2 and "::warning::" not in log
    [comment] = project.ours
    assert comment.splitlines()[1].startswith("### vibe-gate: NOT REVIEWED")
    assert (
        "- The input mode is strict; write block or warn." in comment
        and "- The input artifact is all" in comment
    )
    assert "PASS" not in comment and "/actions/runs/4711" in comment
    check = project.github.check_runs[-1]
    assert (check.sent["conclusion"], check.sent["head_sha"]) == ("failure", later)
    assert check.sent["external_id"] == "vibe-gate:1 none 7"
    assert check.output["title"] == "NOT REVIEWED · The input mode is strict; write block or warn"
    # The round goes on from the last verdict.
    state = read_comment_state(comment)
    assert state is not None and (state.number, state.head) == (1, head)
    assert run_pull_job(project, later)[0] == 1
    assert "Round 2: 1 new" in project.ours[0]


@pytest.mark.slow
def test_a_gate_that_cannot_be_read_is_said_on_the_commit_and_by_the_check_run_that_was_begun(
    project, head
):
    assert run_pull_job(project, head)[0] == 0
    head = project.push("topic", **{".vibe-gate/gate.toml": 'schema = 1\nrubrik = ["quality"]\n'})
    project.pull(head)
    code, log = run_pull_job(project, head)
    assert code == 2 and "rubrik" in log
    assert check_requests(project) == ["POST", "PATCH"] * 2
    assert "rubrik" in project.ours[0] and "PASS" not in project.ours[0]
    # A look because of a review, and a job that a newer push has replaced, leave the comment alone.
    bodies = list(project.ours)
    assert run_pull_job(project, head, "pull_request_review", VIBE_GATE_INPUT_MODE="x")[0] == 2
    project.pull(project.push("topic", **{"src/b.py": "y = 3\n"}))
    assert run_pull_job(project, head, VIBE_GATE_INPUT_MODE="x")[0] == 2
    assert project.ours == bodies
    project.github.fail("*", "*", 403, times=None)
    assert (
        "::warning::vibe-gate: The comment could not be posted: "
        in run_pull_job(project, head, VIBE_GATE_INPUT_MODE="x")[1]
    )


KEYED = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "VIBE_GATE_INPUT_ANTHROPIC_API_KEY": KEY}


def run_draft_job(project: Project, head: str, **variables: str) -> tuple[int, str]:
    """Run the job of this draft; its exit code and log."""
    return run_pull_job(project, head, draft=True, **variables)


@pytest.mark.slow
def test_a_draft_gets_its_checks_and_is_red_while_questions_wait_and_is_reviewed_once_it_is_ready(
    tmp_path, environ, github
):
    project = make_project(tmp_path, environ, github, RUBRIC + "[[" + FORBIDDEN.partition("[[")[2])
    head = project.branch("topic", **{"src/load.py": SWALLOWS})
    project.pull(head, draft=True)
    code, log = run_draft_job(project, head, **KEYED)
    assert code == 3 and "NOT REVIEWED" in log
    assert "The pull request is a draft. 2 judge questions have no answer." in project.ours[0]
    assert "**Next:** mark the pull request as ready for review" in project.ours[0]
    assert (project.outputs["verdict"], project.outputs["cost-usd"]) == ("inconclusive", "0.000000")
    assert project.github.check_runs[-1].sent["conclusion"] == "failure"
    # A job that is run again has the event of the draft; GitHub says that it is none any more.
    github.pulls[7].draft = False
    assert run_draft_job(project, head)[0] == 3
    assert "No API key. 2 judge questions have no answer." in project.ours[0]
    bad = project.push("topic", **{"src/a.py": todos(1)})
    project.pull(bad, draft=True)
    assert run_draft_job(project, bad, **KEYED)[0] == 1
    assert "draft" not in project.ours[0].split("<details>")[0]


@pytest.mark.slow
def test_a_draft_whose_gate_asks_no_judge_has_its_whole_review(project, head):
    project.github.pulls[7].draft = True
    assert run_draft_job(project, head)[0] == 0


@pytest.mark.slow
def test_a_draft_that_is_left_alone_is_red_and_no_earlier_pass_stays(project, head):
    project.github.pulls[7].draft = True
    code, log = run_draft_job(project, head, VIBE_GATE_INPUT_DRAFTS="skip")
    assert (
        code == 3 and "::error title=vibe-gate::NOT REVIEWED. The pull request is a draft; " in log
    )
    [check] = project.github.check_runs
    assert check.sent["conclusion"] == "failure" and check.output["title"].startswith(
        "NOT REVIEWED · "
    )
    assert (project.ours, project.outputs["verdict"]) == ([], "inconclusive")
    assert (
        run_draft_job(project, head, VIBE_GATE_INPUT_DRAFTS="skip", VIBE_GATE_INPUT_MODE="warn")[0]
        == 0
    )
    assert project.github.check_runs[-1].sent["conclusion"] == "neutral"
    assert run_pull_job(project, head)[0] == 0 and "PASS" in project.ours[0]
    # An agent's workflow asks a model, and checks alone are not its verdict.
    assert run_draft_job(project, head, VIBE_GATE_INPUT_WORKFLOW="fix-it")[0] == 3
    assert (
        "PASS" not in project.ours[0]
        and "the workflow fix-it runs when it is ready." in project.ours[0]
    )
