"""Results on stdout, sentences on stderr. A reader that closed the pipe is not an error."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from vibe_gate.domain.escape import safe
from vibe_gate.errors import PASS, StorageError
from vibe_gate.faces.process_environment import is_in_actions_step, read_process_environment

if TYPE_CHECKING:
    from vibe_gate.git import Repository
    from vibe_gate.run.review_result import Review

ASCII = str.maketrans("✓✗·…−→│─┘┐┤└┌├┴┬┼▁▂▃▄▅▆▇█▓▒░", "+x|~->|-+++++++++_.-=+*%#x-.")
"""For a stdout whose encoding lacks these characters, and for programs that read a git hook's
output as Latin-1.
"""

COLUMNS = 80
"""Width of a sentence on a terminal, if that is not narrower."""

_ROWS_AT_ONCE = 500
"""Of a document, that are made and written together."""

STDOUT = "-"
"""The FILE of an option that is printed to stdout instead."""

IN_STORE = "\0"
"""The FILE of `--html` without one: the page is kept below .vibe-artifacts/reports, which no
snapshot has.
"""

_COMMAND = re.compile(r"((?:^|[\r\n])[^\S\r\n]*)::")


def now() -> datetime:
    """The time of day."""
    return datetime.now(UTC)


def can_ask() -> bool:
    """Whether a person is at the terminal who reads stderr and can answer."""
    if sys.stdin is None or sys.stderr is None:
        return False
    return sys.stdin.isatty() and sys.stderr.isatty()


def open_repository_here() -> Repository:
    """The repository around the current folder, as git finds it with this environment.
    GateError.
    """
    from vibe_gate.git import open_repository  # most of what prints opens none

    return open_repository(Path.cwd(), read_process_environment())


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def takes_colour() -> bool:
    """Whether results are coloured: NO_COLOR refuses, FORCE_COLOR wants it, else stdout is a
    terminal that can.
    """
    terminal = read_process_environment().terminal
    if terminal.refuses_colour:
        return False
    return terminal.forces_colour or (is_terminal() and terminal.can_redraw)


def upload_run(review: Review) -> None:
    """Upload the run to the shared store, if there is one, after its verdict is shown."""
    if review.unshared:
        for note in review.unshared.upload():
            complain(f"note: {safe(note)}")


def emit(text: str) -> None:
    """Write a result to stdout; in a GitHub Actions step, so that the runner obeys nothing in it.

    A closed pipe is quiet: the exit code still tells the outcome. StorageError
    if the result cannot be written for another reason, such as a full disk.
    """
    emit_to_runner(disarmed(text) if is_in_actions_step() else text)


def emit_result(
    document: Mapping[str, object],
    lines: Iterable[str],
    exit_code: int = PASS,
    *,
    as_json: bool,
) -> int:
    """Write the document, or the lines made safe to print; returns the exit code. StorageError."""
    if as_json:
        emit(json.dumps({"schema": 1, **document}, indent=2) + "\n")
    else:
        emit_lines(*lines)
    return exit_code


def emit_with_rows(
    document: Mapping[str, object], name: str, rows: Iterable[Mapping[str, object]]
) -> None:
    """Write the document with a last member more, the list `name` of these rows. StorageError.

    A hundred thousand rows are some hundred megabytes as one text: they are written a portion at a
    time.
    """
    empty_document = json.dumps({"schema": 1, **document, name: []}, indent=2)
    emit(empty_document.removesuffix("]\n}"))
    row_texts = (textwrap.indent(json.dumps(row, indent=2), "    ") for row in rows)
    end = "]\n}\n"
    separator = "\n"
    while portion := [*islice(row_texts, _ROWS_AT_ONCE)]:
        emit(separator + ",\n".join(portion))
        separator = ",\n"
        end = "\n  ]\n}\n"
    emit(end)


def emit_lines(*lines: str) -> None:
    """Write lines to stdout, made safe to print."""
    emit("".join(f"{safe(line)}\n" for line in lines))


def emit_to_runner(text: str) -> None:
    """Write to stdout unchanged: the runner of a GitHub Actions step obeys workflow commands in
    it.
    """
    stream: TextIO | None = sys.stdout
    if stream is None:  # started with stdout closed
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
        raise StorageError(f"cannot write to stdout: {error.strerror}.") from error


def complain(text: str) -> None:
    """Write sentences to stderr, wrapped if it is a terminal. A stderr that cannot be written is
    ignored.
    """
    stream: TextIO | None = sys.stderr
    if stream is None:
        return
    with suppress(OSError):
        stream.write(disarmed(wrapped(text) if stream.isatty() else text) + "\n")
        stream.flush()


def wrapped(text: str, columns: int = COLUMNS, indent: str = "  ") -> str:
    """Each line broken between words at `columns`; `indent` begins the lines that follow. A long
    word stays whole.
    """
    wrapper = textwrap.TextWrapper(
        columns,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return "\n".join(wrapper.fill(line) for line in text.split("\n"))


def disarmed(text: str) -> str:
    """The text with a blank in what the GitHub Actions runner takes for a command; JSON stays the
    same value.

    The runner reads `##[name]` anywhere in a line of either stream, and `::name::` at the start of
    a line.
    """
    # In JSON a string alone can hold it, and no line begins with a colon.
    is_json = text.startswith(("{", "["))
    return _COMMAND.sub(r"\1: :", text.replace("##[", "\\u0023#[" if is_json else "## ["))


def drop_stdout() -> None:
    """Point stdout at /dev/null, so that the interpreter's last flush cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Of a full disk, a quota, a limit of the process."""


def bug(error: Exception) -> str:
    """The sentence about an unexpected exception, and about the report that can be sent.

    The report is a file, or printed where no file is kept: the machine of a CI job is soon gone.
    """
    if isinstance(error, ImportError) and not (error.name or "vibe_gate").startswith("vibe_gate"):
        return f"the Python package '{error.name}' is missing or broken; reinstall vibe-gate."
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        return f"nothing can be written ({error.strerror}): free space, also in the temporary directory."
    if isinstance(error, MemoryError):
        return "out of memory; nothing was decided."
    last = traceback.extract_tb(error.__traceback__)[-1]
    line = f"{os.path.basename(last.filename)}:{last.lineno}"  # noqa: PTH119  text only
    from vibe_gate.faces.cli import crash_report  # the redactor, for bugs alone

    environment = read_process_environment()
    summary = crash_report.summarize_error(error, environment)
    sentence = f"this is a bug, please report it: {summary} ({line})."
    report = crash_report.make_crash_report(error, sys.argv[1:], environment)
    path = None if environment.in_ci else crash_report.write_crash_report(report, environment)
    if path is None:
        complain(report.rstrip("\n"))
        return f"{sentence} Versions, command and traceback stand above; look at them before you send them."
    return (
        f"{sentence} Versions, command and traceback are in {path}; look at it before you send it."
    )
