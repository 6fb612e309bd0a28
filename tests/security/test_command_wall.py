"""A command check runs code of the change: what that code cannot do to the gate and its machine.
Real processes.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from repos import gated

from vibe_gate.sandbox import (
    CommandLimits,
    CommandResult,
    command_environment_from,
    launcher,
    run_command,
)

ABI = launcher.landlock_abi() if sys.platform == "linux" else 0
walled = pytest.mark.skipif(ABI < 1, reason="this system has no Landlock")
scoped = pytest.mark.skipif(
    ABI < launcher.SCOPED_ABI, reason="this kernel's Landlock lets signals out"
)
filtered = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="no filter of calls here"
)
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such a wall")

ROOT = Path(__file__).parents[2]
SECRET = "the-key-of-the-gate"

TRIES = """
import json
def attempt(what):
    try:
        return [True, repr(what())]
    except OSError as error:
        return [False, str(error)]
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "export").mkdir()
    return tmp_path / "export"


@pytest.fixture
def secretive(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process of the same user, with a secret in its environment: a runner, or the step's
    shell.
    """
    with subprocess.Popen(
        ["sleep", "600"], env={"VIBE_GATE_INPUT_ANTHROPIC_API_KEY": SECRET}
    ) as process:
        yield process
        process.kill()


def run(tree: Path, code: str, *argv: object, **environ: str) -> CommandResult:
    command = [sys.executable, "-c", code, *map(str, argv)]
    environment = command_environment_from({"PATH": os.environ["PATH"], **environ})
    return run_command(command, cwd=tree, timeout_s=30, environment=environment)


def try_expressions(tree: Path, expressions: dict[str, str], **environ: str) -> dict[str, Any]:
    """Evaluate each expression behind the wall: whether it succeeded, and its value or the error."""
    lines = "".join(
        f"    {name!r}: attempt(lambda: {code}),\n" for name, code in expressions.items()
    )
    result = run(
        tree,
        f"import os, signal, socket, subprocess{TRIES}print(json.dumps({{\n{lines}}}))",
        **environ,
    )
    assert result.exit_code == 0, result
    return json.loads(result.output)


@pytest.mark.slow
@walled
def test_no_environment_memory_or_file_of_another_process_is_seen(
    tree: Path, secretive: subprocess.Popen[bytes]
):
    ways = ("environ", "mem", "maps", "fd/0", "cwd/.", "root/etc")
    for pid in (secretive.pid, os.getpid()):
        attempts = try_expressions(
            tree, {file_name: _look(f"/proc/{pid}/{file_name}") for file_name in ways}
        )
        assert not any(is_done for is_done, _ in attempts.values()), attempts
    everything = "import glob\nfor f in glob.glob('/proc/[0-9]*/environ'):\n try: print(open(f).read())\n except OSError: 0"
    assert SECRET not in run(tree, everything).output


def _look(path: str) -> str:
    return f"os.listdir({path!r}) if os.path.isdir({path!r}) else open({path!r}, 'rb').read(1)"


@walled
def test_files_outside_of_the_export_are_neither_read_nor_written(tree: Path, tmp_path: Path):
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".cargo").mkdir()
    private = [
        home / ".ssh" / "id",
        home / ".cargo" / "credentials.toml",
        tmp_path / "module.py",
        tmp_path / ".git",
    ]
    for file in private:
        file.write_text(SECRET)
    (tree / "link").symlink_to(tmp_path / "module.py")
    expressions = {
        f"{verb} {file}": code
        for file in (*private, tree / "link")
        for verb, code in _touches(file).items()
    }
    attempts = try_expressions(tree, expressions, HOME=str(home), GITHUB_WORKSPACE=str(tmp_path))
    assert not any(is_done for is_done, _ in attempts.values()), attempts
    assert {file.read_text() for file in private} == {SECRET}


def _touches(file: Path) -> dict[str, str]:
    path = str(file)
    verbs = {
        "read": f"open({path!r}).read()",
        "write": f"open({path!r}, 'a').write('x')",
        "replace": f"os.replace('mine', {path!r})",
        "link": f"os.link({path!r}, 'linked')",
    }
    if not file.is_symlink():
        verbs["remove"] = f"os.remove({path!r})"
    else:
        del (
            verbs["replace"],
            verbs["link"],
        )  # these are about the link itself, which is the tree's own
    return verbs


@walled
def test_a_home_or_workspace_in_path_opens_neither(tree: Path, tmp_path: Path):
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "secret").write_text(SECRET)
    path = f"{os.environ['PATH']}:{home}:{home}/bin:/:{tmp_path}"
    attempts = try_expressions(
        tree, {"read": f"open({str(home / 'secret')!r}).read()"}, HOME=str(home), PATH=path
    )
    assert not attempts["read"][0]


@pytest.mark.slow
@walled
def test_the_export_home_and_temporary_folder_are_the_commands_own(tree: Path):
    attempts = try_expressions(
        tree,
        {
            "tree": "open('made', 'w').write('x')",
            "home": "open(os.path.expanduser('~/made'), 'w').write('x')",
            "temporary": "__import__('tempfile').mkdtemp()",
            "between": "os.rename('made', os.environ['TMPDIR'] + '/made')",
            "null": "open('/dev/null', 'w').write('x')",
            "semaphore": "__import__('multiprocessing').Lock()",
            "program": "subprocess.check_output(['git', '--version'])",
        },
    )
    assert all(is_done for is_done, _ in attempts.values()), attempts


@pytest.mark.slow
@scoped
def test_no_signal_reaches_the_gate_or_the_launcher(tree: Path, secretive: subprocess.Popen[bytes]):
    targets = {"other": secretive.pid, "gate": os.getpid()}
    attempts = try_expressions(
        tree,
        {n: f"os.kill({p}, 0)" for n, p in targets.items()}
        | {"launcher": "os.kill(os.getppid(), 9)"},
    )
    assert not any(is_done for is_done, _ in attempts.values()), attempts
    run(tree, "import os; os.kill(-1, 9)")
    assert secretive.poll() is None


@pytest.mark.slow
@filtered
@linux
def test_no_limit_of_another_process_is_set(tree: Path, secretive: subprocess.Popen[bytes]):
    """One of processor time would kill it, where no signal reaches it."""
    ways = {name: f"__import__('resource').prlimit({pid}, 7, (9, 9))" for name, pid in
            {"other": secretive.pid, "gate": os.getpid(), "launcher": "os.getppid()", "own": 0}.items()}  # fmt: skip
    attempts = try_expressions(tree, ways)
    assert {name for name, (is_done, _) in attempts.items() if is_done} == {"own"}, attempts


@pytest.mark.slow
@linux
@filtered
def test_the_sockets_of_other_services_are_out_of_reach(tree: Path):
    attempts = try_expressions(
        tree,
        {
            "unix": "socket.socket(socket.AF_UNIX)",
            "vsock": "socket.socket(40, socket.SOCK_STREAM)",
            "pair": "socket.socketpair()",
            "internet": "socket.socket(socket.AF_INET)",
        },
    )
    assert {name: is_done for name, (is_done, _) in attempts.items()} == {
        "unix": False, "vsock": False, "pair": True, "internet": True,
    }  # fmt: skip


@linux
def test_a_gate_may_open_unix_sockets_to_its_command(tree: Path):
    command = [sys.executable, "-c", "import socket; socket.socket(socket.AF_UNIX).bind('s')"]
    environ = {"PATH": os.environ["PATH"]}
    environment = command_environment_from(environ)
    assert (
        run_command(
            command, cwd=tree, timeout_s=30, environment=environment, unix_sockets=True
        ).exit_code
        == 0
    )


@linux
def test_no_privilege_is_gained(tree: Path):
    status = run(tree, "print(open('/proc/self/status').read())").output
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["NoNewPrivs"] == "1"
    sys_admin, sys_ptrace, sys_module = 1 << 21, 1 << 19, 1 << 16
    assert (
        not int(fields["CapBnd"], 16) & (sys_admin | sys_ptrace | sys_module) or os.geteuid() != 0
    )
    assert not int(fields["CapEff"], 16) & (sys_admin | sys_ptrace | sys_module)


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3):
            os.close(fd)
        os.execve(sys.executable, [sys.executable, "-c", "import os,time\\nopen('pid','w').write(str(os.getpid()))\\ntime.sleep(60)"], {})
    os._exit(0)
while not os.path.exists("pid") or not open("pid").read():
    time.sleep(0.02)
"""  # noqa: E501

RACER = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if os.fork():
            os._exit(0)
        open("beat", "w").close()
time.sleep(0.2)
"""


@pytest.mark.slow
@linux
def test_a_daemon_without_an_environment_does_not_outlive_the_command(tree: Path):
    assert run(tree, DAEMON).exit_code == 0
    assert not Path(f"/proc/{(tree / 'pid').read_text()}").exists()


@pytest.mark.slow
@scoped
def test_a_process_that_flees_by_forking_does_not_outlive_the_command(tree: Path):
    assert run(tree, RACER).exit_code == 0
    (tree / "beat").unlink(missing_ok=True)
    time.sleep(0.3)
    assert not (tree / "beat").exists()


@pytest.mark.slow
@linux
def test_the_gate_itself_shows_nothing_to_processes_of_its_user(tree: Path):
    code = (
        "import os, sys; from pathlib import Path\n"
        "from vibe_gate.sandbox import command_environment_from, run_command\n"
        f"run_command(['true'], cwd=Path({str(tree)!r}), timeout_s=9, "
        "environment=command_environment_from(os.environ))\n"
        "print(os.stat('/proc/self/environ').st_uid, __import__('ctypes').CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["0", "0"], "owned by root, and not dumpable"


WITHOUT = """
import ctypes, os, struct, sys
from pathlib import Path
libc = ctypes.CDLL(None)
lines = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050026), (0x06, 0, 0, 0x7FFF0000)]
code = b"".join(struct.pack("=HBBI", *line) for line in lines)
kept = ctypes.create_string_buffer(code, len(code))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, struct.pack("@HP", len(lines), ctypes.addressof(kept)), 0, 0) == 0
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Becomes Python on a kernel without Landlock: the call that every use begins with does not
exist.
"""


def without_landlock(*argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *argv], capture_output=True, text=True, **options
    )


@pytest.mark.slow
@walled
def test_a_kernel_without_landlock_runs_the_command_and_ends_what_it_leaves(tree: Path):
    code = (
        "import os, sys; from pathlib import Path\n"
        "from vibe_gate.sandbox import command_environment_from, run_command\n"
        f"command = [sys.executable, '-c', {DAEMON!r}]\n"
        f"result = run_command(command, cwd=Path({str(tree)!r}), timeout_s=20, "
        "environment=command_environment_from(os.environ))\n"
        "print(result.exit_code, result.lacks)"
    )
    result = without_landlock("-c", code, cwd=ROOT, check=True)
    assert result.stdout.startswith("0 no Landlock"), result
    assert not Path(f"/proc/{(tree / 'pid').read_text()}").exists()


RUBRIC = (
    'schema = 1\nid = "quality"\n[[criterion]]\nid = "tests"\nkind = "check"\ncommand = ["true"]\n'
)


@pytest.mark.slow
@walled
def test_a_review_says_that_a_command_ran_without_a_wall(tmp_path: Path, environ: dict[str, str]):
    repo = gated(tmp_path / "repo", environ, rubric=RUBRIC)
    repo.commit("More", **{"src/more.py": "MORE = 1\n"})
    review = ("-m", "vibe_gate", "review", "--commit", "HEAD")
    remark = "without a whole wall around it: no Landlock"
    result = without_landlock(*review, cwd=repo.path, env=environ)
    assert remark in " ".join((result.stdout + result.stderr).split()), result
    result = subprocess.run(
        [sys.executable, *review], cwd=repo.path, env=environ, capture_output=True, text=True
    )
    assert "wall" not in result.stdout + result.stderr, result


@pytest.mark.slow
@filtered
@walled
def test_a_command_with_limits_has_no_network_no_socket_and_no_shared_memory(tree: Path):
    code = (
        "import asyncio, resource, socket\nasyncio.run(asyncio.sleep(0))\n"
        "print(resource.getrlimit(resource.RLIMIT_DATA)[0] >> 20)\n"
        "for way in (lambda: socket.socket(type=socket.SOCK_DGRAM), lambda: socket.socket(socket.AF_INET6),\n"
        "            lambda: socket.socket(socket.AF_UNIX), lambda: open('/dev/shm/x', 'w')):\n"
        "    try: way(); print('open')\n    except OSError as error: print(error.strerror)\n"
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "for made in (libc.shmget(0, 4096, 0o1600), libc.msgget(0, 0o1600), libc.semget(0, 1, 0o1600)):\n"
        "    print('outlives' if made >= 0 else 'no', ctypes.get_errno())\n"
    )
    result = run_limited(tree, code)
    refused = [*["Network is down"] * 3, "Permission denied", *[f"no {errno.ENOSYS}"] * 3]
    assert result.output.splitlines() == ["300", *refused], result


DISK_MB = 10


def run_limited(
    tree: Path, code: str, cancelled: Callable[[], bool] = lambda: False
) -> CommandResult:
    environment = command_environment_from({"PATH": os.environ["PATH"]})
    return run_command(
        [sys.executable, "-c", code],
        cwd=tree,
        timeout_s=100,
        environment=environment,
        limits=CommandLimits(memory_mb=300, disk_mb=DISK_MB, processes=20),
        cancelled=cancelled,
    )


@pytest.mark.slow
def test_what_others_write_on_its_disk_ends_no_command(tree: Path, tmp_path: Path):
    def write_beside() -> bool:
        (tmp_path / "others").write_bytes(b"x" * (2 * DISK_MB << 20))
        (tree / "written").touch()
        return False

    code = "import os, time\nwhile not os.path.exists('written'): time.sleep(0.02)\ntime.sleep(0.3)"
    assert run_limited(tree, code, write_beside).exit_code == 0


@pytest.mark.slow
def test_a_command_that_writes_more_than_its_disk_is_ended(tree: Path):
    code = (
        "import time\n"
        "for number in range(2): open(str(number), 'wb').write(b'x' * (9 << 20))\n"
        "time.sleep(90)"
    )
    assert run_limited(tree, code).failure == f"it wrote more than {DISK_MB} MB"
