"""A finding that was given back at the end of a turn, and disputed before the next end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import pytest
from answers import answers, fails
from claude_cli import claude, fork_stop_hook
from command import CommandResult, vibe_gate
from hooked import JUDGED
from program import git, repository
from scripted_messages_api import MessagesRequest, Text, ToolUse, Turn
from stopping import SECRET, HookedAgentSession, start_session
from wire import Model, answer, answering

pytestmark = pytest.mark.slow

GATE = (
    'schema = 1\nrubrics = ["quality"]\n[hooks.stop]\nreview = "judge"\n'
    '[hooks.pre-commit]\njudge = "always"\n'
)
TEXT = "def size(values):\n    return len(values) - 1\n"
LINE = {"path": "b.py", "line": 2, "quote": "    return len(values) - 1", "side": "after"}
FAILS = answers(fails(LINE, criterion="clear", reason="It is one too few."))
STANDS = {"outcome": "stands", "reason": "Nothing prevents it.", "evidence": []}
REFUTED = {"outcome": "refuted", "reason": "Callers add it.", "evidence": [LINE]}
ARGUMENT = "Line 2 is meant: the last value is a sentinel."


def add_gate(root: Path) -> None:
    folder = root / ".vibe-gate"
    (folder / "rubrics").mkdir(parents=True)
    (folder / "gate.toml").write_text(GATE)
    (folder / "rubrics" / "quality.toml").write_text(JUDGED)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "gate", "--no-verify")


@pytest.fixture
def session(quick_agents: None, tmp_path: Path, environ: dict[str, str]) -> HookedAgentSession:
    session = start_session(tmp_path / "r", environ)
    add_gate(session.root)
    session.prompt()
    return session


def name_in(reason: str) -> str:
    """The id of the finding that was given back."""
    match = re.search(r"\[clear\] \[([0-9a-f]{8})\]", reason)
    assert match, reason
    return match[1]


def dispute(session: HookedAgentSession, reason: str) -> CommandResult:
    words = ("dispute", name_in(reason), "--reason", ARGUMENT)
    return vibe_gate(*words, cwd=session.root, environ=session.environ)


def hold_turn(session: HookedAgentSession, model: Model) -> str:
    """Write what fails and end the turn; what the agent is given."""
    session.environ |= model.environ
    session.write("b.py", TEXT)
    stop_answer = session.stop()
    assert stop_answer.holds
    return stop_answer.reason


def test_what_is_given_back_says_how_a_judges_finding_is_disputed_and_which(session):
    with answering(FAILS, STANDS) as model:
        reason = hold_turn(session, model)
    assert f"({name_in(reason)})" in reason
    assert "`vibe-gate dispute FINDING --reason TEXT`" in reason
    assert len(reason.encode()) <= 4096


def test_a_checks_finding_is_given_back_without_a_word_of_disputes(tmp_path, environ):
    session = start_session(tmp_path / "r", environ)
    session.write("b.py", SECRET)
    assert "dispute" not in session.stop().reason


def test_after_a_refuted_dispute_the_turn_ends_in_silence_and_nothing_more_is_asked(session):
    with answering(FAILS, STANDS, REFUTED) as model:
        reason = hold_turn(session, model)
        assert dispute(session, reason).code == 0
        assert session.stop(after_block=True).document == {}
        assert session.stop(after_block=True).document == {}
        assert len(model.script.requests) == 3


def test_after_a_dispute_that_stands_the_agent_stops_and_the_person_is_told_both_sides(session):
    with answering(FAILS, STANDS, STANDS) as model:
        reason = hold_turn(session, model)
        assert dispute(session, reason).code == 1
        let_go = session.stop(after_block=True)
        assert not let_go.holds
        assert "without changing anything more" in let_go.message
        assert "It is one too few." in let_go.message
        assert f": {ARGUMENT}" in let_go.message
        assert "Second look: stands. Nothing prevents it." in let_go.message
        assert session.stop(after_block=True).document == {}
        assert len(model.script.requests) == 3


def test_a_dispute_without_an_answer_changes_nothing_at_the_next_stop(session):
    with answering(FAILS, STANDS, Turn("No.", stop_reason="refusal")) as model:
        reason = hold_turn(session, model)
        assert dispute(session, reason).code == 3
        let_go = session.stop(after_block=True)
        assert not let_go.holds
        assert "Disputed" not in let_go.message
        assert len(model.script.requests) == 3


def steps_of_claude(root: Path, look: dict[str, Any]) -> list[Any]:
    """Claude Code writes what fails, is held, disputes, and says that it is done."""

    def disputes(request: MessagesRequest) -> Turn:
        name = name_in(json.dumps(request.messages).replace("\\n", "\n"))
        line = f'{forked.programs()}/vibe-gate dispute {name} --reason "{ARGUMENT}"'
        return Turn(ToolUse("Bash", {"command": line, "description": "dispute"}))

    write = ToolUse("Write", {"file_path": str(root / "b.py"), "content": TEXT})
    first = [Turn(write), Turn(Text("done")), answer(FAILS), answer(STANDS)]
    return [*first, disputes, answer(look), Turn(Text("I said why"))]


@pytest.fixture
def installed(tmp_path: Path, environ: dict[str, str]) -> Path:
    root = repository(tmp_path / "r")
    for target in (("git",), ("claude", "--stop")):
        installation = vibe_gate("install", *target, cwd=root, environ=environ)
        assert installation.code == 0, installation.err
    fork_stop_hook(root)
    add_gate(root)
    return root


@pytest.fixture
def session_of_claude(
    installed: Path, tmp_path: Path, quick_agents: None, environ: dict[str, str]
) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    """Claude Code itself, whose dispute is answered with this second look; its judges are quick."""
    home, path = tmp_path / "home", environ["PATH"]
    return lambda look: claude(installed, home, steps_of_claude(installed, look), PATH=path)


def read_hook_message(messages: list[dict[str, Any]]) -> str:
    """What our hook told the person."""
    return "\n".join(
        message["content"] for message in messages if message.get("subtype") == "informational"
    )


def test_claude_code_disputes_a_finding_that_is_refuted_and_stops_in_silence(
    installed, session_of_claude, environ
):
    messages = session_of_claude(REFUTED)
    assert messages[-1]["result"] == "I said why"
    assert "does not pass the gate" not in read_hook_message(messages)
    git(installed, "add", "-A")
    with answering() as model:
        review = vibe_gate(
            "review", "--staged", "--json", cwd=installed, environ=environ | model.environ
        )
        assert (review.code, model.script.requests) == (0, [])
    assert review.json["findings"][0]["second_look"]["dispute"]["by"] == "Claude Code"
