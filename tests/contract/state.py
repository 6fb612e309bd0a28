"""What the loopback GitHub remembers, and the JSON that GitHub shows of it."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from contract.description import Description

Json = Any

APPS = {"github-actions": 15368}
"""Numbers of apps by slug."""

CONTENTS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "eyes", "rocket")

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass
class Pull:
    """A pull request. `anchors`: the (path, side, line) that a review comment may stand at, and its
    hunk's number.
    """

    number: int
    base_sha: str
    head_sha: str
    base_ref: str = "main"
    head_ref: str = "topic"
    author: str | None = "ada"
    fork: bool = False
    state: str = "open"
    draft: bool = False
    commits: list[tuple[str, str | None]] = field(default_factory=list)
    anchors: dict[tuple[str, str, int], int] = field(default_factory=dict)


@dataclass
class Comment:
    """A comment of a conversation. `author` None: an account that is gone; `via`: an app that wrote
    in their name.
    """

    id: int
    number: int
    author: str | None
    body: str
    created: str
    updated: str
    via: str | None = None


@dataclass
class ActionsRun:
    """A run of a workflow; `again`: how often it was run again."""

    id: int
    head_sha: str
    event: str = "pull_request"
    status: str = "completed"
    conclusion: str | None = "success"
    path: str = ".github/workflows/vibe-gate.yml"
    again: int = 0


@dataclass
class CheckRun:
    """A check run with everything that was ever sent to it. `annotations` as they were sent."""

    id: int
    app: str
    sent: dict[str, Json]
    annotations: list[Json] = field(default_factory=list)

    @property
    def output(self) -> dict[str, Json]:
        return self.sent.get("output", {})


@dataclass
class Review:
    """A review. `state`: APPROVED, CHANGES_REQUESTED, COMMENTED, DISMISSED, PENDING."""

    id: int
    number: int
    author: str | None
    state: str
    commit: str | None
    body: str
    submitted: str


@dataclass
class Reaction:
    """A reaction to a comment at a line, `content` as GitHub names it. `author` None: an account
    that is gone.
    """

    id: int
    author: str | None
    content: str
    created: str


@dataclass
class ReviewComment:
    """A comment at a line. `line` None: outdated."""

    id: int
    number: int
    author: str | None
    body: str
    path: str
    line: int | None
    side: str
    start_line: int | None
    start_side: str | None
    commit: str
    review: int | None
    created: str
    reply_to: int | None = None
    resolved: bool = False
    reactions: list[Reaction] = field(default_factory=list)


def anchors_of(diff: str) -> dict[tuple[str, str, int], int]:
    """Where a unified diff lets review comments stand: (path, side, line) -> number of the hunk."""
    anchors: dict[tuple[str, str, int], int] = {}
    before = after = ""
    left_line = right_line = hunk = 0
    for line in diff.splitlines():
        if match := _HUNK.match(line):
            left_line, right_line, hunk = int(match[1]), int(match[2]), hunk + 1
        elif not left_line and not right_line and line.startswith("--- "):
            before = line[6:].rstrip("\t")
        elif not left_line and not right_line and line.startswith("+++ "):
            after = line[6:].rstrip("\t") if line != "+++ /dev/null" else before
        elif line.startswith("diff --git "):
            left_line = right_line = 0
        elif (left_line or right_line) and line[:1] in {" ", "-", "+", ""}:
            if line[:1] != "+":
                anchors[after, "LEFT", left_line] = hunk
                left_line += 1
            if line[:1] != "-":
                anchors[after, "RIGHT", right_line] = hunk
                right_line += 1
    return anchors


class Shapes:
    """The JSON of things, with every field that GitHub's description requires."""

    def __init__(self, description: Description, api: str, repository: str) -> None:
        self._filled = description.filled
        self._api = f"{api}/repos/{repository}"
        self._root = api
        self._repository = repository
        self.site = f"{api.removesuffix('/api/v3')}/{repository}"

    def user(self, login: str | None, kind: str = "simple-user", **fields: Json) -> Json:
        """An account; None where it is gone."""
        if login is None:
            return None
        site, name = self.site.removesuffix(f"/{self._repository}"), login.removesuffix("[bot]")
        links = ("avatar_url", "followers_url", "organizations_url", "received_events_url", "repos_url",
                 "subscriptions_url", "events_url", "following_url", "gists_url", "starred_url")  # fmt: skip
        return self._filled(
            kind,
            {
                "login": login,
                "id": 41898282 if login == "github-actions[bot]" else zlib.crc32(login.encode()),
                "type": "Bot" if login.endswith("[bot]") else "User",
                "url": f"{self._root}/users/{name}",
                "html_url": f"{site}/{name}",
                **{link: f"{self._root}/users/{name}/{link}" for link in links},
                **fields,
            },
        )

    def app(self, login: str | None) -> Json:
        """The app that an account belongs to; None for people."""
        if login is None or not login.endswith("[bot]"):
            return None
        slug = login.removesuffix("[bot]")
        number = APPS.get(slug, zlib.crc32(slug.encode()))
        values = {
            "id": number,
            "slug": slug,
            "name": slug,
            "owner": self.user("github"),
            "permissions": {},
        }
        return self._filled("nullable-integration", values)

    def comment(self, comment: Comment) -> Json:
        return self._filled(
            "issue-comment",
            {
                "id": comment.id,
                "url": f"{self._api}/issues/comments/{comment.id}",
                "html_url": f"{self.site}/pull/{comment.number}#issuecomment-{comment.id}",
                "issue_url": f"{self._api}/issues/{comment.number}",
                "body": comment.body,
                "user": self.user(comment.author),
                "author_association": "NONE",
                "performed_via_github_app": self.app(comment.via or comment.author),
                "created_at": comment.created,
                "updated_at": comment.updated,
            },
        )

    def actions_run(self, run: ActionsRun) -> Json:
        values = {"event": run.event, "head_sha": run.head_sha, "status": run.status}
        values |= {"conclusion": run.conclusion, "path": run.path}
        return self._filled(
            "workflow-run",
            {"id": run.id, "html_url": f"{self.site}/actions/runs/{run.id}", **values},
        )

    def check_run(self, run: CheckRun) -> Json:
        keys = (
            "name",
            "head_sha",
            "external_id",
            "details_url",
            "conclusion",
            "started_at",
            "completed_at",
        )
        output = {key: run.output.get(key) for key in ("title", "summary", "text")}
        url = f"{self._api}/check-runs/{run.id}"
        return self._filled(
            "check-run",
            {
                **{key: run.sent.get(key) for key in keys},
                "id": run.id,
                "url": url,
                "html_url": f"{self.site}/runs/{run.id}",
                "status": run.sent.get("status", "queued"),
                "app": self.app(run.app),
                "check_suite": {"id": 5},
                "pull_requests": [],
                "output": output
                | {
                    "annotations_count": len(run.annotations),
                    "annotations_url": f"{url}/annotations",
                },
            },
        )

    def pull(self, pull: Pull, kind: str = "pull-request") -> Json:
        """A pull request, in full or (`pull-request-simple`) as lists show it."""
        url, html = f"{self._api}/pulls/{pull.number}", f"{self.site}/pull/{pull.number}"
        ends = (
            ("base", pull.base_ref, pull.base_sha, False),
            ("head", pull.head_ref, pull.head_sha, pull.fork),
        )
        return self._filled(
            kind,
            {
                "number": pull.number,
                "url": url,
                "html_url": html,
                "state": pull.state,
                "draft": pull.draft,
                "title": f"Pull {pull.number}",
                "user": self.user(pull.author),
                **{name: self._end(pull, ref, sha, fork) for name, ref, sha, fork in ends},
            },
        )

    def _end(self, pull: Pull, ref: str, sha: str, fork: bool) -> Json:
        name = self._repository.partition("/")[2]
        owner = (pull.author or "ghost") if fork else self._repository.partition("/")[0]
        repository = self.repository("repository", f"{owner}/{name}", fork)
        return {
            "label": f"{owner}:{ref}",
            "ref": ref,
            "sha": sha,
            "user": self.user(owner),
            "repo": repository,
        }

    def repository(self, kind: str, full_name: str, fork: bool = False) -> Json:
        owner, _, name = full_name.partition("/")
        url = f"{self._root}/repos/{full_name}"
        values = {"id": zlib.crc32(full_name.encode()), "name": name, "full_name": full_name, "owner": self.user(owner),
                  "fork": fork, "url": url, "default_branch": "main"}  # fmt: skip
        return self._filled(kind, values)

    def review(self, review: Review) -> Json:
        html = f"{self.site}/pull/{review.number}#pullrequestreview-{review.id}"
        url = f"{self._api}/pulls/{review.number}"
        values = {
            "id": review.id,
            "user": self.user(review.author),
            "body": review.body,
            "state": review.state,
            "commit_id": review.commit,
            "html_url": html,
            "pull_request_url": url,
            "author_association": "NONE",
            "_links": {"html": {"href": html}, "pull_request": {"href": url}},
        }
        if review.state != "PENDING":
            values["submitted_at"] = review.submitted
        return self._filled("pull-request-review", values)

    def review_comment(self, comment: ReviewComment) -> Json:
        url = f"{self._api}/pulls/comments/{comment.id}"
        html = f"{self.site}/pull/{comment.number}#discussion_r{comment.id}"
        pull = f"{self._api}/pulls/{comment.number}"
        return self._filled(
            "pull-request-review-comment",
            {
                "id": comment.id,
                "url": url,
                "html_url": html,
                "pull_request_url": pull,
                "pull_request_review_id": comment.review,
                "user": self.user(comment.author),
                "body": comment.body,
                "path": comment.path,
                "line": comment.line,
                "original_line": comment.line,
                "side": comment.side,
                "start_line": comment.start_line,
                "start_side": comment.start_side,
                "position": comment.line,
                "original_position": comment.line,
                "commit_id": comment.commit,
                "original_commit_id": comment.commit,
                "created_at": comment.created,
                "updated_at": comment.created,
                "author_association": "NONE",
                "_links": {
                    "self": {"href": url},
                    "html": {"href": html},
                    "pull_request": {"href": pull},
                },
                "reactions": self._rollup(comment, url),
                **({"in_reply_to_id": comment.reply_to} if comment.reply_to else {}),
            },
        )

    def _rollup(self, comment: ReviewComment, url: str) -> Json:
        tally = Counter(reaction.content for reaction in comment.reactions)
        counts = {content: tally[content] for content in CONTENTS}
        return self._filled(
            "reaction-rollup",
            {"url": f"{url}/reactions", "total_count": len(comment.reactions), **counts},
        )

    def reaction(self, reaction: Reaction) -> Json:
        values = {
            "id": reaction.id,
            "user": self.user(reaction.author),
            "content": reaction.content,
        }
        return self._filled("reaction", values | {"created_at": reaction.created})

    def commit(self, sha: str, author: str | None) -> Json:
        url, html = f"{self._api}/commits/{sha}", f"{self.site}/commit/{sha}"
        person = {
            "name": author or "ghost",
            "email": f"{author or 'ghost'}@example.org",
            "date": "2026-01-02T03:04:05Z",
        }
        inner = {"author": person, "committer": person, "message": "Change", "comment_count": 0, "url": url,
                 "tree": {"sha": sha, "url": url}}  # fmt: skip
        account = self.user(author) or {}
        return self._filled("commit", {"sha": sha, "url": url, "html_url": html, "comments_url": url, "commit": inner,
                                       "author": account, "committer": account, "parents": []})  # fmt: skip
