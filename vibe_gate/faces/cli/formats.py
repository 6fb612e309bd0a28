"""`--sarif`, `--junit`, `--gitlab`, `--html`, `--markdown`: write a review to files, or one format to stdout."""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vibe_gate.domain import paths
from vibe_gate.errors import GateError, IntegrityError, StorageError, UsageError
from vibe_gate.faces import progress
from vibe_gate.faces.action.reporting import report_of_run
from vibe_gate.faces.cli.output import emit
from vibe_gate.faces.cli.review import STDOUT
from vibe_gate.git import open_repository
from vibe_gate.report.comment import job_summary
from vibe_gate.report.formats import gitlab, junit, sarif
from vibe_gate.report.html import page, verdict_page
from vibe_gate.report.report import Links, Report
from vibe_gate.review import Review
from vibe_gate.store import read_bundle

FORMATS: dict[str, Callable[[Report, Path | None], str]] = {
    "sarif": lambda report, bundle: sarif(report.summary, report.links),
    "junit": lambda report, bundle: junit(report.summary),
    "gitlab": lambda report, bundle: gitlab(report.summary),
    "html": lambda report, bundle: progress.run(page(read_bundle(bundle))) if bundle else verdict_page(report.summary),
    "markdown": lambda report, bundle: job_summary(report),
}
"""By option; each is given the report, and the bundle if there is one."""


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
    files = [target for target in wanted if target.file != STDOUT]
    for target in files:
        check(target)
    if len({os.path.realpath(target.file) for target in files}) < len(files):
        raise UsageError("Two formats name the same file; give each its own.")
    return tuple(wanted)


def write(targets: tuple[OutputFile, ...], done: Review, start: Path, environ: Mapping[str, str]) -> list[str]:
    """Write every document; return a sentence for each that failed."""
    bundle = _bundle(done, start, environ)
    report = report_of_run(done.summary, bundle, _links(done, environ), done.notes)
    failed = []
    for target in targets:
        try:
            text = FORMATS[target.format](report, bundle)
            if target.file == STDOUT:
                emit(text)
            else:
                put(Path(target.file), text.encode("utf-8", "replace"))
        except (StorageError, IntegrityError) as error:
            failed.append(str(error))
        except OSError as error:
            failed.append(f"--{target.format}: cannot write {paths.quote(target.file)}: {error.strerror}.")
    return failed


def check(target: OutputFile) -> None:
    """UsageError if the file cannot be written."""
    path, shown = Path(target.file), f"--{target.format} {paths.quote(target.file)}"
    try:
        if not target.file:
            raise UsageError(f"--{target.format} needs the name of a file, or - for stdout.")
        if path.is_dir():
            raise UsageError(f"{shown}: is a folder; name a file in it.")
        if not path.parent.is_dir():
            raise UsageError(f"{shown}: folder {paths.quote(str(path.parent))} does not exist; create it first.")
    except OSError as error:
        raise UsageError(f"{shown}: {error.strerror}.") from error


def put(path: Path, content: bytes) -> None:
    """Write atomically through a temporary file; a symbolic link of that name is replaced, not followed."""
    if path.parent == Path("/dev") or (path.exists() and not path.is_file()):
        with path.open("ab") as device:
            device.write(content)
        return
    temporary = path.parent / f".{secrets.token_hex(8)}.part"
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _bundle(done: Review, start: Path, environ: Mapping[str, str]) -> Path | None:
    if done.summary.bundle:
        with suppress(GateError), open_repository(start, environ) as repository:
            return repository.root / done.summary.bundle
    return None


def _links(done: Review, environ: Mapping[str, str]) -> Links | None:
    server, repository = environ.get("GITHUB_SERVER_URL", ""), environ.get("GITHUB_REPOSITORY", "")
    change = done.summary.change
    if not (environ.get("GITHUB_ACTIONS") and server.startswith("https://") and repository and change.head_commit):
        return None
    run = environ.get("GITHUB_RUN_ID", "")
    address = f"{server}/{repository}/actions/runs/{run}" if run.isdecimal() else ""
    return Links(server, repository, change.head_commit, address, change.base_commit)
