"""The installed `vibe-gate` as a user runs it: a process of its own."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import forked


class CommandResult(subprocess.CompletedProcess[str]):
    """How a command ended."""

    @property
    def code(self) -> int:
        return self.returncode

    @property
    def out(self) -> str:
        return self.stdout

    @property
    def err(self) -> str:
        return self.stderr

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


def vibe_gate(
    *argv: str, cwd: Path, environ: Mapping[str, str], stdin: bytes = b"", timeout: float = 250
) -> CommandResult:
    """Run `vibe-gate ARGV` in `cwd`."""
    return _with_files(forked.run, argv, cwd, environ, stdin, timeout)


def hook_script(
    *argv: str, cwd: Path, environ: Mapping[str, str], stdin: bytes = b"", timeout: float = 250
) -> CommandResult:
    """Run `python -I -S ARGV`, a script of ours, in `cwd`."""
    return _with_files(forked.run_script, argv, cwd, environ, stdin, timeout)


def _with_files(
    run: Callable[..., int],
    argv: tuple[str, ...],
    cwd: Path,
    environ: Mapping[str, str],
    stdin: bytes,
    timeout: float,
) -> CommandResult:
    with (
        tempfile.TemporaryFile() as stdin_file,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        stdin_file.write(stdin)
        stdin_file.seek(0)
        code = run(argv, cwd, environ, [stdin_file.fileno(), out.fileno(), err.fileno()], timeout)
        out.seek(0)
        err.seek(0)
        return CommandResult(
            argv,
            code,
            out.read().decode("utf-8", "surrogateescape"),
            err.read().decode(errors="replace"),
        )


def run_unforked(
    *argv: str, cwd: Path, environ: Mapping[str, str], python: tuple[str, ...] = ()
) -> CommandResult:
    """Run `python PYTHON -m vibe_gate ARGV` in `cwd`, from nothing."""
    command = [sys.executable, *python, "-m", "vibe_gate", *argv]
    process = subprocess.run(
        command,
        cwd=cwd,
        env=dict(environ),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=250,
    )
    return CommandResult(argv, process.returncode, process.stdout, process.stderr)


def begun(*argv: str, cwd: Path, environ: Mapping[str, str]) -> subprocess.Popen[str]:
    """`vibe-gate ARGV` in a process group of its own, as a shell starts it. It is forked, so Ctrl-C
    is SIGINT to the group; what is about other signals starts an interpreter.
    """
    return subprocess.Popen(
        [forked.programs() / "vibe-gate", *argv],
        cwd=cwd,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def on_a_terminal(
    cwd: Path,
    environ: dict[str, str],
    *argv: str,
    lines: int = 24,
    columns: int = 80,
    typed: bytes = b"",
) -> tuple[int, str]:
    """Exit code, and what `vibe-gate ARGV` wrote to a terminal of this size; with what is `typed`,
    on stderr, too.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "vibe_gate", *argv],
        cwd=cwd,
        env={"TERM": "xterm-256color", **environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        stdin=slave,
        stdout=slave,
        stderr=slave if typed else subprocess.DEVNULL,
    )
    os.close(slave)
    os.write(master, typed)
    text = b""
    try:
        while block := os.read(master, 65536):
            text += block
    except OSError:  # Linux: the last writer has closed its side
        pass
    os.close(master)
    return process.wait(), text.decode()
