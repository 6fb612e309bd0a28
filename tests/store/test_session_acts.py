"""What a captured session ran and said, read from events as the agents' programs write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from store.test_captured_prompts import TS, capture, prompt_event

from vibe_gate.faces.agent_hook import spool
from vibe_gate.store import session_acts
from vibe_gate.store.session_acts import SessionActs, moment_of_content, session_acts_of

NOTIFICATION = (
    "<task-notification>\n<task-id>b1</task-id>\n<tool-use-id>{call}</tool-use-id>\n"
    "<status>{status}</status>\n<summary>{summary}</summary>\n</task-notification>"
)
HELD = "vibe-gate: what this session wrote does not pass the gate (round 1 of 3):"


def ran(line: str, response: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A command of Claude Code that ended well, or as `response` says."""
    answer = {"stdout": "", "stderr": "", "interrupted": False} | (response or {})
    return {
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_use_id": f"toolu_{line}",
        "tool_input": {"command": line},
        "tool_response": answer,
        "duration_ms": 5,
    } | fields


def failed(line: str, error: str, **fields: Any) -> dict[str, Any]:
    event = ran(line, None, **{"error": error, "is_interrupt": False, **fields})
    del event["tool_response"]
    return event | {"hook_event_name": "PostToolUseFailure"}


def stopped(words: str) -> dict[str, Any]:
    return {"hook_event_name": "Stop", "last_assistant_message": words}


def gemini_ran(line: str, content: str) -> dict[str, Any]:
    return {
        "hook_event_name": "AfterTool",
        "tool_name": "run_shell_command",
        "tool_input": {"command": line},
        "tool_response": {"llmContent": content, "returnDisplay": ""},
    }


def frame_context(rows: str) -> str:
    return f"<untrusted_context>\n{rows}\nProcess Group PGID: 77\n</untrusted_context>"


def acts(tmp_path: Path, *events: object, session: str = "5e55") -> SessionActs:
    capture(tmp_path, tmp_path / "tree", *events, session=session)
    return session_acts_of([tmp_path / "tree"], session)


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (ran("a"), 0),
        (ran("a", {"interrupted": True}), None),
        (ran("a", {"returnCodeInterpretation": "No matches found"}), None),
        (failed("a", "Exit code 3\nbad"), 3),
        (failed("a", "Exit code 143\nCommand timed out after 1s"), 143),
        (failed("a", "Exit code 1"), 1),
        (failed("a", "the shell is gone"), None),
        (failed("a", "bad\nExit code 0"), None),
        (failed("a", "Exit code 1\n", is_interrupt=True), None),
    ],
)
def test_claude_code_tells_how_a_command_ended(tmp_path, event, status):
    (command,) = acts(tmp_path, event).commands
    assert (command.line, command.exit_status) == ("a", status)


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (frame_context("Output: ok"), 0),
        (frame_context("Output: bad\nExit Code: 3"), 3),
        (frame_context("Output: Exit Code: 3\nmore"), 0),
        (frame_context("Output: (empty)\nSignal: 9"), None),
        (frame_context("Output: (empty)\nError: spawn"), None),
        (frame_context("Output: ok\nExit Code: 4\nBackground PIDs: 1, 2"), 4),
        ("<untrusted_context>\nCommand was cancelled by user before it could complete.", None),
        ("Output: ok", None),
    ],
)
def test_gemini_cli_tells_a_status_that_is_not_zero(tmp_path, content, status):
    (command,) = acts(tmp_path, gemini_ran("a", content), session="gemini.5e55").commands
    assert command.exit_status == status


def test_codex_tells_no_status_and_what_it_said(tmp_path):
    event = ran("pytest", tool_response="1 passed\n")
    session = acts(tmp_path, prompt_event("go"), event, stopped("All pass."), session="codex.5e55")
    assert [command.exit_status for command in session.commands] == [None]
    assert [words.text for words in session.words] == ["All pass."]


@pytest.mark.parametrize(
    ("status", "summary", "exit_status"),
    [
        ("completed", 'Background command "x" completed (exit code 0)', 0),
        ("failed", 'Background command "x" failed with exit code 4', 4),
        ("killed", 'Background command "x" was stopped', None),
        ("failed", "completed (exit code 0)&lt;/summary&gt; failed with exit code 2", 2),
    ],
)
def test_a_command_in_the_background_ends_when_claude_code_says_so(
    tmp_path, status, summary, exit_status
):
    begun = ran("a", {"backgroundTaskId": "b1"})
    notification = NOTIFICATION.format(call="toolu_a", status=status, summary=summary)
    session = acts(tmp_path, prompt_event("go"), begun, prompt_event(notification))
    (command,) = session.commands
    assert command.ended_at is not None
    assert command.ended_at.timestamp() * 1000 == TS + 2
    assert command.exit_status == exit_status
    assert len(session.prompts) == 1


def test_a_command_in_the_background_that_was_not_seen_to_end_has_no_end(tmp_path):
    (command,) = acts(tmp_path, ran("a", {"backgroundTaskId": "b1"})).commands
    assert (command.ended_at, command.exit_status) == (None, None)


def test_what_the_stop_hook_gives_gemini_cli_is_a_prompt_of_nobody(tmp_path):
    def prompt(text: str) -> dict[str, str]:
        return {"hook_event_name": "BeforeAgent", "prompt": text}

    events = (prompt("go"), prompt(HELD), prompt("thanks"))
    session = acts(tmp_path, *events, session="gemini.5e55")
    assert (len(session.prompts), len(session.requests)) == (3, 2)


def test_hostile_events_and_others_tell_of_no_command(tmp_path):
    session = acts(
        tmp_path,
        ran("a", tool_input="none"),
        ran("a", tool_input={"command": 7}),
        ran("a", tool_name="Read"),
        prompt_event(NOTIFICATION.format(call="toolu_none", status="completed", summary="x")),
        stopped(" "),
    )
    assert (session.commands, session.words) == ((), ())


def test_the_moment_of_a_file_is_known_only_with_its_content(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"one\n")
    blob = "5626abf0f72e58d7a153368ba57db4c673c0e171"
    assert moment_of_content(file, blob, 4) is not None
    assert moment_of_content(file, "0" * 40, 4) is None
    assert moment_of_content(tmp_path / "none", blob, 4) is None


def test_what_the_stop_hook_gives_back_is_known_by_the_words_with_which_it_begins():
    assert session_acts.GIVEN_BACK == spool.GIVEN_BACK
