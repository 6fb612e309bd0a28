"""The command in a process of its own that was forked, not started: loading takes ten times as long
as most commands.

One process for each worker of pytest, started with the first command, has loaded the program and
nothing else. It forks a child that runs the command with the command's own arguments, folder,
environment, umask, process group and outputs. A child that its command left as it was (threads,
files, processes, what is to be done at the end) runs the next one, too: what a fork costs is the
copies of all pages that a command touches. A child can run one of our scripts, too, as
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
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.machinery import SourceFileLoader
from pathlib import Path
from runpy import run_module
from typing import NoReturn

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

_MODULE = "--module"
"""The same, for a module: `python -P -m MODULE`."""

MOST_COMMANDS = 200
"""Of one process: its memory is bounded."""

ANSWERS = range(6)
"""The exit codes of commands that came to their end."""

_INTERPRETER = sys.executable

_folder: Path | None = None


class _Left(BaseException):
    """The command has ended its process."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


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
    """The folder with programs for tests: `vibe-gate`, `hook-script` for `python -I -S`,
    `module-python` for `python` with `-P -m MODULE`, and `python`, which is a fork with
    `-I -m vibe_gate`, else the interpreter.
    """
    global _folder
    if _folder is None:
        _folder = Path(tempfile.mkdtemp(prefix="vibe-gate-"))
        for name, words in (
            ("python", ()),
            ("vibe-gate", _PYTHON),
            ("hook-script", (*_PYTHON, _SCRIPT)),
            ("module-python", (*_PYTHON, _MODULE)),
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
    variables = {
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
            env=variables,
            cwd="/",
        )
    atexit.register(ours.close)


def serve(place: str, *descriptors: str) -> None:
    """Have a child run each command that is asked for at the first of two sockets, until the worker
    at the other is gone.
    """
    folder = Path(place)
    listening, worker = (socket.socket(fileno=int(number)) for number in descriptors)
    gc.disable()  # little of what is loaded is garbage
    _load()
    gc.enable()
    gc.freeze()  # no child looks through it for garbage
    ends, wakeup = socket.socketpair()
    wakeup.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup.fileno())
    children = _Children(folder)
    while True:
        watched = [listening, worker, ends, *children.sockets()]
        ready = select.select(watched, [], [])[0]
        if worker in ready:
            break
        children.end_unwanted(ready)
        children.tell_codes(ready)
        if ends in ready:
            ends.recv(4096)
            children.tell_ends()
        if listening in ready:
            client, _ = listening.accept()
            try:
                files, words = _read_request(client)
            except (OSError, ValueError):  # it is gone already
                client.close()
                continue
            children.begin(client, files, words, (*watched, wakeup, client))
            for file in files:
                os.close(file)
    signal.set_wakeup_fd(-1)
    children.end_all()
    shutil.rmtree(folder)


class _Children:
    """The processes that run commands, and those that wait for the next one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clients: dict[int, socket.socket] = {}
        """By the process that works for them."""
        self._parents: dict[int, socket.socket] = {}
        """Our end of what each process is asked and answers by."""

    def sockets(self) -> list[socket.socket]:
        """Where clients go away, and codes come."""
        return [*self._clients.values(), *self._parents.values()]

    def begin(
        self,
        client: socket.socket,
        files: list[int],
        words: list[bytes],
        inherited: Sequence[socket.socket],
    ) -> None:
        """Have a process that waits, or else a new one, run the command."""
        process = self._find_idle(files, words)
        if process is None:
            ours, theirs = socket.socketpair()
            process = os.fork()
            if process == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for copy in (*inherited, ours):
                    copy.close()
                _work(self._folder, theirs, files, words)
            theirs.close()
            self._parents[process] = ours
        self._clients[process] = client

    def _find_idle(self, files: list[int], words: list[bytes]) -> int | None:
        for process in self._parents.keys() - self._clients.keys():
            with contextlib.suppress(OSError):  # it has ended
                _send_request(self._parents[process], files, words)
                return process
        return None

    def end_unwanted(self, ready: Sequence[socket.socket]) -> None:
        """A client that goes away takes its child with it."""
        for process, client in list(self._clients.items()):
            if client in ready:
                os.kill(process, signal.SIGTERM)
                self._clients.pop(process).close()
                self._parents.pop(process).close()

    def tell_codes(self, ready: Sequence[socket.socket]) -> None:
        """Tell clients the exit codes of the processes that go on."""
        for process, parent in self._parents.items():
            code = b""
            if parent in ready:
                with contextlib.suppress(ConnectionResetError):  # `tell_ends` hears of it
                    code = parent.recv(12)
            if code:
                _tell_end(self._clients.pop(process), int(code))

    def tell_ends(self) -> None:
        """Tell the clients of processes that ended how they did."""
        with contextlib.suppress(ChildProcessError):  # there is no child any more
            while (end := os.waitpid(-1, os.WNOHANG))[0]:
                if end[0] in self._parents:
                    self._parents.pop(end[0]).close()
                if end[0] in self._clients:
                    _tell_end(self._clients.pop(end[0]), os.waitstatus_to_exitcode(end[1]))

    def end_all(self) -> None:
        """Those that wait end by themselves."""
        for process in self._clients:
            os.kill(process, signal.SIGTERM)


def _send_request(child: socket.socket, files: list[int], words: list[bytes]) -> None:
    request = b"\0".join(words)
    socket.send_fds(child, [b"%12d" % len(request)], files)
    child.sendall(request)


def _read_request(client: socket.socket) -> tuple[list[int], list[bytes]]:
    """The files and the words of `asking.ask`. OSError, ValueError if it was cut."""
    head, files, _, _ = socket.recv_fds(client, 12, 4)
    return files, client.recv(int(head), socket.MSG_WAITALL).split(b"\0")


def _tell_end(client: socket.socket, code: int) -> None:
    with contextlib.suppress(OSError), client:
        client.sendall(b"%d" % code)


def _work(folder: Path, parent: socket.socket, files: list[int], words: list[bytes]) -> NoReturn:
    """Run the command, and others after it as long as each leaves this process as it was: a fork
    copies page by page what a command touches, which takes longer than most commands.
    """
    exit_process, process = os._exit, os.getpid()

    def leave(code: int) -> NoReturn:
        if os.getpid() == process and threading.current_thread() is threading.main_thread():
            raise _Left(code)
        exit_process(code)

    os._exit = leave  # the commands of hooks end by it
    group = os.getpgrp()
    state_before = _state_of_process(files)
    for number in range(MOST_COMMANDS):
        is_last = number == MOST_COMMANDS - 1
        code = _main(folder, files, words)
        if is_last or code not in ANSWERS or _has_changed(state_before) or _has_children():
            atexit._run_exitfuncs()
            exit_process(code)
        _let_go(group)
        with contextlib.suppress(OSError, ValueError):  # the server, or the client, has gone
            parent.sendall(b"%d" % code)
            files, words = _read_request(parent)
            continue
        break
    exit_process(0)


def _has_changed(state_before: tuple[object, ...]) -> bool:
    """Whether the command has left this process otherwise than it was, once its garbage is collected."""
    if _state_of_process() != state_before:
        gc.collect()
    return _state_of_process() != state_before


def _has_children() -> bool:
    """Whether the command has left a process."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def _let_go(group: int) -> None:
    """Leave the files, the folder and the process group of the command."""
    os.setpgid(0, group)
    os.chdir("/")
    null_file = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null_file, number)
    os.close(null_file)
    tempfile.tempdir = None  # the next one has a TMPDIR of its own


def _state_of_process(files: Sequence[int] = ()) -> tuple[object, ...]:
    """What a command must not have changed: threads, open files but these, what is to be done at
    the end of the process, and the outputs.
    """
    return (
        threading.active_count(),
        set(os.listdir("/dev/fd")) - set(map(str, files)),  # noqa: PTH208 - names are compared
        atexit._ncallbacks(),
        len(weakref.finalize._registry),
        (id(sys.stdout), id(sys.stderr)),
    )


def import_program() -> None:
    """Import all of the program but what an option alone loads."""
    for module in pkgutil.walk_packages(vibe_gate.__path__, "vibe_gate."):
        if module.name in _OPTIONAL:
            continue
        if (
            not module.name.endswith(".__main__")
            and ".demo_data" not in module.name
            and ".install." not in module.name
        ):
            importlib.import_module(module.name)


def _load() -> None:
    import_program()
    for name in _LATE:
        importlib.import_module(name)
    _build(Struct)
    _compile_expressions()
    _derive_of_built_in_gate()
    sdk_version()
    weakref.finalize(_load, int).detach()  # the first one registers what is to be done at the end


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
    """As `python -I -S SCRIPT` does it, but with the script's bytecode."""
    words, search_path = sys.argv, sys.path[:]
    sys.argv = words[2:]
    try:
        code = SourceFileLoader("__main__", sys.argv[0]).get_code("__main__")
        assert code is not None
        exec(code, {"__name__": "__main__", "__file__": sys.argv[0]})
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv, sys.path[:] = words, search_path
    return 0


def _run_as_module() -> int:
    """As `python -P -m MODULE` does it, of what is loaded."""
    words = sys.argv
    sys.argv = words[4:]
    try:
        run_module(sys.argv[0], run_name="__main__")
    finally:
        sys.argv = words
    return 0


def _main(folder: Path, files: list[int], words: list[bytes]) -> int:
    """As the interpreter does it: what it finds, the command, the outputs."""
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
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_DFL),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        signal.signal(number, handler)
    os.environb.clear()
    os.environb.update(variable.split(b"=", 1) for variable in variables)
    os.getppid = lambda: parent
    time.tzset()
    sys.argv[1:] = map(os.fsdecode, argv)
    sys.stdin = open(0, encoding="utf-8", errors=sys.stdin.errors, closefd=False)  # noqa: SIM115
    sys.executable = _INTERPRETER
    if sys.argv[1:3] == ["install", "git"] or sys.argv[1:2] == ["doctor"]:
        sys.executable = str(folder / "python")  # the hooks are to ask for forks, too
    try:
        if sys.argv[1:2] == [_SCRIPT]:
            code = _run_as_script()
        elif sys.argv[1:2] == [_MODULE]:
            code = _run_as_module()
        else:
            code = main()
    except _Left as departure:
        code = departure.code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code
