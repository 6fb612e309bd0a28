"""The stand-in for Claude Code that most judges of tests are (`judges_cli.py`) leaves what Claude Code leaves."""

from __future__ import annotations

from typing import Any

import pytest
import sdk_alone
from scripted_messages_api import ApiError, Text, Thinking, ToolUse, Turn
from wire import Notes, answer, answering, costing, hold, task_in

from vibe_gate.domain.wire import Ending

ITS_OWN = {
    "ts", "uuid", "message_id", "tool_use_id", "session_id", "transcript_path", "prompt_id", "effort", "duration_ms",
    "background_tasks", "session_crons", "data", "tool_result_meta",
}  # fmt: skip
"""Fields that no reader of a judge's turn takes: names of one run, times, what the CLI says of itself."""


def plain(noted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in one.items() if name not in ITS_OWN} for one in noted]


def results(notes: Notes) -> dict[str, Any]:
    """What is read of the result: how it ended, and what was used."""
    (result,) = (one for one in notes.events if one["type"] == "result")
    names = ("subtype", "is_error", "num_turns", "structured_output", "api_error_status", "terminal_reason")
    used = {name: (result["usage"] or {}).get(name, 0) for name in ("input_tokens", "output_tokens")}
    return {name: result.get(name) for name in names} | used | {"denials": result["permission_denials"]}


SCRIPTS = {
    "an answer": answer({"ok": True}, usage=costing(30)),
    "words before it": Turn(Text("hm"), ToolUse("StructuredOutput", {"ok": False}), characters_per_delta=2),
    "a thought, and what is no ASCII": Turn(Thinking("é"), Text("ü\u2028"), ToolUse("StructuredOutput", {"ok": True})),
    "a refused request": ApiError(403, "no: [vibe-gate]"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_judges_turn_leaves_the_same(name, tmp_path, environ, quick_judges):
    seen = []
    for path in (environ["PATH"], environ["PATH"].removeprefix(f"{sdk_alone.JUDGES}:")):
        with answering(SCRIPTS[name]) as model:
            ending, notes = hold(task_in(tmp_path, model.base_url, environ | {"PATH": path}, tools=("Read", "Grep")))
        (request,) = model.script.requests
        asked = (request.body["messages"][0], request.body["model"], request.body["stream"], request.tool_names)
        schema = request.body["tools"][-1]["input_schema"]
        told = [
            one for one in plain(notes.events) if one["type"] != "result" and one.get("subtype") != "thinking_tokens"
        ]
        seen.append((outcome(ending), told, plain(notes.hooks), results(notes), asked, schema))
        assert "You judge." in request.system_text
    for ours, theirs in zip(*seen, strict=True):
        assert ours == theirs


def outcome(ending: Ending) -> tuple[Any, ...]:
    """All but the words of the CLI's own error, and the price, which is the gateway's to say."""
    tokens = ending.cost.input_tokens, ending.cost.output_tokens
    detail = ending.detail.partition(" (")[0]
    return ending.status, ending.answer, detail, tokens, ending.used_tools, ending.permission_denials


def test_what_it_is_not_made_for_fails_the_test(tmp_path, environ, quick_judges):
    with answering(Turn(ToolUse("Read", {"file_path": "a"}))) as model:
        ending, _ = hold(task_in(tmp_path, model.base_url, environ, tools=("Read",)))
    assert ending.status == "died"
    assert "the tool Read" in sdk_alone.refused()
