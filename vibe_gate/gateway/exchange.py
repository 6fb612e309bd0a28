"""One request of an agent, from its arrival to the last byte of its answer."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import random
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from vibe_gate.domain import wire
from vibe_gate.errors import GatewayError
from vibe_gate.gateway.cassette import Cassette, join_path
from vibe_gate.gateway.ledger import Account, Ledger, Reservation
from vibe_gate.gateway.normal_request import Json, normal_request
from vibe_gate.gateway.token_usage import CHARACTERS_PER_TOKEN, MAX_EVENT_BYTES, Meter, Usage
from vibe_gate.gateway.upstream import Cut, Oversized, Unavailable, describe_overload

if TYPE_CHECKING:
    from requests import Response

    from vibe_gate.gateway.forward import Client

MESSAGES = "/v1/messages"
COUNT_TOKENS = "/v1/messages/count_tokens"

MAX_REQUEST_BYTES = 64 << 20
"""Twice what the API accepts."""

MAX_BYTES_AT_ONCE = 256 << 20
"""Of requests that are in memory together."""

MAX_STRANGERS = 64
"""Connections that have not named a session yet: beyond that the oldest is closed."""

MAX_CONNECTIONS = 512
"""Connections, each with a thread; beyond that none is accepted."""

ARRIVAL_S = 20.0
"""How long a connection may take to name its session, and a request to go on arriving."""

IDLE_S = 300.0
"""How long a connection of a session may be silent between two requests."""

USEFUL_TOKENS = 1024
"""An answer with less room than this is cut before it says anything; better not to ask."""

USED_UP = 0.95
"""An answer that took this share of a lowered limit was cut by us; one shorter was cut by the
model's own limit.
"""

WAITS_S = (0.5, 30.0)
"""The first wait for an API that is overloaded, which doubles from try to try, and the longest."""

ANSWERING_S = 5.0
"""A session with less time left than this waits no more: an answer would come too late."""

MAX_LENGTH_DIGITS = 12
"""Of a content-length."""

_PASSED_HEADERS = ("content-type", "request-id")

_STATUS = {"overloaded_error": 529, "api_error": 500, "rate_limit_error": 429, "timeout_error": 504}
"""Of errors in a stream, as the API would have answered a moment before."""

_UNFINISHED = frozenset({"ping", "message_start", "content_block_start", "content_block_delta"})
"""Events of a stream from which an agent can do nothing yet."""


class Relay:
    """What all exchanges of one run share: where answers come from, which sessions may ask, and
    what went wrong.
    """

    def __init__(
        self, ledger: Ledger, cassette: Cassette | None, placeholders: Mapping[str, str]
    ) -> None:
        self.ledger = ledger
        self.cassette = cassette
        self.placeholders = placeholders
        self.client: Client | None = None
        """The way to the model's API; None in replay."""
        self.sessions: dict[str, Account] = {}
        """By the token in a session's address."""
        self.unmatched: list[str] = []
        """Requests that the cassette had no answer to, each with its difference to the nearest
        one.
        """
        self.failures: list[GatewayError] = []
        """What went wrong in recording; the first is raised when the gateway closes."""
        self.waiting: set[str] = set()
        """Models that a request waits for, of which `on_wait` has heard."""
        self.on_wait: Callable[[str], object] = lambda clause: None
        """Hears, in threads of the gateway, why a request waits for the model's API."""


class Exchange:
    """One POST of one session, answered from the upstream or from the cassette."""

    def __init__(self, handler: Handler, account: Account, body: Json, raw: bytes) -> None:
        self._handler = handler
        self._relay = handler.server.relay
        self._account = account
        self._body = body
        self._raw = raw
        self._meter = Meter()
        self._granted = 0
        """Output tokens that the request was lowered to; 0 if it was not."""
        self._limit = ""
        """The mark of what lowered it."""

    def run(self) -> None:
        """Answer the request."""
        if self._account.ended:
            self._refuse(self._account.ended, self._account.ended_because)
        elif self._relay.client is not None:
            self._forward(self._relay.client)
        elif self._relay.cassette is not None:
            self._replay(self._relay.cassette)

    def _normal_request(self) -> Json:
        """The request as a cassette has it."""
        return normal_request(self._body, self._relay.placeholders, self._account.setup)

    def _replay(self, cassette: Cassette) -> None:
        request = self._normal_request()
        response = cassette.next(request, self._relay.placeholders)
        if response is None:
            self._relay.unmatched.append(f"{self._account.node_id}: {cassette.difference(request)}")
            self._refuse(wire.UNMATCHED, "The cassette holds no answer to this request.")
            return
        if response.events is None:
            if response.status < 400 and isinstance(response.body, dict):
                self._meter.read_body(response.body)
                self._count_replayed()
            self._handler.send_whole(response.status, {}, json.dumps(response.body).encode())
            return
        parts = []
        for event in response.events:
            parts.append(f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n")
        stream = "".join(parts).encode()
        self._meter.feed(stream)
        self._count_replayed()
        self._after()
        with self._handler.stream(200, {}) as send:
            send(stream)

    def _count_replayed(self) -> None:
        self._relay.ledger.count_replayed(
            self._account, str(self._body.get("model")), self._meter.usage()
        )

    def _forward(self, client: Client) -> None:
        """Ask until there is an answer: an overloaded API is waited for while the session has time.

        Nothing is set aside of the budget meanwhile. An agent that goes away ends the wait.
        """
        model = str(self._body.get("model"))
        shortest_s, longest_s = WAITS_S
        wait_s = shortest_s
        waited_s = 0.0
        while (unavailable := self._attempt(client)) is not None:
            pause_s = wait_s
            if unavailable.after_s is not None:
                pause_s = max(unavailable.after_s, shortest_s)
            pause_s *= random.uniform(1.0, 1.25)  # noqa: S311  sessions must not come back together
            time_left_s = self._account.until - time.monotonic() - ANSWERING_S
            if pause_s > min(time_left_s, unavailable.patience_s - waited_s):
                self._give_up(unavailable)
                return
            self._tell_wait(model, unavailable)
            if not self._wait(pause_s):
                return
            if not _is_overload(unavailable):
                waited_s += pause_s
            wait_s = min(wait_s * 2, longest_s)
        self._relay.waiting.discard(model)

    def _give_up(self, unavailable: Unavailable) -> None:
        """Answer that the model's API did not."""
        ending = " and did not recover in time" if _is_overload(unavailable) else ""
        mark = wire.UNAVAILABLE if unavailable.is_reached else wire.UNREACHABLE
        self._refuse(mark, f"{unavailable}{ending}.")

    def _wait(self, pause_s: float) -> bool:
        """Wait, as the account notes; whether the agent is still there."""
        began_ms = time.time_ns() // 1_000_000
        is_there = self._handler.wait(pause_s)
        self._account.waits.append((began_ms, time.time_ns() // 1_000_000))
        return is_there

    def _tell_wait(self, model: str, unavailable: Unavailable) -> None:
        """Once for all requests that wait for the model at the same time."""
        if model not in self._relay.waiting:
            self._relay.waiting.add(model)
            self._relay.on_wait(f"{model}: {unavailable}")

    def _attempt(self, client: Client) -> Unavailable | None:
        """Ask once and hand the answer on, or return why there is none."""
        self._meter = Meter(keeps_events=self._relay.cassette is not None)
        expected = self._account.expected(len(self._raw))
        reservation = self._reserve(expected)
        if reservation is None:
            self._refuse(
                self._account.limit, "What is left of the budget does not pay for this request."
            )
            return None
        request = self._request_to_send(reservation)
        unmetered = Usage()
        is_cut = False
        try:
            headers = dict(self._handler.headers)
            answer = client.post(self._handler.route, headers, request)
            with contextlib.closing(answer):
                if answer.status_code < 400:
                    unmetered = expected
                self._pass(answer, reservation, client)
        except Unavailable as error:
            unmetered = Usage()
            return error
        except Oversized as error:  # asking again would bring as much
            self._account.ended = wire.UNAVAILABLE
            self._account.ended_because = f"{client.host} {error}."
            is_cut = True
        except (Cut, OSError):  # OSError: the agent went away
            is_cut = True
        finally:
            self._settle(reservation, self._meter.usage() if self._meter.started else unmetered)
        if is_cut:
            self._handler.break_off()
        return None

    def _reserve(self, expected: Usage) -> Reservation | None:
        """Set aside what the request may cost; None if that is not there."""
        model = str(self._body.get("model"))
        max_tokens = max_tokens_of(self._body)
        useful = useful_tokens(self._body)
        return self._relay.ledger.reserve(self._account, model, expected, max_tokens, useful)

    def _request_to_send(self, reservation: Reservation) -> bytes:
        """The agent's request, with no more output than is paid for."""
        self._granted = 0
        if reservation.max_tokens >= max_tokens_of(self._body):
            return self._raw
        self._granted = reservation.max_tokens
        self._limit = reservation.limit
        return json.dumps(self._body | {"max_tokens": reservation.max_tokens}).encode()

    def _pass(self, answer: Response, reservation: Reservation, client: Client) -> None:
        """Hand the answer on as it comes.

        It is counted and kept before its last bytes go: whatever the agent does next must find that
        done.
        """
        if "text/event-stream" in answer.headers.get("content-type", ""):
            self._pass_stream(answer, reservation, client)
        else:
            self._pass_whole(answer, reservation, client)

    def _pass_stream(self, answer: Response, reservation: Reservation, client: Client) -> None:
        status = answer.status_code
        pieces = self._metered(client.chunks(answer), client.host)
        first_piece = next(pieces, b"")
        with self._handler.stream(status, _headers_to_pass(answer)) as send:
            for piece in itertools.chain([first_piece], pieces):
                if self._meter.complete:
                    self._require_stop_reason()
                    events = join_path(self._meter.events)
                    self._conclude(reservation, {"status": status, "events": events})
                send(piece)
            if status < 300:
                self._require_stop_reason()

    def _pass_whole(self, answer: Response, reservation: Reservation, client: Client) -> None:
        status = answer.status_code
        content = self._collect(client.chunks(answer))
        body = _json(content)
        if body is not None:
            if status < 400:
                self._meter.read_body(body)
            self._conclude(reservation, {"status": status, "body": body})
        if status < 300:
            self._require_stop_reason()
        self._handler.send_whole(status, _headers_to_pass(answer), content)

    def _require_stop_reason(self) -> None:
        """Raises Cut: an answer that ends without one is not the model's whole answer, whatever it
        says until then.
        """
        if not self._meter.failed and not (self._meter.complete and self._meter.stop_reason):
            raise Cut

    def _collect(self, chunks: Iterator[bytes]) -> bytes:
        """An answer in one piece. BrokenPipeError if the agent goes away before it is there."""
        content = bytearray()
        for chunk in chunks:
            content += chunk
            if not self._handler.wait(0):
                raise BrokenPipeError
        return bytes(content)

    def _metered(self, chunks: Iterator[bytes], host: str | None) -> Iterator[bytes]:
        """The chunks of a stream, held back until its first block is whole. Raises Unavailable if
        it breaks off before.

        An overload later than that is the agent's program's to get over: it goes on from the blocks
        that it has.
        """
        held_back = bytearray()
        has_block = False
        for chunk in chunks:
            events = self._meter.feed(chunk)
            if has_block:
                yield chunk
                continue
            held_back += chunk
            if len(held_back) > MAX_EVENT_BYTES:
                raise Oversized(
                    f"sent an answer of more than {MAX_EVENT_BYTES:,} bytes without a whole block"
                )
            for event in events:
                self._raise_overload(event, host)
            has_block = any(event.get("type") not in _UNFINISHED for event in events)
            if has_block:
                yield bytes(held_back)
            elif not self._handler.wait(0):
                raise BrokenPipeError  # the agent went away: what follows would be paid for in vain
        if not has_block and held_back:
            yield bytes(held_back)

    @staticmethod
    def _raise_overload(event: Json, host: str | None) -> None:
        error = event.get("error")
        if not isinstance(error, dict):
            return
        overloaded = describe_overload(host, _STATUS.get(str(error.get("type")), 0), {})
        if overloaded:
            raise overloaded

    def _conclude(self, reservation: Reservation, response: Json) -> None:
        if reservation not in self._account.open:
            return
        self._settle(reservation, self._meter.usage())
        self._after()
        if self._relay.cassette is None:
            return
        places = self._relay.placeholders
        try:
            self._relay.cassette.write(
                self._account.node_id, self._normal_request(), response, places
            )
        except GatewayError as error:
            self._relay.failures.append(error)

    def _settle(self, reservation: Reservation, used: Usage) -> None:
        if reservation in self._account.open:
            self._relay.ledger.settle(reservation, self._account, used)
            self._account.learn(len(self._raw), used)

    def _after(self) -> None:
        """After a last word, the session's further requests are refused; if we cut it short, as a
        matter of budget.
        """
        if self._meter.stop_reason not in wire.FINAL_STOPS:
            return
        reached_max_tokens = self._meter.stop_reason == "max_tokens"
        if reached_max_tokens and self._has_used_up_grant():
            if self._limit == wire.BUDGET_REACHED:
                self._relay.ledger.reached = True
            self._account.ended = self._limit
        elif not (reached_max_tokens and self._account.working):
            self._account.ended = wire.CONVERSATION_ENDED

    def _has_used_up_grant(self) -> bool:
        """Whether the request was lowered, and the answer used what it was lowered to."""
        if not self._granted:
            return False
        return self._meter.usage().output >= self._granted * USED_UP

    def _refuse(self, mark: str, sentence: str) -> None:
        self._handler.send_error_json(wire.REFUSED_STATUS, "permission_error", f"{mark} {sentence}")


def _is_overload(unavailable: Unavailable) -> bool:
    """Whether it may pass: then it is waited for as long as the session has time."""
    return unavailable.patience_s == math.inf


def _headers_to_pass(answer: Response) -> dict[str, str]:
    return {name: answer.headers[name] for name in _PASSED_HEADERS if name in answer.headers}


def useful_tokens(body: Mapping[str, Any]) -> int:
    """The fewest output tokens with which this request makes sense: thinking must fit in besides
    the answer.
    """
    thinking = body.get("thinking")
    if not isinstance(thinking, dict):
        return USEFUL_TOKENS
    thinking_tokens = thinking.get("budget_tokens")
    if not isinstance(thinking_tokens, int):
        return USEFUL_TOKENS
    return USEFUL_TOKENS + thinking_tokens


def max_tokens_of(body: Mapping[str, Any]) -> int:
    """The output that the request asks for; one without a limit is left to the API to refuse."""
    max_tokens = body.get("max_tokens")
    if isinstance(max_tokens, int) and max_tokens > 0:
        return max_tokens
    return USEFUL_TOKENS


def _json(content: bytes) -> Json | None:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.1 for agents on this machine that know their session's address."""

    protocol_version = "HTTP/1.1"
    timeout = ARRIVAL_S
    disable_nagle_algorithm = True  # else every small event waits for an acknowledgement
    server: Server
    route = ""
    """The path and query of the request, behind the session's token."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401 the base class' signature
        """Say nothing on stderr."""

    def do_HEAD(self) -> None:
        """A check whether the server is there."""
        self.send_whole(200, {}, b"")

    def do_POST(self) -> None:
        """A request to the model, or to count its tokens."""
        token, _, route = self.path.removeprefix("/").partition("/")
        self.route = f"/{route}"
        path = self.route.partition("?")[0]
        account = self.server.relay.sessions.get(token)
        if account is None or path not in (MESSAGES, COUNT_TOKENS):
            self._refuse_unread(
                404, "not_found_error", "Only /v1/messages of a session is served here."
            )
            return
        self.server.know(self.connection)
        length = self._content_length()
        if length is None or length > MAX_REQUEST_BYTES or not self.server.begin_request(length):
            self._refuse_unread(
                413,
                "request_too_large",
                "The request is too large, or does not say how large it is.",
            )
            return
        try:
            self.connection.settimeout(ARRIVAL_S)
            raw = self.rfile.read(length)
            self.connection.settimeout(IDLE_S)
            if len(raw) == length:
                self._answer(account, path, raw)
            else:
                self.close_connection = True
        finally:
            self.server.end_request(length)

    def _content_length(self) -> int | None:
        """The bytes of the request's body, as its head says; None if it does not."""
        digits = self.headers.get("content-length", "")
        if not digits.isdecimal() or len(digits) >= MAX_LENGTH_DIGITS:
            return None
        return int(digits)

    def _refuse_unread(self, status: int, kind: str, message: str) -> None:
        """Refuse a request whose body is not read, which ends the connection."""
        self.close_connection = True
        self.send_error_json(status, kind, message)

    def _answer(self, account: Account, path: str, raw: bytes) -> None:
        body = _json(raw)
        if body is None:
            self.send_error_json(400, "invalid_request_error", "The request is not a JSON object.")
        elif path == COUNT_TOKENS:  # a guess: it is free, and the same every time
            count = int(len(raw) / CHARACTERS_PER_TOKEN) + 1
            self.send_whole(200, {}, json.dumps({"input_tokens": count}).encode())
        else:
            Exchange(self, account, body, raw).run()

    def send_whole(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """An answer in one piece. An error is the last word: what another try may cure was tried
        again here.
        """
        headers = {"content-type": "application/json", **headers, "content-length": str(len(body))}
        if status >= 400:
            headers["x-should-retry"] = "false"
        self._begin(status, headers)
        self.wfile.write(body)

    def send_error_json(self, status: int, kind: str, message: str) -> None:
        """An error in the form of the Messages API."""
        body = {"type": "error", "error": {"type": kind, "message": message}}
        self.send_whole(status, {}, json.dumps(body).encode())

    @contextlib.contextmanager
    def stream(self, status: int, headers: dict[str, str]) -> Iterator[Callable[[bytes], object]]:
        """An answer piece by piece; left by an exception, it never gets its end."""
        self._begin(
            status,
            {"content-type": "text/event-stream"} | headers | {"transfer-encoding": "chunked"},
        )
        yield lambda chunk: self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")

    def _begin(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def wait(self, seconds: float) -> bool:
        """Wait; False as soon as the agent goes away."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.connection, selectors.EVENT_READ)
            return not selector.select(seconds)

    def break_off(self) -> None:
        """Break the connection off, as the network would."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class Server(ThreadingHTTPServer):
    """Listens on loopback only."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, relay: Relay) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.relay = relay
        self._lock = threading.Lock()
        self._strangers: dict[socket.socket, float] = {}
        """Connections that have not named a session, with when they came, the oldest first."""
        self._connections = 0
        self._bytes = 0

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 the base class' signature
        """Serve a connection in a thread of its own, unless there are too many."""
        with self._lock:
            if self._connections >= MAX_CONNECTIONS:
                super().shutdown_request(request)
                return
            self._connections += 1
            self._strangers[request] = time.monotonic()
            if len(self._strangers) > MAX_STRANGERS:
                _break_off(self._strangers, next(iter(self._strangers)))
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Close connections that take too long to name a session: each byte may come just in
        time.
        """
        with self._lock:
            late = time.monotonic() - ARRIVAL_S
            for connection in [peer for peer, since in self._strangers.items() if since < late]:
                _break_off(self._strangers, connection)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 the base class' signature
        """Close a connection that has ended."""
        with self._lock:
            self._connections -= 1
            self._strangers.pop(request, None)
        super().shutdown_request(request)

    def know(self, connection: socket.socket) -> None:
        """Let a connection stay that has named a session."""
        with self._lock:
            self._strangers.pop(connection, None)

    def begin_request(self, size: int) -> bool:
        """Whether there is room for a request of so many bytes; if so, `end_request` gives it
        back.
        """
        with self._lock:
            if self._bytes + size > MAX_BYTES_AT_ONCE:
                return False
            self._bytes += size
            return True

    def end_request(self, size: int) -> None:
        """Give back the room of a request."""
        with self._lock:
            self._bytes -= size

    def handle_error(self, request: object, client_address: object) -> None:
        """An agent that went away is not worth a traceback."""


def _break_off(strangers: dict[socket.socket, float], connection: socket.socket) -> None:
    del strangers[connection]
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
