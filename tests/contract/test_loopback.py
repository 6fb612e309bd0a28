"""The loopback GitHub itself: what it keeps, what it refuses, what it calls a violation."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import requests

from contract.description import Description
from contract.github import LoopbackGitHub, loopback_github

DIFF = """diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1,3 +1,4 @@
 one
-two
+TWO
+more
 three
"""
SHA = "a" * 40


class Client:
    """One token's way of asking."""

    def __init__(self, github: LoopbackGitHub, token: str) -> None:
        self._root = github.url
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"token {token}"

    def __call__(self, method: str, path: str, body: object = None) -> requests.Response:
        url = (
            path
            if path.startswith("http")
            else self._root + path.replace("REPO", "/repos/octo/hello")
        )
        return self._session.request(method, url, json=body, timeout=5)


@pytest.fixture
def github() -> Iterator[LoopbackGitHub]:
    with loopback_github() as github:
        github.add_pull(7, diff=DIFF)
        yield github


def annotation(line: int = 1) -> dict[str, object]:
    return {
        "path": "a.py",
        "start_line": line,
        "end_line": line,
        "annotation_level": "warning",
        "message": "m",
    }


@pytest.mark.slow
def test_every_reading_operation_answers_within_the_description(github: LoopbackGitHub) -> None:
    ask = Client(github, github.token)
    github.permissions["eve"] = "maintain"
    github.add_review(7, "eve")
    github.add_review(7, None, "COMMENTED")
    github.add_review_comment(7, None, "old", line=None)
    github.add_comment(7, None, "gone")
    pull, commit = "REPO/pulls/7", f"REPO/commits/{SHA}"
    paths = [pull, *(f"{pull}/{name}" for name in ("commits", "reviews", "comments"))]
    paths += ["REPO/issues/7/comments", f"{commit}/pulls", f"{commit}/check-runs"]
    for path in [*paths, "REPO/collaborators/eve/permission"]:
        assert ask("GET", path).status_code == 200, path
    assert ask("GET", "REPO/collaborators/eve/permission").json()["permission"] == "write"
    assert ask("GET", "REPO/collaborators/nobody/permission").status_code == 404
    assert Client(github, github.person("ada"))("GET", "/user").json()["login"] == "ada"
    assert Client(github, "none")("GET", "/user").status_code == 401
    assert github.writes == 0


@pytest.mark.parametrize(
    ("query", "variables"),
    [
        ("query { viewer { email } }", {}),
        ("query { viewer }", {}),
        ("mutation($t: ID!) { resolveReviewThread(input: {thread: $t}) { thread { isResolved } } }", {"t": "T_1"}),
        ("mutation($t: ID!) { resolveReviewThread(input: {threadId: $t}) { thread { id } } }", {}),
        ('query { repository(owner: "octo", name: "hello") { pullRequest(number: "7") { reviewThreads(first: 1) '
         "{ totalCount } } } }", {}),
        ('query { repository(owner: "octo", name: "hello") { pullRequest(number: 7) { reviewThreads '
         "{ totalCount } } } }", {}),
    ],
)  # fmt: skip
def test_graphql_that_githubs_schema_does_not_know_is_a_violation(
    github: LoopbackGitHub, query, variables
) -> None:
    answer = Client(github, github.token)(
        "POST", "/graphql", {"query": query, "variables": variables}
    ).json()
    assert "errors" in answer
    assert len(github.violations) == 1
    github.violations.clear()


RUN = {"name": "gate", "head_sha": SHA, "status": "completed", "conclusion": "failure"}
WRONG = [
    ("POST", "REPO/issues/7/comments", {"body": "x", "colour": "red"}, "unknown field"),
    ("POST", "REPO/issues/7/comments", {"text": "x"}, "required"),
    ("POST", "REPO/issues/7/comments", {"body": 5}, "not of type"),
    ("POST", "REPO/check-runs", RUN | {"conclusion": "maybe"}, "conclusion"),
    (
        "POST",
        "REPO/check-runs",
        RUN | {"output": {"title": "t", "summary": "x" * 65536}},
        "summary",
    ),
    ("GET", "REPO/issues/7/comments?colour=red", None, "unknown query parameter"),
    ("GET", "REPO/stargazers", None, "no such operation"),
]


@pytest.mark.parametrize(("method", "path", "body", "word"), WRONG)
def test_what_the_description_does_not_know_is_a_violation(
    github, method, path, body, word
) -> None:
    assert Client(github, github.token)(method, path, body).status_code in (404, 422)
    assert word in github.violations[0]
    assert (github.comments, github.check_runs) == ([], [])
    github.violations.clear()


def test_unknown_fields_are_found_below_conditions_lists_and_answers() -> None:
    description = Description()
    path = "/repos/octo/hello/check-runs/5"
    update = description.operation("PATCH", path)
    assert update is not None
    output = {"title": "t", "summary": "s", "annotations": [annotation() | {"colour": "red"}]}
    sent = {"status": "completed", "conclusion": "success", "verdict": "pass", "output": output}
    flaws = description.flaws_of_request(update, path, {}, json.dumps(sent).encode())
    assert sorted(flaws) == [
        "unknown field .output.annotations[0].colour",
        "unknown field .verdict",
    ]
    answer = description.filled("check-run", {"id": 5}) | {"status": "completed"}
    assert description.flaws_of_response(update, path, 200, answer) == []
    assert description.flaws_of_response(update, path, 200, answer | {"id": "5"}) != []
    assert description.flaws_of_response(update, path, 200, {"id": 5}) != []
    user = description.operation("GET", "/user")
    assert user is not None
    mine = description.filled("private-user", {"login": "ada", "user_view_type": "private"})
    assert description.flaws_of_response(user, "/user", 200, mine) == []
    assert description.flaws_of_response(user, "/user", 200, mine | {"shoe_size": 43}) != []


def test_leaving_the_block_raises_what_broke_the_description() -> None:
    with pytest.raises(AssertionError, match="unknown field"), loopback_github() as github:
        github.add_pull(7)
        Client(github, github.token)(
            "POST", "REPO/issues/7/comments", {"body": "x", "colour": "red"}
        )
