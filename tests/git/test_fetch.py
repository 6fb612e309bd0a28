"""Bringing missing commits: from a real git server that asks for a token, and from places that must
not get it.
"""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from repos import Repo

from vibe_gate.domain.environment import read_environment
from vibe_gate.git import Credentials, open_repository

pytestmark = pytest.mark.slow

TOKEN = "ghs_0123456789abcdef"
WANTED = "basic " + base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()


@dataclass
class Served:
    """A git server of one folder of repositories: what it was sent, and what it demands."""

    folder: Path
    demand: bool = True
    redirect: str = ""
    authorizations: list[list[str]] = field(default_factory=list)
    url: str = ""


@contextmanager
def serving(served: Served) -> Iterator[Served]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            headers = self.headers.get_all("Authorization") or []
            served.authorizations.append(headers)
            if served.redirect:
                self.send_response(302)
                self.send_header("Location", served.redirect + self.path)
                self.end_headers()
            elif served.demand and headers != [WANTED]:
                self.send_response(401)
                self.end_headers()
            else:
                self._backend()

        do_POST = do_GET

        def _backend(self) -> None:
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            environ = {
                **os.environ, "GIT_PROJECT_ROOT": str(served.folder), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
                "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_ADDR": "127.0.0.1",
                "CONTENT_TYPE": self.headers.get("Content-Type") or "", "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "",
                "GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
            }  # fmt: skip
            response = subprocess.run(
                ["git", "http-backend"], env=environ, input=body, capture_output=True
            )
            head, _, content = response.stdout.partition(b"\r\n\r\n")
            self.send_response(200)
            for line in head.decode().split("\r\n"):
                name, _, value = line.partition(": ")
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    served.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def origin(tmp_path: Path, environ: dict[str, str]) -> Repo:
    repository = Repo(tmp_path / "served" / "octo", environ)
    for number in range(5):
        repository.commit(f"{number}", **{"a.txt": f"{number}\n"})
    repository.git("config", "uploadpack.allowAnySHA1InWant", "true")
    return repository


@pytest.fixture
def served(origin: Repo) -> Iterator[Served]:
    with serving(Served(origin.path.parent)) as started:
        yield started


@pytest.fixture
def work(tmp_path: Path, environ: dict[str, str], origin: Repo) -> Repo:
    """A checkout of depth 1."""
    repository = Repo(tmp_path / "work", environ)
    repository.git("fetch", "-q", "--depth=1", f"file://{origin.path}", "main")
    repository.git("checkout", "-q", "--detach", "FETCH_HEAD")
    return repository


def bring(work: Repo, commit: str, access: Credentials) -> str:
    with open_repository(work.path, read_environment(work.environ)) as repository:
        return repository.fetch([commit], lambda: repository.has(commit), access)


def first(origin: Repo) -> str:
    return origin.git("rev-list", "--max-parents=0", "main")


def test_the_token_opens_the_server_that_it_is_for_and_stays_nowhere(work, origin, served):
    work.git("remote", "add", "origin", f"{served.url}/octo/.git")
    refs = work.git("for-each-ref")
    assert bring(work, first(origin), Credentials(served.url, TOKEN)) == ""
    assert all(headers == [WANTED] for headers in served.authorizations)
    files = [path for path in (work.path / ".git").rglob("*") if path.is_file()]
    assert not any(
        TOKEN.encode() in path.read_bytes() or WANTED.encode() in path.read_bytes()
        for path in files
    )
    assert work.git("for-each-ref") == refs
    assert work.git("status", "--porcelain") == ""


def test_a_header_that_the_checkout_left_is_not_sent_as_a_second_one(work, origin, served):
    work.git("remote", "add", "origin", f"{served.url}/octo/.git")
    work.git("config", f"http.{served.url}/.extraheader", "AUTHORIZATION: basic b2xk")
    assert bring(work, first(origin), Credentials(served.url, TOKEN)) == ""
    assert all(headers == [WANTED] for headers in served.authorizations)


def test_a_token_for_another_server_is_not_sent(work, origin, served):
    work.git("remote", "add", "origin", f"{served.url}/octo/.git")
    for server in (
        "https://github.com",
        served.url.replace("127.0.0.1", "localhost"),
        served.url + "0",
    ):
        assert bring(work, first(origin), Credentials(server, TOKEN))
    assert all(headers == [] for headers in served.authorizations)


def test_no_redirect_takes_the_token_elsewhere(work, origin, served):
    work.git("remote", "add", "origin", f"{served.url}/octo/.git")
    with serving(Served(served.folder, demand=False)) as other:
        served.redirect = other.url
        assert bring(work, first(origin), Credentials(served.url, TOKEN))
    assert other.authorizations == []


@pytest.mark.parametrize("address", ["ext::sh -c touch% hurt", "fd::17", "nonsense://x/y"])
def test_an_address_that_would_run_something_is_not_used(work, origin, address):
    work.git("remote", "add", "origin", address)
    assert bring(work, first(origin), Credentials())
    assert not (work.path / "hurt").exists()


def test_nothing_is_fetched_where_everything_is_here(work, origin, served):
    work.git("remote", "add", "origin", f"{served.url}/octo/.git")
    assert bring(work, work.git("rev-parse", "HEAD"), Credentials(served.url, TOKEN)) == ""
    assert served.authorizations == []


def test_what_stopped_it_is_said_in_a_few_words(work, origin):
    assert bring(work, first(origin), Credentials()) == "this checkout has no remote called origin"
    work.git("remote", "add", "origin", f"file://{origin.path}")
    assert bring(work, "f" * 40, Credentials())
    assert bring(work, "--upload-pack=touch hurt", Credentials())
    assert not (work.path / "hurt").exists()
    work.git(
        "remote", "set-url", "origin", "file:///gone"
    )  # git's last line is "and the repository exists."
    assert bring(work, "f" * 40, Credentials()) == "'/gone' does not appear to be a git repository"


def test_credentials_are_shown_without_the_token():
    assert repr(Credentials("https://github.com", TOKEN)) == "<Credentials for https://github.com>"
