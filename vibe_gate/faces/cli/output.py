"""Results on stdout, sentences on stderr; a reader that went away is no error."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

from vibe_gate.errors import StorageError

ASCII = str.maketrans({"✓": "+", "✗": "x", "·": "|", "…": "~", "−": "-", "→": ">"})
"""For a stdout whose encoding has no such characters."""


def emit(text: str) -> None:
    """Write a result to stdout.

    A closed pipe is quiet: the exit code still tells the outcome. StorageError
    where the result cannot be written for another reason, a full disk say.
    """
    stream: TextIO | None = sys.stdout
    if stream is None:  # started with stdout closed: nobody wants the text
        return
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        text = text.translate(ASCII).encode("ascii", "backslashreplace").decode("ascii")
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        drop_stdout()
    except OSError as error:
        drop_stdout()
        raise StorageError(f"the result could not be written to stdout: {error.strerror}.") from error


def complain(text: str) -> None:
    """Write a sentence for people to stderr, if there is anyone to read it."""
    stream: TextIO | None = sys.stderr
    if stream is not None:
        with suppress(OSError):
            stream.write(text + "\n")
            stream.flush()


def drop_stdout() -> None:
    """Send what stdout still holds to nowhere, so that the interpreter's last flush cannot complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
