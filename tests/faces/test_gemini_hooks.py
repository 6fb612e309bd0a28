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
        document = json.loads(self.rfile.read(int(self.headers["content-length"])))
        part: dict[str, Any] = {"text": "Done."}
        if document.get("tools"):
            last = document["contents"][-1]["parts"]
            self.server.results += [
                entry["functionResponse"] for entry in last if "functionResponse" in entry
            ]
            self.server.texts += [entry["text"] for entry in last if "text" in entry]
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
def serve_script(calls: list[tuple[str, dict[str, Any]] | None]) -> Iterator[Scripted]:
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
    root: Path, home: Path, prompt: str, calls: list[tuple[str, dict[str, Any]] | None]
) -> Scripted:
    """Run one prompt in `where`; the API, with what the model was told."""
    (home / ".gemini").mkdir(parents=True)
    (home / ".gemini" / "settings.json").write_text(json.dumps(SETTINGS))
    variables = {
        name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")
    }
    with serve_script(calls) as api:
        around = variables | {
            name: value for name, value in os.environ.items() if name.startswith("GIT_")
        }
        around |= {"HOME": str(home), "GEMINI_API_KEY": "x", "GEMINI_CLI_TRUST_WORKSPACE": "true"}
        around |= {
            "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{api.server_port}",
            "NO_PROXY": "127.0.0.1",
        }
        command = [str(GEMINI), "--approval-mode=yolo", "-m", "gemini-2.5-pro", "-p", prompt]
        result = subprocess.run(
            command,
            cwd=root,
            env=around,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=250,
        )
    assert result.returncode == 0, result.stderr
    return api


def test_a_session_of_gemini_cli_is_captured_named_and_guarded(tmp_path, environ):
    root = repository(tmp_path / "r")
    assert vibe_gate("install", "gemini", cwd=root, environ=environ).code == 0
    (root / ".vibe-gate").mkdir()
    (root / ".vibe-gate" / "gate.toml").write_text("schema = 1\n")
    at = str(root / "a.txt")
    results = gemini(
        root,
        tmp_path / "home",
        "Write b.py and c.py,\nand say two in a.txt",
        [
            ("write_file", {"file_path": str(root / "b.py"), "content": "x = 1\n"}),
            ("write_file", {"file_path": str(root / "c.py"), "content": "y = 'ü'\n"}),
            (
                "replace",
                {"file_path": at, "instruction": "two", "old_string": "one", "new_string": "two"},
            ),
            ("run_shell_command", {"command": "git commit --allow-empty --no-verify -m sneaky"}),
            (
                "write_file",
                {"file_path": str(root / ".vibe-gate" / "gate.toml"), "content": "softer"},
            ),
        ],
    ).results
    assert "goes around the gate; run it without --no-verify" in json.dumps(results[3])
    assert "let the user edit it" in json.dumps(results[4])
    assert (git(root, "log", "--format=%s"), (root / "a.txt").read_text()) == ("start", "two\n")

    (root / "by_hand.txt").write_text("written by a person\n")
    git(root, "add", "a.txt", "b.py", "c.py", "by_hand.txt")
    review = vibe_gate("review", "--staged", "--no-judge", "--json", cwd=root, environ=environ)
    (folder,) = (root / ".vibe-artifacts" / "captures").iterdir()
    meta = json.loads((folder / "meta.json").read_text())
    assert (meta["agent"], meta["ended"], meta["damaged"]) == ("gemini", True, 0)
    session_id = meta["session_id"].removeprefix("gemini.")
    [hint] = review.json["agent_authored"]["hints"]
    assert (hint["agent"], hint["session"], hint["files"]) == ("Gemini CLI", session_id, 3)
    (prompt,) = prompts_of([root], meta["session_id"])
    assert (prompt.agent, prompt.text) == ("gemini", "Write b.py and c.py,\nand say two in a.txt")
    assert "✓ gemini hooks" in vibe_gate("doctor", cwd=root, environ=environ).out


def test_a_turn_of_gemini_cli_is_held_until_what_it_wrote_is_repaired(tmp_path, environ):
    root = repository(tmp_path / "r")
    assert vibe_gate("install", "gemini", "--stop", cwd=root, environ=environ).code == 0
    path = str(root / "b.py")
    api = gemini(
        root,
        tmp_path / "home",
        "Write b.py",
        [
            ("write_file", {"file_path": path, "content": SECRET}),
            None,
            ("write_file", {"file_path": path, "content": CLEAN}),
        ],
    )
    (objection,) = [text for text in api.texts if "vibe-gate" in text]
    assert "round 1 of 3" in objection
    assert "b.py:1: failure: GitHub token" in objection
    assert (root / "b.py").read_text() == CLEAN


def test_a_turn_of_gemini_cli_that_repairs_nothing_ends(tmp_path, environ):
    root = repository(tmp_path / "r")
    assert vibe_gate("install", "gemini", "--stop", cwd=root, environ=environ).code == 0
    written = ("write_file", {"file_path": str(root / "b.py"), "content": SECRET})
    api = gemini(root, tmp_path / "home", "Write b.py", [written])
    assert len([text for text in api.texts if "vibe-gate" in text]) == 1


def test_a_turn_of_gemini_cli_is_given_back_three_times_at_most(tmp_path, environ):
    root = repository(tmp_path / "r")
    assert vibe_gate("install", "gemini", "--stop", cwd=root, environ=environ).code == 0
    calls: list[tuple[str, dict[str, Any]] | None] = []
    for number in range(1, 6):
        content = SECRET * number
        calls += [("write_file", {"file_path": str(root / "b.py"), "content": content}), None]
    api = gemini(root, tmp_path / "home", "Write b.py", calls)
    assert len([text for text in api.texts if "vibe-gate" in text]) == 3
