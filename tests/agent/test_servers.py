"""MCP servers that do not start: an error with the server's name, how it ended and what it said
last.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from wire import answering, hold, session_in

from vibe_gate.agent import mcp_servers
from vibe_gate.agent.session_end import MAX_DETAIL, ObservedSession, conclude
from vibe_gate.errors import AgentError
from vibe_gate.secrets import Redactor

LONG = "s3cr3t " * 800


def run_watched(folder, code: str, **server: str) -> subprocess.CompletedProcess[str]:
    """Run the server as the CLI would start it, to its end."""
    server_command = mcp_servers.watched_servers(
        {"docs": {"command": sys.executable, "args": ["-c", code], **server}}, folder
    )["docs"]
    argv = [server_command["command"], *server_command["args"]]
    return subprocess.run(argv, input="asked", capture_output=True, text=True, check=False)


def failure_sentence_of(folder, redact=str, **state: str) -> str:
    state = {"name": "docs", "status": "failed", **state}
    failed = mcp_servers.server_states(["docs"], [state], folder, redact).failed
    error = mcp_servers.start_failure(failed)
    sentence = str(error).partition("MCP server ")[2]
    return " Details: ".join(filter(None, [sentence, error.details]))


def test_a_server_speaks_as_before_and_its_end_is_kept(tmp_path):
    code = (
        "import sys; print(input()); print('\\x1b[31mfirst\\nlast', file=sys.stderr); sys.exit(7)"
    )
    result = run_watched(tmp_path, code)
    assert (result.stdout, result.stderr) == ("asked\n", "")
    assert (
        failure_sentence_of(tmp_path)
        == "docs (exit code 7) did not start. Details: docs: [31mfirst | last"
    )


@pytest.mark.parametrize(
    ("code", "sentence_end"),
    [
        ("import sys; sys.exit('Traceback:\\n  File \"a.py\", line 1\\nNo module named docs')",
         "1) did not start. Details: docs: Traceback: | File \"a.py\", line 1 | No module named docs"),
        ("pass", "0) did not start."),
        (f"import sys; print('{LONG}\\nend', file=sys.stderr)", "0) did not start. Details: docs: end"),
    ],
)  # fmt: skip
def test_the_reason_is_its_exit_code_and_its_last_whole_lines(tmp_path, code, sentence_end):
    run_watched(tmp_path, code)
    assert failure_sentence_of(tmp_path) == f"docs (exit code {sentence_end}"


def test_a_secret_is_redacted_before_what_was_said_is_put_on_one_line_and_cut(tmp_path):
    secret = "pq\x01hunter2\ncorrect-horse-battery"
    redact = Redactor({"DB_PASSWORD": secret}).text
    run_watched(tmp_path, f"import sys; print('no login with', {secret!r}, file=sys.stderr)")
    assert failure_sentence_of(tmp_path, redact).startswith(
        "docs (exit code 0) did not start. Details: docs: no login with [redacted:"
    )
    for filler in ("", "x" * (MAX_DETAIL - 70)):
        end = conclude(ObservedSession(stderr=[f"{filler} {secret}"]), 30, redact)
        for text in (end.detail, end.cause.details):
            assert "hunter2" not in text and "pq" not in text


def test_what_a_server_left_holding_its_pipes_does_not_delay_its_error(tmp_path):
    """Claude Code sees neither's end; a server that is connected may have left its work to another
    process.
    """
    (tmp_path / "mcp-docs.exit").write_text("1\n")
    assert mcp_servers.server_states(["docs"], [], tmp_path, str).starting == ("docs",)
    os.utime(tmp_path / "mcp-docs.exit", (0, time.time() - 2 * mcp_servers.ENDED_S))
    assert failure_sentence_of(tmp_path, status="pending") == "docs (exit code 1) did not start."
    states = [{"name": "docs", "status": "connected"}]
    assert mcp_servers.server_states(["docs"], states, tmp_path, str) == mcp_servers.ServerStates()


def test_what_has_no_program_is_told_in_the_words_of_claude_code(tmp_path):
    server = {"type": "http", "url": "http://127.0.0.1:9"}
    assert mcp_servers.watched_servers({"docs": server}, tmp_path) == {"docs": server}
    assert (
        failure_sentence_of(tmp_path, error="ECONNREFUSED")
        == "docs (no connection) did not start. Details: docs: ECONNREFUSED"
    )
    assert (
        failure_sentence_of(tmp_path, status="needs-auth")
        == "docs (it asks for a login) did not start."
    )
    assert mcp_servers.server_states(
        ["docs", "db"], [{"name": "db", "status": "connected"}], tmp_path, str
    ).starting == ("docs",)


def test_a_session_that_ends_while_a_server_starts_says_which():
    end = conclude(ObservedSession(timed_out=True, starting=("docs",)), 30, str)
    assert (end.status, end.detail.endswith("It waited for the MCP server docs to start.")) == (
        "timeout",
        True,
    )


@pytest.mark.slow
def test_no_agent_works_without_a_server_of_its_own(tmp_path, environ):
    silent = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]}
    broken = {"command": sys.executable, "args": ["-c", "import nosuch"]}
    with answering() as model:
        session = session_in(
            tmp_path, model.base_url, environ, mcp_servers={"db": silent, "docs": broken}
        )
        with pytest.raises(
            AgentError, match=r"its MCP server docs \(exit code 1\) did not start"
        ) as caught:
            hold(session)
        assert "named 'nosuch'" in caught.value.details
        assert model.script.requests == []
