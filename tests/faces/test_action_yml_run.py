"""The Action as a workflow runs it: act, a real checkout, the real CLI, a scripted model, a
loopback GitHub.

What stands in for GitHub's own actions, and why, is told in acting.py. The workflows are the
examples that users copy.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from acting import OURS, Job, Runner, example, shorten, wheel
from answers import answer_to, answers, fails, passes
from contract.github import LoopbackGitHub, loopback_github
from faces import events
from faces.jobs import FORBIDDEN
from repos import RUBRIC, SWALLOWS, Repo, gated
from wire import KEY, answering

from vibe_gate.report.comment import read_comment_state
from vibe_gate.sandbox.launcher import landlock_abi

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
]  # a workflow is a dozen processes, and act itself

CHECKOUT = "      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1\n"
BETTER = "def load(path):\n    return open(path, encoding='utf-8').read()\n"
SWALLOWED = "The error is dropped."
PASSES = passes("errors-not-swallowed", "names-are-clear")
FAILS = answers(fails(reason=SWALLOWED), answer_to("names-are-clear"))


@dataclass
class Project:
    """A pull request as a runner finds it: `checkout` is a clone whose HEAD is the merge of `head`
    into `base`.
    """

    checkout: Repo
    base: str
    head: str
    merge: str

    def event(self, fork: bool = False) -> dict[str, Any]:
        """The event file of a push to the pull request."""
        ours = {"full_name": "octo/hello", "default_branch": "main"}
        theirs = ours | {"full_name": "eve/hello"} if fork else ours
        pull = {
            "number": 7,
            "user": {"login": "ada"},
            "base": {"sha": self.base, "ref": "main", "repo": ours},
            "head": {"sha": self.head, "ref": "topic", "repo": theirs},
        }
        return {"action": "synchronize", "number": 7, "pull_request": pull, "repository": ours}


def propose_change(
    place: Path, environ: Mapping[str, str], rubric: str = RUBRIC, **files: str
) -> Project:
    """A gated project, a topic branch that writes these files, and a checkout of both merged."""
    origin = gated(place / "origin", environ, rubric=rubric)
    base = origin.git("rev-parse", "HEAD")
    origin.git("switch", "-q", "-c", "topic")
    for path, content in files.items():
        origin.write(path, content)
    head = origin.commit("Load robustly")
    origin.git("switch", "-q", "main")
    origin.git("merge", "-q", "--no-ff", "-m", "Merge", "topic")
    merge = origin.git("rev-parse", "HEAD")
    origin.git("reset", "-q", "--hard", base)
    origin.git("update-ref", "refs/pull/7/merge", merge)
    origin.git("clone", "-q", str(origin.path), str(place / "checkout"))
    checkout = Repo(place / "checkout", environ)
    checkout.git("fetch", "-q", "origin", "refs/pull/7/merge")
    checkout.git("checkout", "-q", "--detach", merge)
    return Project(checkout, base, head, merge)


@pytest.fixture
def runner(tmp_path: Path, built: Path, environ: dict[str, str]) -> Runner:
    return Runner(tmp_path / "runner", built, environ)


@pytest.fixture
def swallowing(tmp_path: Path, environ: dict[str, str]) -> Project:
    return propose_change(tmp_path, environ, **{"src/load.py": SWALLOWS})


def open_pull(github: LoopbackGitHub, project: Project, **fields: Any) -> None:
    diff = project.checkout.git("diff", f"{project.base}...{project.head}")
    github.add_pull(7, base_sha=project.base, head_sha=project.head, diff=diff, **fields)


def run_example(
    runner: Runner,
    project: Project,
    github: LoopbackGitHub,
    workflow: str,
    event: str = "pull_request",
    **options: Any,
) -> Job:
    """Run an example with a model that answers `model`; the token is `github`'s own unless one is
    given.
    """
    payload = options.pop("payload", project.event())
    path = example(project.checkout, workflow)
    if options.pop("cached", False):  # installing for real takes half a minute
        text = (project.checkout.path / path).read_text()
        project.checkout.write(path, text.replace('cache: "false"', 'cache: "true"'))
    environ = {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": options.pop("token", github.token)}
    answer = options.pop("model", None)
    if answer is None:
        return runner.run(project.checkout.path, event, payload, path, **environ, **options)
    with answering(answer) as model:
        environ |= {"ANTHROPIC_BASE_URL": model.base_url, "ANTHROPIC_API_KEY": KEY}
        return runner.run(project.checkout.path, event, payload, path, **environ, **options)


def summary_of(job: Job) -> dict[str, Any]:
    """The summary.json of the only artifact."""
    (artifact,) = job.artifacts.iterdir()
    return json.loads(next(artifact.rglob("summary.json")).read_text())


def test_a_pull_request_that_fails_is_told_why_at_its_lines(runner, swallowing):
    with loopback_github() as github:
        open_pull(github, swallowing)
        job = run_example(runner, swallowing, github, "simple.yml", model=FAILS)
        assert job.code == 1, job.log
        assert "exit status 1" in job.log, job.log
        (comment,) = github.comments
        assert SWALLOWED in comment.body
        (check,) = github.check_runs
        assert check.sent["head_sha"] == swallowing.head
        assert check.sent["conclusion"] == "failure"
        assert [(comment.path, comment.line) for comment in github.review_comments] == [
            ("src/load.py", 4)
        ]
        assert check.annotations == []
        assert job.outputs["verdict"] == "fail"
        assert float(job.outputs["cost-usd"]) > 0
        assert job.outputs["comment-url"].startswith("http")
        assert summary_of(job)["run_id"] == job.outputs["run"]
        assert summary_of(job)["outcome"] == "fail"
        (uploaded,) = job.inputs_of("upload-artifact")
        assert uploaded["include-hidden-files"] == "true"
        assert KEY not in job.log
        assert "\x1b" not in job.log
        assert "✗ src/load.py:4  " in job.log
        assert f"    {SWALLOWED}" in job.log
        assert f"  posted  {job.outputs['comment-url']}" in job.log
        assert job.inputs_of("setup-python") == []
        packages, answers = job.inputs_of("restore")
        assert packages["key"].startswith("vibe-gate-agent-Linux-")
        assert (
            answers["key"].startswith("vibe-gate-answers-")
            and answers["key"] == job.inputs_of("save")[-1]["key"]
        )
        second_job = run_example(runner, swallowing, github, "simple.yml", model=PASSES)
        assert (second_job.code, float(second_job.outputs["cost-usd"])) == (1, 0), (
            "the first job's answer is not paid again"
        )


def test_the_strict_example_comments_at_the_lines_and_hands_sarif_on(runner, swallowing):
    with loopback_github() as github:
        open_pull(github, swallowing)
        job = run_example(runner, swallowing, github, "strict.yml", model=FAILS, cached=True)
        assert job.code == 1, job.log
        assert [(c.path, c.line) for c in github.review_comments] == [("src/load.py", 4)], job.log
    (sarif,) = job.inputs_of("upload-sarif")
    assert sarif["sarif_file"].endswith("vibe-gate.sarif")


def test_without_a_cache_packages_are_fetched_and_an_index_with_other_bytes_installs_nothing(
    runner, swallowing, built, tmp_path
):
    shorten(runner.action / "vibe_gate/faces/action/install/requirements.txt")
    index = wheel(tmp_path / "index", built, b"\0").parent
    with loopback_github() as github:
        variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)}
        job = run_example(runner, swallowing, github, "strict.yml", **variables)
        assert github.writes == 0
    assert job.code == 1, job.log
    assert "The locked packages could not be installed" in job.log
    assert "DO NOT MATCH THE HASHES" in job.log
    assert job.inputs_of("restore") == job.inputs_of("save") == job.inputs_of("upload-sarif") == []


def test_a_fork_is_never_green_and_its_second_workflow_posts_what_the_first_uploaded(
    runner, swallowing
):
    with loopback_github() as github:
        open_pull(github, swallowing, fork=True, author="eve")
        token = "ghs_ofaforkwhichmayonlyread"
        github.tokens[token] = "github-actions[bot]"
        github.read_only.add(token)
        payload = swallowing.event(fork=True)
        first = run_example(
            runner, swallowing, github, "fork-safe-1-review.yml", payload=payload, token=token
        )
        assert first.code != 0, first.log
        assert github.writes == 0
        assert first.outputs["verdict"] in ("inconclusive", "error")
        assert summary_of(first)["exit_code"] == 3

        second = run_posting_example(runner, swallowing, github)
        assert second.code == 0, second.log
        (comment,) = github.comments
        assert "not reviewed" in comment.body.lower() or "inconclusive" in comment.body.lower()
        assert [check.sent["conclusion"] for check in github.check_runs] == ["failure"]
        assert {check.sent["head_sha"] for check in github.check_runs} == {swallowing.head}

        # What a pull request controls may claim a pass; it never makes anything green.
        summary = next(first.artifacts.rglob("summary.json"))
        summary.write_text(
            summary.read_text()
            .replace('"inconclusive"', '"pass"')
            .replace('"exit_code":3', '"exit_code":0')
        )
        forged = run_posting_example(runner, swallowing, github)
        assert forged.code == 0, forged.log
        assert {use["key"][:23] for use in forged.inputs_of("restore")} == {
            "vibe-gate-checks-Linux-"
        }  # of all three jobs
        assert "success" not in [check.sent["conclusion"] for check in github.check_runs]
        (comment,) = github.comments
        assert "NOT REVIEWED" in comment.body
        assert "claims" in comment.body


def test_a_writers_override_in_a_comment_runs_the_gate_again_without_a_checkout_or_a_key(
    runner, tmp_path, environ
):
    project = propose_change(tmp_path, environ, rubric=FORBIDDEN, **{"src/load.py": "# TODO\n"})
    with loopback_github() as github:
        github.permissions.update(bob="write")
        open_pull(github, project)
        assert run_example(runner, project, github, "simple.yml").code == 1
        run = github.add_actions_run(project.head, 1)
        state = read_comment_state(github.comments[0].body)
        override = github.add_comment(
            7, "bob", f"/vibe-gate override {state.findings[0].fingerprint[:8]} known"
        )
        for body, reruns in (("thanks for /vibe-gate", 0), (override.body, 1)):
            payload = events.issue_comment(override.id, body)
            job = run_example(
                runner, project, github, "commands.yml", event="issue_comment", payload=payload
            )
            assert (job.code, run.again) == (0, reruns), job.log
        assert {use["key"][:23] for use in job.inputs_of("restore")} == {"vibe-gate-checks-Linux-"}
        assert len(job.inputs_of("upload-artifact")) == 1  # of the review


def run_posting_example(runner: Runner, project: Project, github: LoopbackGitHub) -> Job:
    """The second workflow of the two, on the default branch, about what the first one uploaded."""
    origin = project.checkout.git("remote", "get-url", "origin")
    place = runner.place / f"default-branch-{len(list(runner.place.iterdir()))}"
    project.checkout.git("clone", "-q", origin, str(place))
    base = Repo(place, runner.environ)
    assert base.git("rev-parse", "HEAD") == project.base
    repository = {"full_name": "octo/hello", "default_branch": "main"}
    run = {
        "id": 1,
        "run_attempt": 1,
        "event": "pull_request",
        "conclusion": "failure",
        "head_sha": project.head,
        "head_branch": "topic",
        "head_repository": {"full_name": "eve/hello"},
        "name": "vibe-gate review",
    }
    payload = {"action": "completed", "workflow_run": run, "repository": repository}
    path = example(base, "fork-safe-2-post.yml")
    environ = {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": github.token}
    return runner.run(base.path, "workflow_run", payload, path, **environ)


def test_nothing_of_the_checkout_runs_in_the_gate(runner, tmp_path, environ):
    mark = tmp_path / "ran"
    python = f"open({str(mark)!r}, 'w')\n"
    project = propose_change(
        tmp_path,
        environ,
        **{
            "sitecustomize.py": python,
            "usercustomize.py": python,
            "vibe_gate/__init__.py": python,
            "vibe_gate/__main__.py": python,
            "pydantic/__init__.py": python,
            "pip.conf": "[global]\nindex-url = http://127.0.0.1:1/\n",
            "pyproject.toml": "[tool.uv]\n",
            "src/load.py": BETTER,
        },
    )
    for name in ("git", "python", "python3", "claude", "node", "sh"):
        script = project.checkout.write(f"bin/{name}", f"#!/bin/sh\n: > {mark}\n")
        script.chmod(0o755)
    workflow = (
        "on: pull_request\npermissions: {}\njobs:\n  gate:\n    runs-on: ubuntu-latest\n    steps:\n"
        f"{CHECKOUT}"
        '      - run: echo "$GITHUB_WORKSPACE/bin" >> "$GITHUB_PATH"\n'
        f"      - uses: {OURS}\n"
        "        env: {PYTHONPATH: ., PYTHONHOME: bin, PYTHONSTARTUP: pip.conf}\n        with:\n"
        "          anthropic-api-key: ${{ secrets.ANTHROPIC_API_KEY }}\n"
    )
    project.checkout.write(".github/workflows/hostile.yml", workflow)
    with loopback_github() as github, answering(PASSES) as model:
        open_pull(github, project)
        environ = {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": github.token}
        environ |= {"ANTHROPIC_BASE_URL": model.base_url, "ANTHROPIC_API_KEY": KEY}
        path = ".github/workflows/hostile.yml"
        job = runner.run(project.checkout.path, "pull_request", project.event(), path, **environ)
    assert not mark.exists(), job.log
    assert job.code == 0, job.log


TESTED = f"""\
{FORBIDDEN}[[criterion]]
id = "tests"
kind = "check"
command = ["python3", "tests/run.py"]
"""

TAKES_OVER = """\
import contextlib, glob, os, sys
taken = []
for pattern in ("/proc/[0-9]*/environ", "/proc/[0-9]*/mem"):
    for name in glob.glob(pattern):
        with contextlib.suppress(OSError):
            content = open(name, "rb").read(100000)
            taken.append(b"VIBE_GATE_INPUT_" in content or b"GITHUB_OUTPUT=" in content)
for root, _, names in os.walk(RUNNER):
    for name in names:
        with contextlib.suppress(OSError):
            open(os.path.join(root, name), "a").write("verdict=pass\\n")
            taken.append(name)
with contextlib.suppress(OSError):
    os.kill(os.getppid(), 9)
    taken.append("launcher")
print("TAKEN", any(taken), len(taken), flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sh", ["sh", "-c", "exec >&- 2>&-; while :; do sleep 600; done", "the-stray"], {})
    os._exit(0)
sys.exit(1 if any(taken) else 0)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not landlock_abi(), reason="this system has no Landlock"
)
def test_tests_of_a_change_get_neither_key_nor_verdict_and_leave_nobody_behind(
    runner, tmp_path, environ
):
    """The base's gate runs the change's own tests; these try to take the gate over."""
    place = f"RUNNER = {str(tmp_path / 'runner')!r}  # with the Action, its environment, GITHUB_OUTPUT\n"
    files = {"src/load.py": "# TODO\n", "tests/run.py": place + TAKES_OVER}
    project = propose_change(tmp_path, environ, rubric=TESTED, **files)
    with loopback_github() as github:
        open_pull(github, project)
        job = run_example(runner, project, github, "simple.yml", model=PASSES)
        (check,) = github.check_runs
    assert check.sent["conclusion"] == "failure"
    assert job.code == 1, job.log
    assert job.outputs["verdict"] == "fail"
    tests = next(
        criterion
        for criterion in summary_of(job)["rubrics"][0]["criteria"]
        if criterion["id"] == "tests"
    )
    assert tests["outcome"] == "pass", tests["reason"]
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(b"the-stray" in command for command in commands)
