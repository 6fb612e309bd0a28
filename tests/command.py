"""The installed `vibe-gate` as a user runs it: a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import forked


class Done(subprocess.CompletedProcess[str]):
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


def vibe_gate(*argv: str, cwd: Path, environ: Mapping[str, str], stdin: bytes = b"", timeout: float = 100) -> Done:
    """Run `vibe-gate ARGV` in `cwd`."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        code = forked.run(argv, cwd, environ, [given.fileno(), out.fileno(), err.fileno()], timeout)
        out.seek(0)
        err.seek(0)
        return Done(argv, code, out.read().decode("utf-8", "surrogateescape"), err.read().decode(errors="replace"))


def started(*argv: str, cwd: Path, environ: Mapping[str, str], python: tuple[str, ...] = ()) -> Done:
    """Run `python PYTHON -m vibe_gate ARGV` in `cwd`, from nothing."""
    command = [sys.executable, *python, "-m", "vibe_gate", *argv]
    done = subprocess.run(
        command, cwd=cwd, env=dict(environ), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=100
    )
    return Done(argv, done.returncode, done.stdout, done.stderr)
