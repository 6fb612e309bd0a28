"""A scripted stand-in for the Anthropic Messages API, on loopback, for real clients (wire.py says
how to use it).

A step of a script is

* `Turn(...)`: an assistant message of `Text` (or plain strings), `Thinking` and `ToolUse` blocks, with usage, and
  optionally a `Fault` that breaks the stream part-way;
* `ApiError(status)`: an HTTP error with an Anthropic error body;
* `DropConnection()`: the connection is reset before any response;
* `Hang()`: the request is accepted and never answered;
* a function from the `MessagesRequest` to any of these, for an answer that depends on what the client sent.

A request that the script has no step for is answered with HTTP 403, which clients do not retry
(they do retry a 400, with fewer beta headers), and is in `script.unexpected`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

JsonObject = dict[str, Any]

# What a script is made of


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Thinking:
    """A thinking block. Clients echo the signature back, and never check it."""

    thinking: str
    signature: str = "c2NyaXB0ZWQ="


@dataclass(frozen=True)
class ToolUse:
    name: str
    input: Mapping[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: f"toolu_{uuid.uuid4().hex[:20]}")


Block = Text | Thinking | ToolUse


@dataclass(frozen=True)
class Usage:
    """Token counts reported for one turn."""

    input_tokens: int = 100
    output_tokens: int = 20
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0

    def as_json(self) -> JsonObject:
        return {**asdict(self), "service_tier": "standard"}


@dataclass(frozen=True)
class Fault:
    """Breaks a streamed answer after `after_events` events were sent.

    `drop` resets the connection, `close` ends the response early but cleanly, `hang` stays silent,
    `garbage` sends what is no JSON, `error` sends an `error` event, as the real API does when it is
    overloaded by then.
    """

    kind: Literal["drop", "close", "hang", "garbage", "error"]
    after_events: int = 3


class Turn:
    """One assistant message."""

    def __init__(
        self,
        *blocks: Block | str,
        usage: Usage = Usage(),
        stop_reason: str = "",
        seconds_before_headers: float = 0.0,
        seconds_between_events: float = 0.0,
        characters_per_delta: int = 4000,
        fault: Fault | None = None,
    ) -> None:
        self.blocks = [Text(block) if isinstance(block, str) else block for block in blocks]
        self.usage = usage
        calls_a_tool = any(isinstance(block, ToolUse) for block in self.blocks)
        self.stop_reason = stop_reason or ("tool_use" if calls_a_tool else "end_turn")
        self.seconds_before_headers = seconds_before_headers
        self.seconds_between_events = seconds_between_events
        self.characters_per_delta = characters_per_delta
        self.fault = fault


_ERROR_TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}  # fmt: skip


@dataclass(frozen=True)
class ApiError:
    status: int
    message: str = "scripted error"
    headers: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> JsonObject:
        kind = _ERROR_TYPES.get(self.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": self.message}}


@dataclass(frozen=True)
class DropConnection:
    """Resets the connection without answering."""


@dataclass(frozen=True)
class Hang:
    """Accepts the request and answers nothing until the server stops."""


Step = Turn | ApiError | DropConnection | Hang
StepOrFunction = Step | Callable[["MessagesRequest"], Step]


# What the client sent


@dataclass(frozen=True)
class ToolResult:
    """A tool_result block found in a request."""

    content: Any
    is_error: bool

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.get("text", "") for part in self.content or [])


@dataclass(frozen=True)
class MessagesRequest:
    """One request; header names are lower case, `body` is the decoded JSON, {} if there is none."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: JsonObject

    @property
    def messages(self) -> list[JsonObject]:
        return list(self.body.get("messages", []))

    @property
    def tool_names(self) -> list[str]:
        return [tool.get("name", "") for tool in self.body.get("tools", [])]

    @property
    def system_text(self) -> str:
        system = self.body.get("system", "")
        return (
            system
            if isinstance(system, str)
            else "\n".join(part.get("text", "") for part in system)
        )

    @property
    def tool_results(self) -> list[ToolResult]:
        """The tool results of the newest message that has some."""
        for message in reversed(self.messages):
            blocks = [block for block in message["content"] if isinstance(block, dict)]
            results = [block for block in blocks if block["type"] == "tool_result"]
            if results:
                return [
                    ToolResult(block.get("content"), bool(block.get("is_error")))
                    for block in results
                ]
        return []

    @property
    def all_text(self) -> str:
        """Everything that the model would see."""
        return json.dumps(
            {key: self.body.get(key) for key in ("system", "messages", "tools")}, ensure_ascii=False
        )


# A script, and the server


class Script:
    """Steps in their order, and the requests that they answered."""

    def __init__(self, base_url: str, steps: Sequence[StepOrFunction], repeat_last: bool) -> None:
        self.base_url = base_url
        self.requests: list[MessagesRequest] = []
        self.unexpected: list[MessagesRequest] = []
        self.client_disconnects = 0
        """How often the client went away before its answer was complete."""
        self._steps = list(steps)
        self._repeat_last = repeat_last
        self._lock = threading.Lock()

    @property
    def finished(self) -> bool:
        """Every step was used, and nothing unexpected was asked."""
        return len(self.requests) >= len(self._steps) and not self.unexpected

    def step_for(self, request: MessagesRequest) -> Step:
        with self._lock:
            number = len(self.requests)
            if number >= len(self._steps) and not self._repeat_last:
                self.unexpected.append(request)
                return ApiError(403, "the script has no step for this request")
            self.requests.append(request)
        step = self._steps[min(number, len(self._steps) - 1)]
        return step(request) if callable(step) else step


class ScriptedMessagesApi:
    """The HTTP server, a context manager. Each of its scripts has a URL of its own, so that no two
    share a turn.
    """

    def __init__(self) -> None:
        self.log: list[MessagesRequest] = []
        """Every request of every kind, in order of arrival."""
        self.stopping = threading.Event()
        self._scripts: dict[str, Script] = {}
        self._server = _LoopbackServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"api": self})
        )
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}
        )
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"

    def script(self, *steps: StepOrFunction, repeat_last: bool = False) -> Script:
        """Register a script; give its `base_url` to the client."""
        prefix = f"/scripts/{uuid.uuid4().hex[:12]}"
        self._scripts[prefix] = Script(self.origin + prefix, steps, repeat_last)
        return self._scripts[prefix]

    def locate(self, path: str) -> tuple[Script | None, str]:
        """The script of a request, and the path below it."""
        path = path.partition("?")[0]
        prefix = "/".join(path.split("/")[:3])
        return self._scripts.get(prefix), path.removeprefix(prefix)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


class _LoopbackServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_: object) -> None:
        """A client that went away is not worth a traceback."""


# The wire


def _block_json(block: Block) -> JsonObject:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, Thinking):
        return {"type": "thinking", **vars(block)}
    return {"type": "tool_use", **vars(block)}


def _message_json(turn: Turn, model: str) -> JsonObject:
    """The complete message, as an answer in one piece carries it."""
    return {
        "id": f"msg_{uuid.uuid4().hex[:20]}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [_block_json(block) for block in turn.blocks],
        "stop_reason": turn.stop_reason,
        "stop_sequence": None,
        "usage": turn.usage.as_json(),
    }


def _streamed(content: JsonObject, size: int) -> tuple[JsonObject, list[JsonObject]]:
    """A block as its stream begins, and the deltas that fill it."""

    def deltas(kind: str, key: str, text: str) -> list[JsonObject]:
        return [
            {"type": kind, key: text[start : start + size]} for start in range(0, len(text), size)
        ]

    if content["type"] == "text":
        return {**content, "text": ""}, deltas("text_delta", "text", content["text"])
    if content["type"] == "tool_use":
        return {**content, "input": {}}, deltas(
            "input_json_delta", "partial_json", json.dumps(content["input"])
        )
    signature = {"type": "signature_delta", "signature": content["signature"]}
    empty = {**content, "thinking": "", "signature": ""}
    return empty, [*deltas("thinking_delta", "thinking", content["thinking"]), signature]


def _events(turn: Turn, model: str) -> Iterator[JsonObject]:
    """The events of a streamed answer."""
    message = _message_json(turn, model)
    begun = {"content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield {"type": "message_start", "message": {**message, **begun}}
    for index, content in enumerate(message["content"]):
        empty, deltas = _streamed(content, turn.characters_per_delta)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": message["usage"]}
    yield {"type": "message_stop"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else every small event waits for an ACK
    api: ScriptedMessagesApi

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._received()
        self._send_json(404, ApiError(404, f"no {self.path}").as_json())

    do_HEAD = do_GET

    def do_POST(self) -> None:
        request = self._received()
        script, path = self.api.locate(self.path)
        if script is None or path != "/v1/messages":
            self._send_json(404, ApiError(404, f"no {self.path}").as_json())
            return
        try:
            self._play(script.step_for(request), request)
        except (BrokenPipeError, ConnectionResetError):
            script.client_disconnects += 1
            self.close_connection = True

    def _received(self) -> MessagesRequest:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = MessagesRequest(self.command, self.path, headers, json.loads(raw) if raw else {})
        self.api.log.append(request)
        return request

    def _play(self, step: Step, request: MessagesRequest) -> None:
        if isinstance(step, ApiError):
            self._send_json(step.status, step.as_json(), step.headers)
        elif isinstance(step, DropConnection):
            self._reset()
        elif isinstance(step, Hang):
            self._wait_for_client_to_leave()
        else:
            self._play_turn(step, request)

    def _play_turn(self, turn: Turn, request: MessagesRequest) -> None:
        self.api.stopping.wait(turn.seconds_before_headers)
        model = str(request.body.get("model", ""))
        if not request.body.get("stream"):
            self._send_json(200, _message_json(turn, model))
            return
        self._begin(
            200,
            {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"},
        )
        for count, event in enumerate(_events(turn, model)):
            self.api.stopping.wait(turn.seconds_between_events)
            if turn.fault is not None and count == turn.fault.after_events:
                self._break_stream(turn.fault)
                return
            self._send_event(event["type"], json.dumps(event))
        self._send_chunk("")

    def _break_stream(self, fault: Fault) -> None:
        if fault.kind == "drop":
            self._reset()
        elif fault.kind == "hang":
            self._wait_for_client_to_leave()
        else:
            if fault.kind == "garbage":
                self._send_event("content_block_delta", "{not json")
            elif fault.kind == "error":
                self._send_event("error", json.dumps(ApiError(529, "scripted").as_json()))
            self._send_chunk("")
            self.close_connection = True

    # Bytes

    def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"request-id": f"req_{uuid.uuid4().hex[:20]}", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_json(
        self, status: int, body: JsonObject, headers: Mapping[str, str] | None = None
    ) -> None:
        data = json.dumps(body).encode()
        own_headers = {"content-type": "application/json", "content-length": str(len(data))}
        self._begin(status, {**(headers or {}), **own_headers})
        if self.command != "HEAD":
            self.wfile.write(data)

    def _send_event(self, name: str, data: str) -> None:
        self._send_chunk(f"event: {name}\ndata: {data}\n\n")

    def _send_chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _reset(self) -> None:
        """Close with RST, as a broken network would."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RD)
            # Both file objects hold the socket open; drop them before closing it.
            self.rfile.close()
            self.wfile.close()
            self.connection.close()

    def _wait_for_client_to_leave(self) -> None:
        self.close_connection = True
        self.connection.settimeout(0.2)
        while not self.api.stopping.is_set():
            with contextlib.suppress(TimeoutError):
                if not self.connection.recv(1):
                    raise ConnectionResetError
