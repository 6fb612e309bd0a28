"""The story of `vibe-gate action`: what happened -> what is compared -> review -> post -> outputs
and exit code.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence
from functools import partial

from vibe_gate.context.listeners import Listeners
from vibe_gate.context.mode import DraftMode, LiveMode, Mode, RecheckMode
from vibe_gate.context.review_request import ForgeJob, JudgeWish, ReviewRequest
from vibe_gate.domain.change import MAX_COMMITS, Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.escape import safe
from vibe_gate.domain.label import Label
from vibe_gate.domain.model_wire import read_wire
from vibe_gate.domain.provenance import Commit
from vibe_gate.domain.replayed import Replayed
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
from vibe_gate.faces.action.approvals import Approvals
from vibe_gate.faces.action.comment_commands import answer_comment
from vibe_gate.faces.action.comment_labels import collect_labels
from vibe_gate.faces.action.commit_range import CommitRange, range_of
from vibe_gate.faces.action.inputs import BlockMode, Inputs, inputs_of
from vibe_gate.faces.action.issues import ClosedIssues
from vibe_gate.faces.action.job_check import READY, JobCheck
from vibe_gate.faces.action.job_report import Job, ReviewedJob, report_review, report_standing
from vibe_gate.faces.action.recheck import Recheck, decide_recheck, keep_approvals_alone
from vibe_gate.faces.action.replayed_history import edits_rubrics, replay_history
from vibe_gate.faces.action.runner import Runner
from vibe_gate.faces.action.standing import RECHECK_ONLY, Standing, digest_subject
from vibe_gate.faces.action.travelling_answers import TravellingAnswers, signing_key
from vibe_gate.faces.action.trigger import Trigger, read_trigger
from vibe_gate.forge import Forge, open_forge
from vibe_gate.gate.loading import load_gate
from vibe_gate.gate.shared_prompts import PROMPTS
from vibe_gate.git import Credentials, Repository, open_repository
from vibe_gate.receipts.find_receipts import SIGNERS
from vibe_gate.receipts.receipt_notes import NOTES
from vibe_gate.report.no_verdict import HEADLINE
from vibe_gate.report.workflow_commands import guard_log_text
from vibe_gate.run.conclusion import WorkflowRun
from vibe_gate.run.review import review_around
from vibe_gate.run.review_result import Review
from vibe_gate.run.run_request import RunRequest
from vibe_gate.run.walk import walk_workflow
from vibe_gate.store.clone_state import open_state


def run_job(runner: Runner) -> int:
    """The whole job; its exit code. Wrong inputs and events are exit 2."""
    mode: BlockMode = "block"
    check = JobCheck(runner)
    failure: GateError | None = None
    with runner.silence():
        try:
            inputs = inputs_of(runner.environment.variables)
            mode = inputs.mode
            trigger = read_trigger(runner.environment.variables)
            if trigger.kind == "workflow_run":
                raise UsageError(
                    "On workflow_run use `vibe-gate post --from-artifact DIR`: it posts what a job "
                    "reviewed."
                )
            if trigger.kind == "issue_comment":
                return answer_comment(runner, inputs, trigger)
            exit_code, log = _run(runner, inputs, trigger, check)
        except GateError as error:
            failure = error
        except BaseException as error:
            check.abandon(cancelled=isinstance(error, KeyboardInterrupt))
            raise
    if failure is not None:
        return _report_failure(runner, failure, mode, check)
    if log:
        runner.say(log)
    return _exit_code(runner, exit_code, mode)


def _run(runner: Runner, inputs: Inputs, trigger: Trigger, check: JobCheck) -> tuple[int, str]:
    """Review and post; returns the exit code, and workflow commands to print."""
    variables = {**runner.environment.variables, "CI": "true"}
    if inputs.anthropic_api_key:
        variables["ANTHROPIC_API_KEY"] = inputs.anthropic_api_key
    environment = read_environment(variables)
    credentials = Credentials(runner.server_url, inputs.github_token)
    with _open_forge(runner, inputs, trigger) as forge:
        trigger = _with_present_base(forge, trigger)
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
        is_draft = _is_draft(forge, inputs, trigger)
        if is_draft and (inputs.drafts == "skip" or inputs.workflow != "review"):
            return INCONCLUSIVE, _skip_draft(runner, inputs, check)
        check.begin(forge, inputs, trigger, compared.head)
        job = Job(
            runner=runner,
            inputs=inputs,
            trigger=trigger,
            forge=forge,
            check=check,
            credentials=credentials,
            environment=environment,
            compared=compared,
            store_root=store_root,
            common_dir=common_dir,
            folder=runner.temp(),
            draft=is_draft,
        )
        return _review_and_report(job, answers)


def _open_forge(
    runner: Runner, inputs: Inputs, trigger: Trigger
) -> contextlib.AbstractContextManager[Forge | None]:
    """The way to GitHub; None without a token."""
    token = inputs.github_token
    if not token:
        return contextlib.nullcontext()
    return open_forge(runner.api_url, token, trigger.repository, network=runner.environment.network)


def _review_and_report(job: Job, answers: TravellingAnswers) -> tuple[int, str]:
    """Review and post; returns the exit code, and workflow commands to print."""
    approvals = Approvals(job.forge, job.trigger, partial(_commits, job))
    issues = ClosedIssues(job.forge, job.trigger)
    refusal = answers.bring()
    overrides = approvals.overrides()
    label_failure = _read_labels(job)
    try:
        finished, workflow_run = _review(job, approvals, overrides, issues)
        replayed = _replay(job, finished)
    finally:
        answers.keep()
    standing = _standing(job, finished, overrides)
    recheck = Recheck(finished.summary, posts=True)
    if job.trigger.reviewed:
        recheck = decide_recheck(finished, standing, job.forge)
    remarks = (refusal, *approvals.notes, *issues.notes, label_failure, recheck.remark)
    reviewed = ReviewedJob(
        summary=recheck.summary,
        review=finished,
        workflow_run=workflow_run,
        remarks=tuple(filter(None, remarks)),
        record=_record(recheck, standing),
        replayed=replayed,
    )
    if recheck.stands is not None:
        commands = report_standing(job, reviewed, recheck.stands)
    else:
        commands = report_review(job, reviewed)
    if finished.unshared:
        for note in finished.unshared.upload():
            job.runner.command("warning", f"vibe-gate: {note}")
    return recheck.summary.exit_code, commands


def _record(recheck: Recheck, standing: Standing) -> str:
    """What the job's check run keeps for later jobs; "" if it must not replace what was posted."""
    if not recheck.posts:
        return ""
    if recheck.is_newest:
        return standing.record(recheck.summary)
    return RECHECK_ONLY


def _with_present_base(forge: Forge | None, trigger: Trigger) -> Trigger:
    """The trigger with the base branch that the pull request has now: a job that is run again has
    the event of then.
    """
    if forge is None or trigger.kind != "pull_request" or trigger.number is None:
        return trigger
    try:
        branch = forge.pull(trigger.number).base_ref
    except ForgeError:  # said when the report is posted
        return trigger
    if branch == trigger.branch:
        return trigger
    return trigger.model_copy(update={"branch": branch, "merge": ""})


def _fetch_records(repository: Repository, compared: CommitRange, credentials: Credentials) -> None:
    """Fetch the git notes that the base's gate lets count: receipts of listed signers, and
    prompts.
    """
    if not compared.head:
        return
    # A pass that a listed signer shared is not paid for again.
    if repository.tree(compared.trusted or compared.before).read(SIGNERS) is not None:
        repository.fetch_notes(NOTES, credentials)
    if _shares_prompts(repository, compared):
        repository.fetch_notes(PROMPTS, credentials)


def _shares_prompts(repository: Repository, compared: CommitRange) -> bool:
    """Whether pushes take prompts along, by the base's gate; mistakes in it are said later."""
    with contextlib.suppress(DefinitionError):
        revision = compared.trusted or compared.before
        gate = load_gate(repository.tree(revision), revision=revision, origin="trusted")
        return gate is not None and gate.shared_prompts == "redacted"
    return False


def _is_draft(forge: Forge | None, inputs: Inputs, trigger: Trigger) -> bool:
    """Whether judges wait because the pull request is a draft; a job that is run again has the
    event of then.
    """
    if inputs.drafts == "review" or not trigger.draft or trigger.number is None:
        return False
    if trigger.reviewed and inputs.drafts != "skip":  # a recheck asks no judge
        return False
    try:
        return forge is None or forge.pull(trigger.number).draft
    except ForgeError:
        return True


def _skip_draft(runner: Runner, inputs: Inputs, check: JobCheck) -> str:
    """Say that a draft is not reviewed; returns workflow commands to print. The job is red: nothing
    was reviewed.
    """
    reason = "The pull request is a draft; vibe-gate leaves it alone (input drafts: skip)."
    if inputs.drafts != "skip":
        reason = (
            f"The pull request is a draft; the workflow {inputs.workflow} runs when it is ready."
        )
    is_blocking = inputs.mode == "block"
    refusals = check.refuse(reason, blocks=is_blocking, draft=True)
    runner.summarize(f"### vibe-gate: {HEADLINE}\n\n{reason}\n\n**Next:** {READY}.")
    runner.output(verdict="inconclusive", cost_usd="0")
    level = "error" if is_blocking else "warning"
    token = f"vibe-gate-{secrets.token_hex(16)}"
    log = guard_log_text("\n".join(map(safe, refusals)), token)
    return f"::{level} title=vibe-gate::{HEADLINE}. {reason}\n{log}"


def _commits(job: Job) -> tuple[Commit, ...]:
    """All compared commits; () if there are too many, or they are not here."""
    with open_repository(job.runner.start, job.environment) as repository:
        try:
            names = repository.span(job.compared.before, job.compared.head)
        except IntegrityError:
            return ()
        if len(names) >= MAX_COMMITS:
            return ()
        return tuple(repository.commit(name) for name in names)


def _read_labels(job: Job) -> str:
    """Have the shared state know what people say of findings of this pull request; a sentence if
    that failed.
    """
    number = job.trigger.number or job.trigger.queued
    try:
        labels: tuple[Label, ...] = ()
        if job.forge is not None and number is not None:
            labels = collect_labels(job.forge, number, job.inputs.name)
        open_state(job.common_dir).labels.put_from_forge(labels)
    except (ForgeError, StorageError) as error:
        return f"What people say of findings could not be read: {error}"
    return ""


def _standing(job: Job, finished: Review, overrides: Sequence[Waiver]) -> Standing:
    """How the verdict about this change is left for later jobs, and found again."""
    model = ""
    if finished.gate:
        model = finished.gate.default_model(job.environment)
    number = job.trigger.number
    pull = f"{job.trigger.repository}#{number or 0}"
    today = job.runner.clock().date()
    subject = digest_subject(pull, finished, job.inputs, model, overrides, today)
    key = signing_key(job.environment.variables)
    return Standing(job.runner, job.inputs, job.compared.head, subject, key, number)


def _review(
    job: Job, approvals: Approvals, overrides: tuple[Waiver, ...], issues: ClosedIssues
) -> tuple[Review, WorkflowRun | None]:
    """The review, and the workflow's run if it was one's; a recheck runs no workflow."""
    shows_repairs = job.suggests and job.inputs.posts_lines
    request = ReviewRequest(
        selection=Selection("range", job.compared.before, job.compared.head),
        rubrics=job.inputs.rubrics,
        judge=_judge_wish(job),
        base=job.compared.trusted,
        max_cost_usd=job.inputs.max_cost_usd,
        forge=ForgeJob(approvals, overrides, issues, shows_repairs=shows_repairs),
        wire=read_wire(job.environment.variables),
        mode=_mode(job),
    )
    is_workflow = job.inputs.workflow != "review"
    if is_workflow and not job.trigger.reviewed:
        workflow_run = _run_workflow(job, request)
        return workflow_run.review, workflow_run
    with progress.display_progress(job.environment) as display:
        start, clock = job.runner.start, job.runner.clock
        walk = review_around(
            request, start=start, environment=job.environment, clock=clock, progress=display.show
        )
        finished = progress.run_walk(walk)
    if is_workflow:
        finished = keep_approvals_alone(finished, job.inputs.workflow)
    return finished, None


def _judge_wish(job: Job) -> JudgeWish:
    """When the judge is asked; a recheck of a workflow's pull request has no rubrics of its own."""
    is_recheck = job.inputs.workflow != "review" and job.trigger.reviewed
    if not job.inputs.judge or is_recheck:
        return "never"
    if job.inputs.ask_anyway:
        return "always"
    return "if checks pass"


def _mode(job: Job) -> Mode:
    """What the job asks: a draft and a review of the pull request ask nothing new."""
    if job.draft:
        return DraftMode()
    if job.trigger.reviewed:
        return RecheckMode()
    return LiveMode()


def _run_workflow(job: Job, request: ReviewRequest) -> WorkflowRun:
    """Review with a workflow: its rubric stages give the verdict; what its agents made is
    suggested.
    """
    run_request = RunRequest(review=request, workflow=job.inputs.workflow, reviewing=True)
    start, clock = job.runner.start, job.runner.clock
    with progress.display_progress(job.environment, of_workflow=True) as display:
        walk = walk_workflow(
            run_request,
            start=start,
            environment=job.environment,
            clock=clock,
            listeners=Listeners(display.show),
        )
        return progress.run_walk(walk)


def _replay(job: Job, finished: Review) -> Replayed:
    """What the change's own rubrics would have said of earlier runs, if that is wanted and it edits
    them.
    """
    summary = finished.summary
    if not job.inputs.replay or not _may_replay(job):
        return Replayed()
    if not summary.run_id or not edits_rubrics(summary):
        return Replayed()
    archives = job.inputs.replay_from
    try:
        with open_repository(job.runner.start, job.environment) as repository:
            return replay_history(
                summary,
                job.inputs,
                repository,
                store_url=finished.gate.store_url if finished.gate else "",
                archives=job.runner.start / archives if archives else None,
                clock=job.runner.clock,
                credentials=job.credentials,
            )
    except GateError as error:
        return Replayed(notes=(f"No earlier run was replayed: {error}",))


def _may_replay(job: Job) -> bool:
    """Whether it is a pull request of this repository that is ready for review."""
    trigger = job.trigger
    if trigger.number is None or trigger.fork:
        return False
    return not trigger.reviewed and not job.draft


def _report_failure(runner: Runner, error: GateError, mode: BlockMode, check: JobCheck) -> int:
    """Report a job without a verdict in its log and summary, on GitHub, and by its exit code."""
    for line in str(error).splitlines() or ["stopped."]:
        runner.command("error", f"vibe-gate: {line}")
    runner.refuse("vibe-gate could not review this", error)
    runner.output(verdict="error")
    exit_code = error.exit_code
    if exit_code != USAGE:
        exit_code = _exit_code(runner, exit_code, mode)
    for sentence in check.refuse(str(error), blocks=exit_code != PASS):
        runner.command("warning", f"vibe-gate: {sentence}")
    return exit_code


def _exit_code(runner: Runner, code: int, mode: BlockMode) -> int:
    """The job's exit code: 0 with a warning in the mode `warn`."""
    if code == PASS or mode == "block":
        return code
    runner.command("warning", f"vibe-gate: exit code {code}, let pass because of `mode: warn`.")
    return PASS
