"""A scripted stand-in for the Anthropic Messages API, on loopback.

It lets a test drive a real client (the Claude Code CLI, the Agent SDK, the
``anthropic`` package) end to end without a network: the test says in advance
what "the model" will answer, turn by turn, and afterwards reads back every
request the client made.

    with ScriptedMessagesApi() as api:
        script = api.script(
            Turn(ToolUse("Read", {"file_path": "/repo/a.py"})),
            Turn(Text("a.py looks fine.")),
        )
        run_client(base_url=script.base_url)      # ANTHROPIC_BASE_URL
        assert script.finished
        assert script.requests[1].tool_results[0].text.startswith("1\t")

One server carries any number of scripts at the same time; each has its own URL
prefix (``http://127.0.0.1:PORT/scripts/ID``), so concurrent runs never share a
turn. Only the standard library is used.

What a step of a script can be:

* ``Turn(...)``: an assistant message made of ``Text``, ``Thinking`` and
  ``ToolUse`` blocks, with usage, and optionally a ``Fault`` that breaks the
  stream part-way, or pacing that trickles it;
* ``ApiError(status)``: an HTTP error with an Anthropic error body;
* ``DropConnection()``: the connection is reset before any response;
* ``Hang()``: the request is accepted and never answered;
* a function from the ``MessagesRequest`` to any of the above, for an answer
  that depends on what the client sent.

A request the script has no step for is answered with HTTP 403, which clients do
not retry (they do retry a 400, with fewer beta headers), and is recorded in
``script.unexpected``, so a wrong expectation fails at once.
Requests the client makes on the side (a session title, a topic check) can be
told apart with ``on_side_request`` so that they do not consume a step.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import socket
import struct
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

JsonObject = dict[str, Any]

# --------------------------------------------------------------------------
# What a script is made of
# --------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """A text block."""

    text: str


@dataclass(frozen=True)
class Thinking:
    """A thinking block. Clients echo the signature back, and never check it."""

    thinking: str
    signature: str = "c2NyaXB0ZWQ="


@dataclass(frozen=True)
class ToolUse:
    """A tool call. ``raw_input`` replaces the JSON of ``input`` on the wire."""

    name: str
    input: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    raw_input: str | None = None


Block = Text | Thinking | ToolUse


@dataclass(frozen=True)
class Usage:
    """Token counts reported for one turn."""

    input_tokens: int = 100
    output_tokens: int = 20
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0

    def as_json(self) -> JsonObject:
        return {
            "input_tokens": self.input_tokens,
            "cache_creation_input_tokens": self.cache_creation_input_tokens,
            "cache_read_input_tokens": self.cache_read_input_tokens,
            "output_tokens": self.output_tokens,
            "service_tier": "standard",
        }


@dataclass(frozen=True)
class Fault:
    """Breaks a streamed answer after ``after_events`` events were sent.

    ``drop`` resets the TCP connection, ``close`` ends the response early but
    cleanly, ``hang`` keeps the connection open and silent, ``garbage`` sends
    bytes that are not valid SSE JSON and then ends the response, ``error``
    sends an SSE ``error`` event (``error_type``), as the real API does when it
    is overloaded after the response has started.
    """

    kind: Literal["drop", "close", "hang", "garbage", "error"]
    after_events: int = 3
    error_type: str = "overloaded_error"


@dataclass(frozen=True)
class Turn:
    """One assistant message. Give blocks, or plain strings for text blocks."""

    blocks: tuple[Block, ...]
    usage: Usage = Usage()
    stop_reason: str | None = None
    model: str | None = None
    seconds_before_headers: float = 0.0
    seconds_between_events: float = 0.0
    characters_per_delta: int = 4000
    fault: Fault | None = None

    def __init__(
        self,
        *blocks: Block | str,
        usage: Usage = Usage(),
        stop_reason: str | None = None,
        model: str | None = None,
        seconds_before_headers: float = 0.0,
        seconds_between_events: float = 0.0,
        characters_per_delta: int = 4000,
        fault: Fault | None = None,
    ) -> None:
        as_blocks = tuple(Text(b) if isinstance(b, str) else b for b in blocks)
        for name, value in (
            ("blocks", as_blocks),
            ("usage", usage),
            ("stop_reason", stop_reason),
            ("model", model),
            ("seconds_before_headers", seconds_before_headers),
            ("seconds_between_events", seconds_between_events),
            ("characters_per_delta", characters_per_delta),
            ("fault", fault),
        ):
            object.__setattr__(self, name, value)

    @property
    def effective_stop_reason(self) -> str:
        if self.stop_reason is not None:
            return self.stop_reason
        calls_a_tool = any(isinstance(b, ToolUse) for b in self.blocks)
        return "tool_use" if calls_a_tool else "end_turn"


_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


@dataclass(frozen=True)
class ApiError:
    """An HTTP error answer."""

    status: int
    message: str = "scripted error"
    error_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> JsonObject:
        kind = self.error_type or _ERROR_TYPES.get(self.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": self.message}}


@dataclass(frozen=True)
class DropConnection:
    """Resets the connection without answering."""


@dataclass(frozen=True)
class Hang:
    """Accepts the request and answers nothing until the server stops."""


Step = Turn | ApiError | DropConnection | Hang
StepOrFunction = Step | Callable[["MessagesRequest"], Step]


# --------------------------------------------------------------------------
# What the client sent
# --------------------------------------------------------------------------


@dataclass(frozen=True)
class ToolResult:
    """A tool_result block found in a request."""

    tool_use_id: str
    content: Any
    is_error: bool

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        parts = self.content if isinstance(self.content, list) else []
        return "\n".join(p.get("text", "") for p in parts if isinstance(p, dict))


@dataclass(frozen=True)
class MessagesRequest:
    """One logged request.

    Header names are lower case. ``body`` is the decoded JSON, ``{}`` if none.
    """

    number: int
    at: float
    method: str
    path: str
    headers: Mapping[str, str]
    body: JsonObject

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def messages(self) -> list[JsonObject]:
        return list(self.body.get("messages", []))

    @property
    def tool_names(self) -> list[str]:
        return [t.get("name", "") for t in self.body.get("tools", [])]

    @property
    def system_text(self) -> str:
        system = self.body.get("system", "")
        if isinstance(system, str):
            return system
        return "\n".join(part.get("text", "") for part in system)

    @property
    def tool_results(self) -> list[ToolResult]:
        """The tool results of the newest user message."""
        for message in reversed(self.messages):
            if message.get("role") != "user":
                continue
            content = message.get("content")
            blocks = content if isinstance(content, list) else []
            found = [
                ToolResult(b["tool_use_id"], b.get("content"), bool(b.get("is_error")))
                for b in blocks
                if isinstance(b, dict) and b.get("type") == "tool_result"
            ]
            if found:
                return found
        return []

    @property
    def all_text(self) -> str:
        """Everything the model would see, as one string, for assertions."""
        return json.dumps(
            {k: self.body.get(k) for k in ("system", "messages", "tools")},
            ensure_ascii=False,
        )


# --------------------------------------------------------------------------
# A script, and the server
# --------------------------------------------------------------------------


class Script:
    """An ordered list of steps, and the requests they answered."""

    def __init__(
        self,
        base_url: str,
        steps: Sequence[StepOrFunction],
        *,
        repeat_last: bool,
        on_side_request: Callable[[MessagesRequest], Step | None] | None,
    ) -> None:
        self.base_url = base_url
        self.requests: list[MessagesRequest] = []
        """Requests that consumed a step, in order."""
        self.side_requests: list[MessagesRequest] = []
        """Requests answered by ``on_side_request``."""
        self.unexpected: list[MessagesRequest] = []
        """Requests that arrived after the last step was used up."""
        self.client_disconnects = 0
        """How often the client went away before its answer was complete."""
        self._steps = list(steps)
        self._next_step = 0
        self._repeat_last = repeat_last
        self._on_side_request = on_side_request
        self._lock = threading.Lock()

    @property
    def finished(self) -> bool:
        """Every step was used, and nothing unexpected was asked."""
        return self._next_step >= len(self._steps) and not self.unexpected

    def step_for(self, request: MessagesRequest) -> Step:
        with self._lock:
            if self._on_side_request is not None:
                side_step = self._on_side_request(request)
                if side_step is not None:
                    self.side_requests.append(request)
                    return side_step
            if self._next_step < len(self._steps):
                step = self._steps[self._next_step]
                self._next_step += 1
            elif self._repeat_last and self._steps:
                step = self._steps[-1]
            else:
                self.unexpected.append(request)
                return ApiError(403, f"script has no step for request {request.number}")
            self.requests.append(request)
        return step(request) if callable(step) else step


class ScriptedMessagesApi:
    """The HTTP server. Use as a context manager, or call start() and stop()."""

    _SCRIPT_PATH = re.compile(r"^/scripts/([^/]+)(/.*)$")

    def __init__(self, port: int = 0) -> None:
        self.log: list[MessagesRequest] = []
        """Every request of every kind, in order of arrival."""
        self._scripts: dict[str, Script] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self.stopping = threading.Event()
        api = self

        class Handler(_Handler):
            server_api = api

        self._server = _LoopbackServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def script(
        self,
        *steps: StepOrFunction,
        repeat_last: bool = False,
        on_side_request: Callable[[MessagesRequest], Step | None] | None = None,
    ) -> Script:
        """Register a script; give its ``base_url`` to the client."""
        key = uuid.uuid4().hex[:12]
        script = Script(
            f"{self.origin}/scripts/{key}",
            steps,
            repeat_last=repeat_last,
            on_side_request=on_side_request,
        )
        self._scripts[key] = script
        return script

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    # Used by the handler.

    def record(self, method: str, path: str, headers: Mapping[str, str], body: JsonObject) -> MessagesRequest:
        with self._lock:
            lowered = {name.lower(): value for name, value in headers.items()}
            request = MessagesRequest(next(self._numbers), time.time(), method, path, lowered, body)
            self.log.append(request)
        return request

    def locate(self, path: str) -> tuple[Script | None, str]:
        match = self._SCRIPT_PATH.match(path.split("?", 1)[0])
        if match is None:
            return None, path.split("?", 1)[0]
        return self._scripts.get(match[1]), match[2]


class _LoopbackServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is not worth a traceback."""


# --------------------------------------------------------------------------
# The wire
# --------------------------------------------------------------------------


def message_json(turn: Turn, model: str) -> JsonObject:
    """The complete message, as a non-streamed answer carries it."""
    content: list[JsonObject] = []
    for block in turn.blocks:
        if isinstance(block, Text):
            content.append({"type": "text", "text": block.text})
        elif isinstance(block, Thinking):
            content.append(
                {
                    "type": "thinking",
                    "thinking": block.thinking,
                    "signature": block.signature,
                }
            )
        else:
            content.append(
                {
                    "type": "tool_use",
                    "id": block.id or f"toolu_{uuid.uuid4().hex[:20]}",
                    "name": block.name,
                    "input": dict(block.input),
                }
            )
    return {
        "id": f"msg_{uuid.uuid4().hex[:20]}",
        "type": "message",
        "role": "assistant",
        "model": turn.model or model,
        "content": content,
        "stop_reason": turn.effective_stop_reason,
        "stop_sequence": None,
        "usage": turn.usage.as_json(),
    }


def _chunks(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def stream_events(turn: Turn, model: str) -> Iterator[tuple[str, JsonObject]]:
    """The SSE events of a streamed answer, as (event name, data)."""
    message = message_json(turn, model)
    usage_at_start = {**message["usage"], "output_tokens": 1}
    yield (
        "message_start",
        {
            "type": "message_start",
            "message": {
                **message,
                "content": [],
                "stop_reason": None,
                "usage": usage_at_start,
            },
        },
    )
    for index, (block, content) in enumerate(zip(turn.blocks, message["content"], strict=True)):
        if isinstance(block, Text):
            empty: JsonObject = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in _chunks(block.text, turn.characters_per_delta)]
        elif isinstance(block, Thinking):
            empty = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": piece}
                for piece in _chunks(block.thinking, turn.characters_per_delta)
            ]
            deltas.append({"type": "signature_delta", "signature": block.signature})
        else:
            empty = {**content, "input": {}}
            raw = block.raw_input if block.raw_input is not None else json.dumps(content["input"])
            deltas = [
                {"type": "input_json_delta", "partial_json": piece} for piece in _chunks(raw, turn.characters_per_delta)
            ]
        yield (
            "content_block_start",
            {"type": "content_block_start", "index": index, "content_block": empty},
        )
        for delta in deltas:
            yield (
                "content_block_delta",
                {"type": "content_block_delta", "index": index, "delta": delta},
            )
        yield (
            "content_block_stop",
            {"type": "content_block_stop", "index": index},
        )
    yield (
        "message_delta",
        {
            "type": "message_delta",
            "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
            "usage": message["usage"],
        },
    )
    yield ("message_stop", {"type": "message_stop"})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else every small event waits for an ACK
    server_api: ScriptedMessagesApi

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.server_api.record("HEAD", self.path, dict(self.headers.items()), {})
        self._send_json(200, {})

    def do_GET(self) -> None:
        self.server_api.record("GET", self.path, dict(self.headers.items()), {})
        _, path = self.server_api.locate(self.path)
        if path == "/v1/models":
            self._send_json(200, {"data": [], "has_more": False})
        else:
            self._send_json(404, ApiError(404, f"no {path}").as_json())

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(length)
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            body = {"_undecodable": raw.decode("latin-1")}
        request = self.server_api.record("POST", self.path, dict(self.headers.items()), body)
        script, path = self.server_api.locate(self.path)
        if script is None:
            self._send_json(404, ApiError(404, f"no script at {self.path}").as_json())
        elif path == "/v1/messages":
            self._play(script, request)
        elif path == "/v1/messages/count_tokens":
            self._send_json(200, {"input_tokens": max(1, len(raw) // 4)})
        else:
            self._send_json(404, ApiError(404, f"no {path}").as_json())

    # -- steps -------------------------------------------------------------

    def _play(self, script: Script, request: MessagesRequest) -> None:
        step = script.step_for(request)
        try:
            if isinstance(step, ApiError):
                self._send_json(step.status, step.as_json(), step.headers)
            elif isinstance(step, DropConnection):
                self._reset()
            elif isinstance(step, Hang):
                self._wait_for_client_to_leave(script)
            else:
                self._play_turn(step, request, script)
        except (BrokenPipeError, ConnectionResetError):
            script.client_disconnects += 1
            self.close_connection = True

    def _play_turn(self, turn: Turn, request: MessagesRequest, script: Script) -> None:
        if turn.seconds_before_headers:
            self.server_api.stopping.wait(turn.seconds_before_headers)
        if not request.body.get("stream"):
            self._send_json(200, message_json(turn, request.model))
            return
        self.send_response(200)
        self._send_standard_headers()
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("cache-control", "no-cache")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for count, (name, data) in enumerate(stream_events(turn, request.model)):
            if turn.fault is not None and count == turn.fault.after_events:
                self._break_stream(turn.fault, script)
                return
            if turn.seconds_between_events and count:
                self.server_api.stopping.wait(turn.seconds_between_events)
            self._send_chunk(f"event: {name}\ndata: {json.dumps(data)}\n\n")
        self._send_chunk("")

    def _break_stream(self, fault: Fault, script: Script) -> None:
        if fault.kind == "drop":
            self._reset()
        elif fault.kind == "hang":
            self._wait_for_client_to_leave(script)
        else:
            if fault.kind == "garbage":
                self._send_chunk("event: content_block_delta\ndata: {not json\n\n")
            elif fault.kind == "error":
                error = {"type": fault.error_type, "message": "scripted"}
                data = json.dumps({"type": "error", "error": error})
                self._send_chunk(f"event: error\ndata: {data}\n\n")
            self._send_chunk("")
            self.close_connection = True

    # -- bytes -------------------------------------------------------------

    def _send_standard_headers(self) -> None:
        self.send_header("request-id", f"req_{uuid.uuid4().hex[:20]}")

    def _send_json(self, status: int, body: JsonObject, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self._send_standard_headers()
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _send_chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _reset(self) -> None:
        """Close with RST, as a broken network would."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # Both file objects hold the socket open; drop them before closing it.
        with contextlib.suppress(OSError, ValueError):
            self.wfile.flush()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RD)
        with contextlib.suppress(OSError):
            self.rfile.close()
            self.wfile.close()
        with contextlib.suppress(OSError):
            self.connection.close()

    def _wait_for_client_to_leave(self, script: Script) -> None:
        self.close_connection = True
        self.connection.settimeout(0.2)
        while not self.server_api.stopping.is_set():
            try:
                if not self.connection.recv(1):
                    script.client_disconnects += 1
                    return
            except TimeoutError:
                continue
            except OSError:
                script.client_disconnects += 1
                return


if __name__ == "__main__":
    # python scripted_messages_api.py [PORT]: a server that says hello forever.
    import sys

    with ScriptedMessagesApi(int(sys.argv[1]) if len(sys.argv) > 1 else 0) as served:
        hello = served.script(Turn("Hello."), repeat_last=True)
        print(f"ANTHROPIC_BASE_URL={hello.base_url}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
