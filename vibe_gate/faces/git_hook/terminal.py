"""The terminal of the person who runs git: a hook's own input is git's, and its output may be a
framework's.
"""

from __future__ import annotations

import os
import select
import termios
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

PATIENCE_S = 120.0
"""Seconds for an answer: git holds the connection to the remote open meanwhile, and nobody may be
looking.
"""


class Terminal(Struct, frozen=True):
    """An open terminal."""

    descriptor: int

    def say(self, text: str) -> None:
        """Write lines."""
        remaining = text.encode("utf-8", "replace")
        while remaining:
            remaining = remaining[os.write(self.descriptor, remaining) :]

    def ask(self, question: str) -> str:
        """The line that is typed, without blanks around it; "" if none comes."""
        termios.tcflush(
            self.descriptor, termios.TCIFLUSH
        )  # what was typed before is no answer to this
        self.say(question)
        if not select.select([self.descriptor], [], [], PATIENCE_S)[0]:
            self.say("\n")
            return ""
        return os.read(self.descriptor, 4096).decode("utf-8", "replace").strip()


@contextmanager
def terminal() -> Iterator[Terminal | None]:
    """The terminal, if there is one and this process may read from it: one in the background would
    be stopped.
    """
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield Terminal(descriptor) if os.tcgetpgrp(descriptor) == os.getpgrp() else None
    finally:
        os.close(descriptor)
