"""`--sarif`, `--junit`, `--gitlab`, `--html`, `--markdown`: write a review to files, or one format
to stdout.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import Provenance
from vibe_gate.domain.escape import list_names
from vibe_gate.domain.leaving import WHY_NOT
from vibe_gate.errors import GateError, IntegrityError, StorageError, UsageError
from vibe_gate.faces.action.report_inputs import run_may_leave, stored_patch
from vibe_gate.faces.action.runner import Runner
from vibe_gate.faces.cli.output import IN_STORE, STDOUT, complain, emit, now, open_repository_here
from vibe_gate.faces.cli.runs import StoredRuns
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.faces.run_page import page_of, round_before
from vibe_gate.report import sentences
from vibe_gate.report.code_quality import render_code_quality
from vibe_gate.report.comment import render_job_summary
from vibe_gate.report.html import render_verdict_page
from vibe_gate.report.junit import render_junit
from vibe_gate.report.links import Links
from vibe_gate.report.report import Report
from vibe_gate.report.round import first_round
from vibe_gate.report.sarif import render_sarif
from vibe_gate.run.review_result import Review
from vibe_gate.store.new_file import describe_obstacle
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.worktree_bundles import Bundles

WRITERS: dict[str, Callable[[Report], str]] = {
    "sarif": lambda report: render_sarif(report.summary, report.links),
    "junit": lambda report: render_junit(report.summary),
    "gitlab": lambda report: render_code_quality(report.summary),
    "markdown": render_job_summary,
}
"""By option, but for `--html`, which shows the bundle."""


def check_all(targets: Mapping[str, str], *, as_json: bool) -> list[Path]:
    """Return the files that are not there yet.

    UsageError if a file of a format ("-": stdout) cannot be written: known before a model is paid.
    """
    on_stdout = [f"--{name} -" for name, file in targets.items() if file == STDOUT]
    if as_json:
        on_stdout.append("--json")
    if len(on_stdout) > 1:
        raise UsageError(
            f"{on_stdout[0]} and {on_stdout[1]} would mix on stdout; write one to a file."
        )
    files = {name: file for name, file in targets.items() if file not in (STDOUT, IN_STORE)}
    for name, file in files.items():
        check_option_file(name, file)
    _require_no_revision(files.get("html", ""))
    if len(set(map(os.path.realpath, files.values()))) < len(files):
        raise UsageError("Two formats name the same file; give each its own.")
    return [Path(file) for file in files.values() if not os.path.lexists(file)]


def _require_no_revision(file: str) -> None:
    """UsageError for `--html HEAD~1`: the FILE may be left out, so the revision would be taken for
    it.
    """
    if not file or file.endswith((".html", ".htm")) or os.path.lexists(file):
        return
    commit = ""
    with suppress(GateError), open_repository_here() as repository:
        commit = repository.resolve(file.partition("..")[0] or "HEAD")
    if commit:
        raise UsageError(f"--html {paths.quote(file)}: that is a revision; write it before --html.")


def warn_of_next(files: Iterable[Path]) -> None:
    """Say of new files that the next review will take them for a part of the change; not in CI,
    where none follows.
    """
    if read_process_environment().in_ci:
        return
    counted_files: list[str] = []
    with suppress(GateError), open_repository_here() as repository:
        for file in files:
            if repository.counts(file):
                counted_files.append(paths.quote(str(file)))
    if counted_files:
        complain(
            f"note: git does not ignore {list_names(counted_files)}, so the next review or run counts it as changed. "
            "Name a path outside of the repository, or none for a page: it is kept below "
            ".vibe-artifacts/reports then."
        )


def write_formats(targets: Mapping[str, str], finished: Review) -> tuple[list[str], Path | None]:
    """Write every document; return a sentence for each that failed, and where the page is kept if
    `IN_STORE` is.
    """
    bundle = _bundle(finished)
    summary = finished.summary
    made_patch = _made_patch(bundle)
    remarks: tuple[str, ...] = ()
    if bundle is not None and made_patch and not run_may_leave(bundle):
        made_patch = ""
        remarks = (f"What agents changed is not shown: {WHY_NOT}.",)
    report = Report(
        summary,
        (*sentences.missing_key_note(summary), *finished.notes),
        first_round(summary.findings, summary.change.head_commit),
        _links(finished),
        stored_patch(bundle),
        made_patch=made_patch,
        remarks=remarks,
    )
    failures: list[str] = []
    page = None
    for name, file in targets.items():
        if file == IN_STORE and not summary.run_id:
            continue  # there was nothing to review
        try:
            text = _page(report, bundle, file) if name == "html" else WRITERS[name](report)
            if file == STDOUT:
                emit(text)
            elif file == IN_STORE:
                page = _keep_page(bundle, text)
            else:
                write_option_file(name, file, text)
        except (StorageError, IntegrityError) as error:
            failures.append(str(error))
    return failures, page


def _made_patch(bundle: Path | None) -> str:
    """What the run's agents changed, redacted; "" if nothing. StorageError, IntegrityError."""
    if bundle is None:
        return ""
    return read_bundle(bundle).made_patch.decode("utf-8", "surrogateescape")


def _page(report: Report, bundle: Path | None, file: str) -> str:
    """The page of the run, without prompts if it leaves the clone. GateError."""
    if bundle is None:
        return render_verdict_page(report.summary)
    result = read_bundle(bundle)
    bundles = StoredRuns(bundle.parents[2]).bundles
    with open_repository_here() as repository:
        folder = _page_folder(bundles, file)
        earlier = round_before(result, bundles.find(), repository, folder)
        prompts = True if file == IN_STORE else None
        return page_of(result, repository, prompts=prompts, earlier=earlier)


def _page_folder(bundles: Bundles, file: str) -> Path | None:
    """Where the page will stand; None of stdout."""
    if file == STDOUT:
        return None
    if file == IN_STORE:
        return bundles.reports
    return Path(file).parent


def check_option_file(option: str, file: str) -> None:
    """UsageError if the file of an option cannot be written."""
    if not file:
        raise UsageError(f"--{option} needs the name of a file, or - for stdout.")
    path, option_text = Path(file), f"--{option} {paths.quote(file)}"
    obstacle = describe_obstacle(path)
    if obstacle:
        raise UsageError(f"{option_text}: {obstacle}.")
    if path.is_dir():
        raise UsageError(f"{option_text}: is a folder; name a file in it.")


def write_option_file(option: str, file: str, text: str) -> None:
    """Write the file of an option, whole or not at all. StorageError.

    A symbolic link of that name is replaced, not followed; a device is written to.
    """
    path, content = Path(file), text.encode("utf-8", "replace")
    temporary = path.parent / f".{secrets.token_hex(8)}.part"
    try:
        if path.parent == Path("/dev") or (path.exists() and not path.is_file()):
            with path.open("ab") as device:
                device.write(content)
            return
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise StorageError(
            f"--{option}: cannot write {paths.quote(file)}: {error.strerror}."
        ) from error
    finally:
        with suppress(OSError):  # where nothing can be written, nothing can be deleted
            temporary.unlink(missing_ok=True)


def _keep_page(bundle: Path | None, text: str) -> Path:
    """The page beside the runs. StorageError."""
    if bundle is None:
        raise StorageError(
            "--html: the run was not recorded, so there is no place for its page; name a FILE."
        )
    bundles = Bundles(bundle.parents[2], Provenance(now()))
    return bundles.keep_report(f"{bundle.name}.html", text.encode())


def _bundle(finished: Review) -> Path | None:
    if finished.summary.bundle:
        with suppress(GateError), open_repository_here() as repository:
            return repository.store_root / finished.summary.bundle
    return None


def _links(finished: Review) -> Links | None:
    """Addresses in a job of GitHub Actions."""
    environment = read_process_environment()
    forge, change = environment.forge, finished.summary.change
    if not forge.is_in_actions or not forge.repository or not change.head_commit:
        return None
    runner = Runner(environment, Path.cwd(), now, emit)
    if not runner.server_url.startswith("https://"):
        return None
    return runner.links(forge.repository, change.head_commit, change.base_commit)
