"""Starting the agent's program in an environment of our own making, and ending it for certain.

The SDK can only add to this process' environment, so it is given a small launcher in
place of the CLI. The launcher replaces the environment, asks the kernel to end the
CLI when we die (a SIGKILL of ours would leave it running), and moves into a process
group of its own, so that it can be killed as a whole and a terminal's Ctrl-C is ours.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from vibe_gate.agent.mcp_servers import START_S

GRACE_S = 0.5
"""How long SIGTERM may take before SIGKILL; the CLI needs about 40 ms."""

WALL_GRACE_S = 8.0
"""How long a wall's launcher may take to end everything behind it (40 ms as a rule)."""

IDLE_FLOOR_MS = 10_000
"""The CLI ignores shorter limits for a silent stream."""

DUMMY_KEY = "held-by-the-gateway"

HOME_FOLDERS = {
    "HOME": "home",
    "CLAUDE_CONFIG_DIR": "config",
    "CLAUDE_CODE_TMPDIR": "tmp",
    "TMPDIR": "tmp",
}
"""Variables of the agent's program that name a folder below its home, each with that folder."""

_FROM_SDK = (
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE",
    "PWD",
)
"""What the launcher hands on of what the SDK gave it."""

_LAUNCHER = """\
import ctypes, os, sys
PARENT, PROGRAM, PID_FILE, ENVIRON = {values!r}
os.setsid()
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 15)  # PR_SET_PDEATHSIG, SIGTERM
if os.getppid() != PARENT:
    sys.exit(1)
for name in {passed!r}:
    if name in os.environ:
        ENVIRON[name] = os.environ[name]
with open(PID_FILE + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(PID_FILE + ".new", PID_FILE)
os.execve(PROGRAM[0], [*PROGRAM, *sys.argv[1:]], ENVIRON)
"""

Wall = Callable[[Path, Path], Sequence[str]]
"""Given the agent's home and program, the beginning of a command line that walls it in."""


class CliProcess:
    """One process of the agent's program: its launcher on disk, and the way to end it."""

    def __init__(
        self, home: Path, cli: Path, variables: Mapping[str, str], wall: Wall | None
    ) -> None:
        """Write the launcher into `home`, an empty private folder; `variables` are the program's
        whole environment.

        OSError: `home` cannot be written.
        """
        self.home = home
        self.executable = home / "launch"
        """What the SDK starts in place of the CLI."""
        self._pid_file = home / "pid"
        self._grace_s = WALL_GRACE_S if wall else GRACE_S
        for name in HOME_FOLDERS.values():
            (home / name).mkdir(mode=0o700, exist_ok=True)
        prefix = wall(home, cli) if wall else ()
        program = [*prefix, str(cli)]
        values = (os.getpid(), program, str(self._pid_file), dict(variables))
        source = _LAUNCHER.format(values=values, passed=_FROM_SDK)
        script = home / "launch.py"
        script.write_text(source, encoding="utf-8", errors="surrogateescape")
        line = shlex.join([sys.executable, "-I", "-S", str(script)])
        self.executable.write_text(f'#!/bin/sh\nexec {line} "$@"\n')
        self.executable.chmod(0o700)

    @staticmethod
    def blanked() -> dict[str, str]:
        """Our variables, emptied: the launcher needs none, and an agent could read its
        environment.
        """
        return dict.fromkeys(os.environ.keys() - {"LD_LIBRARY_PATH", *_FROM_SDK}, "")

    def signal(self, number: int) -> bool:
        """Send a signal to the whole process group; False when there is none (any more)."""
        try:
            os.killpg(int(self._pid_file.read_text()), number)
        except (FileNotFoundError, ValueError, ProcessLookupError):
            return False
        return True

    async def end(self) -> None:
        """End the process group: SIGTERM, and SIGKILL for what is left after a grace."""
        try:
            deadline = asyncio.get_running_loop().time() + self._grace_s
            alive = self.signal(signal.SIGTERM)
            while alive and asyncio.get_running_loop().time() < deadline:
                await asyncio.sleep(0.01)
                alive = self.signal(0)
        finally:
            self.signal(signal.SIGKILL)


def program_variables(
    home: Path, passed: Mapping[str, str], model: Mapping[str, str], timeout_s: float
) -> dict[str, str]:
    """The whole environment of the agent's program: no variable reaches it by accident.

    `passed`: of this program's environment; `model`: what leads to the model.
    """
    folders = {name: str(home / folder) for name, folder in HOME_FOLDERS.items()}
    return {**passed, **folders, **_quiet_variables(timeout_s), **model}


def gateway_variables(url: str) -> dict[str, str]:
    """What leads to the model through our gateway; the key is the gateway's own affair."""
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": DUMMY_KEY, "NO_PROXY": "127.0.0.1"}


def _quiet_variables(timeout_s: float) -> dict[str, str]:
    """Settings that keep the CLI to the conversation, and within its time."""
    timeout_ms = max(1000, int(timeout_s * 1000))
    retries = min(2, int(timeout_s // 20))  # each waits longer, from half a second on
    return {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
        "CLAUDE_CODE_MAX_RETRIES": str(retries),
        "API_TIMEOUT_MS": str(timeout_ms),
        "MCP_TIMEOUT": str(int(START_S * 1000)),
        "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": str(max(IDLE_FLOOR_MS, timeout_ms)),
    }
