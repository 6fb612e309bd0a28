"""The command in a process of its own that was forked, not started: loading takes ten times as long
as most commands.

One process for each worker of pytest, started with the first command, has loaded the program and
nothing else. For each command it forks a child with the command's own arguments, folder,
environment, umask, process group and outputs. A child can run one of our scripts, too, as
`python -I -S SCRIPT` does (`run_script`).
`programs()` holds what asks for one from a shell, a search path or a hook. Where the interpreter
itself is the subject (`-X importtime`, PYTHON* variables, a terminal, limits, signals, modules that
a folder would slip in) a test starts it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import pkgutil
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import asking
import msgspec
import sdk_alone  # noqa: F401 - before the SDK
from msgspec import Struct

import vibe_gate
from vibe_gate.agent import sdk_version
from vibe_gate.checks.tests_kept import TEST_FILES
from vibe_gate.domain.escape import _LazyPattern
from vibe_gate.domain.paths import matches_any_glob
from vibe_gate.domain.tables import keys_of
from vibe_gate.faces.cli import main
from vibe_gate.gate.loading import FolderFiles, built_in_gate
from vibe_gate.gate.policy import STEERING
from vibe_gate.secrets import find_secrets
from vibe_gate.secrets.rules import RULES
from vibe_gate.store.bundle_names import make_run_id, parse_run_time

_PYTHON = ("-I", "-m", "vibe_gate")
_CLIENT = """\
#!/bin/sh
exec {python} -I -S {client} {address} {words} "$@"
"""
_SERVER = f"""\
import sys
sys.path.append({str(Path(__file__).parent)!r})  # last, so that nothing of the tests hides a module
import forked
forked.serve(*sys.argv[1:])
"""
_OPTIONAL = ("vibe_gate.run.cluster", "vibe_gate.store.object_storage")
"""Loaded by their option alone: what they import is in extras."""

_LATE = ("anyio._backends._asyncio", "_strptime")
"""What others import at the first use, which would be in each child."""

_SCRIPT = "--script"
"""The first argument in place of a command: what follows is a script and its arguments."""

_folder: Path | None = None


def run(
    argv: Sequence[str], cwd: Path, environ: Mapping[str, str], files: Sequence[int], timeout: float
) -> int:
    """Run `vibe-gate ARGV` with these three files as stdin, stdout and stderr; the exit code, or
    minus the signal.
    """
    folder = os.open(cwd, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.settimeout(timeout)
            server.connect(os.fspath(programs() / "server"))
            words = [os.fsencode(word) for word in argv]
            variables = [os.fsencode(f"{name}={value}") for name, value in environ.items()]
            asking.ask(server, [*files, folder], os.getpid(), words, variables)
            return asking.answer(server)
    finally:
        os.close(folder)


def run_script(
    argv: Sequence[str | Path],
    cwd: Path,
    environ: Mapping[str, str],
    files: Sequence[int],
    timeout: float,
) -> int:
    """Run `python -I -S ARGV` with these three files; the exit code, or minus the signal."""
    return run([_SCRIPT, *map(str, argv)], cwd, environ, files, timeout)


def programs() -> Path:
    """The folder with programs for tests: `vibe-gate`, `hook-script` for `python -I -S`, and `python`,
    which is a fork with `-I -m vibe_gate`, else the interpreter.
    """
    global _folder
    if _folder is None:
        _folder = Path(tempfile.mkdtemp(prefix="vibe-gate-"))
        for name, words in (
            ("python", ()),
            ("vibe-gate", _PYTHON),
            ("hook-script", (*_PYTHON, _SCRIPT)),
        ):
            places = {
                "python": sys.executable,
                "client": asking.__file__,
                "address": str(_folder / "server"),
            }
            program = _folder / name
            quoted = {name: shlex.quote(place) for name, place in places.items()}
            program.write_text(_CLIENT.format(**quoted, words=" ".join(words)))
            program.chmod(0o755)
        _start(_folder)
    return _folder


def _start(folder: Path) -> None:
    ours, theirs = socket.socketpair()
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "VIBE_GATE_"))
    }
    with theirs, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.fspath(folder / "server"))
        listening.listen(128)
        subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-c",
                _SERVER,
                str(folder),
                str(listening.fileno()),
                str(theirs.fileno()),
            ],
            pass_fds=[listening.fileno(), theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=kept,
            cwd="/",
        )
    atexit.register(ours.close)


def serve(place: str, *descriptors: str) -> None:
    """Fork a child for each request at the first of two sockets, until the worker at the other is
    gone. A client that goes away takes its child with it.
    """
    folder = Path(place)
    listening, worker = (socket.socket(fileno=int(number)) for number in descriptors)
    _load()
    gc.freeze()  # no child looks through it for garbage
    ends, wakeup = socket.socketpair()
    wakeup.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup.fileno())
    clients: dict[int, socket.socket] = {}
    """By the process that works for them."""
    while True:
        watched = [listening, worker, ends, *clients.values()]
        ready = select.select(watched, [], [])[0]
        if worker in ready:
            break
        for process, client in list(clients.items()):
            if client in ready:
                os.kill(process, signal.SIGTERM)
                clients.pop(process).close()
        if ends in ready:
            ends.recv(4096)
            _tell_ends(clients)
        if listening in ready:
            client, _ = listening.accept()
            try:
                files, words = _read_request(client)
            except (OSError, ValueError):  # it is gone already
                client.close()
                continue
            process = os.fork()
            if process == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for inherited in (*watched, wakeup, client):
                    inherited.close()
                os._exit(_main(folder, files, words))
            clients[process] = client
            for file in files:
                os.close(file)
    for process in clients:
        os.kill(process, signal.SIGTERM)
    shutil.rmtree(folder)


def _read_request(client: socket.socket) -> tuple[list[int], list[bytes]]:
    """The files and the words of `asking.ask`. OSError, ValueError if it was cut."""
    head, files, _, _ = socket.recv_fds(client, 12, 4)
    return files, client.recv(int(head), socket.MSG_WAITALL).split(b"\0")


def _tell_ends(clients: dict[int, socket.socket]) -> None:
    """Tell the clients of children that ended how they did."""
    with contextlib.suppress(ChildProcessError):  # there is no child any more
        while (end := os.waitpid(-1, os.WNOHANG))[0]:
            client = clients.pop(end[0], None)
            if client is None:
                continue
            with contextlib.suppress(OSError), client:
                client.sendall(b"%d" % os.waitstatus_to_exitcode(end[1]))


def _load() -> None:
    for module in pkgutil.walk_packages(vibe_gate.__path__, "vibe_gate."):
        if module.name in _OPTIONAL:
            continue
        if (
            not module.name.endswith(".__main__")
            and ".demo_data" not in module.name
            and ".install." not in module.name
        ):
            importlib.import_module(module.name)
    for name in _LATE:
        importlib.import_module(name)
    _build(Struct)
    _compile_expressions()
    _derive_of_built_in_gate()
    sdk_version()


def _compile_expressions() -> None:
    """Have the expressions compiled that each command would compile at their first use: half of the
    time that a small review takes.
    """
    for lazy in gc.get_objects():
        if isinstance(lazy, _LazyPattern):
            lazy.pattern  # noqa: B018
    matches_any_glob("", TEST_FILES)
    keywords = {keyword for rule in RULES for keyword in rule.keywords}
    find_secrets("\n".join(keywords))


def _derive_of_built_in_gate() -> None:
    """Have what depends on nothing but the program's own definitions derived: globs, digests, the
    form of a run's time.
    """
    gate = built_in_gate(FolderFiles(Path("/dev/null")))
    policy = gate.file.policy
    for globs in (policy.block, policy.warn, (*STEERING, *policy.block, *policy.warn)):
        matches_any_glob("", tuple(glob.casefold() for glob in globs))
    for rubric in gate.rubrics:
        rubric.digest  # noqa: B018
    assert parse_run_time(make_run_id(datetime.now(UTC), b"", 0)) is not None


def _build(base: type[Struct]) -> None:
    """Have msgspec look at the types of all documents, and us at those of all tables, which is done
    when each is read first.
    """
    for kind in base.__subclasses__():
        with contextlib.suppress(ValueError, TypeError, NameError):
            msgspec.convert({}, kind)
        with contextlib.suppress(NameError):
            keys_of(kind)
        _build(kind)


def _run_as_script() -> int:
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")
    return 0


def _main(folder: Path, files: list[int], words: list[bytes]) -> int:
    """As the interpreter does it: the command, what was to happen at the end, the outputs."""
    umask, parent, group, length = map(int, words[:4])
    argv, variables = words[4:][:length], words[4:][length:]
    os.fchdir(files[3])
    for number, file in enumerate(files):
        if number < 3:
            os.dup2(file, number)
        os.close(file)
    os.umask(umask)
    with contextlib.suppress(PermissionError):  # a group of another session
        os.setpgid(0, group)
    os.environb.clear()
    os.environb.update(variable.split(b"=", 1) for variable in variables)
    os.getppid = lambda: parent
    time.tzset()
    sys.argv[1:] = map(os.fsdecode, argv)
    if sys.argv[1:3] == ["install", "git"] or sys.argv[1:2] == ["doctor"]:
        sys.executable = str(folder / "python")  # the hooks are to ask for forks, too
    try:
        code = _run_as_script() if sys.argv[1:2] == [_SCRIPT] else main()
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code
