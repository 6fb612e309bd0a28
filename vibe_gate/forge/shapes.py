"""GitHub's JSON, parsed at the door: what is missing or of another type is a ForgeError, never a
KeyError.

And which reviews approve of a commit: GitHub's rule for a reviewer's last review, and ours for
whose count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from vibe_gate.errors import ForgeError

if TYPE_CHECKING:
    from github3.repos.commit import ShortCommit

Json = Any

BOT = "[bot]"
"""At the end of an app's login. No person's login has brackets."""

THUMBS = ("+1", "-1")
"""Up and down, as GitHub names these reactions."""

_DECIDING = {"APPROVED", "CHANGES_REQUESTED", "DISMISSED"}
"""A comment, or a review that is not sent yet, leaves an earlier review as it was."""


class Pull(Struct, frozen=True):
    """A pull request."""

    number: int
    state: str
    author: str
    """Its login; "" if the account is gone."""
    base_sha: str
    base_ref: str
    head_ref: str
    head_sha: str
    origin: str
    """The head's repository, "owner/name"; "" if that is gone."""
    draft: bool


class Issue(Struct, frozen=True):
    """An issue: what whoever wrote it says."""

    number: int
    title: str
    body: str


class PullCommit(Struct, frozen=True):
    """A commit of a pull request."""

    commit: str
    people: tuple[tuple[str, str], ...]
    """Each address in it, and the login that GitHub knows it by, "" for none."""


class Comment(Struct, frozen=True):
    """A comment, of the conversation or at a line."""

    id: int
    author: str
    ours: bool
    """Written by the account that the token belongs to."""
    body: str
    url: str
    account: int
    """0 if it is gone."""
    person: bool
    """By no app, and by no app in a person's name."""
    created: str
    """As GitHub writes times."""
    updated: str
    thumbs: int = 0
    """Reactions of people and apps that are a thumb, up or down."""

    @property
    def created_at(self) -> datetime:
        """When it was written. ForgeError."""
        return moment(self.created)


class Thumb(Struct, frozen=True):
    """A thumb, up or down, at a comment."""

    login: str
    account: int
    """0 if it is gone."""
    person: bool
    """No app's."""
    up: bool
    created_at: datetime


class ActionsRun(Struct, frozen=True):
    """A run of a workflow."""

    event: str
    """What it is about, as "pull_request"."""
    head_sha: str
    completed: bool
    succeeded: bool
    """Every job did."""
    path: str
    """That of the workflow's file in the repository."""


class CheckRecord(Struct, frozen=True):
    """A check run and what it keeps for later runs (`CheckRun.record`)."""

    id: int
    url: str
    record: str
    conclusion: str
    """"" while it is in progress."""


class PullReview(Struct, frozen=True):
    """A review as it stands."""

    id: int
    login: str
    account: int
    person: bool
    """No app, no organisation."""
    state: str
    commit: str
    submitted_at: str


class Approval(Struct, frozen=True):
    """An approving review, also a dismissed one."""

    login: str
    flaw: str = ""
    """Why it does not count, in a few words; "" if it does."""


def at(value: Json, *keys: str) -> Json:
    """The value below the keys; None if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text_at(value: Json, *keys: str) -> str:
    """Text below the keys. ForgeError."""
    text = at(value, *keys)
    if not isinstance(text, str):
        raise _unfit(keys)
    return text


def number_at(value: Json, *keys: str) -> int:
    """A number below the keys. ForgeError."""
    number = at(value, *keys)
    if type(number) is not int:
        raise _unfit(keys)
    return number


def list_of(value: Json) -> list[Json]:
    """The value, a list. ForgeError."""
    if not isinstance(value, list):
        raise _unfit(("list",))
    return value


def moment(text: str) -> datetime:
    """A time as GitHub writes it. ForgeError."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        raise _unfit(("time",)) from None


def text_or_empty(value: Json, *keys: str) -> str:
    """Text below the keys; "" if there is none."""
    text = at(value, *keys)
    return text if isinstance(text, str) else ""


def _unfit(keys: tuple[str, ...]) -> ForgeError:
    return ForgeError(f"GitHub's answer has no {'.'.join(keys)} as it should.")


def issue_of(value: Json) -> Issue:
    """An issue; it may have no text."""
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


def pull_commit_of(commit: ShortCommit) -> PullCommit:
    """A commit in the list of a pull request's."""
    author, committer = commit.author, commit.committer
    people = (
        (text_or_empty(commit.commit.author, "email"), author.login if author else ""),
        (text_or_empty(commit.commit.committer, "email"), committer.login if committer else ""),
    )
    return PullCommit(commit.sha, people)


def comment_of(value: Json, our_login: str) -> Comment:
    """A comment; `our_login` is "" if it is not known."""
    author = text_or_empty(value, "user", "login")
    return Comment(
        id=number_at(value, "id"),
        author=author,
        ours=same_login(author, our_login),
        body=text_or_empty(value, "body"),
        url=text_at(value, "html_url"),
        account=number_at(value, "user", "id") if author else 0,
        person=at(value, "user", "type") == "User" and not at(value, "performed_via_github_app"),
        created=text_at(value, "created_at"),
        updated=text_at(value, "updated_at"),
        thumbs=sum(
            number_at(value, "reactions", name) for name in THUMBS if at(value, "reactions")
        ),
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
        event=text_at(value, "event"),
        head_sha=text_at(value, "head_sha"),
        completed=completed,
        succeeded=completed and at(value, "conclusion") == "success",
        path=text_or_empty(value, "path").partition("@")[0],
    )


def check_record_of(value: Json) -> CheckRecord:
    """A check run."""
    return CheckRecord(
        id=number_at(value, "id"),
        url=text_or_empty(value, "html_url"),
        record=text_or_empty(value, "external_id"),
        conclusion=text_or_empty(value, "conclusion"),
    )


def same_login(login: str, other: str) -> bool:
    """Whether two logins are the same account's: GitHub ignores case. "" is nobody's."""
    return bool(login) and login.lower() == other.lower()


# Reviews


def last_reviews(answers: Iterable[Json]) -> list[PullReview]:
    """The last review of each account that approves, asks for changes or was dismissed.

    Accounts are told apart by number: a login can change hands. A review whose account is gone is
    left out.
    """
    reviews = []
    for answer in answers:
        if not isinstance(at(answer, "user"), dict):
            continue
        review = _review_of(answer)
        if review.state in _DECIDING:
            reviews.append(review)
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


def flaw(
    review: PullReview, head_sha: str, logins: Mapping[str, str], accounts: Mapping[int, str]
) -> str:
    """Why a review cannot approve of exactly this commit; "" if it can.

    `logins` and `accounts` are the authors' parts.
    """
    if review.state == "DISMISSED":
        return "dismissed"
    if part := accounts.get(review.account):
        return part
    for login, part in logins.items():
        if same_login(review.login, login):
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
