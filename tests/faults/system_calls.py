"""Every call into the system fails once, or the process dies at it once.

A profile function sees each call into the system before it happens, and may raise what the call
would have raised, or send SIGKILL.
"""

from __future__ import annotations

import errno
import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from vibe_gate.errors import StorageError


class AtCall:
    """Does something before (or after) the n-th call into the system."""

    def __init__(
        self, number: int, do: Callable[[], None], moment: str = "c_call", but: str = ""
    ) -> None:
        self.left = number
        self.do = do
        self.moment = moment
        self.but = but
        self.where = ""

    def __call__(self, frame: FrameType, event: str, function: Any) -> None:
        if event != self.moment or getattr(function, "__module__", "") not in {"posix", "fcntl"}:
            return
        if frame.f_code.co_name == self.but:
            return
        if function.__name__ == "fspath":  # no call into the system
            return
        if event == "c_return" and function.__name__ == "scandir":  # before `with` has what is open
            return
        self.left -= 1
        if self.left == 0:
            self.where = f"{function.__name__} in {frame.f_code.co_name}"
            self.do()


def _fail_with(code: int) -> Callable[[], None]:
    def fail() -> None:
        raise OSError(code, os.strerror(code))

    return fail


def each_call_fails(
    do: Callable[[Path], object],
    create_store: Callable[[int], Path],
    after: Callable[[Path], None],
    step: int = 31,
    code: int = errno.EIO,
) -> int:
    """`do` with its n-th call into the system failing, for every `step`th n; how many calls there
    are.
    """
    # It loads what it loads on first use: an import that fails is no fault of the store.
    do(create_store(0))
    for number in itertools.count(1, step):
        root = create_store(number)
        fault = AtCall(number, _fail_with(code), but="close_descriptor")
        sys.setprofile(fault)
        try:
            do(root)
        except StorageError:
            pass
        finally:
            sys.setprofile(None)
        if not fault.where:
            return number
        try:
            after(root)
        except Exception as error:
            raise AssertionError(fault.where) from error
    raise AssertionError


def each_call_kills(
    do: Callable[[Path], object],
    create_store: Callable[[int], Path],
    after: Callable[[Path], None],
    step: int = 41,
) -> int:
    """`do` in a process that dies at its n-th call into the system, for every `step`th n; how many
    calls there are.
    """
    for number in itertools.count(1, step):
        root = create_store(number)
        child = os.fork()
        if child == 0:
            sys.setprofile(AtCall(number, lambda: os.kill(os.getpid(), signal.SIGKILL)))
            try:
                do(root)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        if status == 0:
            return number
        after(root)
    raise AssertionError
