"""Dask's scheduler and workers, and our command with `--cluster`, each a process of its own that was
forked where all that they import is loaded: that takes a second each time. So are the processes of
their tasks.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

from command import CommandResult
from forked import programs

PRELOADED = [
    "sdk_alone",
    "claude_agent_sdk",
    "distributed.cli.dask_scheduler",
    "distributed.cli.dask_worker",
    "vibe_gate.faces.cli",
    "vibe_gate.faces.workers",
    "vibe_gate.run.cluster",
]

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(PRELOADED)

Process = multiprocessing.context.ForkServerProcess


def begin_program(
    module: str, argv: Sequence[str], cwd: Path, environ: Mapping[str, str], out: Path, err: Path
) -> Process:
    """Begin `python -m MODULE ARGV`; its outputs are appended to these files."""
    python = programs() / "module-python"
    process = _FORKING.Process(
        target=_run_main, args=(module, list(argv), cwd, dict(environ), out, err, python)
    )
    process.start()
    return process


def vibe_gate_on_cluster(
    *argv: str, cwd: Path, environ: Mapping[str, str], timeout: float = 250
) -> CommandResult:
    """Run `vibe-gate ARGV` in `cwd`."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        process = begin_program("vibe_gate.faces.cli", argv, cwd, environ, out, err)
        process.join(timeout)
        return CommandResult(argv, process.exitcode, out.read_text(), err.read_text())


def _run_main(
    module: str,
    argv: list[str],
    cwd: Path,
    environ: dict[str, str],
    out: Path,
    err: Path,
    python: Path,
) -> None:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    tempfile.tempdir = None
    sys.path[:0] = environ.get("PYTHONPATH", "").split(":")
    for number, path in ((1, out), (2, err)):
        with path.open("ab") as file:
            os.dup2(file.fileno(), number)
    sys.executable = str(python)  # the processes of tasks are forked, too
    import dask

    dask.config.refresh()  # what the environment says of certificates
    sys.argv[1:] = argv
    sys.exit(import_module(module).main())
