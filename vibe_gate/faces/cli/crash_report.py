"""The file that a person sends with a bug: versions, command, traceback; no contents, and no
secrets.
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from vibe_gate.domain.environment import Environment
from vibe_gate.domain.escape import safe
from vibe_gate.secrets import Redactor
from vibe_gate.version import __version__

NAME = "crash.log"
"""One file, of the newest bug: who does not report it has nothing to clean up."""

PACKAGES = (
    "vibe-gate-core", "pygit2", "claude-agent-sdk", "msgspec", "rich", "github3.py", "pydantic",
)  # fmt: skip
"""Distributions whose versions are told."""

MAX_MESSAGE = 300
"""Characters of an exception's type and message: it may quote what was read."""

MAX_SUMMARY = 200
"""Characters of the sentence that says which exception it was."""

MAX_ARGUMENT = 200
"""Characters of one argument: a prompt may be long."""


def make_crash_report(error: BaseException, argv: Sequence[str], environment: Environment) -> str:
    """The report of an unexpected exception, redacted. `argv`: without the program's name."""
    redactor = Redactor(environment.variables)
    return redactor.text(_crash_text(error, argv, redactor))


def summarize_error(error: BaseException, environment: Environment) -> str:
    """Its type and the beginning of its message's first line, redacted."""
    text = Redactor(environment.variables).text(_error_text(error))
    return safe(text.splitlines()[0][:MAX_SUMMARY])


def write_crash_report(report: str, environment: Environment) -> Path | None:
    """Write the report into the user's cache folder: HOME or XDG_CACHE_HOME name it.

    Returns:
        The file; None if it cannot be written.
    """
    folder = cache_folder(environment)
    if folder is None:
        return None
    path = folder / NAME
    unfinished = folder / f"{NAME}.{os.getpid()}"
    with suppress(OSError, ValueError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(
            unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600
        )
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(report)
        unfinished.replace(path)
        return path
    with suppress(OSError, ValueError):
        unfinished.unlink()
    return None


def cache_folder(environment: Environment) -> Path | None:
    """`vibe-gate` in the user's cache folder; None if neither variable is an absolute path."""
    cache = environment.variables.get("XDG_CACHE_HOME", "")
    if cache.startswith("/"):
        return Path(cache) / "vibe-gate"
    home = environment.variables.get("HOME", "")
    if home.startswith("/"):
        return Path(home) / ".cache" / "vibe-gate"
    return None


def _crash_text(error: BaseException, argv: Sequence[str], redactor: Redactor) -> str:
    """The report; what is cut in it is redacted before, for half a secret is not found."""
    arguments = [safe(redactor.text(argument)[:MAX_ARGUMENT]) for argument in argv]
    lines = [
        f"command: {shlex.join(['vibe-gate', *arguments])}",
        f"vibe-gate {__version__}",
        f"{platform.python_implementation()} {platform.python_version()} on {platform.platform()}",
    ]
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            lines.append(f"{package} {metadata.version(package)}")
    lines += ["", *_traceback_lines(error, redactor)]
    return "\n".join(lines) + "\n"


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _traceback_lines(error: BaseException, redactor: Redactor) -> list[str]:
    """The chain of exceptions, the first first: where each was raised, its type, the beginning of
    its message.
    """
    lines: list[str] = []
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and cause is not error:
        lines += [*_traceback_lines(cause, redactor), "", "which led to:", ""]
    for frame in traceback.extract_tb(error.__traceback__):
        lines.append(safe(f"{_shown_file(frame.filename)}:{frame.lineno} in {frame.name}"))
        if frame.line:
            lines.append(safe(f"    {frame.line}"))
    lines.append(safe(redactor.text(_error_text(error))[:MAX_MESSAGE]))
    return lines


def _shown_file(path: str) -> str:
    """The path from the folder of packages on, without the names of the user's own folders."""
    for folder in sorted(filter(None, sys.path), key=len, reverse=True):
        prefix = folder.rstrip("/") + "/"
        if path.startswith(prefix):
            return path.removeprefix(prefix)
    return os.path.basename(path)  # noqa: PTH119  text only
