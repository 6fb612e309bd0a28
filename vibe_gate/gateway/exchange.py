"""One request of an agent, from its arrival to the last byte of its answer."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import random
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from vibe_gate.domain import wire
from vibe_gate.errors import GatewayError
from vibe_gate.gateway.cassette import Cassette, joined
from vibe_gate.gateway.ledger import Account, Ledger, Reservation
from vibe_gate.gateway.normal import Json, normal_request
from vibe_gate.gateway.upstream import Cut, Unavailable, overload
from vibe_gate.gateway.usage import CHARACTERS_PER_TOKEN, Meter, Usage

if TYPE_CHECKING:
    from requests import Response

    from vibe_gate.gateway.forward import Client

MESSAGES = "/v1/messages"
COUNT_TOKENS = "/v1/messages/count_tokens"

MAX_REQUEST_BYTES = 64 << 20
"""Twice what the API accepts."""

USEFUL_TOKENS = 1024
"""An answer with less room than this is cut before it says anything; better not to ask."""

USED_UP = 0.95
"""An answer that took this share of a lowered limit was cut by us; one shorter was cut by the model's own limit."""

WAITS_S = (0.5, 30.0)
"""The first wait for an API that is overloaded, which doubles from try to try, and the longest."""

ANSWERING_S = 5.0
"""A session with less time left than this waits no more: an answer would come too late."""

_PASSED_HEADERS = ("content-type", "request-id")

_STATUS = {"overloaded_error": 529, "api_error": 500, "rate_limit_error": 429, "timeout_error": 504}
"""Of errors in a stream, as the API would have answered a moment before."""

_UNFINISHED = frozenset({"ping", "message_start", "content_block_start", "content_block_delta"})
"""Events of a stream from which an agent can do nothing yet."""


class Relay:
    """What all exchanges of one run share: where answers come from, which sessions may ask, and what went wrong."""

    def __init__(self, ledger: Ledger, cassette: Cassette | None, placeholders: Mapping[str, str]) -> None:
        self.ledger = ledger
        self.cassette = cassette
        self.placeholders = placeholders
        self.client: Client | None = None
        """The way to the model's API; None in replay."""
        self.sessions: dict[str, Account] = {}
        """By the token in a session's address."""
        self.unmatched: list[str] = []
        """Requests that the cassette had no answer to, each with its difference to the nearest one."""
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
        self._granted = 0  # output tokens that the request was lowered to; 0 where it was not
        self._limit = ""  # the mark of what lowered it

    def run(self) -> None:
        """Answer the request."""
        if self._account.ended:
            self._refuse(self._account.ended, "This session is over.")
        elif self._relay.client is not None:
            self._forward(self._relay.client)
        elif self._relay.cassette is not None:
            self._replay(self._relay.cassette)

    def _replay(self, cassette: Cassette) -> None:
        request = normal_request(self._body, self._relay.placeholders)
        response = cassette.next(request, self._relay.placeholders)
        if response is None:
            self._relay.unmatched.append(f"{self._account.node_id}: {cassette.difference(request)}")
            self._refuse(wire.UNMATCHED, "The cassette holds no answer to this request.")
            return
        if response.events is None:
            if response.status < 400 and isinstance(response.body, dict):
                self._meter.whole(response.body)
                self._count_replayed()
            self._handler.send_whole(response.status, {}, json.dumps(response.body).encode())
            return
        lines = [f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n" for event in response.events]
        stream = "".join(lines).encode()
        self._meter.feed(stream)
        self._count_replayed()
        self._after()
        with self._handler.stream(200, {}) as send:
            send(stream)

    def _count_replayed(self) -> None:
        self._relay.ledger.count_replayed(self._account, str(self._body.get("model")), self._meter.usage())

    def _forward(self, client: Client) -> None:
        """Ask until there is an answer: an overloaded API is waited for while the session has time.

        Nothing is set aside of the budget meanwhile. An agent that goes away ends the wait.
        """
        waited, wait, model = 0.0, WAITS_S[0], str(self._body.get("model"))
        while (unavailable := self._attempt(client)) is not None:
            asked = wait if unavailable.after_s is None else max(unavailable.after_s, WAITS_S[0])
            pause = asked * random.uniform(1.0, 1.25)  # noqa: S311  sessions must not come back together
            left = self._account.until - time.monotonic() - ANSWERING_S
            lasting = unavailable.patience_s == math.inf
            if pause > min(left, unavailable.patience_s - waited):
                when = " and did not recover in time" if lasting else ""
                self._refuse(wire.UNAVAILABLE, f"{unavailable}{when}.")
                return
            self._tell_wait(model, unavailable)
            began = time.time_ns()
            is_there = self._handler.wait(pause)
            self._account.waits.append((began // 1_000_000, time.time_ns() // 1_000_000))
            if not is_there:
                return
            waited, wait = waited + (0.0 if lasting else pause), min(wait * 2, WAITS_S[1])
        self._relay.waiting.discard(model)

    def _tell_wait(self, model: str, why: Unavailable) -> None:
        """Once for all requests that wait for the model at the same time."""
        if model not in self._relay.waiting:
            self._relay.waiting.add(model)
            self._relay.on_wait(f"{model}: {why}")

    def _attempt(self, client: Client) -> Unavailable | None:
        """Ask once and hand the answer on, or return why there is none."""
        self._meter = Meter()
        expected, wanted = self._account.expected(len(self._raw)), wanted_tokens(self._body)
        ledger = self._relay.ledger
        model, useful = str(self._body.get("model")), useful_tokens(self._body)
        leave = ledger.reserve(self._account, model, expected, wanted, useful)
        if leave is None:
            self._refuse(self._account.limit, "What is left of the budget does not pay for this request.")
            return None
        sent, self._granted = self._raw, 0
        if leave.max_tokens < wanted:
            self._granted, self._limit = leave.max_tokens, leave.limit
            sent = json.dumps(self._body | {"max_tokens": leave.max_tokens}).encode()
        unmetered = Usage()
        try:
            with contextlib.closing(client.post(self._handler.route, dict(self._handler.headers), sent)) as answer:
                unmetered = expected if answer.status_code < 400 else Usage()
                self._pass(answer, leave, client)
        except Unavailable as error:
            unmetered = Usage()
            return error
        except (Cut, OSError):  # OSError: the agent went away
            self._handler.cut()
        finally:
            self._settle(leave, self._meter.usage() if self._meter.started else unmetered)
        return None

    def _pass(self, answer: Response, leave: Reservation, client: Client) -> None:
        """Hand the answer on as it comes.

        It is counted and kept before its last bytes leave: whatever the agent does
        next must find that done.
        """
        status = answer.status_code
        headers = {name: answer.headers[name] for name in _PASSED_HEADERS if name in answer.headers}
        if "text/event-stream" in answer.headers.get("content-type", ""):
            pieces = self._metered(client.chunks(answer), client.host)
            first = next(pieces, b"")
            with self._handler.stream(status, headers) as send:
                for chunk in itertools.chain([first], pieces):
                    if self._meter.complete:
                        self._conclude(leave, {"status": status, "events": joined(self._meter.events)})
                    send(chunk)
            return
        whole = b"".join(client.chunks(answer))
        body = _json(whole)
        if body is not None:
            if status < 400:
                self._meter.whole(body)
            self._conclude(leave, {"status": status, "body": body})
        self._handler.send_whole(status, headers, whole)

    def _metered(self, chunks: Iterator[bytes], host: str | None) -> Iterator[bytes]:
        """The chunks of a stream, held back until its first block is whole. Raises Unavailable if it breaks off before.

        An overload later than that is the agent's program's to get over: it goes on from the blocks that it has.
        """
        held, known, whole = b"", 0, False
        for chunk in chunks:
            self._meter.feed(chunk)
            if whole:
                yield chunk
                continue
            held += chunk
            new, known = self._meter.events[known:], len(self._meter.events)
            for event in new:
                self._raise_overload(event, host)
            if whole := any(event.get("type") not in _UNFINISHED for event in new):
                yield held
            elif not self._handler.wait(0):
                raise BrokenPipeError  # the agent went away: what follows would be paid for in vain
        if not whole and held:
            yield held

    @staticmethod
    def _raise_overload(event: Json, host: str | None) -> None:
        error = event.get("error")
        overloaded = overload(host, _STATUS.get(str(error.get("type")), 0), {}) if isinstance(error, dict) else None
        if overloaded:
            raise overloaded

    def _conclude(self, leave: Reservation, response: Json) -> None:
        if leave not in self._account.open:
            return
        self._settle(leave, self._meter.usage())
        self._after()
        if self._relay.cassette is None:
            return
        places = self._relay.placeholders
        try:
            self._relay.cassette.write(self._account.node_id, normal_request(self._body, places), response, places)
        except GatewayError as error:
            self._relay.failures.append(error)

    def _settle(self, leave: Reservation, used: Usage) -> None:
        if leave in self._account.open:
            self._relay.ledger.settle(leave, self._account, used)
            self._account.learn(len(self._raw), used)

    def _after(self) -> None:
        """After a last word, the session's further requests are refused; if we cut it short, as a matter of budget."""
        if self._meter.stop_reason not in wire.FINAL_STOPS:
            return
        cut = self._meter.stop_reason == "max_tokens"
        if cut and self._granted and self._meter.usage().output >= self._granted * USED_UP:
            if self._limit == wire.BUDGET_REACHED:
                self._relay.ledger.reached = True
            self._account.ended = self._limit
        elif not (cut and self._account.working):
            self._account.ended = wire.CONVERSATION_ENDED

    def _refuse(self, mark: str, sentence: str) -> None:
        self._handler.send_error_json(wire.REFUSED_STATUS, "permission_error", f"{mark} {sentence}")


def useful_tokens(body: Mapping[str, Any]) -> int:
    """The fewest output tokens with which this request makes sense: thinking must fit in besides the answer."""
    thinking = body.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    return USEFUL_TOKENS + (budget if isinstance(budget, int) else 0)


def wanted_tokens(body: Mapping[str, Any]) -> int:
    """The output that the request asks for; one without a limit is left to the API to refuse."""
    wanted = body.get("max_tokens")
    return wanted if isinstance(wanted, int) and wanted > 0 else USEFUL_TOKENS


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
    route = ""
    """The path and query of the request, behind the session's token."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401 the base class' signature
        """Say nothing on stderr."""

    def do_HEAD(self) -> None:
        """A check whether the server is there."""
        self.send_whole(200, {}, b"")

    def do_POST(self) -> None:
        """A request to the model, or to count its tokens."""
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MAX_REQUEST_BYTES:
            self.close_connection = True
            self.send_error_json(413, "request_too_large", "The request is too large, or does not say how large it is.")
            return
        raw = self.rfile.read(int(length))
        token, _, route = self.path.removeprefix("/").partition("/")
        self.route = f"/{route}"
        account, path = self.server.relay.sessions.get(token), self.route.partition("?")[0]
        body = _json(raw)
        if account is None or path not in (MESSAGES, COUNT_TOKENS):
            self.send_error_json(404, "not_found_error", "Only /v1/messages of a session is served here.")
        elif body is None:
            self.send_error_json(400, "invalid_request_error", "The request is not a JSON object.")
        elif path == COUNT_TOKENS:  # a guess: it is free, and the same every time
            self.send_whole(200, {}, json.dumps({"input_tokens": int(len(raw) / CHARACTERS_PER_TOKEN) + 1}).encode())
        else:
            Exchange(self, account, body, raw).run()

    def send_whole(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """An answer in one piece. An error is the last word: what another try may cure was tried again here."""
        own = {"content-length": str(len(body))} | ({"x-should-retry": "false"} if status >= 400 else {})
        self._begin(status, {"content-type": "application/json"} | headers | own)
        self.wfile.write(body)

    def send_error_json(self, status: int, kind: str, message: str) -> None:
        """An error in the form of the Messages API."""
        body = {"type": "error", "error": {"type": kind, "message": message}}
        self.send_whole(status, {}, json.dumps(body).encode())

    @contextlib.contextmanager
    def stream(self, status: int, headers: dict[str, str]) -> Iterator[Callable[[bytes], object]]:
        """An answer piece by piece; left by an exception, it never gets its end."""
        self._begin(status, {"content-type": "text/event-stream"} | headers | {"transfer-encoding": "chunked"})
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

    def cut(self) -> None:
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

    def handle_error(self, request: object, client_address: object) -> None:
        """An agent that went away is not worth a traceback."""
