"""Results on stdout, sentences on stderr; a reader that went away is no error."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import TextIO

from vibe_gate.errors import StorageError

ASCII = str.maketrans({"✓": "+", "✗": "x", "·": "|", "…": "~", "−": "-", "→": ">"})
"""For a stdout whose encoding has no such characters, and for what shows a git hook's words as Latin-1."""

_COMMAND = re.compile(r"((?:^|[\r\n])[^\S\r\n]*)::")


def emit(text: str) -> None:
    """Write a result to stdout; in a step of a job, so that the runner obeys nothing in it.

    A closed pipe is quiet: the exit code still tells the outcome. StorageError
    where the result cannot be written for another reason, a full disk say.
    """
    emit_to_runner(disarmed(text) if os.environ.get("GITHUB_ACTIONS") else text)


def emit_to_runner(text: str) -> None:
    """The same to the letter, for who speaks to the runner of a job: what looks like a command is one."""
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
    """Write a sentence for people to stderr, if there is anyone to read it; no runner of a job obeys it."""
    stream: TextIO | None = sys.stderr
    if stream is not None:
        with suppress(OSError):
            stream.write(disarmed(text) + "\n")
            stream.flush()


def disarmed(text: str) -> str:
    """The text with a blank in what the runner of a job takes for a command; JSON stays the same value.

    It reads `##[name]` anywhere in a line of either stream, and `::name::` where a line begins.
    """
    in_json = text.startswith(("{", "["))  # there a string alone can hold it, and no line begins with a colon
    return _COMMAND.sub(r"\1: :", text.replace("##[", "\\u0023#[" if in_json else "## ["))


def drop_stdout() -> None:
    """Send what stdout still holds to nowhere, so that the interpreter's last flush cannot complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
