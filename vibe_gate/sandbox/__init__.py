"""Commands of a repository's own, run apart: clean environment, own process group, bounded output
and time.

What runs here is code of the change: hostile. `launcher` holds the wall (Linux) and ends what is
left; docs/guides/commands.md says it to users. `agent_wall` puts a whole agent's program behind the
same wall.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from msgspec import Struct

from vibe_gate import scratch
from vibe_gate.domain.cause import ProgramMissing
from vibe_gate.errors import InfrastructureError
from vibe_gate.sandbox import launcher
from vibe_gate.sandbox.command_environment import (
    DEFAULT_PATH,
    CommandEnvironment,
    command_environment_from,
    readable_paths,
)

__all__ = [
    "CommandEnvironment",
    "CommandLimits",
    "CommandResult",
    "agent_wall",
    "command_environment_from",
    "hide_process",
    "run_command",
    "wall_lack",
]

KEPT_OUTPUT = 64 * 1024
"""Bytes of the output's end that are kept: what a person reads of a failed run; the rest is counted
and dropped.
"""

PATIENCE_S = 10.0
"""Seconds for the launcher to end everything: its grace (2 s) and its wait for killed processes (5
s), and some.
"""

CANCEL_S = 0.2
"""Seconds between two looks whether the result is still wanted."""

LEAST_ABI = 3
"""The version of Landlock (Linux 6.2) an agent needs: older ones let it empty files outside of the
wall.
"""

_LAUNCHER = str(Path(__file__).with_name("launcher.py"))
_OF_AN_AGENT = ("home", "config", "tmp")
_SET_DUMPABLE = 4  # prctl(2)


class CommandResult(Struct, frozen=True):
    """How a command ended in an export of the head tree."""

    exit_code: int | None
    """None when it was not finished."""
    output: str
    """The end of stdout and stderr together, undecodable bytes replaced."""
    failure: str = ""
    """Why it was not finished: not found, timed out after N s ..."""
    duration_ms: int = 0
    lacks: str = ""
    """What of the wall around commands this system does not have; "" where it stands."""
    dropped: int = 0
    """Bytes that stood before the output."""
    missing: ProgramMissing | None = None
    """Set if the program was not found."""
    timed_out: bool = False
    """Whether it was not finished because its time was over."""


class CommandLimits(Struct, frozen=True):
    """What all processes of a command may use together. A command with limits has no network and no
    socket either.
    """

    memory_mb: int
    disk_mb: int
    processes: int

    @property
    def order(self) -> dict[str, Any]:
        """What the launcher is told."""
        limits = {
            "memory": self.memory_mb << 20,
            "disk": self.disk_mb << 20,
            "processes": self.processes,
        }
        return {"offline": True, "limits": limits}


def run_command(
    argv: Sequence[str],
    *,
    cwd: Path,
    timeout_s: float,
    environment: CommandEnvironment,
    unix_sockets: bool = False,
    limits: CommandLimits | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
    cancelled: Callable[[], bool] = bool,
) -> CommandResult:
    """Run `argv` in `cwd` and wait for its end, at most `timeout_s` seconds.

    A name without a slash is looked up in PATH; one with a slash is a file below `cwd`. Whatever
    way this returns or raises, no process that the command started is left (on macOS: none of its
    group). `unix_sockets` leaves those open that the command's user may open, a container daemon's,
    say. `variables` are added to its environment; the folders of their PATH are readable. Over one
    of its `limits`, it is ended at once; as soon as it is `cancelled`, too.
    """
    started = time.monotonic()
    with scratch.private_folder("command") as folder:
        home = folder / "home"
        env = {**_command_variables(environment, home), **variables}
        if _leads_out(argv[0], cwd):
            failure = f"not started: {argv[0]} leads out of the tree"
            return CommandResult(None, "", failure, _since(started))
        program = _program(argv[0], cwd, env["PATH"])
        if not program:
            missing = ProgramMissing(program=argv[0])
            return CommandResult(None, "", missing.sentence, _since(started), missing=missing)
        order: dict[str, Any] = {
            "argv": [program, *argv[1:]],
            "read": readable_paths(program, env["PATH"], environment),
            "write": [str(cwd), str(home)],
            "unix_sockets": unix_sockets,
        }
        if limits is not None:
            order |= limits.order
        tail = _Tail()
        try:
            answer = _carry_out(order, cwd, env, tail, timeout_s, cancelled)
        except OSError as error:
            return CommandResult(None, "", f"could not be started: {error}", _since(started))
    failure = str(answer.get("failure", ""))
    if not failure and "code" not in answer:
        failure = "it could not be ended"
    exit_code = None if failure else int(answer["code"])
    return CommandResult(
        exit_code,
        tail.text(),
        failure,
        _since(started),
        lacks=str(answer.get("lacks", "")),
        dropped=tail.dropped,
        timed_out=bool(answer.get("timed_out")),
    )


def agent_wall(
    folder: Path, read: Iterable[Path], environment: CommandEnvironment
) -> Callable[[Path, Path], Sequence[str]]:
    """What puts an agent's program behind the wall: `agent.TurnRequest.wall`.

    It is called with the agent's home and program, and gives the beginning of a command line. The
    agent then reads the system, programs of PATH, `folder`, `read` and its home; it writes
    `folder`, and `home`, `config` and `tmp` of its home. The network is open, sockets of other
    services are not. What it leaves running is ended with it.

    InfrastructureError if this system has no such wall.
    """
    if lack := wall_lack():
        raise InfrastructureError(
            f'This system cannot put an agent behind a wall ({lack}): use isolation = "clone", or set '
            "allow_unwalled = true under [agent] in gate.toml."
        )

    def prefix(home: Path, program: Path) -> Sequence[str]:
        readable = readable_paths(str(program), environment.search_path, environment)
        own_folders = [str(home / name) for name in _OF_AN_AGENT]
        order = {
            "read": [*readable, str(home), *map(str, read)],
            "write": [str(folder), *own_folders],
            "unix_sockets": False,
        }
        return sys.executable, "-I", "-S", _LAUNCHER, json.dumps(order)

    return prefix


def wall_lack() -> str:
    """What this system has no wall for, if an agent needs it; "" if the wall holds."""
    if sys.platform != "linux":
        return "it is not Linux"
    abi = launcher.landlock_abi()
    if not abi:
        return "its kernel has no Landlock"
    if abi < LEAST_ABI:
        return f"Landlock's version is {abi}, not {LEAST_ABI} or newer"
    if platform.machine() not in launcher.FILTERED:
        return "system calls cannot be filtered on its processor"
    return ""


def _carry_out(
    order: dict[str, Any],
    cwd: Path,
    env: Mapping[str, str],
    tail: _Tail,
    timeout_s: float,
    cancelled: Callable[[], bool],
) -> dict[str, Any]:
    """What the launcher reports: `code`, or `failure`, and what the wall `lacks`; and whether it
    `timed_out`.
    """
    hide_process()
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as reports:
        try:
            process = _start_launcher(order, cwd, env, write_end)
        finally:
            os.close(write_end)
        reader = threading.Thread(target=tail.read, args=(process.stdout,), daemon=True)
        reader.start()
        try:
            is_late = _is_late(process, timeout_s, cancelled)
        finally:
            _end(process)
        reader.join(PATIENCE_S)
        answer: dict[str, Any] = {}
        for line in reports:
            answer |= json.loads(line)
    if is_late:
        answer["failure"] = f"timed out after {timeout_s:g} s"
        answer["timed_out"] = True
    return answer


def _start_launcher(
    order: dict[str, Any], cwd: Path, env: Mapping[str, str], report: int
) -> subprocess.Popen[bytes]:
    """Start the launcher, which reports to this descriptor."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", _LAUNCHER, json.dumps(order | {"report": report})],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=(report,),
    )


def _is_late(
    process: subprocess.Popen[bytes], timeout_s: float, cancelled: Callable[[], bool]
) -> bool:
    """Wait for the process; whether it is still there, after its time or when nobody wants it any
    more.
    """
    until = time.monotonic() + timeout_s
    while not cancelled():
        time_left = until - time.monotonic()
        try:
            process.wait(max(min(time_left, CANCEL_S), 0.0))
        except subprocess.TimeoutExpired:
            if time_left <= CANCEL_S:
                return True
            continue
        return False
    return True


def hide_process() -> None:
    """Keep this process's memory and first environment from other processes of the same user, but
    root (Linux).

    What was taken out of `os.environ` is still in /proc/self/environ. Landlock shields both; this
    is for agents in a clone, for kernels without Landlock, and for the time before a wall stands.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


class _Tail:
    """The last KEPT_OUTPUT bytes of an output."""

    def __init__(self) -> None:
        self._kept = b""
        self.dropped = 0

    def read(self, output: IO[bytes]) -> None:
        """Read to the end, and close it."""
        with output:
            while chunk := os.read(output.fileno(), KEPT_OUTPUT):
                output_end = self._kept + chunk
                self.dropped += max(0, len(output_end) - KEPT_OUTPUT)
                self._kept = output_end[-KEPT_OUTPUT:]

    def text(self) -> str:
        note = f"[{self.dropped:,} bytes before this were dropped]\n" if self.dropped else ""
        return note + self._kept.decode("utf-8", "replace")


def _command_variables(environment: CommandEnvironment, home: Path) -> dict[str, str]:
    """What the command sees: how to find programs and which language to speak; a home and a TMPDIR
    of its own.
    """
    temporary = home / "tmp"
    temporary.mkdir(parents=True)
    defaults = {"PATH": DEFAULT_PATH, "LANG": "C.UTF-8"}
    return {**defaults, **environment.variables, "HOME": str(home), "TMPDIR": str(temporary)}


def _leads_out(name: str, cwd: Path) -> bool:
    """Whether a relative path of a program is outside of `cwd`."""
    if "/" not in name or Path(name).is_absolute():
        return False
    return not Path(os.path.normpath(cwd / name)).resolve().is_relative_to(cwd.resolve())


def _program(name: str, cwd: Path, path: str) -> str:
    """The program's file; "" if there is none.

    A relative entry of PATH would mean the hostile tree: skipped.
    """
    if "/" in name:
        file = Path(os.path.normpath(cwd / name))
        return str(file) if file.is_file() else ""
    absolute_entries = [entry for entry in path.split(os.pathsep) if Path(entry).is_absolute()]
    return shutil.which(name, path=os.pathsep.join(absolute_entries)) or ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the launcher to end the remaining processes, then itself. On success it has ended
    already.
    """
    try:
        process.terminate()
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        process.kill()
        process.wait()


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
