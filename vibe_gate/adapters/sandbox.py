"""Commands of a repository's own, run apart: clean environment, own process group, bounded output and time.

This keeps a command from the user's keys and from staying behind; it is no wall
against a command that wants to read the user's files (docs/checks.md says so).
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from vibe_gate.domain.checks.contract import CommandResult

KEPT_OUTPUT = 64 * 1024
"""Bytes of the output's end that are kept: what a person reads of a failed run; the rest is counted and dropped."""

READ_SIZE = 64 * 1024
"""Bytes of one read: a Linux pipe's capacity."""

GRACE_S = 2.0
"""Seconds between SIGTERM and SIGKILL: enough to remove temporary files."""

SETTLE_S = 1.0
"""Seconds to wait for the pipe's end when the command has exited but a child of it still holds the pipe."""

STRAY_ROUNDS = 5
"""Looks for processes that left the group: one may fork while another is ended."""

_TICK_S = 0.05
_KEPT_NAMES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def run_command(argv: Sequence[str], *, cwd: Path, timeout_s: float, environ: Mapping[str, str]) -> CommandResult:
    """Run `argv` in `cwd` and wait for its end, at most `timeout_s` seconds.

    A name without a slash is looked up in PATH; one with a slash is a file below
    `cwd`. Whatever way this returns or raises, no process of the command's group is
    left, nor (on Linux) any that left it. `duration_ms` is wall clock.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vibe-gate-command-", ignore_cleanup_errors=True) as home:
        env = _environment(environ, Path(home))
        program, why = _program(argv[0], cwd, env["PATH"])
        if why:
            return CommandResult(None, "", why, _since(started))
        tail = _Tail()
        try:
            process = subprocess.Popen(
                [program, *argv[1:]], cwd=cwd, env=env, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            return CommandResult(None, "", f"could not be started: {error}", _since(started))
        except BaseException:  # interrupted between its start and our knowing of it
            _end_strays(home)
            raise
        try:
            finished = _drain(process, tail, started + timeout_s)
        finally:
            _end_group(process)
            _end_strays(home)
    if not finished:
        return CommandResult(None, tail.text(), f"timed out after {timeout_s:g} s", _since(started))
    return CommandResult(process.returncode, tail.text(), "", _since(started))


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
        os.set_blocking(process.stdout.fileno(), False)
        selector.register(process.stdout, selectors.EVENT_READ)
        last_look = deadline
        while True:
            now = time.monotonic()
            if process.poll() is not None:
                last_look = min(last_look, now + SETTLE_S)
            if now >= last_look:
                return process.poll() is not None
            ready = selector.select(min(_TICK_S, last_look - now))
            if ready and not _read(process.stdout, tail):
                return _wait(process, deadline)


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


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End whatever is left of the group: SIGTERM, a grace, SIGKILL; then reap the leader.

    The group's id is not given to anyone else while a member of the group lives.
    """
    try:
        if _signal_group(process.pid, signal.SIGTERM):
            limit = time.monotonic() + GRACE_S
            while time.monotonic() < limit and _group_lives(process):
                time.sleep(_TICK_S)
    finally:
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _end_strays(home: str) -> None:
    """End processes that left the group (daemons), by the HOME that only this command was given.

    Where the system shows no environments (no /proc) they stay. The pidfd is opened
    before the look, so the signal reaches the process that was looked at.
    """
    mark = f"HOME={home}".encode()
    for _ in range(STRAY_ROUNDS):
        strays = [
            fd for entry in Path("/proc").glob("[0-9]*") if (fd := _open_stray(int(entry.name), mark)) is not None
        ]
        for fd in strays:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            os.close(fd)
        if not strays:
            return


def _open_stray(pid: int, mark: bytes) -> int | None:
    """A pidfd of the process if its environment holds `mark`."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    try:
        names = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        names = []
    if mark in names:
        return fd
    os.close(fd)
    return None


def _group_lives(process: subprocess.Popen[bytes]) -> bool:
    process.poll()
    return _signal_group(process.pid, 0)


def _signal_group(group: int, number: int) -> bool:
    """Whether anyone in the group was there to be signalled."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
