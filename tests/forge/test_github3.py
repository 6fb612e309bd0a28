"""What github3 cannot read: where this changes, a row of the table in docs/decisions/0009 does."""

from __future__ import annotations

import pytest
from contract.github import LoopbackGitHub
from github3.checks import CheckRun
from github3.issues.comment import IssueComment
from github3.pulls import PullReview, ReviewComment, ShortPullRequest

from vibe_gate.domain.network import read_network
from vibe_gate.forge.rest import RestClient

GONE = r"'NoneType' object is not subscriptable"
RENDERED = {"body_html": "", "body_text": ""}
UNDESCRIBED = {"active_lock_reason": None, "assignees": []}  # optional in GitHub's description


@pytest.fixture
def client(github: LoopbackGitHub) -> RestClient:
    return RestClient(github.url, github.token, network=read_network({}))


@pytest.mark.parametrize(
    ("github3_class", "path"),
    [
        (IssueComment, "/issues/7/comments"),
        (ReviewComment, "/pulls/7/comments"),
        (PullReview, "/pulls/7/reviews"),
    ],
)
def test_an_account_that_is_gone_is_more_than_its_object_bears(
    github: LoopbackGitHub, client: RestClient, github3_class: type, path: str
) -> None:
    github.add_comment(7, None, "gone")
    github.add_review(7, None)
    github.add_review_comment(7, None, "gone")
    [answer] = client.items(f"/repos/octo/hello{path}", "read a list")
    with pytest.raises(TypeError, match=GONE):
        github3_class(answer | RENDERED, client.once)


def test_a_pull_request_whose_author_is_gone_is_more_than_its_object_bears(
    github: LoopbackGitHub, client: RestClient
) -> None:
    github.add_pull(8, author=None)
    answer = client.get("/repos/octo/hello/pulls/8", "read a pull request")
    with pytest.raises(TypeError, match=GONE):
        ShortPullRequest(answer | RENDERED | UNDESCRIBED, client.once)


def test_a_check_run_whose_app_is_gone_is_more_than_its_object_bears(
    github: LoopbackGitHub, client: RestClient
) -> None:
    body = {"name": "gate", "head_sha": "a" * 40}
    answer = client.post("/repos/octo/hello/check-runs", body, "create a check run")
    assert CheckRun(dict(answer), client.once).name == "gate"
    with pytest.raises(TypeError, match=GONE):
        CheckRun(answer | {"app": None}, client.once)
