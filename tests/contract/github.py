"""A GitHub on loopback that keeps state and holds every request and response to GitHub's own
description.

    with loopback_github() as github:                       # ghes=True: below /api/v3, as GitHub Enterprise Server
        github.add_pull(7, base_sha="b" * 40, head_sha="a" * 40, author="ada", diff=PATCH)
        run(api_url=github.url, token=github.token, repository=github.repository)
        assert github.comments[0].body.startswith("<!-- marker")
        assert github.writes == 2

`tokens[token] = login` says whose a token is; a login that ends in `[bot]` is an app's. `token` is
GitHub Actions' own; `read_only.add(token)` makes it a fork's, `lacking.add("checks=write")` leaves
a permission out.
`permissions["eve"] = "write"`; an account that is not there is a 404.

`log`: every request, status 0 where the connection was cut; `writes`: how many changed something.
`violations`: sentences about what broke the description; leaving the block raises them, so clear
the list where they are meant.

Faults, for the next `times` requests (None: all) of an operation (`"*"`: any):

    github.fail("PATCH", "*", 403, headers={"retry-after": "60"}, message="You have exceeded a secondary rate limit.")
    github.fail("GET", "*", 502, times=2, body=b"<html>")                           # any bytes, or JSON
    github.fail("POST", COMMENTS, cut_when="before")      # the connection is reset, nothing happened ("after": it did)
    github.fail("POST", COMMENTS, 502, after=True)   # it happened, and the answer is a 502
    github.fail("GET", "*", delay=0.2)               # a slow answer, otherwise as always
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from contract import graphql
from contract.description import Description
from contract.operations import NOT_BY_INTEGRATION, Answer, CheckedRequest, Operations, Refused
from contract.state import ActionsRun, Comment, Pull, Reaction, Review, ReviewComment, anchors_of

Json = Any

ACTIONS = "github-actions[bot]"
SECONDARY_LIMIT = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
)

_USUAL = {
    401: "Bad credentials",
    403: NOT_BY_INTEGRATION,
    404: "Not Found",
    422: "Validation Failed",
    429: SECONDARY_LIMIT,
    500: "Server Error",
    502: "Server Error",
    503: "Service Unavailable",
}
_ACCEPTED = {
    "/check-runs": "checks=write",
    "/actions/": "actions=read",
    "/pulls/": "pull_requests=write",
    "/issues/": "issues=write; pull_requests=write",
}
"""Permissions of which one is needed to write below such a path, as GitHub's header lists them."""

_DESCRIPTION = Description()


class Entry(NamedTuple):
    """One request: status 0 where the connection was cut."""

    method: str
    path: str
    status: int


@dataclass
class Fault:
    """What goes wrong with the next requests of an operation."""

    method: str
    path: str
    status: int | None
    times: int | None
    headers: Mapping[str, str]
    body: Json
    after: bool
    cut_when: str
    delay: float

    def meets(self, method: str, template: str) -> bool:
        return self.times != 0 and self.method in {"*", method} and self.path in {"*", template}


@dataclass
class Reply:
    """Bytes that go back; `is_cut`: none do."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_cut: bool = False


class LoopbackGitHub(Operations):
    """The server, what it remembers and what it saw. See the module's docstring."""

    def __init__(self, repository: str = "octo/hello", *, ghes: bool = False) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.server_url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._base = "/api/v3" if ghes else ""
        self._graphql = "/api/graphql" if ghes else "/graphql"
        self.url = self.server_url + self._base
        super().__init__(_DESCRIPTION, self.url, repository)
        self.token = "ghs_" + "L" * 36
        self.tokens = {self.token: ACTIONS}
        self.read_only: set[str] = set()
        self.lacking: set[str] = set()
        self.log: list[Entry] = []
        self.closed_issues: dict[int, list[Json]] = {}
        self.writes = 0
        self.violations: list[str] = []
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def requests(self) -> int:
        return len(self.log)

    # What others do

    def add_closed_issue(
        self, pull: int, number: int, title: str, body: str, repository: str = ""
    ) -> None:
        """An issue that the pull request closes."""
        place = {"nameWithOwner": repository or self.repository}
        issue = {"number": number, "title": title, "body": body, "repository": place}
        self.closed_issues.setdefault(pull, []).append(issue)

    def person(self, login: str) -> str:
        token = f"ghp_{login}" + "P" * 30
        self.tokens[token] = login
        return token

    def app(self, slug: str) -> str:
        token = f"ghs_{slug}" + "A" * 30
        self.tokens[token] = f"{slug}[bot]"
        return token

    def add_pull(self, number: int = 7, *, diff: str = "", **fields: Any) -> Pull:
        """A pull request; `diff` (unified) says where review comments may stand, `fields` are those
        of `Pull`.
        """
        values = {"base_sha": "b" * 40, "head_sha": "a" * 40, "anchors": anchors_of(diff)} | fields
        self.pulls[number] = Pull(number, **values)
        return self.pulls[number]

    def add_comment(self, number: int, author: str | None, body: str) -> Comment:
        """A comment by somebody; None: an account that is gone."""
        now = self.now()
        comment = Comment(self.new_id(), number, author, body, now, now)
        self.comments.append(comment)
        return comment

    def add_actions_run(self, head_sha: str, id: int = 4711, **fields: str) -> ActionsRun:
        """A run of a workflow at this commit, ended unless it is said otherwise."""
        self.actions_runs.append(ActionsRun(id, head_sha, **fields))
        return self.actions_runs[-1]

    def add_review(
        self, number: int, author: str | None, state: str = "APPROVED", commit: str | None = None
    ) -> Review:
        """A review by somebody, of the pull's head unless another commit is given."""
        commit = commit or self.pulls[number].head_sha
        review = Review(self.new_id(), number, author, state, commit, "", self.now())
        self.reviews.append(review)
        return review

    def add_review_comment(
        self, number: int, author: str | None, body: str, **fields: Any
    ) -> ReviewComment:
        """A comment at a line by somebody; `fields` are those of `ReviewComment`, `line=None` for an
        outdated one.
        """
        values = {"path": "a.py", "line": 1, "side": "RIGHT", "start_line": None, "start_side": None, "review": None,
                  "commit": self.pulls[number].head_sha} | fields  # fmt: skip
        comment = ReviewComment(
            id=self.new_id(),
            number=number,
            author=author,
            body=body,
            created=self.now(),
            **values,
        )
        self.review_comments.append(comment)
        return comment

    def add_reaction(
        self, comment: ReviewComment, author: str | None, content: str = "+1"
    ) -> Reaction:
        """A reaction by somebody to a comment at a line."""
        comment.reactions.append(Reaction(self.new_id(), author, content, self.now()))
        return comment.reactions[-1]

    # What goes wrong

    def fail(
        self,
        method: str,
        path: str,
        status: int | None = None,
        *,
        times: int | None = 1,
        headers: Mapping[str, str] | None = None,
        message: str = "",
        body: Json = None,
        after: bool = False,
        cut_when: str = "",
        delay: float = 0.0,
    ) -> None:
        """Let the next `times` requests of an operation fail; later calls come after earlier
        ones.
        """
        if body is None and status is not None:
            body = {
                "message": message or _USUAL.get(status, "Error"),
                "documentation_url": "https://docs.github.example",
            }
        self._faults.append(
            Fault(method, path, status, times, headers or {}, body, after, cut_when, delay)
        )

    def limit(
        self,
        *,
        retry_after: int | None = 60,
        status: int = 403,
        times: int = 1,
        method: str = "POST",
    ) -> None:
        headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        self.fail(method, "*", status, times=times, headers=headers, message=SECONDARY_LIMIT)

    def heal(self) -> None:
        self._faults.clear()

    # How it answers

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """The reply to a request; requests wait for each other, so that state is never seen half
        changed.
        """
        with self._lock:
            path = urlsplit(target).path
            operation = _DESCRIPTION.operation(method, path.removeprefix(self._base))
            fault = self._fault(method, operation.path if operation else path)
            if (
                fault
                and not fault.after
                and fault.cut_when != "after"
                and (fault.status or fault.cut_when)
            ):
                reply = _faulty(fault)
            else:
                reply = self._right(method, target, headers, body)
                if fault and (fault.status or fault.cut_when):
                    reply = _faulty(fault)
            self.log.append(Entry(method, target, 0 if reply.is_cut else reply.status))
        if fault and fault.delay:
            time.sleep(fault.delay)
        return reply

    def _fault(self, method: str, template: str) -> Fault | None:
        fault = next((fault for fault in self._faults if fault.meets(method, template)), None)
        if fault and fault.times is not None:
            fault.times -= 1
        return fault

    def _right(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        path = parts.path.removeprefix(self._base)
        try:
            login = self._login_of(headers, method, parts.path)
            if parts.path == self._graphql:
                token = headers.get("Authorization", "").partition(" ")[2]
                return _reply(self._graph(login, token, body))
            if not parts.path.startswith(f"{self._base}/"):
                raise Refused(404, "Not Found")
            reply = self._described(login, method, path, query, body)
            return _in_full(reply) if "full" in headers.get("Accept", "") else reply
        except Refused as refused:
            return _reply(Answer(refused.status, refused.body(), headers=refused.headers))

    def _login_of(self, headers: Mapping[str, str], method: str, path: str) -> str:
        token = headers.get("Authorization", "").partition(" ")[2]
        if token not in self.tokens:
            raise Refused(401, "Bad credentials")
        required_permissions = next(
            (permissions for part, permissions in _ACCEPTED.items() if part in path), ""
        )
        refused = token in self.read_only or set(required_permissions.split("; ")) <= self.lacking
        if refused and method != "GET" and path != self._graphql:
            raise Refused(403, NOT_BY_INTEGRATION, permissions=required_permissions)
        return self.tokens[token]

    def _graph(self, login: str, token: str, body: bytes) -> Answer:
        request = json.loads(body)
        roots = {
            "Query": {"viewer": {"login": login}, "repository": self._repository_of},
            "Mutation": {
                "resolveReviewThread": lambda input: self._set_thread(
                    token, input["threadId"], True
                ),
                "unresolveReviewThread": lambda input: self._set_thread(
                    token, input["threadId"], False
                ),
            },
        }
        try:
            return Answer(
                200,
                {"data": graphql.answer(request["query"], request.get("variables") or {}, roots)},
            )
        except Refused:
            name = (
                "unresolveReviewThread"
                if "unresolveReviewThread" in request["query"]
                else "resolveReviewThread"
            )
            error = {"type": "FORBIDDEN", "message": NOT_BY_INTEGRATION, "path": [name]}
            return Answer(200, {"data": {name: None}, "errors": [error]})
        except graphql.Unfit as unfit:
            self.violations.append(f"GraphQL: {unfit}")
            return Answer(200, {"errors": [{"message": str(unfit)}]})

    def _repository_of(self, owner: str, name: str) -> Json:
        if f"{owner}/{name}".lower() != self.repository.lower():
            return None
        return {
            "pullRequest": lambda number: {
                "reviewThreads": lambda **arguments: self._threads(number, **arguments),
                "closingIssuesReferences": lambda first: {
                    "nodes": self.closed_issues.get(number, [])[:first]
                },
            }
        }

    def _threads(self, number: int, first: int, after: str | None = None) -> Json:
        threads = [
            self._review_thread(comment)
            for comment in self.review_comments
            if comment.number == number and not comment.reply_to
        ]
        start, end = int(after or 0), int(after or 0) + first
        page = {"hasNextPage": end < len(threads), "endCursor": str(end)}
        return {"nodes": threads[start:end], "pageInfo": page, "totalCount": len(threads)}

    def _review_thread(self, comment: ReviewComment) -> Json:
        inner = {
            "nodes": [{"databaseId": comment.id, "id": f"C_{comment.id}", "body": comment.body}]
        }
        return {
            "id": f"T_{comment.id}",
            "isResolved": comment.resolved,
            "comments": lambda first: inner,
        }

    def _set_thread(self, token: str, thread: str, resolved: bool) -> Json:
        if token in self.read_only or "contents=write" in self.lacking:
            raise Refused(403, NOT_BY_INTEGRATION)
        comment = next(comment for comment in self.review_comments if f"T_{comment.id}" == thread)
        comment.resolved = resolved
        self.writes += 1
        return {"thread": self._review_thread(comment)}

    def _described(
        self, login: str, method: str, path: str, query: Mapping[str, str], body: bytes
    ) -> Reply:
        operation = _DESCRIPTION.operation(method, path)
        act = self.table.get((method, operation.path)) if operation else None
        if operation is None or act is None:
            self.violations.append(f"{method} {path}: no such operation here")
            raise Refused(404, "Not Found")
        repository = f"{operation.values.get('owner')}/{operation.values.get('repo')}"
        if "owner" in operation.values and unquote(repository).lower() != self.repository.lower():
            raise Refused(404, "Not Found")
        try:
            flaws = _DESCRIPTION.flaws_of_request(operation, path, query, body)
            if flaws:
                self.violations += [f"{method} {path}: {flaw}" for flaw in flaws]
                raise Refused(422, "Invalid request.", [])
            answer = act(
                CheckedRequest(login, operation, query, json.loads(body) if body else None)
            )
            self.writes += method != "GET"
        except Refused as refused:
            answer = Answer(refused.status, refused.body())
        if answer.pages:
            self._page(answer, path, query)
        flaws = _DESCRIPTION.flaws_of_response(operation, path, answer.status, answer.body)
        self.violations += [f"response to {method} {path}: {flaw}" for flaw in flaws]
        return _reply(answer)

    def _page(self, answer: Answer, path: str, query: Mapping[str, str]) -> None:
        size, page = min(int(query.get("per_page", 30)), 100), int(query.get("page", 1))
        items = answer.body
        last = max(1, -(-len(items) // size))
        answer.body = [answer.shape(item) for item in items[(page - 1) * size : page * size]]
        if answer.inside:
            answer.body = {"total_count": len(items), answer.inside: answer.body}
        links = {"prev": page - 1, "next": page + 1, "last": last, "first": 1}
        relations = (["prev", "first"] if page > 1 else []) + (
            ["next", "last"] if page < last else []
        )
        link_values = [
            f'<{self.url}{path}?{urlencode(dict(query) | {"page": links[name]})}>; rel="{name}"'
            for name in relations
        ]
        if link_values:
            answer.headers["Link"] = ", ".join(link_values)


def _faulty(fault: Fault) -> Reply:
    body = fault.body if isinstance(fault.body, bytes) else json.dumps(fault.body).encode()
    return Reply(
        fault.status or 0,
        {"Content-Type": "application/json", **fault.headers},
        body,
        is_cut=bool(fault.cut_when),
    )


def _reply(answer: Answer) -> Reply:
    headers = {"Content-Type": "application/json; charset=utf-8", "X-RateLimit-Limit": "5000",
               "X-RateLimit-Remaining": "4999", "X-RateLimit-Reset": "1900000000", **answer.headers}  # fmt: skip
    return Reply(
        answer.status, headers, b"" if answer.body is None else json.dumps(answer.body).encode()
    )


def _in_full(reply: Reply) -> Reply:
    """The reply with the texts that GitHub adds to a comment or a review for
    `vnd.github.v3.full+json`.
    """
    answer = json.loads(reply.body or b"null")
    if isinstance(answer, dict) and "author_association" in answer and "base" not in answer:
        answer |= {"body_text": answer["body"], "body_html": f"<p>{escape(answer['body'])}</p>"}
    return Reply(
        reply.status, reply.headers, b"" if answer is None else json.dumps(answer).encode()
    )


def _handler(github: LoopbackGitHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            reply = github.answer(self.command, self.path, self.headers, body)  # type: ignore[arg-type]
            if reply.is_cut:
                self._reset()
                return
            self.send_response_only(reply.status)
            for name, value in ({"Date": self.date_time_string()} | reply.headers).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            with suppress(ConnectionError):  # whoever asked does not want to know any more
                self.end_headers()
                self.wfile.write(reply.body)

        do_POST = do_PATCH = do_DELETE = do_PUT = do_GET

        def _reset(self) -> None:
            self.close_connection = True
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    return Handler


@contextmanager
def loopback_github(
    repository: str = "octo/hello", *, ghes: bool = False
) -> Iterator[LoopbackGitHub]:
    """A GitHub that runs inside the block; AssertionError at its end where something broke the
    description.
    """
    github = LoopbackGitHub(repository, ghes=ghes)
    github.start()
    try:
        yield github
    finally:
        github.stop()
    assert not github.violations, "\n".join(github.violations)
