"""What people and later steps of a job read of its review: comment, check run, summary, log, outputs
and files.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.bundles import Provenance
from vibe_gate.domain.environment import Environment
from vibe_gate.domain.escape import safe
from vibe_gate.domain.leaving import WHY_NOT
from vibe_gate.domain.replayed import Replayed, sum_rows
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import PASS, GateError
from vibe_gate.faces.action.commit_range import CommitRange
from vibe_gate.faces.action.inputs import Inputs
from vibe_gate.faces.action.job_check import JobCheck
from vibe_gate.faces.action.report_inputs import (
    lines_since,
    read_patch,
    run_may_leave,
    stored_patch,
)
from vibe_gate.faces.action.runner import Runner
from vibe_gate.faces.action.standing import StandingVerdict
from vibe_gate.faces.action.trigger import Trigger
from vibe_gate.faces.run_page import page_of
from vibe_gate.forge import Forge
from vibe_gate.gate.policy import find_steering_files
from vibe_gate.git import Credentials, open_repository
from vibe_gate.report import queries, replays, sentences, verdict_screen
from vibe_gate.report.anchors import Anchors
from vibe_gate.report.comment import render_job_summary
from vibe_gate.report.comment_markup import link_commit
from vibe_gate.report.comment_opening import deciding_facts, unblocked_note
from vibe_gate.report.finding_comments import MAX_COMMENTS
from vibe_gate.report.html import render_verdict_page
from vibe_gate.report.html.view import EarlierRound
from vibe_gate.report.markdown import escape_prose, link_code
from vibe_gate.report.next_step import next_step
from vibe_gate.report.posting import Posted, Posting, post_report
from vibe_gate.report.report import ArtifactContent, Report
from vibe_gate.report.reported_finding import finding_identity
from vibe_gate.report.round import first_round
from vibe_gate.report.round_record import is_further, record_round
from vibe_gate.report.run_files import made_patch_clause
from vibe_gate.report.sarif import render_sarif
from vibe_gate.report.suggestions import (
    BY_CHECK,
    Suggestions,
    make_suggestion_comments,
    make_suggestions,
)
from vibe_gate.report.workflow_commands import guard_log_text, render_workflow_commands
from vibe_gate.run.conclusion import WorkflowRun
from vibe_gate.run.review_result import Review
from vibe_gate.store.run_archive import export_runs
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.worktree_bundles import Bundles

NO_TOKEN = "No token was given (`github-token`), so nothing was posted to GitHub."  # noqa: S105  a sentence
DEPENDABOT = "dependabot[bot]"
"""Jobs that it starts get the secrets of the page Dependabot, not those of the page Actions."""

MADE_PATCH = "made.patch"

UPLOADED = ("summary.json", "receipt.json", "run.json", MADE_PATCH)
"""Files of a bundle that hold no content of the repository but what a finding quotes, and what
agents changed, and no words of a conversation, as events.ndjson does; `artifact: full` adds it all.
"""

FILES = {"report": "report.md", "sarif": "vibe-gate.sarif"}
"""Output of the step -> the file whose path it is."""

_MARKUP = re.compile(r"[`*]")

LOG_WIDTH = 400
"""Columns of a log: it has no width to fit, so no reason (280 characters) is cut."""

FORK = (
    "The pull request comes from a fork: its job gets no secrets, and a token that may only read."
)


class Job(Struct, frozen=True):
    """One job."""

    runner: Runner
    inputs: Inputs
    trigger: Trigger
    forge: Forge | None
    """None without a token."""
    check: JobCheck
    credentials: Credentials
    environment: Environment
    compared: CommitRange
    """The commits that are compared."""
    store_root: Path
    """The folder with the store of runs."""
    common_dir: Path
    """The repository's git directory, with the shared state."""
    folder: Path
    """Where the job's files are written."""
    draft: bool
    """Whether judges wait because the pull request is a draft."""

    @property
    def suggests(self) -> bool:
        """Whether there are lines to comment on, and a token that may."""
        return self.forge is not None and self.trigger.number is not None and not self.trigger.fork


class ReviewedJob(Struct, frozen=True):
    """What a job's review came to."""

    summary: Summary
    """What the job says of the review, which may be another verdict than the run's own."""
    review: Review
    workflow_run: WorkflowRun | None
    """The workflow's run, if it was one's."""
    remarks: tuple[str, ...]
    """Sentences for people."""
    record: str
    """Kept in the job's check run; "": the review has fewer answers than another one and must not
    replace its words.
    """
    replayed: Replayed
    """What earlier runs came to under the change's own rubrics."""


class JobFiles(Struct, frozen=True):
    """The files of the job's run."""

    bundle: Path | None
    """Its folder; None if there is none."""
    may_leave: bool
    """Whether conversations and what agents changed may leave the job (`domain/leaving.py`)."""
    artifact: ArtifactContent
    """What of it the job hands over."""


def report_standing(job: Job, reviewed: ReviewedJob, verdict: StandingVerdict) -> str:
    """Say in log, summary and outputs that the verdict before stays; nothing is posted, as nothing
    changed.

    Returns what to print.
    """
    summary, remarks = reviewed.summary, reviewed.remarks
    links = job.runner.links(job.trigger.repository, job.compared.head, run=verdict.run)
    words = "PASS" if summary.exit_code == PASS else sentences.verdict_words(summary)
    commit = link_commit(job.compared.head, links)
    run = link_code(f"run {verdict.run}", links.run_url)
    check_run = link_code("check run", verdict.url)
    paragraphs = [
        f"### vibe-gate: {words} · {commit}",
        f"The verdict of {run} for {commit} stands ({check_run}). A review of the pull request "
        "asks no model, and this one changed nothing that the verdict rests on.",
        *map(escape_prose, remarks),
    ]
    text = "\n\n".join(paragraphs) + f"\n{_times(job)}"
    job.runner.summarize(text)
    # The score and all findings are what judges said, who are not asked.
    files = _write_files(job, {"report": text})
    outcome = sentences.program_outcome(summary)
    job.runner.output(verdict=outcome, cost_usd="0", run=summary.run_id, **files)
    log = [f"{words} · the verdict of run {verdict.run} stands: {verdict.url}", *remarks]
    return guard_log_text("\n".join(map(safe, log)), _random_token())


def report_review(job: Job, reviewed: ReviewedJob) -> str:
    """Say and post everything that people and later steps read of the review; returns workflow
    commands to print.
    """
    summary = reviewed.summary
    files = _job_files(job, summary)
    notes = (*job.compared.notes, *reviewed.review.notes)
    report = _report(job, reviewed, files)
    suggestions = _suggestions(job, reviewed, files, report)
    report_notes = [suggestions.note, _withheld_note(job, reviewed, files), *notes]
    report = replace(report, notes=tuple(filter(None, report_notes)))
    posted = Posted(report)
    if reviewed.record:
        posted = post_report(_posting(job, suggestions, reviewed.record), job.forge, report)
    job.check.begun = None
    posted.downgrades += _save_artifact(job, posted.report, files)
    text = render_job_summary(posted.report, (*posted.downgrades, *posted.remarks)) + _times(job)
    job.runner.summarize(text)
    _log(job, posted, (*notes, *reviewed.remarks, *_replay_sentences(reviewed.replayed)))
    _set_outputs(job, posted, {"report": text, "sarif": render_sarif(summary, report.links)})
    return _workflow_commands(posted)


def _job_files(job: Job, summary: Summary) -> JobFiles:
    """The run's files; a whole bundle that may not leave becomes its summary."""
    if not summary.bundle:  # what the models of an unrecorded run were shown cannot be read
        return JobFiles(None, may_leave=False, artifact=job.inputs.artifact)
    bundle = job.store_root / summary.bundle
    if job.inputs.artifact == "full" and not run_may_leave(bundle):
        return JobFiles(bundle, may_leave=False, artifact="summary")
    return JobFiles(bundle, run_may_leave(bundle), job.inputs.artifact)


_UNRECORDED = "the run was not recorded, so it is not known what its models were shown"


def _withheld_note(job: Job, reviewed: ReviewedJob, files: JobFiles) -> str:
    """What stays in the job although it would be posted or uploaded; "" if nothing does."""
    has_patch = reviewed.workflow_run is not None and reviewed.workflow_run.patch is not None
    has_bundle = files.bundle is not None and job.inputs.artifact == "full"
    if files.may_leave or not (has_patch or has_bundle):
        return ""
    reason = WHY_NOT if files.bundle else _UNRECORDED
    return f"Contents, conversations and what agents changed stay in the job: {reason}."


def _report(job: Job, reviewed: ReviewedJob, files: JobFiles) -> Report:
    summary, commits = reviewed.summary, job.compared
    return Report(
        summary,
        (),
        first_round(summary.findings, summary.change.head_commit),
        job.runner.links(job.trigger.repository, commits.head, commits.before),
        stored_patch(files.bundle),
        artifact=files.artifact,
        is_uploaded=_is_action_step(job),
        name=job.inputs.name,
        review=_repeat_arguments(job),
        blocks=job.inputs.mode == "block",
        remarks=reviewed.remarks,
        replayed=reviewed.replayed,
        made_patch=_made_patch(reviewed.workflow_run) if files.may_leave else "",
        fork=job.trigger.fork,
        dependabot=job.runner.actor == DEPENDABOT,
    )


def _made_patch(workflow_run: WorkflowRun | None) -> str:
    """What the workflow's agents changed, redacted; "" if nothing."""
    if workflow_run is None or workflow_run.patch is None:
        return ""
    return read_patch(workflow_run.patch)


def _is_action_step(job: Job) -> bool:
    """Whether this is a step of action.yml, of which a later one uploads; a workflow that calls this
    command has none.
    """
    return bool(job.environment.variables.get("VIBE_GATE_BEGAN"))


def _replay_sentences(replayed: Replayed) -> tuple[str, ...]:
    """What the log says of replays."""
    if not replayed.rows:
        return replayed.notes
    counts = sum_rows(replayed.rows)
    return (*replays.replay_sentences(counts, replayed.budget_usd), *replayed.notes)


def _times(job: Job) -> str:
    """What the job spent its time on, as its summary's last line; step.sh says how long installing
    took.
    """
    started = job.environment.variables.get("VIBE_GATE_BEGAN", "")
    if not started.isdecimal():  # not a step of action.yml
        return ""
    install_time = job.environment.variables.get("VIBE_GATE_READY", "")
    installed = f"Installed in {escape_prose(install_time, 100)}. " if install_time else ""
    seconds = job.runner.clock().timestamp() - int(started)
    return f"\n{installed}Reviewed and posted in {seconds:.0f} s.\n"


def _repeat_arguments(job: Job) -> str:
    """What follows `vibe-gate review` to review the same in a clone."""
    words = [job.compared.repeat]
    words += [f"--rubric {name}" for name in job.inputs.rubrics]
    if not job.inputs.judge:
        words.append("--no-judge")
    return " ".join(words)


def _log(job: Job, posted: Posted, notes: tuple[str, ...]) -> None:
    """Write the verdict to the job's log, which is what people open first when a job is red."""
    summary = posted.report.summary
    next_command = _MARKUP.sub("", next_step(posted.report)) if summary.run_id else ""
    unblocked = _MARKUP.sub("", unblocked_note(posted.report))
    reason = " · ".join(filter(None, [unblocked, *deciding_facts(posted.report)]))
    screen = verdict_screen.render_screen(
        summary, notes, LOG_WIDTH, then=next_command, decision=reason
    ).plain
    addresses = [url for url in (posted.comment_url, posted.check_run_url) if url]
    places = [f"  posted  {url}" for url in addresses]
    job.runner.say("\n".join(["", screen, *places, ""]))


def _suggestions(job: Job, reviewed: ReviewedJob, files: JobFiles, report: Report) -> Suggestions:
    """What checks would write, or what the workflow's agents changed and may leave the job, as far
    as it fits the pull request's lines.
    """
    may_suggest = job.suggests and job.inputs.posts_lines
    if reviewed.workflow_run is None:
        if may_suggest:
            return _suggested_repairs(reviewed.review, report)
        return Suggestions()
    workflow_run = reviewed.workflow_run
    if workflow_run.change is None or workflow_run.patch is None or not files.may_leave:
        return Suggestions()
    patch = workflow_run.patch
    place = made_patch_clause(report, patch.name)
    # A patch with a secret was redacted: its lines are not what the agent wrote.
    stored_bytes = patch.read_bytes() if patch.is_file() else b""
    is_intact = stored_bytes == workflow_run.made
    anchors = report.anchors if may_suggest and is_intact else Anchors()
    return make_suggestions(workflow_run.change.files, workflow_run.steers, anchors, place)


def _suggested_repairs(finished: Review, report: Report) -> Suggestions:
    """What checks would write; nothing if it is more than a review may have comments."""
    if finished.gate is None:
        return Suggestions()
    steering_paths = {
        file.shown_path for file in find_steering_files(finished.gate, finished.repairs)
    }
    comments = make_suggestion_comments(finished.repairs, steering_paths, report.anchors, BY_CHECK)
    return Suggestions(comments if len(comments) <= MAX_COMMENTS else ())


def _posting(job: Job, suggestions: Suggestions, record: str) -> Posting:
    limits = []
    if job.trigger.fork:
        limits.append(FORK)
    if job.forge is None:
        limits.append(NO_TOKEN)
    return Posting(
        head=job.compared.head,
        number=job.trigger.number,
        comment=job.inputs.posts_comment,
        check_run=job.inputs.posts_check_run,
        review_comments=job.inputs.posts_lines,
        suggestions=suggestions.comments,
        since=lines_since(job.runner.start, job.environment, job.compared.head, job.credentials),
        limits=tuple(limits),
        begun=job.check.begun,
        record=record,
    )


def _workflow_commands(posted: Posted) -> str:
    """Workflow commands if no check run can show findings at their lines, and each downgrade as a
    warning.
    """
    if posted.check_run_url and not posted.downgrades:
        return ""
    visible_findings = posted.at_lines
    if posted.check_run_url:
        visible_findings = frozenset(map(finding_identity, posted.report.round.reportable))
    return render_workflow_commands(
        posted.report, _random_token(), tuple(posted.downgrades), visible_findings
    )


def _random_token() -> str:
    """What ends a part of the log in which the runner reads no commands; nobody can guess it."""
    return f"vibe-gate-{secrets.token_hex(16)}"


def _write_files(job: Job, texts: Mapping[str, str]) -> dict[str, str]:
    """Write each output's text to its file in `FILES`; the path of each."""
    file_paths = {}
    for output, text in texts.items():
        file = job.folder / FILES[output]
        with contextlib.suppress(OSError):  # a full disk: the verdict stands all the same
            file.write_text(text, encoding="utf-8", errors="replace")
            file_paths[output] = str(file)
    return file_paths


def _set_outputs(job: Job, posted: Posted, texts: Mapping[str, str]) -> None:
    """Set the outputs; `texts` of those that are paths."""
    summary = posted.report.summary
    score = queries.lowest_score(summary)
    has_artifact = job.inputs.artifact != "none" and bool(summary.bundle)
    job.runner.output(
        verdict=sentences.program_outcome(summary),
        score="" if score is None else f"{score:g}",
        cost_usd=f"{posted.report.usd:.6f}",
        run=summary.run_id,
        comment_url=posted.comment_url,
        artifact_path=str(job.folder) if has_artifact else "",
        artifact_name=job.runner.unique("vibe-gate") if has_artifact else "",
        **_write_files(job, texts),
    )


def _save_artifact(job: Job, report: Report, files: JobFiles) -> list[str]:
    """Put what is uploaded beside the report; a sentence if something could not be."""
    bundle = files.bundle
    if files.artifact == "none" or bundle is None:
        return []
    is_full = files.artifact == "full"
    names = [name for name in UPLOADED if files.may_leave or name != MADE_PATCH]
    earlier = EarlierRound(record_round(report.round)) if is_further(report.round) else None
    try:
        if is_full:
            page = _run_page(job, bundle, earlier)
        else:
            page = render_verdict_page(report.summary, earlier)
        (job.folder / "report.html").write_text(page, encoding="utf-8")
        for name in names:
            if (bundle / name).is_file():
                shutil.copyfile(bundle / name, job.folder / name)
        if is_full:
            _archive_run(job, bundle)
    except (OSError, GateError) as error:
        return [f"The artifact is not complete: {error}"]
    return []


def _run_page(job: Job, bundle: Path, earlier: EarlierRound | None) -> str:
    """The page of the run, for whoever may read the artifact. GateError."""
    with open_repository(job.runner.start, job.environment) as repository:
        return page_of(read_bundle(bundle), repository, prompts=False, earlier=earlier)


def _archive_run(job: Job, bundle: Path) -> None:
    """Write the whole run to bundle.tar.xz. GateError."""
    with open_repository(job.runner.start, job.environment) as repository:
        provenance = Provenance(job.runner.clock(), repository.tracked_in_store())
        bundles = Bundles(repository.store_root, provenance)
        runs = bundles.find(run=bundle.name)
        export_runs(bundles.root, bundles.provenance, runs, job.folder / "bundle.tar.xz")
