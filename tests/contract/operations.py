"""What GitHub does for each operation, with the rules that its description does not tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

from contract.description import Description, Operation
from contract.state import ActionsRun, CheckRun, Comment, Pull, Review, ReviewComment, Shapes

Json = Any

LONGEST_BODY = 65536
"""Characters of a comment's or review's body; more is a 422."""

ANNOTATIONS = 50
"""Annotations in one request."""

NOT_BY_INTEGRATION = "Resource not accessible by integration"
OFF_DIFF = "pull_request_review_thread.line must be part of the diff"
_TOO_LONG = f"body is too long (maximum is {LONGEST_BODY} characters)"
_READS = {
    "admin": "admin",
    "maintain": "write",
    "write": "write",
    "triage": "read",
    "read": "read",
    "none": "none",
}


class Refused(Exception):
    """GitHub's refusal: status, message and the sentences of its `errors`."""

    def __init__(
        self, status: int, message: str, errors: list[Json] | None = None, permissions: str = ""
    ) -> None:
        super().__init__(message)
        self.headers = {"X-Accepted-GitHub-Permissions": permissions} if permissions else {}
        self.status, self.message, self.errors = status, message, errors

    def body(self) -> Json:
        body = {"message": self.message, "documentation_url": "https://docs.github.example/rest"}
        return body if self.errors is None else body | {"errors": self.errors}


@dataclass
class Asked:
    """A request after everything about its form was found right."""

    login: str
    operation: Operation
    query: Mapping[str, str]
    body: Json

    @property
    def app(self) -> bool:
        return self.login.endswith("[bot]")

    def number(self, name: str) -> int:
        return int(self.operation.values[name])


@dataclass
class Answer:
    """What goes back. `pages`: the body is a list to be cut into pages; `inside`: the field that
    holds it.

    `shape` makes what is sent of each item that stands on the page.
    """

    status: int
    body: Json = None
    pages: bool = False
    inside: str = ""
    shape: Callable[[Any], Json] = lambda item: item
    headers: dict[str, str] = field(default_factory=dict)


class Operations:
    """The state, and what each operation makes of it."""

    def __init__(self, description: Description, api: str, repository: str) -> None:
        self.repository = repository
        self.shapes = Shapes(description, api, repository)
        self.pulls: dict[int, Pull] = {}
        self.issues: set[int] = set()
        self.comments: list[Comment] = []
        self.check_runs: list[CheckRun] = []
        self.actions_runs: list[ActionsRun] = []
        self.reviews: list[Review] = []
        self.review_comments: list[ReviewComment] = []
        self.reactions: list[tuple[int, str, str]] = []
        """Number of a comment, login, content."""
        self.permissions: dict[str, str] = {}
        self._moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        self._last_id = 1000
        self.table: dict[tuple[str, str], Callable[[Asked], Answer]] = self._table()

    def _table(self) -> dict[tuple[str, str], Callable[[Asked], Answer]]:
        repo = "/repos/{owner}/{repo}"
        return {
            ("GET", "/user"): self._user,
            ("POST", f"{repo}/check-runs"): self._create_check_run,
            ("GET", f"{repo}/check-runs/{{check_run_id}}"): self._show_check_run,
            ("PATCH", f"{repo}/check-runs/{{check_run_id}}"): self._update_check_run,
            ("GET", f"{repo}/commits/{{ref}}/check-runs"): self._check_runs,
            ("GET", f"{repo}/actions/runs/{{run_id}}"): self._show_actions_run,
            ("POST", f"{repo}/actions/runs/{{run_id}}/rerun"): self._rerun,
            ("PATCH", f"{repo}/issues/comments/{{comment_id}}"): self._edit_comment,
            ("DELETE", f"{repo}/issues/comments/{{comment_id}}"): self._delete_comment,
            ("POST", f"{repo}/issues/comments/{{comment_id}}/reactions"): self._react,
            ("GET", f"{repo}/issues/{{issue_number}}/comments"): self._list_comments,
            ("POST", f"{repo}/issues/{{issue_number}}/comments"): self._create_comment,
            ("GET", f"{repo}/pulls/{{pull_number}}"): lambda asked: Answer(200, self.shapes.pull(self._pull(asked))),
            ("GET", f"{repo}/pulls/{{pull_number}}/comments"): self._list_review_comments,
            ("PATCH", f"{repo}/pulls/comments/{{comment_id}}"): self._edit_review_comment,
            ("GET", f"{repo}/pulls/comments/{{comment_id}}/reactions"): self._list_reactions,
            ("GET", f"{repo}/pulls/{{pull_number}}/commits"): self._commits,
            ("GET", f"{repo}/pulls/{{pull_number}}/reviews"): self._list_reviews,
            ("POST", f"{repo}/pulls/{{pull_number}}/reviews"): self._create_review,
            ("GET", f"{repo}/collaborators/{{username}}/permission"): self._permission,
            ("GET", f"{repo}/commits/{{commit_sha}}/pulls"): self._pulls_of,
        }  # fmt: skip

    def now(self) -> str:
        """The time: a second later at each call."""
        self._moment += timedelta(seconds=1)
        return self._moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    # Who and what

    def _user(self, asked: Asked) -> Answer:
        if asked.app:
            raise Refused(403, NOT_BY_INTEGRATION)
        return Answer(200, self.shapes.user(asked.login, "private-user", user_view_type="private"))

    def _permission(self, asked: Asked) -> Answer:
        login = unquote(asked.operation.values["username"])
        role = self.permissions.get(login)
        if role is None:
            raise Refused(404, f"{login} is not a user")
        user = self.shapes.user(login, "nullable-collaborator", role_name=role)
        return Answer(
            200, {"permission": _READS.get(role, "read"), "role_name": role, "user": user}
        )

    def _pull(self, asked: Asked) -> Pull:
        return self._pull_of(asked.number("pull_number"))

    def _pull_of(self, number: int) -> Pull:
        if number not in self.pulls:
            raise Refused(404, "Not Found")
        return self.pulls[number]

    def _pulls_of(self, asked: Asked) -> Answer:
        sha = asked.operation.values["commit_sha"]
        found = [
            pull
            for pull in self.pulls.values()
            if pull.head_sha == sha or sha in dict(pull.commits)
        ]
        return Answer(
            200, [self.shapes.pull(pull, "pull-request-simple") for pull in found], pages=True
        )

    def _commits(self, asked: Asked) -> Answer:
        pull = self._pull(asked)
        commits = pull.commits or [(pull.head_sha, pull.author)]
        return Answer(200, [self.shapes.commit(*each) for each in commits], pages=True)

    # Check runs

    def _run(self, asked: Asked) -> CheckRun:
        return _found(self.check_runs, asked.number("check_run_id"))

    def _show_check_run(self, asked: Asked) -> Answer:
        return Answer(200, self.shapes.check_run(self._run(asked)))

    def _create_check_run(self, asked: Asked) -> Answer:
        if not asked.app:
            raise Refused(403, "You must authenticate via a GitHub App.")
        run = CheckRun(self.new_id(), asked.login, {})
        self._take(run, asked.body)
        self.check_runs.append(run)
        return Answer(201, self.shapes.check_run(run))

    def _update_check_run(self, asked: Asked) -> Answer:
        run = self._run(asked)
        if asked.login != run.app:
            raise Refused(
                403,
                "Invalid app_id `0` - check run can only be modified by the GitHub App that created it.",
            )
        self._take(run, asked.body)
        return Answer(200, self.shapes.check_run(run))

    def _take(self, run: CheckRun, body: Json) -> None:
        output = dict(body.get("output", {}))
        annotations = output.pop("annotations", [])
        if len(annotations) > ANNOTATIONS:
            raise Refused(422, 'Invalid request.\n\nNo subschema in "anyOf" matched.', [])
        run.sent |= {key: value for key, value in body.items() if key != "output"}
        if body.get("conclusion"):
            run.sent |= {
                "status": "completed",
                "completed_at": body.get("completed_at") or self.now(),
            }
        if "output" in body:
            run.sent["output"] = run.output | output
        run.annotations += annotations

    def _check_runs(self, asked: Asked) -> Answer:
        found = [
            run for run in self.check_runs if run.sent["head_sha"] == asked.operation.values["ref"]
        ]
        if name := asked.query.get("check_name"):
            found = [run for run in found if run.sent["name"] == name]
        if asked.query.get("filter", "latest") == "latest":
            found = list({(run.app, run.sent["name"]): run for run in found}.values())
        return Answer(
            200,
            [self.shapes.check_run(run) for run in reversed(found)],
            pages=True,
            inside="check_runs",
        )

    # Runs of workflows

    def _show_actions_run(self, asked: Asked) -> Answer:
        return Answer(
            200, self.shapes.actions_run(_found(self.actions_runs, asked.number("run_id")))
        )

    def _rerun(self, asked: Asked) -> Answer:
        run = _found(self.actions_runs, asked.number("run_id"))
        if run.status != "completed":
            raise Refused(403, "This workflow is already running")
        run.again += 1
        return Answer(201, {})

    # Comments of the conversation

    def _comment(self, asked: Asked) -> Comment:
        return _found(self.comments, asked.number("comment_id"))

    def _list_comments(self, asked: Asked) -> Answer:
        number = asked.number("issue_number")
        if number not in self.issues:
            self._pull_of(number)
        found = [each for each in self.comments if each.number == number]
        return Answer(200, found, pages=True, shape=self.shapes.comment)

    def _create_comment(self, asked: Asked) -> Answer:
        number = self._pull_of(asked.number("issue_number")).number
        _limit_body("IssueComment", asked.body["body"])
        now = self.now()
        comment = Comment(self.new_id(), number, asked.login, asked.body["body"], now, now)
        self.comments.append(comment)
        return Answer(201, self.shapes.comment(comment))

    def _edit_comment(self, asked: Asked) -> Answer:
        comment = self._comment(asked)
        _own(asked, comment.author)
        _limit_body("IssueComment", asked.body["body"])
        comment.body, comment.updated = asked.body["body"], self.now()
        return Answer(200, self.shapes.comment(comment))

    def _delete_comment(self, asked: Asked) -> Answer:
        comment = self._comment(asked)
        _own(asked, comment.author)
        self.comments.remove(comment)
        return Answer(204)

    def _react(self, asked: Asked) -> Answer:
        reaction = (self._comment(asked).id, asked.login, asked.body["content"])
        known = reaction in self.reactions
        self.reactions += [] if known else [reaction]
        values = {
            "id": self.new_id(),
            "user": self.shapes.user(asked.login),
            "content": reaction[2],
        }
        return Answer(
            200 if known else 201, values | {"node_id": "REA_1", "created_at": self.now()}
        )

    # Reviews and comments at lines

    def _list_reviews(self, asked: Asked) -> Answer:
        number = self._pull(asked).number
        return Answer(
            200,
            [self.shapes.review(each) for each in self.reviews if each.number == number],
            pages=True,
        )

    def _create_review(self, asked: Asked) -> Answer:
        pull, body = self._pull(asked), asked.body
        if not body.get("body"):
            raise Refused(422, "Unprocessable Entity", ["Body can't be blank"])
        _limit_body("PullRequestReview", body["body"])
        for each in body["comments"]:
            self._check_anchor(pull, each)
        commit = body["commit_id"]
        review = Review(
            self.new_id(), pull.number, asked.login, "COMMENTED", commit, body["body"], self.now()
        )
        self.reviews.append(review)
        self.review_comments += [self._review_comment(each, review) for each in body["comments"]]
        return Answer(200, self.shapes.review(review))

    def _list_review_comments(self, asked: Asked) -> Answer:
        number = self._pull(asked).number
        found = [
            self.shapes.review_comment(each)
            for each in self.review_comments
            if each.number == number
        ]
        return Answer(200, found, pages=True)

    def _list_reactions(self, asked: Asked) -> Answer:
        found = _found(self.review_comments, asked.number("comment_id")).reactions
        if content := asked.query.get("content"):
            found = [each for each in found if each.content == content]
        return Answer(200, found, pages=True, shape=self.shapes.reaction)

    def _review_comment(self, sent: Json, review: Review) -> ReviewComment:
        side = sent.get("side", "RIGHT")
        return ReviewComment(
            id=self.new_id(),
            number=review.number,
            author=review.author,
            body=sent["body"],
            path=sent["path"],
            line=sent.get("line"),
            side=side,
            start_line=sent.get("start_line"),
            start_side=sent.get("start_side", side) if "start_line" in sent else None,
            commit=review.commit,
            review=review.id,
            created=self.now(),
        )

    def _edit_review_comment(self, asked: Asked) -> Answer:
        comment = _found(self.review_comments, asked.number("comment_id"))
        _own(asked, comment.author)
        _limit_body("PullRequestReviewComment", asked.body["body"])
        comment.body = asked.body["body"]
        return Answer(200, self.shapes.review_comment(comment))

    def _check_anchor(self, pull: Pull, sent: Json) -> None:
        _limit_body("PullRequestReviewComment", sent["body"])
        path, side = sent["path"], sent.get("side", "RIGHT")
        errors = []
        if path not in {known for known, _, _ in pull.anchors}:
            errors.append("pull_request_review_thread.path is invalid")
        hunk = pull.anchors.get((path, side, sent.get("line")))
        if hunk is None:
            errors.append(OFF_DIFF)
        if "start_line" in sent:
            start = pull.anchors.get((path, sent.get("start_side", side), sent["start_line"]))
            if start is None or start != hunk:
                errors.append(
                    "pull_request_review_thread.start_line must be part of the same hunk as the line."
                )
            if (
                sent["start_line"] >= (sent.get("line") or 0)
                and sent.get("start_side", side) == side
            ):
                errors.append("pull_request_review_thread.start_line must precede the end line.")
        if errors:
            raise Refused(422, "Unprocessable Entity", errors)


def _found(things: list[Any], number: int) -> Any:
    for thing in things:
        if thing.id == number:
            return thing
    raise Refused(404, "Not Found")


def _limit_body(resource: str, body: str) -> None:
    if len(body) > LONGEST_BODY:
        error = {
            "resource": resource,
            "code": "unprocessable",
            "field": "data",
            "message": _TOO_LONG,
        }
        raise Refused(422, "Validation Failed", [error])


def _own(asked: Asked, author: str | None) -> None:
    if asked.login != author:
        raise Refused(
            403, NOT_BY_INTEGRATION if asked.app else "Must have admin rights to Repository."
        )
