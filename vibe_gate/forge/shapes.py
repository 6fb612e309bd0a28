"""GitHub's JSON, parsed at the door: what is missing or of another type is a ForgeError, never a KeyError."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from vibe_gate.errors import ForgeError

Json = Any

MAY_WRITE = frozenset({"write", "maintain", "admin"})
BOT = "[bot]"
"""At the end of an app's login. No person's login has brackets."""


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull request. `author` is "" where the account is gone; `fork`: the head is in another repository, `origin`."""

    number: int
    state: str
    author: str
    base_ref: str
    base_sha: str
    head_ref: str
    head_sha: str
    fork: bool
    url: str
    origin: str = ""


@dataclass(frozen=True, slots=True)
class PullCommit:
    """A commit of a pull request. `people`: each address in it, and the login that GitHub knows it by, "" for none."""

    commit: str
    people: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment of the conversation. `ours`: written by the account that the token belongs to."""

    id: int
    author: str
    ours: bool
    body: str
    url: str


@dataclass(frozen=True, slots=True)
class ReviewComment(Comment):
    """A comment at a line; `line` None where it is outdated, `reply_to` the comment that it answers."""

    path: str
    line: int | None
    commit: str
    reply_to: int | None


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's approving review that counts. `submitted_at` is ISO 8601, UTC."""

    login: str
    commit: str
    submitted_at: str
    permission: str


@dataclass(frozen=True, slots=True)
class PullReview:
    """A review as it stands. `person`: no app, no organisation."""

    id: int
    login: str
    account: int
    person: bool
    state: str
    commit: str
    submitted_at: str
    body: str
    url: str


def at(value: Json, *keys: str) -> Json:
    """What stands below the keys; None where there is nothing."""
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
    if not isinstance(found, int) or isinstance(found, bool):
        raise _odd(keys)
    return found


def list_of(value: Json, *keys: str) -> list[Json]:
    """A list below the keys. ForgeError."""
    found = at(value, *keys)
    if not isinstance(found, list):
        raise _odd(keys or ("list",))
    return found


def _odd(keys: tuple[str, ...]) -> ForgeError:
    return ForgeError(f"GitHub's answer has no {'.'.join(keys)} as it should.")


def login_of(value: Json) -> str:
    """Who wrote it; "" where the account is gone."""
    found = at(value, "user", "login")
    return found if isinstance(found, str) else ""


def _or_none(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _or_empty(value: Json) -> str:
    return value if isinstance(value, str) else ""


def pull_of(value: Json) -> Pull:
    """A pull request; a head whose repository is gone was a fork."""
    return Pull(
        number=number_at(value, "number"),
        state=text_at(value, "state"),
        author=login_of(value),
        base_ref=text_at(value, "base", "ref"),
        base_sha=text_at(value, "base", "sha"),
        head_ref=text_at(value, "head", "ref"),
        head_sha=text_at(value, "head", "sha"),
        fork=at(value, "head", "repo", "full_name") != text_at(value, "base", "repo", "full_name"),
        url=text_at(value, "html_url"),
        origin=_or_empty(at(value, "head", "repo", "full_name")),
    )


def pull_commit_of(value: Json) -> PullCommit:
    """A commit in the list of a pull request's."""
    sides = ((at(value, "commit", who, "email"), at(value, who, "login")) for who in ("author", "committer"))
    people = tuple((_or_empty(email), _or_empty(login)) for email, login in sides)
    return PullCommit(text_at(value, "sha"), people)


def comment_of(value: Json, own: str) -> Comment:
    """A comment; `own` is our login, "" where it is not known."""
    author = login_of(value)
    return Comment(
        id=number_at(value, "id"),
        author=author,
        ours=same_login(author, own),
        body=_or_empty(at(value, "body")),
        url=text_at(value, "html_url"),
    )


def review_comment_of(value: Json, own: str) -> ReviewComment:
    """A comment at a line; `own` as above."""
    return ReviewComment(
        **asdict(comment_of(value, own)),
        path=text_at(value, "path"),
        line=_or_none(at(value, "line")),
        commit=text_at(value, "commit_id"),
        reply_to=_or_none(at(value, "in_reply_to_id")),
    )


def review_of(value: Json) -> PullReview | None:
    """A review; None where its account is gone, for nobody can answer for it."""
    if not isinstance(at(value, "user"), dict):
        return None
    return PullReview(
        id=number_at(value, "id"),
        login=text_at(value, "user", "login"),
        account=number_at(value, "user", "id"),
        person=at(value, "user", "type") == "User",
        state=text_at(value, "state"),
        commit=_or_empty(at(value, "commit_id")),
        submitted_at=_or_empty(at(value, "submitted_at")),
        body=_or_empty(at(value, "body")),
        url=_or_empty(at(value, "html_url")),
    )


def same_login(one: str, other: str) -> bool:
    """Whether two logins are the same account's: GitHub ignores case. "" is nobody's."""
    return bool(one) and one.lower() == other.lower()
