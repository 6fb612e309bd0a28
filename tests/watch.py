"""What no test may do, watched where the interpreter itself reports it.

Programs that a test starts are not seen: they have the home of their test, and no proxy.
"""

from __future__ import annotations

import ipaddress
import os
import pwd
import sys
import tempfile
import threading
from pathlib import Path

_WRITES = {
    "os.mkdir": (0,), "os.remove": (0,), "os.rmdir": (0,), "os.rename": (0, 1), "os.symlink": (1,), "os.link": (1,),
    "os.truncate": (0,), "os.chmod": (0,),
}  # fmt: skip
"""Events that write, and which of their arguments are paths."""
HOME = Path(pwd.getpwuid(os.getuid()).pw_dir).resolve()
_ROOT = Path(__file__).parents[1]
_OURS = [
    Path(path).resolve() for path in (sys.prefix, sys.base_prefix, tempfile.gettempdir(), _ROOT)
]
acts: list[str] = []
watched = threading.Event()


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if not watched.is_set():
        return
    act = ""
    if event == "socket.connect":
        act = f"connect to {arguments[1]}" if _is_foreign(arguments[1]) else ""
    elif event == "socket.getaddrinfo":
        act = f"look up {arguments[0]!r}" if _is_foreign(arguments[:2]) else ""
    elif event in _WRITES or (event == "open" and _is_writing(arguments)):
        paths = [arguments[number] for number in _WRITES.get(event, (0,))]
        act = next((f"write to {path!r}" for path in paths if _is_in_home(path)), "")
    if act:
        acts.append(act)
        raise AssertionError(f"a test tried to {act}")


def _is_foreign(address: object) -> bool:
    if (
        not isinstance(address, tuple)
        or not isinstance(address[0], str)
        or address[0] == "localhost"
    ):
        return False  # a socket in the file system, or one of the kernel's
    try:
        return not ipaddress.ip_address(address[0].partition("%")[0]).is_loopback
    except ValueError:
        return True


def _is_writing(arguments: tuple[object, ...]) -> bool:
    _, mode, flags = arguments
    by_flags = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    return bool(by_flags or (isinstance(mode, str) and set(mode) & set("wax+")))


def _is_in_home(path: object) -> bool:
    if not isinstance(path, (str, bytes, os.PathLike)):
        return False
    place = Path(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100 - without asking the disk
    return place.is_relative_to(HOME) and not any(place.is_relative_to(ours) for ours in _OURS)


sys.addaudithook(_watch)
