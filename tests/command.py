"""The installed `vibe-gate` as a user runs it: a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def vibe_gate(*argv: str, cwd: Path, environ: Mapping[str, str], timeout: float = 100) -> Done:
    """Run `python -m vibe_gate ARGV` in `cwd`."""
    done = subprocess.run(
        [sys.executable, "-m", "vibe_gate", *argv],
        cwd=cwd,
        env=dict(environ),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
    )
    return Done(done.returncode, done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode(errors="replace"))
