"""One comment, ours by marker and by author: made once, changed in place, never somebody else's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from contract.github import ACTIONS, LoopbackGitHub

from vibe_gate.errors import ForgeError
from vibe_gate.forge import Forge

MARKER = "<!-- vibe-gate -->"
COMMENTS = "/repos/{owner}/{repo}/issues/{issue_number}/comments"
COMMENT = "/repos/{owner}/{repo}/issues/comments/{comment_id}"


def marked_body(text: str) -> str:
    return f"{MARKER}\n{text}"


def bodies(github: LoopbackGitHub) -> list[str]:
    return [comment.body for comment in github.comments]


def test_the_same_words_are_not_written_again(
    github: LoopbackGitHub, opened: Callable[..., Forge]
) -> None:
    first = opened().put_comment(7, marked_body("one\n"), marker=MARKER)
    assert opened().put_comment(7, marked_body("one\n"), marker=MARKER).id == first.id
    assert github.writes == 1


@pytest.mark.slow
def test_ours_is_found_behind_pages_of_others_and_made_again_if_it_is_gone(
    github: LoopbackGitHub, forge: Forge
) -> None:
    for number in range(299):
        github.add_comment(7, "eve", f"comment {number}")
    github.add_comment(7, ACTIONS, marked_body("old"))
    forge.put_comment(7, marked_body("new"), marker=MARKER)
    assert github.comments[-1].body == marked_body("new")
    assert len(github.comments) == 300
    assert github.writes == 1
    github.comments.clear()
    forge.put_comment(7, marked_body("newer"), marker=MARKER)
    assert bodies(github) == [marked_body("newer")]


@pytest.mark.parametrize("forger", ["eve", "github-actions", "helpful[bot]", None])
def test_a_forged_marker_is_nobodys_comment_of_ours(
    github: LoopbackGitHub, forge: Forge, forger: str | None
) -> None:
    github.add_comment(7, forger, marked_body("everything passed"))
    assert forge.sticky(7, MARKER) is None
    forge.put_comment(7, marked_body("it failed"), marker=MARKER)
    assert bodies(github) == [marked_body("everything passed"), marked_body("it failed")]
    assert github.writes == 1


def test_our_own_comment_that_only_quotes_the_marker_is_not_the_one(
    github: LoopbackGitHub, forge: Forge
) -> None:
    github.add_comment(7, ACTIONS, f"Eve wrote: {MARKER}")
    forge.put_comment(7, marked_body("it failed"), marker=MARKER)
    assert len(github.comments) == 2


@pytest.mark.parametrize("kind", ["person", "app"])
def test_any_token_knows_its_own_comments(
    github: LoopbackGitHub, opened: Callable[..., Forge], kind: str
) -> None:
    token, login = {
        "person": (github.person("ada"), "ada"),
        "app": (github.app("gate"), "gate[bot]"),
    }[kind]
    github.add_comment(7, ACTIONS, marked_body("another gate's"))
    for text in ("one", "two"):
        forge = opened(token)
        assert forge.login() == login
        forge.put_comment(7, marked_body(text), marker=MARKER)
    assert bodies(github) == [marked_body("another gate's"), marked_body("two")]


def test_if_nobody_tells_whose_the_token_is_one_comment_is_made_and_no_second(
    github: LoopbackGitHub, opened: Callable[..., Forge]
) -> None:
    github.fail("POST", "/graphql", 403, times=None)
    github.add_comment(7, "eve", marked_body("forged"))
    github.add_comment(7, None, marked_body("forged too"))
    assert opened().login() == ""
    assert (
        opened().sticky(7, MARKER) is None
    )  # and not the one whose account is gone: nobody is not us
    assert opened().put_comment(7, marked_body("one"), marker=MARKER).author == ACTIONS
    with pytest.raises(ForgeError, match="whose the token is"):
        opened().put_comment(7, marked_body("two"), marker=MARKER)
    assert bodies(github) == [marked_body("forged"), marked_body("forged too"), marked_body("one")]


def test_a_viewer_without_brackets_is_not_believed_to_be_an_app(
    github: LoopbackGitHub, opened: Callable[..., Forge]
) -> None:
    github.fail("POST", "/graphql", 200, times=None, body={"data": {"viewer": {"login": "eve"}}})
    github.add_comment(7, "eve", marked_body("forged"))
    assert opened().sticky(7, MARKER) is None


@pytest.mark.parametrize(
    "fault",
    [
        {"cut_when": "before"},
        {"cut_when": "after"},
        {"status": 502},
        {"status": 502, "after": True},
    ],
)
def test_a_try_without_an_answer_is_looked_for_and_made_once(
    github: LoopbackGitHub, forge: Forge, fault: dict[str, object]
) -> None:
    github.fail("POST", COMMENTS, **fault)
    comment = forge.put_comment(7, marked_body("one"), marker=MARKER)
    assert comment.id == github.comments[0].id
    assert (bodies(github), github.writes) == ([marked_body("one")], 1)
    github.fail("PATCH", COMMENT, **fault)
    forge.put_comment(7, marked_body("two"), marker=MARKER)
    assert bodies(github) == [marked_body("two")]


def test_the_same_words_by_another_are_not_taken_for_the_effect(
    github: LoopbackGitHub, forge: Forge
) -> None:
    github.add_comment(7, "eve", marked_body("one"))
    github.fail("POST", COMMENTS, cut_when="before")
    forge.put_comment(7, marked_body("one"), marker=MARKER)
    assert [comment.author for comment in github.comments] == ["eve", ACTIONS]


def test_after_four_tries_without_effect_it_gives_up(
    github: LoopbackGitHub, forge: Forge, waits: list[float]
) -> None:
    github.fail("POST", COMMENTS, 503, times=None)
    with pytest.raises(ForgeError, match="comment on pull request 7") as caught:
        forge.put_comment(7, marked_body("one"), marker=MARKER)
    assert caught.value.status == 503
    assert (len([entry for entry in github.log if entry.status == 503]), waits) == (4, [1, 3, 9])
    assert github.writes == 0


def test_a_forks_token_is_refused_and_the_refusal_says_so(
    github: LoopbackGitHub, forge: Forge
) -> None:
    github.read_only.add(github.token)
    with pytest.raises(
        ForgeError, match="lacks `issues: write` or `pull-requests: write`"
    ) as caught:
        forge.put_comment(7, marked_body("one"), marker=MARKER)
    assert (caught.value.status, github.writes) == (403, 0)
    assert (
        len([entry for entry in github.log if entry.method == "POST" and "/comments" in entry.path])
        == 1
    )


def test_a_body_over_githubs_limit_is_a_refusal(github: LoopbackGitHub, forge: Forge) -> None:
    with pytest.raises(ForgeError, match="too long") as caught:
        forge.put_comment(7, marked_body("x" * 65_536), marker=MARKER)
    assert (caught.value.status, github.writes) == (422, 0)
