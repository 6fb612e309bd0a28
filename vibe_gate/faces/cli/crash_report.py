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
from vibe_gate.secrets import Redactor
from vibe_gate.version import __version__

NAME = "crash.log"
"""One file, of the newest bug: who does not report it has nothing to clean up."""

PACKAGES = (
    "vibe-gate-core", "pygit2", "claude-agent-sdk", "msgspec", "rich", "github3.py", "pydantic",
)  # fmt: skip
"""Distributions whose versions are told."""

MAX_MESSAGE = 300
"""Characters of an exception's message: it may quote what was read."""

MAX_ARGUMENT = 200
"""Characters of one argument: a prompt may be long."""


def make_crash_report(error: BaseException, argv: Sequence[str], environment: Environment) -> str:
    """The report of an unexpected exception, redacted. `argv`: without the program's name."""
    return Redactor(environment.variables).text(_crash_text(error, argv))


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


def _crash_text(error: BaseException, argv: Sequence[str]) -> str:
    """The report, not redacted yet."""
    arguments = [argument[:MAX_ARGUMENT] for argument in argv]
    lines = [
        f"command: {shlex.join(['vibe-gate', *arguments])}",
        f"vibe-gate {__version__}",
        f"{platform.python_implementation()} {platform.python_version()} on {platform.platform()}",
    ]
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            lines.append(f"{package} {metadata.version(package)}")
    lines += ["", *_traceback_lines(error)]
    return "\n".join(lines) + "\n"


def _traceback_lines(error: BaseException) -> list[str]:
    """The chain of exceptions, the first first: where each was raised, its type, the beginning of
    its message.
    """
    lines: list[str] = []
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and cause is not error:
        lines += [*_traceback_lines(cause), "", "which led to:", ""]
    for frame in traceback.extract_tb(error.__traceback__):
        lines.append(f"{_shown_file(frame.filename)}:{frame.lineno} in {frame.name}")
        if frame.line:
            lines.append(f"    {frame.line}")
    lines.append(f"{type(error).__name__}: {str(error)[:MAX_MESSAGE]}")
    return lines


def _shown_file(path: str) -> str:
    """The path from the folder of packages on, without the names of the user's own folders."""
    for folder in sorted(filter(None, sys.path), key=len, reverse=True):
        prefix = folder.rstrip("/") + "/"
        if path.startswith(prefix):
            return path.removeprefix(prefix)
    return os.path.basename(path)  # noqa: PTH119  text only
