"""A GitHub that takes its time: whatever it does, posting ends."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from contract.github import LoopbackGitHub

from vibe_gate.domain.network import read_network
from vibe_gate.errors import ForgeError
from vibe_gate.forge import Forge
from vibe_gate.forge.rest import RestClient


@pytest.fixture
def silent() -> Iterator[str]:
    """An API's address at which nothing is ever answered."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def patient(url: str, budget_s: float, token: str = "ghs_x") -> Forge:
    return Forge(
        RestClient(url, token, network=read_network({}), pause=lambda _: None, budget_s=budget_s),
        "octo/hello",
    )


def test_silence_is_given_up_and_soon_nothing_is_asked_any_more(silent: str) -> None:
    with patient(silent, 0.5) as forge:
        with pytest.raises(
            ForgeError,
            match=r"gave no answer when vibe-gate tried to read pull request 7 \(ReadTimeout at 127\.0\.0\.1\)",
        ):
            forge.pull(7)
        for act in (
            lambda: forge.pull(7),
            lambda: forge.put_comment(7, "m words", marker="m"),
            lambda: forge.review(7, "a" * 40, ()),
        ):
            with pytest.raises(ForgeError, match="took too long before"):
                act()


def test_a_comment_that_fails_for_ever_is_given_up_and_then_all_is_tried_once(
    github: LoopbackGitHub,
) -> None:
    comments = "/repos/{owner}/{repo}/issues/{issue_number}/comments"
    github.fail("*", comments, 502, times=None, delay=0.05)
    client = RestClient(
        github.url, github.token, network=read_network({}), backoff_s=0.05, failures_s=0.6
    )
    with Forge(client, "octo/hello") as forge:
        forge.login()
        requests = []
        for _ in range(5):
            before = github.requests
            with pytest.raises(ForgeError, match="502"):
                forge.put_comment(7, "m words", marker="m")
            requests.append(github.requests - before)
        assert requests[0] > 1
        assert requests[-2:] == [1, 1]
        github.heal()
        assert forge.put_comment(7, "m words", marker="m").body == "m words"


def test_all_time_with_github_comes_out_of_one_budget(github: LoopbackGitHub) -> None:
    github.fail("*", "*", times=None, delay=0.3)
    with (
        patient(github.url, 1.0, github.token) as forge,
        pytest.raises(ForgeError, match=r"took too long|no answer"),
    ):
        for _ in range(20):
            forge.pull(7)
    assert github.requests <= 5
