"""`/vibe-gate` in a comment: who may ask, what is answered, and what an override is worth to the
gate's own job.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from command import vibe_gate
from contract.github import loopback_github
from contract.state import Comment
from faces import events
from faces.jobs import Project, make_project, todos
from repos import RUBRIC, SWALLOWS, Repo
from test_review import FAILS
from wire import KEY, answering

from vibe_gate.domain.environment import read_environment
from vibe_gate.faces.action.comment_commands import (
    CommentCommand,
    label_in_command,
    parse_comment_command,
)
from vibe_gate.faces.action.job import run_job
from vibe_gate.faces.action.runner import Runner
from vibe_gate.report.comment import read_comment_state
from vibe_gate.store.clone_state import open_state

pytestmark = pytest.mark.usefixtures("quick_agents")

PERMISSION = "/repos/{owner}/{repo}/collaborators/{username}/permission"


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ("/vibe-gate review", CommentCommand("review")),
        ("/vibe-gate  explain\t`3fbdd3e7`\r\nplease", CommentCommand("explain", ("3fbdd3e7",))),
        (
            "/vibe-gate override 3fbd,aa11 it is\n a key",
            CommentCommand("override", ("3fbd", "aa11"), "it is"),
        ),
        ("/vibe-gate", CommentCommand("")),
        ("/vibe-gate override , x", CommentCommand("override", (), "x")),
        ("/vibe-gates review", None),
        ("> /vibe-gate review", None),
        ("see\n/vibe-gate review", None),
        ("", None),
    ],
)
def test_a_command_is_the_first_line_and_nothing_else(body, command):
    assert parse_comment_command(body) == command


@pytest.mark.parametrize(
    ("body", "right"),
    [
        ("right 3fbd", True),
        ("wrong 3fbd the caller checks it", False),
        ("override 3fbd wrong: the caller checks it", None),
        ("explain 3fbd wrong", None),
    ],
)
def test_a_command_says_whether_its_findings_are_right(body, right):
    command = parse_comment_command(f"/vibe-gate {body}")
    assert command is not None and label_in_command(command) is right


@pytest.fixture
def project(project) -> Project:
    project.github.permissions.update(
        bob="write", carol="maintain", eve="read", ada="admin", tim="triage"
    )
    return project


@pytest.fixture
def head(project) -> str:
    """A pull request with two findings, reviewed by run 4711."""
    head = project.branch("topic", **{"src/a.py": todos(1), "src/b.py": todos(1)})
    project.pull(head)
    assert project.review_pull(head).code == 1
    project.github.add_actions_run(head)
    return head


def posted_fingerprints(project: Project) -> list[str]:
    state = read_comment_state(project.ours[0])
    assert state is not None
    return [finding.fingerprint for finding in state.findings]


def run_comment_job(
    project: Project, comment: Comment | None, body: str = "", number: int = 0
) -> str:
    """Run the job of this comment; its log."""
    number = number or (comment.number if comment else 7)
    event = events.issue_comment(
        comment.id if comment else 99, body or (comment.body if comment else ""), number
    )
    log: list[str] = []
    environ = project.job("issue_comment", event)
    code = run_job(
        Runner(read_environment(environ), project.place, lambda: datetime.now(UTC), log.append)
    )
    assert code == 0, "".join(log)
    return "".join(log)


def ask_by_comment(project: Project, author: str, body: str) -> str:
    """Say this, run its job; the answer, "" if there is none."""
    before = len(project.ours)
    run_comment_job(project, project.github.add_comment(7, author, body))
    return project.ours[-1] if len(project.ours) > before else ""


@pytest.mark.slow
def test_a_writers_override_lets_this_commit_pass_while_the_comment_stands(project, head):
    first, second = posted_fingerprints(project)
    override = project.github.add_comment(
        7, "bob", f"/vibe-gate override {first[:8]},{second} a @fixture <b> | gone\nthanks"
    )
    run_comment_job(project, override)
    answer = project.ours[-1]
    assert project.github.reactions == [(override.id, "github-actions[bot]", "eyes")]
    reaction_flags = [
        entry.path.endswith("/reactions") for entry in project.github.log if entry.method == "POST"
    ]
    assert reaction_flags.index(True) == len(reaction_flags) - 3, (
        "before the answer and the new run"
    )
    assert (
        "`@bob` overrides 2 findings at" in answer
        and first[:8] in answer
        and "a `@fixture <b>" in answer
    )
    assert project.github.actions_runs[0].again == 1
    job = project.review_pull(head)
    assert job.code == 0 and re.search(r"no-todo +must  accepted", job.out)
    assert "overridden by `@bob`: a `@fixture <b> |` gone" in project.ours[0]
    assert "Accepted (2)" in project.ours[0] and "Still open" not in project.ours[0]
    assert (
        project.ours[0]
        .splitlines()[1]
        .startswith("### vibe-gate: PASS · 2 findings overridden by `@bob`")
    )
    assert (
        project.github.check_runs[-1]
        .output["title"]
        .startswith("PASS · 2 findings overridden by @bob · rubric ")
    )
    lines = project.github.review_comments
    assert [
        (thread.resolved, "**Accepted** by `@bob`: a `@fixture <b> |` gone" in thread.body)
        for thread in lines
    ] == [(True,) * 2] * 2
    assert (
        project.act("merge_group", events.merge_group(project.main(), head), checkout=head).code
        == 0
    )
    github = project.github
    github.read_only.add(github.token)
    assert project.review_pull(head, fork=True).code == 0, "a fork's token may read all of this"
    github.read_only.clear()
    # Of the runs of this commit the first is run again, which may ask a model; one because of a
    # review asks none.
    reviewed = {"GITHUB_RUN_ID": "4712", "VIBE_GATE_INPUT_JUDGE": "false"}
    assert (
        project.act(
            "pull_request_review", events.pull_request(project.main(), head), **reviewed
        ).code
        == 0
    )
    assert "run 4711" in ask_by_comment(project, "ada", "/vibe-gate review")
    # A look at the comment, its author and the change decides each time.
    project.github.permissions["bob"] = "triage"
    assert project.review_pull(head).code == 1
    assert "does not count: `@bob` has no write access" in project.summary
    assert [(thread.resolved, "Accepted" in thread.body) for thread in lines] == [
        (False, False)
    ] * 2, "the override lapsed"
    project.github.permissions["bob"] = "write"
    project.github.lacking.add("contents=write")
    assert project.review_pull(head).code == 0
    assert [(thread.resolved, "**Accepted** by" in thread.body) for thread in lines] == [
        (False, True)
    ] * 2
    assert (
        "2 threads at lines of the diff. GitHub refused it; the permission `contents: write`"
        in project.summary
    )
    project.github.lacking.clear()
    assert project.review_pull(head).code == 0
    assert [thread.resolved for thread in lines] == [True, True], "the next run tries again"
    project.github.pulls[7].commits = [(head, "Bob")]
    assert project.review_pull(head).code == 1
    assert "is an author of the change" in project.summary
    project.github.pulls[7].commits = []
    override.updated = project.github.now()
    assert project.review_pull(head).code == 1
    assert "was edited or deleted" in project.summary
    override.updated = override.created
    later = project.push("topic", **{"src/b.py": "y = 1\n"})
    project.pull(later)
    assert project.review_pull(later).code == 1


@pytest.mark.slow
def test_who_may_not_ask_gets_a_reaction_that_says_no_and_what_is_no_persons_command_nothing(
    project, head
):
    name = posted_fingerprints(project)[0]
    github, wish = project.github, f"/vibe-gate override {name} fine"
    github.add_pull(8, state="closed")
    github.add_pull(9)
    github.issues.add(10)

    def by(author: str | None, body: str = wish, number: int = 7, **fields: str) -> Comment:
        comment = github.add_comment(number, author, body)
        for field, value in fields.items():
            setattr(comment, field, value)
        return comment

    refused: list[Callable[[], str]] = [
        lambda: run_comment_job(project, by("eve")),
        lambda: run_comment_job(project, by("tim")),
        lambda: run_comment_job(project, by("mallory")),
        lambda: run_comment_job(project, by("bob", number=8)),
        lambda: run_comment_job(project, by("bob", number=10)),
    ]
    ignored: list[Callable[[], str]] = [
        lambda: run_comment_job(project, by(None)),
        lambda: run_comment_job(project, by("helpful[bot]")),
        lambda: run_comment_job(project, by("github-actions[bot]")),
        lambda: run_comment_job(project, by("bob", via="agent[bot]")),
        lambda: run_comment_job(project, by("bob", updated="2027-01-01T00:00:00Z")),
        # Edited within the second.
        lambda: run_comment_job(project, by("bob"), body="/vibe-gate review"),
        lambda: run_comment_job(project, by("bob", "lgtm")),
        lambda: run_comment_job(project, by("bob", number=9), number=7),
        lambda: run_comment_job(project, None),
    ]
    before, bodies = github.writes, list(project.ours)
    for ask in (*refused, *ignored):
        assert "The comment is ignored" in ask()
    assert project.ours == [*bodies, wish]  # its own comment is the forged one
    assert [content for _, _, content in github.reactions] == ["-1"] * len(refused)
    assert (github.writes, github.actions_runs[0].again) == (before + len(refused), 0)
    assert project.review_pull(head).code == 1


@pytest.mark.slow
def test_a_record_without_a_writers_comment_is_worth_nothing(project, head):
    name = posted_fingerprints(project)[0]
    override = project.github.add_comment(7, "eve", f"/vibe-gate override {name} fine")
    for author, comment in (
        ("github-actions[bot]", override.id),
        ("github-actions[bot]", 77),
        ("bob", override.id),
    ):
        project.github.add_comment(
            7, author, f"<!-- vibe-gate:answer {comment} {head} {name} -->\nfine"
        )
    assert project.review_pull(head).code == 1
    assert project.summary.count("does not count") == 1  # what is refused is told once


@pytest.mark.slow
def test_an_answer_says_what_is_wrong_and_records_nothing(project, head):
    name, run = posted_fingerprints(project)[0], project.github.actions_runs[0]
    project.github.pulls[7].fork = True  # whose the head is makes no difference here
    sentences = {
        (
            "ada",
            f"override {name} mine",
        ): "The author of a pull request cannot accept its findings.",
        ("bob", f"override {name}"): "The reason is missing",
        ("bob", "override 0000 x"): "has no finding",
        ("bob", f"override {name},beef x"): "has no finding",
        ("bob", "explain abc"): "has no finding",
        ("bob", "explain"): "has no finding",
        ("bob", "dance"): "There is no command `dance`. Write one of these",
        ("bob", ""): "| `/vibe-gate explain FINDING` | answers with its quoted lines, its votes",
    }
    for (author, words), sentence in sentences.items():
        assert sentence in ask_by_comment(project, author, f"/vibe-gate {words}")
    run.event = "workflow_dispatch"
    assert "is not about" in ask_by_comment(project, "bob", "/vibe-gate review")
    run.event, run.status = "pull_request", "in_progress"
    assert "still running" in ask_by_comment(project, "bob", "/vibe-gate review")
    project.github.fail("GET", "/repos/{owner}/{repo}/actions/runs/{run_id}", 403)
    assert "could not be run again; re-run its job by hand." in ask_by_comment(
        project, "ada", "/vibe-gate review"
    )
    # What the writer saw is not what stands there by now.
    override = project.github.add_comment(7, "bob", f"/vibe-gate override {name} fine")
    project.github.comments[0].updated = project.github.now()
    run_comment_job(project, override)
    assert "changed after yours" in project.ours[-1]
    project.pull(project.push("topic", **{"src/b.py": "y = 1\n"}))
    for words in (f"override {name} fine", "review"):
        assert "has not reviewed" in ask_by_comment(project, "bob", f"/vibe-gate {words}")
    assert run.again == 0
    assert not any(f"{head} {name}" in body for body in project.ours)


@pytest.mark.slow
def test_what_writers_say_of_findings_is_read_at_each_run_and_what_readers_say_is_not(
    project, head
):
    first, second = posted_fingerprints(project)
    github, (line, other) = project.github, project.github.review_comments
    assert "👍 right · 👎 wrong" in line.body
    wrong_comment = github.add_comment(
        7, "bob", f"/vibe-gate wrong {first[:8]} the caller | checks it"
    )
    run_comment_job(project, wrong_comment)
    assert "`@bob` says that 1 finding is wrong: the caller `|` checks it" in project.ours[
        -1
    ].replace("\\", "")
    assert "has no finding" in ask_by_comment(project, "bob", "/vibe-gate right beef")
    run_comment_job(project, github.add_comment(7, "eve", f"/vibe-gate right {first}"))
    assert [content for _, _, content in github.reactions] == ["eyes", "eyes", "-1"]
    assert github.actions_runs[0].again == 0
    for author, comment, content in (
        ("eve", line, "+1"), ("mallory", line, "+1"), ("helpful[bot]", line, "+1"), (None, line, "+1"),
        ("carol", line, "heart"), ("carol", other, "+1"), ("ada", other, "-1"),
    ):  # fmt: skip
        github.add_reaction(comment, author, content)

    def labels() -> list[tuple[str, bool, str, str, str]]:
        """What the next run has of them, in its summary and its shared state."""
        assert project.review_pull(head).code == 1, "no verdict changes"
        summary = json.loads(Path(project.outputs["artifact-path"], "summary.json").read_text())
        stored_labels = open_state(project.checkout / ".git").labels.all()
        assert [(label.finding, label.by) for label in stored_labels] == [
            (label["finding"], label["by"]) for label in summary.get("labels", [])
        ]
        assert {(label.digest, label.criterion) for label in stored_labels} <= {
            (summary["rubrics"][0]["digest"], "no-todo")
        }
        return [
            (label.finding, label.right, label.by, label.source, label.reason)
            for label in stored_labels
        ]

    reason = "the caller | checks it"
    assert labels() == [
        (first, False, "@bob", "command", reason),
        (second, False, "@ada", "reaction", ""),
    ]
    assert "Until now: 0 right, 2 wrong." in project.ours[0]
    other.reactions.pop()
    github.permissions["bob"] = "read"
    assert labels() == [(second, True, "@carol", "reaction", "")]
    github.permissions["bob"] = "write"
    github.add_comment(7, "bob", f"/vibe-gate wrong {second} a format's marker")
    assert project.review_pull(head, VIBE_GATE_INPUT_ARTIFACT="full").code == 1
    archive = Path(project.outputs["artifact-path"], "bundle.tar.xz")
    place = Repo(project.place / "other", project.environ).path
    assert (
        vibe_gate("bundles", "import", str(archive), cwd=place, environ=project.environ).code == 0
    )
    (row,) = vibe_gate("stats", "--json", cwd=place, environ=project.environ).json["criteria"]
    assert (row["criterion"], row["found"], row["right"], row["wrong"]) == ("no-todo", 2, 0, 2)
    later = project.push("topic", **{"src/a.py": "x = 1\n", "src/b.py": "y = 1\n"})
    project.pull(later)
    assert project.review_pull(later).code == 0
    stored_labels = [
        (label.finding, label.right, label.by)
        for label in open_state(project.checkout / ".git").labels.all()
    ]
    assert stored_labels == [(first, False, "@bob"), (second, False, "@bob")], (
        "of findings that are fixed, too"
    )
    github.fail("GET", "/repos/{owner}/{repo}/pulls/comments/{comment_id}/reactions", 403)
    assert project.review_pull(later).code == 0
    assert "What people say of findings could not be read" in project.summary


@pytest.mark.slow
def test_a_finding_is_explained_by_its_quotation_and_votes_and_no_model_is_asked(tmp_path, environ):
    with loopback_github() as github:
        github.permissions["bob"] = "write"
        project = make_project(tmp_path, environ, github, RUBRIC)
        head = project.branch("topic", **{"src/load.py": SWALLOWS})
        project.pull(head)
        with answering(FAILS, repeat_last=True) as model:
            variables = {
                "ANTHROPIC_BASE_URL": model.base_url,
                "VIBE_GATE_INPUT_ANTHROPIC_API_KEY": KEY,
            }
            assert project.review_pull(head, **variables).code == 1
        answer = ask_by_comment(
            project, "bob", f"/vibe-gate explain {posted_fingerprints(project)[0][:6]}"
        )
        assert "src/load.py:4" in answer
        assert "Quoted from the change:" in answer and "except" in answer
        assert (
            "- fail: The error is dropped." in answer and answer.count("The error is dropped.") == 1
        )
        assert f"/vibe-gate override {posted_fingerprints(project)[0][:8]} REASON" in answer
        assert f"/vibe-gate wrong {posted_fingerprints(project)[0][:8]} REASON" in answer
        assert github.actions_runs == []
