"""`vibe-gate action` as the runner starts it: a real checkout, a real review, a loopback GitHub."""

from __future__ import annotations

import json
import re
import tarfile
import time
from pathlib import Path

import pytest
import signing
from command import vibe_gate
from contract.github import loopback_github
from faces import events
from faces.jobs import FIX, FIXER, FORBIDDEN, GATE, Project, make_project, todos
from repos import RUBRIC, SWALLOWS, allow_store
from scripted_messages_api import ApiError, Text, ToolUse, Turn
from test_review import FAILS, PASSES
from wire import KEY, Model, answering

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_agents")]

MAYBE = """
[[criterion]]
id = "no-fixme"
kind = "check"
check = "forbidden-pattern"
options = { pattern = "FIXME" }
weight = 0.1
"""


def conclusions(project: Project) -> list[str]:
    return [run.sent["conclusion"] for run in project.github.check_runs]


# A pull request


def test_a_failing_pull_request_gets_comment_check_run_summary_and_outputs(project):
    head = project.branch("topic", **{"src/größe 日本.py": todos(1)})
    project.pull(head)
    variables = {
        "VIBE_GATE_READY": "9 s (16 MiB of packages from the cache)",
        "VIBE_GATE_BEGAN": str(int(time.time()) - 40),
    }
    job = project.review_pull(head, **variables)
    assert job.code == 1, job.err
    times = r"Installed in 9 s \(16 MiB of packages from the cache\)\. Reviewed and posted in [4-9][0-9] s\."
    assert re.fullmatch(times, project.summary.splitlines()[-1])
    assert len(project.ours) == 1
    assert conclusions(project) == ["failure"]
    assert project.github.check_runs[0].sent["head_sha"] == head
    assert project.github.writes == 4  # two of them the check run
    assert [(comment.path, comment.line) for comment in project.github.review_comments] == [
        ("src/größe 日本.py", 1)
    ]
    assert "`src/größe 日本.py:1`" in project.ours[0]
    assert "annotations" not in project.github.check_runs[0].sent["output"]
    assert "::error" not in job.out
    out = project.outputs
    assert out["verdict"] == "fail"
    assert out["comment-url"].startswith("http")
    assert Path(out["report"]).read_text() == project.summary
    assert json.loads(Path(out["sarif"]).read_text())["version"] == "2.1.0"
    assert {path.name for path in Path(out["artifact-path"]).iterdir()} == {
        "summary.json", "receipt.json", "run.json", "report.md", "report.html",
        "vibe-gate.sarif",
    }  # fmt: skip
    assert (
        json.loads(Path(out["artifact-path"], "summary.json").read_text())["run_id"] == out["run"]
    )
    assert out["artifact-name"].startswith("vibe-gate-4711-1-gate-")


def test_a_pull_request_is_judged_from_the_merge_base_whatever_the_base_branch_did_since(project):
    head = project.branch("topic", **{"src/b.py": "y = 2\n"})
    project.origin.commit("Elsewhere", **{"src/a.py": todos(3)})
    project.pull(head)
    job = project.review_pull(head)
    assert job.code == 0, job.out + job.err
    assert conclusions(project) == ["success"]
    assert project.outputs["verdict"] == "pass"
    assert project.outputs["score"] == "1"


def test_the_rubrics_of_the_base_bind_and_not_those_of_the_change(project):
    weak = FORBIDDEN.replace("TODO", "NEVER-EVER")
    head = project.branch(
        "topic", **{"src/a.py": todos(1), ".vibe-gate/rubrics/quality.toml": weak}
    )
    project.pull(head)
    job = project.review_pull(head)
    assert job.code == 1
    assert project.outputs["verdict"] == "fail"


@pytest.mark.usefixtures("real_cli")
def test_the_real_judge_is_asked_with_the_key_of_the_input_and_its_reason_is_posted(
    tmp_path, environ, github
):
    project = make_project(tmp_path, environ, github, RUBRIC)
    head = project.branch("topic", **{"src/load.py": SWALLOWS})
    project.pull(head)
    with answering(FAILS, repeat_last=True) as model:
        job = project.review_pull(
            head, ANTHROPIC_BASE_URL=model.base_url, VIBE_GATE_INPUT_ANTHROPIC_API_KEY=KEY,
        )  # fmt: skip
        assert model.script.requests
    assert job.code == 1, job.err
    assert "The error is dropped." in project.ours[0]
    assert [
        (comment.path, comment.start_line, comment.line) for comment in github.review_comments
    ] == [("src/load.py", None, 4)]
    assert float(project.outputs["cost-usd"]) > 0
    written = [
        path.read_text(errors="replace") for path in project.folder.rglob("*") if path.is_file()
    ]
    assert not any(
        KEY in text or github.token in text for text in [*written, job.out, job.err, *project.ours]
    )

    job = project.review_pull(
        head, VIBE_GATE_INPUT_ANTHROPIC_API_KEY=KEY, VIBE_GATE_INPUT_JUDGE="false"
    )
    assert (job.code, conclusions(project)[-1]) == (0, "success"), job.err
    assert "NOTHING REVIEWED" in project.ours[0] and "--no-judge" in project.ours[0]


def test_an_overloaded_model_is_waited_for_and_one_that_stays_so_is_named_once(
    tmp_path, environ, github
):
    project = make_project(tmp_path, environ, github, RUBRIC)
    project.origin.commit(
        "Less time", **{".vibe-gate/gate.toml": GATE + "[budget]\ndeadline_s = 8\n"}
    )
    head = project.branch("topic", **{"src/load.py": SWALLOWS})
    project.pull(head)
    busy = ApiError(529, headers={"retry-after": "0"})
    with answering(busy, repeat_last=True) as never, answering(*[busy] * 4, PASSES) as model:
        keyed = {"VIBE_GATE_INPUT_ANTHROPIC_API_KEY": KEY}
        job = project.review_pull(head, ANTHROPIC_BASE_URL=never.base_url, **keyed)
        assert (job.code, conclusions(project)) == (3, ["failure"])
        sentence = "127.0.0.1 is overloaded (HTTP 529) and did not recover in time"
        opening = project.ours[0].partition("<details>")[0]
        assert (
            sentence in opening
            and opening.count("overloaded") == 1
            and not re.search(r"[.][.:](?![.\w])", project.ours[0])
        )
        assert job.out.partition("::error")[0].count("overloaded") == 1
        address = never.base_url.removeprefix("http://").partition("/")[0]
        assert address not in project.ours[0] + job.out

        project.origin.commit("More time", **{".vibe-gate/gate.toml": GATE})
        job = project.review_pull(head, ANTHROPIC_BASE_URL=model.base_url, **keyed)
        assert (job.code, conclusions(project)[-1], len(model.script.requests)) == (
            0,
            "success",
            5,
        ), job.out


def test_jobs_share_answers_and_runs_by_the_store_that_the_base_names(tmp_path, environ, github):
    pytest.importorskip("obstore", reason="obstore is not installed here")
    project = make_project(tmp_path, environ, github, RUBRIC)
    team, elsewhere = tmp_path / "team", tmp_path / "elsewhere"
    team.mkdir()
    elsewhere.mkdir()
    stores = [f'{GATE}[store]\nurl = "{folder.as_uri()}"\n' for folder in (team, elsewhere)]
    project.origin.commit("Share", **{".vibe-gate/gate.toml": stores[0]})
    head = project.branch("topic", **{"src/load.py": SWALLOWS, ".vibe-gate/gate.toml": stores[1]})
    project.pull(head)
    variables = {"VIBE_GATE_INPUT_ANTHROPIC_API_KEY": KEY}
    with answering(FAILS, repeat_last=True) as model:
        variables |= {"ANTHROPIC_BASE_URL": model.base_url}
        keyless = project.review_pull(head, VIBE_GATE_INPUT_JUDGE="false", **variables)
        assert "VIBE_GATE_STORE_KEY is not set" in keyless.out
        variables |= {"VIBE_GATE_STORE_KEY": "a secret of the whole team"}
        allow_store(team.as_uri(), environ)
        codes = [project.review_pull(head, **variables).code for _ in range(2)]
        assert (codes, len(model.script.requests)) == ([1, 1], 1)
        assert sorted(path.name for path in team.iterdir()) == ["answers", "claims", "runs"]
        assert len(list(team.glob("runs/*"))) == 2
        assert list(elsewhere.iterdir()) == []
        team.rename(tmp_path / "unmounted")
        lost = project.review_pull(head, **variables)
    assert (lost.code, len(model.script.requests)) == (1, 2)
    assert f"The shared store {team.as_uri()} is not used: there is no such folder." in lost.out


class Jobs:
    """Jobs of one pull request, whose judge fails it; a file stands for what actions/cache carries
    between them.
    """

    def __init__(self, tmp_path: Path, project: Project, model: Model) -> None:
        self.project, self.model = project, model
        self.cached = tmp_path / "cached"
        self.environ = {"ANTHROPIC_BASE_URL": model.base_url, "VIBE_GATE_ANSWERS": str(self.cached)}
        self.head = project.branch("topic", **{"src/load.py": SWALLOWS})
        project.pull(self.head)

    def __call__(
        self,
        head: str,
        event: str = "pull_request",
        key: str = KEY,
        fork: bool = False,
        same_clone: bool = False,
    ) -> tuple[int, str]:
        """Run a job: how often the model was asked, and what it says of the answers;
        `same_clone`: without a new checkout.
        """
        before = len(self.model.script.requests)
        payload = events.pull_request(self.project.main(), head, fork=fork)
        environ = self.environ | {"VIBE_GATE_INPUT_ANTHROPIC_API_KEY": key}
        job = self.project.act(event, payload, checkout="" if same_clone else head, **environ)
        assert job.code == 1 and "The error is dropped." in self.project.ours[0], job.out + job.err
        return len(self.model.script.requests) - before, self.project.outputs.get("answers", "")


@pytest.fixture
def jobs(tmp_path, environ, github):
    with answering(FAILS, repeat_last=True) as model:
        yield Jobs(tmp_path, make_project(tmp_path, environ, github, RUBRIC), model)


def test_answers_travel_between_jobs_of_the_same_trees(jobs):
    assert jobs(jobs.head) == (1, "new")
    assert jobs(jobs.head) == (0, ""), "a re-run"
    assert jobs(jobs.head, "pull_request_review") == (0, ""), "an approval"
    assert conclusions(jobs.project) == ["failure"] * 3
    origin = jobs.project.origin
    origin.git("commit", "-q", "--allow-empty", "-m", "Elsewhere")
    origin.git("checkout", "-q", "topic")
    origin.git("merge", "-q", "-m", "Update branch", "main")
    updated = origin.git("rev-parse", "topic")
    origin.git("checkout", "-q", "main")
    jobs.project.pull(updated)
    assert jobs(updated) == (0, ""), "a merge of the base branch that changes no file"


def test_a_review_whose_answers_are_lost_asks_nothing_and_the_verdict_stands(jobs, github):
    jobs(jobs.head)
    jobs.cached.unlink()
    writes, environ = github.writes, jobs.environ | {"VIBE_GATE_INPUT_ANTHROPIC_API_KEY": KEY}
    payload = events.pull_request(jobs.project.main(), jobs.head)
    lost = jobs.project.act("pull_request_review", payload, checkout=jobs.head, **environ)
    assert (lost.code, github.writes, len(jobs.model.script.requests)) == (1, writes, 1), (
        "nothing asked, nothing said"
    )
    assert "### vibe-gate: FAIL" in jobs.project.summary and "stands" in jobs.project.summary


WHY_NO_ANSWER = "they were not made with this job's API key"


@pytest.mark.parametrize(
    "poison", [lambda genuine: genuine.replace(b"fail", b"pass"), lambda genuine: b"\xff[]"]
)
def test_what_no_job_has_written_is_no_answer(jobs, poison):
    jobs(jobs.head)
    genuine = jobs.cached.read_bytes()
    assert KEY.encode() not in genuine
    jobs.cached.write_bytes(poison(genuine))
    assert jobs(jobs.head) == (1, "new"), "asked again, and kept in place of the poison"
    assert WHY_NO_ANSWER in jobs.project.summary


def test_a_job_with_another_key_or_of_a_fork_takes_no_answer_and_leaves_none(jobs):
    jobs(jobs.head)
    genuine = jobs.cached.read_bytes()
    assert jobs(jobs.head, key=KEY[::-1]) == (1, "new")
    assert WHY_NO_ANSWER in jobs.project.summary
    jobs.cached.write_bytes(genuine)
    assert jobs(jobs.head, fork=True) == (1, "")
    assert jobs(jobs.head, key="dummy") == (1, "")
    assert jobs.cached.read_bytes() == genuine


def test_what_stands_in_the_clone_of_the_job_is_no_answer(jobs):
    """It could be of another step of the job."""
    jobs(jobs.head)
    jobs.cached.unlink()
    assert jobs(jobs.head, same_clone=True) == (1, "new")


def test_three_pushes_say_what_is_fixed_open_new_and_held(project):
    project.origin.git("checkout", "-q", "-B", "topic", "main")
    first = project.origin.commit(
        "one", **{"src/a.py": todos(1) + "# FIXME old\n", "src/c.py": todos(1)}
    )
    project.origin.git("checkout", "-q", "main")
    project.pull(first)
    assert project.review_pull(first).code == 1
    # The base asks for more from now on: what stood there before is held back where it is no
    # blocker.
    project.origin.commit(
        "Ask for more",
        **{
            ".vibe-gate/rubrics/quality.toml": FORBIDDEN.replace("[[", "pass_threshold = 0\n[[")
            + MAYBE
        },
    )
    second = project.push(
        "topic",
        **{"src/b.py": todos(1, 7) + "# FIXME new\n", "src/c.py": "z = 1\n"},
    )
    project.pull(second)
    job = project.review_pull(second)
    assert job.code == 1, job.err
    assert "Round 2: 2 new, 1 still open, 1 fixed. Held back: 1 finding" in project.ours[0]
    page = Path(project.outputs["artifact-path"], "report.html").read_text()
    assert "Round 2 of the pull request: 2 new, 1 still open, 1 fixed.</p>" in page
    assert (page.count('<span class="badge">new</span>'), page.count("<del>")) == (2, 1)
    third = project.push("topic", **{"src/a.py": "x = 1\n", "src/b.py": "y = 1\n"})
    project.pull(third)
    assert project.review_pull(third).code == 0
    assert len(project.ours) == 1
    assert "Round 3" in project.ours[0]
    assert "PASS" in project.ours[0].split("\n")[1]
    fixed = [comment for comment in project.github.review_comments if "**Fixed**" in comment.body]
    assert len(fixed) == len(project.github.review_comments) == 4
    assert all(comment.resolved for comment in fixed)
    assert conclusions(project) == ["failure", "failure", "success"]


def test_a_rebase_that_lost_the_last_round_says_so(project, tmp_path):
    first = project.branch("topic", **{"src/a.py": todos(1)})
    project.pull(first)
    project.review_pull(first)
    project.origin.git("branch", "-D", "topic")
    project.origin.git("reflog", "expire", "--expire=now", "--all")
    project.origin.git("gc", "-q", "--prune=now")
    second = project.branch("topic", **{"src/a.py": todos(2)})
    project.pull(second)
    assert project.review_pull(second).code == 1
    assert "cannot be seen any more" in project.ours[0]


def test_the_whole_bundle_is_uploaded_only_where_asked_and_the_comment_says_which(project):
    head = project.branch("topic", **{"src/a.py": todos(1)})
    project.pull(head)
    in_action = {"VIBE_GATE_BEGAN": "1700000000"}
    project.review_pull(head, VIBE_GATE_INPUT_ARTIFACT="full", **in_action)
    assert (Path(project.outputs["artifact-path"]) / "bundle.tar.xz").is_file()
    assert "its bundle is an artifact of the job" in project.ours[0]
    project.review_pull(head, **in_action)
    assert not (Path(project.outputs["artifact-path"]) / "bundle.tar.xz").exists()
    for text in (project.ours[0], project.summary):
        assert (
            "its summary is an artifact of the job: open report.html in it. `artifact: full`"
            in text
        )
        assert "bundle" not in text
    project.review_pull(head, VIBE_GATE_INPUT_ARTIFACT="full")
    assert "its bundle is in the folder of the output `artifact-path`" in project.ours[0]
    project.review_pull(head, VIBE_GATE_INPUT_ARTIFACT="none", **in_action)
    assert project.outputs["artifact-path"] == project.outputs["artifact-name"] == ""
    assert not tarfile.is_tarfile(project.outputs["report"])
    assert "it is not uploaded (`artifact: none`)" in project.ours[0]
    assert "artifact of the job" not in project.ours[0] + project.summary


def test_what_the_runner_cannot_take_changes_no_verdict(project):
    head = project.branch("topic", **{"src/b.py": "y = 1\n"})
    project.pull(head)
    nowhere = {"GITHUB_OUTPUT": "/proc/nowhere", "GITHUB_STEP_SUMMARY": "/proc/nowhere"}
    job = project.review_pull(head, **nowhere)
    assert job.code == 0, job.out + job.err
    assert "GITHUB_OUTPUT cannot be written" in job.out
    assert len(project.ours) == 1


def test_a_pass_that_a_listed_signer_shared_is_taken_over_and_no_model_is_asked(
    tmp_path, environ, github
):
    project = make_project(tmp_path, environ, github, RUBRIC)
    key = signing.key(tmp_path / "keys")
    project.origin.commit(
        "List", **{".vibe-gate/allowed_signers": f"bob@example.org {signing.public(key)}\n"}
    )
    head = project.branch("topic", **{"src/load.py": SWALLOWS})
    project.pull(head)
    signing.sign_with(project.origin, key)
    project.origin.git("config", "vibe-gate.receipts", "notes")
    with answering(PASSES, repeat_last=True) as model:
        bob = project.origin.environ | model.environ
        assert vibe_gate("review", f"main...{head}", cwd=project.origin.path, environ=bob).code == 0
    job = project.review_pull(head)  # without any key
    assert job.code == 0, job.out + job.err
    assert "bob" in project.ours[0]
    assert conclusions(project) == ["success"]


# Forks


def test_a_forks_pull_request_posts_nothing_and_says_so_where_it_can(project):
    head = project.branch("topic", **{"src/a.py": todos(2)})
    project.pull(head, fork=True, author="eve")
    project.github.read_only.add(project.github.token)
    job = project.review_pull(head, fork=True)
    assert job.code == 1
    assert project.github.writes == 0
    assert "comes from a fork" in project.summary
    assert (
        "The check run could not be written: the token of a pull request from a fork may only read."
        in job.out
    )
    assert "::error file=src/a.py,line=1" in job.out, "workflow commands reach the diff"
    assert project.outputs["comment-url"] == ""
    assert project.outputs["artifact-path"]


def test_a_job_of_dependabots_names_the_page_of_its_secrets_and_the_permission_that_it_lacks(
    tmp_path, environ, github
):
    project = make_project(tmp_path, environ, github, RUBRIC)
    head = project.branch("topic", **{"src/load.py": SWALLOWS})
    project.pull(head, author="dependabot[bot]")
    github.lacking.add("checks=write")
    job = project.review_pull(head, GITHUB_ACTOR="dependabot[bot]")
    assert job.code == 3, job.err
    assert "Secrets and variables → Dependabot" in project.ours[0]
    assert "--no-judge" not in project.ours[0] + project.summary + job.out
    assert (
        "the token lacks `checks: write`" in project.ours[0]
        and "the token lacks `checks: write`" in project.summary
    )


def test_without_a_token_nothing_is_posted_and_that_is_said(project):
    head = project.branch("topic", **{"src/a.py": todos(1)})
    project.pull(head)
    job = project.review_pull(head, VIBE_GATE_INPUT_GITHUB_TOKEN="")
    assert job.code == 1
    assert project.github.requests == 0
    assert "No token was given" in project.summary


# Other events


def test_a_merge_group_is_judged_between_its_own_ends(project):
    base = project.main()
    head = project.branch("gh-readonly-queue/main/pr-7-x", **{"src/a.py": todos(1)})
    job = project.act("merge_group", events.merge_group(base, head), checkout=head)
    assert job.code == 1
    assert conclusions(project) == ["failure"]
    assert project.ours == []


def test_a_push_is_judged_from_what_was_there_before(project):
    before = project.main()
    middle = project.origin.commit("ok", **{"src/b.py": "y = 1\n"})
    after = project.origin.commit("bad", **{"src/a.py": todos(1)})
    assert project.act("push", events.push(before, after), checkout=after).code == 1
    assert project.act("push", events.push(before, middle), checkout=after).code == 0
    assert len(project.github.check_runs) == 2


def test_a_new_branch_is_judged_from_where_it_left_the_default_branch(project):
    head = project.branch("topic", **{"src/a.py": todos(1)})
    project.origin.commit("Later", **{"src/c.py": "z = 1\n"})
    job = project.act("push", events.push(events.NOBODY, head, "refs/heads/topic"), checkout=head)
    assert job.code == 1
    assert "where the branch left main: a new branch" in project.summary


def test_a_force_push_is_judged_from_where_the_branch_left_the_default_branch(project):
    old = project.branch("topic", **{"src/a.py": todos(1)})
    new = project.branch("topic", **{"src/b.py": "fine = 1\n"})
    job = project.act("push", events.push(old, new, "refs/heads/topic", forced=True), checkout=new)
    assert job.code == 0, job.out
    assert f"a force push replaced {old[:12]}" in project.summary.replace("`", "")
    lost_push = events.push("f" * 40, new, "refs/heads/topic", forced=True)
    assert project.act("push", lost_push, checkout=new).code == 0
    assert "is gone (a force push)" in project.summary.replace("`", "")


def test_a_dispatch_is_judged_from_the_default_branch_or_the_base_that_is_named(project):
    head = project.branch("topic", **{"src/a.py": todos(1)})
    later = project.push("topic", **{"src/b.py": "y = 1\n"})
    assert (
        project.act("workflow_dispatch", events.dispatch(), checkout=later, GITHUB_SHA=later).code
        == 1
    )
    variables = {"GITHUB_SHA": later, "VIBE_GATE_INPUT_BASE": head}
    assert (
        project.act("workflow_dispatch", events.dispatch(), checkout=later, **variables).code == 0
    )


def test_a_schedule_or_dispatch_reviews_the_range_or_the_branch_that_is_named(project):
    first = project.main()
    project.origin.git("tag", "v1")
    bad = project.origin.commit("bad", **{"src/a.py": todos(1)})
    good = project.origin.commit("good", **{"src/a.py": "x = 2\n"})
    project.branch("develop", **{"src/b.py": todos(1)})
    around = {"GITHUB_SHA": good, "GITHUB_REF": "refs/heads/main"}
    exit_codes = {  # inputs base and head -> exit code
        (first, ""): 0, (bad, ""): 0, ("v1", bad): 1, ("", "develop"): 1, ("main", "v1"): 0, (good, ""): 0, ("", ""): 2,
        ("", "nowhere"): 2,
    }  # fmt: skip
    for name, event in (
        ("schedule", {"schedule": "1 2 * * *"}),
        ("workflow_dispatch", events.dispatch()),
    ):
        project.check_out(good)
        for (base, head), code in exit_codes.items():
            inputs = {"VIBE_GATE_INPUT_BASE": base, "VIBE_GATE_INPUT_HEAD": head}
            job = project.act(name, event, **around, **inputs)
            assert job.code == code, (base, head, job.out + job.err)
    assert "The head nowhere names no branch, tag or commit" in job.out
    assert (
        conclusions(project)
        == ["success", "success", "failure", "failure", "success", "success"] * 2
    )
    assert project.github.check_runs[2].sent["head_sha"] == bad
    assert project.ours == []
    project.pull(project.main())
    assert project.review_pull(project.main(), VIBE_GATE_INPUT_HEAD="v1").code == 2
    assert "The input head is for workflow_dispatch and schedule" in project.summary


def test_a_dispatch_on_the_default_branch_asks_for_a_base(project):
    job = project.act(
        "workflow_dispatch", events.dispatch(), checkout=project.main(), GITHUB_SHA=project.main()
    )
    assert job.code == 2
    assert "the input `base` must say what to review from" in job.out


def test_events_that_are_not_for_it_are_exit_two_and_post_nothing(project):
    event = events.pull_request(project.main(), project.main())
    job = project.act(
        "pull_request_target", event, checkout=project.main(), VIBE_GATE_INPUT_MODE="warn"
    )
    assert job.code == 2
    assert "::error::vibe-gate: " in job.out
    assert project.github.requests == 0
    assert "could not review" in project.summary
    assert project.outputs["verdict"] == "error"


# Modes and exit codes


def test_mode_warn_says_what_it_would_have_been(project):
    head = project.branch("topic", **{"src/a.py": todos(1)})
    project.pull(head)
    job = project.review_pull(head, VIBE_GATE_INPUT_MODE="warn")
    assert job.code == 0
    assert "::warning::vibe-gate: exit code 1, let pass because of `mode: warn`." in job.out
    assert conclusions(project) == ["neutral"]
    assert (
        project.github.check_runs[0].sent["output"]["title"].startswith("would have failed: FAIL")
    )
    assert (
        project.ours[0]
        .splitlines()[1]
        .startswith("### vibe-gate: FAIL · does not block (`mode: warn`)")
    )
    assert "✗ FAIL · does not block (mode: warn) · Rubric quality: " in job.out


def test_questions_wait_for_a_check_unless_they_are_asked_anyway(tmp_path, environ, github):
    project = make_project(tmp_path, environ, github, RUBRIC + "[[" + FORBIDDEN.partition("[[")[2])
    head = project.branch("topic", **{"src/load.py": SWALLOWS + "# TODO\n"})
    project.pull(head)
    with answering(FAILS, repeat_last=True) as model:
        keys = {"ANTHROPIC_BASE_URL": model.base_url, "VIBE_GATE_INPUT_ANTHROPIC_API_KEY": KEY}
        assert project.review_pull(head, **keys).code == 1
        assert not model.script.requests
        waits = "Not asked until `no-todo` passes: 2 judge questions, `errors-not-swallowed`, `names-are-clear`."
        assert waits in project.ours[0]
        assert "Not judged" not in project.ours[0]
        job = project.review_pull(head, **keys, VIBE_GATE_INPUT_ASK_ANYWAY="true")
        assert job.code == 1, job.err
        assert model.script.requests
    assert "Not asked until" not in project.ours[0]
    assert {"The error is dropped.", "TODO"} <= set(
        re.findall(r"The error is dropped\.|TODO", project.ours[0])
    )


def test_a_pull_request_without_changes_says_nothing_new_but_rights_an_earlier_word(project):
    head = project.branch("topic", **{"src/a.py": todos(1)})
    project.pull(head)
    project.review_pull(head)
    back = project.push("topic", **{"src/a.py": "x = 1\n"})
    project.pull(back)
    job = project.review_pull(back)
    assert job.code == 0
    assert project.outputs["verdict"] == "nothing"
    assert len(project.ours) == 1
    assert "FAIL" not in project.ours[0]
    assert conclusions(project) == ["failure", "success"]


# Changes of the gate itself


@pytest.fixture
def policy(project) -> str:
    softer = {".vibe-gate/gate.toml": 'schema = 1\nrubrics = ["quality"]\n# softer\n'}
    head = project.branch("topic", **softer, **{"src/more.py": "y = 1\n"})
    project.pull(head)
    for login, right in {"bob": "write", "eve": "read", "ada": "admin"}.items():
        project.github.permissions[login] = right
    return head


def test_an_approving_review_of_this_commit_lets_it_pass_and_is_named(project, policy):
    project.github.add_review(7, "bob", "APPROVED", policy)
    job = project.act(
        "pull_request_review", events.pull_request(project.main(), policy), checkout=policy
    )
    assert job.code == 0, job.out + job.err
    assert conclusions(project) == ["success"]
    assert "### vibe-gate: PASS · gate change approved by `@bob` · [`" in project.ours[0]
    assert "@bob" not in project.ours[0].replace("`@bob", "").replace("<code>@bob", "")


def test_only_somebody_else_with_write_access_can_approve_and_only_this_commit(project, policy):
    for login in ("eve", "ada", "github-actions[bot]"):
        project.github.add_review(7, login, "APPROVED", policy)
    assert project.review_pull(policy).code == 4
    assert conclusions(project) == ["action_required"]
    assert (project.outputs["verdict"], project.outputs["score"]) == ("needs-approval", "")
    assert project.review_pull(policy, VIBE_GATE_INPUT_MODE="warn").code == 0
    assert project.outputs["verdict"] == "needs-approval"
    project.github.add_review(7, "bob", "APPROVED", policy)
    later = project.push(
        "topic", **{".vibe-gate/gate.toml": 'schema = 1\nrubrics = ["quality"]\n# softest\n'}
    )
    project.pull(later)
    assert project.review_pull(later).code == 4


def test_reviews_that_cannot_be_read_approve_nothing(project, policy):
    project.github.add_review(7, "bob", "APPROVED", policy)
    project.github.fail("GET", "/repos/{owner}/{repo}/pulls/{pull_number}/reviews", 403, times=None)
    assert project.review_pull(policy).code == 4
    assert "could not be read" in project.ours[0] + project.summary


def test_a_merge_group_counts_the_approval_of_its_pull_request(project, policy):
    base = project.main()
    project.github.add_review(7, "bob", "APPROVED", policy)
    assert project.act("merge_group", events.merge_group(base, policy), checkout=policy).code == 0
    assert (
        project.act("merge_group", events.merge_group(base, policy, 8), checkout=policy).code == 4
    )


def test_the_first_gate_of_all_needs_approval_too(tmp_path, environ, github):
    project = make_project(tmp_path, environ, github)
    project.origin.git("rm", "-rq", ".vibe-gate")
    project.origin.commit("No gate")
    head = project.branch("topic", **{".vibe-gate/gate.toml": "schema = 1\nrubrics = []\n"})
    project.pull(head)
    assert project.review_pull(head).code == 4
    github.permissions["bob"] = "write"
    github.add_review(7, "bob", "APPROVED", head)
    assert project.review_pull(head).code == 0


# Checkouts


def test_a_shallow_checkout_is_deepened_until_the_merge_base_is_there(project):
    for number in range(5):
        project.origin.commit(f"main {number}", **{"src/m.py": f"m = {number}\n"})
    head = project.branch("topic", **{"src/b.py": "y = 1\n"})
    for number in range(4):
        head = project.push("topic", **{"src/b.py": todos(1, number)})
    project.origin.commit("main later", **{"src/m.py": "m = 99\n"})
    project.pull(head)
    job = project.review_pull(head, depth=1)
    assert job.code == 1, job.out + job.err
    stored = json.loads(Path(project.outputs["artifact-path"], "summary.json").read_text())
    assert [file["path"] for file in stored["change"]["files"]] == ["src/b.py"]


def test_a_shallow_checkout_learns_of_the_branch_that_it_is_compared_with(project):
    project.origin.commit("main", **{"src/m.py": "m = 1\n"})
    project.branch("topic", **{"src/b.py": "y = 1\n"})
    head = project.push("topic", **{"src/c.py": todos(1)})
    project.origin.commit("later", **{"src/m.py": "m = 2\n"})
    variables = {"GITHUB_SHA": head, "VIBE_GATE_INPUT_BASE": "main"}
    for name, event in (
        ("workflow_dispatch", events.dispatch()),
        ("push", events.push(events.NOBODY, head, "refs/heads/topic")),
    ):
        job = project.act(name, event, checkout=head, depth=1, **variables)
        assert job.code == 1, job.out + job.err
        stored = json.loads(Path(project.outputs["artifact-path"], "summary.json").read_text())
        assert [file["path"] for file in stored["change"]["files"]] == ["src/b.py", "src/c.py"]


def test_a_checkout_that_cannot_be_deepened_says_what_to_set(project):
    head = project.branch("topic", **{"src/b.py": "y = 1\n"})
    project.origin.commit("later")
    project.pull(head)
    project.check_out(head, depth=1)
    (project.checkout / ".git" / "config").write_text("[core]\n\trepositoryformatversion = 0\n")
    job = project.act("pull_request", events.pull_request(project.main(), head))
    assert job.code == 2
    assert "Set `fetch-depth: 0` at actions/checkout." in job.out


def test_no_word_of_the_change_becomes_a_workflow_command(project):
    head = project.branch(
        "topic",
        **{"::error::x\n::set-output name=verdict::pass.py": "# TODO ::warning::y\n##[error]z\n"},
    )
    project.pull(head)
    job = project.review_pull(head)
    assert job.code == 1
    token = job.out.split("\n")[0].removeprefix("::stop-commands::")
    inside, obeyed = job.out.split(f"\n::{token}::\n")
    assert "::warning::y" not in inside.replace("# TODO ::warning::y", "")
    assert token not in inside.removeprefix(f"::stop-commands::{token}")
    assert "##[" not in obeyed
    assert not any(line.startswith(("::error::x", "::set-output")) for line in obeyed.split("\n"))
    assert project.outputs["verdict"] == "fail"


def test_everything_works_below_an_enterprise_servers_address(tmp_path, environ):
    with loopback_github(ghes=True) as github:
        project = make_project(tmp_path, environ, github)
        head = project.branch("topic", **{"src/a.py": todos(1)})
        project.pull(head)
        assert project.review_pull(head).code == 1
        assert github.url.endswith("/api/v3")
        assert len(project.ours) == len(github.check_runs) == 1


@pytest.mark.usefixtures("real_cli")
def test_what_a_workflows_agents_changed_is_suggested_once_at_its_lines_or_in_the_artifact(project):
    project.origin.commit(
        "Repair", **{".vibe-gate/workflows/fix.toml": FIX, ".vibe-gate/agents/fixer.toml": FIXER}
    )
    head = project.branch("topic", **{"src/a.py": "x = 1\n" + todos(1), "src/b.py": "y = 2\n"})
    project.pull(head)
    files = {
        "src/a.py": "x = 1\n# Done.\nx = 0\n\n",
        "src/new.py": "z = 3\n",
        "CLAUDE.md": "Be nice.\n",
    }
    calls = [ToolUse("Write", {"file_path": path, "content": text}) for path, text in files.items()]
    with answering(*([Turn(*calls), Turn(Text("Done."))] * 2)) as model:
        variables = {"ANTHROPIC_BASE_URL": model.base_url, "VIBE_GATE_INPUT_ANTHROPIC_API_KEY": KEY}
        for post in ("lines", "comment"):
            inputs = {"VIBE_GATE_INPUT_WORKFLOW": "fix", "VIBE_GATE_INPUT_POST": post}
            assert project.review_pull(head, **variables, **inputs).code == 1
    (comment,) = project.github.review_comments
    assert "Matches the forbidden pattern" in comment.body, (
        "the finding and what is suggested are one comment"
    )
    assert (comment.path, comment.start_line, comment.line) == ("src/a.py", None, 2)
    assert comment.body.endswith("\n```suggestion\n# Done.\n```\n")
    assert (
        "0 of 3 changes by agents can be committed as suggested; the whole patch is made.patch"
        in project.ours[0]
    )
    assert "Look at CLAUDE.md" in project.ours[0]
    assert "What agents changed: diffs of 3 files" in project.ours[0]
    assert "`CLAUDE.md` (+1 −0)\n\n```diff\n@@ -0,0 +1 @@\n+Be nice.\n```" in project.ours[0]
    assert re.search(r"(?m)^  ```diff\n  @@ .*\n(?:  .*\n)*  \+# TODO", project.ours[0])
    assert Path(project.outputs["artifact-path"], "made.patch").is_file()


CHECKED = """\
schema = 1
id = "quality"
[[criterion]]
id = "plain"
kind = "check"
check = "no-invisible-unicode"
[[criterion]]
id = "formatted"
kind = "check"
command = ["python3", "fmt.py", "--check"]
options = { fix = "python3 fmt.py" }
must = true
"""
FORMATTER = """\
import sys
for name in ("src/a.py", "src/old.py"):
    text = open(name).read()
    better = text.replace("=1", " = 1").replace("\\n\\n\\n\\n", "\\n\\n")
    if "--check" not in sys.argv:
        open(name, "w").write(better)
    elif better != text:
        sys.exit(f"would reformat {name}")
"""
SUGGESTED = re.compile(r"```suggestion\n(.*?)```", re.DOTALL)


def test_what_checks_would_write_is_suggested_once_and_is_right_when_committed(
    tmp_path, environ, github
):
    project = make_project(tmp_path, environ, github, CHECKED)
    project.origin.commit("Formatter", **{"fmt.py": FORMATTER, "src/old.py": "y=1\n"})
    ugly = "x=1\n\n\n\nname = 'a\u200bb'\nz=1\n"
    head = project.branch("topic", **{"src/a.py": ugly})
    project.pull(head)
    for post in ("lines", "lines", "comment"):
        assert project.review_pull(head, VIBE_GATE_INPUT_POST=post).code == 1
    comments = github.review_comments
    assert {comment.path for comment in comments} == {"src/a.py"}, (
        "the change does not touch the other file"
    )
    lines = ugly.splitlines(keepends=True)
    for comment in sorted(comments, key=lambda comment: -comment.line):
        (text,) = SUGGESTED.findall(comment.body)
        lines[(comment.start_line or comment.line) - 1 : comment.line] = [text]
    assert "".join(lines) == "x = 1\n\nname = 'ab'\nz = 1\n"
    (merged_comment,) = [comment for comment in comments if "zero-width character" in comment.body]
    assert merged_comment.body.count("<!-- vibe-gate:") == 2, (
        "the finding and what is suggested are one comment"
    )
    fixed = project.push("topic", **{"src/a.py": "".join(lines), "src/old.py": "y = 1\n"})
    project.pull(fixed)
    assert project.review_pull(fixed).code == 0
    assert len(github.review_comments) == len(comments)
