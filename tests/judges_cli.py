"""Claude Code as far as a judge who only answers needs it: a hundredth of the CLI's start, at the same two wires.

To the SDK it speaks as the CLI does (lines of JSON on stdin and stdout: initialize, hooks, messages, a result); to the
gateway as well (a streamed request to the Messages API). `agent/test_judges_cli.py` holds the same conversations with
this and with the CLI, and they leave the same. Whatever else a script wants of it (tools, retries, a session that goes
on, a cut answer) ends it, and the fixture `quick_judges` fails the test: then the CLI is the subject, and the test
takes `real_cli`.

It imports little, because imports are what a start costs.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any

ANSWER_TOOL = "StructuredOutput"
ANSWERED = "Structured output provided successfully"
VERSION = "2.1.332"
REFUSED = 403  # by the gateway, as a rule

Json = dict[str, Any]


class Cli:
    """One conversation."""

    def __init__(self, argv: list[str]) -> None:
        self.option = dict(zip(argv, argv[1:], strict=False))  # noqa: RUF007 - imports cost
        if not {"--json-schema", "--no-session-persistence"} <= set(argv):
            _refuse("a session without a form for its answer, or one that is kept")
        self.session, self.folder = _uuid(), os.environ["PWD"]
        self.mode = self.option["--permission-mode"]
        self.hooks: dict[str, list[str]] = {}
        self.usage: Json = {}

    def say(self, **message: Any) -> None:
        sys.stdout.write(json.dumps({**message, "session_id": self.session, "uuid": _uuid()}) + "\n")
        sys.stdout.flush()

    def run(self) -> None:
        """Wait for the prompt, ask, tell how it ended, and stay until the SDK goes."""
        prompt = self.prompt()
        self.hook("UserPromptSubmit", prompt=prompt)
        tools = [*filter(None, self.option.get("--tools", "").split(",")), ANSWER_TOOL]
        about = {"cwd": self.folder, "model": self.option["--model"], "permissionMode": self.mode, "tools": tools}
        self.say(type="system", subtype="init", claude_code_version=VERSION, **about)
        self.say(type="system", subtype="status", status="requesting")
        status, body = _post(self.request(prompt, tools))
        self.end(*(self.failed(status, body) if status != 200 else self.answered(body)))
        sys.stdin.read()

    def prompt(self) -> object:
        while True:
            message = json.loads(sys.stdin.readline() or _refuse("no prompt"))
            if message["type"] == "user":
                return message["message"]["content"]
            asked = message["request"]
            if asked["subtype"] != "initialize":
                _refuse(asked["subtype"])
            self.hooks = {
                name: [id_ for matcher in matchers for id_ in matcher["hookCallbackIds"]]
                for name, matchers in asked["hooks"].items()
            }
            answer = {
                "subtype": "success",
                "request_id": message["request_id"],
                "response": {"hook_on_failure_supported": True},
            }
            self.say(type="control_response", response=answer)

    def hook(self, name: str, **about: Any) -> None:
        """Ask every hook of the event, one after the other."""
        given = {"session_id": self.session, "cwd": self.folder, "permission_mode": self.mode, "hook_event_name": name}
        for callback in self.hooks.get(name, ()):
            request = {"subtype": "hook_callback", "callback_id": callback, "input": given | about}
            request["tool_use_id"] = about.get("tool_use_id") or _uuid()
            self.say(type="control_request", request_id=_uuid(), request=request)
            answer = json.loads(sys.stdin.readline() or _refuse("no answer of a hook"))
            if answer["type"] != "control_response" or answer["response"].get("response"):
                _refuse(f"a hook that decides: {answer}")

    def request(self, prompt: object, tools: list[str]) -> Json:
        with open(self.option["--system-prompt-file"], encoding="utf-8") as file:
            system = file.read()
        schemas = {ANSWER_TOOL: json.loads(self.option["--json-schema"])}
        return {
            "model": self.option["--model"],
            "messages": [{"role": "user", "content": prompt}],
            "system": [{"type": "text", "text": system}],
            "tools": [{"name": name, "input_schema": schemas.get(name, {"type": "object"})} for name in sorted(tools)],
            "max_tokens": 64000,
            "stream": True,
        }

    def failed(self, status: int, body: bytes) -> tuple[Json, Json]:
        if status != REFUSED:
            _refuse(f"status {status}")
        text = f"Failed to authenticate. API Error: {status} {json.loads(body)['error']['message']}"
        message = {"id": _uuid(), "type": "message", "role": "assistant", "model": "<synthetic>", "stop_reason": None}
        self.say(
            type="assistant",
            message=message | {"content": [{"type": "text", "text": text}], "usage": {}},
            parent_tool_use_id=None,
        )
        ended = {"is_error": True, "result": text, "api_error_status": status, "terminal_reason": "api_error"}
        return ended, {"num_turns": 1}

    def answered(self, body: bytes) -> tuple[Json, Json]:
        """Hand on the streamed answer, with its hooks."""
        message: Json = {}
        answer: Json = {}
        for event in _events(body):
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
                    block["input"] = json.loads("".join(parts))
                self.say(type="assistant", message=message | {"content": [block]}, parent_tool_use_id=None)
                if block["type"] == "tool_use":
                    answer = self.begun(block, answer)
            elif kind == "message_delta":
                if event["delta"]["stop_reason"] != "tool_use":
                    _refuse(f"an answer that stopped with {event['delta']['stop_reason']}")
                self.usage = event["usage"]
        about = {"tool_name": ANSWER_TOOL, "tool_input": answer["input"], "tool_use_id": answer["id"]}
        self.hook("PostToolUse", **about, tool_response=ANSWERED)
        result = {"type": "tool_result", "tool_use_id": answer["id"], "content": ANSWERED}
        self.say(type="user", message={"role": "user", "content": [result]}, parent_tool_use_id=None)
        self.hook("Stop", stop_hook_active=False)
        text = json.dumps(answer["input"], separators=(",", ":"), ensure_ascii=False)
        ended = {"is_error": False, "result": text, "terminal_reason": "completed"}
        return ended | {"structured_output": answer["input"]}, {"num_turns": 2}

    def begun(self, call: Json, earlier: Json) -> Json:
        if call["name"] != ANSWER_TOOL or earlier:
            _refuse(f"the tool {call['name']}, or a second answer")
        self.hook("PreToolUse", tool_name=ANSWER_TOOL, tool_input=call["input"], tool_use_id=call["id"])
        return call

    def end(self, ended: Json, more: Json) -> None:
        about = {"duration_ms": 1, "duration_api_ms": 1, "total_cost_usd": 0.0, "usage": self.usage, "modelUsage": {}}
        self.say(type="result", subtype="success", **about, **ended, **more, permission_denials=[])


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
    data = json.dumps(body).encode()
    head = (
        f"POST /{path}/v1/messages HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(data)}\r\n"
        "content-type: application/json\r\nanthropic-version: 2023-06-01\r\nconnection: close\r\n"
        f"user-agent: claude-cli/0 (judges_cli)\r\nx-api-key: {os.environ['ANTHROPIC_API_KEY']}\r\n\r\n"
    )
    with socket.create_connection((name, int(port))) as there, there.makefile("rb") as answer:
        there.sendall(head.encode() + data)
        status = int(answer.readline().split()[1])
        fields = dict(line.lower().rstrip().split(b": ", 1) for line in iter(answer.readline, b"\r\n"))
        if fields.get(b"transfer-encoding") != b"chunked":
            return status, answer.read(int(fields[b"content-length"]))
        chunks = b""
        while size := int(answer.readline(), 16):
            chunks += answer.read(size)
            answer.readline()
        return status, chunks


def _events(body: bytes) -> list[Json]:
    lines = [line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data: ")]
    events = [json.loads(line) for line in lines]
    if not events or events[-1]["type"] != "message_stop":
        _refuse("an answer that is cut")
    return events


def _uuid() -> str:
    digits = os.urandom(16).hex()
    return "-".join((digits[:8], digits[8:12], "4" + digits[13:16], "8" + digits[17:20], digits[20:]))


def _refuse(what: str) -> Any:
    with open(f"{sys.argv[0]}.refused", "a", encoding="utf-8") as file:
        file.write(f"{what}\n")
    sys.exit(1)


if __name__ == "__main__":
    Cli(sys.argv[1:]).run()
