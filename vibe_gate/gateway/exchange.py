"""One request of an agent, from its arrival to the last byte of its answer."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from vibe_gate.domain import wire
from vibe_gate.errors import GatewayError
from vibe_gate.gateway.cassette import Cassette, joined
from vibe_gate.gateway.ledger import Bill, SessionLine, useful_tokens, wanted_tokens
from vibe_gate.gateway.normal import Json, normal_request
from vibe_gate.gateway.upstream import Cut, Unreachable
from vibe_gate.gateway.usage import CHARACTERS_PER_TOKEN, Meter, Usage

if TYPE_CHECKING:
    from vibe_gate.gateway.forward import UpstreamResponse
    from vibe_gate.gateway.server import Gateway

MESSAGES = "/v1/messages"
COUNT_TOKENS = "/v1/messages/count_tokens"

MAX_REQUEST_BYTES = 64 << 20
"""Twice what the API accepts."""

SILENCE_S = 600.0
"""How long the upstream may say nothing; the session's own clock is shorter as a rule."""

USED_UP = 0.95
"""An answer that took this share of a lowered limit was cut by us; one shorter was cut by the model's own limit."""

_PASSED_HEADERS = ("content-type", "retry-after", "retry-after-ms", "x-should-retry", "request-id")


class Exchange:
    """One POST of one session, answered from the upstream or from the cassette."""

    def __init__(self, gateway: Gateway, handler: Handler, line: SessionLine, path: str) -> None:
        self._gateway = gateway
        self._handler = handler
        self._line = line
        self._path = path
        self._body: Json = {}
        self._meter = Meter()
        self._granted = 0  # output tokens that the request was lowered to; 0 where it was not

    def run(self, raw: bytes) -> None:
        """Answer the request with the body `raw`."""
        body = _json(raw)
        if body is None:
            self._handler.send_error_json(400, "invalid_request_error", "The request is not a JSON object.")
            return
        self._body = body
        if self._path.partition("?")[0] == COUNT_TOKENS:
            self._count_tokens(raw)
        elif self._line.ended:
            self._refuse(self._line.ended, "This session is over.")
        elif self._gateway.cassette is not None and self._gateway.mode == "replay":
            self._replay(self._gateway.cassette)
        else:
            self._forward(body, raw)

    # From the cassette.

    def _replay(self, cassette: Cassette) -> None:
        request = normal_request(self._body, self._line.placeholders)
        response = cassette.next(request, self._line.placeholders)
        if response is None:
            self._gateway.miss(f"{self._line.node_id}: {cassette.difference(request)}")
            self._refuse(wire.UNMATCHED, "The cassette holds no answer to this request.")
            return
        events = response.get("events")
        if events is None:
            headers = {"retry-after": response["retry_after"]} if response.get("retry_after") else {}
            self._handler.send_whole(int(response["status"]), headers, json.dumps(response.get("body")).encode())
            return
        stream = b"".join(f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n".encode() for event in events)
        self._meter.feed(stream)
        self._after()
        with self._handler.stream(200, {}) as send:
            send(stream)

    # From the upstream.

    def _forward(self, body: Json, raw: bytes) -> None:
        expected, wanted = self._line.expected(len(raw)), wanted_tokens(body)
        leave = self._gateway.ledger.reserve(str(body.get("model")), expected, wanted, useful_tokens(body))
        if leave is None:
            self._refuse(wire.BUDGET_REACHED, "What is left of the budget does not pay for this request.")
            return
        sent = raw
        if leave.max_tokens < wanted:
            self._granted = leave.max_tokens
            sent = json.dumps(body | {"max_tokens": leave.max_tokens}).encode()
        bill, unmetered = Bill(self._gateway.ledger, self._line, leave, len(raw)), Usage()
        try:
            with self._open(sent) as answer:
                unmetered = expected if answer.status < 400 else Usage()
                self._pass(answer, bill)
        except Unreachable as error:
            bill.settle(Usage())
            self._handler.send_error_json(502, "api_error", str(error))
        except (Cut, OSError):  # OSError: the agent went away
            self._handler.cut()
        finally:
            bill.settle(self._meter.usage() if self._meter.started else unmetered)

    @contextlib.contextmanager
    def _open(self, sent: bytes) -> Iterator[UpstreamResponse]:
        client = self._gateway.client
        if client is None:
            raise Unreachable("The gateway has no upstream.")
        answer = client.post(self._path, dict(self._handler.headers.items()), sent, SILENCE_S)
        with contextlib.closing(answer):
            yield answer

    def _pass(self, answer: UpstreamResponse, bill: Bill) -> None:
        """Hand the answer on as it comes.

        It is counted and kept before its last bytes leave: whatever the agent does
        next must find that done.
        """
        headers = {name: answer.headers[name] for name in _PASSED_HEADERS if name in answer.headers}
        if answer.streams:
            with self._handler.stream(answer.status, headers) as send:
                for chunk in answer.chunks():
                    self._meter.feed(chunk)
                    if self._meter.complete:
                        self._conclude(bill, {"status": answer.status, "events": joined(self._meter.events)})
                    send(chunk)
            return
        whole = b"".join(answer.chunks())
        body = _json(whole)
        if body is not None:
            if answer.status < 400:
                self._meter.whole(body)
            later = {"retry_after": headers["retry-after"]} if "retry-after" in headers else {}
            self._conclude(bill, {"status": answer.status, "body": body} | later)
        self._handler.send_whole(answer.status, headers, whole)

    def _conclude(self, bill: Bill, response: Json) -> None:
        if not bill.settled:
            bill.settle(self._meter.usage())
            self._after()
            self._record(response)

    def _record(self, response: Json) -> None:
        if self._gateway.mode != "record" or self._gateway.cassette is None:
            return
        places = self._line.placeholders
        try:
            self._gateway.cassette.write(self._line.node_id, normal_request(self._body, places), response, places)
        except GatewayError as error:
            self._gateway.fail(str(error))

    # Both ways.

    def _after(self) -> None:
        """After a last word, the session's further requests are refused; if we cut it short, as a matter of budget."""
        if self._meter.stop_reason not in wire.FINAL_STOPS:
            return
        used_up = self._granted and self._meter.usage().output >= self._granted * USED_UP
        if used_up and self._meter.stop_reason == "max_tokens":
            self._gateway.ledger.reached()
            self._line.ended = wire.BUDGET_REACHED
        else:
            self._line.ended = wire.CONVERSATION_ENDED

    def _refuse(self, mark: str, sentence: str) -> None:
        self._handler.send_error_json(wire.REFUSED_STATUS, "permission_error", f"{mark} {sentence}")

    def _count_tokens(self, raw: bytes) -> None:
        """Answered from a guess: it is a convenience of the agent's, and a guess is free and the same every time."""
        body = json.dumps({"input_tokens": int(len(raw) / CHARACTERS_PER_TOKEN) + 1}).encode()
        self._handler.send_whole(200, {}, body)


def _json(whole: bytes) -> Json | None:
    try:
        body = json.loads(whole)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.1 for agents on this machine that know their session's address."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else every small event waits for an acknowledgement
    server: Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401 the base class' signature
        """Say nothing on stderr."""

    def do_HEAD(self) -> None:
        """A look whether somebody is there."""
        self.send_whole(200, {}, b"{}")

    def do_GET(self) -> None:
        """Agents may list models; ours are told theirs."""
        path = self.path.partition("?")[0]
        if path.endswith("/v1/models"):
            self.send_whole(200, {}, b'{"data": [], "has_more": false}')
        else:
            self.send_error_json(404, "not_found_error", "Only /v1/messages is served here.")

    def do_POST(self) -> None:
        """A request to the model."""
        raw = self._body()
        token, _, path = self.path.removeprefix("/").partition("/")
        exchange = self.server.exchange(self, token, "/" + path)
        if raw is None:
            self.close_connection = True
            self.send_error_json(413, "request_too_large", "The request is too large, or does not say how large it is.")
        elif exchange is None or ("/" + path).partition("?")[0] not in (MESSAGES, COUNT_TOKENS):
            self.send_error_json(404, "not_found_error", "Only /v1/messages of a session is served here.")
        else:
            with self.server.busy(self.connection):
                exchange.run(raw)

    def _body(self) -> bytes | None:
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MAX_REQUEST_BYTES:
            return None
        return self.rfile.read(int(length))

    def send_whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """An answer in one piece."""
        self.send_response(status)
        for name, value in ({"content-type": "application/json"} | dict(headers)).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error_json(self, status: int, kind: str, message: str) -> None:
        """An error in the form of the Messages API."""
        body = {"type": "error", "error": {"type": kind, "message": message}}
        self.send_whole(status, {}, json.dumps(body).encode())

    @contextlib.contextmanager
    def stream(self, status: int, headers: Mapping[str, str]) -> Iterator[Callable[[bytes], None]]:
        """An answer piece by piece; left by an exception, it never gets its end."""
        self.send_response(status)
        for name, value in ({"content-type": "text/event-stream"} | dict(headers)).items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

        def send(chunk: bytes) -> None:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            self.wfile.flush()

        yield send
        self.wfile.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """Break the connection off, as the network would."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class Server(ThreadingHTTPServer):
    """Listens on loopback only; knows which connections are busy, so that closing can cut them."""

    daemon_threads = True
    request_queue_size = 128
    exchange: Callable[[Handler, str, str], Exchange | None]

    def __init__(self, address: tuple[str, int], handler: type[Handler]) -> None:
        super().__init__(address, handler)
        self._busy: set[socket.socket] = set()
        self._idle = threading.Condition()

    def handle_error(self, request: object, client_address: object) -> None:
        """An agent that went away is not worth a traceback."""

    @contextlib.contextmanager
    def busy(self, connection: socket.socket) -> Iterator[None]:
        """While an exchange is under way."""
        with self._idle:
            self._busy.add(connection)
        try:
            yield
        finally:
            with self._idle:
                self._busy.discard(connection)
                self._idle.notify_all()

    def cut(self) -> None:
        """Break off every exchange."""
        with self._idle:
            for connection in self._busy:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def wait_idle(self, seconds: float) -> None:
        """Wait until every exchange is over, but no longer than this."""
        with self._idle:
            self._idle.wait_for(lambda: not self._busy, timeout=seconds)
