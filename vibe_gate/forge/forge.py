"""What stands on a repository's pull requests, and what we put there. See docs/decisions/0009."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import quote

from vibe_gate.domain.escape import show_text
from vibe_gate.errors import ForgeError, UsageError
from vibe_gate.forge import approving
from vibe_gate.forge.payloads import CheckRun, LineComment
from vibe_gate.forge.rest import RestClient
from vibe_gate.forge.shapes import (
    BOT,
    Approval,
    Comment,
    Pull,
    PullCommit,
    ReviewComment,
    at,
    comment_of,
    list_of,
    number_at,
    pull_commit_of,
    pull_of,
    review_comment_of,
    text_at,
)

Json = Any

ANNOTATIONS_PER_REQUEST = 50
"""Checks API; more go in follow-up updates, which append."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*/(?!\.{1,2}\Z)[A-Za-z0-9._-]+\Z")
_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_VIEWER = {"query": "query { viewer { login } }"}


@dataclass(frozen=True, slots=True)
class PostedCheckRun:
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
        self.writes = 0
        """Comments, check runs and reviews that were made or changed."""
        self._rest = rest
        self._root = f"/repos/{repository}"
        self._login: str | None = None
        self._stickies: dict[tuple[int, str], Comment] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._rest.close()

    # Who we are

    def login(self) -> str:
        """Whose the token is; "" where GitHub does not tell. An app's ends in "[bot]", which no person's can."""
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
            answer = self._rest.ask(self._graphql, _VIEWER, "find out whose the token is")
            login = text_at(answer, "data", "viewer", "login")
        except ForgeError:
            return ""  # a proxy or an old server may refuse GraphQL; what we write tells as well
        return login if login.endswith(BOT) else ""  # a person may have the name that an app has without its end

    @property
    def _graphql(self) -> str:
        url = self._rest.api_url
        return url.removesuffix("/v3") + "/graphql" if url.endswith("/api/v3") else url + "/graphql"

    # What is there

    def pull(self, number: int) -> Pull:
        """One pull request."""
        return pull_of(self._rest.get(f"{self._root}/pulls/{number:d}", f"read pull request {number}"))

    def pulls_of(self, commit: str) -> tuple[Pull, ...]:
        """The pull requests that a commit is part of, closed ones too."""
        path, doing = f"{self._root}/commits/{_commit(commit)}/pulls", "look for the commit's pull requests"
        return tuple(pull_of(each) for page in self._rest.pages(path, doing) for each in list_of(page))

    def listed(self, number: int) -> tuple[PullCommit, ...]:
        """A pull request's commits, oldest first, and whose GitHub takes them for; it lists 250 of them."""
        path, doing = f"{self._root}/pulls/{number:d}/commits", f"read the commits of pull request {number}"
        return tuple(pull_commit_of(each) for page in self._rest.pages(path, doing) for each in list_of(page))

    def comments(self, number: int) -> Iterator[Comment]:
        """The conversation of a pull request, oldest first."""
        own = self.login()
        for page in self._rest.pages(f"{self._root}/issues/{number:d}/comments", _reading(number)):
            yield from (comment_of(each, own) for each in list_of(page))

    def review_comments(self, number: int) -> Iterator[ReviewComment]:
        """The comments at lines of a pull request, oldest first."""
        own, doing = self.login(), f"read the review comments of pull request {number}"
        for page in self._rest.pages(f"{self._root}/pulls/{number:d}/comments", doing):
            yield from (review_comment_of(each, own) for each in list_of(page))

    def approvals(
        self, number: int, head_sha: str, *, authors: Collection[str] = (), accounts: Collection[int] = ()
    ) -> tuple[Approval, ...]:
        """Who approves of exactly this commit and may: people with write access who are none of its authors."""
        author = self.pull(number).author
        found = approving.approving(self._standing(number), head_sha, {author, *authors} - {""}, accounts)
        allowed = ((each, self._permission(each)) for each in found)
        return tuple(
            Approval(review.login, review.commit, review.submitted_at, permission)
            for review, permission in allowed
            if permission
        )

    def objections(self, number: int) -> tuple[str, ...]:
        """Logins of the people with write access who ask for changes, and have not approved since."""
        found = approving.objecting(self._standing(number))
        return tuple(review.login for review in found if self._permission(review))

    def _standing(self, number: int) -> list[approving.PullReview]:
        doing = f"read the reviews of pull request {number}"
        pages = self._rest.pages(f"{self._root}/pulls/{number:d}/reviews", doing)
        return approving.standing([each for page in pages for each in list_of(page)])

    def _permission(self, review: approving.PullReview) -> str:
        """What a reviewer may do here, where that is at least to write; "" otherwise."""
        path = f"{self._root}/collaborators/{quote(review.login, safe='')}/permission"
        try:
            answer = self._rest.get(path, f"read what {show_text(review.login)} may do")
        except ForgeError as error:
            if error.status != 404:
                raise
            return ""
        return approving.permission(answer, review)

    # The one comment

    def sticky(self, number: int, marker: str) -> Comment | None:
        """Our comment: by the token's account, with a body that begins with the marker. The oldest of several."""
        found = next((each for each in self.comments(number) if each.ours and each.body.startswith(marker)), None)
        if found is not None:
            self._stickies[number, marker] = found
        return found

    def put_comment(self, number: int, body: str, *, marker: str) -> Comment:
        """Let our comment say this: changed where it stands, made where there is none, left where it says so."""
        if not body.startswith(marker):
            raise ValueError("a comment of ours begins with its marker")
        for _ in range(2):
            comment = self._stickies.pop((number, marker), None) or self.sticky(number, marker)
            if comment is None:
                break
            if _same(comment.body, body):
                return comment
            try:
                return self._edit_comment(comment, body)
            except ForgeError as error:
                if error.status != 404:  # gone since we looked: look once more
                    raise
        self._refuse_a_second(number, marker)
        return self._only(number, marker, self._make_comment(number, body))

    def _only(self, number: int, marker: str, made: Comment) -> Comment:
        """What was made; where another job made one in the same moment, the older one says it and ours goes."""
        try:
            first = self.sticky(number, marker)
        except ForgeError:
            return made  # it stands; the next run finds the oldest
        if first is None or first.id >= made.id:
            return made
        self._rest.drop(f"{self._root}/issues/comments/{made.id:d}", "take a second comment of vibe-gate's back")
        self.writes += 1
        return first if _same(first.body, made.body) else self._edit_comment(first, made.body)

    def _edit_comment(self, comment: Comment, body: str) -> Comment:
        path = f"{self._root}/issues/comments/{comment.id:d}"
        answer = self._rest.put("PATCH", path, {"body": body}, "change vibe-gate's comment")
        self.writes += 1
        return comment_of(answer, self.login())

    def _make_comment(self, number: int, body: str) -> Comment:
        def landed() -> Json:
            path = f"{self._root}/issues/{number:d}/comments"
            for page in self._rest.pages(path, _reading(number)):
                for each in list_of(page):
                    comment = comment_of(each, self.login())
                    ours = comment.ours or (not self.login() and comment.author.endswith(BOT))
                    if ours and _same(comment.body, body):
                        return each
            return None

        path = f"{self._root}/issues/{number:d}/comments"
        answer = self._make(path, {"body": body}, f"comment on pull request {number}", landed)
        author = text_at(answer, "user", "login")
        self._login = self._login or author
        return comment_of(answer, author)

    def _refuse_a_second(self, number: int, marker: str) -> None:
        """Where nobody knows who we are, a comment of an app with our marker may be ours: then none is made."""
        if self.login():
            return
        for each in self.comments(number):
            if each.body.startswith(marker) and each.author.endswith(BOT):
                raise ForgeError(
                    "GitHub does not say whose the token is, and an app's comment has vibe-gate's marker: "
                    "it may be ours, so it is left as it is and no second one is made."
                )

    # Check runs

    def check_run(self, head_sha: str, name: str, run: CheckRun, *, details_url: str = "") -> PostedCheckRun:
        """A completed check run on a commit. Annotations that are refused do not keep its conclusion back."""
        each = [one.json() for one in run.annotations]
        batches = [
            each[start : start + ANNOTATIONS_PER_REQUEST] for start in range(0, len(each), ANNOTATIONS_PER_REQUEST)
        ]
        output: Json = {"title": run.title, "summary": run.summary} | ({"text": run.text} if run.text else {})
        done: Json = {"status": "completed", "conclusion": run.conclusion, "output": output}
        about: Json = {"name": name, "head_sha": _commit(head_sha), "external_id": secrets.token_hex(16)}
        about |= {"details_url": details_url} if details_url else {}
        open_: Json = done if len(batches) < 2 else {"status": "in_progress", "output": output}
        try:
            made = self._make_check_run(about | open_ | _with(output, batches[:1]))
        except ForgeError as error:
            if error.status != HTTPStatus.UNPROCESSABLE_ENTITY or not each:
                raise
            return PostedCheckRun(_page(self._make_check_run(about | done)), len(each), str(error))
        sent, reason = self._add(number_at(made, "id"), batches, done)
        return PostedCheckRun(_page(made), len(each) - sent, reason)

    def _add(self, number: int, batches: list[list[Json]], done: Json) -> tuple[int, str]:
        """Append all batches but the first, and conclude: how many annotations stand, and why not all."""
        output, sent = done["output"], len(batches[0]) if batches else 0
        for batch in batches[1:]:
            last = batch is batches[-1]
            try:
                self._append(number, sent, (done if last else {}) | _with(output, [batch]), len(batch))
            except ForgeError as error:
                self._append(number, sent, done, 0)
                return sent, str(error)
            sent += len(batch)
        return sent, ""

    def _make_check_run(self, body: Json) -> Json:
        def landed() -> Json:
            path = f"{self._root}/commits/{body['head_sha']}/check-runs"
            for page in self._rest.pages(path, "read the commit's check runs", check_name=body["name"], filter="all"):
                for each in list_of(page, "check_runs"):
                    if at(each, "external_id") == body["external_id"]:
                        return each
            return None

        made = self._make(f"{self._root}/check-runs", body, "create a check run", landed)
        slug = at(made, "app", "slug")
        if self._login == "" and isinstance(slug, str):
            self._login = slug + BOT  # only an app's own token creates its check runs
        return made

    def _append(self, number: int, before: int, body: Json, more: int) -> None:
        """Send an update with `more` annotations to a check run that has `before`. Never twice: updates append."""
        path, doing = f"{self._root}/check-runs/{number:d}", "update the check run"

        def landed() -> Json:
            now = self._rest.get(path, "read the check run")
            whole = number_at(now, "output", "annotations_count") >= before + more
            return now if whole and at(now, "conclusion") == body.get("conclusion") else None

        self._once(doing, lambda: self._rest.send("PATCH", path, body, doing), landed)

    # Reviews

    def review(self, number: int, head_sha: str, body: str, comments: Sequence[LineComment]) -> str:
        """One review with comments at lines, without a vote; its address. One bad anchor refuses all of it (422)."""
        nonce = f"<!-- vibe-gate-review:{secrets.token_hex(16)} -->"
        said = {
            "commit_id": _commit(head_sha),
            "event": "COMMENT",
            "body": f"{body}\n\n{nonce}".lstrip(),
            "comments": [one.json() for one in comments],
        }
        path = f"{self._root}/pulls/{number:d}/reviews"

        def landed() -> Json:
            pages = self._rest.pages(path, f"read the reviews of pull request {number}")
            found = (each for page in pages for each in list_of(page) if nonce in str(at(each, "body")))
            return next(found, None)

        return _page(self._make(path, said, f"review pull request {number}", landed))

    def edit_review_comment(self, comment_id: int, body: str) -> None:
        """Change one of our comments at lines."""
        path = f"{self._root}/pulls/comments/{comment_id:d}"
        self._rest.put("PATCH", path, {"body": body}, "change a review comment")
        self.writes += 1

    # What must not happen twice

    def _make(self, path: str, body: Json, doing: str, landed: Callable[[], Json]) -> Json:
        return self._once(doing, lambda: self._rest.send("POST", path, body, doing), landed)

    def _once(self, doing: str, send: Callable[[], Json], landed: Callable[[], Json]) -> Json:
        """Send; where nobody knows whether it took effect, wait, look, and send again only if it did not."""
        failed: ForgeError | None = None
        for _ in self._rest.tries(doing):
            made = landed() if failed is not None else None
            if made is None:
                try:
                    made = send()
                except ForgeError as error:
                    if not error.uncertain:
                        raise
                    failed = error
                    continue
            self.writes += 1
            return made
        made = landed()
        if made is None and failed is not None:
            raise failed
        self.writes += 1
        return made


def _commit(sha: str) -> str:
    if not _COMMIT.match(sha):
        raise UsageError("A commit is named by its full id here.")
    return sha


def _reading(number: int) -> str:
    return f"read the comments of pull request {number}"


def _same(stored: str, body: str) -> bool:
    # GitHub keeps a body as it was sent, but for line endings and blanks at the end in some places.
    return stored.replace("\r\n", "\n").rstrip() == body.replace("\r\n", "\n").rstrip()


def _page(made: Json) -> str:
    found = at(made, "html_url")
    return found if isinstance(found, str) else ""


def _with(output: Json, batches: list[list[Json]]) -> Json:
    return {"output": output | ({"annotations": batches[0]} if batches else {})}
