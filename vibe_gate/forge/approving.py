"""Which reviews approve of a commit: pure. GitHub's own rule for a reviewer's last word, and ours for whose counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from vibe_gate.forge.shapes import MAY_WRITE, PullReview, at, review_of, same_login

Json = Any

_LAST_WORDS = {"APPROVED", "CHANGES_REQUESTED", "DISMISSED"}
"""A comment or a review that is not sent yet leaves an earlier word as it was."""

__all__ = ["PullReview", "approving", "objecting", "permission", "standing"]


def standing(listed: Iterable[Json]) -> list[PullReview]:
    """The last word of every reviewer, by account: a login can be given up and taken by somebody else."""
    reviews = [review for each in listed if (review := review_of(each)) is not None and review.state in _LAST_WORDS]
    reviews.sort(key=lambda review: (review.submitted_at, review.id))
    return list({review.account: review for review in reviews}.values())


def approving(
    reviews: Iterable[PullReview], head_sha: str, authors: Collection[str], accounts: Collection[int] = ()
) -> list[PullReview]:
    """Those that approve of exactly this commit, by people who are none of its authors: by login, nor by account."""
    return [
        review
        for review in reviews
        if review.state == "APPROVED"
        and review.person
        and bool(head_sha)
        and review.commit == head_sha
        and review.account not in accounts
        and not any(same_login(review.login, author) for author in authors)
    ]


def objecting(reviews: Iterable[PullReview]) -> list[PullReview]:
    """Those of people whose last word asks for changes, of whatever commit: it holds until they take it back."""
    return [review for review in reviews if review.state == "CHANGES_REQUESTED" and review.person]


def permission(answer: Json, review: PullReview) -> str:
    """What GitHub's answer lets a reviewer do: write, maintain or admin; "" for less, or where it speaks of another."""
    if at(answer, "user", "id") != review.account:
        return ""
    named = [at(answer, key) for key in ("role_name", "permission")]
    role, base = (name if isinstance(name, str) and name in MAY_WRITE else "" for name in named)
    return (role or base) if base else ""  # a role of one's own may be called anything
