"""A look because of a review whose answers are gone: the verdict that stands stays, and nobody else
can make one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from command import CommandResult
from contract.github import LoopbackGitHub
from faces import events
from faces.jobs import FIX, FIXER, GATE, Project, make_project, todos
from msgspec.structs import replace
from repos import RUBRIC, SWALLOWS
from test_review import FAILS, PASSES
from wire import KEY, answering

from vibe_gate.domain.cause import AsksNoModel
from vibe_gate.domain.change import Change
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.network import read_network
from vibe_gate.domain.verdict import CriterionResult, RubricResult
from vibe_gate.errors import INCONCLUSIVE, INTEGRITY
from vibe_gate.faces.action.inputs import Inputs
from vibe_gate.faces.action.recheck import Recheck, decide_recheck
from vibe_gate.faces.action.runner import Runner
from vibe_gate.faces.action.standing import Standing, StandingVerdict, no_verdict
from vibe_gate.forge import CheckRun, Conclusion, open_forge
from vibe_gate.run.review_result import Review
from vibe_gate.run.run_documents import empty_summary

pytestmark = pytest.mark.usefixtures("quick_agents")

HEAD = "d" * 40
CHANGE = Change("range", "b" * 40, "c" * 40, "", HEAD, "", "", ())
CHECKS = "/repos/{owner}/{repo}/commits/{ref}/check-runs"
FILE = ".github/workflows/vibe-gate.yml"
SOFTER = {".vibe-gate/gate.toml": GATE + "# softer\n", "src/load.py": SWALLOWS}
RUN = "/repos/{owner}/{repo}/actions/runs/{run_id}"
ALONE = {"GITHUB_WORKFLOW_REF": f"octo/hello/{FILE}@refs/pull/7/merge"}


class Jobs:
    """The jobs of one pull request: none takes or leaves answers, as with `cache: "false"`."""

    def __init__(self, project: Project, url: str, requests: list[object]) -> None:
        self.project, self.url, self._requests = project, url, requests
        self.head = project.branch("topic", **{"src/load.py": SWALLOWS})
        project.pull(self.head)

    def job(
        self, event: str = "pull_request", key: str = KEY, fork: bool = False, **variables: str
    ) -> CommandResult:
        payload = events.pull_request(self.project.main(), self.head, fork=fork)
        environ = {"VIBE_GATE_INPUT_ANTHROPIC_API_KEY": key, **ALONE, **variables}
        environ |= {} if fork else {"ANTHROPIC_BASE_URL": self.url}
        return self.project.act(event, payload, checkout=self.head, **environ)

    def look(self, key: str = KEY, **variables: str) -> int:
        """The exit code of a job because of a review. It asks and posts nothing."""
        before = (len(self._requests), self.project.github.writes)
        job = self.job("pull_request_review", key, **variables)
        assert (len(self._requests), self.project.github.writes) == before, job.out
        return job.code


@pytest.fixture
def jobs(tmp_path, environ, github) -> Iterator[Jobs]:
    with answering(PASSES, repeat_last=True) as model:
        yield Jobs(
            make_project(tmp_path, environ, github, RUBRIC), model.base_url, model.script.requests
        )


@pytest.mark.slow
def test_a_review_of_a_green_pull_request_leaves_it_green_whatever_became_of_the_answers(jobs):
    project, github = jobs.project, jobs.project.github
    assert jobs.look() == 3, "no verdict stands yet"
    assert "No check run has a verdict for this commit" in project.summary
    assert jobs.job().code == 0
    github.add_review(7, "eve", "COMMENTED")
    assert (jobs.look(), jobs.look()) == (0, 0)
    assert project.outputs["verdict"] == "pass"
    assert Path(project.outputs["report"]).read_text() == project.summary
    assert "sarif" not in project.outputs, (
        "findings of judges would be missing, and their alerts closed"
    )
    assert (
        project.summary.startswith("### vibe-gate: PASS · [`") and "[`run 4711`]" in project.summary
    )
    project.origin.commit("Ask for more", **{".vibe-gate/gate.toml": GATE + "# more\n"})
    project.pull(jobs.head)
    assert jobs.job("pull_request_review").code == 3, "another gate"
    assert read_standing(jobs) == ("### vibe-gate: NOT REVIEWED (inconclusive) ·", "failure")
    github.add_actions_run(jobs.head)
    for key in ("dummy",):
        assert (jobs.job(key=key).code, jobs.look(key)) == (0, 0)


class Records:
    """What jobs leave at the commit `HEAD`, and what a look finds there, each with its key."""

    def __init__(self, github: LoopbackGitHub, environ: dict[str, str], place: Path) -> None:
        self._open = partial(
            open_forge, github.url, github.token, "octo/hello", network=read_network(environ)
        )
        self._runner = Runner(
            read_environment({"GITHUB_RUN_ID": "4711", **ALONE}),
            place,
            lambda: datetime.now(UTC),
            print,
        )

    def _job(self, key: str, subject: str = "a" * 32, **inputs: object) -> Standing:
        return Standing(self._runner, Inputs(**inputs), HEAD, subject, key, 7)

    def leave(self, key: str, outcome: str = "pass", code: int = 0) -> None:
        summary = replace(empty_summary(CHANGE), outcome=outcome, exit_code=code)
        with self._open() as forge:
            conclusion = "success" if code == 0 else "failure"
            forge.check_run(
                HEAD,
                "vibe-gate",
                CheckRun("t", "s", "", conclusion, (), self._job(key).record(summary)),
            )

    def end(self, conclusion: Conclusion) -> None:
        """A job that ends without a verdict."""
        with self._open() as forge:
            forge.check_run(HEAD, "vibe-gate", CheckRun("t", "s", "", conclusion))

    def begin(self, record: str) -> None:
        """A job whose check run is never completed, or not yet."""
        with self._open() as forge:
            forge.begin_check_run(HEAD, "vibe-gate", "t", "s", record=record)

    def look(self, review: Review) -> Recheck:
        with self._open() as forge:
            return decide_recheck(review, self._job(KEY), forge)

    def find(self, key: str = KEY, **inputs: object) -> StandingVerdict | str:
        with self._open() as forge:
            return self._job(key, **inputs).find(forge)


@pytest.fixture
def records(tmp_path, environ, github) -> Records:
    return Records(github, environ, tmp_path)


@pytest.mark.slow
def test_whoever_may_write_check_runs_can_copy_change_and_invent_records_and_none_is_a_pass(
    records, github
):
    records.leave(KEY)
    [run] = github.check_runs
    record = run.sent["external_id"]
    assert re.fullmatch(r"vibe-gate:1 pass 0 clean 4711 a{32} [0-9a-f]{64}", record)
    stood = StandingVerdict("pass", 0, True, 4711, f"{github.server_url}/octo/hello/runs/{run.id}")
    assert records.find() == stood
    github.add_actions_run(HEAD)  # a run that succeeded is no code
    unproven = "neither this job's API key nor that run confirms it"
    for forged in (f"{record[:-64]}{'0' * 64}", f"{record[:-64]}-", record.replace("4711", "4712")):
        run.sent["external_id"] = forged
        assert unproven in records.find()
    for forged in (
        "vibe-gate:1",
        record + "\n",
        "x" * 9999,
        record.replace("pass", "great"),
        record.replace("aa", "ab"),
    ):
        run.sent["external_id"] = forged
        assert "No check run has a verdict" in records.find()
    run.sent["external_id"] = record
    assert unproven in records.find(key=KEY[::-1])
    assert "No check run" in records.find(subject="b" * 32)
    assert "No check run" in records.find(rubrics="other"), "another gate's check run"
    run.app = "helpful[bot]"
    assert "No check run" in records.find()
    run.app = "github-actions[bot]"
    records.leave(KEY, "fail", 1)
    assert (records.find().outcome, records.find().exit_code) == ("fail", 1), "the newest counts"
    records.leave(KEY)
    records.end("cancelled")
    assert records.find().outcome == "pass"
    assert "post: none" in records.find(post="none"), "later jobs left no record"
    records.begin(no_verdict(8))
    assert records.find().outcome == "pass", "a job of another pull request with the same commit"
    for record in (no_verdict(7), ""):
        records.begin(record)
        assert "or none yet" in records.find(), (
            "a job whose completion GitHub refused may have said fail"
        )
        github.check_runs.pop()
    records.end("failure")
    assert "left no verdict" in records.find(), "as the comment says"
    github.fail("GET", CHECKS, 403, headers={"x-accepted-github-permissions": "checks=read"})
    assert "the token lacks `checks: read`" in records.find()


def test_a_standing_verdict_about_files_that_changed_stays_one(records):
    records.leave(KEY, "pass", INTEGRITY)
    fields = {
        "kind": "judge",
        "must": True,
        "weight": 1,
        "decided_by": "none",
        "cause": AsksNoModel(),
    }
    criterion = CriterionResult(id="x", outcome="abstain", **fields)
    rubric = RubricResult(
        id="r", digest="", outcome="inconclusive", score=0, coverage=0, criteria=(criterion,)
    )
    summary = replace(
        empty_summary(CHANGE), outcome="inconclusive", exit_code=INCONCLUSIVE, rubrics=(rubric,)
    )
    recheck = records.look(Review(summary))
    assert (recheck.summary.exit_code, recheck.stands.exit_code, recheck.posts) == (
        INTEGRITY,
        INTEGRITY,
        False,
    )


def test_without_a_key_that_signs_a_pass_stands_if_the_run_that_gave_it_succeeded(records, github):
    records.leave("")
    assert "GitHub refused" in records.find(""), "no such run"
    run = github.add_actions_run(HEAD)
    assert records.find("").outcome == "pass"
    for field, wrong in {
        "conclusion": "failure", "status": "in_progress", "path": ".github/workflows/test.yml",
        "head_sha": "b" * 40, "event": "workflow_dispatch",
    }.items():  # fmt: skip
        right = getattr(run, field)
        setattr(run, field, wrong)
        assert "nor that run confirms it" in records.find(""), field
        setattr(run, field, right)
    assert "nor that run confirms it" in records.find("", mode="warn"), (
        "a job of that mode always succeeds"
    )
    github.fail("GET", RUN, 403, headers={"x-accepted-github-permissions": "actions=read"})
    assert "the token lacks `actions: read`" in records.find("")


@pytest.mark.slow
def test_a_pass_with_an_accepted_finding_stands_only_while_the_override_does(
    tmp_path, environ, github
):
    github.permissions["bob"] = "write"
    with answering(FAILS, repeat_last=True) as model:
        jobs = Jobs(
            make_project(tmp_path, environ, github, RUBRIC), model.base_url, model.script.requests
        )
        assert (jobs.job().code, jobs.look()) == (1, 1)
        name = re.search(r"vibe-gate:finding ([0-9a-f]{16})", github.review_comments[0].body)[1]
        override = github.add_comment(7, "bob", f"/vibe-gate override {name} fine")
        github.add_comment(
            7,
            "github-actions[bot]",
            f"<!-- vibe-gate:answer {override.id} {jobs.head} {name} -->\nfine",
        )
        assert jobs.look() == 3, "what it means is decided by the job that runs again"
        assert (jobs.job().code, jobs.look()) == (0, 0)
        github.permissions["bob"] = "read"
        assert jobs.job("pull_request_review").code == 1, "the verdict without it stands"
        assert read_standing(jobs) == ("### vibe-gate: FAIL ·", "failure"), "and is what is posted"
        assert "stands; its check run has the findings" in jobs.project.ours[0].replace("`", "")
        github.permissions["bob"] = "write"
        assert jobs.job("pull_request_review").code == 0
        assert read_standing(jobs) == ("### vibe-gate: PASS ·", "success")
        assert jobs.look() == 0


def read_standing(jobs: Jobs) -> tuple[str, str]:
    """How the comment's headline begins, and what the newest check run concludes."""
    headline = jobs.project.ours[0].splitlines()[1]
    return headline[: headline.index("·") + 1], jobs.project.github.check_runs[-1].sent[
        "conclusion"
    ]


@pytest.mark.slow
def test_comment_and_check_run_follow_a_job_that_fails_because_an_overrides_comment_is_gone(
    tmp_path, environ, github
):
    github.permissions["bob"] = "write"
    with answering(FAILS, repeat_last=True) as model:
        jobs = Jobs(
            make_project(tmp_path, environ, github, RUBRIC), model.base_url, model.script.requests
        )
        assert jobs.job().code == 1
        name = re.search(r"vibe-gate:finding ([0-9a-f]{16})", github.review_comments[0].body)[1]
        override = github.add_comment(7, "bob", f"/vibe-gate override {name} fine")
        github.add_comment(
            7,
            "github-actions[bot]",
            f"<!-- vibe-gate:answer {override.id} {jobs.head} {name} -->\nfine",
        )
        assert jobs.job().code == 0
        assert read_standing(jobs) == ("### vibe-gate: PASS ·", "success")
        github.check_runs[:] = [
            run for run in github.check_runs if run.sent["conclusion"] == "success"
        ]
        github.comments.remove(override)
        assert jobs.job("pull_request_review").code == 3, "no verdict without the override is known"
        assert read_standing(jobs) == ("### vibe-gate: NOT REVIEWED (inconclusive) ·", "failure")
        assert jobs.look() == 3


@pytest.mark.slow
def test_an_approval_is_decided_without_the_answers_and_so_is_its_dismissal(jobs):
    project, github = jobs.project, jobs.project.github
    github.permissions["bob"] = "write"
    jobs.head = project.branch("policy", **SOFTER)
    project.pull(jobs.head)
    assert (jobs.job().code, jobs.look()) == (4, 4)
    review = github.add_review(7, "bob", "APPROVED", jobs.head)
    assert jobs.job("pull_request_review").code == 0
    assert (
        project.ours[0]
        .splitlines()[1]
        .startswith("### vibe-gate: PASS · gate change approved by `@bob`")
    )
    assert "passed in run 4711; not asked again" in project.ours[0]
    assert github.check_runs[-1].sent["conclusion"] == "success"
    assert jobs.look() == 0
    review.state = "DISMISSED"
    assert jobs.job("pull_request_review").code == 4
    assert project.ours[0].splitlines()[1].startswith("### vibe-gate: NEEDS APPROVAL")
    assert jobs.look() == 4
    assert github.check_runs[-1].sent["conclusion"] == "action_required"


@pytest.mark.slow
def test_a_review_runs_no_workflow_and_its_verdict_stands(project):
    project.origin.commit(
        "Repair", **{".vibe-gate/workflows/fix.toml": FIX, ".vibe-gate/agents/fixer.toml": FIXER}
    )
    with answering(PASSES, repeat_last=True) as model:
        jobs = Jobs(project, model.base_url, model.script.requests)
        jobs.head = project.branch("topic", **{"src/a.py": todos(1)})
        project.pull(jobs.head)
        fixing = {"VIBE_GATE_INPUT_WORKFLOW": "fix"}
        assert jobs.look(**fixing) == 3, "its agent is not asked"
        jobs.head = project.branch("topic", **{"src/a.py": "y = 1\n"})
        project.pull(jobs.head)
        assert (jobs.job(**fixing).code, jobs.look(**fixing)) == (0, 0)
        assert project.summary.startswith("### vibe-gate: PASS · [`")


@pytest.mark.slow
def test_a_fork_stays_not_reviewed_and_its_reviews_say_why(jobs):
    github = jobs.project.github
    github.read_only.add(github.token)
    for event in ("pull_request", "pull_request_review"):
        job = jobs.job(event, key="", fork=True)
        assert job.code == 3
        assert "fork's job gets no API key" in jobs.project.summary
    assert "re-run the job of the newest push" not in jobs.project.summary
