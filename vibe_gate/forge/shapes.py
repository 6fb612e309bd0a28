"""GitHub's JSON, parsed at the door: what is missing or of another type is a ForgeError, never a KeyError.

And which reviews approve of a commit: GitHub's own rule for a reviewer's last word, and ours for whose counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from vibe_gate.errors import ForgeError

Json = Any

BOT = "[bot]"
"""At the end of an app's login. No person's login has brackets."""

THUMBS = ("+1", "-1")
"""Up and down, as GitHub names these reactions."""

_LAST_WORDS = {"APPROVED", "CHANGES_REQUESTED", "DISMISSED"}
"""A comment or a review that is not sent yet leaves an earlier word as it was."""


class Pull(Struct, frozen=True):
    """A pull request. `author` is "" if the account is gone; `origin` is the head's repository, "" if that is gone."""

    number: int
    state: str
    author: str
    base_sha: str
    base_ref: str
    head_ref: str
    head_sha: str
    origin: str
    draft: bool


class Issue(Struct, frozen=True):
    """An issue: what whoever wrote it says."""

    number: int
    title: str
    body: str


class PullCommit(Struct, frozen=True):
    """A commit of a pull request. `people`: each address in it, and the login that GitHub knows it by, "" for none."""

    commit: str
    people: tuple[tuple[str, str], ...]


class Comment(Struct, frozen=True):
    """A comment, of the conversation or at a line. `ours`: written by the account that the token belongs to.

    `person`: by no app, and by no app in a person's name. `account` is 0 if it is gone. Times as GitHub writes them.
    `thumbs`: reactions of people and apps that are a thumb, up or down.
    """

    id: int
    author: str
    ours: bool
    body: str
    url: str
    account: int
    person: bool
    created: str
    updated: str
    thumbs: int = 0

    @property
    def created_at(self) -> datetime:
        """When it was written. ForgeError."""
        return moment(self.created)


class Thumb(Struct, frozen=True):
    """A thumb, up or down, at a comment. `person`: no app's; `account` is 0 if it is gone."""

    login: str
    account: int
    person: bool
    up: bool
    created_at: datetime


class ActionsRun(Struct, frozen=True):
    """A run of a workflow: the event that it is about, its commit, whether it has ended; `succeeded`: every job did.

    `path` is that of the workflow's file in the repository.
    """

    event: str
    head_sha: str
    completed: bool
    succeeded: bool
    path: str


class CheckRecord(Struct, frozen=True):
    """A check run and what it keeps for later runs (`CheckRun.record`); `conclusion` is "" while it is in progress."""

    id: int
    url: str
    record: str
    conclusion: str


class PullReview(Struct, frozen=True):
    """A review as it stands. `person`: no app, no organisation."""

    id: int
    login: str
    account: int
    person: bool
    state: str
    commit: str
    submitted_at: str


def at(value: Json, *keys: str) -> Json:
    """The value below the keys; None if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text_at(value: Json, *keys: str) -> str:
    """Text below the keys. ForgeError."""
    found = at(value, *keys)
    if not isinstance(found, str):
        raise _odd(keys)
    return found


def number_at(value: Json, *keys: str) -> int:
    """A number below the keys. ForgeError."""
    found = at(value, *keys)
    if type(found) is not int:
        raise _odd(keys)
    return found


def list_of(value: Json) -> list[Json]:
    """The value, a list. ForgeError."""
    if not isinstance(value, list):
        raise _odd(("list",))
    return value


def moment(text: str) -> datetime:
    """A time as GitHub writes it. ForgeError."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        raise _odd(("time",)) from None


def text_or_empty(value: Json, *keys: str) -> str:
    """Text below the keys; "" if there is none."""
    found = at(value, *keys)
    return found if isinstance(found, str) else ""


def _odd(keys: tuple[str, ...]) -> ForgeError:
    return ForgeError(f"GitHub's answer has no {'.'.join(keys)} as it should.")


def issue_of(value: Json) -> Issue:
    """An issue; one may have no text."""
    return Issue(number_at(value, "number"), text_at(value, "title"), text_or_empty(value, "body"))


def pull_of(value: Json) -> Pull:
    """A pull request."""
    return Pull(
        number=number_at(value, "number"),
        state=text_at(value, "state"),
        author=text_or_empty(value, "user", "login"),
        base_sha=text_at(value, "base", "sha"),
        base_ref=text_at(value, "base", "ref"),
        head_ref=text_at(value, "head", "ref"),
        head_sha=text_at(value, "head", "sha"),
        origin=text_or_empty(value, "head", "repo", "full_name"),
        draft=at(value, "draft") is True,
    )


def pull_commit_of(value: Json) -> PullCommit:
    """A commit in the list of a pull request's."""
    people = tuple(
        (text_or_empty(value, "commit", who, "email"), text_or_empty(value, who, "login"))
        for who in ("author", "committer")
    )
    return PullCommit(text_at(value, "sha"), people)


def comment_of(value: Json, own: str) -> Comment:
    """A comment; `own` is our login, "" if it is not known."""
    author = text_or_empty(value, "user", "login")
    return Comment(
        id=number_at(value, "id"),
        author=author,
        ours=same_login(author, own),
        body=text_or_empty(value, "body"),
        url=text_at(value, "html_url"),
        account=number_at(value, "user", "id") if author else 0,
        person=at(value, "user", "type") == "User" and not at(value, "performed_via_github_app"),
        created=text_at(value, "created_at"),
        updated=text_at(value, "updated_at"),
        thumbs=sum(number_at(value, "reactions", name) for name in THUMBS if at(value, "reactions")),
    )


def thumb_of(value: Json) -> Thumb:
    """A reaction that is a thumb."""
    login = text_or_empty(value, "user", "login")
    return Thumb(
        login=login,
        account=number_at(value, "user", "id") if login else 0,
        person=at(value, "user", "type") == "User",
        up=text_at(value, "content") == THUMBS[0],
        created_at=moment(text_at(value, "created_at")),
    )


def run_of(value: Json) -> ActionsRun:
    """A run of a workflow."""
    completed = at(value, "status") == "completed"
    return ActionsRun(
        text_at(value, "event"),
        text_at(value, "head_sha"),
        completed,
        completed and at(value, "conclusion") == "success",
        text_or_empty(value, "path").partition("@")[0],
    )


def check_record_of(value: Json) -> CheckRecord:
    """A check run."""
    texts = (text_or_empty(value, name) for name in ("html_url", "external_id", "conclusion"))
    return CheckRecord(number_at(value, "id"), *texts)


def same_login(one: str, other: str) -> bool:
    """Whether two logins are the same account's: GitHub ignores case. "" is nobody's."""
    return bool(one) and one.lower() == other.lower()


# Reviews


def last_words(listed: Iterable[Json]) -> list[PullReview]:
    """The last review of each account that approves, asks for changes or was dismissed. A login can change hands."""
    with_account = (each for each in listed if isinstance(at(each, "user"), dict))  # an account that is gone: no word
    reviews = [review for review in map(_review_of, with_account) if review.state in _LAST_WORDS]
    reviews.sort(key=lambda review: (review.submitted_at, review.id))
    last = {review.account: review for review in reviews}
    return list(last.values())


def _review_of(value: Json) -> PullReview:
    return PullReview(
        id=number_at(value, "id"),
        login=text_at(value, "user", "login"),
        account=number_at(value, "user", "id"),
        person=at(value, "user", "type") == "User",
        state=text_at(value, "state"),
        commit=text_or_empty(value, "commit_id"),
        submitted_at=text_or_empty(value, "submitted_at"),
    )


class Approval(Struct, frozen=True):
    """An approving review, also a dismissed one. `flaw`: why it does not count, in a few words; "" if it does."""

    login: str
    flaw: str = ""


def flaw(review: PullReview, head_sha: str, logins: Mapping[str, str], accounts: Mapping[int, str]) -> str:
    """Why a review cannot approve of exactly this commit; "" if it can. `logins`, `accounts`: the authors' parts."""
    if review.state == "DISMISSED":
        return "dismissed"
    parts = [part for login, part in logins.items() if same_login(review.login, login)]
    if part := accounts.get(review.account) or next(iter(parts), ""):
        return part
    if not review.person:
        return "an app's"
    if review.commit == head_sha != "":
        return ""
    return f"of {review.commit[:12] or 'another commit'}: needs a new approval"


def may_write(answer: Json, account: int) -> bool:
    """Whether GitHub's answer lets this account write; false if it is about another one.

    "maintain" is said as "write", a role of the organisation's own as what it is based on.
    """
    return at(answer, "user", "id") == account and at(answer, "permission") in ("write", "admin")
