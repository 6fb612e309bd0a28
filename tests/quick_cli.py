"""Claude Code as far as most agents of tests need it: a twentieth of the CLI's start, at the same
two wires.

To the SDK it speaks as the CLI does (lines of JSON on stdin and stdout: initialize, hooks,
messages, the mirrored transcript, a result); to the gateway as well (streamed requests to the
Messages API). It knows the tools `Read` and `Write` and that of the answer, and ends as the CLI does without an
answer: after an error, a refusal, an answer that is cut, in prose, empty or given twice.
`agent/test_quick_cli.py` holds the same conversations with this and with the CLI: they leave the
same. A session that is kept goes on from its transcript. Whatever else a script wants of it (other
tools, retries) ends it, and the fixture `quick_agents` fails the test: then the CLI is the subject,
and the test takes `real_cli`.

Imports are what a start costs, so it has only what is built into the interpreter: `json`, `socket`
and `typing` take three times as long to load as a conversation does.
"""

# ruff: noqa: PTH103 - pathlib is an import

from __future__ import annotations

import _json
import _socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ANSWER_TOOL = "StructuredOutput"
VERSION = "2.1.332"
UNKNOWN = 404
MAX_PROJECT = 200
"""Characters of a path, as the name of a folder of sessions, without the hash behind them."""
FINAL = ("refusal", "max_tokens")
"""Stop reasons after which the CLI asks once more, which the gateway refuses."""

Json = dict


class _Reading:
    """What the interpreter's own reader of JSON is to make of numbers and objects."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float


_read_json = _json.make_scanner(_Reading)


def _parse(text: str | bytes) -> Any:
    words = text if isinstance(text, str) else text.decode()
    return _read_json(words.strip(), 0)[0]


def _written(value: object, quoted: Any = _json.encode_basestring_ascii, space: str = " ") -> str:
    """The value as `json.dumps` writes it."""
    encode = _json.make_encoder(
        None, None, quoted, None, f":{space}", f",{space}", False, False, True
    )
    return "".join(encode(value, 0))


class Cli:
    """One conversation."""

    def __init__(self, argv: list[str]) -> None:
        self.option = dict(zip(argv, argv[1:], strict=False))  # noqa: RUF007 - itertools is an import
        kept_session = self.option.get("--resume") or self.option.get("--session-id")
        self.is_kept = kept_session is not None
        self.session = kept_session or _uuid()
        self.folder, self.mode = os.environ["PWD"], self.option["--permission-mode"]
        self.hooks: dict[str, list[str]] = {}
        self.messages: list[Json] = []
        self.used = {"input_tokens": 0, "output_tokens": 0}
        self.last: str | None = None
        self.urged = self.answers = self.cuts = 0
        self.objections: dict[str, str] = {}
        self.denials: list[Json] = []
        if "--resume" in argv:
            self.read_transcript()

    def read_transcript(self) -> None:
        """Go on after the message `--resume-session-at`, or after the newest."""
        with open(self.transcript_path(), encoding="utf-8") as file:
            entries = [_parse(line) for line in file]
        messages = [entry for entry in entries if entry["type"] in ("user", "assistant")]
        parents = {entry["uuid"]: entry for entry in messages}
        self.last = name = self.option.get("--resume-session-at") or messages[-1]["uuid"]
        while name is not None:
            entry = parents[name]
            message = entry["message"]
            if entry["type"] == "assistant" and self.is_before_assistant():
                self.messages[0]["content"][:0] = message["content"]
            else:
                fields = {"role": entry["type"], "content": message["content"]}
                self.messages.insert(0, fields)
            name = entry["parentUuid"]

    def is_before_assistant(self) -> bool:
        """Whether the first message is the model's: each of its blocks is an entry of its own."""
        return bool(self.messages) and self.messages[0]["role"] == "assistant"

    def transcript_path(self) -> str:
        project = "".join(
            char if char.isascii() and char.isalnum() else "-" for char in self.folder
        )
        if len(project) > MAX_PROJECT:
            project = f"{project[:MAX_PROJECT]}-{_hash(self.folder)}"
        return f"{os.environ['CLAUDE_CONFIG_DIR']}/projects/{project}/{self.session}.jsonl"

    def say(self, **message: Any) -> None:
        sys.stdout.write(_written({"uuid": _uuid(), **message, "session_id": self.session}) + "\n")
        sys.stdout.flush()

    def tell(self, kind: str, message: Json) -> None:
        """A message of the conversation, and its line of the transcript."""
        name = _uuid()
        self.say(type=kind, message=message, parent_tool_use_id=None, uuid=name)
        self.mirror(kind, message, name)

    def mirror(self, kind: str, message: Json, name: str) -> None:
        if self.is_kept:
            entry = {
                "type": kind,
                "message": message,
                "uuid": name,
                "parentUuid": self.last,
                "sessionId": self.session,
            }
            self.say(
                type="transcript_mirror",
                filePath=self.transcript_path(),
                entries=[entry | {"isSidechain": False}],
            )
            self.last = name

    def run(self) -> None:
        """Wait for the prompt, hold the conversation, tell how it ended, and stay until the SDK
        goes.
        """
        prompt = self.prompt()
        self.hook("UserPromptSubmit", prompt=prompt)
        self.messages.append({"role": "user", "content": prompt})
        self.mirror("user", self.messages[-1], _uuid())
        tools = self.option.get("--tools", "").split(",") + [ANSWER_TOOL] * (
            "--json-schema" in self.option
        )
        tools = sorted(filter(None, tools), key=lambda name: (name == ANSWER_TOOL, name))
        fields = {
            "cwd": self.folder,
            "model": self.option["--model"],
            "permissionMode": self.mode,
            "tools": tools,
        }
        self.say(type="system", subtype="init", claude_code_version=VERSION, **fields)
        ending, turns = None, 0
        while ending is None:
            if turns == int(self.option["--max-turns"]):
                _refuse("more turns than are allowed")
            self.say(type="system", subtype="status", status="requesting")
            status, body = _post(self.request(tools))
            if status == UNKNOWN:  # once more, in one piece
                status, body = _post(self.request(tools) | {"stream": False})
            ending = self.failed(status, body) if status != 200 else self.turn(body)
            turns += 1
        fields = {
            "duration_ms": 1,
            "duration_api_ms": 1,
            "num_turns": turns + self.answers - self.cuts,
        }
        fields |= {
            "total_cost_usd": 0.0,
            "usage": self.used,
            "modelUsage": {},
            "permission_denials": self.denials,
        }
        self.say(type="result", subtype="success", **fields, **ending)
        sys.stdin.read()

    def prompt(self) -> object:
        while True:
            message = _parse(sys.stdin.readline() or _refuse("no prompt"))
            if message["type"] == "user":
                return message["message"]["content"]
            request = message["request"]
            if request["subtype"] != "initialize":
                _refuse(request["subtype"])
            self.hooks = {
                name: [id_ for matcher in matchers for id_ in matcher["hookCallbackIds"]]
                for name, matchers in request["hooks"].items()
            }
            answer = {"hook_on_failure_supported": True}
            response = {
                "subtype": "success",
                "request_id": message["request_id"],
                "response": answer,
            }
            self.say(type="control_response", response=response)

    def hook(self, name: str, **fields: Any) -> None:
        """Ask every hook of the event, one after the other; what the guard says against an answer
        is for `taken`.
        """
        event = {
            "session_id": self.session,
            "cwd": self.folder,
            "permission_mode": self.mode,
            "hook_event_name": name,
        }
        for callback in self.hooks.get(name, ()):
            request = {"subtype": "hook_callback", "callback_id": callback, "input": event | fields}
            request["tool_use_id"] = fields.get("tool_use_id") or _uuid()
            self.say(type="control_request", request_id=_uuid(), request=request)
            line = sys.stdin.readline()
            if not line:  # the review was killed
                sys.exit(1)
            answer = _parse(line)
            if answer["type"] != "control_response":
                _refuse(f"no answer of a hook: {answer}")
            if '"deny"' in _written(answer):
                if fields.get("tool_name") != ANSWER_TOOL or name != "PreToolUse":
                    _refuse(f"a hook that says no: {answer}")
                reason = answer["response"]["response"]["hookSpecificOutput"][
                    "permissionDecisionReason"
                ]
                self.objections[fields["tool_use_id"]] = reason

    def request(self, tools: list[str]) -> Json:
        with open(self.option["--system-prompt-file"], encoding="utf-8") as file:
            system = file.read()
        schemas = {ANSWER_TOOL: _parse(self.option.get("--json-schema", "{}"))}
        return {
            "model": self.option["--model"],
            "messages": self.messages,
            "system": [{"type": "text", "text": system}],
            "tools": [
                {"name": name, "input_schema": schemas.get(name, {"type": "object"})}
                for name in tools
            ],
            "max_tokens": 64000,
            "stream": True,
        }

    def failed(self, status: int | None, body: bytes = b"") -> Json:
        """What the CLI makes of an error: its own words, and no second try where the gateway
        forbids one.
        """
        words = {404: "There's an issue with the selected model."}.get(
            status or 0, "Failed to authenticate."
        )
        if status is None:
            text = "API Error: Connection to the API was lost (StreamTruncated). This is usually temporary."
        else:
            text = f"{words} API Error: {status} {_parse(body)['error']['message']}"
        message = {
            "id": _uuid(),
            "type": "message",
            "role": "assistant",
            "model": "<synthetic>",
            "stop_reason": None,
        }
        self.tell("assistant", message | {"content": [{"type": "text", "text": text}], "usage": {}})
        return {
            "is_error": True,
            "result": text,
            "api_error_status": status,
            "terminal_reason": "api_error",
        }

    def turn(self, body: bytes) -> Json | None:
        """Hand on a streamed answer and run what it calls; how the conversation ended, or None if
        it goes on.
        """
        message: Json = {}
        blocks: list[Json] = []
        stopped = ""
        events = _events(body)
        if events[-1]["type"] != "message_stop":
            return self.lost(events)
        for event in events:
            self.say(type="stream_event", event=event, parent_tool_use_id=None)
            kind = event["type"]
            if kind == "message_start":
                message = event["message"]
            elif kind == "content_block_start":
                block, parts = event["content_block"], list[str]()
            elif kind == "content_block_delta":
                _add(block, parts, event["delta"])
            elif kind == "content_block_stop":
                if block["type"] == "tool_use":
                    block["input"] = _parse("".join(parts))
                self.tell("assistant", message | {"content": [block]})
                blocks.append(block)
                if block["type"] == "tool_use":
                    self.hook("PreToolUse", **self.describe_call(block))
            elif kind == "message_delta":
                stopped = event["delta"]["stop_reason"]
                for name in self.used:
                    self.used[name] += event["usage"][name]
        self.messages.append({"role": "assistant", "content": blocks})
        return self.urge("Go on.") if stopped in FINAL else self.called(blocks)

    def lost(self, events: list[Json]) -> Json | None:
        """A stream was cut: once more, then no more."""
        for event in events:
            self.say(type="stream_event", event=event, parent_tool_use_id=None)
        if not self.cuts:
            self.cuts += 1
            return None
        self.used = {name: events[0]["message"]["usage"][name] for name in self.used}
        return self.failed(None)

    def urge(self, text: str) -> None:
        """Ask for more in the user's name."""
        self.urged += 1
        self.tell("user", {"role": "user", "content": text})
        self.messages.append({"role": "user", "content": text})

    def called(self, blocks: list[Json]) -> Json | None:
        calls = [block for block in blocks if block["type"] == "tool_use"]
        answers = [call for call in calls if call["name"] == ANSWER_TOOL]
        if len(calls) > 1 and len(calls) != len(answers):
            _refuse("several calls at once")
        carry_out = {"Read": self.read, "Write": self.write, ANSWER_TOOL: self.taken}
        results = [carry_out[call["name"]](call) for call in calls]
        if results:
            self.messages.append({"role": "user", "content": results})
        answers = [call for call in answers if call["id"] not in self.objections]
        self.objections.clear()  # a script may give the same answer again
        if calls and not answers:
            return None
        text = next(
            (
                block["text"]
                for block in reversed(blocks)
                if block["type"] == "text" and block["text"]
            ),
            "",
        )
        if not text and not answers and not self.urged:
            return self.urge("There was no output.")
        is_missing = not answers and "--json-schema" in self.option
        was_urged = self.urged > (not text)
        fields = {"last_assistant_message": text} if text and not answers else {}
        self.hook("Stop", stop_hook_active=is_missing and was_urged, **fields)
        if is_missing and not was_urged:
            return self.urge("The answer must be given with StructuredOutput.")
        ending = {"is_error": False, "terminal_reason": "completed"}
        if not answers:
            return ending | {"result": text}
        answer = answers[-1]["input"]
        written = _written(answer, _json.encode_basestring, "")
        return ending | {"result": written, "structured_output": answer}

    def describe_call(self, call: Json) -> Json:
        """A call as hooks are told of it: the path whole."""
        if call["name"] not in ("Read", "Write", ANSWER_TOOL):
            _refuse(f"the tool {call['name']}")
        tool_input = call["input"]
        if "file_path" in tool_input:
            tool_input = tool_input | {"file_path": f"{self.folder}/{tool_input['file_path']}"}
        return {"tool_name": call["name"], "tool_input": tool_input, "tool_use_id": call["id"]}

    def taken(self, call: Json) -> Json:
        if objection := self.objections.get(call["id"]):
            self.denials.append(
                {"tool_name": ANSWER_TOOL, "tool_use_id": call["id"], "tool_input": call["input"]}
            )
            text = f"PreToolUse:{ANSWER_TOOL} hook error: {objection}"
            result = {
                "type": "tool_result",
                "tool_use_id": call["id"],
                "content": text,
                "is_error": True,
            }
            self.tell("user", {"role": "user", "content": [result]})
            return result
        self.answers += 1
        return self.result(
            call,
            "Structured output provided successfully",
            "Structured output provided successfully",
        )

    def read(self, call: Json) -> Json:
        path = self.describe_call(call)["tool_input"]["file_path"]
        if not os.access(path, os.R_OK):
            _refuse(f"to read what is not there: {path}")
        with open(path, encoding="utf-8") as file:
            content = file.read()
        lines = [f"{number}\t{line}" for number, line in enumerate(content.splitlines(), 1)]
        fields = {"filePath": path, "content": content}
        return self.result(call, "\n".join(lines), {"type": "text", "file": fields})

    def write(self, call: Json) -> Json:
        fields, content = self.describe_call(call), call["input"]["content"]
        path = fields["tool_input"]["file_path"]
        if "/.git/" in path:  # there the CLI asks twice
            self.hook("PermissionRequest", **fields)
        is_new = not os.access(path, os.F_OK)
        os.makedirs(path.rpartition("/")[0], exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        file_path = call["input"]["file_path"]
        text = (
            f"File created successfully at: {file_path}"
            if is_new
            else f"The file {file_path} has been updated successfully."
        )
        text += " (file state is current in your context \u2014 no need to Read it back)"
        kind = "create" if is_new else "update"
        return self.result(call, text, {"type": kind, "filePath": file_path, "content": content})

    def result(self, call: Json, text: str, response: object) -> Json:
        self.hook("PostToolUse", **self.describe_call(call), tool_response=response)
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": text}
        self.tell("user", {"role": "user", "content": [result]})
        return result


def _add(block: Json, parts: list[str], delta: Json) -> None:
    kind = delta["type"].removesuffix("_delta")
    if kind == "input_json":
        parts.append(delta["partial_json"])
    elif kind == "signature":
        block["signature"] = delta["signature"]
    else:
        block[kind] += delta[kind]


def _post(body: Json) -> tuple[int, bytes]:
    """The status and the whole body of what the model's address answers."""
    host, _, path = os.environ["ANTHROPIC_BASE_URL"].removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    data = _written(body).encode()
    head = (
        f"POST /{path}/v1/messages HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(data)}\r\n"
        "content-type: application/json\r\nanthropic-version: 2023-06-01\r\nconnection: close\r\n"
        f"user-agent: claude-cli/0 (quick_cli)\r\nx-api-key: {os.environ['ANTHROPIC_API_KEY']}\r\n\r\n"
    )
    server = _socket.socket(_socket.AF_INET)
    server.connect((name, int(port)))
    server.sendall(head.encode() + data)
    answer = b"".join(iter(lambda: server.recv(65536), b""))
    server.close()
    fields, _, content = answer.partition(b"\r\n\r\n")
    status = int(fields.split(b" ", 2)[1])
    if b"transfer-encoding: chunked" not in fields.lower():
        return status, content
    chunks = b""
    while content:  # without the last one of no length: the answer was cut
        length, _, content = content.partition(b"\r\n")
        number = int(length, 16)
        if number == 0:
            break
        chunks += content[:number]
        content = content[number + 2 :]
    return status, chunks


def _events(body: bytes) -> list[Json]:
    lines = [
        line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data: ")
    ]
    return [_parse(line) for line in lines]


def _hash(text: str) -> str:
    """A 32-bit number with a sign, without it, in base 36."""
    number = 0
    for char in text:
        number = (number * 31 + ord(char)) % (1 << 32)
    number = min(number, (1 << 32) - number)
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


def _uuid() -> str:
    digits = os.urandom(16).hex()
    return "-".join(
        (digits[:8], digits[8:12], "4" + digits[13:16], "8" + digits[17:20], digits[20:])
    )


def _refuse(subject: str) -> Any:
    with open(f"{sys.argv[0]}.refused", "a", encoding="utf-8") as file:
        file.write(f"{subject}\n")
    sys.exit(1)
