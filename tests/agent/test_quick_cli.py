"""The stand-in for Claude Code that most agents of tests are (`quick_cli.py`) leaves what Claude
Code leaves.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sdk_alone
from claude_agent_sdk import InMemorySessionStore, project_key_for_directory
from scripted_messages_api import ApiError, Fault, Step, Text, Thinking, ToolUse, Turn
from wire import Notes, answer, answering, costing, hold, session_in

from vibe_gate.agent import StoredSession
from vibe_gate.domain.cause import DETAILS
from vibe_gate.domain.wire import TurnResult

ITS_OWN = {
    "ts", "uuid", "message_id", "tool_use_id", "session_id", "transcript_path", "prompt_id", "effort", "duration_ms",
    "background_tasks", "session_crons", "data", "tool_result_meta", "tool_response", "permission_suggestions",
}  # fmt: skip
"""Fields that no reader of a judge's turn takes: names of one run, times, what the CLI says of
itself.
"""


def plain_events(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in event.items() if name not in ITS_OWN} for event in events
    ]


def results(notes: Notes) -> dict[str, Any]:
    """The fields of the result that readers take: how the session ended, and what was used."""
    (result,) = (event for event in notes.events if event["type"] == "result")
    names = (
        "subtype",
        "is_error",
        "num_turns",
        "structured_output",
        "api_error_status",
        "terminal_reason",
    )
    used = {
        name: (result["usage"] or {}).get(name, 0) for name in ("input_tokens", "output_tokens")
    }
    return (
        {name: result.get(name) for name in names}
        | used
        | {"denials": result["permission_denials"]}
    )


SCRIPTS = {
    "an answer": [answer({"ok": True}, usage=costing(30))],
    "words before it": [
        Turn(Text("hm"), ToolUse("StructuredOutput", {"ok": False}), characters_per_delta=2)
    ],
    "a thought, and no ASCII": [
        Turn(Thinking("é"), Text("ü\u2028"), ToolUse("StructuredOutput", {"ok": True}))
    ],
    "a refused request": [ApiError(403, "no: [vibe-gate]")],
}
LAST_WORD = {"x-should-retry": "false"}
"""What the gateway gives an error on its way, and the API does not."""
OVER = ApiError(403, "[vibe-gate] over")
"""What the gateway answers after a last word."""
ENDED = {
    "a wrong key": ([ApiError(401, "invalid x-api-key", LAST_WORD)], "api_error", "HTTP 401"),
    "no credit": (
        [ApiError(400, "Your credit balance is too low", LAST_WORD)],
        "api_error",
        "has no credit left",
    ),
    "an unknown model": ([ApiError(404, "model: x", LAST_WORD)] * 2, "api_error", "HTTP 404"),
    "a refusal": (
        [Turn(Text("No."), stop_reason="refusal"), OVER],
        "refused",
        "The model refused to answer.",
    ),
    "a cut answer": (
        [Turn(Text("Well, let me"), stop_reason="max_tokens"), OVER],
        "max_tokens",
        "at its token limit",
    ),
    "prose": ([Turn(Text("All fine!"))] * 2, "no_answer", "without an answer in the asked form"),
    "an empty answer": ([Turn()] * 3, "no_answer", "without an answer in the asked form"),
    "two answers": (
        [
            Turn(
                ToolUse("StructuredOutput", {"ok": True}),
                ToolUse("StructuredOutput", {"ok": False}),
            )
        ],
        "two_answers",
        "2 answers",
    ),
    "a cut stream": (
        [Turn(Text("Well, let me"), fault=Fault("close"))] * 2,
        "api_error",
        "broke off",
    ),
}
"""Conversations without an answer: how they end, and a part of what is said of it."""
WRITES = [
    Turn(
        Text("I write."),
        ToolUse("Write", {"file_path": "new/a.txt", "content": "é\n"}),
        usage=costing(30),
    ),
    Turn(ToolUse("Write", {"file_path": "new/a.txt", "content": "b"})),
    Turn(ToolUse("Read", {"file_path": "new/a.txt"})),
    Turn(Text("Done.")),
]


def run_with_both(
    tmp_path: Path, environ: dict[str, str], script: list[Step], going_on: str = "", **changes: Any
) -> list[tuple[Any, ...]]:
    """What a turn leaves with the stand-in, and with the CLI itself; with a prompt to go on with,
    what the next turn of the session leaves.
    """
    endings = []
    for name, path in {
        "quick": environ["PATH"],
        "real": environ["PATH"].removeprefix(f"{sdk_alone.QUICK}:"),
    }.items():
        with answering(*script) as model:
            place = tmp_path / name / ("x" * 180)  # too long to be the key of a session
            place.mkdir(parents=True)
            session = StoredSession(store=InMemorySessionStore(), session_id=str(uuid4()))
            options = changes | ({"session": session} if changes.get("working") else {})
            environment = environ | {"PATH": path}
            ending, notes = hold(session_in(place, model.base_url, environment, **options))
            if going_on:
                later = StoredSession(store=session.store, resume=session.session_id)
                options |= {"session": later, "prompt": going_on}
                ending, notes = hold(session_in(place, model.base_url, environment, **options))
        requests = [
            (
                plain_blocks(request.body["messages"]),
                request.body["model"],
                request.body["stream"],
                request.tool_names,
            )
            for request in model.script.requests
        ]
        assert "You judge." in model.script.requests[0].system_text
        endings.append(
            (
                outcome(ending),
                split_usage(notes),
                plain_events(notes.hooks),
                results(notes),
                requests,
                transcript(session, place),
            )
        )
    return [
        json.loads(json.dumps(ending_facts).replace("/real/", "/quick/"))
        for ending_facts in endings
    ]


def split_usage(notes: Notes) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The events of usage, in their order, and all others, in theirs, without the result.

    The CLI may run a tool while the model's stream is still open: then what the tool returned is
    told before the usage of the answer that called it, and otherwise after it. So the order between
    the two says nothing.
    """
    events = [event for event in plain_events(notes.events) if event["type"] != "result"]
    other_events = [
        event
        for event in events
        if event["type"] != "usage" and event.get("subtype") != "thinking_tokens"
    ]
    return [event for event in events if event["type"] == "usage"], other_events


def hooks_by_call(events: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The events of each call in their order: of two calls, the second may begin before the first
    has ended.
    """
    hooks: dict[str, list[str]] = {}
    for event in events:
        call = json.dumps(event.get("tool_input"))
        hooks.setdefault(call, []).append(event["hook"])
    return hooks


def transcript(session: StoredSession, place: Path) -> list[Any]:
    """The messages of the kept session, in the order in which each follows another."""
    key = {
        "project_key": project_key_for_directory(place / "tree"),
        "session_id": session.session_id,
    }
    entries = asyncio.run(session.store.load(key)) or []
    return [
        plain_blocks([entry["message"]])
        for entry in entries
        if entry["type"] in ("user", "assistant")
    ]


def plain_blocks(messages: list[dict[str, Any]]) -> list[Any]:
    """What was said and answered: without the CLI's own reminders, texts of its tools, and marks
    for caching.
    """
    blocks = [
        (message["role"], block)
        for message in messages
        for block in (
            [{"type": "text", "text": message["content"]}]
            if isinstance(message["content"], str)
            else message["content"]
        )
        if message["role"] != "system"
    ]
    fields = ("type", "text", "thinking", "name", "input", "is_error")
    return [
        (role, {name: block[name] for name in fields if name in block}) for role, block in blocks
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_judges_turn_leaves_the_same(name, tmp_path, environ, quick_agents):
    quick, real = run_with_both(tmp_path, environ, SCRIPTS[name], tools=("Read", "Grep"))
    for ours, theirs in zip(quick, real, strict=True):
        assert ours == theirs


@pytest.mark.slow
def test_an_answer_that_is_sent_back_once_leaves_the_same(tmp_path, environ, quick_agents):
    """The sentence is the task's own; the second answer stands as it is, though it is objected to
    again.
    """
    steps = [answer({"ok": False}), answer({"ok": False})]
    quick, real = run_with_both(
        tmp_path, environ, steps, objection=lambda answer: "" if answer["ok"] else "It must be ok."
    )
    for ours, theirs in zip(quick, real, strict=True):
        assert ours == theirs
    assert "It must be ok." in json.dumps(real[1])
    assert real[0][:2] == ["answered", {"ok": False}]


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDED)
def test_a_turn_without_an_answer_ends_the_same(name, tmp_path, environ, quick_agents):
    script, status, detail = ENDED[name]
    quick, real = run_with_both(tmp_path, environ, script, tools=("Read", "Grep"))
    assert (real[0][:2], detail in real[0][2]) == ([status, None], True)
    assert quick[0][:1] + quick[0][2:] == real[0][:1] + real[0][2:]  # the ending
    assert hooks_by_call(quick[2]) == hooks_by_call(real[2])
    assert quick[3] == real[3]
    assert [stream for _, _, stream, _ in quick[4]] == [stream for _, _, stream, _ in real[4]]


@pytest.mark.slow
def test_a_working_agents_turn_leaves_the_same(tmp_path, environ, quick_agents):
    quick, real = run_with_both(
        tmp_path, environ, WRITES, tools=("Read", "Write"), schema=None, working=True
    )
    for ours, theirs in zip(quick, real, strict=True):
        assert ours == theirs
    files = sorted(tmp_path.glob("*/*/tree/new/a.txt"))
    assert [file.read_text() for file in files] == ["b", "b"]


@pytest.mark.slow
def test_a_session_that_goes_on_leaves_the_same(tmp_path, environ, quick_agents):
    write = ToolUse("Write", {"file_path": "b.txt", "content": "b"})
    steps = [*WRITES, Turn(Thinking("So?"), Text("On."), write), Turn(Text("Done again."))]
    options = {"tools": ("Read", "Write"), "schema": None, "working": True}
    quick, real = run_with_both(tmp_path, environ, steps, going_on="Go on.", **options)
    for ours, theirs in zip(quick, real, strict=True):
        assert ours == theirs


def outcome(ending: TurnResult) -> tuple[Any, ...]:
    """All but the words of the CLI's own error, and the price, which is the gateway's to say."""
    tokens = ending.cost.input_tokens, ending.cost.output_tokens
    detail = ending.detail.partition(DETAILS)[0]
    return (
        ending.status,
        ending.answer,
        detail,
        tokens,
        ending.used_tools,
        ending.permission_denials,
    )


def test_what_it_is_not_made_for_fails_the_test(tmp_path, environ, quick_agents):
    with answering(Turn(ToolUse("Grep", {"pattern": "a"}))) as model:
        ending, _ = hold(session_in(tmp_path, model.base_url, environ, tools=("Grep",)))
    assert ending.status == "died"
    assert "the tool Grep" in sdk_alone.refused()
