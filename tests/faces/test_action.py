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
from faces.jobs import FIX, FIXER, FORBIDDEN, GATE, Project, project, todos
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


def conclusions(made: Project) -> list[str]:
    return [run.sent["conclusion"] for run in made.github.check_runs]


# A pull request


def test_a_failing_pull_request_gets_comment_check_run_summary_and_outputs(made):
    head = made.branch("topic", **{"src/größe 日本.py": todos(1)})
    made.pull(head)
    told = {
        "VIBE_GATE_READY": "9 s (16 MiB of packages from the cache)",
        "VIBE_GATE_BEGAN": str(int(time.time()) - 40),
    }
    done = made.review_pull(head, **told)
    assert done.code == 1, done.err
    times = r"Installed in 9 s \(16 MiB of packages from the cache\)\. Reviewed and posted in [4-9][0-9] s\."
    assert re.fullmatch(times, made.summary.splitlines()[-1])
    assert len(made.ours) == 1
    assert conclusions(made) == ["failure"]
    assert made.github.check_runs[0].sent["head_sha"] == head
    assert made.github.writes == 4  # two of them the check run
    assert [(one.path, one.line) for one in made.github.review_comments] == [
        ("src/größe 日本.py", 1)
    ]
    assert "`src/größe 日本.py:1`" in made.ours[0]
    assert "annotations" not in made.github.check_runs[0].sent["output"]
    assert "::error" not in done.out
    out = made.outputs
    assert out["verdict"] == "fail"
    assert out["comment-url"].startswith("http")
    assert Path(out["report"]).read_text() == made.summary
    assert json.loads(Path(out["sarif"]).read_text())["version"] == "2.1.0"
    assert {path.name for path in Path(out["artifact-path"]).iterdir()} == {
        "summary.json", "receipt.json", "run.json", "report.md", "report.html",
        "vibe-gate.sarif",
    }  # fmt: skip
    assert (
        json.loads(Path(out["artifact-path"], "summary.json").read_text())["run_id"] == out["run"]
    )
    assert out["artifact-name"].startswith("vibe-gate-4711-1-gate-")


def test_a_pull_request_is_judged_from_the_merge_base_whatever_the_base_branch_did_since(made):
    head = made.branch("topic", **{"src/b.py": "y = 2\n"})
    made.origin.commit("Elsewhere", **{"src/a.py": todos(3)})
    made.pull(head)
    done = made.review_pull(head)
    assert done.code == 0, done.out + done.err
    assert conclusions(made) == ["success"]
    assert made.outputs["verdict"] == "pass"
    assert made.outputs["score"] == "1"


def test_the_rubrics_of_the_base_bind_and_not_those_of_the_change(made):
    weak = FORBIDDEN.replace("TODO", "NEVER-EVER")
    head = made.branch("topic", **{"src/a.py": todos(1), ".vibe-gate/rubrics/quality.toml": weak})
    made.pull(head)
    done = made.review_pull(head)
    assert done.code == 1
    assert made.outputs["verdict"] == "fail"


@pytest.mark.usefixtures("real_cli")
def test_the_real_judge_is_asked_with_the_key_of_the_input_and_its_reason_is_posted(
    tmp_path, environ, github
):
    made = project(tmp_path, environ, github, RUBRIC)
    head = made.branch("topic", **{"src/load.py": SWALLOWS})
    made.pull(head)
    with answering(FAILS, repeat_last=True) as model:
        done = made.review_pull(
            head, ANTHROPIC_BASE_URL=model.base_url, VIBE_GATE_INPUT_ANTHROPIC_API_KEY=KEY,
            VIBE_GATE_INPUT_REVIEW_COMMENTS="true",
        )  # fmt: skip
        assert model.script.requests
    assert done.code == 1, done.err
    assert "The error is dropped." in made.ours[0]
    assert [(one.path, one.start_line, one.line) for one in github.review_comments] == [
        ("src/load.py", None, 4)
    ]
    assert float(made.outputs["cost-usd"]) > 0
    written = [
        path.read_text(errors="replace") for path in made.folder.rglob("*") if path.is_file()
    ]
    assert not any(
        KEY in text or github.token in text for text in [*written, done.out, done.err, *made.ours]
    )

    done = made.review_pull(
        head, VIBE_GATE_INPUT_ANTHROPIC_API_KEY=KEY, VIBE_GATE_INPUT_JUDGE="false"
    )
    assert (done.code, conclusions(made)[-1]) == (0, "success"), done.err
    assert "NOTHING REVIEWED" in made.ours[0] and "--no-judge" in made.ours[0]


def test_an_overloaded_model_is_waited_for_and_one_that_stays_so_is_named_once(
    tmp_path, environ, github
):
    made = project(tmp_path, environ, github, RUBRIC)
    made.origin.commit("Less time", **{".vibe-gate/gate.toml": GATE + "[budget]\ndeadline_s = 8\n"})
    head = made.branch("topic", **{"src/load.py": SWALLOWS})
    made.pull(head)
    busy = ApiError(529, headers={"retry-after": "0"})
    with answering(busy, repeat_last=True) as never, answering(*[busy] * 4, PASSES) as model:
        keyed = {"VIBE_GATE_INPUT_ANTHROPIC_API_KEY": KEY}
        done = made.review_pull(head, ANTHROPIC_BASE_URL=never.base_url, **keyed)
        assert (done.code, conclusions(made)) == (3, ["failure"])
        sentence = "127.0.0.1 is overloaded (HTTP 529) and did not recover in time"
        shown = made.ours[0].partition("<details>")[0]
        assert (
            sentence in shown
            and shown.count("overloaded") == 1
            and not re.search(r"[.][.:](?![.\w])", made.ours[0])
        )
        assert done.out.partition("::error")[0].count("overloaded") == 1
        address = never.base_url.removeprefix("http://").partition("/")[0]
        assert address not in made.ours[0] + done.out

        made.origin.commit("More time", **{".vibe-gate/gate.toml": GATE})
        done = made.review_pull(head, ANTHROPIC_BASE_URL=model.base_url, **keyed)
        assert (done.code, conclusions(made)[-1], len(model.script.requests)) == (
            0,
            "success",
            5,
        ), done.out


def test_jobs_share_answers_and_runs_by_the_store_that_the_base_names(tmp_path, environ, github):
    pytest.importorskip("obstore", reason="obstore is not installed here")
    made = project(tmp_path, environ, github, RUBRIC)
    team, elsewhere = tmp_path / "team", tmp_path / "elsewhere"
    team.mkdir()
    elsewhere.mkdir()
    stores = [f'{GATE}[store]\nurl = "{folder.as_uri()}"\n' for folder in (team, elsewhere)]
    made.origin.commit("Share", **{".vibe-gate/gate.toml": stores[0]})
    head = made.branch("topic", **{"src/load.py": SWALLOWS, ".vibe-gate/gate.toml": stores[1]})
    made.pull(head)
    given = {"VIBE_GATE_INPUT_ANTHROPIC_API_KEY": KEY}
    with answering(FAILS, repeat_last=True) as model:
        given |= {"ANTHROPIC_BASE_URL": model.base_url}
        keyless = made.review_pull(head, VIBE_GATE_INPUT_JUDGE="false", **given)
        assert "VIBE_GATE_STORE_KEY is not set" in keyless.out
        given |= {"VIBE_GATE_STORE_KEY": "a secret of the whole team"}
        allow_store(team.as_uri(), environ)
        codes = [made.review_pull(head, **given).code for _ in range(2)]
        assert (codes, len(model.script.requests)) == ([1, 1], 1)
        assert sorted(path.name for path in team.iterdir()) == ["answers", "claims", "runs"]
        assert len(list(team.glob("runs/*"))) == 2
        assert list(elsewhere.iterdir()) == []
        team.rename(tmp_path / "unmounted")
        lost = made.review_pull(head, **given)
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
        again: bool = False,
    ) -> tuple[int, str]:
        """Run a job: how often the model was asked, and what it says of the answers. `again`: in
        the same clone.
        """
        before = len(self.model.script.requests)
        payload = events.pull_request(self.project.main(), head, fork=fork)
        environ = self.environ | {"VIBE_GATE_INPUT_ANTHROPIC_API_KEY": key}
        done = self.project.act(event, payload, checkout="" if again else head, **environ)
        assert done.code == 1 and "The error is dropped." in self.project.ours[0], (
            done.out + done.err
        )
        return len(self.model.script.requests) - before, self.project.outputs.get("answers", "")


@pytest.fixture
def jobs(tmp_path, environ, github):
    with answering(FAILS, repeat_last=True) as model:
        yield Jobs(tmp_path, project(tmp_path, environ, github, RUBRIC), model)


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
    assert jobs(jobs.head, again=True) == (1, "new")


def test_three_pushes_say_what_is_fixed_open_new_and_held(made):
    made.origin.git("checkout", "-q", "-B", "topic", "main")
    first = made.origin.commit(
        "one", **{"src/a.py": todos(1) + "# FIXME old\n", "src/c.py": todos(1)}
    )
    made.origin.git("checkout", "-q", "main")
    made.pull(first)
    lines = {"VIBE_GATE_INPUT_REVIEW_COMMENTS": "true"}
    assert made.review_pull(first, **lines).code == 1
    # The base asks for more from now on: what stood there before is held back where it is no
    # blocker.
    made.origin.commit(
        "Ask for more",
        **{
            ".vibe-gate/rubrics/quality.toml": FORBIDDEN.replace("[[", "pass_threshold = 0\n[[")
            + MAYBE
        },
    )
    second = made.push(
        "topic",
        **{"src/b.py": todos(1, 7) + "# FIXME new\n", "src/c.py": "z = 1\n"},
    )
    made.pull(second)
    done = made.review_pull(second, **lines)
    assert done.code == 1, done.err
    assert "Round 2: 2 new, 1 still open, 1 fixed. Held back: 1 finding" in made.ours[0]
    page = Path(made.outputs["artifact-path"], "report.html").read_text()
    assert "Round 2 of the pull request: 2 new, 1 still open, 1 fixed.</p>" in page
    assert (page.count('<span class="badge">new</span>'), page.count("<del>")) == (2, 1)
    third = made.push("topic", **{"src/a.py": "x = 1\n", "src/b.py": "y = 1\n"})
    made.pull(third)
    assert made.review_pull(third, **lines).code == 0
    assert len(made.ours) == 1
    assert "Round 3" in made.ours[0]
    assert "PASS" in made.ours[0].split("\n")[1]
    fixed = [one for one in made.github.review_comments if "**Fixed**" in one.body]
    assert len(fixed) == len(made.github.review_comments) == 4
    assert all(one.resolved for one in fixed)
    assert conclusions(made) == ["failure", "failure", "success"]


def test_a_rebase_that_lost_the_last_round_says_so(made, tmp_path):
    first = made.branch("topic", **{"src/a.py": todos(1)})
    made.pull(first)
    made.review_pull(first)
    made.origin.git("branch", "-D", "topic")
    made.origin.git("reflog", "expire", "--expire=now", "--all")
    made.origin.git("gc", "-q", "--prune=now")
    second = made.branch("topic", **{"src/a.py": todos(2)})
    made.pull(second)
    assert made.review_pull(second).code == 1
    assert "cannot be seen any more" in made.ours[0]


def test_the_whole_bundle_is_uploaded_only_where_asked_and_the_comment_says_which(made):
    head = made.branch("topic", **{"src/a.py": todos(1)})
    made.pull(head)
    in_action = {"VIBE_GATE_BEGAN": "1700000000"}
    made.review_pull(head, VIBE_GATE_INPUT_ARTIFACT="full", **in_action)
    assert (Path(made.outputs["artifact-path"]) / "bundle.tar.xz").is_file()
    assert "its bundle is an artifact of the job" in made.ours[0]
    made.review_pull(head, **in_action)
    assert not (Path(made.outputs["artifact-path"]) / "bundle.tar.xz").exists()
    for text in (made.ours[0], made.summary):
        assert (
            "its summary is an artifact of the job: open report.html in it. `artifact: full`"
            in text
        )
        assert "bundle" not in text
    made.review_pull(head, VIBE_GATE_INPUT_ARTIFACT="full")
    assert "its bundle is in the folder of the output `artifact-path`" in made.ours[0]
    made.review_pull(head, VIBE_GATE_INPUT_ARTIFACT="none", **in_action)
    assert made.outputs["artifact-path"] == made.outputs["artifact-name"] == ""
    assert not tarfile.is_tarfile(made.outputs["report"])
    assert "it is not uploaded (`artifact: none`)" in made.ours[0]
    assert "artifact of the job" not in made.ours[0] + made.summary


def test_what_the_runner_cannot_take_changes_no_verdict(made):
    head = made.branch("topic", **{"src/b.py": "y = 1\n"})
    made.pull(head)
    nowhere = {"GITHUB_OUTPUT": "/proc/nowhere", "GITHUB_STEP_SUMMARY": "/proc/nowhere"}
    done = made.review_pull(head, **nowhere)
    assert done.code == 0, done.out + done.err
    assert "GITHUB_OUTPUT cannot be written" in done.out
    assert len(made.ours) == 1


def test_a_pass_that_a_listed_signer_shared_is_taken_over_and_no_model_is_asked(
    tmp_path, environ, github
):
    made = project(tmp_path, environ, github, RUBRIC)
    key = signing.key(tmp_path / "keys")
    made.origin.commit(
        "List", **{".vibe-gate/allowed_signers": f"bob@example.org {signing.public(key)}\n"}
    )
    head = made.branch("topic", **{"src/load.py": SWALLOWS})
    made.pull(head)
    signing.sign_with(made.origin, key)
    made.origin.git("config", "vibe-gate.receipts", "notes")
    with answering(PASSES, repeat_last=True) as model:
        bob = made.origin.environ | model.environ
        assert vibe_gate("review", f"main...{head}", cwd=made.origin.path, environ=bob).code == 0
    done = made.review_pull(head)  # without any key
    assert done.code == 0, done.out + done.err
    assert "bob" in made.ours[0]
    assert conclusions(made) == ["success"]


# Forks


def test_a_forks_pull_request_posts_nothing_and_says_so_where_it_can(made):
    head = made.branch("topic", **{"src/a.py": todos(2)})
    made.pull(head, fork=True, author="eve")
    made.github.read_only.add(made.github.token)
    done = made.review_pull(head, fork=True)
    assert done.code == 1
    assert made.github.writes == 0
    assert "comes from a fork" in made.summary
    assert (
        "The check run could not be written: the token of a pull request from a fork may only read."
        in done.out
    )
    assert "::error file=src/a.py,line=1" in done.out, "workflow commands reach the diff"
    assert made.outputs["comment-url"] == ""
    assert made.outputs["artifact-path"]


def test_a_job_of_dependabots_names_the_page_of_its_secrets_and_the_permission_that_it_lacks(
    tmp_path, environ, github
):
    made = project(tmp_path, environ, github, RUBRIC)
    head = made.branch("topic", **{"src/load.py": SWALLOWS})
    made.pull(head, author="dependabot[bot]")
    github.lacking.add("checks=write")
    done = made.review_pull(head, GITHUB_ACTOR="dependabot[bot]")
    assert done.code == 3, done.err
    assert "Secrets and variables → Dependabot" in made.ours[0]
    assert "--no-judge" not in made.ours[0] + made.summary + done.out
    assert (
        "the token lacks `checks: write`" in made.ours[0]
        and "the token lacks `checks: write`" in made.summary
    )


def test_without_a_token_nothing_is_posted_and_that_is_said(made):
    head = made.branch("topic", **{"src/a.py": todos(1)})
    made.pull(head)
    done = made.review_pull(head, VIBE_GATE_INPUT_GITHUB_TOKEN="")
    assert done.code == 1
    assert made.github.requests == 0
    assert "No token was given" in made.summary


# Other events


def test_a_merge_group_is_judged_between_its_own_ends(made):
    base = made.main()
    head = made.branch("gh-readonly-queue/main/pr-7-x", **{"src/a.py": todos(1)})
    done = made.act("merge_group", events.merge_group(base, head), checkout=head)
    assert done.code == 1
    assert conclusions(made) == ["failure"]
    assert made.ours == []


def test_a_push_is_judged_from_what_was_there_before(made):
    before = made.main()
    middle = made.origin.commit("ok", **{"src/b.py": "y = 1\n"})
    after = made.origin.commit("bad", **{"src/a.py": todos(1)})
    assert made.act("push", events.push(before, after), checkout=after).code == 1
    assert made.act("push", events.push(before, middle), checkout=after).code == 0
    assert len(made.github.check_runs) == 2


def test_a_new_branch_is_judged_from_where_it_left_the_default_branch(made):
    head = made.branch("topic", **{"src/a.py": todos(1)})
    made.origin.commit("Later", **{"src/c.py": "z = 1\n"})
    done = made.act("push", events.push(events.NOBODY, head, "refs/heads/topic"), checkout=head)
    assert done.code == 1
    assert "where the branch left main: a new branch" in made.summary


def test_a_force_push_is_judged_from_where_the_branch_left_the_default_branch(made):
    old = made.branch("topic", **{"src/a.py": todos(1)})
    new = made.branch("topic", **{"src/b.py": "fine = 1\n"})
    done = made.act("push", events.push(old, new, "refs/heads/topic", forced=True), checkout=new)
    assert done.code == 0, done.out
    assert f"a force push replaced {old[:12]}" in made.summary.replace("`", "")
    gone = events.push("f" * 40, new, "refs/heads/topic", forced=True)
    assert made.act("push", gone, checkout=new).code == 0
    assert "is gone (a force push)" in made.summary.replace("`", "")


def test_a_dispatch_is_judged_from_the_default_branch_or_the_base_that_is_named(made):
    head = made.branch("topic", **{"src/a.py": todos(1)})
    more = made.push("topic", **{"src/b.py": "y = 1\n"})
    assert (
        made.act("workflow_dispatch", events.dispatch(), checkout=more, GITHUB_SHA=more).code == 1
    )
    named = {"GITHUB_SHA": more, "VIBE_GATE_INPUT_BASE": head}
    assert made.act("workflow_dispatch", events.dispatch(), checkout=more, **named).code == 0


def test_a_schedule_or_dispatch_reviews_the_range_or_the_branch_that_is_named(made):
    first = made.main()
    made.origin.git("tag", "v1")
    bad = made.origin.commit("bad", **{"src/a.py": todos(1)})
    good = made.origin.commit("good", **{"src/a.py": "x = 2\n"})
    made.branch("develop", **{"src/b.py": todos(1)})
    around = {"GITHUB_SHA": good, "GITHUB_REF": "refs/heads/main"}
    said = {  # inputs base and head -> exit code
        (first, ""): 0, (bad, ""): 0, ("v1", bad): 1, ("", "develop"): 1, ("main", "v1"): 0, (good, ""): 0, ("", ""): 2,
        ("", "nowhere"): 2,
    }  # fmt: skip
    for name, event in (
        ("schedule", {"schedule": "1 2 * * *"}),
        ("workflow_dispatch", events.dispatch()),
    ):
        made.check_out(good)
        for (base, head), code in said.items():
            given = {"VIBE_GATE_INPUT_BASE": base, "VIBE_GATE_INPUT_HEAD": head}
            done = made.act(name, event, **around, **given)
            assert done.code == code, (base, head, done.out + done.err)
    assert "The head nowhere names no branch, tag or commit" in done.out
    assert (
        conclusions(made) == ["success", "success", "failure", "failure", "success", "success"] * 2
    )
    assert made.github.check_runs[2].sent["head_sha"] == bad
    assert made.ours == []
    made.pull(made.main())
    assert made.review_pull(made.main(), VIBE_GATE_INPUT_HEAD="v1").code == 2
    assert "The input head is for workflow_dispatch and schedule" in made.summary


def test_a_dispatch_on_the_default_branch_asks_for_a_base(made):
    done = made.act(
        "workflow_dispatch", events.dispatch(), checkout=made.main(), GITHUB_SHA=made.main()
    )
    assert done.code == 2
    assert "the input `base` must say what to review from" in done.out


def test_events_that_are_not_for_it_are_exit_two_and_post_nothing(made):
    event = events.pull_request(made.main(), made.main())
    done = made.act("pull_request_target", event, checkout=made.main(), VIBE_GATE_INPUT_MODE="warn")
    assert done.code == 2
    assert "::error::vibe-gate: " in done.out
    assert made.github.requests == 0
    assert "could not review" in made.summary
    assert made.outputs["verdict"] == "error"


# Modes and exit codes


def test_mode_warn_says_what_it_would_have_been(made):
    head = made.branch("topic", **{"src/a.py": todos(1)})
    made.pull(head)
    done = made.review_pull(head, VIBE_GATE_INPUT_MODE="warn")
    assert done.code == 0
    assert "::warning::vibe-gate: exit code 1, let pass because of `mode: warn`." in done.out
    assert conclusions(made) == ["neutral"]
    assert made.github.check_runs[0].sent["output"]["title"].startswith("would have failed: FAIL")
    assert (
        made.ours[0]
        .splitlines()[1]
        .startswith("### vibe-gate: FAIL · does not block (`mode: warn`)")
    )
    assert "✗ FAIL · does not block (mode: warn) · Rubric quality: " in done.out


def test_questions_wait_for_a_check_unless_they_are_asked_anyway(tmp_path, environ, github):
    made = project(tmp_path, environ, github, RUBRIC + "[[" + FORBIDDEN.partition("[[")[2])
    head = made.branch("topic", **{"src/load.py": SWALLOWS + "# TODO\n"})
    made.pull(head)
    with answering(FAILS, repeat_last=True) as model:
        keys = {"ANTHROPIC_BASE_URL": model.base_url, "VIBE_GATE_INPUT_ANTHROPIC_API_KEY": KEY}
        assert made.review_pull(head, **keys).code == 1
        assert not model.script.requests
        waits = "Not asked until `no-todo` passes: 2 judge questions, `errors-not-swallowed`, `names-are-clear`."
        assert waits in made.ours[0]
        assert "Not judged" not in made.ours[0]
        done = made.review_pull(head, **keys, VIBE_GATE_INPUT_ASK_ANYWAY="true")
        assert done.code == 1, done.err
        assert model.script.requests
    assert "Not asked until" not in made.ours[0]
    assert {"The error is dropped.", "TODO"} <= set(
        re.findall(r"The error is dropped\.|TODO", made.ours[0])
    )


def test_a_pull_request_without_changes_says_nothing_new_but_rights_an_earlier_word(made):
    head = made.branch("topic", **{"src/a.py": todos(1)})
    made.pull(head)
    made.review_pull(head)
    back = made.push("topic", **{"src/a.py": "x = 1\n"})
    made.pull(back)
    done = made.review_pull(back)
    assert done.code == 0
    assert made.outputs["verdict"] == "nothing"
    assert len(made.ours) == 1
    assert "FAIL" not in made.ours[0]
    assert conclusions(made) == ["failure", "success"]


# Changes of the gate itself


@pytest.fixture
def policy(made) -> str:
    softer = {".vibe-gate/gate.toml": 'schema = 1\nrubrics = ["quality"]\n# softer\n'}
    head = made.branch("topic", **softer, **{"src/more.py": "y = 1\n"})
    made.pull(head)
    for login, right in {"bob": "write", "eve": "read", "ada": "admin"}.items():
        made.github.permissions[login] = right
    return head


def test_an_approving_review_of_this_commit_lets_it_pass_and_is_named(made, policy):
    made.github.add_review(7, "bob", "APPROVED", policy)
    done = made.act(
        "pull_request_review", events.pull_request(made.main(), policy), checkout=policy
    )
    assert done.code == 0, done.out + done.err
    assert conclusions(made) == ["success"]
    assert "### vibe-gate: PASS · gate change approved by `@bob` · [`" in made.ours[0]
    assert "@bob" not in made.ours[0].replace("`@bob", "").replace("<code>@bob", "")


def test_only_somebody_else_with_write_access_can_approve_and_only_this_commit(made, policy):
    for login in ("eve", "ada", "github-actions[bot]"):
        made.github.add_review(7, login, "APPROVED", policy)
    assert made.review_pull(policy).code == 4
    assert conclusions(made) == ["action_required"]
    assert (made.outputs["verdict"], made.outputs["score"]) == ("needs-approval", "")
    assert made.review_pull(policy, VIBE_GATE_INPUT_MODE="warn").code == 0
    assert made.outputs["verdict"] == "needs-approval"
    made.github.add_review(7, "bob", "APPROVED", policy)
    later = made.push(
        "topic", **{".vibe-gate/gate.toml": 'schema = 1\nrubrics = ["quality"]\n# softest\n'}
    )
    made.pull(later)
    assert made.review_pull(later).code == 4


def test_reviews_that_cannot_be_read_approve_nothing(made, policy):
    made.github.add_review(7, "bob", "APPROVED", policy)
    made.github.fail("GET", "/repos/{owner}/{repo}/pulls/{pull_number}/reviews", 403, times=None)
    assert made.review_pull(policy).code == 4
    assert "could not be read" in made.ours[0] + made.summary


def test_a_merge_group_counts_the_approval_of_its_pull_request(made, policy):
    base = made.main()
    made.github.add_review(7, "bob", "APPROVED", policy)
    assert made.act("merge_group", events.merge_group(base, policy), checkout=policy).code == 0
    assert made.act("merge_group", events.merge_group(base, policy, 8), checkout=policy).code == 4


def test_the_first_gate_of_all_needs_approval_too(tmp_path, environ, github):
    made = project(tmp_path, environ, github)
    made.origin.git("rm", "-rq", ".vibe-gate")
    made.origin.commit("No gate")
    head = made.branch("topic", **{".vibe-gate/gate.toml": "schema = 1\nrubrics = []\n"})
    made.pull(head)
    assert made.review_pull(head).code == 4
    github.permissions["bob"] = "write"
    github.add_review(7, "bob", "APPROVED", head)
    assert made.review_pull(head).code == 0


# Checkouts


def test_a_shallow_checkout_is_deepened_until_the_merge_base_is_there(made):
    for number in range(5):
        made.origin.commit(f"main {number}", **{"src/m.py": f"m = {number}\n"})
    head = made.branch("topic", **{"src/b.py": "y = 1\n"})
    for number in range(4):
        head = made.push("topic", **{"src/b.py": todos(1, number)})
    made.origin.commit("main later", **{"src/m.py": "m = 99\n"})
    made.pull(head)
    done = made.review_pull(head, depth=1)
    assert done.code == 1, done.out + done.err
    stored = json.loads(Path(made.outputs["artifact-path"], "summary.json").read_text())
    assert [file["path"] for file in stored["change"]["files"]] == ["src/b.py"]


def test_a_shallow_checkout_learns_of_the_branch_that_it_is_compared_with(made):
    made.origin.commit("main", **{"src/m.py": "m = 1\n"})
    made.branch("topic", **{"src/b.py": "y = 1\n"})
    head = made.push("topic", **{"src/c.py": todos(1)})
    made.origin.commit("later", **{"src/m.py": "m = 2\n"})
    named = {"GITHUB_SHA": head, "VIBE_GATE_INPUT_BASE": "main"}
    for name, event in (
        ("workflow_dispatch", events.dispatch()),
        ("push", events.push(events.NOBODY, head, "refs/heads/topic")),
    ):
        done = made.act(name, event, checkout=head, depth=1, **named)
        assert done.code == 1, done.out + done.err
        stored = json.loads(Path(made.outputs["artifact-path"], "summary.json").read_text())
        assert [file["path"] for file in stored["change"]["files"]] == ["src/b.py", "src/c.py"]


def test_a_checkout_that_cannot_be_deepened_says_what_to_set(made):
    head = made.branch("topic", **{"src/b.py": "y = 1\n"})
    made.origin.commit("later")
    made.pull(head)
    made.check_out(head, depth=1)
    (made.checkout / ".git" / "config").write_text("[core]\n\trepositoryformatversion = 0\n")
    done = made.act("pull_request", events.pull_request(made.main(), head))
    assert done.code == 2
    assert "Set `fetch-depth: 0` at actions/checkout." in done.out


def test_no_word_of_the_change_becomes_a_workflow_command(made):
    head = made.branch(
        "topic",
        **{"::error::x\n::set-output name=verdict::pass.py": "# TODO ::warning::y\n##[error]z\n"},
    )
    made.pull(head)
    done = made.review_pull(head)
    assert done.code == 1
    token = done.out.split("\n")[0].removeprefix("::stop-commands::")
    inside, obeyed = done.out.split(f"\n::{token}::\n")
    assert "::warning::y" not in inside.replace("# TODO ::warning::y", "")
    assert token not in inside.removeprefix(f"::stop-commands::{token}")
    assert "##[" not in obeyed
    assert not any(line.startswith(("::error::x", "::set-output")) for line in obeyed.split("\n"))
    assert made.outputs["verdict"] == "fail"


def test_everything_works_below_an_enterprise_servers_address(tmp_path, environ):
    with loopback_github(ghes=True) as github:
        made = project(tmp_path, environ, github)
        head = made.branch("topic", **{"src/a.py": todos(1)})
        made.pull(head)
        assert made.review_pull(head).code == 1
        assert github.url.endswith("/api/v3")
        assert len(made.ours) == len(github.check_runs) == 1


@pytest.mark.usefixtures("real_cli")
def test_what_a_workflows_agents_changed_is_suggested_once_at_its_lines_or_in_the_artifact(made):
    made.origin.commit(
        "Repair", **{".vibe-gate/workflows/fix.toml": FIX, ".vibe-gate/agents/fixer.toml": FIXER}
    )
    head = made.branch("topic", **{"src/a.py": "x = 1\n" + todos(1), "src/b.py": "y = 2\n"})
    made.pull(head)
    files = {
        "src/a.py": "x = 1\n# Done.\nx = 0\n\n",
        "src/new.py": "z = 3\n",
        "CLAUDE.md": "Be nice.\n",
    }
    calls = [ToolUse("Write", {"file_path": path, "content": text}) for path, text in files.items()]
    with answering(*([Turn(*calls), Turn(Text("Done."))] * 2)) as model:
        given = {"ANTHROPIC_BASE_URL": model.base_url, "VIBE_GATE_INPUT_ANTHROPIC_API_KEY": KEY}
        for findings in ("true", "false"):
            more = {"VIBE_GATE_INPUT_WORKFLOW": "fix", "VIBE_GATE_INPUT_REVIEW_COMMENTS": findings}
            assert made.review_pull(head, **given, **more).code == 1
    (comment,) = made.github.review_comments
    assert "Matches the forbidden pattern" in comment.body, (
        "the finding and what is suggested are one comment"
    )
    assert (comment.path, comment.start_line, comment.line) == ("src/a.py", None, 2)
    assert comment.body.endswith("\n```suggestion\n# Done.\n```\n")
    assert (
        "0 of 3 changes by agents can be committed as suggested; the whole patch is made.patch"
        in made.ours[0]
    )
    assert "Look at CLAUDE.md" in made.ours[0]
    assert "What agents changed: diffs of 3 files" in made.ours[0]
    assert "`CLAUDE.md` (+1 −0)\n\n```diff\n@@ -0,0 +1 @@\n+Be nice.\n```" in made.ours[0]
    assert re.search(r"(?m)^  ```diff\n  @@ .*\n(?:  .*\n)*  \+# TODO", made.ours[0])
    assert Path(made.outputs["artifact-path"], "made.patch").is_file()


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
    made = project(tmp_path, environ, github, CHECKED)
    made.origin.commit("Formatter", **{"fmt.py": FORMATTER, "src/old.py": "y=1\n"})
    ugly = "x=1\n\n\n\nname = 'a\u200bb'\nz=1\n"
    head = made.branch("topic", **{"src/a.py": ugly})
    made.pull(head)
    for findings in ("true", "true", "false"):
        assert made.review_pull(head, VIBE_GATE_INPUT_REVIEW_COMMENTS=findings).code == 1
    comments = github.review_comments
    assert {one.path for one in comments} == {"src/a.py"}, (
        "the change does not touch the other file"
    )
    lines = ugly.splitlines(keepends=True)
    for one in sorted(comments, key=lambda one: -one.line):
        (text,) = SUGGESTED.findall(one.body)
        lines[(one.start_line or one.line) - 1 : one.line] = [text]
    assert "".join(lines) == "x = 1\n\nname = 'ab'\nz = 1\n"
    (about,) = [one for one in comments if "zero-width character" in one.body]
    assert about.body.count("<!-- vibe-gate:") == 2, (
        "the finding and what is suggested are one comment"
    )
    fixed = made.push("topic", **{"src/a.py": "".join(lines), "src/old.py": "y = 1\n"})
    made.pull(fixed)
    assert made.review_pull(fixed).code == 0
    assert len(github.review_comments) == len(comments)
