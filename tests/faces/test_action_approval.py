"""Whose approving review lets a change of the gate pass, and what stands against it."""

from __future__ import annotations

import re

import pytest
from faces import events
from faces.jobs import Project

from vibe_gate.domain.network import read_network
from vibe_gate.domain.provenance import Commit
from vibe_gate.faces.action.approvals import Approvals
from vibe_gate.faces.action.trigger import read_trigger
from vibe_gate.forge import open_forge

SOFTER = {
    ".vibe-gate/gate.toml": 'schema = 1\nrubrics = ["quality"]\n# softer\n',
    "src/soft.py": "x = 1\n",
}


@pytest.fixture
def project(project) -> Project:
    project.github.permissions.update(bob="write", carol="write", dave="read")
    return project


def propose_softer_gate(project: Project, message: str = "soften") -> str:
    project.origin.git("checkout", "-q", "-B", "topic", "main")
    head = project.origin.commit(message, **SOFTER)
    project.origin.git("checkout", "-q", "main")
    project.pull(head)
    return head


@pytest.mark.slow
def test_approvals_that_do_not_count_are_named_with_their_reason_and_the_one_that_does_is_in_the_headline(
    project,
):
    github = project.github
    github.permissions.update(eve="write", fay="write", gil="write")
    old = propose_softer_gate(project)
    github.add_review(7, "fay", "APPROVED", old)
    assert project.review_pull(old).code == 0
    assert (
        project.ours[0]
        .splitlines()[1]
        .startswith("### vibe-gate: PASS · gate change approved by `@fay`")
    )
    assert not re.search("needs approval|must approve|Approve", project.ours[0])

    project.origin.git("checkout", "-q", "topic")
    head = project.origin.commit(
        "more\n\nCo-authored-by: Bob <583231+bob@users.noreply.github.com>",
        **{"src/more.py": "y = 1\n"},
    )
    project.origin.git("checkout", "-q", "main")
    project.pull(head)
    github.pulls[7].commits = [(old, "eve"), (head, "zoe")]
    for login in ("bob", "dave", "eve"):
        github.add_review(7, login, "APPROVED", head)
    github.add_review(7, "gil", "DISMISSED", head)
    github.add_review(7, "carol", "CHANGES_REQUESTED", head)
    assert project.review_pull(head).code == 4
    opening = project.ours[0].partition("<details>")[0].replace("`", "")
    assert "vibe-gate: NEEDS APPROVAL" in opening
    assert "Fixed" not in project.ours[0]
    assert "5 approvals do not count: " in opening
    for login, reason in {
        "bob": "a co-author",
        "dave": "no write access",
        "eve": "wrote one of the commits",
        "fay": f"of {old[:12]}: needs a new approval",
        "gil": "dismissed",
    }.items():
        assert f"@{login} ({reason})" in opening
    assert "not count: @gil" in opening, "the newest first"
    assert "Changes are requested by @carol." in opening
    assert opening.index("not count") < opening.index("Next:")
    github.permissions["hal"] = "write"
    github.add_review(7, "hal", "DISMISSED", head)
    assert project.review_pull(head).code == 4
    assert re.search(
        r"6 approvals do not count: `@hal` \(dismissed\).* and 1 more\.", project.ours[0]
    )

    github.add_review(7, "carol", "APPROVED", head)
    assert project.review_pull(head).code == 0
    comment = project.ours[0]
    assert comment.splitlines()[1].startswith(
        "### vibe-gate: PASS · gate change approved by `@carol`"
    )
    assert "does not count" not in comment
    assert "Fixed" not in comment
    assert (
        project.act("merge_group", events.merge_group(project.main(), head), checkout=head).code
        == 0
    )


@pytest.mark.slow
def test_whoever_asks_for_changes_and_may_write_stands_against_an_approval(project):
    head = propose_softer_gate(project)
    project.github.add_review(7, "bob", "APPROVED", head)
    project.github.add_review(7, "dave", "CHANGES_REQUESTED", head)
    assert project.review_pull(head).code == 0
    project.github.add_review(7, "carol", "CHANGES_REQUESTED", head)
    assert project.review_pull(head).code == 4
    assert "does not count while @carol asks for changes" in project.summary.replace("`", "")
    project.github.add_review(7, "carol", "APPROVED", head)
    assert project.review_pull(head).code == 0


@pytest.mark.slow
def test_beyond_the_commits_that_github_lists_no_approval_counts(project):
    head = propose_softer_gate(project)
    project.github.pulls[7].commits = [(f"{number:040x}", "zoe") for number in range(1, 251)]
    project.github.add_review(7, "bob", "APPROVED", head)
    assert project.review_pull(head).code == 4
    assert "No approval can count" in project.summary


def read_overrides(
    project: Project, head: str, *requests: tuple[str, str]
) -> tuple[list[str], list[str]]:
    """Who overrides which findings, by comments and their answers: what counts, and the notes about
    what does not.
    """
    for author, finding in requests:
        comment = project.github.add_comment(7, author, f"/vibe-gate override {finding} fine")
        answer = f"<!-- vibe-gate:answer {comment.id} {head} {finding} -->\nfine"
        project.github.add_comment(7, "github-actions[bot]", answer)
    trigger = read_trigger(project.job("pull_request", events.pull_request(project.main(), head)))
    commits = (Commit(head, "Ada", "ada@example.org", "ada@example.org", "topic"),)
    with open_forge(
        project.github.url,
        project.github.token,
        "octo/hello",
        network=read_network(project.environ),
    ) as forge:
        approvals = Approvals(forge, trigger, lambda: commits)
        counting = [waiver.by for waiver in approvals.overrides()]
    return counting, approvals.notes


@pytest.mark.parametrize(
    ("requests", "counting", "notes"),
    [
        (
            [("eve", "a" * 16), ("eve", "a" * 16)],
            [],
            ["aaaaaaaa does not count: @eve has no write access."],
        ),
        ([("eve", "a" * 16), ("bob", "a" * 16)], ["@bob"], []),
        ([("bob", "a" * 16), ("eve", "a" * 16), ("ada", "a" * 16)], ["@bob"], []),
        (
            [("eve", "a" * 16), ("eve", "b" * 16)],
            [],
            ["aaaaaaaa, bbbbbbbb does not count: @eve has no write access."],
        ),
        (
            [("eve", "a" * 16), ("bob", "b" * 16)],
            ["@bob"],
            ["aaaaaaaa does not count: @eve has no write access."],
        ),
        (
            [("ada", "a" * 16), ("eve", "a" * 16)],
            [],
            ["aaaaaaaa does not count: @ada is an author of the change."],
        ),
    ],
)
def test_refused_overrides_are_told_once_and_not_beside_the_one_that_counts(
    project, requests, counting, notes
):
    project.github.permissions.update(bob="write", ada="write", eve="read")
    head = project.branch("topic", **{"src/a.py": "y = 1\n"})
    project.pull(head)
    expected = (counting, [f"The override of {note}" for note in notes])
    assert read_overrides(project, head, *requests) == expected
