"""Endpoints and local clients that mean harm: what they send is bounded, clamped or refused."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from vibe_gate.domain import wire
from vibe_gate.domain.model_wire import Wire
from vibe_gate.gateway import Gateway, find_upstream
from vibe_gate.gateway.exchange import MAX_STRANGERS
from vibe_gate.gateway.forward import MAX_ANSWER_BYTES
from vibe_gate.gateway.token_usage import Meter, Usage

ASK = json.dumps({"model": "claude-sonnet-5", "max_tokens": 1000, "stream": True, "messages": []})
STREAM, WHOLE = "text/event-stream", "application/json"


def event(kind: str, **fields: object) -> bytes:
    return b"data: " + json.dumps({"type": kind, **fields}).encode() + b"\n\n"


START = event(
    "message_start", message={"model": "m", "usage": {"input_tokens": 7, "output_tokens": 1}}
)
BLOCK = event("content_block_start", index=0, content_block={"type": "text", "text": ""}) + event(
    "content_block_stop", index=0
)
STOP = event(
    "message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 9}
) + event("message_stop")


class Endpoint(ThreadingHTTPServer):
    """Answers every POST with these pieces, chunked; `sent` counts bytes."""

    daemon_threads = True

    def __init__(
        self, pieces: Callable[[], Iterator[bytes]], content_type: str, encoding: str
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.pieces, self.content_type, self.encoding = pieces, content_type, encoding
        self.sent = 0
        self.requests = 0


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Endpoint

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        self.server.requests += 1
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", self.server.content_type)
        self.send_header("content-encoding", self.server.encoding)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):
            for piece in self.server.pieces():
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                self.server.sent += len(piece)
            self.wfile.write(b"0\r\n\r\n")


@contextlib.contextmanager
def gateway_to(
    pieces: Callable[[], Iterator[bytes]], content_type: str = STREAM, encoding: str = "identity"
) -> Iterator[tuple[Gateway, Endpoint]]:
    endpoint = Endpoint(pieces, content_type, encoding)
    thread = threading.Thread(target=endpoint.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    upstream = find_upstream(
        {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{endpoint.server_address[1]}"}
    )
    try:
        with Gateway(upstream, Wire("live"), 1.0, str) as gateway:
            yield gateway, endpoint
    finally:
        endpoint.shutdown()
        endpoint.server_close()
        thread.join()


def ask(url: str) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request(
            "POST", parts.path + "/v1/messages", ASK, {"content-type": "application/json"}
        )
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def is_cut(url: str) -> bool:
    """Whether the answer breaks off, as the network would break it off."""
    try:
        ask(url)
    except (http.client.HTTPException, OSError):
        return True
    return False


MEGABYTE = b"x" * (1 << 20)
DELTA = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "y" * 60_000})


@pytest.mark.parametrize(
    ("pieces", "content_type"),
    [
        pytest.param(
            lambda: itertools.chain([START], itertools.repeat(event("ping") * 5_000)),
            STREAM,
            marks=pytest.mark.slow,
        ),
        (lambda: itertools.chain([START, BLOCK], itertools.repeat(DELTA)), STREAM),
        pytest.param(
            lambda: itertools.chain([START, BLOCK, b"data: "], itertools.repeat(MEGABYTE)),
            STREAM,
            marks=pytest.mark.slow,
        ),
        (lambda: itertools.chain([b'{"content": "'], itertools.repeat(MEGABYTE)), WHOLE),
    ],
    ids=["pings", "text", "one event", "one piece"],
)
def test_an_answer_without_an_end_ends_the_session(
    pieces: Callable[[], Iterator[bytes]], content_type: str
) -> None:
    with gateway_to(pieces, content_type) as (gateway, endpoint):
        url = gateway.url("judge")
        assert is_cut(url)
        assert endpoint.sent < MAX_ANSWER_BYTES + (32 << 20)  # beside the limit, what sockets hold
        status, body = ask(url)
        assert (status, endpoint.requests) == (wire.REFUSED_STATUS, 1)
        assert wire.UNAVAILABLE in body.decode() and "127.0.0.1 sent an" in body.decode()


@pytest.mark.slow
def test_a_packed_answer_is_unpacked_up_to_the_limit() -> None:
    bomb = gzip.compress(bytes(MAX_ANSWER_BYTES * 4), 1)
    with gateway_to(lambda: iter([bomb]), WHOLE, "gzip") as (gateway, endpoint):
        url = gateway.url("judge")
        assert is_cut(url)
        assert "more than" in ask(url)[1].decode() and endpoint.requests == 1
    with gateway_to(lambda: iter([gzip.compress(START + BLOCK + STOP)]), STREAM, "gzip") as (
        gateway,
        _,
    ):
        assert ask(gateway.url("judge")) == (200, START + BLOCK + STOP)
    with gateway_to(lambda: iter([b"??"]), STREAM, "br") as (gateway, _):
        status, body = ask(gateway.url("judge"))
        assert status == wire.REFUSED_STATUS and "packs its answers as 'br'" in body.decode()


@pytest.mark.parametrize(
    ("answer", "content_type"),
    [
        (START + BLOCK, STREAM),
        (START + BLOCK + event("message_stop"), STREAM),
        (
            START
            + BLOCK
            + event("message_delta", delta={"stop_reason": None})
            + event("message_stop"),
            STREAM,
        ),
        (b'{"content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}', WHOLE),
    ],
    ids=["no end", "no reason", "a reason that is null", "one piece"],
)
def test_an_answer_without_a_stop_reason_is_no_answer(answer: bytes, content_type: str) -> None:
    with gateway_to(lambda: iter([answer]), content_type) as (gateway, _):
        assert is_cut(gateway.url("judge"))
        assert gateway.spent().output_tokens > 0  # it is paid for all the same


@pytest.mark.parametrize(
    ("count", "counted"), [(10**30, 10_000_000), (2**63, 10_000_000), (10_000, 10_000)]
)
def test_counts_of_tokens_are_clamped(count: int, counted: int) -> None:
    meter = Meter()
    meter.read_body(
        {"usage": {"input_tokens": count, "output_tokens": count}, "stop_reason": "end_turn"}
    )
    assert meter.usage() == Usage(input=counted, output=counted)


def test_events_that_are_not_kept_take_no_memory_and_deep_ones_pass() -> None:
    meter = Meter()
    assert meter.feed(START + b"data: " + b"[" * 100_000 + b"\n\n") == [json.loads(START[6:])]
    assert (meter.events, meter.started) == ([], True)


def head(url: str, length: int) -> bytes:
    return f"POST {urlsplit(url).path}/v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n".encode()


def address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 0


def test_who_does_not_know_a_session_is_refused_before_the_body_is_read() -> None:
    with gateway_to(lambda: iter([START + BLOCK + STOP])) as (gateway, endpoint):
        url = gateway.url("judge")
        with socket.create_connection(address(url), timeout=10) as stranger:
            stranger.sendall(head(url[:-1], 60_000_000))
            assert b" 404 " in stranger.recv(100)
        with socket.create_connection(address(url), timeout=10) as stranger:
            stranger.sendall(head(url, 1 << 40))
            assert b" 413 " in stranger.recv(100)
        assert endpoint.requests == 0
        assert ask(url)[0] == 200


def test_bodies_of_many_requests_together_are_bounded() -> None:
    with (
        gateway_to(lambda: iter([START + BLOCK + STOP])) as (gateway, _),
        contextlib.ExitStack() as stack,
    ):
        url = gateway.url("judge")
        peers = [
            stack.enter_context(socket.create_connection(address(url), timeout=10))
            for _ in range(5)
        ]
        for peer in peers:
            peer.sendall(head(url, 60_000_000))
        answers = [peer for peer in peers if _is_answered(peer)]
        assert len(answers) == 1


def _is_answered(peer: socket.socket) -> bool:
    peer.settimeout(1)
    try:
        return b" 413 " in peer.recv(100)
    except TimeoutError:
        return False


def test_connections_that_say_nothing_do_not_keep_an_agent_out() -> None:
    with (
        gateway_to(lambda: iter([START + BLOCK + STOP])) as (gateway, _),
        contextlib.ExitStack() as stack,
    ):
        url = gateway.url("judge")
        peers = [
            stack.enter_context(socket.create_connection(address(url), timeout=10))
            for _ in range(MAX_STRANGERS)
        ]
        for peer in peers:
            peer.sendall(b"POST /")
        assert ask(url)[0] == 200
        newcomers = [
            stack.enter_context(socket.create_connection(address(url), timeout=10))
            for _ in range(3)
        ]
        assert peers[0].recv(1) == b"" and len(newcomers) == 3  # the oldest makes room
        assert ask(url)[0] == 200
