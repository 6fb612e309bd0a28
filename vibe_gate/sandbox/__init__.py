"""Commands of a repository's own, run apart: clean environment, own process group, bounded output and time.

What runs here is code of the change: hostile. `launcher` holds the wall (Linux) and ends what is left; `reach` says
what may be read; docs/checks.md (Commands) says it to users.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from vibe_gate.sandbox import reach

__all__ = ["CommandResult", "run_command"]

KEPT_OUTPUT = 64 * 1024
"""Bytes of the output's end that are kept: what a person reads of a failed run; the rest is counted and dropped."""

READ_SIZE = 64 * 1024
"""Bytes of one read: a Linux pipe's capacity."""

PATIENCE_S = 10.0
"""Seconds for the launcher to end everything: its grace (2 s) and its wait for killed processes (5 s), and some."""

_LAUNCHER = str(Path(__file__).with_name("launcher.py"))
_SET_DUMPABLE = 4  # prctl(2)
_TICK_S = 0.05
_KEPT_NAMES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended in an export of the head tree.

    `exit_code` is None when it was not finished: `failure` then says why
    (not found, timed out after N s). `output` is stdout and stderr together, its
    tail at most, undecodable bytes replaced. `lacks` says what of the wall around
    commands this system does not have; "" where it stands.
    """

    exit_code: int | None
    output: str
    failure: str = ""
    duration_ms: int = 0
    lacks: str = ""


def run_command(
    argv: Sequence[str], *, cwd: Path, timeout_s: float, environ: Mapping[str, str], unix_sockets: bool = False
) -> CommandResult:
    """Run `argv` in `cwd` and wait for its end, at most `timeout_s` seconds.

    A name without a slash is looked up in PATH; one with a slash is a file below
    `cwd`. Whatever way this returns or raises, no process that the command started is
    left (on macOS: none of its group). `duration_ms` is wall clock; `lacks` says what
    of the wall this system does not have. `unix_sockets` leaves those open that the
    command's user may open, a container daemon's, say.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vibe-gate-command-", ignore_cleanup_errors=True) as home:
        env = _environment(environ, Path(home))
        program, why = _program(argv[0], cwd, env["PATH"])
        if why:
            return CommandResult(None, "", why, _since(started))
        order = {
            "argv": [program, *argv[1:]],
            "read": reach.readable(program, env["PATH"], environ),
            "write": [str(cwd), home],
            "unix_sockets": unix_sockets,
        }
        tail = _Tail()
        try:
            answer = _carry_out(order, cwd, env, tail, started + timeout_s)
        except OSError as error:
            return CommandResult(None, "", f"could not be started: {error}", _since(started))
    return _result(answer, tail, f"timed out after {timeout_s:g} s", _since(started))


def _carry_out(
    order: dict[str, Any], cwd: Path, env: Mapping[str, str], tail: _Tail, deadline: float
) -> dict[str, Any] | None:
    """What the launcher reports; None when the deadline came first."""
    _hide()
    report, write = os.pipe()
    with open(report, "rb") as reports:
        try:
            process = _launch(order | {"report": write}, cwd, env)
        finally:
            os.close(write)
        try:
            finished = _drain(process, tail, deadline)
        finally:
            _end(process)
        said = reports.read()
    if not finished:
        return None
    answer: dict[str, Any] = json.loads(said) if said else {"failure": "the launcher was ended"}
    return answer


def _launch(order: dict[str, Any], cwd: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", _LAUNCHER, json.dumps(order)], cwd=cwd, env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, pass_fds=(order["report"],),
    )  # fmt: skip


def _result(answer: dict[str, Any] | None, tail: _Tail, late: str, took: int) -> CommandResult:
    if answer is None:
        return CommandResult(None, tail.text(), late, took)
    lacks = str(answer.get("lacks", ""))
    if "code" not in answer:
        return CommandResult(None, tail.text(), str(answer.get("failure", "it could not be ended")), took, lacks)
    return CommandResult(int(answer["code"]), tail.text(), "", took, lacks)


def _hide() -> None:
    """Keep this process's memory and first environment from other processes of the same user (Linux).

    What was taken out of `os.environ` is still in /proc/self/environ. Landlock shields both; this is for kernels
    without it, and for the time before a wall stands.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


class _Tail:
    """The last KEPT_OUTPUT bytes of what was added; never more than one read beyond them in memory."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._total = 0

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)
        self._total += len(chunk)
        while self._size - len(self._chunks[0]) >= KEPT_OUTPUT:
            self._size -= len(self._chunks.popleft())

    def text(self) -> str:
        kept = b"".join(self._chunks)[-KEPT_OUTPUT:]
        dropped = self._total - len(kept)
        note = f"[{dropped:,} bytes before this were dropped]\n" if dropped else ""
        return note + kept.decode("utf-8", "replace")


def _environment(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """What the command sees: how to find programs and which language to speak; a home and a TMPDIR of its own."""
    scratch = home / "tmp"
    scratch.mkdir()
    kept = {name: environ[name] for name in _KEPT_NAMES if environ.get(name)}
    return {"PATH": _DEFAULT_PATH, "LANG": "C.UTF-8"} | kept | {"HOME": str(home), "TMPDIR": str(scratch)}


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


def _drain(process: subprocess.Popen[bytes], tail: _Tail, deadline: float) -> bool:
    """Read until the command has ended; False when the deadline came first."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if selector.select(min(_TICK_S, left)) and not _read(process.stdout, tail):
                return _wait(process, deadline)
    return False


def _read(pipe: IO[bytes], tail: _Tail) -> bool:
    """Take what is there; False at the end of the output."""
    chunk = os.read(pipe.fileno(), READ_SIZE)
    tail.add(chunk) if chunk else None
    return bool(chunk)


def _wait(process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Wait for a command that has closed its output."""
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have the launcher end what is left, then itself; it has ended before where all went well."""
    try:
        process.terminate()
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
