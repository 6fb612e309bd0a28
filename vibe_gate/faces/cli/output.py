"""Results on stdout, sentences on stderr; a reader that went away is no error."""

from __future__ import annotations

import os
import sys

ASCII = str.maketrans({"✓": "+", "✗": "x", "·": "|", "…": "~", "−": "-", "→": ">"})
"""For a stdout whose encoding has no such characters."""


def emit(text: str) -> None:
    """Write a result to stdout. A closed pipe is quiet: the exit code still tells the outcome."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = text.translate(ASCII).encode("ascii", "backslashreplace").decode("ascii")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        drop_stdout()


def complain(text: str) -> None:
    """Write a sentence for people to stderr, whatever its encoding."""
    try:
        print(text.encode("utf-8", "backslashreplace").decode("utf-8"), file=sys.stderr, flush=True)  # noqa: T201
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def drop_stdout() -> None:
    """Send what stdout still holds to nowhere, so that the interpreter's last flush cannot complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
