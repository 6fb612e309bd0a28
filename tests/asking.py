"""What stands for `python` in tests: asks the server of `forked.py` for a process of the command,
in milliseconds.

With anything but `-I -m vibe_gate`, and if the server is gone, it becomes the interpreter that it
stands for. It imports only what is built into the interpreter, because imports are what a start
costs.
"""

import _signal
import _socket
import posix
import sys


def ask(
    server: "_socket.socket",
    files: list[int],
    parent: int,
    argv: list[bytes],
    variables: list[bytes],
) -> None:
    """Send a request: what a child of `parent` is to take over; `files` are stdin, stdout, stderr
    and its folder.
    """
    umask = posix.umask(0)
    posix.umask(umask)
    numbers = (umask, parent, posix.getpgrp(), len(argv))
    request = b"\0".join([*(b"%d" % number for number in numbers), *argv, *variables])
    descriptors = b"".join(file.to_bytes(4, sys.byteorder) for file in files)
    server.sendmsg(
        [b"%12d" % len(request)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)]
    )
    server.sendall(request)


def answer(server: "_socket.socket") -> int:
    """How the process ended: its exit code, or minus the signal."""
    return int(server.recv(12) or b"-9")


def _main(place: str, argv: list[str]) -> None:
    if argv[:3] != ["-I", "-m", "vibe_gate"]:
        _become(argv)
    server = _socket.socket(_socket.AF_UNIX)
    words = [word.encode("utf-8", "surrogateescape") for word in argv[3:]]
    variables = [b"%b=%b" % pair for pair in posix.environ.items()]
    try:
        server.connect(place)
        folder = posix.open(".", posix.O_RDONLY | posix.O_DIRECTORY)
        ask(server, [0, 1, 2, folder], posix.getppid(), words, variables)
    except OSError:
        _become(argv)
    _signal.signal(
        _signal.SIGINT, _signal.SIG_IGN
    )  # the process is in the same group, and gets its own
    code = answer(server)
    if code < 0:
        posix.kill(posix.getpid(), -code)
    posix._exit(code)


def _become(argv: list[str]) -> None:
    posix.execv(sys.executable, [sys.executable, *argv])


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2:])
