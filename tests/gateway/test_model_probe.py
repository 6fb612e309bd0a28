"""`doctor --ask`: one real request, and what came back, whatever that is."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from vibe_gate.gateway import ask_model
from vibe_gate.gateway.model_probe import ModelReply
from vibe_gate.gateway.upstream import Upstream

KEY = "sk-ant-api03-NOBODY-MAY-SEE-THIS"
MESSAGE = {
    "type": "message",
    "content": [{"type": "text", "text": "ready"}],
    "usage": {"output_tokens": 1},
}


@contextmanager
def endpoint(talk: Callable[[socket.socket], None]) -> Iterator[tuple[str, list[bytes]]]:
    """A loopback server that reads one request and then does what `talk` does; its address, and
    what it was sent.
    """
    requests: list[bytes] = []
    event = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                received = b""
                while b"\r\n\r\n" not in received or not received.rstrip().endswith(b"}"):
                    received += connection.recv(65_536)
                requests.append(received)
                talk(connection)
                if talk is silence:
                    event.wait(10)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}", requests
        finally:
            event.set()
            thread.join(10)


def silence(connection: socket.socket) -> None:
    """Say nothing."""


def answering(status: int, body: object, head: str = "") -> Callable[[socket.socket], None]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    def talk(connection: socket.socket) -> None:
        lines = f"HTTP/1.1 {status} X\r\nContent-Length: {len(raw)}\r\n{head}\r\n"
        connection.sendall(lines.encode() + raw)

    return talk


def error(message: str) -> dict[str, object]:
    return {"type": "error", "error": {"type": "x", "message": message}}


def endless(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 X\r\nContent-Length: 99999999\r\n\r\n")
    try:
        while True:
            connection.sendall(b" " * 65_536)
    except OSError:
        return


def ask(talk: Callable[[socket.socket], None]) -> tuple[ModelReply, bytes]:
    with endpoint(talk) as (address, requests):
        reply = ask_model(
            Upstream(address, "ANTHROPIC_API_KEY", {"x-api-key": KEY}), "claude-x", answer_s=0.5
        )
    return reply, requests[0]


@pytest.mark.parametrize(
    ("talk", "refusal", "words"),
    [
        (answering(200, MESSAGE), None, "claude-x answered at 127.0.0.1 in 0."),
        (answering(401, error("invalid x-api-key")), "key", "(HTTP 401: invalid x-api-key)"),
        (answering(403, error("no access")), "key", "(HTTP 403: no access)"),
        (answering(404, error("model: claude-x")), "model", "(HTTP 404: model: claude-x)"),
        (answering(404, b"<html>not found"), "address", "(HTTP 404)"),
        (answering(400, error("credit balance is too low")), "request", "(HTTP 400: credit balance is too low)"),
        (answering(429, error("slow down")), "limit", "limits the rate of this key (HTTP 429)"),
        (answering(529, error("overloaded")), "limit", "is overloaded (HTTP 529)"),
        (answering(500, error("oops")), "address", "failed (HTTP 500: oops)"),
        (answering(500, error("HTTP 429 behind it")), "address", "failed (HTTP 500: HTTP 429 behind it)"),
        (answering(302, b"", "Location: http://127.0.0.1:1/\r\n"), "request", "(HTTP 302)"),
        (answering(200, b"<html>welcome"), "address", "answered, but not as the Messages API does"),
        (answering(200, b"["), "address", "answered, but not as the Messages API does"),
        (answering(200, {"choices": []}), "address", "answered, but not as the Messages API does"),
        (silence, "address", "accepted the request and did not answer in time"),
        (endless, "address", "sent an answer without an end"),
        (lambda connection: connection.sendall(b"hello\n"), "address", "closed the connection without an answer"),
        (lambda connection: connection.close(), "address", "closed the connection without an answer"),
        (
            lambda connection: connection.sendall(b'HTTP/1.1 200 X\r\nContent-Length: 99\r\n\r\n{"type"'),
            "address", "the answer of 127.0.0.1 broke off",
        ),
    ],
)  # fmt: skip
def test_what_came_back_is_told_with_what_to_look_at(talk, refusal, words: str) -> None:
    reply, request = ask(talk)
    assert reply.refusal == refusal
    assert words in reply.text
    assert KEY.encode() in request
    assert KEY not in reply.text
    assert json.loads(request.partition(b"\r\n\r\n")[2])["max_tokens"] <= 16


def test_an_address_where_nobody_listens_is_told_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
    reply = ask_model(Upstream(address, "ANTHROPIC_BASE_URL"), "m", answer_s=0.5)
    assert (reply.refusal, "cannot be reached" in reply.text) == ("address", True)


def test_a_subscription_names_the_program_that_it_is_for() -> None:
    credentials = {"authorization": f"Bearer {KEY}", "anthropic-beta": "oauth-2025-04-20"}
    with endpoint(answering(200, MESSAGE)) as (address, requests):
        assert (
            ask_model(Upstream(address, "CLAUDE_CODE_OAUTH_TOKEN", credentials), "m").refusal
            is None
        )
    assert b"You are Claude Code" in requests[0]
