"""`post`: which server, repository and token, by the environment and by what origin is."""

from __future__ import annotations

import pytest

from vibe_gate.domain.forge_settings import read_forge_settings
from vibe_gate.errors import UsageError
from vibe_gate.faces.cli.destination import Destination, Remote, destination, remote_of

GHES = "github.acme.example"


@pytest.mark.parametrize(
    ("url", "server", "repository"),
    [
        ("https://github.com/octo/hello", "github.com", "octo/hello"),
        ("https://github.com/octo/hello.git", "github.com", "octo/hello"),
        ("https://github.com/octo/hello.git/", "github.com", "octo/hello"),
        ("https://ada:s3cret@GitHub.com/octo/hello.js.git", "github.com", "octo/hello.js"),
        ("https://github.com:443/octo/hello", "github.com", "octo/hello"),
        ("git@github.com:octo/hello.git", "github.com", "octo/hello"),
        ("github.com:octo/hello", "github.com", "octo/hello"),
        ("org-14@github.com:/octo/hello.git", "github.com", "octo/hello"),
        ("ssh://git@github.com/octo/hello.git", "github.com", "octo/hello"),
        ("ssh://git@ssh.github.com:443/octo/hello.git", "github.com", "octo/hello"),
        ("git://github.com/octo/hello", "github.com", "octo/hello"),
        (f"https://{GHES}:8443/team/app.git", f"{GHES}:8443", "team/app"),
        (f"ssh://git@{GHES}:2222/team/app.git", GHES, "team/app"),
        (f"git@{GHES}:team/app", GHES, "team/app"),
        ("git@acme.ghe.com:team/app", "acme.ghe.com", "team/app"),
    ],
)
def test_a_remotes_url_names_a_server_and_a_repository(url, server, repository):
    assert remote_of(url) == Remote(server, repository)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "/srv/git/octo/hello",
            "../octo/hello",
            "backup/octo/hello",
            "file:///srv/octo/hello",
        ),
        *(
            "ext::sh -c x% octo/hello",
            "https://github.com/octo",
            "https://github.com/a/b/c",
            "git@github.com:hello",
        ),
        *("https:///octo/hello", "ftp://github.com/octo/hello", "https://github.com /octo/hello"),
        *(
            "git@github.com:../hello",
            "git@github.com:octo/..",
            "git@github.com:octo/he?x",
            "git@github.com:octo/h\u202e",
        ),
    ],
)
def test_what_names_no_repository_of_a_server_is_nothing(url):
    assert remote_of(url) is None


HUB = "git@github.com:octo/hello.git"
OWN = f"https://ada:s3cret@{GHES}:8443/team/app.git"
TOKEN = {"GITHUB_TOKEN": "hub"}


def to(server: str, api: str, repository: str, token: str) -> Destination:
    return Destination(f"https://{server}", f"https://{api}", repository, token)


@pytest.mark.parametrize(
    ("origin", "environ", "expected"),
    [
        (HUB, TOKEN, to("github.com", "api.github.com", "octo/hello", "hub")),
        (HUB, {"GH_TOKEN": "own"}, to("github.com", "api.github.com", "octo/hello", "own")),
        (
            *(
                OWN,
                TOKEN | {"GH_ENTERPRISE_TOKEN": "ghes", "GH_HOST": f"{GHES.upper()}:8443"},
            ),
            to(f"{GHES}:8443", f"{GHES}:8443/api/v3", "team/app", "ghes"),
        ),
        (
            *(f"git@{GHES}:team/app", {"GITHUB_ENTERPRISE_TOKEN": "ghes", "GH_HOST": GHES}),
            to(GHES, f"{GHES}/api/v3", "team/app", "ghes"),
        ),
        (
            *(f"git@{GHES}:team/app", {"GH_TOKEN": "said", "GH_HOST": GHES}),
            to(GHES, f"{GHES}/api/v3", "team/app", "said"),
        ),
        (
            "git@acme.ghe.com:team/app",
            TOKEN,
            to("acme.ghe.com", "api.acme.ghe.com", "team/app", "hub"),
        ),
        (
            *(f"git@{GHES}:team/app", TOKEN | {"GITHUB_SERVER_URL": f"https://{GHES}/"}),
            to(GHES, f"{GHES}/api/v3", "team/app", "hub"),
        ),
        (
            *(HUB, TOKEN | {"GITHUB_API_URL": "https://proxy.example/api"}),
            to("github.com", "proxy.example/api", "octo/hello", "hub"),
        ),
        (
            OWN,
            TOKEN | {"GITHUB_REPOSITORY": "a/b"},
            to("github.com", "api.github.com", "a/b", "hub"),
        ),
    ],
)
def test_where_to_post(origin, environ, expected):
    assert destination([origin, ""], read_forge_settings(environ)) == expected


@pytest.mark.parametrize(
    ("origin", "environ", "sentence"),
    [
        (
            OWN,
            TOKEN | {"GH_TOKEN": "own"},
            f"If {GHES}:8443 is a GitHub Enterprise server, set GH_HOST={GHES}:8443",
        ),
        (
            OWN,
            TOKEN,
            f"No token for {GHES}:8443, where origin is: vibe-gate posts to GitHub and GitHub Enterprise.",
        ),
        (
            *(OWN, {"GH_HOST": f"{GHES}:8443"}),
            f"No token for {GHES}:8443: set GH_ENTERPRISE_TOKEN (`gh auth token --hostname {GHES}:8443` prints one).",
        ),
        ("", TOKEN, "this clone has no remote named origin. Set GITHUB_REPOSITORY to OWNER/NAME"),
        *(
            (
                url,
                TOKEN,
                "origin is on github.com, but its URL names no repository (OWNER/NAME). Set GITHUB_REPOSITORY",
            )
            for url in (
                "https://github.com/o",
                "https://ada:s3cret@github.com/a/b/c",
                "git@github.com:hello",
            )
        ),
        (
            f"https://{GHES}/o",
            {"GH_HOST": GHES},
            f"origin is on {GHES}, but its URL names no repository",
        ),
        ("https://gitlab.com/a/b/c", TOKEN, "origin is not on a GitHub server"),
        (
            OWN,
            {"GH_TOKEN": "own", "GH_HOST": "other.example"},
            "is sent to a server that only origin names",
        ),
        (
            "git@gitlab.example:a/b",
            {"GH_ENTERPRISE_TOKEN": "ghes"},
            "No token for gitlab.example",
        ),
        (
            "work:a/b",
            {"GH_ENTERPRISE_TOKEN": "ghes", "GH_HOST": GHES},
            "No token for work, where origin is",
        ),
        (
            "https://github.com@evil.example/a/b",
            {"GH_ENTERPRISE_TOKEN": "ghes"},
            "No token for evil.example",
        ),
        (HUB, {"GH_ENTERPRISE_TOKEN": "ghes"}, "No token: set GITHUB_TOKEN or GH_TOKEN"),
        (
            HUB,
            {"GH_ENTERPRISE_TOKEN": "ghes", "GITHUB_REPOSITORY": "a/b"},
            "No token: set GITHUB_TOKEN",
        ),
        (
            "/srv/octo/hello",
            TOKEN,
            "origin is not on a GitHub server. Set GITHUB_REPOSITORY to OWNER/NAME",
        ),
        (
            OWN,
            TOKEN | {"GITHUB_API_URL": "https://api.github.com"},
            "origin is not on github.com",
        ),
    ],
)
def test_what_is_not_known_is_said_without_the_credentials_of_an_url(origin, environ, sentence):
    with pytest.raises(UsageError) as caught:
        destination([origin], read_forge_settings(environ))
    assert sentence in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("server", "origin"),
    [
        ("https://GitHub.com", HUB),
        (f"https://{GHES}:8443", f"ssh://git@{GHES}:2222/octo/hello"),
        (f"http://{GHES}:8080", f"http://{GHES}:8080/octo/hello"),
    ],
)
def test_origin_is_on_the_server_of_the_environment_whatever_port_and_scheme(server, origin):
    target = destination([origin], read_forge_settings(TOKEN | {"GITHUB_SERVER_URL": server}))
    assert (target.repository, target.server_url) == ("octo/hello", server)


def test_a_mirror_behind_git_does_not_hide_that_origin_is_on_github():
    target = destination(
        ["https://github.com/octo/hello", "https://mirror.example/octo/hello"],
        read_forge_settings(TOKEN),
    )
    assert target == to("github.com", "api.github.com", "octo/hello", "hub")


def test_what_is_shown_of_a_destination_has_no_token():
    assert (
        repr(destination([HUB], read_forge_settings(TOKEN)))
        == "<Destination https://github.com/octo/hello>"
    )


def test_a_short_form_of_ones_own_is_what_git_makes_of_it():
    assert (
        destination(["hub:octo/hello", HUB], read_forge_settings(TOKEN)).server_url
        == "https://github.com"
    )


def test_a_server_whose_url_is_none_is_a_sentence():
    with pytest.raises(UsageError, match="GITHUB_SERVER_URL is not the URL of a server"):
        destination([HUB], read_forge_settings(TOKEN | {"GITHUB_SERVER_URL": "https://[bad"}))
