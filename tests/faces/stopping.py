"""A coding agent as its hooks see it: what it writes, and the end of its turn, each a real process of
the installed script.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from command import hook_script, vibe_gate
from program import repository
from repos import Repo

from vibe_gate.faces.agent_hook import stop

SECRET = 'TOKEN = "ghp_' + 'a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"\n'
"""A line that the built-in gate fails."""


def numbered_secret(number: int) -> str:
    """Another line that it fails, for another secret: each is a finding of its own."""
    return SECRET.replace("R8", f"{number:02}")


CLEAN = 'import os\n\nTOKEN = os.environ["TOKEN"]\n'

SCRIPTS = Path(stop.__file__).parent

TEAM_GATE = """\
schema = 1
rubrics = ["quality"]
[store]
url = "{store}"
[hooks.stop]
review = "{review}"
[hooks.pre-commit]
judge = "always"
[hooks.pre-push]
judge = "always"
"""
"""A gate that judges at each place and names a store of the team; `review`: of the stop hook."""


@dataclass(frozen=True)
class StopAnswer:
    """What the stop hook said."""

    document: dict[str, Any]

    @property
    def holds(self) -> bool:
        return self.document.get("decision") in ("block", "deny")

    @property
    def reason(self) -> str:
        return str(self.document.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.document.get("systemMessage", ""))


@dataclass
class HookedAgentSession:
    """A session of an agent in a working tree."""

    root: Path
    environ: dict[str, str]
    session: str = "0f3c9a1e-aaaa"
    agent: str = ""
    arguments: tuple[str, ...] = ()
    event: dict[str, Any] = field(default_factory=dict)
    """What every event has besides."""

    def hook(self, script: str, event: dict[str, Any]) -> str:
        """Run one of our scripts with an event; its output."""
        document = {"session_id": self.session, "cwd": str(self.root), **self.event, **event}
        result = hook_script(
            *self._words(script),
            cwd=self.root,
            environ=self.environ,
            stdin=json.dumps(document).encode(),
        )
        assert (result.code, result.err) == (0, "")
        return result.out

    def command(self, script: str) -> list[str]:
        """What the settings start for it: an interpreter of its own."""
        return [sys.executable, "-I", "-S", *self._words(script)]

    def _words(self, script: str) -> list[str]:
        words = [str(SCRIPTS / f"{script}.py"), *([self.agent] if self.agent else [])]
        return [*words, *self.arguments]

    def prompt(self) -> None:
        kind = "BeforeAgent" if self.agent == "gemini" else "UserPromptSubmit"
        self.hook("capture", {"hook_event_name": kind, "prompt": "go"})

    def write(self, name: str, text: str) -> None:
        """Write a file with the agent's tool."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        tool_input: dict[str, Any] = {"file_path": str(path), "content": text}
        tool, response, kind = "Write", {"type": "create", "content": text}, "PostToolUse"
        if self.agent == "gemini":
            tool, kind = "write_file", "AfterTool"
        if self.agent == "codex":
            tool = "apply_patch"
            tool_input = {"command": f"*** Begin Patch\n*** Add File: {name}\n+x\n*** End Patch\n"}
        call = {"tool_name": tool, "tool_input": tool_input, "tool_response": response}
        self.hook("capture", {"hook_event_name": kind, **call, "duration_ms": 3})

    def run(self, line: str, **options: Any) -> None:
        """Run a command with the agent's shell."""
        began_at = time.time()
        subprocess.run(line, shell=True, cwd=self.root, env=self.environ, check=True)
        duration_ms = (time.time() - began_at) * 1000
        call = {"tool_name": "Bash", "tool_input": {"command": line, **options}}
        response = {"stdout": "", "stderr": "", "interrupted": False}
        call |= {"tool_response": response, "duration_ms": duration_ms}
        self.hook("capture", {"hook_event_name": "PostToolUse", **call})

    def stop(self, *, after_block: bool = False, **event: Any) -> StopAnswer:
        """End the turn; `after_block`: one that a hook held before."""
        kind = "AfterAgent" if self.agent == "gemini" else "Stop"
        document = {"hook_event_name": kind, "stop_hook_active": after_block}
        if self.agent == "":
            document |= {"permission_mode": "default", "background_tasks": []}
        return StopAnswer(json.loads(self.hook("stop", {**document, **event}) or "{}"))


def start_session(root: Path, environ: dict[str, str], agent: str = "claude") -> HookedAgentSession:
    """A session in a new repository with `install AGENT --stop` done, after its first prompt."""
    repository(root)
    installation = vibe_gate("install", agent, "--stop", cwd=root, environ=environ)
    assert installation.code == 0, installation.err
    session = HookedAgentSession(root, environ, agent="" if agent == "claude" else agent)
    session.prompt()
    return session


def start_session_in_clone(
    origin: Path, clone_path: Path, environ: dict[str, str], branch: str
) -> HookedAgentSession:
    """A session on a new branch of a clone that has the hooks of git and of the agent, after its
    first prompt. `vibe-gate` is on its PATH.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    clone = Repo(clone_path, environ | {"PATH": path})
    clone.git("remote", "add", "origin", str(origin))
    clone.git("fetch", "-q", "origin")
    clone.git("checkout", "-q", "-b", branch, "origin/main")
    for target in (("git",), ("claude", "--stop")):
        installed = vibe_gate("install", *target, cwd=clone.path, environ=clone.environ)
        assert installed.code == 0, installed.err
    session = HookedAgentSession(clone.path, clone.environ)
    session.prompt()
    return session
