"""A GitHub that takes its time: whatever it does, posting ends."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from contract.github import LoopbackGitHub

from vibe_gate.errors import ForgeError
from vibe_gate.forge import Forge
from vibe_gate.forge.rest import Patience, RestClient

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def _silence(connection: socket.socket, over: threading.Event) -> None:
    over.wait(60)


def _trickle(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(HEAD + b"Content-Length: 100000\r\n\r\n")
    while not over.wait(0.05):
        connection.sendall(b" ")


def _headers_trickle(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(HEAD + b"X-Long: ")
    while not over.wait(0.05):
        connection.sendall(b"x")


def _chunks(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while not over.wait(0.05):
        connection.sendall(b"1\r\n \r\n")


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """An API's address at which every connection is treated like that."""
    over = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(treat: Callable[[socket.socket, threading.Event], None]) -> str:
        def one(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                connection.recv(65_536)
                treat(connection, over)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=one, args=(listening.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield serve
    over.set()
    listening.close()


def patient(url: str, patience: Patience, token: str = "ghs_x") -> Forge:
    return Forge(RestClient(url, token, environ={}, pause=lambda _: None, patience=patience), "octo/hello")


@pytest.mark.slow
@pytest.mark.parametrize("treat", [_silence, _trickle, _headers_trickle, _chunks])
def test_an_answer_that_never_ends_is_given_up_and_soon_nothing_is_asked_any_more(
    serve: Callable[..., str], treat: Callable[[socket.socket, threading.Event], None]
) -> None:
    with patient(serve(treat), Patience(answer=0.4, silence=1.0, whole=300.0)) as forge:
        with pytest.raises(ForgeError, match="gave no answer when vibe-gate tried to read pull request 7"):
            forge.pull(7)
        for act in (
            lambda: forge.pull(7),
            lambda: forge.put_comment(7, "m words", marker="m"),
            lambda: forge.review(7, "a" * 40, "", ()),
        ):
            with pytest.raises(ForgeError, match="took too long before"):
                act()


@pytest.mark.slow
def test_all_time_with_github_comes_out_of_one_budget(github: LoopbackGitHub) -> None:
    github.fail("*", "*", times=None, delay=0.3)
    with (
        patient(github.url, Patience(whole=1.0), github.token) as forge,
        pytest.raises(ForgeError, match=r"took too long|no answer"),
    ):
        for _ in range(20):
            forge.pull(7)
    assert github.requests <= 5


def test_a_slow_answer_within_its_time_is_an_answer(github: LoopbackGitHub) -> None:
    github.fail("GET", "*", delay=0.3)
    with patient(github.url, Patience(answer=20.0), github.token) as forge:
        assert forge.pull(7).number == 7
