"""What stands on a repository's pull requests, and what we put there. See docs/decisions/0009."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Self
from urllib.parse import quote

from github3.models import GitHubCore
from github3.repos.commit import ShortCommit
from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.escape import show_text
from vibe_gate.domain.network import NetworkSettings
from vibe_gate.errors import ForgeError, UsageError
from vibe_gate.forge import shapes
from vibe_gate.forge.addressed import (
    CheckRunAt,
    IssueAt,
    IssueCommentAt,
    PullRequestAt,
    RepositoryAt,
    ReviewCommentAt,
)
from vibe_gate.forge.payloads import CheckRun, LineComment, Reaction
from vibe_gate.forge.rest import MAX_PAGES, RestClient
from vibe_gate.forge.shapes import (
    BOT,
    THUMBS,
    ActionsRun,
    Approval,
    CheckRecord,
    Comment,
    Issue,
    Json,
    Pull,
    PullCommit,
    PullReview,
    Thumb,
    at,
    list_of,
    text_at,
    text_or_empty,
)

ANNOTATIONS_PER_REQUEST = 50
"""Checks API; more go in follow-up updates, which append."""

COMMENT_WAITS_S = (1.0, 3.0, 9.0)
"""Before each further try to comment, after no answer or a 5xx."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*/(?!\.{1,2}\Z)[A-Za-z0-9._-]+\Z")
_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_VIEWER = "query { viewer { login } }"
_THREADS = """query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) {
    reviewThreads(first: 100, after: $after) {
      pageInfo { hasNextPage endCursor } nodes { id isResolved comments(first: 1) { nodes { databaseId } } }
    }
  } }
}"""
_SET_RESOLVED = {
    True: """mutation($thread: ID!) {
  resolveReviewThread(input: {threadId: $thread}) { thread { isResolved } }
}""",
    False: """mutation($thread: ID!) {
  unresolveReviewThread(input: {threadId: $thread}) { thread { isResolved } }
}""",
}
_CLOSED = """query($owner: String!, $name: String!, $number: Int!, $first: Int!) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) {
    closingIssuesReferences(first: $first) { nodes { number title body repository { nameWithOwner } } }
  } }
}"""
_REVIEW_BODY = "<!-- vibe-gate -->"  # a review without a vote needs a text


class BegunCheckRun(Struct, frozen=True):
    """A check run in progress, by its number; the job that began it completes it."""

    id: int
    url: str


class PostedCheckRun(Struct, frozen=True):
    """A check run that stands, with its conclusion."""

    url: str
    missing: int = 0
    """How many annotations could not be sent."""
    reason: str = ""
    """Why they could not."""


def open_forge(
    api_url: str,
    token: str,
    repository: str,
    *,
    network: NetworkSettings,
    pause: Callable[[float], None] = time.sleep,
) -> Forge:
    """A repository ("owner/name") on GitHub, or on GitHub Enterprise Server (https://HOST/api/v3).

    Sends nothing yet. `pause` waits that many seconds.
    UsageError.
    """
    if not _REPOSITORY.match(repository):
        raise UsageError("A repository on GitHub is named owner/name.")
    return Forge(RestClient(api_url, token, network=network, pause=pause), repository)


class Forge:
    """One repository, seen and written to with one token. Every refusal is a ForgeError."""

    def __init__(self, client: RestClient, repository: str) -> None:
        self._rest = client
        self._repository = repository
        self._root = f"/repos/{repository}"
        self._login: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._rest.close()

    # Who we are

    def login(self) -> str:
        """Whose the token is; "" if GitHub does not tell.

        An app's ends in "[bot]", which no person's can.
        """
        if self._login is None:
            try:
                self._login = text_at(
                    self._rest.get("/user", "find out whose the token is"), "login"
                )
            except ForgeError as error:
                if error.status not in {403, 404}:
                    raise
                self._login = self._app_login()
        return self._login

    def _app_login(self) -> str:
        """An app's own login. REST has no answer for an app's token; GraphQL does."""
        try:
            answer = self._rest.query(_VIEWER, {}, "find out whose the token is")
            login = text_at(answer, "data", "viewer", "login")
        except ForgeError:
            return ""  # a proxy or an old server may refuse GraphQL
        # A person may have the name that an app has without its end.
        return login if login.endswith(BOT) else ""

    # What stands there

    def pull(self, number: int) -> Pull:
        """One pull request."""
        answer = self._rest.get(f"{self._root}/pulls/{number:d}", f"read pull request {number}")
        return shapes.pull_of(answer)

    def pull_if_any(self, number: int) -> Pull | None:
        """The pull request of that number; None if there is none, or if it is an issue's."""
        try:
            return self.pull(number)
        except ForgeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None

    def pulls_of(self, commit: str) -> tuple[Pull, ...]:
        """The pull requests that a commit is part of, closed ones too."""
        path = f"{self._root}/commits/{_full_commit_id(commit)}/pulls"
        pulls = self._rest.items(path, "look for the commit's pull requests")
        return tuple(map(shapes.pull_of, pulls))

    def listed(self, number: int) -> tuple[PullCommit, ...]:
        """A pull request's commits, oldest first, and whose GitHub takes them for; it lists 250."""
        path, doing = (
            f"{self._root}/pulls/{number:d}/commits",
            f"read the commits of pull request {number}",
        )
        commits = self._rest.items(path, doing, item_class=ShortCommit)
        return tuple(map(shapes.pull_commit_of, commits))

    def closed_issues(self, number: int, most: int) -> tuple[Issue, ...]:
        """The issues of this repository among the first `most` that a pull request closes when
        merged.

        GitHub knows them by closing words in its text, and by people who linked them. One request.
        """
        variables = self._pull_variables(number) | {"first": most}
        answer = self._rest.query(
            _CLOSED, variables, f"read the issues that pull request {number} closes"
        )
        closing = at(
            answer, "data", "repository", "pullRequest", "closingIssuesReferences", "nodes"
        )
        issues = []
        for node in list_of(closing):
            owner_and_name = text_or_empty(node, "repository", "nameWithOwner")
            if owner_and_name.casefold() == self._repository.casefold():
                issues.append(shapes.issue_of(node))
        return tuple(issues)

    def comments(self, number: int) -> Iterator[Comment]:
        """The conversation of a pull request, oldest first."""
        login, path = self.login(), f"{self._root}/issues/{number:d}/comments"
        for comment in self._rest.items(path, f"read the comments of pull request {number}"):
            yield shapes.comment_of(comment, login)

    def review_comments(self, number: int) -> Iterator[Comment]:
        """The comments at lines of a pull request, oldest first."""
        login, path = self.login(), f"{self._root}/pulls/{number:d}/comments"
        for comment in self._rest.items(path, f"read the review comments of pull request {number}"):
            yield shapes.comment_of(comment, login)

    def thumbs(self, comment_id: int) -> tuple[Thumb, ...]:
        """The thumbs at a comment at a line, oldest first."""
        path = f"{self._root}/pulls/comments/{comment_id:d}/reactions"
        reactions = self._rest.items(path, "read the reactions to a comment")
        return tuple(shapes.thumb_of(item) for item in reactions if at(item, "content") in THUMBS)

    def approvals(
        self,
        number: int,
        head_sha: str,
        *,
        authors: Mapping[str, str] = {},
        accounts: Mapping[int, str] = {},
    ) -> tuple[Approval, ...]:
        """Who approves, and why that does not count.

        It must be of exactly this commit, by a person with write access. `authors` and `accounts`,
        by login and by id, are the change's; each with a part, as "wrote one of the commits".
        """
        parts = {self.pull(number).author: "opened the pull request", **authors}
        approvals = []
        for review in self._last_reviews(number):
            if review.state not in ("APPROVED", "DISMISSED"):
                continue
            approval = Approval(review.login, shapes.flaw(review, head_sha, parts, accounts))
            if not approval.flaw and not self.may_write(review.login, review.account):
                approval = replace(approval, flaw="no write access")
            approvals.append(approval)
        return tuple(approvals)

    def objections(self, number: int) -> tuple[str, ...]:
        """Logins of the people with write access who ask for changes and did not take it back."""
        logins = []
        for review in self._last_reviews(number):
            objects = review.state == "CHANGES_REQUESTED" and review.person
            if objects and self.may_write(review.login, review.account):
                logins.append(review.login)
        return tuple(logins)

    def _last_reviews(self, number: int) -> list[PullReview]:
        path, doing = (
            f"{self._root}/pulls/{number:d}/reviews",
            f"read the reviews of pull request {number}",
        )
        return shapes.last_reviews(self._rest.items(path, doing))

    def may_write(self, login: str, account: int) -> bool:
        """Whether this account, by its login and its number, has write access."""
        path = f"{self._root}/collaborators/{quote(login, safe='')}/permission"
        try:
            answer = self._rest.get(path, f"read what {show_text(login)} may do")
        except ForgeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return False
        return shapes.may_write(answer, account)

    def actions_run(self, run_id: int) -> ActionsRun:
        """One run of a workflow."""
        answer = self._rest.get(f"{self._root}/actions/runs/{run_id:d}", "look for the gate's run")
        return shapes.run_of(answer)

    def rerun(self, run_id: int) -> None:
        """Run a workflow again, with the event that it ran for. Refused while it runs."""
        self._rest.post(f"{self._root}/actions/runs/{run_id:d}/rerun", None, "run the gate again")

    # The one comment

    def sticky(self, number: int, marker: str) -> Comment | None:
        """The oldest comment that the token's account wrote and that begins with the marker."""
        for comment in self.comments(number):
            if comment.ours and comment.body.startswith(marker):
                return comment
        return None

    def put_comment(self, number: int, body: str, *, marker: str) -> Comment:
        """Make our comment say this: edit it, create it if there is none, leave it if it says so
        already.

        It is looked for before each try, so what took effect without an answer is not made twice.
        """
        if not body.startswith(marker):
            raise ValueError("a comment of ours begins with its marker")
        for seconds in (*COMMENT_WAITS_S, math.inf):
            comment = self.sticky(number, marker)
            if comment is not None:
                return self._edit_comment(comment, body)
            try:
                return self._create_comment(number, body, marker)
            except ForgeError as error:
                refused = 0 < error.status < HTTPStatus.INTERNAL_SERVER_ERROR
                if refused or not self._rest.wait_after_failure(seconds):
                    raise
        raise AssertionError("the last wait is longer than any budget")

    def _edit_comment(self, comment: Comment, body: str) -> Comment:
        if _same_body(comment.body, body):
            return comment
        url = self._address(f"/issues/comments/{comment.id:d}")
        issue_comment = IssueCommentAt(url, self._rest.repeating)
        with self._rest.errors_of("change vibe-gate's comment"):
            issue_comment.edit(_utf8(body))
        return shapes.comment_of(issue_comment.as_dict(), self.login())

    def _create_comment(self, number: int, body: str, marker: str) -> Comment:
        self._refuse_a_second(number, marker)
        issue = IssueAt(self._address(f"/issues/{number:d}"), self._rest.once)
        with self._rest.errors_of(f"comment on pull request {number}"):
            answer = _created(issue.create_comment(_utf8(body)))
        comment = shapes.comment_of(answer, self.login())
        oldest = self.sticky(number, marker)
        if oldest is None or oldest.id >= comment.id:
            return comment
        # Another job commented in the same moment: the older comment stays, and says this.
        second = IssueCommentAt(self._address(f"/issues/comments/{comment.id:d}"), self._rest.once)
        with self._rest.errors_of("take back a second comment of vibe-gate's"):
            second.delete()
        return self._edit_comment(oldest, body)

    def _refuse_a_second(self, number: int, marker: str) -> None:
        """If our login is not known, an app's comment with our marker may be ours."""
        if self.login():
            return
        for comment in self.comments(number):
            if comment.body.startswith(marker) and comment.author.endswith(BOT):
                raise ForgeError(
                    "GitHub does not say whose the token is, and an app's comment has vibe-gate's marker: "
                    "it may be ours, so it is left as it is and no second one is made.",
                    HTTPStatus.CONFLICT,
                )

    def react(self, comment_id: int, content: Reaction) -> None:
        """Put a reaction on a comment of the conversation; a second one of the same kind changes
        nothing.
        """
        path = f"{self._root}/issues/comments/{comment_id:d}/reactions"
        self._rest.post(path, {"content": content}, "react to a comment")

    # Check runs and reviews: sent once, as GitHub keeps what took effect without an answer

    def begin_check_run(
        self,
        head_sha: str,
        name: str,
        title: str,
        summary: str,
        *,
        record: str = "",
        details_url: str = "",
    ) -> BegunCheckRun:
        """A check run in progress on a commit, for `check_run` to complete; until then it keeps
        `record`.
        """
        output = {"title": title, "summary": summary}
        fields: Json = {"status": "in_progress", "external_id": record, "output": output}
        answer = self._create_check_run(head_sha, name, details_url, fields, "begin a check run")
        return BegunCheckRun(shapes.number_at(answer, "id"), text_at(answer, "html_url"))

    def check_run(
        self,
        head_sha: str,
        name: str,
        run: CheckRun,
        *,
        details_url: str = "",
        begun: BegunCheckRun | None = None,
    ) -> PostedCheckRun:
        """A completed check run on a commit: the one that was `begun`, else a new one.

        Annotations that are refused do not keep its conclusion back.
        """
        annotations = [annotation.json() for annotation in run.annotations]
        conclusion = _conclusion(run)
        if begun is not None:
            missing, reason = self._conclude(begun.id, annotations, conclusion)
            return PostedCheckRun(begun.url, missing, reason)
        create = partial(
            self._create_check_run, head_sha, name, details_url, doing="create a check run"
        )
        first_annotations = annotations[:ANNOTATIONS_PER_REQUEST]
        later_annotations = annotations[ANNOTATIONS_PER_REQUEST:]
        fields = conclusion
        if later_annotations:
            fields = {"status": "in_progress", "output": conclusion["output"]}
        try:
            answer = create(_with(fields, first_annotations))
        except ForgeError as error:
            if error.status != HTTPStatus.UNPROCESSABLE_ENTITY or not annotations:
                raise
            answer = create(conclusion)
            return PostedCheckRun(text_at(answer, "html_url"), len(annotations), str(error))
        if not later_annotations:
            return PostedCheckRun(text_at(answer, "html_url"), 0, "")
        run_id = shapes.number_at(answer, "id")
        missing, reason = self._conclude(run_id, later_annotations, conclusion)
        return PostedCheckRun(text_at(answer, "html_url"), missing, reason)

    def check_records(self, head_sha: str, name: str) -> tuple[CheckRecord, ...]:
        """What our app's check runs of this name on a commit keep for later runs, the newest
        first.
        """
        app = self.login().removesuffix(BOT)
        runs = self._rest.items(
            f"{self._root}/commits/{_full_commit_id(head_sha)}/check-runs",
            "read the check runs of the commit",
            parameters={"filter": "all", "check_name": name},
            list_key="check_runs",
        )
        records = []
        for run in runs:
            if app and at(run, "app", "slug") == app:
                records.append(shapes.check_record_of(run))
        return tuple(sorted(records, key=lambda record: -record.id))

    def _create_check_run(
        self, head_sha: str, name: str, details_url: str, fields: Json, doing: str
    ) -> Json:
        repository = RepositoryAt(self._address(""), self._rest.once)
        with self._rest.errors_of(doing):
            run = repository.create_check_run(
                name, _full_commit_id(head_sha), details_url=details_url or None, **_utf8(fields)
            )
            return _created(run)

    def _conclude(self, run_id: int, annotations: list[Json], conclusion: Json) -> tuple[int, str]:
        """Append annotations, and conclude: how many may be missing, and why.

        A batch is never sent twice, as updates append; a check run without a conclusion would say
        nothing at all.
        """
        address = self._address(f"/check-runs/{run_id:d}")
        for start in range(0, len(annotations), ANNOTATIONS_PER_REQUEST):
            batch = annotations[start : start + ANNOTATIONS_PER_REQUEST]
            is_last = start + len(batch) == len(annotations)
            fields = conclusion if is_last else {"output": conclusion["output"]}
            try:
                with self._rest.errors_of("update the check run"):
                    CheckRunAt(address, self._rest.once).update(**_utf8(_with(fields, batch)))
            except ForgeError as error:
                self._conclude(run_id, [], conclusion)
                return len(annotations) - start, str(error)
        if not annotations:
            with self._rest.errors_of("update the check run"):
                CheckRunAt(address, self._rest.repeating).update(**_utf8(conclusion))
        return 0, ""

    def review(self, number: int, head_sha: str, comments: Sequence[LineComment]) -> str:
        """One review with comments at lines, without a vote; its address.

        One anchor outside the diff refuses all of it (422).
        """
        pull = PullRequestAt(self._address(f"/pulls/{number:d}"), self._rest.once)
        payloads = _utf8([comment.json() for comment in comments])
        with self._rest.errors_of(f"review pull request {number}"):
            answer = _created(
                pull.create_review(_REVIEW_BODY, _full_commit_id(head_sha), "COMMENT", payloads)
            )
        return text_at(answer, "html_url")

    def edit_review_comment(self, comment_id: int, body: str) -> None:
        """Change one of our comments at lines."""
        comment = ReviewCommentAt(
            self._address(f"/pulls/comments/{comment_id:d}"), self._rest.repeating
        )
        with self._rest.errors_of("change a review comment"):
            comment.edit(_utf8(body))

    def set_threads(self, number: int, resolved: Mapping[int, bool]) -> None:
        """Resolve or reopen the threads that begin with these comments; those that are so are left.

        GitHub allows it to a token with `contents: write`, and names no permission in its refusal.
        """
        doing = "resolve or reopen a thread"
        variables = self._pull_variables(number) | {"after": None}
        for _ in range(MAX_PAGES):
            answer = self._rest.query(_THREADS, variables, doing)
            threads = at(answer, "data", "repository", "pullRequest", "reviewThreads")
            for thread in list_of(at(threads, "nodes")):
                comments = list_of(at(thread, "comments", "nodes"))
                if not comments:
                    continue
                target = resolved.get(at(comments[0], "databaseId"))
                if target is not None and at(thread, "isResolved") is not target:
                    mutation = _SET_RESOLVED[target]
                    self._rest.query(mutation, {"thread": text_at(thread, "id")}, doing)
            if at(threads, "pageInfo", "hasNextPage") is not True:
                return
            variables["after"] = text_at(threads, "pageInfo", "endCursor")

    def _pull_variables(self, number: int) -> Json:
        owner, _, name = self._repository.partition("/")
        return {"owner": owner, "name": name, "number": number}

    def _address(self, path: str) -> Json:
        """What github3's objects know of themselves: the address below the repository's."""
        return {"url": self._rest.url(self._root + path)}


def _conclusion(run: CheckRun) -> Json:
    """What completes a check run, but for its annotations."""
    output = {"title": run.title, "summary": run.summary}
    if run.text:
        output["text"] = run.text
    conclusion: Json = {"status": "completed", "conclusion": run.conclusion, "output": output}
    if run.record:
        conclusion["external_id"] = run.record
    return conclusion


def _with(fields: Json, annotations: list[Json]) -> Json:
    if not annotations:
        return fields
    return fields | {"output": fields["output"] | {"annotations": annotations}}


def _created(answer: GitHubCore | None) -> Json:
    """The JSON of what github3 created. TypeError if GitHub answered without any."""
    if answer is None:
        raise TypeError("GitHub answered with an empty object")
    return answer.as_dict()


def _utf8(value: Json) -> Json:
    """The value with "?" for what is no text: names of files may hold bytes, and JSON may not."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _full_commit_id(sha: str) -> str:
    if not _COMMIT.match(sha):
        raise UsageError("A commit is named by its full id here.")
    return sha


def _same_body(stored: str, body: str) -> bool:
    # GitHub keeps a body as it was sent, but for line endings and blanks at the end in some places.
    return stored.replace("\r\n", "\n").rstrip() == body.replace("\r\n", "\n").rstrip()
