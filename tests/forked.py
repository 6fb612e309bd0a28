"""The command in a process of its own that was forked, not started: loading takes ten times as long as most commands.

One process for each worker of pytest, started with the first command, has loaded the program and nothing else. For
each command it forks a child with the command's own arguments, folder, environment and outputs. Where the interpreter
itself is the subject (`-I`, `-X importtime`, PYTHON* variables, modules that a folder would slip in) a test starts it.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

import vibe_gate
from vibe_gate.domain.model import Model
from vibe_gate.faces.cli import main

_LENGTH = struct.Struct("!I")
_server: tuple[subprocess.Popen[bytes], socket.socket] | None = None


def run(argv: Sequence[str], cwd: Path, environ: Mapping[str, str], files: Sequence[int], timeout: float) -> int:
    """Run `vibe-gate ARGV` with these three files as stdin, stdout and stderr; the exit code, or minus the signal."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            request = json.dumps([list(argv), os.fspath(cwd), dict(environ)]).encode()
            socket.send_fds(_listening(), [_LENGTH.pack(len(request))], [theirs.fileno(), *files])
        ours.sendall(request)
        ours.settimeout(timeout)
        with ours.makefile() as answers:
            child = int(answers.readline())
            try:
                return int(answers.readline())
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                raise


def _listening() -> socket.socket:
    global _server
    if _server is None:
        ours, theirs = socket.socketpair()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "VIBE_GATE_"))}
        with theirs:
            started = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=kept,
                cwd="/",
            )
        _server = (started, ours)
        atexit.register(ours.close)
    return _server[1]


def serve(listening: socket.socket) -> None:
    """Fork a child for each request, until the worker is gone."""
    _load()
    gc.freeze()  # no child looks through it for garbage
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    while True:
        head, files, _, _ = socket.recv_fds(listening, _LENGTH.size, 4)
        if not head:
            return
        if os.fork() == 0:
            listening.close()
            _watch(socket.socket(fileno=files[0]), files[1:], _LENGTH.unpack(head)[0])
        for file in files:
            os.close(file)


def _load() -> None:
    for module in pkgutil.walk_packages(vibe_gate.__path__, "vibe_gate."):
        if not module.name.endswith(".__main__") and ".demo_data" not in module.name and ".install." not in module.name:
            importlib.import_module(module.name)
    _build(Model)


def _build(model: type[Model]) -> None:
    """Build the schemas of all models, which pydantic would do when each is used first."""
    for kind in model.__subclasses__():
        kind.model_rebuild()
        _build(kind)


def _watch(asking: socket.socket, files: list[int], length: int) -> None:
    """Fork once more; say which process it is, wait for it, say how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    argv, cwd, environ = json.loads(asking.recv(length, socket.MSG_WAITALL))
    child = os.fork()
    if child == 0:
        asking.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os._exit(_main(argv, cwd, environ))
    for file in files:
        os.close(file)
    asking.sendall(b"%d\n" % child)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    asking.sendall(b"%d\n" % code)
    os._exit(0)


def _main(argv: list[str], cwd: str, environ: dict[str, str]) -> int:
    """As the interpreter does it: the command, what was to happen at the end, the outputs."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    sys.argv[1:] = argv
    try:
        code = main()
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
