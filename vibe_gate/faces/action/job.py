"""The story of `vibe-gate action`: what happened -> what is compared -> review -> post -> outputs
and exit code.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.context.mode import DraftMode, LiveMode, LookMode, Mode
from vibe_gate.context.review_request import ForgeJob, JudgeWish, ReviewRequest
from vibe_gate.domain.bundles import Provenance
from vibe_gate.domain.change import MAX_COMMITS, Selection
from vibe_gate.domain.environment import Environment, read_environment
from vibe_gate.domain.escape import safe
from vibe_gate.domain.model_wire import read_wire
from vibe_gate.domain.provenance import Commit
from vibe_gate.domain.replayed import Replayed, totals
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.waiver import Waiver
from vibe_gate.errors import (
    INCONCLUSIVE,
    PASS,
    USAGE,
    DefinitionError,
    ForgeError,
    GateError,
    IntegrityError,
    StorageError,
    UsageError,
)
from vibe_gate.faces import progress
from vibe_gate.faces.action.answers import TravellingAnswers, signing_key
from vibe_gate.faces.action.approval import Approvals
from vibe_gate.faces.action.commands import obey
from vibe_gate.faces.action.commit_range import CommitRange, range_of
from vibe_gate.faces.action.event import Trigger, read_event
from vibe_gate.faces.action.history import edits_rubrics, replay_history
from vibe_gate.faces.action.inputs import BlockMode, Inputs, inputs_of
from vibe_gate.faces.action.issues import ClosedIssues
from vibe_gate.faces.action.job_check import READY, JobCheck
from vibe_gate.faces.action.labels import labels_at
from vibe_gate.faces.action.look import Look, look, only_approvals
from vibe_gate.faces.action.report_inputs import lines_since, stored_patch
from vibe_gate.faces.action.runner import Runner
from vibe_gate.faces.action.standing import LOOK_ONLY, Standing, StandingVerdict, about
from vibe_gate.faces.run_page import page_of
from vibe_gate.forge import Forge, open_forge
from vibe_gate.gate.loading import load_gate
from vibe_gate.gate.policy import find_steering_files
from vibe_gate.gate.shared_prompts import PROMPTS
from vibe_gate.git import Credentials, Repository, open_repository
from vibe_gate.receipts.find_receipts import SIGNERS
from vibe_gate.receipts.receipt_notes import NOTES
from vibe_gate.report import queries, replays, sentences, verdict_screen
from vibe_gate.report.anchors import Anchors
from vibe_gate.report.annotations import MAX_COMMENTS, guard_log_text, render_workflow_commands
from vibe_gate.report.comment import render_job_summary
from vibe_gate.report.comment_markup import link_commit
from vibe_gate.report.comment_opening import deciding_facts, unblocked_note
from vibe_gate.report.formats import render_sarif
from vibe_gate.report.html import render_verdict_page
from vibe_gate.report.html.view import EarlierRound
from vibe_gate.report.markdown import escape_prose, link_code
from vibe_gate.report.next_step import next_step
from vibe_gate.report.no_verdict import HEADLINE
from vibe_gate.report.posting import Posted, Posting, post_report
from vibe_gate.report.report import Report
from vibe_gate.report.reported_finding import finding_identity
from vibe_gate.report.round import first_round
from vibe_gate.report.round_record import is_further, record_round
from vibe_gate.report.suggestions import (
    BY_CHECK,
    Suggestions,
    make_suggestion_comments,
    make_suggestions,
)
from vibe_gate.run.conclusion import WorkflowRun
from vibe_gate.run.review import Review, review
from vibe_gate.run.run_request import RunRequest
from vibe_gate.run.walk import run_workflow
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.run_archive import export_runs
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.worktree_bundles import Bundles

NO_TOKEN = "No token was given (`github-token`), so nothing was posted to GitHub."  # noqa: S105  a sentence
DEPENDABOT = "dependabot[bot]"
"""Jobs that it starts get the secrets of the page Dependabot, not those of the page Actions."""

UPLOADED = ("summary.json", "receipt.json", "run.json", "events.ndjson", "made.patch")
"""Files of a bundle that hold no content of the repository but what a finding quotes, and what
agents changed; `artifact: full` adds it all.
"""

FILES = {"report": "report.md", "sarif": "vibe-gate.sarif"}
"""Output of the step -> the file whose path it is."""

_MARKUP = re.compile(r"[`*]")

LOG_WIDTH = 400
"""Columns of a log: it has no width to fit, so no reason (280 characters) is cut."""

FORK = (
    "The pull request comes from a fork: its job gets no secrets, and a token that may only read."
)


class _Job(Struct, frozen=True):
    """One job: its runner, inputs and trigger, the compared commits, and where its files are
    written.
    """

    runner: Runner
    inputs: Inputs
    trigger: Trigger
    forge: Forge | None
    check: JobCheck
    credentials: Credentials
    environment: Environment
    compared: CommitRange
    store_root: Path
    folder: Path
    draft: bool

    @property
    def suggests(self) -> bool:
        """Whether there are lines to comment on, and a token that may."""
        return self.forge is not None and self.trigger.number is not None and not self.trigger.fork


def run(runner: Runner) -> int:
    """The whole job; its exit code. Wrong inputs and events are exit 2."""
    mode: BlockMode = "block"
    check = JobCheck(runner)
    stopped: GateError | None = None
    with runner.silence():
        try:
            inputs = inputs_of(runner.environment.variables)
            mode = inputs.mode
            trigger = read_event(runner.environment.variables)
            if trigger.kind == "workflow_run":
                raise UsageError(
                    "On workflow_run use `vibe-gate post --from-artifact DIR`: it posts what a job reviewed."
                )
            if trigger.kind == "issue_comment":
                return obey(runner, inputs, trigger)
            code, log = _job(runner, inputs, trigger, check)
        except GateError as error:
            stopped = error
        except BaseException as error:
            check.abandon(cancelled=isinstance(error, KeyboardInterrupt))
            raise
    if stopped is not None:
        return _broken(runner, stopped, mode, check)
    if log:
        runner.say(log)
    return _exit(runner, code, mode)


def _job(runner: Runner, inputs: Inputs, trigger: Trigger, check: JobCheck) -> tuple[int, str]:
    """Review and post; returns the exit code, and workflow commands to print."""
    variables = {**runner.environment.variables, "CI": "true"}
    if inputs.anthropic_api_key:
        variables["ANTHROPIC_API_KEY"] = inputs.anthropic_api_key
    environment = read_environment(variables)
    credentials = Credentials(runner.server_url, inputs.github_token)
    token, name = inputs.github_token, trigger.repository
    forges = (
        open_forge(runner.api_url, token, name, network=environment.network)
        if token
        else contextlib.nullcontext()
    )
    with forges as forge:
        trigger = _with_base_of_now(forge, trigger)
        with open_repository(runner.start, environment) as repository:
            compared = range_of(repository, trigger, inputs, credentials)
            _fetch_records(repository, compared, credentials)
            store_root = repository.root
            common_dir = repository.common_dir
            answers = TravellingAnswers(runner, environment, common_dir, fork=trigger.fork)
        if not compared.head:
            for note in compared.notes:
                runner.summarize(note)
            runner.output(verdict="nothing", cost_usd="0")
            return PASS, ""
        draft = _draft(forge, inputs, trigger)
        if draft and (inputs.drafts == "skip" or inputs.workflow != "review"):
            return INCONCLUSIVE, _leave(runner, inputs, check)
        check.begin(forge, inputs, trigger, compared.head)
        job = _Job(
            runner,
            inputs,
            trigger,
            forge,
            check,
            credentials,
            environment,
            compared,
            store_root,
            runner.temp(),
            draft,
        )
        approvals = Approvals(forge, trigger, partial(_commits, job))
        issues = ClosedIssues(forge, trigger)
        refusal = answers.bring()
        accepted = approvals.overrides()
        label_failure = _read_labels(common_dir, forge, trigger, inputs)
        try:
            done, made = _review(job, approvals, accepted, issues)
            replayed = _replayed(job, done)
        finally:
            answers.keep()
        standing = _standing(job, done, accepted)
        look_result = (
            look(done, standing, forge) if trigger.reviewed else Look(done.summary, posts=True)
        )
        remarks = tuple(
            filter(
                None, [refusal, *approvals.notes, *issues.notes, label_failure, look_result.remark]
            )
        )
        code = look_result.summary.exit_code
        if look_result.stands is not None:
            commands = _stays(job, look_result.summary, look_result.stands, remarks)
        else:
            record = ""
            if look_result.posts:
                record = (
                    standing.record(look_result.summary) if look_result.is_newest else LOOK_ONLY
                )
            commands = _tell(job, look_result.summary, done, made, remarks, record, replayed)
        for note in done.unshared.upload() if done.unshared else ():
            runner.command("warning", f"vibe-gate: {note}")
        return code, commands


def _with_base_of_now(forge: Forge | None, trigger: Trigger) -> Trigger:
    """The trigger with the base branch that the pull request has now: a job that is run again has
    the event of then.
    """
    if forge is None or trigger.kind != "pull_request" or trigger.number is None:
        return trigger
    try:
        branch = forge.pull(trigger.number).base_ref
    except ForgeError:  # what is posted tells of it
        return trigger
    return (
        trigger
        if branch == trigger.branch
        else trigger.model_copy(update={"branch": branch, "merge": ""})
    )


def _fetch_records(repository: Repository, compared: CommitRange, credentials: Credentials) -> None:
    """Fetch the git notes that the base's gate lets count: receipts of listed signers, and
    prompts.
    """
    if not compared.head:
        return
    if repository.tree(compared.trusted or compared.before).read(SIGNERS) is not None:
        repository.fetch_notes(
            NOTES, credentials
        )  # a pass that a listed signer shared is not paid for again
    if _shares_prompts(repository, compared):
        repository.fetch_notes(PROMPTS, credentials)


def _shares_prompts(repository: Repository, compared: CommitRange) -> bool:
    """Whether pushes take prompts along, by the base's gate; one with mistakes is told of later."""
    with contextlib.suppress(DefinitionError):
        revision = compared.trusted or compared.before
        gate = load_gate(repository.tree(revision), revision=revision, origin="trusted")
        return gate is not None and gate.shared_prompts == "redacted"
    return False


def _draft(forge: Forge | None, inputs: Inputs, trigger: Trigger) -> bool:
    """Whether judges wait because the pull request is a draft; a job that is run again has the
    event of then.
    """
    if inputs.drafts == "review" or not trigger.draft or trigger.number is None:
        return False
    if trigger.reviewed and inputs.drafts != "skip":  # a look asks no judge
        return False
    try:
        return forge is None or forge.pull(trigger.number).draft
    except ForgeError:
        return True


def _leave(runner: Runner, inputs: Inputs, check: JobCheck) -> str:
    """Say that a draft is not reviewed; returns workflow commands to print. The job is red: nothing
    was reviewed.
    """
    waits = "vibe-gate leaves it alone (input drafts: skip)"
    if inputs.drafts != "skip":
        waits = f"the workflow {inputs.workflow} runs when it is ready"
    why = f"The pull request is a draft; {waits}."
    refused = check.refuse(why, blocks=inputs.mode == "block", draft=True)
    runner.summarize(f"### vibe-gate: {HEADLINE}\n\n{why}\n\n**Next:** {READY}.")
    runner.output(verdict="inconclusive", cost_usd="0")
    level = "error" if inputs.mode == "block" else "warning"
    said = "\n".join([f"::{level} title=vibe-gate::{HEADLINE}. {why}", ""])
    return said + guard_log_text(
        "\n".join(map(safe, refused)), f"vibe-gate-{secrets.token_hex(16)}"
    )


def _commits(job: _Job) -> tuple[Commit, ...]:
    """All compared commits; () if there are too many, or they are not here."""
    with open_repository(job.runner.start, job.environment) as repository:
        try:
            names = repository.span(job.compared.before, job.compared.head)
        except IntegrityError:
            return ()
        return tuple(repository.commit(name) for name in names) if len(names) < MAX_COMMITS else ()


def _read_labels(common_dir: Path, forge: Forge | None, trigger: Trigger, inputs: Inputs) -> str:
    """Have the shared state know what people say of findings of this pull request; a sentence if
    that failed.
    """
    number = trigger.number or trigger.queued
    try:
        said = (
            labels_at(forge, number, inputs.name)
            if forge is not None and number is not None
            else ()
        )
        open_state(common_dir).labels.put_from_forge(said)
    except (ForgeError, StorageError) as error:
        return f"What people say of findings could not be read: {error}"
    return ""


def _standing(job: _Job, done: Review, accepted: Sequence[Waiver]) -> Standing:
    """How the verdict about this change is left for later jobs, and found again."""
    model = done.gate.default_model(job.environment) if done.gate else ""
    number = job.trigger.number
    pull = f"{job.trigger.repository}#{number or 0}"
    given_for = about(pull, done, job.inputs, model, accepted, job.runner.clock().date())
    return Standing(
        job.runner,
        job.inputs,
        job.compared.head,
        given_for,
        signing_key(job.environment.variables),
        number,
    )


def _review(
    job: _Job, approvals: Approvals, accepted: tuple[Waiver, ...], issues: ClosedIssues
) -> tuple[Review, WorkflowRun | None]:
    """The review, and the workflow's run if it was one's; a look because of a review runs no
    workflow.
    """
    workflow = job.inputs.workflow != "review"
    request = ReviewRequest(
        selection=Selection("range", job.compared.before, job.compared.head),
        rubrics=job.inputs.rubrics,
        judge=_judge_wish(job),
        base=job.compared.trusted,
        max_cost_usd=job.inputs.max_cost_usd,
        forge=ForgeJob(
            approvals, accepted, issues, shows_repairs=job.suggests and job.inputs.review_comments
        ),
        wire=read_wire(job.environment.variables),
        mode=_mode(job),
    )
    if workflow and not job.trigger.reviewed:
        made = _run(job, request)
        return made.review, made
    with progress.shown(job.environment) as display:
        start, clock = job.runner.start, job.runner.clock
        walk = review(
            request, start=start, environment=job.environment, clock=clock, progress=display.show
        )
        done = progress.run(walk)
    return only_approvals(done, job.inputs.workflow) if workflow else done, None


def _judge_wish(job: _Job) -> JudgeWish:
    """When the judge is asked; a look at a workflow's pull request has no rubrics of its own."""
    is_look = job.inputs.workflow != "review" and job.trigger.reviewed
    if not job.inputs.judge or is_look:
        return "never"
    return "always" if job.inputs.ask_anyway else "if checks pass"


def _mode(job: _Job) -> Mode:
    """What the job asks: a draft and a review of the pull request ask nothing new."""
    if job.draft:
        return DraftMode()
    if job.trigger.reviewed:
        return LookMode()
    return LiveMode()


def _replayed(job: _Job, done: Review) -> Replayed:
    """What the change's own rubrics would have said of earlier runs, if that is wanted and it edits
    them.
    """
    summary, trigger = done.summary, job.trigger
    waits = trigger.number is None or trigger.fork or trigger.reviewed or job.draft
    if not job.inputs.replay or waits or not summary.run_id or not edits_rubrics(summary):
        return Replayed()
    archives = job.inputs.replay_from
    try:
        with open_repository(job.runner.start, job.environment) as repository:
            return replay_history(
                summary,
                job.inputs,
                repository,
                store_url=done.gate.store_url if done.gate else "",
                archives=job.runner.start / archives if archives else None,
                clock=job.runner.clock,
                credentials=job.credentials,
            )
    except GateError as error:
        return Replayed(notes=(f"No earlier run was replayed: {error}",))


def _run(job: _Job, request: ReviewRequest) -> WorkflowRun:
    """Review with a workflow: its rubric stages give the verdict; what its agents made is
    suggested.
    """
    asked = RunRequest(review=request, workflow=job.inputs.workflow, reviewing=True)
    start, clock = job.runner.start, job.runner.clock
    with progress.shown(job.environment, of_workflow=True) as display:
        return progress.run(
            run_workflow(
                asked, start=start, environment=job.environment, clock=clock, progress=display.show
            )
        )


def _stays(job: _Job, summary: Summary, stood: StandingVerdict, remarks: tuple[str, ...]) -> str:
    """Say in log, summary and outputs that the verdict before stays; nothing is posted, as nothing
    changed.

    Returns what to print.
    """
    links, verdict = (
        job.runner.links(job.trigger.repository, job.compared.head, run=stood.run),
        "PASS" if summary.exit_code == PASS else sentences.verdict_words(summary),
    )
    named = f"{link_code(f'run {stood.run}', links.run_url)} for {link_commit(job.compared.head, links)}"
    told = [
        f"### vibe-gate: {verdict} · {link_commit(job.compared.head, links)}",
        f"The verdict of {named} stands ({link_code('check run', stood.url)}). A review of the pull request asks no model, "
        "and this one changed nothing that the verdict rests on.",
        *map(escape_prose, remarks),
    ]
    text = "\n\n".join(told) + f"\n{_times(job)}"
    job.runner.summarize(text)
    written = _written(
        job, {"report": text}
    )  # the score and all findings are what judges said, who are not asked
    job.runner.output(
        verdict=sentences.program_outcome(summary), cost_usd="0", run=summary.run_id, **written
    )
    log = [f"{verdict} · the verdict of run {stood.run} stands: {stood.url}", *remarks]
    return guard_log_text("\n".join(map(safe, log)), f"vibe-gate-{secrets.token_hex(16)}")


def _tell(
    job: _Job,
    summary: Summary,
    done: Review,
    made: WorkflowRun | None,
    remarks: tuple[str, ...],
    record: str,
    replayed: Replayed,
) -> str:
    """Everything that people and later steps read of the review; returns workflow commands to
    print.

    Args:
        job: The job. summary: What the job says of the review, which may be another verdict than
        the run's own. done: The review. made: The workflow's run, if it was one's. remarks:
        Sentences for people. record: Kept in its check run; "": the review has fewer answers than
        another one and must not replace its words. replayed: What earlier runs came to under the
        change's own rubrics.
    """
    bundle = job.store_root / summary.bundle if summary.bundle else None
    notes = (*job.compared.notes, *done.notes)
    told = Report(
        summary,
        notes,
        first_round(summary.findings, summary.change.head_commit),
        job.runner.links(job.trigger.repository, job.compared.head, job.compared.before),
        stored_patch(bundle),
        artifact=_is_uploaded(job) and bundle is not None,
        name=job.inputs.name,
        review=_repeat(job),
        blocks=job.inputs.mode == "block",
        remarks=remarks,
        replayed=replayed,
        fork=job.trigger.fork,
        dependabot=job.runner.actor == DEPENDABOT,
    )
    offered = _offered(job, done, made, told)
    told = replace(told, notes=tuple(filter(None, [offered.note, *notes])))
    posted = (
        post_report(_posting(job, offered, record), job.forge, told) if record else Posted(told)
    )
    job.check.begun = None
    posted.downgrades += _keep(job, posted.report, bundle)
    text = render_job_summary(posted.report, (*posted.downgrades, *posted.remarks)) + _times(job)
    job.runner.summarize(text)
    _log(job, posted, (*notes, *remarks, *_told_of(replayed)))
    _outputs(job, posted, {"report": text, "sarif": render_sarif(summary, told.links)})
    return _commands(posted)


def _is_uploaded(job: _Job) -> bool:
    """Whether a later step of action.yml uploads the run; a workflow that calls this command has
    none.
    """
    return job.inputs.artifact != "none" and bool(job.environment.variables.get("VIBE_GATE_BEGAN"))


def _told_of(replayed: Replayed) -> tuple[str, ...]:
    """What the log says of replays."""
    return (
        *(
            replays.replay_sentences(totals(replayed.rows), replayed.budget_usd)
            if replayed.rows
            else ()
        ),
        *replayed.notes,
    )


def _times(job: _Job) -> str:
    """What the job spent its time on, as its summary's last line; step.sh says how long installing
    took.
    """
    installed, began = (
        job.environment.variables.get("VIBE_GATE_READY", ""),
        job.environment.variables.get("VIBE_GATE_BEGAN", ""),
    )
    if not began.isdecimal():  # not a step of action.yml
        return ""
    took = job.runner.clock().timestamp() - int(began)
    return f"\n{f'Installed in {escape_prose(installed, 100)}. ' if installed else ''}Reviewed and posted in {took:.0f} s.\n"


def _repeat(job: _Job) -> str:
    """What follows `vibe-gate review` to look at the same in a clone."""
    narrowed = [f"--rubric {name}" for name in job.inputs.rubrics]
    return " ".join([job.compared.repeat, *narrowed, *([] if job.inputs.judge else ["--no-judge"])])


def _log(job: _Job, posted: Posted, notes: tuple[str, ...]) -> None:
    """The verdict in the job's log, which is what people open first when a job is red."""
    summary = posted.report.summary
    then = _MARKUP.sub("", next_step(posted.report)) if summary.run_id else ""
    free = _MARKUP.sub("", unblocked_note(posted.report))
    why = " · ".join(filter(None, [free, *deciding_facts(posted.report)]))
    screen = verdict_screen.render_screen(summary, notes, LOG_WIDTH, then=then, decision=why).plain
    where = [f"  posted  {url}" for url in (posted.comment_url, posted.check_run_url) if url]
    job.runner.say("\n".join(["", screen, *where, ""]))


def _offered(job: _Job, done: Review, made: WorkflowRun | None, told: Report) -> Suggestions:
    """What checks would write, or what the workflow's agents changed, as far as it fits the pull
    request's lines.
    """
    if made is None and job.suggests and job.inputs.review_comments and done.gate is not None:
        steers = {file.shown_path for file in find_steering_files(done.gate, done.repairs)}
        repairs = make_suggestion_comments(done.repairs, steers, told.anchors, BY_CHECK)
        return Suggestions(repairs if len(repairs) <= MAX_COMMENTS else ())
    if made is None or made.change is None or made.patch is None:
        return Suggestions()
    rest = f"is {made.patch.name} in the artifact"
    if job.inputs.artifact == "none":
        rest = "is lost (`artifact: none`)"
    elif not told.artifact:
        rest = f"is {made.patch.name} in the folder of the output `artifact-path`"
    # A patch with a secret was redacted: its lines are not what the agent wrote.
    kept = made.patch.read_bytes() if made.patch.is_file() else b""
    fits = job.suggests and job.inputs.review_comments and kept == made.made
    return make_suggestions(
        made.change.files, made.steers, told.anchors if fits else Anchors(), rest
    )


def _posting(job: _Job, offered: Suggestions, record: str) -> Posting:
    limits = [NO_TOKEN] if job.forge is None else []
    return Posting(
        head=job.compared.head,
        number=job.trigger.number,
        comment=job.inputs.comment,
        check_run=job.inputs.check_run,
        review_comments=job.inputs.review_comments,
        suggestions=offered.comments,
        since=lines_since(job.runner.start, job.environment, job.compared.head, job.credentials),
        limits=tuple([FORK, *limits] if job.trigger.fork else limits),
        begun=job.check.begun,
        record=record,
    )


def _commands(posted: Posted) -> str:
    """Workflow commands if no check run can show findings at their lines, and each downgrade as a
    warning.
    """
    if posted.check_run_url and not posted.downgrades:
        return ""
    shown = (
        map(finding_identity, posted.report.round.shown)
        if posted.check_run_url
        else posted.at_lines
    )
    return render_workflow_commands(
        posted.report,
        f"vibe-gate-{secrets.token_hex(16)}",
        tuple(posted.downgrades),
        frozenset(shown),
    )


def _written(job: _Job, texts: Mapping[str, str]) -> dict[str, str]:
    """Write each output's text to its file in `FILES`; the path of each."""
    written = {}
    for name, text in texts.items():
        file = job.folder / FILES[name]
        with contextlib.suppress(OSError):  # a full disk: the verdict stands all the same
            file.write_text(text, encoding="utf-8", errors="replace")
            written[name] = str(file)
    return written


def _outputs(job: _Job, posted: Posted, texts: Mapping[str, str]) -> None:
    """Set the outputs; `texts` of those that are paths."""
    summary = posted.report.summary
    score = queries.lowest_score(summary)
    kept = job.inputs.artifact != "none" and bool(summary.bundle)
    job.runner.output(
        verdict=sentences.program_outcome(summary),
        score="" if score is None else f"{score:g}",
        cost_usd=f"{posted.report.usd:.6f}",
        run=summary.run_id,
        comment_url=posted.comment_url,
        artifact_path=str(job.folder) if kept else "",
        artifact_name=job.runner.unique("vibe-gate") if kept else "",
        **_written(job, texts),
    )


def _page(job: _Job, bundle: Path, earlier: EarlierRound | None) -> str:
    """The page of the run, for whoever may read the artifact. GateError."""
    with open_repository(job.runner.start, job.environment) as repository:
        return page_of(read_bundle(bundle), repository, prompts=False, earlier=earlier)


def _keep(job: _Job, report: Report, bundle: Path | None) -> list[str]:
    """Put what is uploaded beside the report; a sentence if something could not be."""
    if job.inputs.artifact == "none" or bundle is None:
        return []
    full = job.inputs.artifact == "full"
    earlier = EarlierRound(record_round(report.round)) if is_further(report.round) else None
    try:
        shown = (
            _page(job, bundle, earlier) if full else render_verdict_page(report.summary, earlier)
        )
        (job.folder / "report.html").write_text(shown, encoding="utf-8")
        for name in UPLOADED:
            if (bundle / name).is_file():
                shutil.copyfile(bundle / name, job.folder / name)
        if full:
            with open_repository(job.runner.start, job.environment) as repository:
                bundles = Bundles(
                    repository.store_root,
                    Provenance(job.runner.clock(), repository.tracked_in_store()),
                )
                runs = bundles.find(run=bundle.name)
                export_runs(bundles.root, bundles.provenance, runs, job.folder / "bundle.tar.gz")
    except (OSError, GateError) as error:
        return [f"The artifact is not complete: {error}"]
    return []


def _broken(runner: Runner, error: GateError, mode: BlockMode, check: JobCheck) -> int:
    """Report a job without a verdict in its log and summary, on GitHub, and by its exit code."""
    for line in str(error).splitlines() or ["stopped."]:
        runner.command("error", f"vibe-gate: {line}")
    runner.refuse("vibe-gate could not review this", error)
    runner.output(verdict="error")
    code = error.exit_code if error.exit_code == USAGE else _exit(runner, error.exit_code, mode)
    for sentence in check.refuse(str(error), blocks=code != PASS):
        runner.command("warning", f"vibe-gate: {sentence}")
    return code


def _exit(runner: Runner, code: int, mode: BlockMode) -> int:
    if code == PASS or mode == "block":
        return code
    runner.command("warning", f"vibe-gate: exit code {code}, let pass because of `mode: warn`.")
    return PASS
