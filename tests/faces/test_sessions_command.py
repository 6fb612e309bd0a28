"""`vibe-gate sessions`: lists, shows, copies, renames, deletes and takes over conversations."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command import vibe_gate
from sessions.test_sessions import FIRST, opened, sessions_in, talk, tree

from vibe_gate.store.clone_state import open_state

NO_SESSIONS = (
    "No sessions yet; `vibe-gate run` begins one. Sessions of Claude Code, Gemini CLI and Codex: "
    "`vibe-gate install claude|gemini|codex` records them.\n"
)

OLDER = {
    "metadata": {
        "session_id": "old-1", "start_time": "2025-11-02T10:20:30", "title": "Mend it",
        "environment": {"working_directory": "/home/ada/project"},
    },
    "messages": [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "Mend /home/ada/project/a.py.\nPlease."},
        {
            "role": "assistant", "content": "I read it.",
            "tool_calls": [{"id": "c1", "function": {"name": "read_file", "arguments": '{"path": "a.py"}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "x = 1"},
        {"role": "assistant", "content": "Mended."},
    ],
}  # fmt: skip


@pytest.fixture
def ask(repo, environ):
    """Runs `vibe-gate sessions ...` in a repository with one session of three turns."""
    begun = open_state(repo / ".git").begun
    sessions = sessions_in(repo, begun=begun)
    mirror = opened(sessions, repo / "workspace", agent="fixer", model="claude-sonnet-5", run="r1")
    talk(mirror, repo / "workspace", turns=3)
    mirror.close()

    def run(*argv: str, code: int = 0) -> str:
        result = vibe_gate("sessions", *argv, cwd=repo, environ=environ)
        assert result.code == code, result.err
        return result.out if code == 0 else result.err

    return run


def document(text: str) -> dict:
    return json.loads(text)


def only_id(ask) -> str:
    (session,) = document(ask("list", "--json"))["sessions"]
    return session["id"]


def test_list_says_what_there_is_and_show_what_was_said(ask):
    line = ask("list")
    assert only_id(ask) in line and "  fixer          3 turns  $0.7500  Do 1." in line
    output = ask("show", FIRST[:4])
    assert "agent     fixer" in output and "you: Do 1." in output and "agent: Done 3." in output
    assert "-- turn 2 · 2026-01-02 03:04 · ended · $0.2500 · files a20000000000" in output
    assert len(document(ask("show", FIRST, "--json"))["messages"]) == 6


def test_no_session_and_a_wrong_name_are_said(repo, environ):
    result = vibe_gate("sessions", "list", cwd=repo, environ=environ)
    assert (result.code, result.out) == (0, NO_SESSIONS)
    result = vibe_gate("sessions", "show", "6f*", cwd=repo, environ=environ)
    assert result.code == 2 and "No session '6f*'; see `vibe-gate sessions list`." in result.err


def test_a_fork_is_not_the_newest_and_a_rewound_session_is(ask, repo):
    first = only_id(ask)
    fork = document(ask("fork", first, "--at", "2", "--json"))
    assert [turn["after"] for turn in fork["turns"]] == [tree("a", 1), tree("a", 2)] and fork[
        "parent_session_id"
    ] == FIRST
    assert [session["id"] for session in document(ask("list", "--json"))["sessions"]] == [
        first,
        fork["id"],
    ]
    claims = repo / ".vibe-artifacts/sessions" / fork["id"] / "meta.json"
    claims.write_text(claims.read_text().replace(fork["updated_at"], "2999-01-01T00:00:00.000Z"))
    rewound = document(ask("rewind", first, "--to", "1", "--json"))
    newest = document(ask("list", "--json"))["sessions"][0]
    assert newest["id"] == rewound["id"] and [turn["after"] for turn in newest["turns"]] == [
        tree("a", 1)
    ]
    messages = document(ask("show", rewound["id"], "--json"))["messages"]
    assert len(messages) == 2 and messages[-1]["uuid"] == rewound["turns"][-1]["last"]
    assert "there is no turn 4" in ask("rewind", first, "--to", "4", code=2)
    assert len(document(ask("show", first, "--json"))["messages"]) == 6


def test_a_session_gets_another_title_and_is_deleted(ask, repo):
    first = only_id(ask)
    assert ask("rename", first, "A better title") == f"{first}  A better title\n"
    assert "A better title" in ask("list")
    assert "needs a letter" in ask("rename", first, " ", code=2)
    assert ask("delete", first) == f"{first} is deleted.\n"
    assert ask("list") == NO_SESSIONS
    assert not list((repo / ".vibe-artifacts" / "sessions").iterdir())


def test_an_older_file_is_taken_over_once_however_often_it_is_asked(ask, tmp_path):
    file = tmp_path / "old.json"
    file.write_text(json.dumps(OLDER))
    migrated = document(ask("migrate", str(file), "--json"))
    assert (migrated["messages"], migrated["new"], migrated["title"]) == (5, True, "Mend it")
    assert (
        migrated["id"].startswith("vibe_20251102_102030_")
        and migrated["cwd"] == "/home/ada/project"
    )
    second = document(ask("migrate", str(file), "--json"))
    assert (second["id"], second["new"]) == (migrated["id"], False)
    output = ask("show", migrated["id"])
    assert (
        "you: Mend a.py.\nPlease." in output
        and '  read_file {"path": "a.py"}\n  result: x = 1' in output
    )


CALL = '{"metadata": {}, "messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": %s}}]}]}'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[]", "it is not a JSON object"),
        ('{"metadata": {}, "messages": []}', "at least one message"),
        ('{"metadata": {}, "messages": [{"role": "ghost"}]}', "none of the roles"),
        ('{"metadata": {}, "messages": [1]}', "none of the roles"),
        (
            '{"metadata": {"start_time": "0001-01-01T00:00:00"}, "messages": [{"role": "user"}]}',
            "start_time",
        ),
        ('{"metadata": {"title": "\\ud800"}, "messages": [{"role": "user"}]}', "not Unicode"),
        (
            '{"metadata": {"environment": {"working_directory": "/\\u0000"}}, "messages": [{}]}',
            "not Unicode",
        ),
        (CALL % ("[" * 200 + "]" * 200), "nested more than"),
    ],
)
def test_what_is_no_older_session_is_refused(ask, tmp_path, text, sentence):
    file = tmp_path / "old.json"
    file.write_text(text)
    assert sentence in ask("migrate", str(file), code=2)


def test_sessions_that_the_repository_brought_are_not_used(ask, repo):
    from program import git

    git(repo, "add", "-f", ".vibe-artifacts/sessions")
    assert "git tracks" in ask("list", code=3)


@pytest.mark.parametrize(
    "words",
    [
        ("resume", FIRST, "Go on."),
        ("fork", FIRST),
        ("rewind", FIRST, "--to", "1"),
        ("continue", "Go on."),
    ],
)
def test_no_agent_goes_on_with_a_session_that_was_copied_here_until_a_person_takes_it_over(
    ask, repo, words
):
    name = only_id(ask)
    shutil.rmtree(repo / ".git/vibe-gate")
    refusal = " ".join(ask(*words, code=2 if words[0] == "continue" else 5).split())
    assert (
        "No session began in this clone"
        if words[0] == "continue"
        else "did not begin in this clone"
    ) in refusal
    assert only_id(ask) == name and "you: Do 1." in ask("show", FIRST)
    assert f"{name}  taken over" in ask("migrate", name)
    assert f"{name}  was of this clone already" in ask("migrate", name)
    assert "a copy of" in ask("fork", FIRST)


def test_help_teaches(repo, environ):
    result = vibe_gate("sessions", "--help", cwd=repo, environ=environ)
    assert "rewind 6f1c --to 2" in result.out and max(map(len, result.out.splitlines())) <= 80


def test_a_path_of_a_file_that_is_not_there_is_said(ask, tmp_path):
    assert "No such file" in ask("migrate", str(Path(tmp_path) / "none.json"), code=2)


CAPTURED = "0f3c9a1e-1111-2222-3333-444455556666"


@pytest.fixture
def with_captured(ask, repo):
    """`ask`, with a captured session that waits to be folded, too."""
    folder = repo / ".git" / "vibe-gate" / "captures" / CAPTURED
    folder.mkdir(parents=True)
    call = {"hook_event_name": "PostToolUse", "tool_name": "Write", "tool_use_id": "toolu_1"}
    call |= {"tool_input": {"file_path": str(repo / "a.py"), "content": "x"}, "tool_response": {}}
    events = [
        {
            "hook_event_name": "UserPromptSubmit",
            "prompt": "Rename f.\x1b[31m\u202e\nNo more." + "y" * 100_000,
        },
        *[call] * 60,
        {
            "hook_event_name": "UserPromptSubmit",
            "prompt": "::error::Now the key sk-ant-api03-" + "Zq7" * 31 + "AA",
        },
    ]
    lines = [
        json.dumps({"ts": 1_770_000_000_000 + at, "event": event})
        for at, event in enumerate(events)
    ]
    (folder / "events.ndjson").write_text("\n".join(lines) + "\n")
    return ask


def test_captured_sessions_are_listed_below_our_own_and_shown_turn_by_turn(with_captured):
    ask = with_captured
    own_line, between, heading, line = ask("list").splitlines()
    assert "fixer" in own_line and (between, heading) == (
        "",
        "Captured sessions of other programs:",
    )
    assert (
        line.split("  ", 2)[1].startswith("claude_2026")
        and "Claude Code    2 turns    1 file  Rename f." in line
    )
    (head,) = document(ask("list", "--json"))["captured"]
    for name in (CAPTURED, CAPTURED[:6], head["id"]):
        output = ask("show", name)
        assert output.startswith(head["id"]) and len(output) < 10_000
        assert "-- turn 1 · 2026-02-02 02:40\nyou: Rename f." in output
        assert "and 10 more calls; --json has them." in output
        assert not set(output) & {"\x1b", "\u202e"} and "sk-ant" not in output
    first, second = document(ask("show", CAPTURED, "--json"))["turns"]
    assert len(first["prompt"]) > 100_000 and len(first["calls"]) == 60 and second["calls"] == []


def test_a_captured_session_is_deleted_and_its_own_program_goes_on_with_it(with_captured):
    ask = with_captured
    for argv, remedy in (
        (("resume", CAPTURED, "go on"), f"claude --resume {CAPTURED}"),
        (("fork", CAPTURED), f"claude --resume {CAPTURED} --fork-session"),
        (("rewind", CAPTURED, "--to", "1"), "--fork-session"),
        (("rename", CAPTURED, "x"), "Its name is made of its agent, time and id"),
    ):
        refusal = ask(*argv, code=2)
        assert (
            "is a session of Claude Code, which vibe-gate only recorded." in refusal
            and remedy in refusal
        )
    assert "is deleted, with its prompts." in ask("delete", CAPTURED)
    assert "Captured" not in ask("list") and "No session" in ask("show", CAPTURED, code=2)
