"""THE WALK: a change comes in, a verdict with evidence goes out. Read this first.

    request -> Change -> Gate at the trusted revision -> rubrics, or nothing to do
            -> bundle -> checks -> judges -> verdict -> Summary, sealed

The faces differ only in where the change comes from and where the summary goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from vibe_gate import __version__
from vibe_gate.checks import CheckResults, run_checks
from vibe_gate.domain import paths
from vibe_gate.domain.change import Change
from vibe_gate.domain.context import ReviewRequest, ReviewSubject, RunContext
from vibe_gate.domain.escape import counted
from vibe_gate.domain.gate import Budget, Gate
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import GateError, InfrastructureError
from vibe_gate.gate import trust
from vibe_gate.gate.authorship import Authorship
from vibe_gate.git import Repository, open_repository
from vibe_gate.judging import Deadline, assemble
from vibe_gate.judging.assemble import JudgeResult, RunVerdict, assemble_verdict
from vibe_gate.receipts.issue import ReceiptIssuer
from vibe_gate.secrets import Redactor
from vibe_gate.store import STORE, State, captures, open_state, open_store

if TYPE_CHECKING:
    from vibe_gate.judging.judge import JudgeContext

__all__ = ["Progress", "Review", "ReviewRequest", "review", "review_in"]


class Progress(Protocol):
    """Hears what the walk is doing; `stage` is change, checks, judge or seal."""

    def __call__(self, stage: str, text: str) -> None:
        """Tell people."""
        ...


@dataclass(frozen=True, slots=True)
class Review:
    """The outcome. `notes` are sentences for people; `summary.exit_code` is the process's; `gate` was in force."""

    summary: Summary
    notes: tuple[str, ...] = ()
    gate: Gate | None = None


async def review(
    request: ReviewRequest,
    *,
    start: Path,
    environ: Mapping[str, str],
    clock: Callable[[], datetime],
    progress: Progress,
) -> Review:
    """Review one change of the repository around `start`.

    Raises GateError: UsageError and its kinds for what cannot be understood, GatewayError for a wire that is set up
    wrongly. A model that cannot be reached is no error but an outcome.
    """
    with open_repository(start, environ) as repository:
        return await review_in(repository, request, environ=environ, clock=clock, progress=progress)


async def review_in(
    repository: Repository,
    request: ReviewRequest,
    *,
    environ: Mapping[str, str],
    clock: Callable[[], datetime],
    progress: Progress,
    state: State | None = None,
) -> Review:
    """`review` in a repository that is open already, with its shared state if that is open, too."""
    began, state = time.monotonic(), state or open_state(repository.common_dir)
    progress("change", "reading the change")
    with Deadline(began, request.deadline_s or Budget().deadline_s).interrupting(grace_s=0):
        change = repository.change(request.selection)
        if not change.files:
            return Review(assemble.nothing(change), repository.remarks)
        gate = trust.gate_for(repository, change, base=request.base, definitions=request.definitions)
        rubrics = trust.chosen(gate, change, request.rubrics)
        redactor = Redactor(environ)
        store = open_store(repository.root, redactor, clock, lambda: repository.tracked(STORE))
        commits = repository.commits(change)
        if request.stage and not change.head_commit:
            commits = (repository.pending_commit(request.message),)
        _, unread = captures.fold(state, store.captures(), redactor, clock())
        authored = Authorship(repository, environ, state, unread=unread).of(change, commits)
        message = "\n\n".join(commit.message.strip() for commit in reversed(commits))
        versions = {name: version(name) for name in ("claude-agent-sdk",)} | {"vibe-gate": __version__}
        record = store.begin(change.key, clock(), assemble.about(change, gate, rubrics, versions))
    deadline = Deadline(began, request.deadline_s or gate.file.budget.deadline_s)
    run = RunContext(record, redactor, deadline, clock, environ, state)
    try:
        done = await _carry_out(
            request, ReviewSubject(change, gate, rubrics, message, authored), repository, run, progress
        )
    except BaseException as error:
        # Interrupted or broken: what was written until now stays, marked, and is never read as a verdict.
        record.abandon(str(error) if isinstance(error, GateError) else type(error).__name__)
        raise
    if not record.lost:
        with suppress(InfrastructureError):  # a store that cannot be cleaned is no reason to lose a verdict
            store.clean_if_due(gate.file.retention)
    return done


async def _carry_out(
    request: ReviewRequest, subject: ReviewSubject, repository: Repository, run: RunContext, progress: Progress
) -> Review:
    change, gate = subject.change, subject.gate
    with run.deadline.interrupting():
        criteria = counted(sum(len(rubric.criterion) for rubric in subject.rubrics), "criterion", "criteria")
        progress("checks", f"{counted(len(change.files), 'file')}, {criteria}")
        _keep_contents(repository, change, run)
        checks = run_checks(subject.rubrics, change, gate.file.policy.block, repository, run)
        impact = trust.policy_impact(change, gate, run.environ, repository.read)
        waivers = trust.waivers(run.state, gate, run.environ, run.clock().date())
        waivers = trust.approved(waivers, impact, request.approval)
        answers = assemble.without_asking(request, subject, checks, waivers)
    if answers is None:
        from vibe_gate.judging.judge import JudgeContext  # most reviews at a commit ask no judge

        context = JudgeContext.of(request, subject, repository, run)
        answers = _reused(request, subject, context, checks) or await _ask(request, subject, context, progress)
    with run.deadline.interrupting():
        progress("seal", "writing the verdict")
        intact = answers.intact and _is_still_there(repository, change)
        verdict = assemble_verdict(change, subject.rubrics, checks, answers, waivers, impact, intact=intact)
        changes = trust.policy_changes(impact, partial(repository.file_patch, change))
        summary = assemble.summarize(subject, run, answers, verdict, changes)
        issuer = ReceiptIssuer(repository, change, gate, run, summary, answers, impact.fingerprint, verdict.waivers)
        summary = _seal(run, summary, verdict, issuer)
        expired = waivers.remarks(summary.findings, [file.path for file in change.files])
        notes = (*repository.remarks, *assemble.notes(run, answers, checks, verdict), *expired, issuer.note)
        return Review(summary, tuple(run.redactor.text(note) for note in notes if note), gate)


def _keep_contents(repository: Repository, change: Change, run: RunContext) -> None:
    """The change itself goes into the bundle first: whatever happens later, it says what was reviewed.

    Contents come before the patch: of a secret whose name is on another line they alone teach the redactor.
    """
    for file in change.files:
        if file.before is not None:
            run.record.content("before", repository.read(file.before), paths.quote(file.old_name))
        if file.after is not None:
            run.record.content("after", repository.read(file.after), file.shown_path)
    run.record.patch(repository.patch(change))


def _reused(
    request: ReviewRequest, subject: ReviewSubject, context: JudgeContext, checks: CheckResults
) -> JudgeResult | None:
    """A pass that somebody else signed for exactly this question, if the request takes one over."""
    if not request.reuse or request.force:
        return None
    if not all(assemble.passes_by_checks(rubric, subject.change, checks) for rubric in subject.judged):
        return None
    from vibe_gate.receipts.reuse import reused

    with context.run.deadline.interrupting():
        return reused(context, subject.gate, subject.rubrics, request)


async def _ask(
    request: ReviewRequest, subject: ReviewSubject, context: JudgeContext, progress: Progress
) -> JudgeResult:
    from vibe_gate.judging.judge import judge

    return await judge(context, subject.judged, request, partial(progress, "judge"))


def _is_still_there(repository: Repository, change: Change) -> bool:
    """Whether the reviewed tree is what the index or working tree holds now."""
    if change.kind == "worktree":
        return repository.snapshot() == change.after
    if change.kind == "staged":
        return repository.index_tree() == change.after
    return True


def _seal(run: RunContext, summary: Summary, verdict: RunVerdict, issuer: ReceiptIssuer) -> Summary:
    """Write the verdict down; the summary comes back as it may be shown."""
    run.record.event("verdict.decided", outcome=summary.outcome, exit_code=summary.exit_code)
    for waiver in verdict.waivers:
        run.record.event("override.recorded", **waiver.model_dump(mode="json"))
    run.record.seal(summary, issuer)
    shown = assemble.redacted(summary, run.redactor.value)
    return shown.model_copy(update={"bundle": ""}) if run.record.lost else shown
