"""The way to GitHub: limits, hosts, sizes, shapes, and a token that goes nowhere else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

import pytest
from contract.github import ACTIONS, LoopbackGitHub, loopback_github

from vibe_gate.domain.network import read_network
from vibe_gate.errors import ForgeError, UsageError
from vibe_gate.forge import Forge, open_forge

PULL = "/repos/{owner}/{repo}/pulls/{pull_number}"
COMMENTS = "/repos/{owner}/{repo}/issues/{issue_number}/comments"
MARKER = "<!-- gate -->"


# Limits


@pytest.mark.parametrize(
    ("status", "after", "waited"), [(403, 17, 17.0), (429, 17, 17.0), (403, None, 60.0)]
)
def test_a_secondary_limit_is_waited_for_as_long_as_it_says_or_a_minute(
    github: LoopbackGitHub,
    forge: Forge,
    waits: list[float],
    status: int,
    after: int | None,
    waited: float,
) -> None:
    forge.login()
    github.limit(retry_after=after, status=status)
    forge.put_comment(7, MARKER, marker=MARKER)
    assert (waits, github.writes) == ([waited], 1)


def test_a_limit_longer_than_the_budget_is_a_refusal_at_once(
    github: LoopbackGitHub, forge: Forge, waits: list[float]
) -> None:
    forge.login()
    github.limit(retry_after=3600)
    with pytest.raises(ForgeError, match="asks to wait 3600 s") as caught:
        forge.put_comment(7, MARKER, marker=MARKER)
    assert (caught.value.status, waits, github.writes) == (429, [], 0)


def test_a_spent_allowance_is_waited_for_by_githubs_own_clock(
    github: LoopbackGitHub, forge: Forge, waits: list[float]
) -> None:
    headers = {
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": "1000041",
        "Date": formatdate(1_000_000, usegmt=True),
    }
    github.fail("GET", PULL, 403, headers=headers, message="API rate limit exceeded")
    assert forge.pull(7).number == 7
    assert waits == [42.0]


def test_a_limit_is_never_taken_for_an_apps_token(github: LoopbackGitHub, forge: Forge) -> None:
    github.limit(retry_after=9999, method="GET")
    with pytest.raises(ForgeError) as caught:
        forge.login()
    assert caught.value.status == 429


# No answer


@pytest.mark.parametrize("fault", [{"status": 502}, {"cut_when": "before"}], ids=["502", "cut"])
def test_a_read_is_tried_again(
    github: LoopbackGitHub, forge: Forge, waits: list[float], fault: dict[str, str]
) -> None:
    github.fail("GET", PULL, times=3, **fault)
    assert forge.pull(7).number == 7
    assert waits == [4.0, 8.0]  # the first repeat is sent at once
    github.fail("GET", PULL, times=4, **fault)
    with pytest.raises(ForgeError, match="read pull request 7"):
        forge.pull(7)
    assert github.requests == 8


def test_a_refusal_is_not_tried_again(github: LoopbackGitHub, forge: Forge) -> None:
    with pytest.raises(ForgeError, match="404") as caught:
        forge.pull(99)
    assert (caught.value.status, github.requests) == (404, 1)


def test_a_wrong_token_is_a_refusal_that_does_not_show_it(
    github: LoopbackGitHub, opened: Callable[..., Forge]
) -> None:
    secret = "ghp_secretsecretsecret"
    github.fail("GET", PULL, 401, message=f"Bad credentials: {secret}")
    forge = opened(secret)
    with pytest.raises(ForgeError) as caught:
        forge.pull(7)
    assert "secret" not in str(caught.value) + repr(caught.value) + repr(forge) + repr(vars(forge))


# Hosts


@pytest.mark.parametrize("status", [301, 307])
def test_a_redirect_is_a_refusal_and_the_token_stays_here(
    github: LoopbackGitHub, forge: Forge, status: int
) -> None:
    with loopback_github() as elsewhere:
        for method, path in (("GET", PULL), ("POST", COMMENTS)):
            github.fail(
                method,
                path,
                status,
                headers={"Location": f"{elsewhere.url}/repos/octo/hello/pulls/7"},
            )
        with pytest.raises(ForgeError, match="elsewhere"):
            forge.pull(7)
        with pytest.raises(ForgeError, match="use its new name"):
            forge.put_comment(7, MARKER, marker=MARKER)
        assert (elsewhere.requests, github.writes) == (0, 0)


def test_the_next_page_is_not_read_from_another_host(github: LoopbackGitHub, forge: Forge) -> None:
    forge.login()
    github.fail(
        "GET", COMMENTS, 200, body=[], headers={"Link": '<http://127.0.0.1:9/next>; rel="next"'}
    )
    with pytest.raises(ForgeError, match="another host"):
        list(forge.comments(7))


def test_pages_without_end_are_not_read_to_their_end(github: LoopbackGitHub, forge: Forge) -> None:
    forge.login()
    link = f'<{github.url}/repos/octo/hello/issues/7/comments?page=2>; rel="next"'
    github.fail("GET", COMMENTS, 200, times=None, body=[], headers={"Link": link})
    with pytest.raises(ForgeError, match="more than 50 pages"):
        list(forge.comments(7))
    github.heal()
    github.fail("GET", COMMENTS, 200, times=49, body=[], headers={"Link": link})
    github.fail("GET", COMMENTS, 200, body=[])
    assert list(forge.comments(7)) == []


def test_credentials_and_proxies_of_the_machine_stay_out(
    github: LoopbackGitHub, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path(environ["HOME"]) / ".netrc").write_text("machine 127.0.0.1 login ada password hunter2\n")
    for name, value in {
        "HTTP_PROXY": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
        "NO_PROXY": "",
    }.items():
        monkeypatch.setenv(name, value)
    with open_forge(github.url, github.token, github.repository, network=read_network({})) as forge:
        assert forge.login() == ACTIONS


def test_a_proxy_that_is_given_is_used() -> None:
    environ = {"HTTPS_PROXY": "http://ada:hunter2@127.0.0.1:9"}
    with (
        open_forge(
            "https://github.example.org/api/v3",
            "ghs_x",
            "octo/hello",
            network=read_network(environ),
            pause=lambda _: None,
        ) as forge,
        pytest.raises(ForgeError, match="gave no answer") as caught,
    ):
        forge.pull(7)
    assert "hunter2" not in str(caught.value)
    assert "ProxyError" in str(caught.value)


def test_enterprise_servers_api_stands_below_a_path(waits: list[float]) -> None:
    with loopback_github(ghes=True) as github:
        github.add_pull(7)
        with open_forge(
            f"{github.url}/",
            github.token,
            github.repository,
            network=read_network({}),
            pause=waits.append,
        ) as forge:
            assert forge.login() == ACTIONS
            for _ in range(120):
                github.add_comment(7, "eve", "hm")
            forge.put_comment(7, MARKER, marker=MARKER)
        assert all(entry.path.startswith("/api/") for entry in github.log)
        assert (github.comments[-1].author, github.writes) == (ACTIONS, 1)


def test_graphql_of_an_enterprise_server_is_repeated_as_the_api_is(waits: list[float]) -> None:
    with loopback_github(ghes=True) as github:
        github.fail("POST", "/api/graphql", 502, times=2)
        with open_forge(
            github.url,
            github.token,
            github.repository,
            network=read_network({}),
            pause=waits.append,
        ) as forge:
            assert forge.login() == ACTIONS
    assert waits == [4.0]


@pytest.mark.parametrize(
    ("url", "token", "repository"),
    [
        ("ftp://api.github.com", "ghs_x", "octo/hello"),
        ("api.github.com", "ghs_x", "octo/hello"),
        ("http://github.example.org/api/v3", "ghs_x", "octo/hello"),
        ("https://ada:pw@api.github.com", "ghs_x", "octo/hello"),
        ("https://api.github.com?x=1", "ghs_x", "octo/hello"),
        ("https://api.github.com\r\nX: y", "ghs_x", "octo/hello"),
        ("https://[::1", "ghs_x", "octo/hello"),
        ("https://api.github.com", "", "octo/hello"),
        ("https://api.github.com", "ghs_x\n", "octo/hello"),
        ("https://api.github.com", "ghs x", "octo/hello"),
        ("https://api.github.com", "ghs_x", "octo"),
        ("https://api.github.com", "ghs_x", "octo/.."),
        ("https://api.github.com", "ghs_x", "octo/a/b"),
        ("https://api.github.com", "ghs_x", "octo/a?b"),
    ],
)
def test_what_is_no_forge_is_said_before_anything_is_asked(
    url: str, token: str, repository: str
) -> None:
    with pytest.raises(UsageError) as caught:
        open_forge(url, token, repository, network=read_network({}))
    assert "ghs" not in str(caught.value)


def test_a_commit_that_is_none_never_becomes_a_path(github: LoopbackGitHub, forge: Forge) -> None:
    for commit in ("../../user", "main", "", "a" * 41):
        with pytest.raises(UsageError):
            forge.pulls_of(commit)
    assert github.requests == 0


# Hostile answers


@pytest.mark.parametrize(
    "body",
    [b"<html>", b"null", b"{}", b'{"number": "7"}',
     json.dumps({"number": 7, "state": "open", "html_url": "u", "user": None, "head": None, "base": {}}).encode()],
    ids=["html", "null", "empty", "no number", "null head"],
)  # fmt: skip
def test_an_answer_of_another_shape_is_a_forge_error(
    github: LoopbackGitHub, forge: Forge, body: bytes
) -> None:
    github.fail("GET", PULL, 200, times=None, body=body)
    with pytest.raises(ForgeError):
        forge.pull(7)


def test_an_answer_that_cannot_be_read_does_not_make_a_second_comment(
    github: LoopbackGitHub, forge: Forge
) -> None:
    github.fail("POST", COMMENTS, 201, after=True, body=b"{")
    forge.put_comment(7, MARKER, marker=MARKER)
    assert (len(github.comments), github.writes) == (1, 1)


def test_githubs_words_are_shown_safely_and_not_at_length(
    github: LoopbackGitHub, forge: Forge
) -> None:
    github.fail("GET", PULL, 422, message="\x1b[31m\u202eevil" + "x" * 5000)
    with pytest.raises(ForgeError) as caught:
        forge.pull(7)
    assert re.search(r"[\x00-\x1f\u202e]", str(caught.value)) is None
    assert len(str(caught.value)) < 400


@pytest.mark.slow
def test_a_review_without_posting_never_loads_github3(environ: dict[str, str]) -> None:
    code = "import sys, vibe_gate.run.review, vibe_gate.faces.cli.review; sys.exit('github3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=environ, check=False).returncode == 0
