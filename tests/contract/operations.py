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
class CheckedRequest:
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
        self.table: dict[tuple[str, str], Callable[[CheckedRequest], Answer]] = self._table()

    def _table(self) -> dict[tuple[str, str], Callable[[CheckedRequest], Answer]]:
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
            ("GET", f"{repo}/pulls/{{pull_number}}"): lambda request: Answer(200, self.shapes.pull(self._pull(request))),
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

    def _user(self, request: CheckedRequest) -> Answer:
        if request.app:
            raise Refused(403, NOT_BY_INTEGRATION)
        return Answer(
            200, self.shapes.user(request.login, "private-user", user_view_type="private")
        )

    def _permission(self, request: CheckedRequest) -> Answer:
        login = unquote(request.operation.values["username"])
        role = self.permissions.get(login)
        if role is None:
            raise Refused(404, f"{login} is not a user")
        user = self.shapes.user(login, "nullable-collaborator", role_name=role)
        return Answer(
            200, {"permission": _READS.get(role, "read"), "role_name": role, "user": user}
        )

    def _pull(self, request: CheckedRequest) -> Pull:
        return self._pull_of(request.number("pull_number"))

    def _pull_of(self, number: int) -> Pull:
        if number not in self.pulls:
            raise Refused(404, "Not Found")
        return self.pulls[number]

    def _pulls_of(self, request: CheckedRequest) -> Answer:
        sha = request.operation.values["commit_sha"]
        pulls = [
            pull
            for pull in self.pulls.values()
            if pull.head_sha == sha or sha in dict(pull.commits)
        ]
        return Answer(
            200, [self.shapes.pull(pull, "pull-request-simple") for pull in pulls], pages=True
        )

    def _commits(self, request: CheckedRequest) -> Answer:
        pull = self._pull(request)
        commits = pull.commits or [(pull.head_sha, pull.author)]
        return Answer(200, [self.shapes.commit(*commit) for commit in commits], pages=True)

    # Check runs

    def _run(self, request: CheckedRequest) -> CheckRun:
        return _find_by_id(self.check_runs, request.number("check_run_id"))

    def _show_check_run(self, request: CheckedRequest) -> Answer:
        return Answer(200, self.shapes.check_run(self._run(request)))

    def _create_check_run(self, request: CheckedRequest) -> Answer:
        if not request.app:
            raise Refused(403, "You must authenticate via a GitHub App.")
        run = CheckRun(self.new_id(), request.login, {})
        self._take(run, request.body)
        self.check_runs.append(run)
        return Answer(201, self.shapes.check_run(run))

    def _update_check_run(self, request: CheckedRequest) -> Answer:
        run = self._run(request)
        if request.login != run.app:
            raise Refused(
                403,
                "Invalid app_id `0` - check run can only be modified by the GitHub App that created it.",
            )
        self._take(run, request.body)
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

    def _check_runs(self, request: CheckedRequest) -> Answer:
        runs = [
            run
            for run in self.check_runs
            if run.sent["head_sha"] == request.operation.values["ref"]
        ]
        if name := request.query.get("check_name"):
            runs = [run for run in runs if run.sent["name"] == name]
        if request.query.get("filter", "latest") == "latest":
            runs = list({(run.app, run.sent["name"]): run for run in runs}.values())
        return Answer(
            200,
            [self.shapes.check_run(run) for run in reversed(runs)],
            pages=True,
            inside="check_runs",
        )

    # Runs of workflows

    def _show_actions_run(self, request: CheckedRequest) -> Answer:
        return Answer(
            200, self.shapes.actions_run(_find_by_id(self.actions_runs, request.number("run_id")))
        )

    def _rerun(self, request: CheckedRequest) -> Answer:
        run = _find_by_id(self.actions_runs, request.number("run_id"))
        if run.status != "completed":
            raise Refused(403, "This workflow is already running")
        run.again += 1
        return Answer(201, {})

    # Comments of the conversation

    def _comment(self, request: CheckedRequest) -> Comment:
        return _find_by_id(self.comments, request.number("comment_id"))

    def _list_comments(self, request: CheckedRequest) -> Answer:
        number = request.number("issue_number")
        if number not in self.issues:
            self._pull_of(number)
        comments = [comment for comment in self.comments if comment.number == number]
        return Answer(200, comments, pages=True, shape=self.shapes.comment)

    def _create_comment(self, request: CheckedRequest) -> Answer:
        number = self._pull_of(request.number("issue_number")).number
        _limit_body("IssueComment", request.body["body"])
        now = self.now()
        comment = Comment(self.new_id(), number, request.login, request.body["body"], now, now)
        self.comments.append(comment)
        return Answer(201, self.shapes.comment(comment))

    def _edit_comment(self, request: CheckedRequest) -> Answer:
        comment = self._comment(request)
        _refuse_foreign_author(request, comment.author)
        _limit_body("IssueComment", request.body["body"])
        comment.body, comment.updated = request.body["body"], self.now()
        return Answer(200, self.shapes.comment(comment))

    def _delete_comment(self, request: CheckedRequest) -> Answer:
        comment = self._comment(request)
        _refuse_foreign_author(request, comment.author)
        self.comments.remove(comment)
        return Answer(204)

    def _react(self, request: CheckedRequest) -> Answer:
        reaction = (self._comment(request).id, request.login, request.body["content"])
        is_repeated = reaction in self.reactions
        self.reactions += [] if is_repeated else [reaction]
        values = {
            "id": self.new_id(),
            "user": self.shapes.user(request.login),
            "content": reaction[2],
        }
        return Answer(
            200 if is_repeated else 201, values | {"node_id": "REA_1", "created_at": self.now()}
        )

    # Reviews and comments at lines

    def _list_reviews(self, request: CheckedRequest) -> Answer:
        number = self._pull(request).number
        return Answer(
            200,
            [self.shapes.review(review) for review in self.reviews if review.number == number],
            pages=True,
        )

    def _create_review(self, request: CheckedRequest) -> Answer:
        pull, body = self._pull(request), request.body
        if not body.get("body"):
            raise Refused(422, "Unprocessable Entity", ["Body can't be blank"])
        _limit_body("PullRequestReview", body["body"])
        for comment in body["comments"]:
            self._check_anchor(pull, comment)
        commit = body["commit_id"]
        review = Review(
            self.new_id(), pull.number, request.login, "COMMENTED", commit, body["body"], self.now()
        )
        self.reviews.append(review)
        self.review_comments += [
            self._review_comment(comment, review) for comment in body["comments"]
        ]
        return Answer(200, self.shapes.review(review))

    def _list_review_comments(self, request: CheckedRequest) -> Answer:
        number = self._pull(request).number
        comments = [
            self.shapes.review_comment(comment)
            for comment in self.review_comments
            if comment.number == number
        ]
        return Answer(200, comments, pages=True)

    def _list_reactions(self, request: CheckedRequest) -> Answer:
        reactions = _find_by_id(self.review_comments, request.number("comment_id")).reactions
        if content := request.query.get("content"):
            reactions = [reaction for reaction in reactions if reaction.content == content]
        return Answer(200, reactions, pages=True, shape=self.shapes.reaction)

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

    def _edit_review_comment(self, request: CheckedRequest) -> Answer:
        comment = _find_by_id(self.review_comments, request.number("comment_id"))
        _refuse_foreign_author(request, comment.author)
        _limit_body("PullRequestReviewComment", request.body["body"])
        comment.body = request.body["body"]
        return Answer(200, self.shapes.review_comment(comment))

    def _check_anchor(self, pull: Pull, sent: Json) -> None:
        _limit_body("PullRequestReviewComment", sent["body"])
        path, side = sent["path"], sent.get("side", "RIGHT")
        errors = []
        if path not in {anchored_path for anchored_path, _, _ in pull.anchors}:
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


def _find_by_id(things: list[Any], number: int) -> Any:
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


def _refuse_foreign_author(request: CheckedRequest, author: str | None) -> None:
    if request.login != author:
        raise Refused(
            403, NOT_BY_INTEGRATION if request.app else "Must have admin rights to Repository."
        )
