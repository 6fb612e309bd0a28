"""Sessions that are kept and go on, and what comes to an agent from elsewhere: pictures, tools of
servers.
"""

from __future__ import annotations

import base64
import json
import sys
from uuid import uuid4

import pytest
from claude_agent_sdk import InMemorySessionStore
from scripted_messages_api import ToolUse, Turn
from wire import answering, hold, session_in

from vibe_gate.agent import Image, StoredSession
from vibe_gate.errors import AgentError

pytestmark = pytest.mark.slow

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


LONG_NAME = "🚀e\u0301" + "x" * 180
"""What makes a path be called otherwise by the SDK than by the CLI, and too long to be a key."""


def conversation_texts(request) -> list[str]:
    """What the user and the model said until then, without the CLI's own reminders."""
    texts = []
    for message in request.messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts += [block["text"] for block in blocks if block["type"] == "text"]
    return [text for text in texts if not text.startswith("<system-reminder>")]


def hold_stored_turn(place, environ, model, prompt, **conversation):
    """A working turn whose session is kept; each call has a home, and a directory, of its own."""
    tree = place / LONG_NAME / f"clone-{uuid4()}"
    tree.mkdir(parents=True)
    session = session_in(
        place, model.base_url, environ, schema=None, working=True, tools=("Write",), folder=tree, prompt=prompt,
        session=StoredSession(**conversation),
    )  # fmt: skip
    return hold(session)[0]


def test_a_session_goes_on_in_another_home_and_clone_from_its_end_or_from_a_message(
    tmp_path, environ
):
    store, name = _Shared(), str(uuid4())
    with answering(Turn("One."), Turn("Two."), Turn("Three.")) as model:
        first = hold_stored_turn(tmp_path, environ, model, "First?", store=store, session_id=name)
        at = [entry["uuid"] for entry in store.entries[name] if entry["type"] == "assistant"][-1]
        second = hold_stored_turn(tmp_path, environ, model, "Second?", store=store, resume=name)
        hold_stored_turn(tmp_path, environ, model, "Third?", store=store, resume=name, resume_at=at)
    assert (first.session_id, second.session_id, second.text) == (name, name, "Two.")
    assert conversation_texts(model.script.requests[1]) == ["First?", "One.", "Second?"]
    assert conversation_texts(model.script.requests[2]) == ["First?", "One.", "Third?"]
    assert second.cost.usd == first.cost.usd > 0
    ids = [entry["uuid"] for entry in store.entries[name] if "uuid" in entry]
    assert len(ids) == len(set(ids)) >= 6
    assert not list(tmp_path.glob("claude-resume-*"))


def test_a_session_goes_on_whatever_leaf_the_cli_last_named(tmp_path, environ):
    """As it ends, the CLI may name a note about hooks beside the turn's last message; what came
    later is not there.
    """
    store, name = _Shared(), str(uuid4())

    def last() -> str:
        return [entry["uuid"] for entry in store.entries[name] if entry["type"] == "assistant"][-1]

    with answering(Turn("One."), Turn("Two."), Turn("Three.")) as model:
        hold_stored_turn(tmp_path, environ, model, "First?", store=store, session_id=name)
        note = {
            "type": "system", "subtype": "stop_hook_summary", "uuid": str(uuid4()), "parentUuid": last(),
            "sessionId": name, "timestamp": "2026-01-02T03:04:05.000Z",
        }  # fmt: skip
        last_prompt = {
            "type": "last-prompt",
            "leafUuid": note["uuid"],
            "sessionId": name,
            "lastPrompt": "First?",
        }
        store.entries[name] += [note, last_prompt]
        hold_stored_turn(
            tmp_path, environ, model, "Second?", store=store, resume=name, resume_at=last()
        )
        entries = store.entries[name]
        first = entries.index(last_prompt) + 1
        entries[first:] = [entry for entry in entries[first:] if entry["type"] != "last-prompt"]
        third = hold_stored_turn(
            tmp_path, environ, model, "Third?", store=store, resume=name, resume_at=last()
        )
    assert (
        conversation_texts(model.script.requests[2])
        == ["First?", "One.", "Second?", "Two.", "Third?"]
        and third.text == "Three."
    )


class _Shared(InMemorySessionStore):
    """Knows a session wherever it is: each clone has a project key of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[str, list[dict]] = {}

    async def append(self, key, entries):
        if "subpath" not in key:
            self.entries.setdefault(key["session_id"], []).extend(entries)

    async def load(self, key):
        return None if "subpath" in key else self.entries.get(key["session_id"])


def test_a_session_that_is_not_there_is_an_error(tmp_path, environ):
    with answering(Turn("One.")) as model, pytest.raises(AgentError, match="is not there"):
        hold_stored_turn(tmp_path, environ, model, "First?", store=_Shared(), resume=str(uuid4()))
    assert model.api.log == []


def test_a_picture_goes_with_the_prompt(tmp_path, environ):
    with answering(Turn("A dot.")) as model:
        session = session_in(
            tmp_path, model.base_url, environ, schema=None, images=(Image("image/png", PNG),)
        )
        ending, notes = hold(session)
    blocks = [
        block for message in model.script.requests[0].messages for block in message["content"]
    ]
    pictures = [
        block["source"] for block in blocks if isinstance(block, dict) and block["type"] == "image"
    ]
    assert [(source["media_type"], base64.b64decode(source["data"])) for source in pictures] == [
        ("image/png", PNG)
    ]
    assert (
        session.turn.prompt in conversation_texts(model.script.requests[0])
        and ending.status == "done"
    )
    assert notes.events[0]["images"] == [{"media_type": "image/png", "bytes": len(PNG)}]


SERVER = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    given = asked.get("params") or {}
    text = json.dumps([given.get("arguments"), os.environ.get("TOKEN")])
    form = {"type": "object", "properties": {"path": {"type": "string"}}}
    told = {
        "initialize": {"protocolVersion": given.get("protocolVersion"), "capabilities": {"tools": {}},
                       "serverInfo": {"name": "db", "version": "1"}},
        "tools/list": {"tools": [{"name": each, "description": each, "inputSchema": form} for each in ("ask", "drop")]},
        "tools/call": {"content": [{"type": "text", "text": text}]},
    }.get(asked["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": told}), flush=True)
"""


@pytest.mark.parametrize(("tools", "slow_s"), [((), 1.5), (("mcp__db__ask",), 0)])
def test_tools_of_a_named_server_are_there_and_a_slow_start_is_waited_for(
    tmp_path, environ, tools, slow_s
):
    code = f"import time; time.sleep({slow_s})\n{SERVER}"
    server = {"command": sys.executable, "args": ["-c", code], "env": {"TOKEN": "for-the-server"}}
    steps = []
    calls = [ToolUse(f"mcp__db__{name}", {"path": "/etc"}) for name in ("ask", "drop")]
    with answering(Turn(*calls), Turn("Done.")) as model:
        session = session_in(
            tmp_path, model.base_url, environ, schema=None, working=True, tools=tools, mcp_servers={"db": server},
            watch=steps.append,
        )  # fmt: skip
        ending, notes = hold(session)
    results = [
        (item["tool"], item["is_error"]) for item in notes.events if item.get("role") == "tool"
    ]
    assert (
        results == [("mcp__db__ask", False), ("mcp__db__drop", bool(tools))]
        and ending.status == "done"
    )
    assert json.loads(model.script.requests[1].tool_results[0].text) == [
        {"path": "/etc"},
        "for-the-server",
    ]
    if slow_s:  # the other one is waited for, too, where others use the machine
        assert steps[0].text == "waiting for the MCP server db to start"
