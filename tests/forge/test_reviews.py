"""Reviews: ours at diff lines, and those of others that approve."""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

import pytest
from contract.github import ACTIONS, LoopbackGitHub

from vibe_gate.errors import ForgeError
from vibe_gate.forge import Forge, LineComment

HEAD, OLD = "a" * 40, "c" * 40
REVIEWS = "/repos/{owner}/{repo}/pulls/{pull_number}/reviews"


def at(body: str, line: int, start_line: int | None = None) -> LineComment:
    return LineComment("a.py", body, line, "RIGHT", start_line)


def approving_logins(forge: Forge, **authors: Mapping) -> list[str]:
    return [approval.login for approval in forge.approvals(7, HEAD, **authors) if not approval.flaw]


def test_a_review_stands_at_its_lines(github: LoopbackGitHub, forge: Forge) -> None:
    url = forge.review(7, HEAD, [at("one", 2), at("both", 3, start_line=2)])
    [review] = github.reviews
    assert url.endswith(f"/octo/hello/pull/7#pullrequestreview-{review.id}")
    assert (review.state, review.commit, review.author) == ("COMMENTED", HEAD, ACTIONS)
    places = [
        (comment.body, comment.line, comment.start_line, comment.start_side)
        for comment in github.review_comments
    ]
    assert places == [("one", 2, None, None), ("both", 3, 2, "RIGHT")]
    assert github.writes == 1


def test_one_anchor_off_the_diff_refuses_the_whole_review_in_githubs_words(
    github: LoopbackGitHub, forge: Forge
) -> None:
    with pytest.raises(ForgeError, match="must be part of the diff") as caught:
        forge.review(7, HEAD, [at("one", 2), at("two", 40)])
    assert (caught.value.status, github.reviews, github.review_comments) == (422, [], [])
    assert (github.writes, github.requests) == (0, 1)


def test_comments_at_lines_are_read_and_ours_changed(github: LoopbackGitHub, forge: Forge) -> None:
    github.add_review_comment(7, None, "gone", line=None)
    github.add_review_comment(7, "eve", "a question", reply_to=5)
    ours = github.add_review_comment(7, ACTIONS, "a finding", line=3)
    read = list(forge.review_comments(7))
    assert [(comment.author, comment.ours) for comment in read] == [
        ("", False),
        ("eve", False),
        (ACTIONS, True),
    ]
    forge.edit_review_comment(ours.id, "fixed")
    assert (ours.body, github.writes) == ("fixed", 1)
    with pytest.raises(ForgeError) as caught:
        forge.edit_review_comment(read[1].id, "not ours")
    assert caught.value.status == 403


@pytest.mark.parametrize("role", ["write", "maintain", "admin"])
def test_a_person_with_write_access_approves(
    github: LoopbackGitHub, forge: Forge, role: str
) -> None:
    github.permissions["eve"] = role
    github.add_review(7, "eve")
    assert approving_logins(forge) == ["eve"]
    assert github.writes == 0


@pytest.mark.parametrize(
    ("reviewer", "role"),
    [
        ("eve", "read"),
        ("eve", "triage"),
        ("eve", "none"),
        ("eve", None),
        ("ada", "admin"),
        ("Ada", "admin"),
        ("helpful[bot]", "write"),
        (None, None),
    ],
)
def test_nobody_else_does(
    github: LoopbackGitHub, forge: Forge, reviewer: str | None, role: str | None
) -> None:
    if role is not None:
        github.permissions[str(reviewer)] = role
    github.add_review(7, reviewer)
    assert approving_logins(forge) == []


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        ([("APPROVED", OLD)], False),
        ([("APPROVED", HEAD), ("CHANGES_REQUESTED", HEAD)], False),
        ([("APPROVED", HEAD), ("CHANGES_REQUESTED", OLD)], False),
        ([("DISMISSED", HEAD)], False),
        ([("APPROVED", HEAD), ("DISMISSED", HEAD)], False),
        ([("CHANGES_REQUESTED", OLD), ("APPROVED", HEAD)], True),
        ([("APPROVED", HEAD), ("COMMENTED", HEAD)], True),
        ([("APPROVED", HEAD), ("PENDING", HEAD)], True),
        ([("APPROVED", HEAD), ("APPROVED", OLD)], False),
        ([("COMMENTED", HEAD)], False),
    ],
)
def test_a_reviewers_last_word_counts_and_only_of_this_commit(
    github: LoopbackGitHub, forge: Forge, words: list[tuple[str, str]], counts: bool
) -> None:
    github.permissions["eve"] = "write"
    for state, commit in words:
        github.add_review(7, "eve", state, commit)
    assert bool(approving_logins(forge)) is counts


def test_whoever_wrote_one_of_the_commits_does_not_approve_of_them(
    github: LoopbackGitHub, forge: Forge
) -> None:
    github.pulls[7].commits = [(OLD, "ada"), (HEAD, "Eve")]
    github.permissions.update(eve="write", bob="write")
    github.add_review(7, "eve")
    github.add_review(7, "bob")
    listed = forge.listed(7)
    assert [(listing.commit, listing.people[0]) for listing in listed] == [
        (OLD, ("ada@example.org", "ada")), (HEAD, ("Eve@example.org", "Eve")),
    ]  # fmt: skip
    authors = {login for listing in listed for _, login in listing.people}
    assert approving_logins(forge, authors=dict.fromkeys(authors, "wrote it")) == ["bob"]


def test_an_account_that_wrote_a_commit_does_not_approve_by_another_login(
    github: LoopbackGitHub, forge: Forge
) -> None:
    github.permissions["eve"] = "write"
    github.add_review(7, "eve")
    assert approving_logins(forge, accounts={5: "wrote it"})
    assert approving_logins(forge, accounts={crc32(b"eve"): "wrote it"}) == []


@pytest.mark.parametrize(
    ("words", "role", "holds"),
    [
        ([("CHANGES_REQUESTED", OLD)], "write", True),
        ([("CHANGES_REQUESTED", HEAD), ("COMMENTED", HEAD)], "write", True),
        ([("CHANGES_REQUESTED", HEAD), ("APPROVED", HEAD)], "write", False),
        ([("CHANGES_REQUESTED", HEAD), ("DISMISSED", HEAD)], "write", False),
        ([("CHANGES_REQUESTED", HEAD)], "read", False),
    ],
)
def test_an_objection_holds_until_it_is_taken_back(
    github: LoopbackGitHub, forge: Forge, words: list[tuple[str, str]], role: str, holds: bool
) -> None:
    github.permissions["carol"] = role
    for state, commit in words:
        github.add_review(7, "carol", state, commit)
    assert forge.objections(7) == (("carol",) if holds else ())


@pytest.mark.slow
def test_an_approval_is_found_behind_many_reviews(github: LoopbackGitHub, forge: Forge) -> None:
    github.permissions["eve"] = "write"
    for _ in range(250):
        github.add_review(7, "bob", "COMMENTED")
    github.add_review(7, "eve")
    assert approving_logins(forge) == ["eve"]
    assert len([entry for entry in github.log if "/reviews" in entry.path]) == 3


def test_where_permissions_cannot_be_read_nobody_is_said_to_have_approved(
    github: LoopbackGitHub, forge: Forge
) -> None:
    github.add_review(7, "eve")
    github.fail("GET", "/repos/{owner}/{repo}/collaborators/{username}/permission", 403)
    with pytest.raises(ForgeError, match="read what eve may do"):
        forge.approvals(7, HEAD)


def test_a_permission_of_another_account_of_that_name_is_none(
    github: LoopbackGitHub, forge: Forge
) -> None:
    github.add_review(7, "eve")
    other = {"permission": "admin", "role_name": "admin", "user": {"login": "eve", "id": 5}}
    github.fail("GET", "/repos/{owner}/{repo}/collaborators/{username}/permission", 200, body=other)
    assert approving_logins(forge) == []


@pytest.mark.parametrize(
    ("base", "role", "counts"),
    [("read", "admin", False), ("write", "release-manager", True), ("admin", None, True)],
)
def test_a_role_of_ones_own_is_worth_what_it_is_based_on(
    github: LoopbackGitHub, forge: Forge, base: str, role: str | None, counts: bool
) -> None:
    github.add_review(7, "eve")
    answer = {"permission": base, "role_name": role, "user": {"login": "eve", "id": crc32(b"eve")}}
    github.fail(
        "GET", "/repos/{owner}/{repo}/collaborators/{username}/permission", 200, body=answer
    )
    assert bool(approving_logins(forge)) is counts


@pytest.mark.parametrize("fork", [False, True])
def test_a_pull_request_is_read(github: LoopbackGitHub, forge: Forge, fork: bool) -> None:
    github.add_pull(8, author=None, fork=fork, head_ref="topic", base_ref="release", state="closed")
    pull = forge.pull(8)
    assert (pull.author, pull.origin == github.repository, pull.state) == ("", not fork, "closed")
    assert (pull.base_sha, pull.head_ref, pull.head_sha) == ("b" * 40, "topic", HEAD)
    assert [pull.number for pull in forge.pulls_of(HEAD)] == [7, 8]
