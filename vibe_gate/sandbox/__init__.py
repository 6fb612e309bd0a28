"""Commands of a repository's own, run apart: clean environment, own process group, bounded output and time.

What runs here is code of the change: hostile. `launcher` holds the wall (Linux) and ends what is left;
docs/guides/commands.md says it to users. `agent_wall` puts a whole agent's program behind the same wall.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from msgspec import Struct

from vibe_gate import scratch
from vibe_gate.errors import InfrastructureError
from vibe_gate.sandbox import launcher

__all__ = ["CommandLimits", "CommandResult", "agent_wall", "hide_process", "run_command", "wall_lack"]

KEPT_OUTPUT = 64 * 1024
"""Bytes of the output's end that are kept: what a person reads of a failed run; the rest is counted and dropped."""

PATIENCE_S = 10.0
"""Seconds for the launcher to end everything: its grace (2 s) and its wait for killed processes (5 s), and some."""

CANCEL_S = 0.2
"""Seconds between two looks whether the result is still wanted."""

LEAST_ABI = 3
"""The version of Landlock (Linux 6.2) an agent needs: older ones let it empty files outside of the wall."""

_LAUNCHER = str(Path(__file__).with_name("launcher.py"))
_OF_AN_AGENT = ("home", "config", "tmp")
_SET_DUMPABLE = 4  # prctl(2)
_KEPT_NAMES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


# What a command may read and run: the system, the programs of PATH and their libraries; not the user's files.
# Landlock only allows, it takes nothing back: a folder that is listed is open with all that lies below.
SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store", "/snap", "/gnu/store",
    "/home/linuxbrew/.linuxbrew", "/var/lib/gems", "/proc", "/sys", "/dev/fd",
)  # fmt: skip
"""Programs, libraries, settings of the machine."""

TOOL_HOMES = (
    ".pyenv", ".rbenv", ".nodenv", ".goenv", ".jenv", ".asdf", ".nvm", ".fnm", ".volta", ".bun", ".deno", ".sdkman",
    ".rustup", ".cargo/bin", ".dotnet", ".ghcup", ".juliaup", ".linuxbrew", ".local/bin", ".local/lib", ".local/pipx",
    ".local/share/uv", ".local/share/pipx", ".local/share/mise", ".local/share/fnm", ".local/share/pnpm",
    "go/bin", "sdk", "miniconda3", "anaconda3", "miniforge3",
)  # fmt: skip
"""Folders of a home that hold programs and no credentials (so not all of ~/.cargo, which has a registry's token)."""

BESIDE_PROGRAMS = ("lib", "lib32", "lib64", "libexec", "share", "include", "etc", "pyvenv.cfg", "conda-meta")
"""What programs of PREFIX/bin read below PREFIX."""

_CLOSED = ("HOME", "GITHUB_WORKSPACE", "RUNNER_TEMP")
"""Variables that name folders which are never opened as a whole, nor any folder that they lie in."""

_PROGRAM_FOLDERS = ("bin", "sbin", "condabin", "Scripts")


class CommandResult(Struct, frozen=True):
    """How a command ended in an export of the head tree.

    `exit_code` is None when it was not finished: `failure` then says why
    (not found, timed out after N s). `output` is stdout and stderr together, its
    tail at most (`dropped` bytes stood before it), undecodable bytes replaced. `lacks` says what of the wall around
    commands this system does not have; "" where it stands.
    """

    exit_code: int | None
    output: str
    failure: str = ""
    duration_ms: int = 0
    lacks: str = ""
    dropped: int = 0


class CommandLimits(Struct, frozen=True):
    """What all processes of a command may use together. A command with limits has no network and no socket either."""

    memory_mb: int
    disk_mb: int
    processes: int

    @property
    def order(self) -> dict[str, Any]:
        """What the launcher is told."""
        bytes_ = {"memory": self.memory_mb << 20, "disk": self.disk_mb << 20, "processes": self.processes}
        return {"offline": True, "limits": bytes_}


def run_command(
    argv: Sequence[str], *, cwd: Path, timeout_s: float, environ: Mapping[str, str], unix_sockets: bool = False,
    limits: CommandLimits | None = None, variables: Mapping[str, str] = MappingProxyType({}),
    cancelled: Callable[[], bool] = bool,
) -> CommandResult:  # fmt: skip
    """Run `argv` in `cwd` and wait for its end, at most `timeout_s` seconds.

    A name without a slash is looked up in PATH; one with a slash is a file below
    `cwd`. Whatever way this returns or raises, no process that the command started is
    left (on macOS: none of its group). `unix_sockets` leaves those open that the
    command's user may open, a container daemon's, say. `variables` are added to its environment; the folders of their
    PATH are readable. Over one of its `limits`, it is ended at once; as soon as it is `cancelled`, too.
    """
    started = time.monotonic()
    with scratch.private_folder("command") as folder:
        home = folder / "home"
        env = {**_environment(environ, home), **variables}
        program, why = _program(argv[0], cwd, env["PATH"])
        if why:
            return CommandResult(None, "", why, _since(started))
        order = {
            "argv": [program, *argv[1:]],
            "read": _readable(program, env["PATH"], environ),
            "write": [str(cwd), str(home)],
            "unix_sockets": unix_sockets,
        } | (limits.order if limits else {})
        tail = _Tail()
        try:
            answer = _carry_out(order, cwd, env, tail, timeout_s, cancelled)
        except OSError as error:
            return CommandResult(None, "", f"could not be started: {error}", _since(started))
    failure = str(answer.get("failure", "" if "code" in answer else "it could not be ended"))
    code = None if failure else int(answer["code"])
    return CommandResult(code, tail.text(), failure, _since(started), str(answer.get("lacks", "")), tail.dropped)


def agent_wall(folder: Path, read: Iterable[Path], environ: Mapping[str, str]) -> Callable[[Path, Path], Sequence[str]]:
    """What puts an agent's program behind the wall: `agent.Turn.wall`.

    It is called with the agent's home and program, and gives the beginning of a command line. The agent then reads the
    system, programs of PATH, `folder`, `read` and its home; it writes `folder`, and `home`, `config` and `tmp` of its
    home. The network is open, sockets of other services are not. What it leaves running is ended with it.

    InfrastructureError if this system has no such wall.
    """
    if lack := wall_lack():
        raise InfrastructureError(
            f'This system cannot put an agent behind a wall ({lack}): use isolation = "clone", or set '
            "allow_unwalled = true under [agent] in gate.toml."
        )

    def prefix(home: Path, program: Path) -> Sequence[str]:
        own = [str(home / name) for name in _OF_AN_AGENT]
        readable = [*_readable(str(program), environ.get("PATH", _DEFAULT_PATH), environ), str(home), *map(str, read)]
        order = {"read": readable, "write": [str(folder), *own], "unix_sockets": False}
        return sys.executable, "-I", "-S", _LAUNCHER, json.dumps(order)

    return prefix


def wall_lack() -> str:
    """What this system has no wall for, if an agent needs it; "" if the wall holds."""
    if sys.platform != "linux":
        return "it is not Linux"
    if (abi := launcher.landlock_abi()) < LEAST_ABI:
        return f"Landlock's version is {abi}, not {LEAST_ABI} or newer" if abi else "its kernel has no Landlock"
    return "" if platform.machine() in launcher.FILTERED else "system calls cannot be filtered on its processor"


def _carry_out(
    order: dict[str, Any], cwd: Path, env: Mapping[str, str], tail: _Tail, timeout_s: float,
    cancelled: Callable[[], bool],
) -> dict[str, Any]:  # fmt: skip
    """What the launcher reports."""
    hide_process()
    report, write = os.pipe()
    with open(report, "rb") as reports:
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", _LAUNCHER, json.dumps(order | {"report": write})], cwd=cwd, env=env,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                pass_fds=(write,),
            )  # fmt: skip
        finally:
            os.close(write)
        reader = threading.Thread(target=tail.read, args=(process.stdout,), daemon=True)
        reader.start()
        try:
            late = _is_late(process, timeout_s, cancelled)
        finally:
            _end(process)
        reader.join(PATIENCE_S)
        answer = {name: value for line in reports for name, value in json.loads(line).items()}
    return answer | ({"failure": f"timed out after {timeout_s:g} s"} if late else {})


def _is_late(process: subprocess.Popen[bytes], timeout_s: float, cancelled: Callable[[], bool]) -> bool:
    """Wait for the process; whether it is still there, after its time or when nobody wants it any more."""
    until = time.monotonic() + timeout_s
    while not cancelled():
        left = until - time.monotonic()
        try:
            process.wait(max(min(left, CANCEL_S), 0.0))
        except subprocess.TimeoutExpired:
            if left <= CANCEL_S:
                return True
            continue
        return False
    return True


def hide_process() -> None:
    """Keep this process's memory and first environment from other processes of the same user, but root (Linux).

    What was taken out of `os.environ` is still in /proc/self/environ. Landlock shields both; this is for agents in a
    clone, for kernels without Landlock, and for the time before a wall stands.
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
                kept = self._kept + chunk
                self.dropped += max(0, len(kept) - KEPT_OUTPUT)
                self._kept = kept[-KEPT_OUTPUT:]

    def text(self) -> str:
        note = f"[{self.dropped:,} bytes before this were dropped]\n" if self.dropped else ""
        return note + self._kept.decode("utf-8", "replace")


def _environment(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """What the command sees: how to find programs and which language to speak; a home and a TMPDIR of its own."""
    temporary = home / "tmp"
    temporary.mkdir(parents=True)
    kept = {name: environ[name] for name in _KEPT_NAMES if environ.get(name)}
    return {"PATH": _DEFAULT_PATH, "LANG": "C.UTF-8"} | kept | {"HOME": str(home), "TMPDIR": str(temporary)}


def _program(name: str, cwd: Path, path: str) -> tuple[str, str]:
    """The program's file, or why there is none. A relative entry of PATH would mean the hostile tree: skipped."""
    if "/" in name:
        file = Path(os.path.normpath(cwd / name))
        if not Path(name).is_absolute() and not file.resolve().is_relative_to(cwd.resolve()):
            return "", f"not started: {name} leads out of the tree"
        return (str(file), "") if file.is_file() else ("", f"not found: there is no file {name}")
    absolute = os.pathsep.join(entry for entry in path.split(os.pathsep) if Path(entry).is_absolute())
    found = shutil.which(name, path=absolute)
    return (found, "") if found else ("", f"not found: no program {name} in PATH")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the launcher to end the remaining processes, then itself. On success it has ended already."""
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


def _readable(program: str, path: str, environ: Mapping[str, str]) -> list[str]:
    """Paths, each with all that lies below, sorted. Some may not be there.

    `path` is the command's PATH, `environ` the gate's environment: its HOME is the one to keep closed.
    """
    closed = {Path("/")}
    for name in _CLOSED:
        for private in _absolute(environ.get(name, "")):
            closed |= {private, *private.parents, private.resolve(), *private.resolve().parents}
    found = {*map(Path, SYSTEM), Path("/etc/resolv.conf").resolve(), *_absolute(environ.get("RUNNER_TOOL_CACHE", ""))}
    found |= {home / one for home in _absolute(environ.get("HOME", "")) for one in TOOL_HOMES}
    # A command without an interpreter of its own may be a script for the gate's.
    folders = [Path(program).parent, Path(program).resolve().parent, Path(sys.base_prefix, "bin")]
    for folder in (*_absolute(path), *folders):
        found |= set(_programs(folder))
    return sorted(str(one) for one in found if one not in closed)


def _absolute(path: str) -> list[Path]:
    return [Path(one) for one in path.split(os.pathsep) if Path(one).is_absolute()]


def _programs(folder: Path) -> Iterator[Path]:
    """A folder of programs and what they read; of a virtual environment, that of its interpreter, too."""
    for one in {folder, folder.resolve()}:
        yield one
        if one.name == ".bin":
            yield one.parent  # node_modules/.bin: the packages
        if one.name not in _PROGRAM_FOLDERS:
            continue
        for beside in BESIDE_PROGRAMS:
            if beside != "share" or one.parent.name != ".local":
                yield one.parent / beside
        if (one.parent / "pyvenv.cfg").is_file():
            python = (one / "python").resolve()
            yield python.parent
            yield from (python.parent.parent / beside for beside in BESIDE_PROGRAMS)
