"""What stands on a repository's pull requests, and what we put there. See docs/decisions/0009."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Self
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.escape import show_text
from vibe_gate.errors import ForgeError, UsageError
from vibe_gate.forge import shapes
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

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*/(?!\.{1,2}\Z)[A-Za-z0-9._-]+\Z")
_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_VIEWER = "query { viewer { login } }"
_THREADS = """query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) { reviewThreads(first: 100, after: $after) {
    pageInfo { hasNextPage endCursor } nodes { id isResolved comments(first: 1) { nodes { databaseId } } }
  } } }
}"""
_SET_RESOLVED = {
    True: "mutation($thread: ID!) { resolveReviewThread(input: {threadId: $thread}) { thread { isResolved } } }",
    False: "mutation($thread: ID!) { unresolveReviewThread(input: {threadId: $thread}) { thread { isResolved } } }",
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
    """A check run that stands, with its conclusion. `missing` annotations could not be sent; `reason` says why."""

    url: str
    missing: int = 0
    reason: str = ""


def open_forge(
    api_url: str,
    token: str,
    repository: str,
    *,
    environ: Mapping[str, str],
    pause: Callable[[float], None] = time.sleep,
) -> Forge:
    """A repository ("owner/name") on GitHub, or on GitHub Enterprise Server (https://HOST/api/v3). Asks nothing yet.

    `environ` has proxies and certificates; `pause` waits that many seconds. UsageError.
    """
    if not _REPOSITORY.match(repository):
        raise UsageError("A repository on GitHub is named owner/name.")
    return Forge(RestClient(api_url, token, environ=environ, pause=pause), repository)


class Forge:
    """One repository, seen and written to with one token. Every refusal is a ForgeError."""

    def __init__(self, rest: RestClient, repository: str) -> None:
        self._rest = rest
        self._root = f"/repos/{repository}"
        self._login: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._rest.close()

    # Who we are

    def login(self) -> str:
        """Whose the token is; "" if GitHub does not tell. An app's ends in "[bot]", which no person's can."""
        if self._login is None:
            try:
                self._login = text_at(self._rest.get("/user", "find out whose the token is"), "login")
            except ForgeError as error:
                if error.status not in {403, 404}:
                    raise
                self._login = self._viewer()
        return self._login

    def _viewer(self) -> str:
        """An app's own login. REST has no answer for an app's token; GraphQL does."""
        try:
            answer = self._graphql(_VIEWER, {}, "find out whose the token is")
            login = text_at(answer, "data", "viewer", "login")
        except ForgeError:
            return ""  # a proxy or an old server may refuse GraphQL
        return login if login.endswith(BOT) else ""  # a person may have the name that an app has without its end

    def _graphql(self, query: str, variables: Json, doing: str) -> Json:
        url = self._rest.api_url
        address = (url.removesuffix("/v3") if url.endswith("/api/v3") else url) + "/graphql"
        answer = self._rest.ask(address, {"query": query, "variables": variables}, doing)
        errors = at(answer, "errors")
        if isinstance(errors, list) and errors:
            kind, message = at(errors[0], "type"), text_or_empty(errors[0], "message")
            status = HTTPStatus.FORBIDDEN if kind == "FORBIDDEN" else HTTPStatus.UNPROCESSABLE_ENTITY
            raise ForgeError(f"GitHub refused to {doing}: {show_text(message[:200])}.", status)
        return answer

    # What is there

    def pull(self, number: int) -> Pull:
        """One pull request."""
        return shapes.pull_of(self._rest.get(f"{self._root}/pulls/{number:d}", f"read pull request {number}"))

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
        path = f"/commits/{_commit(commit)}/pulls"
        return tuple(map(shapes.pull_of, self._each(path, "look for the commit's pull requests")))

    def listed(self, number: int) -> tuple[PullCommit, ...]:
        """A pull request's commits, oldest first, and whose GitHub takes them for; it lists 250 of them."""
        doing = f"read the commits of pull request {number}"
        return tuple(map(shapes.pull_commit_of, self._each(f"/pulls/{number:d}/commits", doing)))

    def closed_issues(self, number: int, most: int) -> tuple[Issue, ...]:
        """The issues of this repository that a pull request closes when it is merged, of the first so many.

        GitHub knows them by closing words in its text, and by people who linked them. One request.
        """
        owner, _, name = self._root.removeprefix("/repos/").partition("/")
        variables = {"owner": owner, "name": name, "number": number, "first": most}
        answer = self._graphql(_CLOSED, variables, f"read the issues that pull request {number} closes")
        found = list_of(at(answer, "data", "repository", "pullRequest", "closingIssuesReferences", "nodes"))
        own = f"{owner}/{name}".casefold()
        return tuple(
            shapes.issue_of(each)
            for each in found
            if text_or_empty(each, "repository", "nameWithOwner").casefold() == own
        )

    def comments(self, number: int) -> Iterator[Comment]:
        """The conversation of a pull request, oldest first."""
        own, doing = self.login(), f"read the comments of pull request {number}"
        return (shapes.comment_of(each, own) for each in self._each(f"/issues/{number:d}/comments", doing))

    def review_comments(self, number: int) -> Iterator[Comment]:
        """The comments at lines of a pull request, oldest first."""
        own, doing = self.login(), f"read the review comments of pull request {number}"
        return (shapes.comment_of(each, own) for each in self._each(f"/pulls/{number:d}/comments", doing))

    def thumbs(self, comment_id: int) -> tuple[Thumb, ...]:
        """The thumbs at a comment at a line, oldest first."""
        path, doing = f"/pulls/comments/{comment_id:d}/reactions", "read the reactions to a comment"
        return tuple(shapes.thumb_of(each) for each in self._each(path, doing) if at(each, "content") in THUMBS)

    def _each(self, path: str, doing: str) -> Iterator[Json]:
        """The items of a list, page by page."""
        return (each for page in self._rest.pages(self._root + path, doing) for each in list_of(page))

    def approvals(
        self, number: int, head_sha: str, *, authors: Mapping[str, str] = {}, accounts: Mapping[int, str] = {}
    ) -> tuple[Approval, ...]:
        """Who approves, and why that does not count: it must be of exactly this commit, by a person with write access.

        `authors` and `accounts`, by login and by id, are the change's; each with a part, as "wrote one of the commits".
        """
        everybody = {self.pull(number).author: "opened the pull request", **authors}
        found = [each for each in self._last_words(number) if each.state in ("APPROVED", "DISMISSED")]
        approvals = [Approval(each.login, shapes.flaw(each, head_sha, everybody, accounts)) for each in found]
        return tuple(
            approval
            if approval.flaw or self.may_write(each.login, each.account)
            else replace(approval, flaw="no write access")
            for each, approval in zip(found, approvals, strict=True)
        )

    def objections(self, number: int) -> tuple[str, ...]:
        """Logins of the people with write access who ask for changes, of whatever commit, until they take it back."""
        found = [each for each in self._last_words(number) if each.state == "CHANGES_REQUESTED" and each.person]
        return tuple(review.login for review in found if self.may_write(review.login, review.account))

    def _last_words(self, number: int) -> list[PullReview]:
        doing = f"read the reviews of pull request {number}"
        return shapes.last_words(self._each(f"/pulls/{number:d}/reviews", doing))

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
        return shapes.run_of(self._rest.get(f"{self._root}/actions/runs/{run_id:d}", "look for the gate's run"))

    def rerun(self, run_id: int) -> None:
        """Run a workflow again, with the event that it ran for. Refused while it runs."""
        self._rest.send("POST", f"{self._root}/actions/runs/{run_id:d}/rerun", None, "run the gate again")

    # The one comment

    def sticky(self, number: int, marker: str) -> Comment | None:
        """Our comment: by the token's account, with a body that begins with the marker. The oldest of several."""
        return next((each for each in self.comments(number) if each.ours and each.body.startswith(marker)), None)

    def put_comment(self, number: int, body: str, *, marker: str) -> Comment:
        """Make our comment say this: update it, create it if there is none, leave it if it says so already.

        It is looked for before each try, so what took effect without an answer is not made twice.
        """
        if not body.startswith(marker):
            raise ValueError("a comment of ours begins with its marker")
        return self._rest.again(f"comment on pull request {number}", lambda: self._put_comment(number, body, marker))

    def _put_comment(self, number: int, body: str, marker: str) -> Comment:
        comment = self.sticky(number, marker)
        if comment is not None and _same(comment.body, body):
            return comment
        if comment is not None:
            path = f"{self._root}/issues/comments/{comment.id:d}"
            answer = self._rest.send("PATCH", path, {"body": body}, "change vibe-gate's comment")
            return shapes.comment_of(answer, self.login())
        self._refuse_a_second(number, marker)
        path, doing = f"{self._root}/issues/{number:d}/comments", f"comment on pull request {number}"
        made = shapes.comment_of(self._rest.send("POST", path, {"body": body}, doing), self.login())
        first = self.sticky(number, marker)
        if first is None or first.id >= made.id:
            return made
        # Another job made one in the same moment: the older one stays, and says this.
        self._rest.drop(f"{self._root}/issues/comments/{made.id:d}", "take back a second comment of vibe-gate's")
        return self._put_comment(number, body, marker)

    def _refuse_a_second(self, number: int, marker: str) -> None:
        """If our login is not known, an app's comment with our marker may be ours: then none is created."""
        if self.login():
            return
        for each in self.comments(number):
            if each.body.startswith(marker) and each.author.endswith(BOT):
                raise ForgeError(
                    "GitHub does not say whose the token is, and an app's comment has vibe-gate's marker: "
                    "it may be ours, so it is left as it is and no second one is made.",
                    HTTPStatus.CONFLICT,
                )

    def react(self, comment_id: int, content: Reaction) -> None:
        """Put a reaction on a comment of the conversation; a second one of the same kind changes nothing."""
        path = f"{self._root}/issues/comments/{comment_id:d}/reactions"
        self._rest.send("POST", path, {"content": content}, "react to a comment")

    # Check runs and reviews: sent once, as GitHub keeps what took effect without an answer

    def begin_check_run(
        self, head_sha: str, name: str, title: str, summary: str, *, record: str = "", details_url: str = ""
    ) -> BegunCheckRun:
        """A check run in progress on a commit, for `check_run` to complete; until then it keeps `record`."""
        about = _about(head_sha, name, details_url) | {"status": "in_progress", "external_id": record}
        output = {"title": title, "summary": summary}
        made = self._rest.send("POST", f"{self._root}/check-runs", about | {"output": output}, "begin a check run")
        return BegunCheckRun(shapes.number_at(made, "id"), text_at(made, "html_url"))

    def check_run(
        self, head_sha: str, name: str, run: CheckRun, *, details_url: str = "", begun: BegunCheckRun | None = None
    ) -> PostedCheckRun:
        """A completed check run on a commit: the one that was `begun`, else a new one.

        Annotations that are refused do not keep its conclusion back.
        """
        each = [one.json() for one in run.annotations]
        first, rest = each[:ANNOTATIONS_PER_REQUEST], each[ANNOTATIONS_PER_REQUEST:]
        output: Json = {"title": run.title, "summary": run.summary} | ({"text": run.text} if run.text else {})
        done: Json = {"status": "completed", "conclusion": run.conclusion, "output": output}
        done |= {"external_id": run.record} if run.record else {}
        path, doing = f"{self._root}/check-runs", "create a check run"
        if begun is not None:
            missing, reason = self._append(f"{path}/{begun.id:d}", each, done)
            return PostedCheckRun(begun.url, missing, reason)
        about = _about(head_sha, name, details_url)
        open_or_done: Json = {"status": "in_progress", "output": output} if rest else done
        try:
            made = self._rest.send("POST", path, about | open_or_done | _with(output, first), doing)
        except ForgeError as error:
            if error.status != HTTPStatus.UNPROCESSABLE_ENTITY or not each:
                raise
            made = self._rest.send("POST", path, about | done, doing)
            return PostedCheckRun(text_at(made, "html_url"), len(each), str(error))
        missing, reason = self._append(f"{path}/{shapes.number_at(made, 'id'):d}", rest, done) if rest else (0, "")
        return PostedCheckRun(text_at(made, "html_url"), missing, reason)

    def check_records(self, head_sha: str, name: str) -> tuple[CheckRecord, ...]:
        """What the check runs of this name on a commit keep for later runs, the newest first; only our app's."""
        app = self.login().removesuffix(BOT)
        path, doing = f"{self._root}/commits/{_commit(head_sha)}/check-runs", "read the check runs of the commit"
        pages = self._rest.pages(f"{path}?filter=all&check_name={quote(name, safe='')}", doing)
        runs = [each for page in pages for each in list_of(at(page, "check_runs"))]
        own = [shapes.check_record_of(each) for each in runs if app and at(each, "app", "slug") == app]
        return tuple(sorted(own, key=lambda each: -each.id))

    def _append(self, path: str, left: list[Json], done: Json) -> tuple[int, str]:
        """Append the other annotations, and conclude: how many may be missing, and why.

        A batch is never sent twice, as updates append; a check run without a conclusion would say nothing at all.
        """
        doing = "update the check run"
        if not left:
            self._rest.again(doing, lambda: self._rest.send("PATCH", path, done, doing))
        while left:
            batch, after = left[:ANNOTATIONS_PER_REQUEST], left[ANNOTATIONS_PER_REQUEST:]
            try:
                self._rest.send("PATCH", path, ({} if after else done) | _with(done["output"], batch), doing)
            except ForgeError as error:
                self._rest.again(doing, lambda: self._rest.send("PATCH", path, done, doing))
                return len(left), str(error)
            left = after
        return 0, ""

    def review(self, number: int, head_sha: str, comments: Sequence[LineComment]) -> str:
        """One review with comments at lines, without a vote; its address. One bad anchor refuses all of it (422)."""
        said = {
            "commit_id": _commit(head_sha),
            "event": "COMMENT",
            "body": _REVIEW_BODY,
            "comments": [one.json() for one in comments],
        }
        made = self._rest.send("POST", f"{self._root}/pulls/{number:d}/reviews", said, f"review pull request {number}")
        return text_at(made, "html_url")

    def edit_review_comment(self, comment_id: int, body: str) -> None:
        """Change one of our comments at lines."""
        path, doing = f"{self._root}/pulls/comments/{comment_id:d}", "change a review comment"
        self._rest.again(doing, lambda: self._rest.send("PATCH", path, {"body": body}, doing))

    def set_threads(self, number: int, resolved: Mapping[int, bool]) -> None:
        """Resolve or reopen the threads that begin with these comments at lines; those that are so already are left.

        GitHub allows it to a token with `contents: write`, and names no permission in its refusal.
        """
        doing, after = "resolve or reopen a thread", None
        owner, _, name = self._root.removeprefix("/repos/").partition("/")
        for _ in range(MAX_PAGES):
            variables = {"owner": owner, "name": name, "number": number, "after": after}
            answer = self._graphql(_THREADS, variables, doing)
            threads = at(answer, "data", "repository", "pullRequest", "reviewThreads")
            for thread in list_of(at(threads, "nodes")):
                first = list_of(at(thread, "comments", "nodes"))[:1]
                wanted = resolved.get(at(first[0], "databaseId")) if first else None
                if wanted is not None and at(thread, "isResolved") is not wanted:
                    self._graphql(_SET_RESOLVED[wanted], {"thread": text_at(thread, "id")}, doing)
            if at(threads, "pageInfo", "hasNextPage") is not True:
                return
            after = text_at(threads, "pageInfo", "endCursor")


def _about(head_sha: str, name: str, details_url: str) -> Json:
    return {"name": name, "head_sha": _commit(head_sha)} | ({"details_url": details_url} if details_url else {})


def _commit(sha: str) -> str:
    if not _COMMIT.match(sha):
        raise UsageError("A commit is named by its full id here.")
    return sha


def _same(stored: str, body: str) -> bool:
    # GitHub keeps a body as it was sent, but for line endings and blanks at the end in some places.
    return stored.replace("\r\n", "\n").rstrip() == body.replace("\r\n", "\n").rstrip()


def _with(output: Json, annotations: list[Json]) -> Json:
    return {"output": output | ({"annotations": annotations} if annotations else {})}
