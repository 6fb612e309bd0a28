"""Gemini CLI itself, with our hooks installed, and a model scripted on loopback.

CI does not install it (100 MB, half a minute); its events are recorded in
`tests/store/gemini_events.ndjson`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from command import vibe_gate
from program import git, repository
from stopping import CLEAN, SECRET

from vibe_gate.store.captured_turns import prompts_of

GEMINI = shutil.which("gemini")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        GEMINI is None, reason="needs Gemini CLI on PATH: npm install -g @google/gemini-cli@0.61.0"
    ),
]

SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"enableAutoUpdate": False},
}


class Scripted(ThreadingHTTPServer):
    """The API of Gemini: one call of a tool after the other, "Done." in place of None and at the
    end.
    """

    def __init__(self, calls: list[tuple[str, dict[str, Any]] | None]) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.calls = iter(calls)
        self.results: list[Any] = []
        self.texts: list[str] = []
        """What the model was told besides results."""


class Answer(BaseHTTPRequestHandler):
    """One answer; what the CLI asks without tools (a title, say) is none of the script's turns."""

    server: Scripted

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        part: dict[str, Any] = {"text": "Done."}
        if asked.get("tools"):
            last = asked["contents"][-1]["parts"]
            self.server.results += [
                each["functionResponse"] for each in last if "functionResponse" in each
            ]
            self.server.texts += [each["text"] for each in last if "text" in each]
            if call := next(self.server.calls, None):
                part = {"functionCall": {"name": call[0], "args": call[1]}}
        candidate = {
            "content": {"role": "model", "parts": [part]},
            "finishReason": "STOP",
            "index": 0,
        }
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        text = json.dumps({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"})
        streams = "stream" in self.path
        body = (f"data: {text}\n\n" if streams else text).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if streams else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def scripted(calls: list[tuple[str, dict[str, Any]] | None]) -> Iterator[Scripted]:
    server = Scripted(calls)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def gemini(
    where: Path, home: Path, prompt: str, calls: list[tuple[str, dict[str, Any]] | None]
) -> Scripted:
    """Run one prompt in `where`; the API, with what the model was told."""
    (home / ".gemini").mkdir(parents=True)
    (home / ".gemini" / "settings.json").write_text(json.dumps(SETTINGS))
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")}
    with scripted(calls) as api:
        around = kept | {
            name: value for name, value in os.environ.items() if name.startswith("GIT_")
        }
        around |= {"HOME": str(home), "GEMINI_API_KEY": "x", "GEMINI_CLI_TRUST_WORKSPACE": "true"}
        around |= {
            "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{api.server_port}",
            "NO_PROXY": "127.0.0.1",
        }
        command = [str(GEMINI), "--approval-mode=yolo", "-m", "gemini-2.5-pro", "-p", prompt]
        done = subprocess.run(
            command,
            cwd=where,
            env=around,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=250,
        )
    assert done.returncode == 0, done.stderr
    return api


def test_a_session_of_gemini_cli_is_captured_named_and_guarded(tmp_path, environ):
    where = repository(tmp_path / "r")
    assert vibe_gate("install", "gemini", cwd=where, environ=environ).code == 0
    (where / ".vibe-gate").mkdir()
    (where / ".vibe-gate" / "gate.toml").write_text("schema = 1\n")
    at = str(where / "a.txt")
    told = gemini(
        where,
        tmp_path / "home",
        "Write b.py and c.py,\nand say two in a.txt",
        [
            ("write_file", {"file_path": str(where / "b.py"), "content": "x = 1\n"}),
            ("write_file", {"file_path": str(where / "c.py"), "content": "y = 'ü'\n"}),
            (
                "replace",
                {"file_path": at, "instruction": "two", "old_string": "one", "new_string": "two"},
            ),
            ("run_shell_command", {"command": "git commit --allow-empty --no-verify -m sneaky"}),
            (
                "write_file",
                {"file_path": str(where / ".vibe-gate" / "gate.toml"), "content": "softer"},
            ),
        ],
    ).results
    assert "goes around the gate; run it without --no-verify" in json.dumps(told[3])
    assert "let the user edit it" in json.dumps(told[4])
    assert (git(where, "log", "--format=%s"), (where / "a.txt").read_text()) == ("start", "two\n")

    (where / "by_hand.txt").write_text("written by a person\n")
    git(where, "add", "a.txt", "b.py", "c.py", "by_hand.txt")
    done = vibe_gate("review", "--staged", "--no-judge", "--json", cwd=where, environ=environ)
    (folder,) = (where / ".vibe-artifacts" / "captures").iterdir()
    meta = json.loads((folder / "meta.json").read_text())
    assert (meta["agent"], meta["ended"], meta["damaged"]) == ("gemini", True, 0)
    own = meta["session_id"].removeprefix("gemini.")
    [hint] = done.json["agent_authored"]["hints"]
    assert (hint["agent"], hint["session"], hint["files"]) == ("Gemini CLI", own, 3)
    (prompt,) = prompts_of([where], meta["session_id"])
    assert (prompt.agent, prompt.text) == ("gemini", "Write b.py and c.py,\nand say two in a.txt")
    assert "✓ gemini hooks" in vibe_gate("doctor", cwd=where, environ=environ).out


def test_a_turn_of_gemini_cli_is_held_until_what_it_wrote_is_repaired(tmp_path, environ):
    where = repository(tmp_path / "r")
    assert vibe_gate("install", "gemini", "--stop", cwd=where, environ=environ).code == 0
    path = str(where / "b.py")
    api = gemini(
        where,
        tmp_path / "home",
        "Write b.py",
        [
            ("write_file", {"file_path": path, "content": SECRET}),
            None,
            ("write_file", {"file_path": path, "content": CLEAN}),
        ],
    )
    (given,) = [text for text in api.texts if "vibe-gate" in text]
    assert "round 1 of 3" in given
    assert "b.py:1: failure: GitHub token" in given
    assert (where / "b.py").read_text() == CLEAN


def test_a_turn_of_gemini_cli_that_repairs_nothing_ends(tmp_path, environ):
    where = repository(tmp_path / "r")
    assert vibe_gate("install", "gemini", "--stop", cwd=where, environ=environ).code == 0
    written = ("write_file", {"file_path": str(where / "b.py"), "content": SECRET})
    api = gemini(where, tmp_path / "home", "Write b.py", [written])
    assert len([text for text in api.texts if "vibe-gate" in text]) == 1


def test_a_turn_of_gemini_cli_is_given_back_three_times_at_most(tmp_path, environ):
    where = repository(tmp_path / "r")
    assert vibe_gate("install", "gemini", "--stop", cwd=where, environ=environ).code == 0
    calls: list[tuple[str, dict[str, Any]] | None] = []
    for number in range(1, 6):
        content = SECRET * number
        calls += [("write_file", {"file_path": str(where / "b.py"), "content": content}), None]
    api = gemini(where, tmp_path / "home", "Write b.py", calls)
    assert len([text for text in api.texts if "vibe-gate" in text]) == 3
