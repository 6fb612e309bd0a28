"""MCP servers that do not start: an error with the server's name, how it ended and what it said last."""

from __future__ import annotations

import subprocess
import sys

import pytest
from wire import answering, hold, task_in

from vibe_gate.agent import servers
from vibe_gate.agent.conclusion import Observed, conclude
from vibe_gate.errors import AgentError

LONG = "s3cr3t " * 800


def started(folder, code: str, **server: str) -> subprocess.CompletedProcess[str]:
    """The program as the CLI would start it, to its end."""
    kept = servers.kept({"docs": {"command": sys.executable, "args": ["-c", code], **server}}, folder)["docs"]
    argv = [kept["command"], *kept["args"]]
    return subprocess.run(argv, input="asked", capture_output=True, text=True, check=False)


def why(folder, **told: str) -> str:
    return servers.states(["docs"], [{"name": "docs", "status": "failed", **told}], folder).failed["docs"]


def test_a_server_speaks_as_before_and_its_end_is_kept(tmp_path):
    code = "import sys; print(input()); print('\\x1b[31mfirst\\nlast', file=sys.stderr); sys.exit(7)"
    done = started(tmp_path, code)
    assert (done.stdout, done.stderr) == ("asked\n", "")
    assert why(tmp_path) == "exit code 7, stderr ends: [31mfirst | last"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nosuch", "exit code 1, stderr ends: Traceback (most recent call last): | "
         "File \"<string>\", line 1, in <module> | ModuleNotFoundError: No module named 'nosuch'"),
        ("pass", "exit code 0, nothing on stderr"),
        (f"import sys; print('{LONG}\\nend', file=sys.stderr)", "exit code 0, stderr ends: end"),
    ],
)  # fmt: skip
def test_the_reason_is_its_exit_code_and_its_last_whole_lines(tmp_path, code, said):
    started(tmp_path, code)
    assert why(tmp_path) == said


def test_what_has_no_program_is_told_in_the_words_of_claude_code(tmp_path):
    server = {"type": "http", "url": "http://127.0.0.1:9"}
    assert servers.kept({"docs": server}, tmp_path) == {"docs": server}
    assert why(tmp_path, error="ECONNREFUSED") == "ECONNREFUSED"
    assert why(tmp_path, status="needs-auth") == "it asks for a login, which an agent cannot give"
    assert servers.states(["docs", "db"], [{"name": "db", "status": "connected"}], tmp_path).starting == ("docs",)


def test_a_session_that_ends_while_a_server_starts_says_which():
    status, detail = conclude(Observed(timed_out=True, starting=("docs",)), 30)
    assert (status, detail.endswith("It waited for the MCP server docs to start.")) == ("timeout", True)


@pytest.mark.slow
def test_no_agent_works_without_a_server_of_its_own(tmp_path, environ):
    silent = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]}
    broken = {"command": sys.executable, "args": ["-c", "import nosuch"]}
    with answering() as model:
        task = task_in(tmp_path, model.base_url, environ, mcp_servers={"db": silent, "docs": broken})
        with pytest.raises(AgentError, match=r"its MCP server docs did not start: exit code 1, .* named 'nosuch'"):
            hold(task)
        assert model.script.requests == []
