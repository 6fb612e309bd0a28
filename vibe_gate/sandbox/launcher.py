"""Runs one command behind a wall, and ends everything it started; run by path, with the standard
library only.

    python -I -S launcher.py '{"argv": [...], "read": [...], "write": [...], "unix_sockets": false,
    "report": FD}' python -I -S launcher.py '{"read": [...], "write": [...], "unix_sockets": false}'
    PROGRAM ARGUMENT...

Two processes: this one stays outside, adopts whatever the command leaves behind and ends it; its
child builds the wall around itself, which nobody takes down again, and becomes the command. What
holds without any privilege (Linux):

    no new privileges   sudo and other set-uid programs give nothing
    Landlock            files: only what is listed; no look into, and no signal to, processes outside of the wall
    seccomp             no sockets of other services (a container daemon's is as good as root), io_uring or keyrings;
                        no limits set for other processes (that of processor time kills)
    capabilities        where it runs as root: only those that change files

The order may say {"offline": true} (no socket of any kind, no shared memory or queue) and give
"limits": {"memory": bytes, "disk": bytes, "processes": number}, of all processes together. Whatever
goes over one ends, and FD gets a failure.

FD gets lines of JSON: {"lacks": what this system has no wall for}, {"failure": why it was not
started}, and at the end {"code": ...} as in `subprocess`. Without FD, as in the second form, the
exit code is the command's, and why it was not started goes to stderr.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import platform
import resource
import signal
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

GRACE_S = 2.0
"""Seconds between SIGTERM and SIGKILL: enough to remove temporary files."""

SETTLE_S = 1.0
"""Seconds for what still runs when the command has exited: the rest of a pipeline, say."""

END_S = 5.0
"""Seconds to wait for processes that were killed: one may hang in the kernel."""

SCOPED_ABI = 6
"""The version of Landlock (Linux 6.12) that keeps signals and abstract sockets inside."""

WATCH_S = 0.05
"""Seconds between two looks at what a command with limits uses: 50 MB more on a fast disk, some
dozens of processes.
"""

DISKS = 4
"""How many times a command's disk may go from the file system while it runs: others write there,
too, but not all that a command writes is seen in its folders (a file that is open and removed).
"""

_BLOCK = 512
"""Bytes of a block in stat(2)."""

_TICK_S = 0.02
_NO_REPORT = -1

# prctl(2), capset(2)
_SET_PDEATHSIG, _SET_DUMPABLE, _SET_SECCOMP, _CAPBSET_DROP = 1, 4, 22, 24
_SET_CHILD_SUBREAPER, _SET_NO_NEW_PRIVS, _CAP_AMBIENT, _AMBIENT_CLEAR = 36, 38, 47, 4
_CAPABILITIES = 0x20080522
_KEPT_CAPABILITIES = (
    0,
    1,
    3,
    4,
    5,
    6,
    7,
    10,
)  # chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind
_LAST_CAPABILITY = 63

# landlock(7): the same numbers on every architecture; access bits by the ABI that brought them
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FIRST_ABI = (1 << 13) - 1
_LATER_ABIS = {2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEV}
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_MAKE_DEVICES = 1 << 6 | 1 << 11
_SCOPED_SOCKETS, _SCOPED_SIGNALS = 1 << 0, 1 << 1

FILTERED = {
    "x86_64": (0xC000003E, 41, 302, (425, 426, 427, 248, 249, 250)),
    "aarch64": (0xC00000B7, 198, 261, (425, 426, 427, 217, 218, 219)),
}
"""seccomp(2): architecture -> (its number, socket, prlimit64, calls that do not exist here). These
are io_uring_*, add_key, request_key, keyctl.
"""

_SHARED = {
    "x86_64": (29, 30, 31, 64, 65, 66, 68, 69, 70, 71, 220, 240, 241),
    "aarch64": (180, 181, *range(186, 197)),
}
"""shm*, sem*, msg* and mq_*: what they make outlives the processes, and other services' is as
near.
"""

_FAMILIES = (2, 10, 16)  # AF_INET, AF_INET6, AF_NETLINK (name look-ups ask for the interfaces)
_AF_UNIX = 1
_OTHER_ABI = 0x40000000
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108
_TERMINALS = "/dev/pts"


def main(order: dict[str, Any]) -> int:
    """Run the command to its end. 0 if how it ended stands in the report, else the code that a
    shell would give.
    """
    report = order.get("report", _NO_REPORT)
    if report != _NO_REPORT:
        os.set_inheritable(report, False)
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
    abi = _settle_in()
    launcher = os.getpid()
    child = os.fork()
    if child == 0:
        _become(order, abi, report, launcher)
    quiet = os.open(os.devnull, os.O_RDWR)
    os.dup2(quiet, 1)  # the output's end is the command's end, not ours
    os.dup2(quiet, 2)
    processes = _Processes(child, abi)
    limits = order.get("limits")
    watch = _Watch(order["write"], **limits) if limits else None
    has_ended = processes.attend(watch)
    if processes.excess:
        processes.kill()
        _report(report, failure=processes.excess)
        return 0
    processes.end(SETTLE_S if has_ended else 0)
    if processes.status is None:
        return 0
    code = os.waitstatus_to_exitcode(processes.status)
    _report(report, code=code)
    if report != _NO_REPORT:
        return 0
    if code >= 0:
        return code
    return 128 - code


_WAITED = {signal.SIGCHLD, signal.SIGTERM}


def _settle_in() -> int:
    """Adopt orphans, end with the gate, hear no signal that others send; gives Landlock's ABI, 0
    for none.
    """
    if sys.platform != "linux":
        return 0
    _prctl(_SET_PDEATHSIG, signal.SIGTERM)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    _prctl(_SET_DUMPABLE, 0)
    abi = landlock_abi()
    if abi >= SCOPED_ABI and _prctl(_SET_NO_NEW_PRIVS, 1) == 0:
        # A domain of our own: `kill(-1)` then means those we started and nobody else, all of them
        # at one instant. Moving files between folders is what every domain forbids unless it is
        # told.
        ruleset = _ruleset(_REFER, _SCOPED_SIGNALS)
        _allow(ruleset, "/", _REFER)
        _must(_call(_RESTRICT_SELF, ruleset, 0))
        os.close(ruleset)
    return abi


def _become(order: dict[str, Any], abi: int, report: int, launcher: int) -> None:
    """In the child: build the wall, say what it lacks, become the command."""
    try:
        os.setsid()
        for number in (signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAITED)
        if limits := order.get("limits"):
            _limit(**limits)
        _report(report, lacks=_wall(order, abi))
        if os.getppid() != launcher:
            raise OSError("the launcher is gone")
        os.execve(order["argv"][0], order["argv"], dict(os.environ))  # noqa: S606
    except (OSError, ValueError) as error:
        _report(report, failure=f"could not be started: {error}")
    finally:
        os._exit(127)


def _wall(order: dict[str, Any], abi: int) -> str:
    """Build all of it; returns, in words, what this system lacks for it. OSError if a part exists
    and does not hold.
    """
    if sys.platform != "linux":
        return "there is none on this system"
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if _prctl(_SET_NO_NEW_PRIVS, 1):
        return "this kernel cannot hold back set-uid programs"
    lacks = []
    is_offline = bool(order.get("offline"))
    if abi:
        shared_memory = [] if is_offline else [_SHARED_MEMORY]
        _enclose(order["read"], [*order["write"], *shared_memory], abi)
    else:
        lacks.append("no Landlock")
    if abi in (1, 2):
        lacks.append("files outside may be emptied")
    if abi and abi < SCOPED_ABI:
        lacks.append("signals reach the gate")
    _drop_capabilities()
    families: tuple[int, ...] = _FAMILIES
    if order["unix_sockets"]:
        families = (*_FAMILIES, _AF_UNIX)
    if is_offline:
        families = ()
    if not _filter_calls(families, offline=is_offline):
        lacks.append("sockets of other services are open")
    return "; ".join(lacks)


def landlock_abi() -> int:
    """The kernel's version of Landlock; 0 if there is none, or it is switched off."""
    return max(_call(_CREATE_RULESET, None, 0, 1), 0)


def _enclose(read: list[str], write: list[str], abi: int) -> None:
    handled = _FIRST_ABI
    for first_abi, bit in _LATER_ABIS.items():
        if abi >= first_abi:
            handled |= bit
    scoped = 0
    if abi >= SCOPED_ABI:
        scoped = _SCOPED_SOCKETS | _SCOPED_SIGNALS
    ruleset = _ruleset(handled, scoped)
    for path in read:
        _allow(ruleset, path, _READ)
    for path in (*write, *_DEVICES, *_own_terminals()):
        _allow(ruleset, path, handled & ~_MAKE_DEVICES)
    _must(_call(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _own_terminals() -> tuple[str, ...]:
    """The folder of terminals if none is open: those that appear are the command's own (tests of
    terminals).
    """
    try:
        is_any_open = any(file.name.isdigit() for file in Path(_TERMINALS).iterdir())
    except OSError:
        return ()
    if is_any_open:
        return ()
    return (_TERMINALS, "/dev/ptmx")


def _ruleset(files: int, scoped: int) -> int:
    attributes = struct.pack("=QQQ", files, 0, scoped)
    return _must(_call(_CREATE_RULESET, attributes, len(attributes), 0))


def _allow(ruleset: int, path: str, access: int) -> None:
    """Allow access below `path`, if it exists."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            access &= _OF_FILES
        _must(_call(_ADD_RULE, ruleset, 1, struct.pack("=Qi", access, fd), 0))
    finally:
        os.close(fd)


def _drop_capabilities() -> None:
    """Of root's powers those that change files and owners stay; mounting, tracing, modules, raw
    devices go.
    """
    header = struct.pack("=Ii", _CAPABILITIES, 0)
    capabilities = ctypes.create_string_buffer(24)
    if _libc.capget(header, capabilities):
        return
    kept_bits = sum(1 << number for number in _KEPT_CAPABILITIES)
    effective, permitted, _, _, above_permitted, _ = struct.unpack("=6I", capabilities.raw)
    if not (permitted or above_permitted):
        return
    for number in range(_LAST_CAPABILITY + 1):
        # It is refused for numbers that the kernel does not know, and without setpcap.
        if number not in _KEPT_CAPABILITIES:
            _prctl(_CAPBSET_DROP, number)
    _prctl(_CAP_AMBIENT, _AMBIENT_CLEAR)
    remaining = struct.pack("=6I", effective & kept_bits, permitted & kept_bits, 0, 0, 0, 0)
    _must(_libc.capset(header, remaining))


def _limit(memory: int, disk: int, processes: int) -> None:
    """What the kernel can hold each process to; `_Watch` sees to them together."""
    most_threads = _threads_of_user() + processes  # of root the kernel counts none
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_FSIZE: disk,
        resource.RLIMIT_NPROC: most_threads,
    }
    for kind, limit in limits.items():
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(kind, (limit, limit))


def _threads_of_user() -> int:
    count = 0
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and process.stat().st_uid == os.getuid():
                count += sum(1 for _ in (process / "task").iterdir())
    return count


def _filter_calls(families: tuple[int, ...], *, offline: bool = False) -> bool:
    """Only sockets of these families; no calls that go around a filter. False if this system has no
    filter.
    """
    machine = platform.machine()
    if machine not in FILTERED or sys.maxsize < 1 << 32:
        return False
    architecture, socket, prlimit, absent = FILTERED[machine]
    refusal = errno.EACCES
    if offline:
        absent += _SHARED[machine]
        refusal = errno.ENETDOWN
    program = _program(architecture, socket, prlimit, absent, families, refusal)
    code = b"".join(struct.pack("=HBBI", *line) for line in program)
    lines = ctypes.create_string_buffer(code, len(code))
    filter_program = struct.pack("@HP", len(code) // 8, ctypes.addressof(lines))
    return _prctl(_SET_SECCOMP, 2, filter_program) == 0


def _program(
    machine: int,
    socket: int,
    prlimit: int,
    absent: tuple[int, ...],
    families: tuple[int, ...],
    refusal: int,
) -> Iterator[tuple[int, int, int, int]]:
    """Classic BPF over `struct seccomp_data`: the call's number at 0, architecture at 4, first
    argument at 16.
    """
    no_call, refused = _ERRNO | errno.ENOSYS, _ERRNO | refusal
    yield _LOAD, 0, 0, 4
    yield _EQUAL, 1, 0, machine
    yield _RETURN, 0, 0, no_call
    yield _LOAD, 0, 0, 0
    yield _AT_LEAST, 0, 1, _OTHER_ABI
    yield _RETURN, 0, 0, no_call
    for number in absent:
        yield _EQUAL, 0, 1, number
        yield _RETURN, 0, 0, no_call
    yield _EQUAL, 0, 4, prlimit
    yield _LOAD, 0, 0, 16
    yield _EQUAL, 0, 1, 0  # of the process itself
    yield _RETURN, 0, 0, _ALLOW
    yield _RETURN, 0, 0, _ERRNO | errno.EPERM
    yield _EQUAL, 1, 0, socket
    yield _RETURN, 0, 0, _ALLOW
    yield _LOAD, 0, 0, 16
    for family in families:
        yield _EQUAL, 0, 1, family
        yield _RETURN, 0, 0, _ALLOW
    yield _RETURN, 0, 0, refused


class _Watch:
    """What the processes below this one use together, against their limits in bytes."""

    def __init__(self, folders: list[str], memory: int, disk: int, processes: int) -> None:
        self._memory = memory
        self._disk = disk
        self._processes = processes
        self._free_at_start = {folder: _free(folder) for folder in folders}
        self._used_at_start = sum(map(_used, folders))
        self._unsuspicious_loss = disk
        """Bytes that may go from a file system before its folders are looked through."""

    def excess(self) -> str:
        """The limit that they are over, as a sentence about the command; "" if none."""
        processes = _descendants(os.getpid(), self._processes)
        if len(processes) > self._processes:
            return f"it had more than {self._processes} processes"
        if sum(map(_own_memory, processes)) > self._memory:
            return f"it used more than {self._memory >> 20} MB of memory"
        return self._excess_of_disk()

    def _excess_of_disk(self) -> str:
        """The free space is asked for always; what is in the folders, which may be many files, when
        enough of it has gone that the command could be over its limit.
        """
        losses = [free - _free(folder) for folder, free in self._free_at_start.items()]
        loss = max(losses)
        if loss > DISKS * self._disk:
            return f"more than {DISKS * self._disk >> 20} MB of disk were written while it ran"
        if loss <= self._unsuspicious_loss:
            return ""
        written = sum(map(_used, self._free_at_start)) - self._used_at_start
        if written > self._disk:
            return f"it wrote more than {self._disk >> 20} MB"
        self._unsuspicious_loss = loss + self._disk - max(written, 0)
        return ""


def _free(folder: str) -> int:
    """Bytes that are free where the folder is; what others write there meanwhile counts as well."""
    file_system = os.statvfs(folder)
    return file_system.f_bavail * file_system.f_frsize


def _used(folder: str) -> int:
    """Bytes of disk that the files in the folder take."""
    used = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # it may be removed meanwhile
                used += os.lstat(f"{place}/{name}").st_blocks * _BLOCK
    return used


def _own_memory(pid: int) -> int:
    """Bytes of memory that belong to no file; 0 of a process that has ended."""
    with contextlib.suppress(OSError, ValueError):
        _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
        return (resident - shared) * resource.getpagesize()
    return 0


class _Processes:
    """The command and everything that it started, seen from outside of the wall."""

    def __init__(self, child: int, abi: int) -> None:
        self.status: int | None = None
        """How the command ended, as wait(2) has it."""
        self.excess = ""
        """The limit that they were over, as a sentence."""
        self._child = child
        self._abi = abi
        self._empty = False

    def attend(self, watch: _Watch | None = None) -> bool:
        """Wait until the command has ended (True), we are told to end it, or it is over a limit."""
        while self.status is None:
            if self._reap() or self.status is not None:
                continue
            if _next_signal(WATCH_S if watch else None) == signal.SIGTERM:
                return False
            if watch is not None:
                self.excess = watch.excess()
            if self.excess:
                return False
        return True

    def kill(self) -> None:
        """SIGKILL to all, at once."""
        self._wait(END_S, self._kill)

    def end(self, settle_s: float) -> None:
        """Some time to settle, SIGTERM to the command's group, a grace, SIGKILL to all."""
        self._wait(settle_s, self._reap)
        if not self._empty and self._signal_group(signal.SIGTERM):
            self._wait(GRACE_S, lambda: self._reap() or not self._signal_group(0))
        if not self._empty:
            self._signal_group(signal.SIGKILL)
        self.kill()

    def _reap(self) -> bool:
        """Take what has ended; whether nothing is left."""
        while not self._empty:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._empty = True
                break
            if pid == 0:
                break
            if pid == self._child:
                self.status = status
        return self._empty

    def _kill(self) -> bool:
        if self._reap():
            return True
        for pid in _descendants(os.getpid()):
            _kill(pid)
        if self._abi >= SCOPED_ABI:
            _kill(-1)  # our domain, and nothing else; no fork slips through
        return self._reap()

    def _wait(self, seconds: float, has_ended: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while not has_ended() and time.monotonic() < deadline:
            time.sleep(_TICK_S)

    def _signal_group(self, number: int) -> bool:
        """Whether anyone in the command's group was there to be signalled."""
        try:
            os.killpg(self._child, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def _next_signal(seconds: float | None) -> int:
    """The next of the signals that are waited for; 0 if none came within the time."""
    if seconds is None or sys.platform == "darwin":
        return signal.sigwait(_WAITED)
    received = signal.sigtimedwait(_WAITED, seconds)
    return received.si_signo if received else 0


def _descendants(pid: int, enough: int = sys.maxsize) -> list[int]:
    """The processes below `pid`, or more than `enough` of them; [] if the system does not show
    them.
    """
    descendants: list[int] = []
    unvisited = [pid]
    while unvisited and len(descendants) <= enough:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{unvisited.pop()}/task").iterdir():
                children = [int(child) for child in (task / "children").read_text().split()]
                descendants += children
                unvisited += children
    return descendants


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _prctl(option: int, value: int, argument: bytes | None = None) -> int:
    zero = ctypes.c_ulong(0)
    return int(_libc.prctl(option, ctypes.c_ulong(value), argument or zero, zero, zero))


def _call(number: int, *values: int | bytes | None) -> int:
    arguments: list[ctypes.c_long | bytes | None] = []
    for value in (number, *values):
        arguments.append(ctypes.c_long(value) if isinstance(value, int) else value)
    return int(_libc.syscall(*arguments))


def _must(returned: int) -> int:
    if returned < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"the wall does not hold: {os.strerror(code)}")
    return returned


def _report(fd: int, **answer: str | int) -> None:
    if fd != _NO_REPORT:
        os.write(fd, f"{json.dumps(answer)}\n".encode())
    elif "failure" in answer:
        os.write(2, f"{answer['failure']}\n".encode())


_libc = ctypes.CDLL(None, use_errno=True)

if __name__ == "__main__":
    sys.exit(main({"argv": sys.argv[2:], **json.loads(sys.argv[1])}))
