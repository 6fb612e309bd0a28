"""`--sarif`, `--junit`, `--gitlab`, `--markdown`: write a review to files, or one format to stdout."""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vibe_gate.domain import paths
from vibe_gate.errors import GateError, StorageError, UsageError
from vibe_gate.faces.action.reporting import report_of_run
from vibe_gate.faces.cli.output import emit
from vibe_gate.git import open_repository
from vibe_gate.report.comment import job_summary
from vibe_gate.report.formats import gitlab, junit, sarif
from vibe_gate.report.report import Links, Report
from vibe_gate.review import Review

STDOUT = "-"

FORMATS: dict[str, Callable[[Report], str]] = {
    "sarif": lambda report: sarif(report.summary, report.links),
    "junit": lambda report: junit(report.summary),
    "gitlab": lambda report: gitlab(report.summary),
    "markdown": job_summary,
}
"""By option."""


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A document to write: its format, and the file as the user named it ("-": stdout)."""

    format: str
    file: str


def targets(args: argparse.Namespace) -> tuple[OutputFile, ...]:
    """What the command line asks for. UsageError if a file cannot be written: known before a model is paid."""
    wanted = [OutputFile(name, getattr(args, name)) for name in FORMATS if getattr(args, name) is not None]
    on_stdout = [f"--{target.format} -" for target in wanted if target.file == STDOUT]
    on_stdout += ["--json"] if args.json else []
    if len(on_stdout) > 1:
        raise UsageError(f"{on_stdout[0]} and {on_stdout[1]} would mix on stdout; write one to a file.")
    places: dict[str, str] = {}
    for target in wanted:
        if target.file == STDOUT:
            continue
        _check(target)
        place = os.path.realpath(target.file)
        if place in places and not _is_device(Path(target.file)):
            raise UsageError(f"--{places[place]} and --{target.format} name the same file; give each its own.")
        places[place] = target.format
    return tuple(wanted)


def write(targets: tuple[OutputFile, ...], done: Review, start: Path, environ: Mapping[str, str]) -> list[str]:
    """Write every document; return a sentence for each that failed."""
    report = _report(done, start, environ)
    failed = []
    for target in targets:
        text = FORMATS[target.format](report)
        try:
            if target.file == STDOUT:
                emit(text)
            else:
                _put(Path(target.file), text.encode("utf-8", "replace"))
        except StorageError as error:
            failed.append(str(error))
        except OSError as error:
            failed.append(f"--{target.format}: cannot write {paths.quote(target.file)}: {error.strerror}.")
    return failed


def _check(target: OutputFile) -> None:
    shown = f"--{target.format} {paths.quote(target.file)}"
    if not target.file or "\0" in target.file:
        raise UsageError(f"--{target.format} needs the name of a file, or - for stdout.")
    path = Path(target.file)
    try:
        if path.is_dir() or target.file.endswith("/"):
            raise UsageError(f"{shown}: is a folder; name a file in it.")
        if not path.parent.is_dir():
            raise UsageError(f"{shown}: folder {paths.quote(str(path.parent))} does not exist; create it first.")
        if not os.access(path if _is_device(path) else path.parent, os.W_OK):
            raise UsageError(f"{shown}: not writable.")
        if len(os.fsencode(path.name)) > os.pathconf(path.parent, "PC_NAME_MAX") - len(_temporary("")):
            raise UsageError(f"{shown}: the name is too long.")
    except OSError as error:
        raise UsageError(f"{shown}: {error.strerror}.") from error


def _is_device(path: Path) -> bool:
    """True for /dev/stderr, a pipe: something to write to, not to replace."""
    return str(path.absolute()).startswith(("/dev/", "/proc/")) or (path.exists() and not path.is_file())


def _temporary(name: str) -> str:
    return f".{name}.{secrets.token_hex(4)}.part"


def _put(path: Path, content: bytes) -> None:
    """Write atomically through a temporary file; a symbolic link of that name is replaced, not followed."""
    if _is_device(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(descriptor, True)
        with open(descriptor, "wb") as device:
            device.write(content)
        return
    temporary = path.parent / _temporary(path.name)
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _report(done: Review, start: Path, environ: Mapping[str, str]) -> Report:
    bundle = None
    if done.summary.bundle:
        with suppress(GateError), open_repository(start, environ) as repository:
            bundle = repository.root / done.summary.bundle
    return report_of_run(done.summary, bundle, _links(done, environ), done.notes)


def _links(done: Review, environ: Mapping[str, str]) -> Links | None:
    """Links to the forge that runs this job; None outside a GitHub Actions job."""
    server, repository = environ.get("GITHUB_SERVER_URL", ""), environ.get("GITHUB_REPOSITORY", "")
    change = done.summary.change
    if not (environ.get("GITHUB_ACTIONS") and server.startswith("https://") and repository and change.head_commit):
        return None
    run = environ.get("GITHUB_RUN_ID", "")
    address = f"{server}/{repository}/actions/runs/{run}" if run.isdecimal() else ""
    return Links(server, repository, change.head_commit, address, change.base_commit)
